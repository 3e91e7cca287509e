//! Enough commands of other types to give keys the wrong type.
//!
//! Every line is optional: it is used as soon as the server under test has the command. Then all
//! commands on strings meet lists and hashes.

use super::rule::{Rule, optional, rule};
use crate::compare::Compare::{As, Exact};
use crate::compare::pairs;

pub const RULES: &[Rule] = &[
    optional(10, "RPUSH <key> <member>...", Exact),
    optional(5, "LPOP <key> [<count>]", Exact),
    optional(5, "LRANGE <key> <index> <index>", Exact),
    optional(10, "HSET <key> (<member> <value>)...", Exact),
    optional(5, "HGETALL <key>", As(pairs)),
    rule(10, "SADD <key> <member>...", Exact),
    rule(10, "ZADD <key> (<int> <member>)...", Exact),
    optional(3, "XADD <key=a> 1-1 <member> <value> ; XLEN <a>", Exact),
    optional(2, "LPUSH lcs1 <member> ; LCS lcs1 lcs2 ; DEL lcs1", Exact),
    optional(3, "MULTI ; SET <key=a> <value> ; INCR <a> ; GET <key> ; EXEC", Exact),
    optional(2, "MULTI ; SET <key=a> ; GET <a> ; EXEC", Exact),
    optional(2, "MULTI ; SET <key> <value> ; DISCARD", Exact),
];

//! Transactions: MULTI, EXEC, DISCARD, WATCH, UNWATCH, with commands of other clients in between.
//!
//! A rule that opens a transaction also ends it, and is never made invalid: the marks by which the
//! harness finds the end of the replies would be queued too.

use super::rule::{Rule, fixed, optional_fixed, rule};
use crate::compare::Compare::Exact;

pub const RULES: &[Rule] = &[
    rule(20, "EXEC", Exact),
    rule(10, "DISCARD", Exact),
    rule(10, "WATCH <key>...", Exact),
    rule(5, "UNWATCH", Exact),
    fixed(
        20,
        "MULTI ; SET <key=a> <value> ; INCR <a> ; GET <key> ; APPEND <a> <value> ; EXEC",
        Exact,
    ),
    fixed(10, "MULTI ; MSET (<key> <value>)... ; MGET <key>... ; DEL <key>... ; EXEC", Exact),
    fixed(10, "MULTI ; SET <key=a> ; GET <a> ; EXEC", Exact),
    fixed(10, "MULTI ; <word> <key> ; EXEC", Exact),
    fixed(
        10,
        "MULTI ; INCR <key=a> ; RENAME <a> <key> ; EXISTS <a> ; COPY <key> <key> ; EXEC",
        Exact,
    ),
    fixed(
        10,
        "MULTI ; SELECT <db> ; SET <key> <value> ; EXISTS <key> ; SELECT <db> ; GET <key> ; EXEC",
        Exact,
    ),
    fixed(10, "WATCH <key=a> ; SET <a> <value> ; MULTI ; GET <a> ; EXEC", Exact),
    fixed(
        10,
        "WATCH <key=a> ; GET <a> ; MULTI ; SET <a> <value> ; EXEC ; MULTI ; GET <a> ; EXEC",
        Exact,
    ),
    fixed(10, "WATCH <key=a> <key=b> ; DEL <b> ; UNWATCH ; MULTI ; SET <a> <value> ; EXEC", Exact),
    fixed(5, "WATCH <key=a> ; EXPIRE <a> <secs> ; MULTI ; PERSIST <key> ; EXEC", Exact),
    fixed(
        3,
        "SET <key=a> 1 PX 1 ; WATCH <a> ; @sleep ; MULTI ; EXISTS <a> ; EXEC ; GET <a>",
        Exact,
    ),
    fixed(
        3,
        "SET <key=a> 1 PX 1 ; @sleep ; WATCH <a> ; MULTI ; EXISTS <a> ; EXEC ; GET <a>",
        Exact,
    ),
    fixed(5, "WATCH <key=a> ; SELECT <db> ; SET <a> <value> ; MULTI ; PING ; EXEC", Exact),
    fixed(5, "WATCH <key=a> ; RENAME <key> <a> ; MULTI ; GET <a> ; EXEC", Exact),
    fixed(5, "WATCH <key=a> ; MOVE <a> <db> ; MULTI ; GET <a> ; EXEC", Exact),
    fixed(5, "WATCH <key=a> ; COPY <key> <a> REPLACE ; MULTI ; GET <a> ; EXEC", Exact),
    fixed(5, "WATCH <key=a> ; FLUSHDB ; MULTI ; GET <a> ; EXEC", Exact),
    fixed(5, "WATCH <key=a> ; SWAPDB <db> <db> ; MULTI ; GET <a> ; EXEC", Exact),
    fixed(5, "WATCH <key=a> ; PERSIST <a> ; MULTI ; GET <a> ; EXEC", Exact),
    fixed(
        5,
        "MULTI ; FLUSHALL ; SET <key=a> <value> ; KEYS * ; SWAPDB <db> <db> ; RANDOMKEY ; EXEC",
        crate::compare::Compare::Shape,
    ),
    fixed(
        5,
        "MULTI ; SET <key=a> <value> PX 1 ; GET <a> ; OBJECT ENCODING <a> ; EXEC ; @sleep ; GET <a>",
        Exact,
    ),
    fixed(5, "MULTI ; WATCH <key> ; MULTI ; EXEC ; EXEC", Exact),
    fixed(5, "MULTI ; EXEC <word> ; EXEC", Exact),
    fixed(5, "MULTI ; DISCARD <word> ; UNWATCH <word> ; EXEC", Exact),
    fixed(5, "MULTI ; SET <key> <value> ; RESET ; EXEC", Exact),
    fixed(3, "MULTI ; CONFIG SET maxmemory-policy <word> ; ECHO <value> ; PING ; EXEC", Exact),
    optional_fixed(
        5,
        "MULTI ; RPUSH <key=a> <member>... ; BLPOP <a> 0 ; BLPOP <key> 0 ; EXEC",
        Exact,
    ),
    optional_fixed(
        5,
        "MULTI ; LPUSH <key=a> <member> ; INCR <a> ; LPOP <a> ; LPOP <a> ; EXEC",
        Exact,
    ),
    optional_fixed(5, "WATCH <key=a> ; RPUSH <a> <member> ; MULTI ; LRANGE <a> 0 -1 ; EXEC", Exact),
    optional_fixed(5, "WATCH <key=a> ; HDEL <a> <member> ; MULTI ; HLEN <a> ; EXEC", Exact),
    optional_fixed(5, "WATCH <key=a> ; SADD <a> <member> ; MULTI ; SCARD <a> ; EXEC", Exact),
    optional_fixed(5, "WATCH <key=a> ; ZREM <a> <member> ; MULTI ; ZCARD <a> ; EXEC", Exact),
];

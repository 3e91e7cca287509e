//! Commands on sets.
//!
//! The members that SPOP removes differ between servers. So it runs only on sets of one member, on
//! sets that it removes as a whole, and on sets that a script makes and deletes again. The scripts'
//! sets have members of one kind, so that the encoding of the rest doesn't depend on chance.
//!
//! The limits of the small encodings are lowered often, so that a few commands cross them. The
//! limit of an intset is always at least that of a listpack: otherwise the encoding of a stored
//! union would depend on the order of a hash table's members.

use super::rule::{Rule, fixed, rule};
use crate::compare::Compare::{As, Exact};
use crate::compare::{how_many, unordered, whole_scan};

pub const RULES: &[Rule] = &[
    rule(120, "SADD <setkey> <setmember>...", Exact),
    rule(40, "SADD <setkey> <setint>...", Exact),
    rule(
        20,
        "SADD <setkey> <setmember> <setmember> <setmember> <setmember> <setmember> <setmember> <setmember> <setmember> <setmember>",
        Exact,
    ),
    rule(10, "SADD <key> <setmember>", Exact),
    rule(20, "SCARD <setkey>", Exact),
    rule(60, "SREM <setkey> <setmember>...", Exact),
    rule(10, "SREM <setkey> <setint>...", Exact),
    rule(25, "SISMEMBER <setkey> <setmember>", Exact),
    rule(20, "SMISMEMBER <setkey> <setmember>...", Exact),
    rule(30, "SMEMBERS <setkey>", As(unordered)),
    rule(40, "SMOVE <setkey> <setkey> <setmember>", Exact),
    rule(5, "SMOVE <setkey=a> <a> <setmember>", Exact),
    rule(30, "SUNION <setkey>...", As(unordered)),
    rule(30, "SINTER <setkey>...", As(unordered)),
    rule(30, "SDIFF <setkey>...", As(unordered)),
    rule(30, "SUNIONSTORE <setkey> <setkey>...", Exact),
    rule(30, "SINTERSTORE <setkey> <setkey>...", Exact),
    rule(30, "SDIFFSTORE <setkey> <setkey>...", Exact),
    rule(
        20,
        "SDIFFSTORE \"s9\" <setkey> <setkey>... ; OBJECT ENCODING \"s9\" ; SMEMBERS \"s9\"",
        Exact,
    ),
    rule(
        20,
        "SUNIONSTORE \"s9\" <setkey> <setkey>... ; OBJECT ENCODING \"s9\" ; SMEMBERS \"s9\"",
        Exact,
    ),
    rule(
        20,
        "SINTERSTORE \"s9\" <setkey> <setkey>... ; OBJECT ENCODING \"s9\" ; SMEMBERS \"s9\"",
        Exact,
    ),
    rule(30, "SINTERCARD <numkeys> <setkey>... [LIMIT <count>]", Exact),
    rule(3, "SINTERCARD <numkeys> <setkey>... {[LIMIT <count>] [LIMIT <badint>] [<word>]}", Exact),
    rule(3, "SINTERCARD <badint> <setkey>... [LIMIT <count>]", Exact),
    // The count is larger than any set here, so that all servers answer in one step.
    fixed(20, "SSCAN <setkey> 0 COUNT 1000", As(whole_scan)),
    fixed(10, "SSCAN <setkey> 0 {[MATCH (m1*|*|?|-*|\"\"|<pattern>)] COUNT 1000}", As(whole_scan)),
    fixed(3, "SSCAN <setkey> 0 {[COUNT <badint>] [MATCH m*] (COUNT|MATCH|TYPE set|<word>)}", Exact),
    fixed(3, "SSCAN <setkey> (0|<badint>) (NOVALUES|NOSCORES|COUNT 0|COUNT -1)", Exact),
    fixed(3, "SSCAN <setkey> (abc|\"\"|1.5|99999999999999999999) [COUNT 1000]", Exact),
    fixed(
        3,
        "SSCAN (<key> (0|abc)|\"never-a-set\" (0|17|abc)) (COUNT 1000|<word>)",
        As(whole_scan),
    ),
    fixed(5, "SRANDMEMBER <setkey>", As(how_many)),
    fixed(10, "SRANDMEMBER <setkey> (0|1|2|3|5|10|1000|-1|-2|-10|-100)", As(how_many)),
    fixed(
        3,
        "SRANDMEMBER <setkey> (abc|\"\"|1.5|-9223372036854775808|9223372036854775808|<count> <word>)",
        Exact,
    ),
    rule(
        5,
        "DEL <setkey=a> ; SADD <a> 1 2 x ; SRANDMEMBER <a> 3 ; SRANDMEMBER <a> 2 ; SRANDMEMBER <a> -5",
        Exact,
    ),
    fixed(3, "SPOP \"never-a-set\" [<count>|<badint>|<count> <word>]", As(how_many)),
    fixed(3, "SET \"not-a-set\" v ; SPOP \"not-a-set\" (1|-1|0|abc|1 2)", Exact),
    fixed(
        1,
        "SET \"not-a-set\" v ; SPOP \"not-a-set\" ; SRANDMEMBER \"not-a-set\" ; SRANDMEMBER \"not-a-set\" 0",
        Exact,
    ),
    fixed(5, "SPOP <setkey> (0|-1|abc|\"\"|1 2|1000)", As(how_many)),
    fixed(10, "DEL <setkey=a> ; SADD <a> <setmember> ; SPOP <a> [1|2] ; EXISTS <a>", Exact),
    fixed(
        10,
        "DEL \"s9\" ; SADD \"s9\" (1 2 3 4 5 6|a b c d e f|1 b 3 d 5 f) ; PEXPIRE \"s9\" <ms> ; SPOP \"s9\" [0|1|3|4|5|6|9] ; \
         SCARD \"s9\" ; OBJECT ENCODING \"s9\" ; PTTL \"s9\" ; DEL \"s9\"",
        Exact,
    ),
    fixed(
        10,
        "DEL \"s9\" ; SADD \"s9\" a b c d e f g h i j k l m n o p q r s t ; SPOP \"s9\" (1|2|10|15|16|17|18|19|20) ; \
         OBJECT ENCODING \"s9\" ; SCARD \"s9\" ; DEL \"s9\"",
        Exact,
    ),
    fixed(5, "CONFIG SET set-max-intset-entries 8 set-max-listpack-entries 4", Exact),
    fixed(5, "CONFIG SET set-max-intset-entries 16 set-max-listpack-entries 16", Exact),
    fixed(5, "CONFIG SET set-max-intset-entries 4 set-max-listpack-entries 0", Exact),
    fixed(3, "CONFIG SET set-max-intset-entries 0 set-max-listpack-entries 0", Exact),
    fixed(5, "CONFIG SET set-max-intset-entries 512 set-max-listpack-entries 128", Exact),
    fixed(5, "CONFIG SET set-max-listpack-value (4|5|64)", Exact),
    rule(30, "OBJECT ENCODING <setkey>", Exact),
    rule(15, "COPY <setkey> <setkey> [REPLACE]", Exact),
    rule(
        5,
        "COPY <setkey=a> \"s8\" REPLACE ; OBJECT ENCODING \"s8\" ; SADD \"s8\" new ; SMEMBERS <a> ; SMEMBERS \"s8\"",
        Exact,
    ),
    rule(5, "RENAME <setkey> <setkey>", Exact),
    rule(3, "MOVE <setkey> <db>", Exact),
    rule(10, "DEL <setkey>", Exact),
    rule(
        5,
        "PEXPIRE <setkey=a> <ms> ; SADD <a> <setmember> ; SREM <a> <setmember> ; PTTL <a>",
        Exact,
    ),
    rule(5, "EXPIRE <setkey> <secs>", Exact),
    rule(
        1,
        "PEXPIRE <setkey=a> 1 ; @sleep ; SADD <a> <setmember> ; SMEMBERS <a> ; PTTL <a>",
        Exact,
    ),
    rule(
        1,
        "PEXPIRE <setkey=a> 1 ; @sleep ; SUNION <a> <setkey> ; SINTERSTORE <setkey> <a> <setkey>",
        Exact,
    ),
    rule(
        1,
        "PEXPIRE <setkey=a> 1 ; @sleep ; SMOVE <a> <setkey=b> m1 ; SMOVE <b> <a> m2 ; SSCAN <a> 0 COUNT 1000",
        Exact,
    ),
    rule(5, "TYPE <setkey>", Exact),
    rule(10, "SET <setkey> v", Exact),
    rule(10, "DEBUG DIGEST-VALUE <setkey>...", Exact),
    rule(2, "DEBUG DIGEST", Exact),
];

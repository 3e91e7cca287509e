//! Commands for keys of any type.

use super::rule::{Rule, fixed, rule};
use crate::compare::Compare::{As, Exact, Near, Shape};
use crate::compare::{scan, unordered};

/// The largest difference between two clocks: the servers get commands one after the other, on a
/// busy machine.
const SECONDS: i64 = 5;
const MILLIS: i64 = SECONDS * 1000;

pub const RULES: &[Rule] = &[
    rule(20, "COPY <key> <key> {[DB <db>] [REPLACE]}", Exact),
    rule(15, "DEL <key>...", Exact),
    rule(15, "EXISTS <key>...", Exact),
    rule(20, "EXPIRE <key> <secs> [NX|XX|GT|LT]", Exact),
    rule(3, "EXPIRE <key> <secs> {[NX] [XX] [GT] [LT]}", Exact),
    rule(10, "EXPIREAT <key> <at> [NX|XX|GT|LT]", Exact),
    rule(10, "EXPIRETIME <key>", Near(SECONDS)),
    rule(10, "PEXPIRE <key> <ms> [NX|XX|GT|LT]", Exact),
    rule(10, "PEXPIREAT <key> <atms> [NX|XX|GT|LT]", Exact),
    rule(10, "PEXPIRETIME <key>", Near(MILLIS)),
    rule(1, "PEXPIRE <key=a> 1 ; @sleep ; EXISTS <a> ; TTL <a> ; TYPE <a>", Exact),
    rule(
        1,
        "PEXPIRE <key=a> 1 ; @sleep ; COPY <a> <key=b> REPLACE ; RENAME <a> <b> ; PERSIST <a> ; MOVE <a> <db>",
        Exact,
    ),
    rule(1, "PEXPIRE <key=a> 1 ; @sleep ; KEYS * ; DEL <a> ; OBJECT ENCODING <a>", Exact),
    rule(5, "KEYS <pattern>", As(unordered)),
    rule(10, "MOVE <key> <db>", Exact),
    rule(15, "OBJECT ENCODING <key>", Exact),
    rule(1, "OBJECT FREQ <key>", Shape),
    rule(1, "OBJECT HELP", Shape),
    rule(3, "OBJECT IDLETIME <key>", Near(SECONDS)),
    // The reference also counts a reply that isn't written yet.
    rule(3, "OBJECT REFCOUNT <key>", Shape),
    rule(1, "OBJECT <word> <key>", Exact),
    rule(10, "PERSIST <key>", Exact),
    rule(10, "PTTL <key>", Near(MILLIS)),
    rule(10, "TTL <key>", Near(SECONDS)),
    rule(3, "RANDOMKEY", Shape),
    rule(15, "RENAME <key> <key>", Exact),
    rule(10, "RENAMENX <key> <key>", Exact),
    rule(10, "SCAN <cursor> {[MATCH <pattern>] [COUNT <count>] [TYPE <type>]}", As(scan)),
    fixed(
        3,
        "DEL <key=a> ; SADD <a> <member>... ; SORT_RO <a> ALPHA {[DESC] [LIMIT <index> <index>]}",
        Exact,
    ),
    fixed(3, "SET <key=a> <value> ; SORT <a> ; SORT_RO <a> ALPHA", Exact),
    fixed(
        5,
        "DEL <key=a> ; RPUSH <a> <int>... ; SORT <a> {[ASC|DESC] [ALPHA] [LIMIT <index> <index>] [STORE <key>] [GET #]}",
        Exact,
    ),
    fixed(
        3,
        "DEL <key=a> ; RPUSH <a> 1 2 3 4 ; MSET k1 9 k2 8 k3 7 ; SORT <a> {[BY k*] [GET k*] [GET #] [DESC] [LIMIT 0 <index>]}",
        Exact,
    ),
    fixed(3, "SORT <key> <word> {[STORE] [BY] [GET] [LIMIT <int>] [<word>]}", Exact),
    rule(5, "TOUCH <key>...", Exact),
    rule(10, "TYPE <key>", Exact),
    rule(10, "UNLINK <key>...", Exact),
];

//! DUMP, RESTORE, MIGRATE.
//!
//! Replies of DUMP are not compared, since encodings and the order of hash tables differ.
//! `tests/dump.rs` checks with all peers that they can be restored.
//! [`payloads`](crate::payloads) makes the arguments of RESTORE; the resulting value is read
//! and then changed.

use super::rule::{Rule, fixed, optional_fixed, rule};
use crate::compare::Compare::{Exact, Shape};

pub const RULES: &[Rule] = &[
    rule(30, "DUMP <dumpkey>", Shape),
    rule(100, "RESTORE <dumpkey> (0|<ms>) <payload> [REPLACE]", Exact),
    rule(20, "RESTORE <dumpkey> (0|<ms>) <payload> {[REPLACE] [ABSTTL]}", Exact),
    fixed(20, "RESTORE <dumpkey> <atms> <payload> {[REPLACE] ABSTTL}", Exact),
    fixed(
        30,
        "RESTORE <dumpkey=a> 0 <payload> {[REPLACE] (IDLETIME <idleness>|FREQ <idleness>|IDLETIME 1 FREQ 1)}",
        Exact,
    ),
    fixed(
        10,
        "RESTORE <dumpkey=a> 0 <payload> REPLACE IDLETIME (0|5|1000000|16777217) ; OBJECT IDLETIME <a>",
        Exact,
    ),
    rule(10, "RESTORE <dumpkey> <int> <value> [REPLACE]", Exact),
    rule(10, "RESTORE-ASKING <dumpkey> 0 <payload> [REPLACE]", Exact),
    fixed(
        100,
        "RESTORE <dumpkey=a> 0 <payload> REPLACE ; TYPE <a> ; OBJECT ENCODING <a> ; GET <a> ; LRANGE <a> 0 -1 ; \
         SMEMBERS <a> ; ZRANGE <a> 0 -1 WITHSCORES ; HGETALL <a> ; HPEXPIRETIME <a> FIELDS 2 m0 m1",
        Exact,
    ),
    fixed(
        150,
        "RESTORE \"spoilt\" 0 <badpayload> REPLACE ; TYPE \"spoilt\" ; OBJECT ENCODING \"spoilt\" ; GET \"spoilt\" ; \
         LRANGE \"spoilt\" 0 -1 ; SMEMBERS \"spoilt\" ; HGETALL \"spoilt\" ; DEL \"spoilt\"",
        Exact,
    ),
    fixed(
        60,
        "RESTORE <dumpkey=a> 0 <payload> REPLACE ; APPEND <a> x ; LPUSH <a> <element> ; RPOP <a> ; LSET <a> 0 <element> ; \
         LINSERT <a> BEFORE hello <element> ; LREM <a> 1 a ; OBJECT ENCODING <a> ; LRANGE <a> 0 -1",
        Exact,
    ),
    fixed(
        60,
        "RESTORE <dumpkey=a> 0 <payload> REPLACE ; SADD <a> <setmember> ; SREM <a> m1 ; ZADD <a> <int> <zmember> ; \
         ZREM <a> m1 ; HSET <a> <field> <value> ; HDEL <a> m1 ; OBJECT ENCODING <a> ; SCARD <a> ; ZCARD <a> ; HLEN <a> ; \
         ZRANGE <a> 0 -1",
        Exact,
    ),
    fixed(
        20,
        "RESTORE <dumpkey=a> 0 <payload> REPLACE ; COPY <a> <dumpkey=b> REPLACE ; OBJECT ENCODING <b> ; DUMP <b>",
        Exact,
    ),
    rule(20, "DEL <dumpkey>", Exact),
    rule(10, "EXISTS <dumpkey>", Exact),
    rule(10, "PTTL <dumpkey>", Exact),
    fixed(10, "PEXPIRE <dumpkey=a> 1 ; @sleep ; RESTORE <a> 0 <payload> ; DUMP <a>", Exact),
    optional_fixed(10, "MULTI ; RESTORE <dumpkey=a> 0 <payload> REPLACE ; TYPE <a> ; EXEC", Exact),
    optional_fixed(
        10,
        "WATCH <dumpkey=a> ; RESTORE <a> 0 <payload> [REPLACE] ; MULTI ; TYPE <a> ; EXEC",
        Exact,
    ),
    // No server listens there.
    fixed(
        10,
        "MIGRATE 127.0.0.1 1 (<dumpkey>|\"no-such-key\") <db> (1000|0|-5) {[COPY] [REPLACE] [AUTH pass|AUTH2 user pass]}",
        Exact,
    ),
    fixed(
        10,
        "MIGRATE 127.0.0.1 1 \"\" 0 1000 {[COPY] [AUTH keys]} KEYS (<dumpkey>|\"no-such-key\")...",
        Exact,
    ),
    fixed(5, "MIGRATE 127.0.0.1 1 \"no-such-key\" <badint> <badint> [<word>]", Exact),
    fixed(
        5,
        "MIGRATE 127.0.0.1 1 (<dumpkey>|\"\") 0 1000 [COPY] (KEYS|KEYS a|AUTH|AUTH2 a|AUTH2|<word>|COPY)",
        Exact,
    ),
    fixed(
        5,
        "COMMAND GETKEYS MIGRATE h 1 (\"\"|a) 0 1000 {[COPY] [AUTH keys] [AUTH2 keys keys]} [KEYS <key>...]",
        Exact,
    ),
];

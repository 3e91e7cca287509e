//! Commands on hashes.
//!
//! The limits of the packed form are lowered often, so that a few commands cross them. Lifetimes of
//! fields end at once or outlive the run. Scripts wait for those of a millisecond, while the
//! servers' active expiry is off, so that counts don't depend on its timing.

use super::rule::{Rule, fixed, rule};
use crate::compare::Compare::{As, Exact, Near};
use crate::compare::{how_many, pairs, unordered, whole_scan};

/// The largest difference between two clocks: the servers get commands one after the other, on a
/// busy machine.
const SECONDS: i64 = 5;
const MILLIS: i64 = SECONDS * 1000;

pub const RULES: &[Rule] = &[
    rule(100, "HSET <hashkey> (<field> <value>)...", Exact),
    rule(60, "HSET <hashkey> <field> <value>", Exact),
    rule(20, "HSET <hashkey> (<field> <int>)...", Exact),
    rule(10, "HSET <key> <field> <value>", Exact),
    rule(3, "HSET <hashkey> <field> <value> <field>", Exact),
    rule(3, "HMSET <hashkey> <field> <value> <field>", Exact),
    rule(20, "HMSET <hashkey> (<field> <value>)...", Exact),
    rule(30, "HSETNX <hashkey> <field> <value>", Exact),
    rule(40, "HGET <hashkey> <field>", Exact),
    rule(20, "HMGET <hashkey> <field>...", Exact),
    rule(30, "HGETALL <hashkey>", As(pairs)),
    rule(15, "HKEYS <hashkey>", As(unordered)),
    rule(15, "HVALS <hashkey>", As(unordered)),
    rule(20, "HLEN <hashkey>", Exact),
    rule(15, "HSTRLEN <hashkey> <field>", Exact),
    rule(15, "HEXISTS <hashkey> <field>", Exact),
    rule(50, "HDEL <hashkey> <field>...", Exact),
    rule(30, "HINCRBY <hashkey> <field> <int>", Exact),
    rule(5, "HINCRBY <hashkey> <field> <badint>", Exact),
    rule(20, "HINCRBYFLOAT <hashkey> <field> <float>", Exact),
    fixed(5, "HRANDFIELD <hashkey>", As(how_many)),
    fixed(10, "HRANDFIELD <hashkey> (0|1|2|3|5|10|1000|-1|-2|-10|-100) [WITHVALUES]", As(how_many)),
    fixed(
        3,
        "HRANDFIELD <hashkey> (abc|\"\"|1.5|-9223372036854775808|9223372036854775808|4611686018427387904|-4611686018427387904|<count>) (WITHVALUES|<word>|WITHVALUES <word>)",
        As(how_many),
    ),
    // The count is larger than any hash here, so that all servers answer in one step.
    fixed(20, "HSCAN <hashkey> 0 COUNT 1000", As(whole_scan)),
    fixed(10, "HSCAN <hashkey> 0 {[MATCH (f1*|*|?|-*|\"\"|<pattern>)] COUNT 1000}", As(whole_scan)),
    fixed(5, "HSCAN <hashkey> 0 {[MATCH f*] COUNT 1000 NOVALUES}", As(whole_scan)),
    fixed(
        3,
        "HSCAN <hashkey> 0 {[COUNT <badint>] [MATCH f*] (COUNT|MATCH|TYPE hash|<word>)}",
        Exact,
    ),
    fixed(3, "HSCAN <hashkey> (0|<badint>) (NOSCORES|COUNT 0|COUNT -1)", Exact),
    fixed(3, "HSCAN <hashkey> (abc|\"\"|1.5|99999999999999999999) [COUNT 1000]", Exact),
    fixed(3, "HSCAN \"never-a-hash\" (0|17|abc) (COUNT 1000|<word>)", Exact),
    fixed(5, "CONFIG SET hash-max-listpack-entries (0|1|2|4|8)", Exact),
    fixed(5, "CONFIG SET hash-max-listpack-entries 512", Exact),
    fixed(3, "CONFIG SET hash-max-listpack-value (0|4|5|64)", Exact),
    fixed(5, "CONFIG SET hash-max-listpack-value 64", Exact),
    rule(40, "OBJECT ENCODING <hashkey>", Exact),
    rule(15, "COPY <hashkey> <hashkey> [REPLACE]", Exact),
    rule(
        5,
        "COPY <hashkey=a> \"h8\" REPLACE ; OBJECT ENCODING \"h8\" ; HSET \"h8\" new 1 ; HGETALL <a> ; HGETALL \"h8\"",
        As(pairs),
    ),
    rule(5, "RENAME <hashkey> <hashkey>", Exact),
    rule(3, "MOVE <hashkey> <db>", Exact),
    rule(15, "DEL <hashkey>", Exact),
    rule(
        5,
        "PEXPIRE <hashkey=a> <ms> ; HSET <a> <field> <value> ; HDEL <a> <field> ; PTTL <a>",
        Exact,
    ),
    rule(5, "EXPIRE <hashkey> <secs>", Exact),
    rule(
        1,
        "PEXPIRE <hashkey=a> 1 ; @sleep ; HSETNX <a> <field> <value> ; HGETALL <a> ; PTTL <a>",
        As(pairs),
    ),
    rule(5, "TYPE <hashkey>", Exact),
    rule(10, "SET <hashkey> v", Exact),
    rule(20, "HEXPIRE <hashkey> <secs> [NX|XX|GT|LT] FIELDS <numkeys> <field>...", Exact),
    rule(
        3,
        "HEXPIRE <hashkey> <secs> {[NX] [XX] [GT] [LT] [<word>]} FIELDS <numkeys> <field>...",
        Exact,
    ),
    rule(3, "HEXPIRE <hashkey> <badint> [NX] [FIELDS] <badint> <field>...", Exact),
    rule(3, "HPEXPIRE <hashkey> <badint> FIELDS <int> <field>...", Exact),
    rule(15, "HPEXPIRE <hashkey> <ms> [NX|XX|GT|LT] FIELDS <numkeys> <field>...", Exact),
    rule(15, "HEXPIREAT <hashkey> <at> [NX|XX|GT|LT] FIELDS <numkeys> <field>...", Exact),
    rule(15, "HPEXPIREAT <hashkey> <atms> [NX|XX|GT|LT] FIELDS <numkeys> <field>...", Exact),
    rule(15, "HTTL <hashkey> FIELDS <numkeys> <field>...", Near(SECONDS)),
    rule(15, "HPTTL <hashkey> FIELDS <numkeys> <field>...", Near(MILLIS)),
    rule(15, "HEXPIRETIME <hashkey> FIELDS <numkeys> <field>...", Near(SECONDS)),
    rule(15, "HPEXPIRETIME <hashkey> FIELDS <numkeys> <field>...", Near(MILLIS)),
    rule(3, "HTTL <hashkey> (FIELDS|<word>) (<int>|<badint>) <field>...", Near(SECONDS)),
    rule(15, "HPERSIST <hashkey> FIELDS <numkeys> <field>...", Exact),
    rule(3, "HPERSIST <hashkey> (FIELDS|<word>) (<int>|<badint>) <field>...", Exact),
    rule(
        20,
        "HGETEX <hashkey> [EX <secs>|PX <ms>|EXAT <at>|PXAT <atms>|PERSIST] FIELDS <numkeys> <field>...",
        Exact,
    ),
    rule(
        3,
        "HGETEX <hashkey> {[EX <secs>] [PX <badint>] [PERSIST] [<word>]} FIELDS (<int>|<numkeys>) <field>...",
        Exact,
    ),
    rule(
        20,
        "HSETEX <hashkey> {[NX|XX] [FNX|FXX] [EX <secs>|PX <ms>|EXAT <at>|PXAT <atms>|KEEPTTL]} FIELDS <numkeys> (<field> <value>)...",
        Exact,
    ),
    rule(
        5,
        "HSETEX <hashkey> {[NX] [XX] [FNX] [FXX] [EX <badint>] [PX <ms>] [KEEPTTL] [<word>]} FIELDS (<int>|<numkeys>) (<field> <value>)...",
        Exact,
    ),
    rule(15, "HGETDEL <hashkey> FIELDS <numkeys> <field>...", Exact),
    rule(3, "HGETDEL <hashkey> (FIELDS|<word>) (<int>|<badint>) <field>...", Exact),
    fixed(
        2,
        "DEBUG SET-ACTIVE-EXPIRE 0 ; DEL \"h9\" ; HSET \"h9\" f1 1 f2 2 f3 3 ; HPEXPIRE \"h9\" 1 FIELDS (1 f1|2 f1 f2|3 f1 f2 f3) ; @sleep ; \
         HLEN \"h9\" ; HGETALL \"h9\" ; HRANDFIELD \"h9\" 5 ; HRANDFIELD \"h9\" -5 ; HSCAN \"h9\" 0 COUNT 1000 ; HKEYS \"h9\" ; \
         HMGET \"h9\" f1 f2 f3 ; HTTL \"h9\" FIELDS 2 f1 f2 ; HDEL \"h9\" f1 ; HLEN \"h9\" ; DEBUG DIGEST-VALUE \"h9\" ; \
         HINCRBY \"h9\" f1 5 ; HSETNX \"h9\" f1 x ; HSETEX \"h9\" FXX KEEPTTL FIELDS 1 f2 y ; HSETEX \"h9\" FNX KEEPTTL FIELDS 1 f2 y ; \
         HTTL \"h9\" FIELDS 2 f1 f2 ; HEXPIRE \"h9\" 10 FIELDS 1 f3 ; HPERSIST \"h9\" FIELDS 3 f1 f2 f3 ; HGETDEL \"h9\" FIELDS 3 f1 f2 f3 ; \
         EXISTS \"h9\" ; HLEN \"h9\" ; DEL \"h9\" ; DEBUG SET-ACTIVE-EXPIRE 1",
        Exact,
    ),
    rule(10, "DEBUG DIGEST-VALUE <hashkey>...", Exact),
    rule(2, "DEBUG DIGEST", Exact),
];

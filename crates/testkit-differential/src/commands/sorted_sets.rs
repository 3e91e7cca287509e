//! Commands on sorted sets.
//!
//! A range by member is defined only if all scores are equal. Otherwise the reference's reply
//! depends on the path of its search: on a small set it is the same every time, on a large one it
//! depends on a random skip list. So such ranges run on separate keys, in which all scores are 0,
//! and on sets made small by a script.
//!
//! The limits of the small encoding are lowered often, so that a few commands cross them.

use super::rule::{Rule, fixed, rule};
use crate::compare::Compare::{As, Exact};
use crate::compare::{how_many, whole_scan};

pub const RULES: &[Rule] = &[
    rule(120, "ZADD <zkey> (<score> <zmember>)...", Exact),
    rule(60, "ZADD <zkey> {[NX|XX] [GT|LT] [CH]} (<score> <zmember>)...", Exact),
    rule(20, "ZADD <zkey> {[NX|XX] [GT|LT] [CH] INCR} <score> <zmember>", Exact),
    rule(6, "ZADD <zkey> {[NX] [XX] [GT] [LT] [CH] [INCR]} (<score> <zmember>)...", Exact),
    rule(
        20,
        "ZADD <zkey> <score> <zmember> <score> <zmember> <score> <zmember> <score> <zmember> <score> <zmember> <score> <zmember> <score> <zmember> <score> <zmember>",
        Exact,
    ),
    rule(10, "ZADD <key> <score> <zmember>", Exact),
    rule(30, "ZINCRBY <zkey> <score> <zmember>", Exact),
    rule(50, "ZREM <zkey> <zmember>...", Exact),
    rule(15, "ZCARD <zkey>", Exact),
    rule(20, "ZSCORE <zkey> <zmember>", Exact),
    rule(15, "ZMSCORE <zkey> <zmember>...", Exact),
    rule(25, "ZRANK <zkey> <zmember> [WITHSCORE]", Exact),
    rule(25, "ZREVRANK <zkey> <zmember> [WITHSCORE]", Exact),
    rule(25, "ZCOUNT <zkey> <scoreend> <scoreend>", Exact),
    rule(30, "ZRANGE <zkey> <index> <index> [WITHSCORES]", Exact),
    rule(40, "ZRANGE <zkey> <index> <index> {[REV] [WITHSCORES]}", Exact),
    rule(
        40,
        "ZRANGE <zkey> <scoreend> <scoreend> {BYSCORE [REV] [LIMIT <index> <index>] [WITHSCORES]}",
        Exact,
    ),
    rule(
        10,
        "ZRANGE <zkey> (<index>|<scoreend>|<lexend>) (<index>|<scoreend>) {[BYSCORE] [REV] [REV] [LIMIT <index> <index>] [LIMIT 1 -1] [WITHSCORES] [<word>]}",
        Exact,
    ),
    rule(15, "ZREVRANGE <zkey> <index> <index> [WITHSCORES]", Exact),
    rule(
        30,
        "ZRANGEBYSCORE <zkey> <scoreend> <scoreend> {[LIMIT <index> <index>] [WITHSCORES]}",
        Exact,
    ),
    rule(
        30,
        "ZREVRANGEBYSCORE <zkey> <scoreend> <scoreend> {[LIMIT <index> <index>] [WITHSCORES]}",
        Exact,
    ),
    rule(20, "ZRANGESTORE <zkey> <zkey> <index> <index> [REV]", Exact),
    rule(
        20,
        "ZRANGESTORE <zkey> <zkey> <scoreend> <scoreend> {BYSCORE [REV] [LIMIT <index> <index>]}",
        Exact,
    ),
    rule(15, "ZREMRANGEBYRANK <zkey> <index> <index>", Exact),
    rule(15, "ZREMRANGEBYSCORE <zkey> <scoreend> <scoreend>", Exact),
    rule(15, "ZPOPMIN <zkey> [<count>]", Exact),
    rule(15, "ZPOPMAX <zkey> [<count>]", Exact),
    fixed(5, "ZPOPMIN <zkey> (0|-1|abc|\"\"|1 2|2)", Exact),
    rule(15, "ZMPOP <numkeys> <zkey>... (MIN|MAX) [COUNT <count>]", Exact),
    rule(
        3,
        "ZMPOP (<numkeys>|<badint>) <zkey>... (MIN|MAX|<word>) {[COUNT <count>] [COUNT <badint>] [<word>]}",
        Exact,
    ),
    // Short waits: serving a blocked client is tested elsewhere, with two clients.
    fixed(4, "BZPOPMIN <zkey>... 0.001", Exact),
    fixed(4, "BZPOPMAX <zkey>... 0.001", Exact),
    fixed(4, "BZMPOP 0.001 <numkeys> <zkey>... (MIN|MAX) [COUNT <count>]", Exact),
    fixed(2, "BZPOPMIN <zkey>... (abc|-1|\"\"|99999999999999999)", Exact),
    fixed(
        2,
        "BZMPOP (abc|-1|0.001) (<numkeys>|<badint>) <zkey>... (MIN|MAX|<word>) {[COUNT <badint>] [<word>]}",
        Exact,
    ),
    // Sets are inputs too.
    rule(10, "SADD <zkey> <zmember>...", Exact),
    rule(30, "ZUNION <numkeys> <zkey>... {[AGGREGATE (SUM|MIN|MAX)] [WITHSCORES]}", Exact),
    rule(30, "ZINTER <numkeys> <zkey>... {[AGGREGATE (SUM|MIN|MAX)] [WITHSCORES]}", Exact),
    rule(
        15,
        "ZUNION 2 <zkey> <zkey> {[WEIGHTS <score> <score>] [AGGREGATE (SUM|MIN|MAX)] [WITHSCORES]}",
        Exact,
    ),
    rule(
        15,
        "ZINTER 2 <zkey> <zkey> {[WEIGHTS <score> <score>] [AGGREGATE (SUM|MIN|MAX)] [WITHSCORES]}",
        Exact,
    ),
    rule(15, "ZDIFF <numkeys> <zkey>... [WITHSCORES]", Exact),
    rule(20, "ZINTERCARD <numkeys> <zkey>... [LIMIT <count>]", Exact),
    rule(15, "ZUNIONSTORE <zkey> <numkeys> <zkey>... [AGGREGATE (SUM|MIN|MAX)]", Exact),
    rule(15, "ZINTERSTORE <zkey> <numkeys> <zkey>... [AGGREGATE (SUM|MIN|MAX)]", Exact),
    rule(
        15,
        "ZUNIONSTORE <zkey=a> 2 <zkey> <zkey> {[WEIGHTS <score> <score>] [AGGREGATE (SUM|MIN|MAX)]} ; OBJECT ENCODING <a>",
        Exact,
    ),
    rule(
        15,
        "ZINTERSTORE <zkey=a> 2 <zkey> <zkey> {[WEIGHTS <score> <score>] [AGGREGATE (SUM|MIN|MAX)]} ; OBJECT ENCODING <a>",
        Exact,
    ),
    rule(15, "ZDIFFSTORE <zkey> <numkeys> <zkey>...", Exact),
    rule(
        6,
        "(ZUNION|ZINTER|ZDIFF|ZINTERCARD) (<numkeys>|<badint>) <zkey>... {[WEIGHTS <score>...] [AGGREGATE (SUM|<word>)] [WITHSCORES] [LIMIT <badint>]}",
        Exact,
    ),
    rule(
        6,
        "(ZUNIONSTORE|ZINTERSTORE|ZDIFFSTORE) <zkey> (<numkeys>|<badint>) <zkey>... {[WEIGHTS <score>...] [AGGREGATE (SUM|<word>)] [WITHSCORES]}",
        Exact,
    ),
    // All scores are equal.
    fixed(60, "ZADD <lexkey> (0 <zmember>)...", Exact),
    fixed(15, "ZREM <lexkey> <zmember>...", Exact),
    fixed(20, "ZLEXCOUNT <lexkey> <lexend> <lexend>", Exact),
    fixed(20, "ZRANGEBYLEX <lexkey> <lexend> <lexend> [LIMIT <index> <index>]", Exact),
    fixed(20, "ZREVRANGEBYLEX <lexkey> <lexend> <lexend> [LIMIT <index> <index>]", Exact),
    fixed(20, "ZRANGE <lexkey> <lexend> <lexend> {BYLEX [REV] [LIMIT <index> <index>]}", Exact),
    fixed(
        10,
        "ZRANGESTORE <zkey> <lexkey> <lexend> <lexend> {BYLEX [REV] [LIMIT <index> <index>]}",
        Exact,
    ),
    fixed(10, "ZREMRANGEBYLEX <lexkey> <lexend> <lexend>", Exact),
    fixed(
        5,
        "(ZLEXCOUNT|ZRANGEBYLEX|ZREVRANGEBYLEX|ZREMRANGEBYLEX) <lexkey> (<lexend>|<zmember>|+x|\"\") (<lexend>|<word>|-1)",
        Exact,
    ),
    fixed(5, "ZRANGE <lexkey> <lexend> <lexend> {BYLEX [WITHSCORES] [BYSCORE] [REV]}", Exact),
    fixed(
        20,
        "CONFIG SET zset-max-listpack-entries 128 zset-max-listpack-value 64 ; DEL zlex ; \
         ZADD zlex 1 m9 2 m8 2 m1 3 m5 3 7 4 m6 5 \"\" ; \
         (ZRANGEBYLEX|ZREVRANGEBYLEX) zlex <lexend> <lexend> [LIMIT <index> <index>] ; \
         ZLEXCOUNT zlex <lexend> <lexend> ; ZREMRANGEBYLEX zlex <lexend> <lexend> ; ZRANGE zlex 0 -1",
        Exact,
    ),
    // The count is larger than any set here, so that all servers answer in one step.
    fixed(20, "ZSCAN <zkey> 0 {COUNT 1000 [NOSCORES]}", As(whole_scan)),
    fixed(
        10,
        "ZSCAN <zkey> 0 {[MATCH (m1*|*|?|-*|\"\"|<pattern>)] COUNT 1000 [NOSCORES]}",
        As(whole_scan),
    ),
    fixed(
        3,
        "ZSCAN <zkey> 0 {[COUNT <badint>] [MATCH m*] (COUNT|MATCH|TYPE zset|<word>)}",
        As(whole_scan),
    ),
    fixed(3, "ZSCAN <zkey> (0|<badint>) (NOVALUES|COUNT 0|COUNT -1)", Exact),
    fixed(3, "ZSCAN <zkey> (abc|\"\"|1.5|99999999999999999999) [COUNT 1000]", Exact),
    fixed(5, "ZRANDMEMBER <zkey>", As(how_many)),
    fixed(10, "ZRANDMEMBER <zkey> (0|1|2|3|5|10|1000|-1|-2|-10|-100) [WITHSCORES]", As(how_many)),
    fixed(
        3,
        "ZRANDMEMBER <zkey> (abc|\"\"|1.5|-9223372036854775808|9223372036854775808|<count> <word>|1 WITHSCORES 2)",
        As(how_many),
    ),
    fixed(
        1,
        "ZRANDMEMBER <zkey> (9223372036854775807|-9223372036854775807) WITHSCORES",
        As(how_many),
    ),
    fixed(5, "CONFIG SET zset-max-listpack-entries (0|1|4|8|16|40)", Exact),
    fixed(5, "CONFIG SET zset-max-listpack-entries 128", Exact),
    fixed(5, "CONFIG SET zset-max-listpack-value (4|8|64|600)", Exact),
    rule(30, "OBJECT ENCODING (<zkey>|<lexkey>)", Exact),
    rule(15, "COPY <zkey> <zkey> [REPLACE]", Exact),
    rule(
        5,
        "COPY <zkey=a> \"z8\" REPLACE ; OBJECT ENCODING \"z8\" ; ZADD \"z8\" 1 new ; ZRANGE <a> 0 -1 ; ZRANGE \"z8\" 0 -1",
        Exact,
    ),
    rule(5, "RENAME <zkey> <zkey>", Exact),
    rule(3, "MOVE <zkey> <db>", Exact),
    rule(6, "DEL <zkey>", Exact),
    rule(
        5,
        "PEXPIRE <zkey=a> <ms> ; ZADD <a> <score> <zmember> ; ZREM <a> <zmember> ; PTTL <a>",
        Exact,
    ),
    rule(5, "PEXPIRE <zkey=a> <ms> ; ZUNIONSTORE <a> 2 <a> <zkey> ; PTTL <a>", Exact),
    rule(5, "EXPIRE <zkey> <secs>", Exact),
    rule(
        1,
        "PEXPIRE <zkey=a> 1 ; @sleep ; ZADD <a> <score> <zmember> ; ZRANGE <a> 0 -1 ; PTTL <a>",
        Exact,
    ),
    rule(
        1,
        "PEXPIRE <zkey=a> 1 ; @sleep ; ZUNION 2 <a> <zkey> ; ZINTERSTORE <zkey> 2 <a> <zkey>",
        Exact,
    ),
    rule(
        1,
        "PEXPIRE <zkey=a> 1 ; @sleep ; ZPOPMIN <a> ; ZINCRBY <a> 1 m1 ; ZSCAN <a> 0 COUNT 1000",
        Exact,
    ),
    rule(5, "TYPE <zkey>", Exact),
    rule(6, "SET <zkey> v", Exact),
    rule(10, "DEBUG DIGEST-VALUE <zkey>...", Exact),
    rule(2, "DEBUG DIGEST", Exact),
];

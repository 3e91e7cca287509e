//! Strings.

use super::rule::{Rule, fixed, rule};
use crate::compare::Compare::Exact;

pub const RULES: &[Rule] = &[
    rule(20, "APPEND <key> <value>", Exact),
    rule(10, "DECR <key>", Exact),
    rule(10, "DECRBY <key> <int>", Exact),
    rule(10, "DELIFEQ <key> <value>", Exact),
    rule(40, "GET <key>", Exact),
    rule(10, "GETDEL <key>", Exact),
    rule(20, "GETEX <key> [EX <secs>|PX <ms>|EXAT <at>|PXAT <atms>|PERSIST]", Exact),
    rule(3, "GETEX <key> {[EX <secs>] [PERSIST] [PX <ms>] [NX]}", Exact),
    rule(15, "GETRANGE <key> <index> <index>", Exact),
    rule(10, "GETSET <key> <value>", Exact),
    rule(15, "INCR <key>", Exact),
    rule(15, "INCRBY <key> <int>", Exact),
    rule(15, "INCRBYFLOAT <key> <float>", Exact),
    rule(
        6,
        "SET <key=a> <float> ; INCRBYFLOAT <a> <float> ; INCRBYFLOAT <a> <float> ; OBJECT ENCODING <a>",
        Exact,
    ),
    rule(10, "LCS <lcskey> <lcskey> {[LEN] [IDX] [MINMATCHLEN <count>] [WITHMATCHLEN]}", Exact),
    rule(
        10,
        "MSET <lcskey=a> <dna> <lcskey=b> <dna> ; LCS <a> <b> {[LEN|IDX] [MINMATCHLEN <count>] [WITHMATCHLEN]}",
        Exact,
    ),
    rule(15, "MGET <key>...", Exact),
    rule(15, "MSET (<key> <value>)...", Exact),
    // MSETEX keeps keys whose time is past until a command looks them up: no DBSIZE before that.
    rule(8, "MSETEX <numkeys> (<key> <value>)... {[NX|XX] [KEEPTTL]}", Exact),
    fixed(
        15,
        "MSETEX <numkeys> (<key> <value>)... {[NX|XX] [EX <secs>|PX <ms>|EXAT <future>|PXAT <futurems>|KEEPTTL]}",
        Exact,
    ),
    fixed(
        3,
        "MSETEX <numkeys> (<key> <value>)... {[NX] [XX] [EX <badint>] [PXAT (0|-1|abc)] [KEEPTTL] [<word>]}",
        Exact,
    ),
    fixed(2, "MSETEX 2 <key=a> <value> <key=b> <value> (EXAT 1|PXAT 1000) ; MGET <a> <b>", Exact),
    rule(10, "MSETNX (<key> <value>)...", Exact),
    rule(10, "PSETEX <key> <ms> <value>", Exact),
    rule(40, "SET <key> <value>", Exact),
    rule(
        50,
        "SET <key> <value> {[NX|XX|IFEQ <value>] [GET] [EX <secs>|PX <ms>|EXAT <at>|PXAT <atms>|KEEPTTL]}",
        Exact,
    ),
    rule(
        4,
        "SET <key> <value> {[NX] [XX] [IFEQ <value>] [GET] [EX <secs>] [PXAT <atms>] [KEEPTTL]}",
        Exact,
    ),
    rule(3, "SET <key=a> <value=v> ; SET <a> <value> IFEQ <v> [GET] ; GET <a>", Exact),
    rule(3, "SET <key=a> <value=v> ; DELIFEQ <a> <v> ; EXISTS <a>", Exact),
    rule(1, "SET <key=a> <value> PX 1 ; @sleep ; GET <a> ; TTL <a>", Exact),
    rule(1, "PSETEX <key=a> 1 <value> ; @sleep ; APPEND <a> <value> ; TTL <a> ; GET <a>", Exact),
    rule(
        1,
        "SET <key=a> <value> PX 1 ; @sleep ; SET <a> <value> NX GET ; SETNX <a> <value> ; GET <a>",
        Exact,
    ),
    rule(
        1,
        "MSETEX 2 <key=a> <value> <key=b> <value> PX 1 ; @sleep ; MGET <a> <b> ; MSETNX <a> <value> <b> <value>",
        Exact,
    ),
    rule(1, "SET <key=a> <value> ; GETEX <a> PX 1 ; @sleep ; GETDEL <a> ; STRLEN <a>", Exact),
    rule(10, "SETEX <key> <secs> <value>", Exact),
    rule(10, "SETNX <key> <value>", Exact),
    rule(20, "SETRANGE <key> <offset> <value>", Exact),
    rule(10, "STRLEN <key>", Exact),
    rule(5, "SUBSTR <key> <index> <index>", Exact),
    rule(
        6,
        "SET <key=a> <int> ; OBJECT ENCODING <a> ; APPEND <a> <int> ; OBJECT ENCODING <a> ; INCR <a> ; OBJECT ENCODING <a>",
        Exact,
    ),
];

//! Commands on streams.
//!
//! The directives that bound the reference's nodes are often small, so that trimming with `~` meets
//! many nodes. XINFO STREAM shows the rest of each node.
//!
//! `stream-node-max-bytes` is 4096 or more, or 0: with less, Valkey 9.1.2 reads beyond its nodes and
//! crashes after a while.

use super::rule::{Rule, fixed, rule};
use crate::compare::Compare::Exact;

pub const RULES: &[Rule] = &[
    rule(160, "XADD <xkey> <xnew> (<field> <value>)...", Exact),
    rule(120, "XADD <xkey> <xnew> a 1 b <value>", Exact),
    rule(60, "XADD <xkey> <xnew> a 1 b <value>", Exact),
    rule(
        80,
        "XADD <xkey=a> 1000-* f <int> ; XADD <a> 1000-* f <value> ; XADD <a> 1001-* f <field> ; XADD <a> 1001-* f <field> g <field> ; XADD <a> 1002-* g <field>",
        Exact,
    ),
    rule(
        40,
        "XADD <xkey> {[NOMKSTREAM] [MAXLEN [=|~] <count> [LIMIT <count>]|MINID [=|~] <xid> [LIMIT <count>]]} <xnew> f <value>",
        Exact,
    ),
    rule(30, "XADD <xkey> MAXLEN [=|~] (0|1|2|3|5|7|9|20) <xnew> f <value>", Exact),
    rule(
        10,
        "XADD <xkey> {[NOMKSTREAM] [MAXLEN ~ <badint>] [MINID <xid>] [LIMIT <badint>]} <xnew> <field> [<value>]",
        Exact,
    ),
    fixed(
        8,
        "XADD <xkey=a> 99999999999999-* f v ; XADD <a> \"*\" f <value> ; XADD <a> MAXLEN ~ 5 \"*\" f v ; XLEN <a>",
        Exact,
    ),
    rule(5, "XADD <xkey> NOMKSTREAM <xnew> f v ; XLEN no-such-stream", Exact),
    rule(30, "XLEN <xkey>", Exact),
    rule(60, "XRANGE <xkey> <xend> <xend> [COUNT <count>]", Exact),
    rule(40, "XRANGE <xkey> - + [COUNT (1|2|3|7|0|-1)]", Exact),
    rule(60, "XREVRANGE <xkey> <xend> <xend> [COUNT <count>]", Exact),
    rule(30, "XREVRANGE <xkey> + - [COUNT (1|2|3|7)]", Exact),
    rule(5, "(XRANGE|XREVRANGE) <xkey> <xend> <xend> [COUNT <badint>] [<word>]", Exact),
    rule(70, "XDEL <xkey> <xid>...", Exact),
    rule(
        25,
        "XDEL <xkey> 1000-0 1000-1 1000-2 1000-3 1000-4 1000-5 1001-0 1001-1 1001-2 1001-3 1002-0",
        Exact,
    ),
    rule(40, "XTRIM <xkey> MAXLEN [=|~] (0|1|2|3|5|10|20|50|100) [LIMIT <count>]", Exact),
    rule(20, "XTRIM <xkey> MAXLEN ~ (0|1|2|3|5|10|20|50) [LIMIT (0|1|2|3|5|9|20)]", Exact),
    rule(30, "XTRIM <xkey> MINID [=|~] <xid> [LIMIT (0|1|2|3|5|9)]", Exact),
    rule(
        6,
        "XTRIM <xkey> {[MAXLEN [=|~] <badint>] [MINID [~] <xid>] [LIMIT <badint>] [<word>]}",
        Exact,
    ),
    rule(20, "XSETID <xkey> <xid> {[ENTRIESADDED (0|3|10|1000)] [MAXDELETEDID <xid>]}", Exact),
    rule(4, "XSETID <xkey> <xid> {[ENTRIESADDED <badint>] [MAXDELETEDID <xid>] [<word>]}", Exact),
    rule(60, "XINFO STREAM <xkey>", Exact),
    rule(15, "XINFO STREAM <xkey> FULL [COUNT (0|1|3|100|-1|<badint>)]", Exact),
    rule(3, "XINFO STREAM <xkey> (<word>|FULL <word>|FULL COUNT|FULL LIMIT 3)", Exact),
    rule(1, "XINFO HELP", Exact),
    rule(1, "XINFO <word> <xkey>", Exact),
    rule(40, "XREAD [COUNT <count>] STREAMS <xkey> (<xid>|$|+|0)", Exact),
    rule(
        30,
        "XREAD {[COUNT (1|2|5|0|-1)]} STREAMS <xkey> <xkey> (<xid>|$|+|0) (<xid>|$|+|0)",
        Exact,
    ),
    fixed(
        10,
        "XADD <xkey=a> 1000-* f v ; XREAD BLOCK 1 COUNT 2 STREAMS <xkey> <a> (<xid>|$|+) (<xid>|$|+|0)",
        Exact,
    ),
    fixed(6, "XREAD COUNT 3 BLOCK 1 STREAMS <xkey> (<xid>|$|+|0)", Exact),
    fixed(4, "MULTI ; XADD <xkey=a> 1000-* f v ; XREAD BLOCK 0 STREAMS <a> ($|+|0) ; EXEC", Exact),
    fixed(
        3,
        "XREAD {[COUNT <badint>] [BLOCK (abc|-1|1.5|9223372036854775807|99999999999999999999)] [NOACK] [GROUP g c] [<word>]} STREAMS <xkey> <xkey> <xid> [>|$]",
        Exact,
    ),
    fixed(3, "XREAD (STREAMS|COUNT 1|BLOCK 1) <xkey> (>|-|<xid>)", Exact),
    rule(12, "DEL <xkey>", Exact),
    rule(4, "SET <xkey> v", Exact),
    rule(5, "COPY <xkey> <xkey=a> REPLACE ; XINFO STREAM <a> ; XRANGE <a> - +", Exact),
    rule(4, "RENAME <xkey> <xkey>", Exact),
    rule(5, "TYPE <xkey> ; OBJECT ENCODING <xkey>", Exact),
    rule(3, "SORT <xkey> ; SCARD <xkey> ; HGET <xkey> f", Exact),
    rule(10, "DEBUG DIGEST-VALUE <xkey>...", Exact),
    rule(
        3,
        "PEXPIRE <xkey=a> <ms> ; XADD <a> <xnew> f v ; PTTL <a> ; XTRIM <a> MAXLEN 2 ; PTTL <a>",
        Exact,
    ),
    rule(
        2,
        "PEXPIRE <xkey=a> 1 ; @sleep ; XLEN <a> ; XADD <a> 1000-* f v ; PTTL <a> ; XREAD STREAMS <a> 0",
        Exact,
    ),
    fixed(12, "CONFIG SET stream-node-max-entries (0|1|2|3|5|10|100)", Exact),
    fixed(12, "CONFIG SET stream-node-max-bytes (0|4096|5000|8192)", Exact),
];

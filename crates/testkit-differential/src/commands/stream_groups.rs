//! Consumer groups of streams, with all commands that change their streams.
//!
//! Two keys, two groups and three consumers, so that commands affect each other. Entries get
//! explicit times (`5-*`), so ids are few and the same on both servers. Times in replies are
//! blanked; times that decide about a reply are far from those of a run.

use super::rule::{Rule, fixed, rule};
use crate::compare::Compare::{As, Exact};
use crate::compare::group_times;

pub const RULES: &[Rule] = &[
    rule(25, "XADD <groupkey> (1-*|2-*|3-*|5-*|5-*|5-*|9-*) <member> <value>", Exact),
    fixed(
        12,
        "DEL <groupkey=a> ; XGROUP CREATE <a> g1 (0|$) MKSTREAM ; XADD <a> 1-* a b ; XADD <a> 1-* a c ; XADD <a> 2-1 x y ; XADD <a> 5-* a b ; XADD <a> 5-* a b ; XREADGROUP GROUP g1 <consumer> [COUNT <count>] STREAMS <a> >",
        Exact,
    ),
    fixed(
        6,
        "DEL <groupkey=a> ; XADD <a> 1-1 a b ; XADD <a> 2-1 a b ; XADD <a> 3-1 a b ; XADD <a> 3-2 a b ; XGROUP CREATE <a> g2 <groupid> ENTRIESREAD (-1|0|1|2|4|9) ; XINFO GROUPS <a> ; XDEL <a> (1-1|2-1|3-1|3-2) ; XINFO GROUPS <a> ; XREADGROUP GROUP g2 <consumer> COUNT 1 STREAMS <a> > ; XINFO GROUPS <a> ; XTRIM <a> MAXLEN (0|1|2|3) ; XINFO GROUPS <a> ; XREADGROUP GROUP g2 <consumer> COUNT 1 STREAMS <a> > ; XADD <a> 5-* a b ; XINFO GROUPS <a> ; XREADGROUP GROUP g2 <consumer> STREAMS <a> > ; XINFO GROUPS <a>",
        Exact,
    ),
    rule(15, "XDEL <groupkey> <groupid>...", Exact),
    rule(4, "XTRIM <groupkey> MAXLEN (0|1|2|3|5|8)", Exact),
    rule(3, "XTRIM <groupkey> MINID <groupid>", Exact),
    fixed(
        4,
        "XSETID <groupkey> (5-9|9-99|9-2|18446744073709551615-18446744073709551615) [ENTRIESADDED (0|3|9|100)] [MAXDELETEDID <groupid>]",
        Exact,
    ),
    rule(
        8,
        "XGROUP CREATE <groupkey> <group> (0|0|$|<groupid>) {[MKSTREAM] [ENTRIESREAD <int>]}",
        Exact,
    ),
    rule(
        3,
        "XGROUP CREATE <groupkey> <group> (0|$) {[MKSTREAM] [ENTRIESREAD <badint>] [<word>]}",
        Exact,
    ),
    rule(10, "XGROUP SETID <groupkey> <group> (0|-|+|$|<groupid>) [ENTRIESREAD <int>]", Exact),
    rule(2, "XGROUP SETID <groupkey> <group> <groupid> {[MKSTREAM] [ENTRIESREAD <badint>]}", Exact),
    rule(2, "XGROUP DESTROY <groupkey> <group>", Exact),
    rule(6, "XGROUP CREATECONSUMER <groupkey> <group> <consumer>", Exact),
    rule(5, "XGROUP DELCONSUMER <groupkey> <group> <consumer>", Exact),
    rule(1, "XGROUP HELP", Exact),
    rule(
        40,
        "XREADGROUP GROUP <group> <consumer> {[COUNT <count>] [NOACK]} STREAMS <groupkey> >",
        Exact,
    ),
    rule(
        15,
        "XREADGROUP GROUP <group> <consumer> [COUNT <count>] STREAMS <groupkey> (0|<groupid>)",
        Exact,
    ),
    rule(
        10,
        "XREADGROUP GROUP <group> <consumer> [COUNT <count>] STREAMS <groupkey> <groupkey> (>|0|<groupid>) (>|0|<groupid>)",
        Exact,
    ),
    rule(
        4,
        "XREADGROUP GROUP <group> <consumer> {[COUNT <int>] [NOACK] [BLOCK (1|2|x|-1|1.5)] [<word>]} STREAMS <groupkey> [<groupkey>] > [$|+|-|>]",
        Exact,
    ),
    fixed(
        4,
        "XREADGROUP GROUP g1 <consumer> [COUNT 1] BLOCK 1 STREAMS <groupkey=a> > ; XREADGROUP GROUP g1 <consumer> BLOCK 1 STREAMS <a> 0",
        Exact,
    ),
    fixed(
        3,
        "MULTI ; XADD <groupkey=a> 9-* a b ; XREADGROUP GROUP g1 <consumer> BLOCK 0 STREAMS <a> > ; XREADGROUP GROUP g1 <consumer> BLOCK 0 STREAMS <a> > ; XPENDING <a> g1 ; EXEC",
        Exact,
    ),
    fixed(
        4,
        "WATCH <groupkey=a> ; XREADGROUP GROUP g1 <consumer> STREAMS <a> > ; XACK <a> g1 <groupid> ; XGROUP CREATECONSUMER <a> g1 <consumer> ; XGROUP SETID <a> g1 0 ; XCLAIM <a> g1 <consumer> 0 <groupid> ; MULTI ; XLEN <a> ; EXEC",
        Exact,
    ),
    rule(30, "XACK <groupkey> <group> <groupid>...", Exact),
    rule(12, "XPENDING <groupkey> <group>", As(group_times)),
    rule(
        20,
        "XPENDING <groupkey> <group> [IDLE <idle>] (-|<groupid>) (+|<groupid>) <count> [<consumer>]",
        As(group_times),
    ),
    fixed(
        8,
        "XPENDING <groupkey> g1 [IDLE <idle>] (-|5|\"(5\"|\"(2-1\"|\"(\"|\"(x\"|\"(-\") (+|5|\"(5\"|\"(0-0\"|\"(9\") (1|2|100|-1|0|x) [<consumer> [x [y]]]",
        As(group_times),
    ),
    rule(20, "XCLAIM <groupkey> <group> <consumer> <idle> <groupid>... {[JUSTID] [FORCE]}", Exact),
    rule(
        15,
        "XCLAIM <groupkey> <group> <consumer> <idle> <groupid>... {[IDLE (100000|0|-1|9223372036854775807)] [RETRYCOUNT <int>] [FORCE] [JUSTID] [LASTID <groupid>]}",
        Exact,
    ),
    rule(
        5,
        "XCLAIM <groupkey> <group> <consumer> <idle> <groupid> {[TIME (1000|0|-1|99999999999999)] [RETRYCOUNT <badint>] [LASTID <groupid>] [FORCE]}",
        Exact,
    ),
    rule(
        15,
        "XAUTOCLAIM <groupkey> <group> <consumer> <idle> (0|-|<groupid>) {[COUNT (1|2|10)] [JUSTID]}",
        Exact,
    ),
    fixed(
        5,
        "XAUTOCLAIM <groupkey> <group> <consumer> <idle> (\"(1\"|\"(5-2\"|\"(\"|+|x) {[COUNT (0|-1|x|1|9223372036854775807)] [JUSTID] [x]}",
        Exact,
    ),
    rule(20, "XINFO GROUPS <groupkey>", Exact),
    rule(12, "XINFO CONSUMERS <groupkey> <group>", As(group_times)),
    rule(10, "XINFO STREAM <groupkey> FULL [COUNT <count>]", As(group_times)),
    rule(4, "XINFO STREAM <groupkey> [<word>]", As(group_times)),
    rule(1, "XINFO HELP", Exact),
    rule(5, "XLEN <groupkey>", Exact),
    rule(3, "TYPE <groupkey>", Exact),
    fixed(2, "DEL <groupkey>", Exact),
    rule(3, "COPY <groupkey> <groupkey> REPLACE", Exact),
    rule(2, "RENAME <groupkey> <groupkey>", Exact),
    rule(2, "OBJECT ENCODING <groupkey>", Exact),
];

//! Commands on lists.
//!
//! Scripts lower `list-max-listpack-size`, so that both forms occur; a client sees the form in
//! OBJECT ENCODING. Large elements occur in separate scripts, which remove ranges and equal
//! elements between them and change the limit.

use super::rule::{Rule, fixed, rule};
use crate::compare::Compare::Exact;

pub const RULES: &[Rule] = &[
    rule(20, "LPUSH <key> <member>...", Exact),
    rule(20, "RPUSH <key> <member>...", Exact),
    rule(5, "RPUSH <key> <value>...", Exact),
    rule(5, "LPUSHX <key> <member>...", Exact),
    rule(5, "RPUSHX <key> <member>...", Exact),
    rule(10, "LPOP <key> [<count>]", Exact),
    rule(10, "RPOP <key> [<count>]", Exact),
    rule(2, "LPOP <key> <badint>", Exact),
    rule(10, "LMPOP <numkeys> <key>... (LEFT|RIGHT) [COUNT <count>]", Exact),
    rule(3, "LMPOP <int> <key> <key> (LEFT|RIGHT) {[COUNT <count>] [<word>]}", Exact),
    rule(15, "LLEN <key>", Exact),
    rule(15, "LINDEX <key> <index>", Exact),
    rule(20, "LRANGE <key> <index> <index>", Exact),
    rule(10, "LRANGE <key> 0 -1", Exact),
    fixed(10, "LSET <key> (0|1|2|-1|-2|5|30|-30|abc) <member>", Exact),
    rule(10, "LINSERT <key> (BEFORE|AFTER) <member> <member>", Exact),
    rule(2, "LINSERT <key> <word> <member> <member>", Exact),
    rule(10, "LREM <key> <int> <member>", Exact),
    rule(10, "LTRIM <key> <index> <index>", Exact),
    rule(10, "LPOS <key> <member> {[RANK <int>] [COUNT <count>] [MAXLEN <count>]}", Exact),
    rule(3, "LPOS <key> <member> {[RANK <badint>] [COUNT <int>] [MAXLEN <int>] [<word>]}", Exact),
    rule(15, "LMOVE <key> <key> (LEFT|RIGHT) (LEFT|RIGHT)", Exact),
    rule(10, "RPOPLPUSH <key> <key>", Exact),
    fixed(5, "RPUSH <key=a> <member> ; BLPOP <key> <a> 0", Exact),
    fixed(5, "RPUSH <key=a> <member> ; BRPOP <a> 1.5", Exact),
    fixed(
        5,
        "RPUSH <key=a> <member>... ; BLMPOP 0 2 <key> <a> (LEFT|RIGHT) [COUNT <count>]",
        Exact,
    ),
    fixed(5, "RPUSH <key=a> <member> ; BLMOVE <a> <key> (LEFT|RIGHT) (LEFT|RIGHT) 0", Exact),
    fixed(5, "RPUSH <key=a> <member> ; BRPOPLPUSH <a> <key> 0", Exact),
    fixed(
        3,
        "BLPOP <key> <key> 0.001 ; BRPOP <key> 0.001 ; BLMOVE <key> <key> LEFT LEFT 0.001",
        Exact,
    ),
    fixed(3, "BLMPOP 0.001 1 <key> LEFT ; BRPOPLPUSH <key> <key> 0.001", Exact),
    fixed(
        3,
        "BLPOP <key> (abc|1x|-0.5|inf|9e18|1e400) ; BLMOVE <key> <key> LEFT <word> <float>",
        Exact,
    ),
    fixed(3, "BLPOP <key> -1 ; BLMPOP <word> 1 <key> LEFT ; BRPOPLPUSH <key> <key> nan", Exact),
    rule(10, "OBJECT ENCODING <key>", Exact),
    rule(5, "TYPE <key>", Exact),
    rule(10, "DEL <key>...", Exact),
    rule(5, "COPY <key> <key> REPLACE", Exact),
    rule(5, "RENAME <key> <key>", Exact),
    rule(3, "EXPIRE <key> <secs>", Exact),
    rule(5, "DEBUG DIGEST-VALUE <key>", Exact),
    fixed(
        8,
        "CONFIG SET list-max-listpack-size 4 ; RPUSH <key=a> <member>... ; OBJECT ENCODING <a> ; LINSERT <a> (BEFORE|AFTER) <member> <member> ; LPOP <a> 2 ; OBJECT ENCODING <a> ; LRANGE <a> 0 -1 ; CONFIG SET list-max-listpack-size -2",
        Exact,
    ),
    fixed(
        8,
        "DEL <key=a> ; CONFIG SET list-max-listpack-size 3 ; RPUSH <a> 1 2 3 4 5 6 7 8 9 10 11 12 ; LINSERT <a> AFTER 5 x ; LINSERT <a> BEFORE 3 y ; LSET <a> (0|1|2|-1|-2|5|30|-30) <member> ; LREM <a> <int> <member> ; LTRIM <a> <index> <index> ; OBJECT ENCODING <a> ; LRANGE <a> 0 -1 ; LMOVE <a> <key> (LEFT|RIGHT) (LEFT|RIGHT) ; OBJECT ENCODING <a> ; CONFIG SET list-max-listpack-size -2",
        Exact,
    ),
    fixed(
        8,
        "DEL <key=a> ; CONFIG SET list-compress-depth (1|2) ; CONFIG SET list-max-listpack-size 3 ; RPUSH <a> <value>... ; RPUSH <a> aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa 2 3 bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb 5 6 cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc 8 9 ; LINSERT <a> (BEFORE|AFTER) (2|5|8) <member> ; LSET <a> (0|1|4|-2|30) <member> ; LPOS <a> (2|5|9) ; LINDEX <a> <index> ; LREM <a> <int> (3|6) ; LRANGE <a> <index> <index> ; LTRIM <a> <index> <index> ; LPOP <a> ; SORT <a> ALPHA ; LRANGE <a> 0 -1 ; CONFIG SET list-max-listpack-size -2 ; CONFIG SET list-compress-depth 0",
        Exact,
    ),
    fixed(
        5,
        "DEL <key=a> ; CONFIG SET list-max-listpack-size -1 ; RPUSH <a> <value>... ; RPUSH <a> <value>... ; LSET <a> 0 <value> ; OBJECT ENCODING <a> ; LPOP <a> ; OBJECT ENCODING <a> ; LRANGE <a> 0 -1 ; CONFIG SET list-max-listpack-size -2",
        Exact,
    ),
    fixed(
        8,
        "DEL <key=a> ; CONFIG SET list-compress-depth (0|0|1|2) ; CONFIG SET list-max-listpack-size (-1|-2|-3|-5|2|5|16|128|1000) ; RPUSH <a> <element>... ; RPUSH <a> a a 7 <element=p> b <element=q> a b ; LSET <a> (0|1|3|-1|-2|-4) <element> ; OBJECT ENCODING <a> ; LINSERT <a> (BEFORE|AFTER) <p> <element> ; LSET <a> (0|2|-1|-3) <element> ; LINSERT <a> (BEFORE|AFTER) <q> <element> ; OBJECT ENCODING <a> ; LREM <a> (0|1|-1|2|-2) <p> ; OBJECT ENCODING <a> ; LTRIM <a> (0|1|3) (-1|-2|-3) ; OBJECT ENCODING <a> ; DEBUG DIGEST-VALUE <a> ; LPOP <a> <count> ; OBJECT ENCODING <a> ; LLEN <a> ; CONFIG SET list-max-listpack-size -2 ; CONFIG SET list-compress-depth 0",
        Exact,
    ),
    fixed(
        8,
        "DEL <key=a> ; CONFIG SET list-max-listpack-size (-1|-2|2|16|128) ; RPUSH <a> <element> ; LPUSH <a> a ; RPOP <a> ; OBJECT ENCODING <a> ; RPUSH <a> b ; LPOP <a> ; OBJECT ENCODING <a> ; LPUSH <a> <element> <element> ; LMOVE <a> <a> (LEFT|RIGHT) (LEFT|RIGHT) ; OBJECT ENCODING <a> ; LSET <a> 0 <element> ; CONFIG SET list-max-listpack-size (-1|-2|-5|1|4|64) ; LSET <a> -1 <element> ; OBJECT ENCODING <a> ; RPUSH <a> <element> ; OBJECT ENCODING <a> ; LMOVE <a> <key> (LEFT|RIGHT) (LEFT|RIGHT) ; LREM <a> 0 a ; OBJECT ENCODING <a> ; LRANGE <a> <index> <index> ; LPOS <a> b RANK -1 ; COPY <a> <key=c> REPLACE ; OBJECT ENCODING <c> ; DEBUG DIGEST-VALUE <c> ; CONFIG SET list-max-listpack-size -2",
        Exact,
    ),
    fixed(
        8,
        "DEL <key=a> ; CONFIG SET list-max-listpack-size (-1|-2|100|2000) ; CONFIG SET list-compress-depth (0|1) ; RPUSH <a> 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 ; LSET <a> (0|1|2|3) <element=p> ; LSET <a> (4|5|6|7) <element> ; LSET <a> (8|9|10|11) <element> ; LSET <a> (12|13|14|15) <element> ; LSET <a> (-1|-2|-3) <element> ; OBJECT ENCODING <a> ; LINSERT <a> (BEFORE|AFTER) <p> <element> ; LREM <a> 0 (3|<p>|17) ; LSET <a> (0|2|-1|-3|19|39) (x|<element>) ; OBJECT ENCODING <a> ; LPOS <a> (7|19|<p>) ; LINDEX <a> <index> ; LPUSH <a> <element> ; RPOP <a> (1|5) ; OBJECT ENCODING <a> ; LTRIM <a> (1|5|8) (-1|-6|-9) ; OBJECT ENCODING <a> ; DEBUG DIGEST-VALUE <a> ; LTRIM <a> 0 (0|1|2|3) ; OBJECT ENCODING <a> ; LRANGE <a> 0 -1 ; CONFIG SET list-max-listpack-size -2 ; CONFIG SET list-compress-depth 0",
        Exact,
    ),
];

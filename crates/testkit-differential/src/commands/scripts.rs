//! Scripts and functions: EVAL, FCALL and their relatives, SCRIPT, FUNCTION.

use super::rule::{Rule, fixed, rule};
use crate::compare::Compare::{Exact, Shape};

pub const RULES: &[Rule] = &[
    fixed(60, "EVAL <script> 2 <key> <key> <value> <int>", Exact),
    fixed(20, "EVAL <script> 2 <hashkey> <setkey> <member> <int>", Exact),
    fixed(10, "EVAL <script> 1 <zkey> <member> <int>", Exact),
    fixed(10, "EVAL_RO <script> 2 <key> <zkey> <value> <int>", Exact),
    fixed(5, "MULTI ; EVAL <script> 2 <key> <key> <value> <int> ; GET <key> ; EXEC", Exact),
    rule(3, "EVAL <script> <count> <key>", Exact),
    rule(3, "EVAL <value> 0", Exact),
    rule(2, "EVALSHA <word> 0", Exact),
    rule(1, "EVALSHA_RO <word> <badint>", Exact),
    rule(2, "SCRIPT LOAD <script>", Exact),
    rule(1, "SCRIPT EXISTS <word>...", Exact),
    rule(1, "SCRIPT SHOW <word>", Exact),
    rule(1, "SCRIPT FLUSH", Exact),
    rule(1, "SCRIPT KILL", Exact),
    rule(1, "SCRIPT DEBUG NO", Exact),
    rule(1, "SCRIPT HELP", Shape),
    fixed(15, "FUNCTION LOAD REPLACE <library>", Exact),
    fixed(30, "FCALL <function> 2 <key> <key> <value> <int>", Exact),
    fixed(10, "FCALL <function> 1 <zkey> <member> <int>", Exact),
    fixed(10, "FCALL_RO <function> 2 <key> <hashkey> <value> <int>", Exact),
    fixed(
        3,
        "MULTI ; FCALL <function> 2 <key> <key> <value> <int> ; FUNCTION LOAD REPLACE <library> ; \
         FCALL <function> 1 <key> <value> <int> ; EXEC",
        Exact,
    ),
    rule(3, "FUNCTION LOAD <library>", Exact),
    rule(3, "FCALL <function> <count> <key>", Exact),
    rule(2, "FCALL_RO <word> <badint>", Exact),
    rule(2, "FUNCTION LOAD <value>", Exact),
    rule(2, "FUNCTION DELETE <libraryname>", Exact),
    // Never of all libraries, whose order is not defined.
    fixed(4, "FUNCTION LIST WITHCODE LIBRARYNAME l2", Exact),
    fixed(1, "FUNCTION LIST LIBRARYNAME <word>", Exact),
    fixed(1, "FUNCTION LIST <word>", Exact),
    fixed(1, "FUNCTION DUMP", Shape),
    rule(1, "FUNCTION STATS", Exact),
    rule(1, "FUNCTION KILL", Exact),
    rule(1, "FUNCTION FLUSH <word>", Exact),
    rule(1, "FUNCTION FLUSH", Exact),
    rule(1, "FUNCTION RESTORE <value> APPEND", Exact),
    rule(1, "FUNCTION HELP", Shape),
];

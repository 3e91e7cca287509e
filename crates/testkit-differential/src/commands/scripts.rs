//! Scripts: EVAL and its relatives, SCRIPT.

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
];

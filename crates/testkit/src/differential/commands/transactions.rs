//! Transactions.

use super::Rule;

pub const RULES: &[Rule] = &[];

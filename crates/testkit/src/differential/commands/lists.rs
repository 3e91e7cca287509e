//! Commands on lists.

use super::Rule;

pub const RULES: &[Rule] = &[];

//! Commands on sorted sets.

use super::Rule;

pub const RULES: &[Rule] = &[];

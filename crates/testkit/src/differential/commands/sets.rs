//! Commands on sets.

use super::Rule;

pub const RULES: &[Rule] = &[];

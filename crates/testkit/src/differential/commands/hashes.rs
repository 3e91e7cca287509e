//! Commands on hashes.

use super::Rule;

pub const RULES: &[Rule] = &[];

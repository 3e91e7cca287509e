//! The list commands.

use crate::registry::Command;

/// The commands of this group.
pub const COMMANDS: &[&Command] = &[];

//! The server commands.

mod config;

use crate::dispatch::ServerCommand;

/// The commands of this group.
pub const COMMANDS: &[&ServerCommand] = &[&config::CONFIG];

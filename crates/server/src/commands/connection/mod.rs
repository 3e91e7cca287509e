//! The connection commands.

mod ping;

use crate::dispatch::ServerCommand;

/// The commands of this group.
pub const COMMANDS: &[&ServerCommand] = &[&ping::PING];

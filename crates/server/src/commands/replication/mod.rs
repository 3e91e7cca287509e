//! The commands of replication.

mod replicaof;

use crate::dispatch::ServerCommand;

/// The commands of this group.
pub const COMMANDS: &[&ServerCommand] = &[&replicaof::REPLICAOF, &replicaof::SLAVEOF];

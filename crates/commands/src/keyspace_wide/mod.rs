//! The commands that need all keys of a database at once.
//!
//! They stop the world between two commands instead of locking shards one by one, so they see and
//! change the state at one moment. Each of them is either short (key counts are maintained, tables
//! are detached in constant time per shard) or known to be long (KEYS).

mod dbsize;
mod flush;
mod keys;
mod randomkey;
mod swapdb;
#[cfg(test)]
mod tests;

use crate::registry::Command;

/// The commands of this module, which belong to the groups generic and server.
pub const COMMANDS: &[&Command] = &[
    &dbsize::DBSIZE,
    &flush::FLUSHALL,
    &flush::FLUSHDB,
    &keys::KEYS,
    &randomkey::RANDOMKEY,
    &swapdb::SWAPDB,
];

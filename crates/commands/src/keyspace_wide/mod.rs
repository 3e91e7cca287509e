//! The commands that need every key of a database at once.
//!
//! They stop the world between two commands instead of locking shards one by one: what they
//! see or change is the state of a single moment. Each of them is either short (counts are
//! kept, contents are taken out in constant time per shard) or known to be long (KEYS).

mod dbsize;
mod flush;
mod keys;
mod randomkey;
mod swapdb;
#[cfg(test)]
mod tests;

use crate::registry::Command;

/// The commands of this kind, of the groups generic and server.
pub const COMMANDS: &[&Command] = &[
    &dbsize::DBSIZE,
    &flush::FLUSHALL,
    &flush::FLUSHDB,
    &keys::KEYS,
    &randomkey::RANDOMKEY,
    &swapdb::SWAPDB,
];

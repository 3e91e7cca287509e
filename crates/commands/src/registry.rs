//! The list of all commands that work on keys.

use crate::ctx::Ctx;
use crate::error::CmdResult;
use crate::spec::{Lock, Spec};
use crate::{
    bitmap, generic, geo, hash, hyperloglog, keyspace_wide, list, set, sort, stream, string, zset,
};

/// A command: its description, its locks and its function.
#[derive(Debug)]
pub struct Command {
    pub spec: Spec,
    pub lock: Lock,
    pub run: fn(&mut Ctx<'_>) -> CmdResult,
    /// The subcommands of a container (OBJECT), whose own `run` is not called.
    pub subcommands: &'static [Command],
}

/// Every command of this crate, by group.
pub const REGISTRY: &[&[&Command]] = &[
    string::COMMANDS,
    bitmap::COMMANDS,
    generic::COMMANDS,
    keyspace_wide::COMMANDS,
    list::COMMANDS,
    hash::COMMANDS,
    set::COMMANDS,
    zset::COMMANDS,
    geo::COMMANDS,
    sort::COMMANDS,
    hyperloglog::COMMANDS,
    stream::COMMANDS,
    stream::groups::COMMANDS,
];

//! The list of all commands that work on keys.

use crate::ctx::Ctx;
use crate::error::CmdResult;
use crate::lock::Lock;
use crate::{
    bitmap, generic, geo, hash, hyperloglog, keyspace_wide, list, set, sort, stream, string, zset,
};
use weft_command_spec::Spec;

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

#[cfg(test)]
mod tests {
    #[test]
    fn only_values_of_strings_have_any_length() {
        let places = |name: &str| -> Vec<usize> {
            let spec = super::REGISTRY.iter().copied().flatten().map(|c| &c.spec);
            let spec = spec.into_iter().find(|spec| spec.name == name).expect("a command");
            (1..6).filter(|at| spec.takes_any_length(*at)).collect()
        };
        assert_eq!(places("set"), [2, 3, 4, 5]);
        assert_eq!(places("append"), [2, 3, 4, 5]);
        assert_eq!(places("mset"), [2, 4]);
        assert_eq!(places("msetex"), [1, 3, 5]);
        assert_eq!(places("mget"), [0; 0]);
        for name in ["rpush", "sadd", "hset", "zadd", "rename", "sort", "type"] {
            assert_eq!(places(name), [0; 0], "{name}");
        }
    }
}

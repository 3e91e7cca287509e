//! The facts of one command.

use crate::flags::Flags;
use crate::group::Group;
use crate::key_spec::{FixedKey, KeySpec, fixed_key};
use crate::special::Special;

/// The description of a command or subcommand.
#[derive(Debug)]
pub struct Spec {
    /// In lower case. A subcommand has its own word here; its full name is `parent|name`.
    pub name: &'static str,
    /// Number of arguments, name included; negative: at least that many.
    pub arity: i16,
    pub flags: Flags,
    pub keys: &'static [KeySpec],
    /// ACL categories, with `@`, in addition to those that the flags and the group imply.
    pub acl: &'static [&'static str],
    pub group: Group,
    pub since: &'static str,
    pub summary: &'static str,
    pub complexity: &'static str,
    /// The arguments in the notation of `docs/design/command-syntax.md`, from which COMMAND
    /// DOCS is made: `key value [NX|XX] [EX seconds|PX milliseconds]`.
    pub syntax: &'static str,
    /// Pairs of version and change, as COMMAND DOCS lists them.
    pub history: &'static [(&'static str, &'static str)],
    /// Command tips, as COMMAND INFO lists them.
    pub tips: &'static [&'static str],
    /// The facts that only few commands have.
    pub special: Special,
}

impl Spec {
    /// Whether a request of `argc` arguments, name included, matches the arity.
    #[inline]
    pub fn fits(&self, argc: usize) -> bool {
        let arity = self.arity.unsigned_abs() as usize;
        if self.arity < 0 { argc >= arity } else { argc == arity }
    }

    /// The positions of the keys among `args`, in order. `None` if the arguments do not determine
    /// them (the key count is not a number or exceeds the arguments). The command then has no keys
    /// and returns its own error.
    pub fn key_positions(&self, args: &[&[u8]], mut found: impl FnMut(usize)) -> Option<()> {
        self.keys.iter().try_for_each(|spec| spec.positions(args, &mut found))
    }

    /// The first key, if its position does not depend on the arguments.
    pub fn fixed_key(&self) -> Option<FixedKey> {
        fixed_key(self.keys)
    }

    /// Whether the argument at `at` may be longer than `weft_types::TEXT_MAX`. Only values of
    /// string commands may: names and elements of collections have 32-bit lengths.
    pub fn takes_any_length(&self, at: usize) -> bool {
        self.group == Group::String && !self.keys.iter().any(|spec| spec.may_be_at(at))
    }
}

//! The facts of one command.

use crate::flags::Flags;
use crate::group::Group;
use crate::key_options;
use crate::key_spec::{Begin, FixedKey, KeySpec, fixed_key};
use crate::special::{GetKeys, Special};

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

    /// The positions of all arguments that hash to a slot, in any order: keys, the destinations that options name, and shard
    /// channels. `None` as for [`Spec::key_positions`].
    pub fn hashed_positions(&self, args: &[&[u8]], mut found: impl FnMut(usize)) -> Option<()> {
        let rule = self.special.get_keys;
        if rule == GetKeys::Migrate {
            key_options::migrate_keys(args)?.for_each(found);
            return Some(());
        }
        for spec in self.keys {
            // Several words can name the destination of GEORADIUS; the last one counts.
            let is_option = matches!(spec.begin, Begin::Keyword { .. });
            if !(rule == GetKeys::GeoStore && is_option) {
                spec.positions(args, &mut found)?;
            }
        }
        let destination = match rule {
            GetKeys::Sort => key_options::sort_destination(args),
            GetKeys::GeoStore => key_options::geo_destination(args),
            GetKeys::BySpecs | GetKeys::Migrate | GetKeys::Set | GetKeys::Bitfield => None,
        };
        destination.into_iter().for_each(found);
        Some(())
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

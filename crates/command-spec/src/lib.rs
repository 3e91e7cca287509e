//! The facts of commands, without their functions.
//!
//! | module | contents |
//! |---|---|
//! | [`Spec`] | all facts of one command or subcommand |
//! | [`Flags`], [`Group`] | the words of COMMAND INFO and COMMAND DOCS, and facts for the server itself |
//! | [`Special`] | facts that only few commands have, most of them for the server itself |
//! | [`KeySpec`], [`keys`] | which arguments are keys |
//! | [`Spec::categories`] | ACL categories |
//! | [`syntax`] | the arguments, as COMMAND DOCS shows them |
//!
//! This crate declares the types, and computes from the facts alone: the arity check, the positions
//! of keys, ACL categories, the tree of arguments. The facts of a command are written next to its function, in a
//! `Command` of `weft-commands` or `weft-transfer` or a `ServerCommand` of `weft-admin`. So each fact is written
//! once. `weft_state::command_table` collects all commands, and finds one by its name.
//!
//! Functions, locks and values are not here: locks are in `weft_commands::Lock`.

pub mod absent;
mod categories;
mod flags;
mod group;
pub mod key_options;
mod key_spec;
pub mod keys;
mod spec;
mod special;
pub mod syntax;

pub use categories::CATEGORIES;
pub use flags::Flags;
pub use group::Group;
pub use key_spec::{Begin, Find, FixedKey, KeySpec, NOT_A_KEY, legacy_range};
pub use spec::Spec;
pub use special::{
    Channels, CommandRole, Databases, Deprecated, GetKeys, Protection, QueuedWork, ScriptBy,
    ScriptCommand, Secrets, Special,
};

//! Access control lists: users, the rules that define them, and the check of a request.
//!
//! There are no sockets, threads or files here. The set of users is immutable: a change makes a new set, which shares
//! the users that did not change. So threads check requests without locks, and a set that fails to load changes
//! nothing.
//!
//! | module | contents |
//! |---|---|
//! | [`Catalog`] | the facts of all commands, by number: names, categories, keys, channels, databases |
//! | [`Users`], [`User`] | names, passwords and rules |
//! | [`Selector`] | one set of rights: commands, keys, channels, databases |
//! | [`check`] | whether a user may run a request; allocates nothing |
//! | [`RuleError`] | why a rule of ACL SETUSER is refused |
//! | [`mod@file`] | the file of users |
//! | [`Log`] | ACL LOG |
//!
//! Rules and texts are those of the reference ([page](../../../docs/design/acl.md)).

mod catalog;
pub mod check;
mod commands;
mod databases;
pub mod file;
pub mod fuzz;
mod log;
mod password;
mod patterns;
mod policy;
mod request;
mod rule_error;
mod selector;
#[cfg(test)]
mod tests;
mod user;
mod users;

pub use catalog::{Catalog, Entry};
pub use log::{Context, Event, Log, LogEntry, LogReason};
pub use password::{MAX_PASSWORD_BITS, Password, hex_password};
pub use patterns::{Access, has_invalid_bytes};
pub use policy::{ChannelDefault, Policy};
pub use request::{Denied, Reason, Request};
pub use rule_error::RuleError;
pub use selector::Selector;
pub use user::User;
pub use users::{DEFAULT_USER, Users};

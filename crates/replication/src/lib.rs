//! Replication as state machines: a primary with its replicas, and a replica with its primary.
//!
//! There are no sockets here, no threads and no clock. Events come in with the time, and what is to be done
//! comes out as [`Action`]s, so that a simulation can run thousands of servers through cuts, restarts
//! and promotions in a second (`sim`). [`Node`] is one server, and what an I/O layer talks to.
//!
//! | module | holds |
//! |---|---|
//! | [`id`] | names of histories, and who may go on with whom |
//! | [`backlog`] | the last part of the stream, shared by all replicas |
//! | [`encode`] | units of the effect log as bytes of the stream |
//! | [`stream`] | these three as one: what this server has written or received |
//! | [`apply`] | the stream as units that are applied as wholes |
//! | [`primary`] | a machine for each replica of ours |
//! | [`replica`] | the machine that follows our primary |
//! | [`failover`] | FAILOVER |
//! | [`node`] | where they meet: roles, chains, promotion |
//! | [`action`], [`settings`] | what goes out and what the configuration says |
//!
//! The design is in `docs/design/replication.md`. The protocol is Valkey 9.1's, which is that of Redis.

pub mod action;
pub mod apply;
pub mod backlog;
mod cx;
pub mod encode;
pub mod failover;
pub mod fuzz;
pub mod id;
mod lines;
pub mod node;
pub mod planted;
pub mod primary;
pub mod replica;
pub mod settings;
#[cfg(test)]
mod sim;
pub mod stream;
#[cfg(test)]
mod tests;

pub use action::Action;
pub use id::ReplicationId;
pub use node::{Node, Start};
pub use settings::Settings;
pub use stream::Position;

/// Monotonic time in milliseconds, from any beginning.
pub type Ms = u64;

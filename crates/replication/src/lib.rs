//! Replication as state machines: a primary with its replicas, and a replica with its primary.
//!
//! This crate has no sockets, threads or clock. Events arrive with their time, and the machines
//! return [`Action`]s. So a simulation can run thousands of servers through cuts, restarts and
//! promotions in a second (`sim`). [`Node`] is one server, the interface for an I/O layer.
//!
//! | module | holds |
//! |---|---|
//! | [`id`] | ids of histories, and whether a replica may continue |
//! | [`backlog`] | the last part of the stream, shared by all replicas |
//! | [`stream`] | combines these three: the stream that this server has written or received |
//! | [`apply`] | splits the stream into units, which are applied atomically |
//! | [`primary`] | a machine for each replica of this server |
//! | [`replica`] | the machine that follows the primary |
//! | [`failover`] | FAILOVER |
//! | [`node`] | connects the machines: roles, chains, promotion |
//! | [`cluster`] | the shard of a node in a cluster with a store |
//! | [`action`], [`settings`] | actions for the I/O layer, and the configuration |
//!
//! The design is in `docs/design/replication.md`. The protocol is that of Valkey 9.1, which is
//! compatible with Redis.

pub mod action;
pub mod apply;
pub mod backlog;
pub mod cluster;
mod cx;
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

/// Monotonic time in milliseconds, from an arbitrary origin.
pub type Ms = u64;

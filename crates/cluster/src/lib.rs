//! The map of a cluster, and all decisions on it. No sockets, threads, clocks or files.
//!
//! * [`slots`], [`id`] - slots, ids of nodes and shards
//! * [`map`] - nodes, epochs, the owner of each slot
//! * [`request`], [`decide`](mod@decide) - what a CLUSTER command does to the map, or why it is refused
//!   ([`refusal`]); [`change`]: the result, which applies to one version of the map
//! * [`views`] - what CLUSTER NODES, SLOTS, SHARDS and INFO show
//! * [`node`](mod@node) - the decisions of a node in a cluster with a store
//! * [`file`](mod@file) - the text of `cluster-config-file`
//! * [`settings`] - the directives that decide how a node answers
//! * [`routes`] - the map, compiled for the request path

pub mod arguments;
pub mod change;
pub mod decide;
pub mod file;
pub mod id;
pub mod map;
pub mod node;
pub mod planted;
pub mod refusal;
pub mod request;
pub mod routes;
pub mod settings;
pub mod slots;
pub mod views;

#[cfg(test)]
mod tests;

pub use change::{Change, Conflict, Edit};
pub use decide::{Facts, Plan, decide, plan};
pub use id::{NodeId, ShardId};
pub use map::{Addresses, Health, Map, Node, Role, State};
pub use refusal::Refusal;
pub use request::{Request, Verb};
pub use routes::{Asker, KeysFound, Routes, Verdict};
pub use settings::{Family, Preferred, Settings, Via};
pub use slots::{Slot, SlotRange, SlotSet};
pub use views::View;

//! The map of a cluster, and all decisions on it. No sockets, threads, clocks or files.
//!
//! * [`slots`], [`id`] - slots, ids of nodes and shards
//! * [`map`] - nodes, epochs, the owner of each slot
//! * [`settings`] - the directives that decide how a node answers
//! * [`routes`] - the map, compiled for the request path

pub mod id;
pub mod map;
pub mod routes;
pub mod settings;
pub mod slots;

pub use id::{NodeId, ShardId};
pub use map::{Addresses, Health, Map, Node, Role, State, Transit};
pub use routes::{Asker, KeysFound, Routes, Verdict};
pub use settings::{Family, Preferred, Settings, Via};
pub use slots::{Slot, SlotRange, SlotSet};

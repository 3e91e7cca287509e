//! The store in which the nodes of a cluster keep their decisions.
//!
//! It knows nothing of nodes and slots: keys and values are bytes under a prefix. The reasons are in
//! `docs/design/cluster-store.md`.
//!
//! * [`store`] - the trait, and the meaning of each error
//! * [`address`] - the address of a store, as a user writes it
//! * [`etcd`] - the store in etcd, over its JSON gateway
//! * [`memory`] - a simulated store: linearizable, seeded, and unreliable on demand

pub mod address;
pub mod etcd;
pub mod fuzz;
pub mod memory;
pub mod store;

pub use address::Address;
pub use etcd::Etcd;
pub use store::{Error, Store, Watch};

//! A simulated store: the second implementation of the contract, and the store of simulations.
//!
//! * [`state`] - keys, history and leases; faults that tests plant
//! * [`network`] - requests and events over time: delays, lost answers, cuts, restarts. Pure
//! * [`blocking`] - the trait [`crate::Store`] for it

pub mod blocking;
pub mod network;
pub mod state;

pub use blocking::Memory;
pub use network::{Answer, ClientId, Cut, Event, Network, Request, RequestId, Settings};
pub use state::{Planted, State};

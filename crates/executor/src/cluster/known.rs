//! The topology that a thread uses.

use std::sync::Arc;
use weft_cluster::Slot;
use weft_state::cluster::{ClusterState, Topology};

/// The topology that a thread executes commands with.
#[derive(Debug, Default)]
pub struct KnownTopology {
    topology: Option<Arc<Topology>>,
    number: u64,
}

impl KnownTopology {
    /// Whether it is the one in force, and this node serves `slot` without any condition.
    #[inline]
    pub fn serves(&self, state: &ClusterState, slot: Slot) -> bool {
        self.number == state.number()
            && self.topology.as_ref().is_some_and(|topology| topology.routes.serves(slot))
    }

    /// Takes the topology in force. There is none before the start has read it: then there are no clients.
    pub fn renew(&mut self, state: &ClusterState) -> Option<&Topology> {
        if self.number != state.number() {
            (self.topology, self.number) = state.current();
        }
        self.topology.as_deref()
    }

    /// The topology as of the last [`KnownTopology::renew`].
    pub fn topology(&self) -> Option<&Topology> {
        self.topology.as_deref()
    }
}

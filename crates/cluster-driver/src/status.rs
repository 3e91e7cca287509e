//! The authority of this node, for INFO cluster.

use crate::Driver;
use weft_cluster::NodeId;
use weft_replication_driver::hub;

/// See the module's documentation. Times are remaining milliseconds.
pub struct Status {
    /// This node's lease is certainly valid for this long.
    pub lease_ms: u64,
    /// This node may acknowledge for this long, as a primary.
    pub acknowledges_ms: u64,
    pub store_is_failing: bool,
    /// The replicas of its shard that may be promoted.
    pub listed: Vec<NodeId>,
    /// Bytes of the stream whose replies wait until all listed replicas have them.
    pub unconfirmed_bytes: u64,
    /// Connections that were closed without a reply.
    pub closed_clients: u64,
}

impl Driver {
    /// Whether this node has lost its lease since the store doesn't answer.
    pub fn is_cut_off(&self) -> bool {
        self.store.is_failing() && self.machine().node().lease_until() <= self.now()
    }

    pub fn status(&self) -> Status {
        let now = self.now();
        let end = hub(self.srv).published.offset.load(std::sync::atomic::Ordering::SeqCst);
        let authority = &self.srv.nodes.cluster.authority;
        let machine = self.machine();
        let node = machine.node();
        Status {
            lease_ms: node.lease_until().saturating_sub(now),
            acknowledges_ms: authority.bounded_until().saturating_sub(now),
            store_is_failing: self.store.is_failing(),
            listed: node.listed(),
            unconfirmed_bytes: node.confirmed_through().map_or(0, |at| end.saturating_sub(at)),
            closed_clients: authority.closed(),
        }
    }
}

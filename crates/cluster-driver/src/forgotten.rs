//! Nodes that have left the map a short time ago. CLUSTER FORGET of one of them succeeds, since tools send it to each node.

use crate::Driver;
use std::time::{Duration, Instant};
use weft_cluster::{Map, NodeId};
use weft_config::Id;

/// The nodes, with the times when they left.
#[derive(Default)]
pub struct Forgotten(Vec<(NodeId, Instant)>);

impl Driver {
    /// Whether this node has seen that the other one left the map, a short time ago.
    pub fn was_known(&self, node: NodeId) -> bool {
        let forgotten = self.forgotten.lock().unwrap_or_else(|p| p.into_inner());
        let is_known = self.srv.nodes.cluster.topology().map.node(node).is_some();
        let remembered = self.remembered();
        let is_recent = |since: &Instant| since.elapsed() < remembered;
        !is_known && forgotten.0.iter().any(|(id, since)| *id == node && is_recent(since))
    }

    /// How long a node counts as forgotten.
    fn remembered(&self) -> Duration {
        let seconds = self.srv.config().int(Id::CLUSTER_BLACKLIST_TTL);
        Duration::from_secs(u64::try_from(seconds).unwrap_or(0))
    }

    /// Remembers the nodes that `after` lacks.
    pub(crate) fn note_forgotten(&self, before: &Map, after: &Map) {
        let mut forgotten = self.forgotten.lock().unwrap_or_else(|p| p.into_inner());
        let remembered = self.remembered();
        forgotten.0.retain(|(_, since)| since.elapsed() < remembered);
        let left = before.nodes().iter().filter(|node| after.node(node.id).is_none());
        forgotten.0.extend(left.map(|node| (node.id, Instant::now())));
    }
}

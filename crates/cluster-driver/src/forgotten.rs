//! Nodes that have left the map a short time ago. CLUSTER FORGET of one of them succeeds, since tools send it to each node.

use crate::Driver;
use std::time::{Duration, Instant};
use weft_cluster::{Map, NodeId};

/// How long a node counts as forgotten, as in Valkey.
const REMEMBERED: Duration = Duration::from_secs(60);

/// The nodes, with the times when they left.
#[derive(Default)]
pub struct Forgotten(Vec<(NodeId, Instant)>);

impl Driver {
    /// Whether this node has seen that the other one left the map, a short time ago.
    pub fn was_known(&self, node: NodeId) -> bool {
        let forgotten = self.forgotten.lock().unwrap_or_else(|p| p.into_inner());
        let is_known = self.srv.nodes.cluster.topology().map.node(node).is_some();
        let is_recent = |since: &Instant| since.elapsed() < REMEMBERED;
        !is_known && forgotten.0.iter().any(|(id, since)| *id == node && is_recent(since))
    }

    /// Remembers the nodes that `after` lacks.
    pub(crate) fn note_forgotten(&self, before: &Map, after: &Map) {
        let mut forgotten = self.forgotten.lock().unwrap_or_else(|p| p.into_inner());
        forgotten.0.retain(|(_, since)| since.elapsed() < REMEMBERED);
        let left = before.nodes().iter().filter(|node| after.node(node.id).is_none());
        forgotten.0.extend(left.map(|node| (node.id, Instant::now())));
    }
}

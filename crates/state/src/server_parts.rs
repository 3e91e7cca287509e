//! Groups of the server's state.

use crate::bio::Bio;
use crate::clients::{ClientShared, Clients, Tracking};
use crate::cluster::ClusterState;
use crate::defrag_state::Defrag;
use crate::node_links::NodeLinks;
use crate::pause::ClientPause;
use crate::replication_status::ReplicationStatus;
use crate::unauthenticated::Unauthenticated;
use crate::upkeep::{ClientEviction, Watchdog};
use crate::waiting::WaitQueues;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Mutex};
use weft_pubsub::registry::Registry;

/// Clients, and the queues and registries that they are in.
#[derive(Default)]
pub struct ClientState {
    pub registry: Clients,
    pub unauthenticated: Unauthenticated,
    /// Clients that are blocked on keys.
    pub blocked: WaitQueues,
    pub eviction: ClientEviction,
    /// Clients in MONITOR: id and thread.
    pub monitors: Mutex<Vec<(u64, usize)>>,
    pub pubsub: Registry,
    /// Links between the nodes of a cluster.
    pub links: NodeLinks,
    pub tracking: Tracking,
    pub pause: ClientPause,
}

impl ClientState {
    /// The registry with the subscriptions of this client. Those of other nodes are kept apart: they don't count as receivers.
    pub fn registry_of(&self, client: &ClientShared) -> &Registry {
        match client.pushes.is_node_link.load(Ordering::Relaxed) {
            true => &self.links.registry,
            false => &self.pubsub,
        }
    }
}

/// This server and the others that it works with.
pub struct Nodes {
    pub replication: Arc<ReplicationStatus>,
    pub cluster: ClusterState,
}

/// State of background work.
pub struct Background {
    pub bio: Bio,
    pub defrag: Defrag,
    pub watchdog: Watchdog,
    /// DEBUG SET-ACTIVE-EXPIRE.
    pub active_expire: AtomicBool,
    /// Monotonic milliseconds of the last warning about HTTP; 0: none yet.
    pub(crate) http_seen_ms: AtomicI64,
}

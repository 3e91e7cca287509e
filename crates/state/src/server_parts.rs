//! Groups of the server's state.

use crate::bio::Bio;
use crate::clients::{Clients, Tracking};
use crate::cluster::ClusterState;
use crate::defrag_state::Defrag;
use crate::pause::ClientPause;
use crate::replication_status::ReplicationStatus;
use crate::unauthenticated::Unauthenticated;
use crate::upkeep::{ClientEviction, Watchdog};
use crate::waiting::WaitQueues;
use std::sync::atomic::{AtomicBool, AtomicI64};
use std::sync::{Arc, Mutex};

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
    pub pubsub: weft_pubsub::registry::Registry,
    pub tracking: Tracking,
    pub pause: ClientPause,
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

//! Groups of the server's state.

use crate::answers::Answers;
use crate::bio::Bio;
use crate::clients::{Clients, Tracking};
use crate::defrag_state::Defrag;
use crate::pause::ClientPause;
use crate::server::{Journal, Replicator, RunThread};
use crate::upkeep::{ClientEviction, Watchdog};
use crate::waiting::Lines;
use std::any::Any;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicI64};

/// Clients, and what they wait for and listen to.
#[derive(Default)]
pub struct ClientState {
    pub registry: Clients,
    /// Clients that are blocked on keys.
    pub blocked: Lines,
    pub eviction: ClientEviction,
    /// Clients in MONITOR: id and thread.
    pub monitors: Mutex<Vec<(u64, usize)>>,
    pub pubsub: weft_pubsub::registry::Registry,
    pub tracking: Tracking,
    pub pause: ClientPause,
}

/// Parts above this crate, known here by what this crate asks of them.
pub struct Links {
    /// What [`Run::Server`](crate::command_table::Run::Server) numbers; only the executor knows its type.
    pub functions: Box<dyn Any + Send + Sync>,
    /// The append-only file.
    pub journal: Box<dyn Journal>,
    pub replicator: Box<dyn Replicator>,
    /// The body of each I/O thread.
    pub run_thread: RunThread,
    /// Replies that wait for the disk or for replicas.
    pub answers: Answers,
}

/// State of regular work beside commands.
pub struct Background {
    pub bio: Bio,
    pub defrag: Defrag,
    pub watchdog: Watchdog,
    /// DEBUG SET-ACTIVE-EXPIRE.
    pub active_expire: AtomicBool,
    /// Monotonic milliseconds of the last warning of HTTP; 0 for none.
    pub(crate) http_seen_ms: AtomicI64,
}

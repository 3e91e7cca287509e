//! What other threads may read of replication without its mutex; renewed after each of its events.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// See the module.
#[derive(Debug, Default)]
pub struct ReplicationStatus {
    pub is_replica: AtomicBool,
    /// The stream of our primary comes in.
    pub is_linked: AtomicBool,
    /// A copy is loaded beside the data that are served (`async_loading`).
    pub loads_beside: AtomicBool,
    /// Where the stream ends, in bytes.
    pub offset: AtomicU64,
    /// The last unit of the log of effects that is in the stream.
    pub unit: AtomicU64,
    /// The last unit behind which the place in the history is known; 0: none.
    pub placed: AtomicU64,
    /// Bytes that replicas were sent.
    pub sent: AtomicU64,
    /// Streamed copies of which a file took the rest, as writes waited for them.
    pub spilled: AtomicU64,
    /// Answers wait until more of the log is in the stream, or are about to.
    pub is_crowded: AtomicBool,
    /// Bytes of the stream that are kept for replicas only: beyond the backlog's size.
    pub behind: AtomicU64,
    /// Somebody waits for replicas.
    pub has_waits: AtomicBool,
    /// Too few replicas keep up for clients to write.
    pub has_few: AtomicBool,
}

impl ReplicationStatus {
    /// Bytes of the stream that are kept for replicas that are behind, and would not be otherwise.
    pub fn behind(&self) -> usize {
        usize::try_from(self.behind.load(Ordering::Relaxed)).unwrap_or(usize::MAX)
    }

    /// Whether this server is a replica.
    pub fn is_replica(&self) -> bool {
        self.is_replica.load(Ordering::Relaxed)
    }
}

//! The state of replication that other threads read without its mutex, updated after each replication event.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// The state of replication that other threads read.
#[derive(Debug, Default)]
pub struct ReplicationStatus {
    pub is_replica: AtomicBool,
    /// The replication stream of our primary is arriving.
    pub is_linked: AtomicBool,
    /// A copy is being loaded while the old data is served (`async_loading`).
    pub loads_async: AtomicBool,
    /// The end of the replication stream, in bytes.
    pub offset: AtomicU64,
    /// The last unit of the effect log that is in the replication stream.
    pub unit: AtomicU64,
    /// The last unit for which the position after it is known; 0: none.
    pub placed: AtomicU64,
    /// Bytes sent to replicas.
    pub sent: AtomicU64,
    /// Streamed copies whose rest was written to a file because writes were waiting for them.
    pub spilled: AtomicU64,
    /// Replies wait, or will wait soon, until more of the log is in the replication stream.
    pub is_crowded: AtomicBool,
    /// Bytes of the stream kept only for replicas, beyond the backlog's size.
    pub behind: AtomicU64,
    /// A client waits for replicas.
    pub has_waits: AtomicBool,
    /// Too few replicas keep up: clients' writes are refused.
    pub has_few: AtomicBool,
}

impl ReplicationStatus {
    /// Bytes of the stream that are kept only for replicas that lag.
    pub fn behind(&self) -> usize {
        usize::try_from(self.behind.load(Ordering::Relaxed)).unwrap_or(usize::MAX)
    }

    /// Whether this server is a replica.
    pub fn is_replica(&self) -> bool {
        self.is_replica.load(Ordering::Relaxed)
    }
}

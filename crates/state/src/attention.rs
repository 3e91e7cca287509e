//! Reasons for which a command may have to leave the fast path: one word that each command loads once.

use std::sync::atomic::{AtomicU32, Ordering};

/// A client runs MONITOR.
pub const MONITOR: u32 = 1;
/// CLIENT PAUSE is in force.
pub const PAUSED: u32 = 2;
/// `maxmemory` is set.
pub const MAXMEMORY: u32 = 4;
/// The append-only file can't be written.
pub const AOF_FAILING: u32 = 64;
/// `import-mode` is on.
pub const IMPORT: u32 = 8;
/// A file is being loaded.
pub const LOADING: u32 = 16;
/// The last background save failed, and writes are refused for that reason.
pub const UNSAVED: u32 = 32;
/// A thread may have too many published messages to deliver.
pub const CROWDED: u32 = 128;
/// This server is a replica.
pub const REPLICA: u32 = 256;
/// Too few replicas keep up: clients' writes are refused.
pub const FEW_REPLICAS: u32 = 512;
/// A snapshot is being taken, or a command waits for a snapshot at its memory limit.
pub const SNAPSHOT: u32 = 1024;

/// This server is a node of a cluster.
pub const CLUSTER: u32 = 2048;
/// This server may acknowledge as long as it holds a lease.
pub const LEASE: u32 = 4096;
/// A node of a cluster with a store, without any other reason.
pub const CLUSTER_LEASE: u32 = CLUSTER | LEASE;

/// The reasons in force, as bits.
#[derive(Debug, Default)]
pub struct Attention(AtomicU32);

impl Attention {
    /// The bits that are set.
    #[inline]
    pub fn load(&self, order: Ordering) -> u32 {
        self.0.load(order)
    }

    /// Sets or clears a bit.
    pub fn set(&self, bit: u32, on: bool) {
        if on {
            self.0.fetch_or(bit, Ordering::SeqCst);
        } else {
            self.0.fetch_and(!bit, Ordering::SeqCst);
        }
    }
}

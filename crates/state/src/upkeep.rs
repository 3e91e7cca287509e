//! State of background work.

use crate::clients::ClientShared;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Condvar, Mutex};

/// The shared state of client eviction, which keeps clients within `maxmemory-clients`: see
/// `weft_admin::client_eviction`.
#[derive(Debug, Default)]
pub struct ClientEviction {
    /// Locked by the thread that chooses clients.
    pub choosing: Mutex<()>,
    /// Memory of clients that are marked and not closed yet (bytes).
    pub leaving: AtomicU64,
}

/// The watchdog's period, and whether it has a thread: see `weft_admin::watchdog`.
#[derive(Debug, Default)]
pub struct Watchdog {
    /// Milliseconds; 0: the watchdog is off.
    pub period_ms: AtomicU64,
    pub exists: AtomicBool,
    pub changed: (Mutex<()>, Condvar),
}

impl ClientEviction {
    /// Subtracts a closed client from the count. A client may be chosen while it is being closed; then the
    /// message that closes it calls this a second time, without effect.
    pub fn client_left(&self, client: &ClientShared) {
        let memory = client.memory.evicted.swap(0, Ordering::AcqRel);
        if memory > 0 {
            self.leaving.fetch_sub(memory, Ordering::Relaxed);
        }
    }
}

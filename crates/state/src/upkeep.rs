//! State of what the server does beside commands, apart from those who do it.

use crate::clients::ClientShared;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Condvar, Mutex};

/// What threads share that keep clients within `maxmemory-clients`: see [`weft_admin::client_eviction`].
#[derive(Debug, Default)]
pub struct ClientEviction {
    /// Held by the thread that chooses.
    pub choosing: Mutex<()>,
    /// Bytes of clients that are marked and still there.
    pub leaving: AtomicU64,
}

/// The watchdog's period, and whether it has a thread: see [`weft_admin::watchdog`].
#[derive(Debug, Default)]
pub struct Watchdog {
    /// Milliseconds; 0: it does not look.
    pub period_ms: AtomicU64,
    pub exists: AtomicBool,
    pub changed: (Mutex<()>, Condvar),
}

impl ClientEviction {
    /// Takes a client that is gone off the account. A client may be chosen while it leaves; then the message
    /// that closes it calls this a second time, without effect.
    pub fn client_left(&self, client: &ClientShared) {
        let memory = client.memory.evicted.swap(0, Ordering::AcqRel);
        if memory > 0 {
            self.leaving.fetch_sub(memory, Ordering::Relaxed);
        }
    }
}

//! State of what the server does beside commands, apart from those who do it.

use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Condvar, Mutex};

/// What threads share that keep clients within `maxmemory-clients`: see [`crate::client_eviction`].
#[derive(Debug, Default)]
pub struct ClientEviction {
    /// Held by the thread that chooses.
    pub choosing: Mutex<()>,
    /// Bytes of clients that are marked and still there.
    pub leaving: AtomicU64,
}

/// The watchdog's period, and whether it has a thread: see [`crate::watchdog`].
#[derive(Debug, Default)]
pub struct Watchdog {
    /// Milliseconds; 0: it does not look.
    pub period_ms: AtomicU64,
    pub exists: AtomicBool,
    pub changed: (Mutex<()>, Condvar),
}

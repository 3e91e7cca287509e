//! The numbers of the append-only file: one thread writes them, any thread may read them. Its states
//! are in [`super::lifecycle`].

use std::sync::atomic::{AtomicU64, Ordering};

/// See the module.
#[derive(Debug, Default)]
pub struct Status {
    pub size: AtomicU64,
    /// The size after the last rewrite.
    pub base_size: AtomicU64,
    /// Bytes waiting to be written, except those in the effect log.
    pub buffer: AtomicU64,
    pub delayed_syncs: AtomicU64,
    /// Rewrites begun.
    pub rewrites: AtomicU64,
    pub failures: AtomicU64,
    /// The most bytes that the last rewrite kept in addition to the data.
    pub last_kept: AtomicU64,
    /// The minimum duration of each write (microseconds), for tests.
    pub flush_sleep_us: AtomicU64,
}

impl Status {
    pub fn reset(&self) {
        self.delayed_syncs.store(0, Ordering::Relaxed);
        self.rewrites.store(0, Ordering::Relaxed);
    }
}

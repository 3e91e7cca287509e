//! The status of the append-only file: one thread writes it, any thread may read it.

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};

/// See the module. Times are in seconds.
#[derive(Debug)]
pub struct Status {
    pub size: AtomicU64,
    /// The size after the last rewrite.
    pub base_size: AtomicU64,
    /// Bytes waiting to be written, except those in the effect log.
    pub buffer: AtomicU64,
    pub syncing: AtomicBool,
    pub delayed_syncs: AtomicU64,
    /// Rewrites begun.
    pub rewrites: AtomicU64,
    pub failures: AtomicU64,
    pub last_rewrite_failed: AtomicBool,
    /// A rewrite waits for a running snapshot.
    pub scheduled: AtomicBool,
    /// The log has no base yet: the next start ignores it until the first rewrite succeeds.
    pub waits_for_base: AtomicBool,
    /// The most bytes that the last rewrite kept in addition to the data.
    pub last_kept: AtomicU64,
    /// The duration of the last rewrite; -1: none has ended.
    pub last_rewrite_s: AtomicI64,
    /// The Unix time at which the running rewrite began; 0: none is running.
    pub rewrite_began_s: AtomicI64,
    /// The minimum duration of each write (microseconds), for tests.
    pub flush_sleep_us: AtomicU64,
    /// The error that prevents writes.
    error: Mutex<Option<String>>,
}

impl Default for Status {
    fn default() -> Self {
        Status {
            size: AtomicU64::new(0),
            base_size: AtomicU64::new(0),
            buffer: AtomicU64::new(0),
            syncing: AtomicBool::new(false),
            delayed_syncs: AtomicU64::new(0),
            rewrites: AtomicU64::new(0),
            failures: AtomicU64::new(0),
            last_rewrite_failed: AtomicBool::new(false),
            scheduled: AtomicBool::new(false),
            waits_for_base: AtomicBool::new(false),
            last_kept: AtomicU64::new(0),
            last_rewrite_s: AtomicI64::new(-1),
            rewrite_began_s: AtomicI64::new(0),
            flush_sleep_us: AtomicU64::new(0),
            error: Mutex::default(),
        }
    }
}

impl Status {
    fn error(&self) -> MutexGuard<'_, Option<String>> {
        self.error.lock().unwrap_or_else(|p| p.into_inner())
    }

    pub fn last_error(&self) -> Option<String> {
        self.error().clone()
    }

    /// Sets or clears the error. Returns whether there was one.
    pub fn set_error(&self, error: Option<String>) -> bool {
        std::mem::replace(&mut *self.error(), error).is_some()
    }

    pub fn reset(&self) {
        self.delayed_syncs.store(0, Ordering::Relaxed);
        self.rewrites.store(0, Ordering::Relaxed);
    }
}

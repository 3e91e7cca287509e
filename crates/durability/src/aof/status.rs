//! What is told of the append-only file: one thread writes it, any may read.

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};

/// See the module. Times are in seconds.
#[derive(Debug)]
pub struct Status {
    pub size: AtomicU64,
    /// After the last rewrite.
    pub base_size: AtomicU64,
    /// Bytes that wait to be written, beside those in the log.
    pub buffer: AtomicU64,
    pub syncing: AtomicBool,
    pub delayed_syncs: AtomicU64,
    /// Rewrites that were begun.
    pub rewrites: AtomicU64,
    pub failures: AtomicU64,
    pub last_rewrite_failed: AtomicBool,
    /// One waits for a snapshot that is under way.
    pub scheduled: AtomicBool,
    /// What is logged is in force when the first rewrite has succeeded, and not before.
    pub waits_for_base: AtomicBool,
    /// The most bytes that the last one has kept beside the data.
    pub last_kept: AtomicU64,
    /// How long the last one took; -1: none has ended.
    pub last_rewrite_s: AtomicI64,
    /// Unix time at which the present one began; 0: there is none.
    pub rewrite_began_s: AtomicI64,
    /// How long each write is to take at least (microseconds): for tests.
    pub flush_sleep_us: AtomicU64,
    /// Why nothing can be written.
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

    /// Notes an error, or that there is none any more; whether there was one.
    pub fn set_error(&self, error: Option<String>) -> bool {
        std::mem::replace(&mut *self.error(), error).is_some()
    }

    pub fn reset(&self) {
        self.delayed_syncs.store(0, Ordering::Relaxed);
        self.rewrites.store(0, Ordering::Relaxed);
    }
}

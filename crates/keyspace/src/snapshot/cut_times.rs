//! The durations of cuts.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// How long cuts took, from the wish to stop the I/O threads to their release. Cuts that other stops of the world
/// include are not counted.
#[derive(Debug, Default)]
pub struct CutTimes {
    count: AtomicU64,
    /// Nanoseconds: all of them, and the last one.
    all: AtomicU64,
    last: AtomicU64,
}

impl CutTimes {
    pub(super) fn add(&self, took: Duration) {
        let ns = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        self.all.fetch_add(ns, Ordering::Relaxed);
        self.last.store(ns, Ordering::Relaxed);
        self.count.fetch_add(1, Ordering::Relaxed);
    }

    pub fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }

    /// The sum of all times.
    pub fn all(&self) -> Duration {
        Duration::from_nanos(self.all.load(Ordering::Relaxed))
    }

    /// The time of the last one.
    pub fn last(&self) -> Duration {
        Duration::from_nanos(self.last.load(Ordering::Relaxed))
    }
}

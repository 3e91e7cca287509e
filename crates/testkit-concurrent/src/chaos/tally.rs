//! Counters of a run.

use std::sync::atomic::{AtomicU64, Ordering};

/// Counters of a run, to check that it did something.
#[derive(Debug, Default)]
pub struct Tally {
    pub connections: AtomicU64,
    pub requests: AtomicU64,
    pub replies: AtomicU64,
    pub errors: AtomicU64,
    /// Connections that the server closed or refused.
    pub closed: AtomicU64,
    pub disturbances: AtomicU64,
}

impl Tally {
    /// Adds `n` to a counter of a tally.
    pub fn count(counter: &AtomicU64, n: u64) {
        counter.fetch_add(n, Ordering::Relaxed);
    }

    /// `name=value` of each counter.
    pub fn describe(&self) -> String {
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        format!(
            "connections={} requests={} replies={} errors={} closed={} disturbances={}",
            of(&self.connections),
            of(&self.requests),
            of(&self.replies),
            of(&self.errors),
            of(&self.closed),
            of(&self.disturbances),
        )
    }
}

//! Counters with one writer: see [`crate::stats`].

use std::sync::atomic::{AtomicU64, Ordering};

/// A counter with one writer and any number of readers.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Only the owner thread may call this.
    #[inline]
    pub fn add(&self, n: u64) {
        self.0.store(self.0.load(Ordering::Relaxed).wrapping_add(n), Ordering::Relaxed);
    }

    /// Subtracts a number that was added. Only the owner thread may call this.
    pub fn take_back(&self, n: u64) {
        self.add(n.wrapping_neg());
    }

    /// For the few counters that have several writers.
    pub fn shared_add(&self, n: u64) {
        self.0.fetch_add(n, Ordering::Relaxed);
    }

    /// For the few counters that have several writers.
    pub fn shared_sub(&self, n: u64) {
        self.0.fetch_sub(n, Ordering::Relaxed);
    }

    #[inline]
    pub fn set(&self, n: u64) {
        self.0.store(n, Ordering::Relaxed);
    }

    #[inline]
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

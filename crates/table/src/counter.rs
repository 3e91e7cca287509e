//! Counts of a table that other threads may read.

use std::sync::atomic::{AtomicU32, Ordering};

/// A counter that one thread writes and others may read. 32 bits suffice for all counts of a table:
/// 2^32 records would take more than 256 GiB.
#[derive(Default)]
pub(crate) struct Counter(AtomicU32);

impl Counter {
    pub(crate) const fn new() -> Self {
        Counter(AtomicU32::new(0))
    }

    #[inline(always)]
    pub(crate) fn get(&self) -> usize {
        self.0.load(Ordering::Relaxed) as usize
    }

    /// # Panics
    ///
    /// If `value` has more than 32 bits.
    #[inline(always)]
    pub(crate) fn set(&self, value: usize) {
        let value = u32::try_from(value).expect("a table counts up to 2^32");
        self.0.store(value, Ordering::Relaxed);
    }

    /// Not one atomic step: only the holder of the lock calls it.
    #[inline(always)]
    pub(crate) fn add(&self, n: usize) {
        self.set(self.get() + n);
    }

    /// See [`Counter::add`].
    #[inline(always)]
    pub(crate) fn sub(&self, n: usize) {
        self.set(self.get() - n);
    }
}

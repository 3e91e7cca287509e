//! How much memory is used, exactly, at the price of two loads.
//!
//! jemalloc counts, for each thread, the bytes it has handed out and taken back (usable sizes,
//! so that what is counted is what is held). A thread's net is the difference of the two; what
//! the process uses is the sum of all nets, whichever thread frees what another allocated.
//! Threads that execute commands publish their net once per batch, or at once when it has moved
//! far, and compare against the limit with their own latest figures.

use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};

#[cfg(weft_sanitizer)]
use crate::counted::{epoch, stats, thread};
#[cfg(not(weft_sanitizer))]
use tikv_jemalloc_ctl::{epoch, stats, thread};

/// A thread tells the others when its net has moved by this many bytes.
const STEP: i64 = 16 * 1024;

/// The memory of the process.
#[derive(Debug, Default)]
pub struct Memory {
    /// Sum of the published nets of all threads that publish, and what was there at start.
    used: AtomicI64,
    peak: AtomicUsize,
    startup: AtomicUsize,
    peak_time: AtomicI64,
    /// Bytes of statistics, which grow with what commands are used and are no data: `maxmemory` is
    /// not about them.
    statistics: AtomicUsize,
}

impl Memory {
    /// Remembers what the process uses before it serves, with all that its threads have allocated
    /// to begin with: the threads' nets count from here.
    pub fn begin(&self) {
        let used = allocated();
        self.startup.store(used, Ordering::Relaxed);
        self.used.store(used as i64, Ordering::Relaxed);
    }

    /// Bytes in use, as of the last publications.
    #[inline]
    pub fn used(&self) -> usize {
        self.used.load(Ordering::Relaxed).max(0) as usize
    }

    /// Another `bytes` are taken by statistics, for as long as the server runs.
    pub fn add_statistics(&self, bytes: usize) {
        self.statistics.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Bytes taken by statistics.
    pub fn statistics(&self) -> usize {
        self.statistics.load(Ordering::Relaxed)
    }

    /// Bytes in use before the first client came.
    pub fn startup(&self) -> usize {
        self.startup.load(Ordering::Relaxed)
    }

    /// The most that was ever in use, as far as it was looked at (each cron tick), and when
    /// (Unix seconds).
    pub fn peak(&self, now_s: i64) -> (usize, i64) {
        let used = self.used();
        if used > self.peak.load(Ordering::Relaxed) {
            self.peak.store(used, Ordering::Relaxed);
            self.peak_time.store(now_s, Ordering::Relaxed);
        }
        (self.peak.load(Ordering::Relaxed), self.peak_time.load(Ordering::Relaxed))
    }

    pub fn reset_peak(&self) {
        self.peak.store(self.used(), Ordering::Relaxed);
    }
}

/// Bytes handed out by the allocator, asked of the allocator itself.
pub fn allocated() -> usize {
    let _ = epoch::advance();
    stats::allocated::read().unwrap_or(0)
}

/// The allocator's own statistics, for INFO memory and MEMORY STATS.
#[derive(Clone, Copy, Debug, Default)]
pub struct AllocatorStats {
    pub allocated: usize,
    pub active: usize,
    pub resident: usize,
    pub retained: usize,
    pub metadata: usize,
}

pub fn allocator_stats() -> AllocatorStats {
    let _ = epoch::advance();
    AllocatorStats {
        allocated: stats::allocated::read().unwrap_or(0),
        active: stats::active::read().unwrap_or(0),
        resident: stats::resident::read().unwrap_or(0),
        retained: stats::retained::read().unwrap_or(0),
        metadata: stats::metadata::read().unwrap_or(0),
    }
}

/// One thread's part of the account. Must be made on the thread that it counts.
pub struct ThreadMemory {
    allocated: thread::ThreadLocal<u64>,
    deallocated: thread::ThreadLocal<u64>,
    published: i64,
    total: i64,
}

impl ThreadMemory {
    pub fn new() -> Self {
        let mut memory = ThreadMemory {
            allocated: thread::allocatedp::read().expect("jemalloc counts allocations"),
            deallocated: thread::deallocatedp::read().expect("jemalloc counts deallocations"),
            published: 0,
            total: 0,
        };
        memory.published = memory.net();
        memory
    }

    #[inline]
    fn net(&self) -> i64 {
        self.allocated.get().wrapping_sub(self.deallocated.get()) as i64
    }

    /// Bytes in use, this thread's latest included.
    #[inline]
    pub fn used(&self, memory: &Memory) -> usize {
        (memory.used.load(Ordering::Relaxed) + self.net() - self.published).max(0) as usize
    }

    /// Tells the others of this thread's net. Answers what it has added to the account so far.
    pub fn publish(&mut self, memory: &Memory) -> i64 {
        let moved = self.net() - self.published;
        if moved != 0 {
            memory.used.fetch_add(moved, Ordering::Relaxed);
            self.published += moved;
            self.total += moved;
        }
        self.total
    }

    /// As [`ThreadMemory::publish`], when there is much to tell.
    #[inline]
    pub fn publish_if_far(&mut self, memory: &Memory) {
        if (self.net() - self.published).abs() >= STEP {
            self.publish(memory);
        }
    }
}

impl Default for ThreadMemory {
    fn default() -> Self {
        Self::new()
    }
}

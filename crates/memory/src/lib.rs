//! The exact memory use of the process, for the price of two loads.
//!
//! jemalloc counts the bytes that each thread has allocated and freed (usable sizes, so the counts
//! include rounding). A thread's net is the difference of the two. The process uses the sum of all
//! nets, whichever thread frees memory of another. Threads that execute commands publish their net
//! once per batch, or at once when it has changed much, and compare their limit with the sum plus
//! their own latest change.
//!
//! The published net belongs to the thread, not to a [`ThreadMemory`]. So a part of its work may
//! count itself (the walk of a snapshot, a loaded piece) inside a larger counted part, and nothing
//! is counted twice or omitted.

#[cfg(weft_sanitizer)]
pub mod counted;
pub mod holdings;
pub mod mallctl;
pub mod size_class;

use std::cell::Cell;
use std::sync::Mutex;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};

#[cfg(weft_sanitizer)]
use crate::counted::{epoch, stats, thread};
#[cfg(not(weft_sanitizer))]
use tikv_jemalloc_ctl::{epoch, stats, thread};

/// A thread publishes its net when it has changed by this many bytes.
const STEP: i64 = 16 * 1024;

/// The memory of the process.
#[derive(Debug, Default)]
pub struct Memory {
    /// The sum of the published nets of all threads that publish, and the bytes in use at start.
    used: AtomicI64,
    peak: AtomicUsize,
    startup: AtomicUsize,
    peak_time: AtomicI64,
    /// Bytes of statistics. They grow with the set of used commands and are not data, so
    /// `maxmemory` excludes them.
    statistics: AtomicUsize,
    /// The last figures of pages, and their time (monotonic milliseconds).
    pages: Mutex<Option<(i64, Pages)>>,
}

/// Pages, as the allocator and the kernel count them. Reading them costs tens of microseconds or
/// more, depending on the number of arenas.
#[derive(Clone, Copy, Debug, Default)]
pub struct Pages {
    pub allocator: AllocatorStats,
    /// Bytes in RAM.
    pub resident: u64,
}

/// Milliseconds for which figures of pages are reused: the period of Valkey's cron.
const PAGES_MS: i64 = 100;

impl Memory {
    /// Figures of pages that are at most [`PAGES_MS`] old at `now_ms`.
    pub fn pages(&self, now_ms: i64) -> Pages {
        let mut seen = self.pages.lock().unwrap_or_else(|p| p.into_inner());
        match *seen {
            Some((at_ms, pages)) if now_ms - at_ms < PAGES_MS => pages,
            Some(_) | None => {
                let resident = weft_process::stats::memory().resident;
                let pages = Pages { allocator: allocator_stats(), resident };
                *seen = Some((now_ms, pages));
                pages
            }
        }
    }

    /// Makes the next call of [`Memory::pages`] read new figures.
    pub fn invalidate_pages(&self) {
        *self.pages.lock().unwrap_or_else(|p| p.into_inner()) = None;
    }

    /// Records the bytes in use before the server accepts clients, including the first allocations
    /// of its threads. The nets of threads count from here.
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

    /// Adds `bytes` of statistics, which stay until the server ends.
    pub fn add_statistics(&self, bytes: usize) {
        self.statistics.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Bytes of statistics.
    pub fn statistics(&self) -> usize {
        self.statistics.load(Ordering::Relaxed)
    }

    /// Bytes in use before the first client connected.
    pub fn startup(&self) -> usize {
        self.startup.load(Ordering::Relaxed)
    }

    /// The most bytes ever seen in use (sampled each cron tick), and when (Unix seconds).
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

/// Allocated bytes, read from the allocator.
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

/// Publishes the rest of a thread's net when it ends, including memory that its variables free.
struct PublishOnExit(&'static Memory);

impl Drop for PublishOnExit {
    fn drop(&mut self) {
        ThreadMemory::new().publish(self.0);
    }
}

/// Counts all work of this thread until it ends: for short-lived threads. Call it first, since
/// thread variables are dropped in the opposite order.
pub fn count_whole_thread(memory: &'static Memory) {
    thread_local! {
        static ON_EXIT: Cell<Option<PublishOnExit>> = const { Cell::new(None) };
    }
    let _ = ThreadMemory::new();
    ON_EXIT.set(Some(PublishOnExit(memory)));
}

thread_local! {
    /// The net of this thread that was published or excluded; `None`: counting has not begun.
    static PUBLISHED: Cell<Option<i64>> = const { Cell::new(None) };
}

/// One thread's part of the account. Must be made on the thread that it counts, and stay there.
pub struct ThreadMemory {
    allocated: thread::ThreadLocal<u64>,
    deallocated: thread::ThreadLocal<u64>,
    total: i64,
}

impl ThreadMemory {
    /// Counts from here on, or continues with the unpublished net of this thread.
    pub fn new() -> Self {
        let memory = ThreadMemory {
            allocated: thread::allocatedp::read().expect("jemalloc counts allocations"),
            deallocated: thread::deallocatedp::read().expect("jemalloc counts deallocations"),
            total: 0,
        };
        PUBLISHED.with(|published| published.set(published.get().or(Some(memory.net()))));
        memory
    }

    /// Counts from here on. The account already includes the earlier allocations of this thread.
    pub fn new_from_zero() -> Self {
        PUBLISHED.set(None);
        ThreadMemory::new()
    }

    #[inline]
    fn net(&self) -> i64 {
        self.allocated.get().wrapping_sub(self.deallocated.get()) as i64
    }

    /// The net that was not published yet.
    #[inline]
    fn unpublished(&self) -> i64 {
        self.net() - PUBLISHED.get().unwrap_or(0)
    }

    /// Bytes in use, including the unpublished net of this thread.
    #[inline]
    pub fn used(&self, memory: &Memory) -> usize {
        (memory.used.load(Ordering::Relaxed) + self.unpublished()).max(0) as usize
    }

    /// Publishes the net of this thread. Returns the bytes that this value has published so far.
    pub fn publish(&mut self, memory: &Memory) -> i64 {
        let unpublished = self.unpublished();
        if unpublished != 0 {
            memory.used.fetch_add(unpublished, Ordering::Relaxed);
            PUBLISHED.set(PUBLISHED.get().map(|published| published + unpublished));
            self.total += unpublished;
        }
        self.total
    }

    /// Like [`ThreadMemory::publish`], if the net has changed much.
    #[inline]
    pub fn publish_if_large(&mut self, memory: &Memory) {
        if self.unpublished().abs() >= STEP {
            self.publish(memory);
        }
    }
}

impl Default for ThreadMemory {
    fn default() -> Self {
        Self::new()
    }
}

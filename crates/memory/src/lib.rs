//! How much memory is used, exactly, at the price of two loads.
//!
//! jemalloc counts, for each thread, the bytes it has handed out and taken back (usable sizes,
//! so that what is counted is what is held). A thread's net is the difference of the two; what
//! the process uses is the sum of all nets, whichever thread frees what another allocated.
//! Threads that execute commands publish their net once per batch, or at once when it has moved
//! far, and compare against the limit with their own latest figures.
//!
//! What a thread has published is the thread's own, not that of who counts it. So a part of its work may
//! count itself (the walk of a snapshot, a piece that is loaded) inside of something that is counted as a
//! whole, and nothing is counted twice or left out in between.

#[cfg(weft_sanitizer)]
pub mod counted;
pub mod mallctl;
pub mod size_class;

use std::cell::Cell;
use std::sync::Mutex;
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
    /// What was seen of pages last, and when (monotonic milliseconds).
    pages: Mutex<Option<(i64, Pages)>>,
}

/// Pages, as the allocator and the kernel count them. To ask costs tens of microseconds and more, with
/// every arena that there is.
#[derive(Clone, Copy, Debug, Default)]
pub struct Pages {
    pub allocator: AllocatorStats,
    /// Bytes in RAM.
    pub resident: u64,
}

/// Milliseconds for which pages are not counted again: that is how often the reference's cron does.
const PAGES_MS: i64 = 100;

impl Memory {
    /// Pages as they were at most [`PAGES_MS`] before `now_ms`.
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

    /// Has the next look at pages count them anew.
    pub fn forget_pages(&self) {
        *self.pages.lock().unwrap_or_else(|p| p.into_inner()) = None;
    }

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

/// Counts the rest of this thread's life when it ends: what its variables free is in it.
struct Rest(&'static Memory);

impl Drop for Rest {
    fn drop(&mut self) {
        ThreadMemory::new().publish(self.0);
    }
}

/// Counts all that this thread does, from here to its end: for threads that come and go, to be called before
/// anything else, as thread variables are dropped in the opposite order.
pub fn count_thread(memory: &'static Memory) {
    thread_local! {
        static REST: Cell<Option<Rest>> = const { Cell::new(None) };
    }
    let _ = ThreadMemory::new();
    REST.set(Some(Rest(memory)));
}

thread_local! {
    /// The net of this thread that is in the account, or was left out of it; `None`: nobody has begun to count.
    static PUBLISHED: Cell<Option<i64>> = const { Cell::new(None) };
}

/// One thread's part of the account. Must be made on the thread that it counts, and stay there.
pub struct ThreadMemory {
    allocated: thread::ThreadLocal<u64>,
    deallocated: thread::ThreadLocal<u64>,
    total: i64,
}

impl ThreadMemory {
    /// Counts from here on, or goes on with what has not been published of this thread yet.
    pub fn new() -> Self {
        let memory = ThreadMemory {
            allocated: thread::allocatedp::read().expect("jemalloc counts allocations"),
            deallocated: thread::deallocatedp::read().expect("jemalloc counts deallocations"),
            total: 0,
        };
        PUBLISHED.with(|published| published.set(published.get().or(Some(memory.net()))));
        memory
    }

    /// Counts from here on: what this thread has allocated before is in the account otherwise.
    pub fn from_here() -> Self {
        PUBLISHED.set(None);
        ThreadMemory::new()
    }

    #[inline]
    fn net(&self) -> i64 {
        self.allocated.get().wrapping_sub(self.deallocated.get()) as i64
    }

    /// What was not published yet.
    #[inline]
    fn moved(&self) -> i64 {
        self.net() - PUBLISHED.get().unwrap_or(0)
    }

    /// Bytes in use, this thread's latest included.
    #[inline]
    pub fn used(&self, memory: &Memory) -> usize {
        (memory.used.load(Ordering::Relaxed) + self.moved()).max(0) as usize
    }

    /// Tells the others of this thread's net. Answers what this has added to the account so far.
    pub fn publish(&mut self, memory: &Memory) -> i64 {
        let moved = self.moved();
        if moved != 0 {
            memory.used.fetch_add(moved, Ordering::Relaxed);
            PUBLISHED.set(PUBLISHED.get().map(|published| published + moved));
            self.total += moved;
        }
        self.total
    }

    /// As [`ThreadMemory::publish`], when there is much to tell.
    #[inline]
    pub fn publish_if_far(&mut self, memory: &Memory) {
        if self.moved().abs() >= STEP {
            self.publish(memory);
        }
    }
}

impl Default for ThreadMemory {
    fn default() -> Self {
        Self::new()
    }
}

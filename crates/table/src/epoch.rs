//! When memory that a planner may be looking at can be freed.
//!
//! Planners (see [`crate::Table`]) read the directory and the buckets without
//! the lock. A segment or directory that the mutator has replaced may thus
//! still be under the eyes of some planner. It is *retired* instead of freed,
//! and freed once every planner that could have seen it has let go of its
//! [`Guard`]: epoch based reclamation (Fraser, "Practical lock-freedom", 2004),
//! in the implementation of `crossbeam-epoch`.
//!
//! The guard is a type of this crate, and not the one of `crossbeam-epoch`, for
//! a reason of soundness: a guard of that crate may belong to any collector,
//! and one of a foreign collector would protect nothing here.

use std::alloc::Layout;

/// Retired blocks from this size on are handed to the collector at once
/// instead of waiting, in their thread's bag, for 60 others.
const LARGE: usize = 64 * 1024;

/// Keeps everything that planning looks at in place while it lives.
///
/// Pinning costs a few nanoseconds. Hold a guard for the planning of a batch
/// and not for longer: while any thread is pinned, no thread can free what was
/// retired since.
#[derive(Debug)]
pub struct Guard(crossbeam_epoch::Guard);

impl Guard {
    /// Lets go of everything and takes hold anew; cheaper than drop and [`pin`].
    #[inline]
    pub fn repin(&mut self) {
        self.0.repin();
    }
}

/// Pins the current thread, see [`Guard`].
#[inline]
#[must_use]
pub fn pin() -> Guard {
    Guard(crossbeam_epoch::pin())
}

/// Frees `block` as soon as no guard that exists now is alive.
///
/// # Safety
///
/// `block` was allocated by the global allocator with `layout`, nothing that a
/// later [`pin`] protects can reach it, and nobody else frees it.
pub(crate) unsafe fn retire(block: *mut u8, layout: Layout) {
    let guard = crossbeam_epoch::pin();
    // SAFETY: the closure owns the block (caller's contract) and deallocates it
    // once. It may run on another thread: the global allocator allows that.
    // It runs after the last guard that exists now is gone, and by the
    // caller's contract later guards cannot lead to the block.
    unsafe {
        guard.defer_unchecked(move || std::alloc::dealloc(block, layout));
    }
    if layout.size() >= LARGE {
        guard.flush();
    }
}

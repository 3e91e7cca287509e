//! Delays freeing memory that a planner may be reading.
//!
//! Planners (see [`crate::Table`]) read the directory and the buckets without the lock. So a
//! planner may still be reading a segment or directory that the mutator has replaced. It is
//! *retired* instead of freed, and freed once every planner that could have seen it has dropped its
//! [`Guard`]: epoch based reclamation (Fraser, "Practical lock-freedom", 2004), implemented by
//! `crossbeam-epoch`.
//!
//! The guard is a type of this crate instead of that of `crossbeam-epoch` for soundness: a guard of
//! that crate may belong to any collector, and one of another collector would protect nothing here.

use std::alloc::Layout;
use std::cell::Cell;

/// Retired blocks of at least this size go to the collector at once, instead of waiting in their
/// thread's bag for 60 others.
const LARGE: usize = 64 * 1024;

/// Keeps all memory that planning reads allocated while it lives.
///
/// Pinning costs a few nanoseconds. Hold a guard for the planning of a batch and not for longer:
/// while any thread is pinned, no thread can free blocks retired since.
#[derive(Debug)]
pub struct Guard(crossbeam_epoch::Guard);

impl Guard {
    /// Unpins and pins again; cheaper than drop and [`pin`].
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

thread_local! {
    /// How many calls of [`collect`] still have work for blocks that this thread has retired.
    static DUE: Cell<u32> = const { Cell::new(0) };
}

/// Rounds of collection after the last retirement: two for the epochs that must pass, and some for
/// garbage in the common queue.
const ROUNDS: u32 = 16;

/// Frees blocks that this thread has retired and that no planner can see any more. Threads that
/// change tables must call it regularly, outside every [`Guard`]: by itself the collector works
/// only rarely, and the replaced blocks of a growing table would accumulate. One load when there is
/// nothing to do.
#[inline]
pub fn collect() {
    DUE.with(|due| {
        if due.get() > 0 {
            due.set(due.get() - 1);
            crossbeam_epoch::pin().flush();
        }
    });
}

/// Frees `block` as soon as no guard that exists now is alive.
///
/// # Safety
///
/// `block` was allocated by the global allocator with `layout`, nothing that a later [`pin`]
/// protects can reach it, and no other code frees it.
pub(crate) unsafe fn retire(block: *mut u8, layout: Layout) {
    DUE.with(|due| due.set(ROUNDS));
    let guard = crossbeam_epoch::pin();
    // SAFETY: the closure owns the block (caller's contract) and deallocates it once. It may run on
    // another thread, which the global allocator allows. It runs after the last guard that exists
    // now is dropped, and by the caller's contract later guards cannot lead to the block.
    unsafe {
        guard.defer_unchecked(move || std::alloc::dealloc(block, layout));
    }
    if layout.size() >= LARGE {
        guard.flush();
    }
}

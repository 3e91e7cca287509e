//! When memory that a planner may be looking at can be freed.
//!
//! Planners (see [`crate::Table`]) read the directory and the buckets without the lock. A segment
//! or directory that the mutator has replaced may thus still be under the eyes of some planner. It
//! is *retired* instead of freed, and freed once every planner that could have seen it has dropped
//! its [`Guard`]: epoch based reclamation (Fraser, "Practical lock-freedom", 2004), in the
//! implementation of `crossbeam-epoch`.
//!
//! The guard is a type of this crate, and not the one of `crossbeam-epoch`, for
//! a reason of soundness: a guard of that crate may belong to any collector,
//! and one of a foreign collector would protect nothing here.

use std::alloc::Layout;
use std::cell::Cell;

/// Retired blocks from this size on are handed to the collector at once
/// instead of waiting, in their thread's bag, for 60 others.
const LARGE: usize = 64 * 1024;

/// Keeps everything that planning looks at in place while it lives.
///
/// Pinning costs a few nanoseconds. Hold a guard for the planning of a batch and not for longer:
/// while any thread is pinned, no thread can free blocks retired since.
#[derive(Debug)]
pub struct Guard(crossbeam_epoch::Guard);

impl Guard {
    /// Releases everything and pins anew; cheaper than drop and [`pin`].
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
    /// How often [`collect`] still has to work for what this thread has retired.
    static DUE: Cell<u32> = const { Cell::new(0) };
}

/// Rounds of collection after the last retirement: two for the epochs that must pass, and some
/// for garbage that waits in the common queue.
const ROUNDS: u32 = 16;

/// Frees blocks that this thread has retired and no planner can see any more. To be called
/// regularly by threads that change tables, outside of every [`Guard`]: left to itself the
/// collector works only once in a while, and a table that grows would keep its former selves. One
/// load when there is nothing to do.
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

//! The lock of one shard; it parks a connection instead of blocking a thread.
//!
//! An I/O thread must never sleep on a shard (it has other connections to serve), so the lock
//! has no blocking `lock`: [`ShardLock::try_lock`] spins shortly and gives up, and
//! [`ShardLock::park`] leaves a [`Waiter`] that the release hands back to be woken.
//!
//! ```text
//! state   FREE --try_lock--> HELD --park--> HELD+WAITERS --release--> FREE, waiters returned
//! ```
//!
//! No wake-up is lost: `park` holds the queue's mutex while it either marks a held lock as waited
//! for or takes a free one; a release that sees the mark empties the queue under the same mutex.
//! Woken waiters retry in the order of parking. Another thread may overtake them, which keeps the
//! fast path a single compare-and-swap.
//!
//! Model-tested with loom (`tests/loom_lock.rs`).

use crate::context::ExecContext;
use crate::sync::{AtomicI64, AtomicU32, Mutex, Ordering, lock, spin_loop};
use std::collections::VecDeque;

const FREE: u32 = 0;
const HELD: u32 = 1;
const WAITED: u32 = 3;

/// Tries of a busy lock before the caller must park. Commands hold a shard for well under a
/// microsecond; a thread that holds it longer has lost its CPU or runs a large command.
const SPINS: u32 = if cfg!(loom) { 1 } else { 100 };

/// A parked connection: the I/O thread to wake and the token by which it finds the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waiter {
    pub thread: u32,
    pub token: u64,
}

/// The result of [`ShardLock::park`].
#[derive(Debug, PartialEq, Eq)]
pub enum Park {
    /// The lock was free: the caller holds it now.
    Acquired,
    /// The waiter is queued; the holder's release returns it.
    Parked,
}

/// One shard's lock, on its own cache line against false sharing.
#[repr(align(64))]
#[derive(Debug)]
pub struct ShardLock {
    state: AtomicU32,
    /// Bits of [`crate::interest`]. They are here because a command that reads them has this
    /// cache line loaded.
    pub(crate) interest: AtomicU32,
    /// Unix time in milliseconds of the last command that held this lock. Only the holder changes
    /// it.
    pub(crate) time: AtomicI64,
    waiters: Mutex<VecDeque<Waiter>>,
}

impl Default for ShardLock {
    fn default() -> Self {
        ShardLock {
            state: AtomicU32::new(FREE),
            interest: AtomicU32::new(0),
            time: AtomicI64::new(i64::MIN),
            waiters: Mutex::new(VecDeque::new()),
        }
    }
}

impl ShardLock {
    /// Takes the lock if it is free now or within a short spin.
    #[inline]
    pub fn try_lock(&self) -> bool {
        self.try_once() || self.spin()
    }

    #[inline]
    fn try_once(&self) -> bool {
        self.state.compare_exchange(FREE, HELD, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    #[cold]
    fn spin(&self) -> bool {
        for _ in 0..SPINS {
            if self.state.load(Ordering::Relaxed) == FREE && self.try_once() {
                return true;
            }
            spin_loop();
        }
        false
    }

    /// Queues `waiter` on a busy lock, or takes the lock if it has become free.
    pub fn park(&self, waiter: Waiter) -> Park {
        let mut queue = lock(&self.waiters);
        loop {
            let from = self.state.load(Ordering::Relaxed);
            let to = if from == FREE { HELD } else { WAITED };
            if self.state.compare_exchange(from, to, Ordering::Acquire, Ordering::Relaxed).is_ok() {
                if from == FREE {
                    return Park::Acquired;
                }
                queue.push_back(waiter);
                return Park::Parked;
            }
        }
    }

    /// Raises the time of `context` to that of the lock, or the reverse, whichever is later. Only
    /// the holder may call this.
    #[inline]
    pub(crate) fn agree_on_time(&self, context: &mut ExecContext) {
        let last = self.time.load(Ordering::Relaxed);
        if last < context.now_ms {
            self.time.store(context.now_ms, Ordering::Relaxed);
        } else {
            context.raise_time(last);
        }
    }

    /// Returns the waiters to wake although the lock stays held, in order. Only the holder may call this.
    #[must_use]
    pub fn take_waiters(&self) -> VecDeque<Waiter> {
        std::mem::take(&mut *lock(&self.waiters))
    }

    /// Releases the lock and returns the waiters to wake, in order. Only the holder may call
    /// this.
    #[inline(always)]
    #[must_use]
    pub fn release(&self) -> VecDeque<Waiter> {
        if self.state.swap(FREE, Ordering::Release) == HELD {
            return VecDeque::new();
        }
        std::mem::take(&mut *lock(&self.waiters))
    }
}

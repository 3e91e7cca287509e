//! Which replies may be sent, by the unit of the effect log that they depend on.
//!
//! A reply waits while its unit is above the largest unit whose reply may be sent. Three parties each set a bound
//! on that unit ([`Bound`]). The append-only file sets it to the last unit that is synced or, if the disk can't
//! keep up, written. The replication stream sets it if the log has not been read for too long. So the unread
//! part of the log is bounded by what clients send before they get a reply. With `cluster-write-quorum`, the cluster
//! sets it to the last unit that enough replicas have. Readers, and commands that change nothing, are not delayed.
//!
//! An I/O thread withholds the replies that must wait, sets its flag, and checks the bound again. A party that
//! raises the bound stores it and then checks the flags. So one of the two sees the other.

use crate::mailbox::Message;
use crate::threads::pool::{MAX_IO_THREADS, Pool};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};

/// The party that a reply may have to wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bound {
    /// The append-only file.
    Disk,
    /// The replication stream.
    Stream,
    /// The replicas that must have a write before it is acknowledged: `cluster-write-quorum`.
    Quorum,
}

/// Bytes that a thread logs between two checks of the log, and reads for weft-repl if it must.
pub const STEP: u64 = 1 << 20;

/// A bound that delays no reply.
pub const NONE: u64 = u64::MAX;

/// The bounds, and the threads that withhold replies.
#[derive(Debug)]
pub struct ReplyBounds {
    /// The lowest of the bounds: replies to units above it wait.
    upto: AtomicU64,
    /// By [`Bound`].
    bounds: Mutex<[u64; 3]>,
    /// Replies of reads depend on all earlier units, too.
    holds_reads: AtomicBool,
    /// I/O threads that withhold replies.
    withholding: Box<[AtomicBool]>,
    /// Memory of the unread part of the log at the last check (bytes).
    unread: AtomicU64,
}

impl Default for ReplyBounds {
    fn default() -> Self {
        ReplyBounds {
            upto: AtomicU64::new(NONE),
            bounds: Mutex::new([NONE; 3]),
            holds_reads: AtomicBool::new(false),
            withholding: (0..MAX_IO_THREADS).map(|_| AtomicBool::new(false)).collect(),
            unread: AtomicU64::new(0),
        }
    }
}

impl ReplyBounds {
    fn bounds(&self) -> MutexGuard<'_, [u64; 3]> {
        self.bounds.lock().unwrap_or_else(|p| p.into_inner())
    }

    /// Whether replies that depend on this unit may be sent.
    #[inline]
    pub fn may_send(&self, unit: u64) -> bool {
        unit <= self.upto.load(Ordering::Acquire)
    }

    /// Whether the reply of a read depends on all units before it. A quorum wants that: a write that was not confirmed may be lost,
    /// and a client that has seen it must not have acted on it.
    #[inline]
    pub fn holds_reads(&self) -> bool {
        self.holds_reads.load(Ordering::Relaxed)
    }

    /// Sets what [`ReplyBounds::holds_reads`] returns.
    pub fn set_holds_reads(&self, on: bool) {
        self.holds_reads.store(on, Ordering::SeqCst);
    }

    /// The largest unit whose reply may be sent, with sequentially consistent ordering.
    pub fn upto(&self) -> u64 {
        self.upto.load(Ordering::SeqCst)
    }

    /// Records whether I/O thread `id` withholds replies. After a call with `true` the thread checks the bound
    /// again: either it sees the new bound, or the thread that raises the bound notifies it.
    pub fn set_withholding(&self, id: usize, any: bool) {
        self.withholding[id].store(any, Ordering::SeqCst);
    }

    /// The bound that `of` has set.
    pub fn bound(&self, of: Bound) -> u64 {
        self.bounds()[of as usize]
    }

    /// Delays replies to units above `upto`, if `of` has set no bound.
    pub fn restrict(&self, of: Bound, upto: u64) {
        let mut bounds = self.bounds();
        if bounds[of as usize] == NONE {
            bounds[of as usize] = upto;
            self.upto.store(least(&bounds), Ordering::SeqCst);
        }
    }

    /// Sets the bound of `of`, and notifies threads if more replies may be sent.
    pub fn set(&self, threads: &Pool, of: Bound, upto: u64) {
        let mut bounds = self.bounds();
        bounds[of as usize] = upto;
        let least = least(&bounds);
        let before = self.upto.swap(least, Ordering::SeqCst);
        drop(bounds);
        if least <= before {
            return;
        }
        for (thread, set_withholding) in threads.iter().zip(&self.withholding) {
            if set_withholding.swap(false, Ordering::SeqCst) {
                thread.mailbox.send(Message::Durable);
            }
        }
    }

    /// Records how many bytes of the log are unread.
    pub fn note_unread(&self, bytes: u64) {
        self.unread.store(bytes, Ordering::Relaxed);
    }

    /// Memory of the unread part of the log at the last check (bytes).
    pub fn unread(&self) -> usize {
        usize::try_from(self.unread.load(Ordering::Relaxed)).unwrap_or(usize::MAX)
    }
}

fn least(bounds: &[u64; 3]) -> u64 {
    bounds.iter().copied().min().unwrap_or(NONE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lower_bound_counts() {
        let answers = ReplyBounds::default();
        assert!(answers.may_send(u64::MAX));
        answers.restrict(Bound::Stream, 10);
        assert!(answers.may_send(10) && !answers.may_send(11));
        answers.restrict(Bound::Disk, 5);
        assert!(answers.may_send(5) && !answers.may_send(6));
        // Only `set` raises a bound that is already set.
        answers.restrict(Bound::Disk, 20);
        assert_eq!((answers.bound(Bound::Disk), answers.bound(Bound::Stream)), (5, 10));
        assert_eq!(answers.upto(), 5);
        answers.restrict(Bound::Quorum, 0);
        assert!(!answers.may_send(1) && answers.may_send(0));
    }
}

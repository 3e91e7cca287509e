//! Which answers may be sent, where they tell of units of the log of effects.
//!
//! An answer waits while its unit is above the number up to which all of them may go. Two may set a bound to
//! it, each by itself ([`Bound`]): the append-only file, which says what is safe or, where the disk can't
//! follow, what is written; and the stream to replicas, where nobody has come to read the log for too long.
//! So what waits to be read is bounded by what clients may send without being answered, and neither
//! readers nor those whose commands change nothing notice.
//!
//! An I/O thread withholds what must wait, says that it does, and looks again. Whoever raises the bound stores
//! it and then looks for threads that have said so. One of the two sees the other.

use crate::mailbox::Message;
use crate::threads::pool::{MAX_IO_THREADS, Pool};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};

/// Whom an answer may have to wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bound {
    /// The append-only file.
    Disk,
    /// The stream to replicas.
    Stream,
}

/// Bytes that a thread logs between two looks, and reads for weft-repl if it must.
pub const STEP: u64 = 1 << 20;

/// What a bound is that keeps nobody waiting.
pub const NONE: u64 = u64::MAX;

/// See the module.
#[derive(Debug)]
pub struct Answers {
    /// The least of the bounds: units above this number are not told of.
    upto: AtomicU64,
    /// By [`Bound`].
    bounds: Mutex<[u64; 2]>,
    /// I/O threads that withhold answers.
    withholding: Box<[AtomicBool]>,
    /// Bytes of memory that the log takes until somebody has read it, when it was looked at last.
    unread: AtomicU64,
}

impl Default for Answers {
    fn default() -> Self {
        Answers {
            upto: AtomicU64::new(NONE),
            bounds: Mutex::new([NONE; 2]),
            withholding: (0..MAX_IO_THREADS).map(|_| AtomicBool::new(false)).collect(),
            unread: AtomicU64::new(0),
        }
    }
}

impl Answers {
    fn bounds(&self) -> MutexGuard<'_, [u64; 2]> {
        self.bounds.lock().unwrap_or_else(|p| p.into_inner())
    }

    /// Whether what belongs to this unit may be told.
    #[inline]
    pub fn may_go(&self, unit: u64) -> bool {
        unit <= self.upto.load(Ordering::Acquire)
    }

    /// What may be told, when it matters that it is the latest.
    pub fn upto(&self) -> u64 {
        self.upto.load(Ordering::SeqCst)
    }

    /// I/O thread `id` withholds something, or nothing any more. After it has said that it does, it looks
    /// again whether it must: either it sees what may be told since, or is told.
    pub fn withholds(&self, id: usize, any: bool) {
        self.withholding[id].store(any, Ordering::SeqCst);
    }

    /// The bound of one of them.
    pub fn bound(&self, of: Bound) -> u64 {
        self.bounds()[of as usize]
    }

    /// Has answers to units above `upto` wait, if `of` has set no bound.
    pub fn restrict(&self, of: Bound, upto: u64) {
        let mut bounds = self.bounds();
        if bounds[of as usize] == NONE {
            bounds[of as usize] = upto;
            self.upto.store(bounds[0].min(bounds[1]), Ordering::SeqCst);
        }
    }

    /// Sets a bound, and has those sent that may go now.
    pub fn set(&self, threads: &Pool, of: Bound, upto: u64) {
        let mut bounds = self.bounds();
        bounds[of as usize] = upto;
        let least = bounds[0].min(bounds[1]);
        let before = self.upto.swap(least, Ordering::SeqCst);
        drop(bounds);
        if least <= before {
            return;
        }
        for (thread, withholds) in threads.iter().zip(&self.withholding) {
            if withholds.swap(false, Ordering::SeqCst) {
                thread.mailbox.send(Message::Durable);
            }
        }
    }

    /// Notes how many bytes of the log have still to be read.
    pub fn note_unread(&self, bytes: u64) {
        self.unread.store(bytes, Ordering::Relaxed);
    }

    /// Bytes of memory that the log took a moment ago, as somebody had still to read it.
    pub fn unread(&self) -> usize {
        usize::try_from(self.unread.load(Ordering::Relaxed)).unwrap_or(usize::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lower_bound_counts() {
        let answers = Answers::default();
        assert!(answers.may_go(u64::MAX));
        answers.restrict(Bound::Stream, 10);
        assert!(answers.may_go(10) && !answers.may_go(11));
        answers.restrict(Bound::Disk, 5);
        assert!(answers.may_go(5) && !answers.may_go(6));
        // Who has set one raises it by itself.
        answers.restrict(Bound::Disk, 20);
        assert_eq!((answers.bound(Bound::Disk), answers.bound(Bound::Stream)), (5, 10));
        assert_eq!(answers.upto(), 5);
    }
}

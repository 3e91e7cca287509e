//! The effect log: one order of all writes of all threads, for those who write them down (an
//! append-only file, replicas).
//!
//! ```text
//!  command ─► Db ─► commit: encode ─► draw a number ─► the thread's lane ─► release the shards
//!                                     (one atomic)     (its own line)
//!                     lanes:  thread 0   3 4 . 9 . .  ┐
//!                             thread 1   . . 5 . . 10 ├─► LogReader: 3 4 5 6 ? ...
//!                             slow lane  . . . 6 . .  ┘   number 7 is drawn and not there yet: wait
//! ```
//!
//! * [`unit`] - what is read: a [`Unit`] is all that one commit group did; its entries are commands
//!   in the words in which they are to be repeated
//! * [`draft`] - what a turn gathers for its group until it is committed
//! * [`lane`] - one thread's units on their way to the reader
//! * [`reader`] - the collector, which restores the order
//!
//! A group that has something to log draws its number while it holds its shards, from one counter,
//! and leaves its unit in its thread's lane. So the order of numbers agrees with the order of
//! execution (two groups that share a shard draw one after the other) and with real time (whoever saw
//! a reply and then wrote, draws later). Numbers are dense: the reader knows that one is missing, and
//! a thread that is descheduled between the two steps delays the log and nobody else.
//!
//! With no reader nothing is encoded and no number drawn. Whether there is one is a bit of every
//! shard's interest ([`crate::interest`]), which a write looks at anyway; it is set and cleared while
//! the world is stopped, so a group is either in the log as a whole or not at all, and the number at
//! a cut ([`Guard::log_position`]) says exactly what came before it.
//!
//! `docs/design/effect-log.md` has the proofs, and what was rejected.

pub mod draft;
pub(crate) mod lane;
pub mod reader;
pub mod unit;

pub use reader::LogReader;
pub use unit::{Entry, Piece, Target, Unit};

use crate::guard::Guard;
use crate::interest::LOGGED;
use crate::keyspace::SHARDS;
use crate::sync::{AtomicBool, AtomicU64, Mutex, Ordering, fence, lock};
use crate::turn::Turn;
use draft::Draft;
use lane::Lane;
use std::fmt;
use std::sync::Arc;

/// Wakes the thread that reads the log. Called by producers, none of whom may wait: an unpark, or a
/// write to an eventfd.
pub type WakeReader = Arc<dyn Fn() + Send + Sync>;

/// What producers and the reader share.
#[derive(Default)]
pub struct Log {
    /// The last number that was drawn; 0: none.
    drawn: Drawn,
    /// There are producers. Changed while the world is stopped.
    on: AtomicBool,
    /// There is a [`LogReader`].
    has_reader: AtomicBool,
    /// The reader wants to be woken when there is something new.
    asleep: AtomicBool,
    /// Of every thread that has logged something since it began.
    lanes: Mutex<Vec<Arc<Lane>>>,
    /// Grows with the list above.
    lanes_version: AtomicU64,
    wake: Mutex<Option<WakeReader>>,
    /// The bits of the [`Target`] for which there is a reader, while it is on.
    wanted: AtomicU64,
}

/// A line of its own: every write of every thread changes it.
#[repr(align(128))]
#[derive(Default)]
struct Drawn(AtomicU64);

impl fmt::Debug for Log {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Log").field("on", &self.is_on()).field("last", &self.last()).finish()
    }
}

impl Log {
    /// Whether what is done is logged; a moment's value while the world runs.
    pub fn is_on(&self) -> bool {
        self.on.load(Ordering::Relaxed)
    }

    /// Whether there is anybody to read what is only for `target`; a moment's value while the world
    /// runs.
    #[inline]
    pub fn wants(&self, target: Target) -> bool {
        self.is_on() && self.wanted.load(Ordering::Relaxed) & target.bits() != 0
    }

    /// Says for whom it is read, which is for all unless this was called; while the world is stopped.
    pub fn want(&self, target: Target) {
        self.wanted.store(target.bits(), Ordering::Relaxed);
    }

    /// The last number that was drawn, 0 before the first; a moment's value while the world runs.
    /// Numbers go on over all readers of a process.
    pub fn last(&self) -> u64 {
        self.drawn.0.load(Ordering::Relaxed)
    }

    /// Bytes of commands that were logged and that the reader has not passed yet: what the log holds
    /// in memory, but for values that it shares with the dataset, which count as well. O(threads).
    pub fn pending_bytes(&self) -> u64 {
        lock(&self.lanes).iter().map(|lane| lane.pending_bytes()).sum()
    }

    /// Begins it: see [`Guard::begin_log`], which is the only caller beside tests. Nobody publishes
    /// meanwhile.
    pub fn begin(self: &Arc<Log>, wake: WakeReader) -> Option<LogReader> {
        if self.has_reader.swap(true, Ordering::AcqRel) {
            return None;
        }
        *lock(&self.wake) = Some(wake);
        // What an earlier reader has left behind.
        lock(&self.lanes).iter().for_each(|lane| lane.clear());
        self.want(Target::ALL);
        self.on.store(true, Ordering::Relaxed);
        Some(LogReader::new(self.clone()))
    }

    /// Ends it: see [`Guard::end_log`].
    pub fn end(&self) {
        self.on.store(false, Ordering::Relaxed);
        self.ring();
    }

    /// Gives the unit in `draft` a number and to the reader: see [`seal`], which is the only caller
    /// beside tests. The shards of the group are held, and the log has begun.
    pub fn publish(self: &Arc<Log>, draft: &mut Draft, ms: i64) -> u64 {
        let lane = draft.lane.take_if(|lane| lane.is_of(self)).unwrap_or_else(|| self.new_lane());
        let number = lane.publish(draft, ms, || self.drawn.0.fetch_add(1, Ordering::Relaxed) + 1);
        draft.lane = Some(lane);
        number
    }

    #[cold]
    fn new_lane(self: &Arc<Log>) -> Arc<Lane> {
        let lane = Arc::new(Lane::new(self));
        lock(&self.lanes).push(lane.clone());
        self.lanes_version.fetch_add(1, Ordering::Release);
        lane
    }

    /// Wakes the reader if it sleeps: after a unit was published, and better without shards in hand.
    /// A look at one word that is written only when the reader falls asleep or wakes.
    pub fn ring(&self) {
        // The unit was published before this look; the reader says that it sleeps before it looks
        // for units. One of the two sees the other.
        fence(Ordering::SeqCst);
        if self.asleep.load(Ordering::Relaxed) && self.asleep.swap(false, Ordering::AcqRel) {
            let wake = lock(&self.wake).clone();
            if let Some(wake) = wake {
                wake();
            }
        }
    }
}

impl Turn {
    /// The number of the last unit that this turn has logged; 0 if none. Whoever may answer only
    /// what is durable compares it before and after a command.
    #[inline]
    pub fn last_unit(&self) -> u64 {
        self.effects.log.last
    }

    /// Wakes the reader of the log if this turn has logged something since the last call: to be
    /// called with no shards in hand, before the thread sleeps.
    #[inline]
    pub fn ring(&mut self, log: &Log) {
        if std::mem::take(&mut self.effects.log.rings) {
            log.ring();
        }
    }
}

impl Guard<'_> {
    /// Whether what is done under this guard is logged. Of a command of the slow lane it may come to
    /// be that it is not, while it runs: [`seal`] asks again.
    #[inline]
    pub fn is_logged(&self) -> bool {
        self.keyspace().interest(self.any_shard()) & LOGGED != 0
    }

    /// Begins the log: every group that commits from now on is in it, whole, and none of before.
    /// `wake` is called when the reader sleeps ([`LogReader::may_sleep`]) and there is something for
    /// it. `None` when an earlier reader is still there. O(shards).
    ///
    /// # Panics
    /// Unless this is a guard of the world: what the slow lane does gathers nothing for a log that
    /// has not begun.
    #[must_use]
    pub fn begin_log(&self, wake: WakeReader) -> Option<LogReader> {
        assert!(self.is_world(), "the log begins between all commands");
        let reader = self.keyspace().log.begin(wake)?;
        self.set_logged(true);
        Some(reader)
    }

    /// Ends the log: what commits from now on is not in it. The reader still gets what is
    /// ([`LogReader::is_over`]). O(shards).
    ///
    /// # Panics
    /// Unless this guard stops the I/O threads: one of the world, or of all that the slow lane does
    /// not hold.
    pub fn end_log(&self) {
        self.assert_stopped();
        self.set_logged(false);
        self.keyspace().log.end();
    }

    /// The number of the last unit before this moment, for a cut: everything up to it has happened
    /// (and may be on its way to the reader), nothing behind it has.
    ///
    /// # Panics
    /// As [`Guard::end_log`].
    pub fn log_position(&self) -> u64 {
        self.assert_stopped();
        self.keyspace().log.last()
    }

    fn set_logged(&self, on: bool) {
        (0..SHARDS as u16).for_each(|shard| self.keyspace().set_interest(shard, LOGGED, on));
    }

    fn assert_stopped(&self) {
        assert!(self.stops_everybody(), "the log is cut while the world is stopped");
    }
}

/// Ends a group: if anything was said for the log, draws its number and publishes it. To be called
/// when all of the group is done, with all of its shards in hand, and, in the slow lane, before those
/// who look at all keys may come in between. O(bytes).
#[cold]
pub fn seal(guard: &Guard<'_>, turn: &mut Turn) {
    let now_ms = turn.now_ms;
    let draft = &mut turn.effects.log;
    // For a command of the slow lane the log may have ended while it ran.
    if !draft.is_empty() && guard.keyspace().interest(guard.any_shard()) & LOGGED != 0 {
        draft.last = guard.keyspace().log.publish(draft, now_ms);
        draft.rings = true;
    }
    turn.effects.clear_log();
}

#[cfg(all(test, not(loom)))]
mod tests;

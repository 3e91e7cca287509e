//! The effect log: one order of all writes of all threads, for those who write them down (an
//! append-only file, replicas).
//!
//! ```text
//!  command ─► Db ─► commit: encode ─► draw a number ─► the thread's lane ─► release the shards
//!                                     (one atomic)     (its own line)
//!                     lanes:  thread 0   3 4 . 9 . .  ┐         ┌─► LogReader: 3 4 5 6 ? ...
//!                             thread 1   . . 5 . . 10 ├─► desk ─┤   7 is drawn and not there yet: wait
//!                             slow lane  . . . 6 . .  ┘         └─► LogReader: 3 4 ...
//! ```
//!
//! * [`unit`] - what is read: a [`Unit`] is all that one commit group did; its entries are commands
//!   in the words in which they are to be repeated
//! * [`draft`] - what a turn gathers for its group until it is committed
//! * [`lane`] - one thread's units on their way to the readers
//! * [`desk`] - where they are given to each of the readers, which come and go by themselves
//! * [`reader`] - one of them: restores the order
//!
//! A group that has something to log draws its number while it holds its shards, from one counter,
//! and leaves its unit in its thread's lane. So the order of numbers agrees with the order of
//! execution (two groups that share a shard draw one after the other) and with real time (whoever saw
//! a reply and then wrote, draws later). Numbers are dense: a reader knows that one is missing, and
//! a thread that is descheduled between the two steps delays the log and nobody else.
//!
//! With no reader nothing is encoded and no number drawn. Whether there is one is a bit of every
//! shard's interest ([`crate::interest`]), which a write looks at anyway; it is set and cleared while
//! the world is stopped, so a group is either in the log as a whole or not at all, and the number at
//! a cut ([`Guard::log_position`]) says exactly what came before it.
//!
//! `docs/design/effect-log.md` has the proofs, and what was rejected.

mod desk;
pub mod draft;
pub(crate) mod lane;
pub mod reader;
pub mod unit;

pub use desk::{MAX_READERS, ReaderId};
pub use reader::LogReader;
pub use unit::{Entry, Piece, Target, Unit};

use crate::guard::Guard;
use crate::interest::LOGGED;
use crate::keyspace::SHARDS;
use crate::sync::{AtomicU64, Mutex, Ordering, fence, lock};
use crate::turn::Turn;
use desk::Desk;
use draft::Draft;
use lane::Lane;
use std::fmt;
use std::sync::Arc;

/// Wakes the thread that reads the log. Called by producers, none of whom may wait: an unpark, or a
/// write to an eventfd.
pub type WakeReader = Arc<dyn Fn() + Send + Sync>;

/// What producers and readers share.
#[derive(Default)]
pub struct Log {
    /// The last number that was drawn; 0: none. Every write of every thread changes it.
    drawn: Line<AtomicU64>,
    /// The bits of the [`Target`] for which somebody reads; 0: nobody does. Changed while the world is
    /// stopped.
    wanted: AtomicU64,
    /// The bits of the readers that want to be woken when there is something new, by their slots.
    asleep: AtomicU64,
    /// Of every thread that has logged something since the process began.
    lanes: Line<Mutex<Vec<Arc<Lane>>>>,
    /// Grows with the list above.
    lanes_version: AtomicU64,
    /// By the readers' slots, as is the progress.
    wakes: Mutex<[Option<WakeReader>; MAX_READERS]>,
    progress: [Line<Progress>; MAX_READERS],
    desk: Line<Mutex<Desk>>,
}

/// A line of its own: who writes to it disturbs nobody beside it.
#[repr(align(128))]
#[derive(Default)]
struct Line<T>(T);

/// How far one reader is. Bytes are of commands, and counted from the first unit that was ever
/// published: units are passed in the order of their numbers, so a count of bytes is a place in it.
#[derive(Default)]
struct Progress {
    /// The reader of which the rest tells; 0: none. See [`ReaderId`].
    reader: AtomicU64,
    /// What lies before the first unit that it has not passed. Changed by the reader.
    passed: AtomicU64,
    /// The last unit that it gets, and what lies before the next one; [`u64::MAX`] until it is ended.
    end: AtomicU64,
    end_bytes: AtomicU64,
}

impl Progress {
    /// What it has not passed, as a part of the order; `published`: where that ends now.
    fn pending(&self, published: u64) -> (u64, u64) {
        let upto = self.end_bytes.load(Ordering::Relaxed).min(published);
        (self.passed.load(Ordering::Relaxed), upto)
    }

    /// A reader begins there.
    fn begin(&self, id: ReaderId, published: u64) {
        self.passed.store(published, Ordering::Relaxed);
        self.end.store(u64::MAX, Ordering::Relaxed);
        self.end_bytes.store(u64::MAX, Ordering::Relaxed);
        self.reader.store(id.number, Ordering::Relaxed);
    }
}

impl fmt::Debug for Log {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Log").field("on", &self.is_on()).field("last", &self.last()).finish()
    }
}

impl Log {
    /// Whether what is done is logged; a moment's value while the world runs.
    pub fn is_on(&self) -> bool {
        self.wanted.load(Ordering::Relaxed) != 0
    }

    /// Whether there is anybody to read what is only for `target`, who was not ended; a moment's value
    /// while the world runs.
    #[inline]
    pub fn wants(&self, target: Target) -> bool {
        self.wanted.load(Ordering::Relaxed) & target.bits() != 0
    }

    /// The last number that was drawn, 0 before the first; a moment's value while the world runs.
    /// Numbers go on over all readers of a process.
    pub fn last(&self) -> u64 {
        self.drawn.0.load(Ordering::Relaxed)
    }

    /// Bytes of commands that were logged and that not all readers have passed yet: what the log holds
    /// in memory, but for values that it shares with the dataset, which count as well, and for what it
    /// holds twice where several readers are late. O(threads).
    pub fn pending_bytes(&self) -> u64 {
        let published = self.published();
        lock(&self.desk.0).pending_bytes(&self.progress, published)
    }

    /// The same, with the room that the lanes have for more: about what would be free if all were read.
    /// O(threads).
    pub fn pending_memory(&self) -> u64 {
        let room = lock(&self.lanes.0).iter().map(|lane| lane.overhead()).sum::<u64>();
        self.pending_bytes() + room
    }

    /// The same as [`Log::pending_bytes`], of those that this reader has not passed; 0 when it is gone. O(threads).
    pub fn pending_bytes_of(&self, id: &ReaderId) -> u64 {
        let progress = &self.progress[id.slot].0;
        if progress.reader.load(Ordering::Relaxed) != id.number {
            return 0;
        }
        let (passed, upto) = progress.pending(self.published());
        upto.saturating_sub(passed)
    }

    /// Bytes of commands that were published, ever.
    fn published(&self) -> u64 {
        lock(&self.lanes.0).iter().map(|lane| lane.published()).sum()
    }

    /// Lets a reader join: see [`Guard::begin_log`], which is the only caller beside tests. Nobody
    /// publishes meanwhile.
    pub fn begin(self: &Arc<Log>, target: Target, wake: WakeReader) -> Option<LogReader> {
        let mut desk = lock(&self.desk.0);
        let id = desk.join(self, target)?;
        lock(&self.wakes)[id.slot] = Some(wake);
        self.progress[id.slot].0.begin(id, self.published());
        self.wanted.store(desk.wanted(), Ordering::Relaxed);
        Some(LogReader::new(self.clone(), id))
    }

    /// Ends what a reader gets: see [`Guard::end_log`].
    pub fn end(&self, id: &ReaderId) {
        let mut desk = lock(&self.desk.0);
        if desk.end(self, *id) {
            let progress = &self.progress[id.slot].0;
            progress.end.store(self.last(), Ordering::Relaxed);
            progress.end_bytes.store(self.published(), Ordering::Relaxed);
            self.wanted.store(desk.wanted(), Ordering::Relaxed);
            self.forget_if_gone(&desk, *id);
        }
        drop(desk);
        self.ring();
    }

    /// The reader is dropped.
    fn leave(&self, id: ReaderId) {
        let mail = {
            let mut desk = lock(&self.desk.0);
            lock(&self.wakes)[id.slot] = None;
            self.asleep.fetch_and(!bit(id), Ordering::Relaxed);
            let mail = desk.leave(self, id);
            self.forget_if_gone(&desk, id);
            mail
        };
        // Freeing it may take long, and the desk is for others.
        drop(mail);
    }

    /// Nothing is pending for a reader that was both ended and dropped.
    fn forget_if_gone(&self, desk: &Desk, id: ReaderId) {
        if !desk.has(id) {
            self.progress[id.slot].0.reader.store(0, Ordering::Relaxed);
        }
    }

    /// Gives the unit in `draft` a number and to the readers: see [`seal`], which is the only caller
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
        lock(&self.lanes.0).push(lane.clone());
        self.lanes_version.fetch_add(1, Ordering::Release);
        lane
    }

    /// Wakes the readers that sleep: after a unit was published, and better without shards in hand.
    /// A look at one word that is written only when a reader falls asleep or wakes.
    pub fn ring(&self) {
        // The unit was published before this look; a reader says that it sleeps before it looks
        // for units. One of the two sees the other.
        fence(Ordering::SeqCst);
        if self.asleep.load(Ordering::Relaxed) != 0 {
            self.wake_readers();
        }
    }

    #[cold]
    fn wake_readers(&self) {
        let asleep = self.asleep.swap(0, Ordering::AcqRel);
        if asleep == 0 {
            return;
        }
        let wakes = lock(&self.wakes).clone();
        let sleeping = wakes.into_iter().enumerate().filter(|(slot, _)| (asleep >> slot) & 1 == 1);
        sleeping.filter_map(|(_, wake)| wake).for_each(|wake| wake());
    }
}

/// Of [`Log::asleep`].
fn bit(id: ReaderId) -> u64 {
    1 << id.slot
}

impl Turn {
    /// The number of the last unit that this turn has logged; 0 if none. Whoever may answer only
    /// what is durable compares it before and after a command.
    #[inline]
    pub fn last_unit(&self) -> u64 {
        self.effects.log.last
    }

    /// Bytes of commands that this turn has logged, ever, in the keyspace that it was used with last.
    #[inline]
    pub fn logged_bytes(&self) -> u64 {
        self.effects.log.lane.as_ref().map_or(0, |lane| lane.published())
    }

    /// Wakes the readers of the log if this turn has logged something since the last call: to be
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

    /// Lets a reader join, for entries of `target`: it gets every group that commits from now on,
    /// whole, and none of before, whoever else reads. `wake` is called when it sleeps
    /// ([`LogReader::may_sleep`]) and there is something for it. `None` when [`MAX_READERS`] are
    /// there. O(shards).
    ///
    /// # Panics
    /// Unless this is a guard of the world: what the slow lane does gathers nothing for a log that
    /// has not begun, or for a target that nobody wanted.
    #[must_use]
    pub fn begin_log(&self, target: Target, wake: WakeReader) -> Option<LogReader> {
        assert!(self.is_world(), "the log begins between all commands");
        let reader = self.keyspace().observers.log.begin(target, wake)?;
        self.set_logged(true);
        Some(reader)
    }

    /// Ends what that reader gets: what commits from now on is not for it. It still gets what has
    /// ([`LogReader::is_over`]), and others go on; the log ends with the last of them. Nothing happens
    /// if it was ended before. To be called for each reader, also for one that was dropped: until
    /// then what is done is logged for it. O(shards).
    ///
    /// # Panics
    /// Unless this guard stops the I/O threads: one of the world, or of all that the slow lane does
    /// not hold.
    pub fn end_log(&self, id: &ReaderId) {
        self.assert_stopped();
        let log = &self.keyspace().observers.log;
        log.end(id);
        self.set_logged(log.is_on());
    }

    /// The number of the last unit before this moment, for a cut: everything up to it has happened
    /// (and may be on its way to the readers), nothing behind it has.
    ///
    /// # Panics
    /// As [`Guard::end_log`].
    pub fn log_position(&self) -> u64 {
        self.assert_stopped();
        self.keyspace().observers.log.last()
    }

    fn set_logged(&self, on: bool) {
        if self.is_logged() == on {
            return;
        }
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
        draft.last = guard.keyspace().observers.log.publish(draft, now_ms);
        draft.rings = true;
    }
    turn.effects.clear_log();
}

#[cfg(all(test, not(loom)))]
mod simulation;
#[cfg(all(test, not(loom)))]
mod tests;

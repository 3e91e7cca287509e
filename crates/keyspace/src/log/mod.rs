//! The effect log: one order of all writes of all threads, for the append-only file and the
//! replicas.
//!
//! ```text
//!  command ─► Db ─► commit: encode ─► draw a number ─► thread log ─► release the shards
//!                                     (one atomic)     (its own cache line)
//!               thread logs:  thread 0   3 4 . 9 . .  ┐            ┌─► LogReader: 3 4 5 6 ? ...
//!                             thread 1   . . 5 . . 10 ├─► fan-out ─┤   7 is drawn, not published: wait
//!                             slow thread_log  . . . 6 . .  ┘            └─► LogReader: 3 4 ...
//! ```
//!
//! * `unit` - the content: a [`Unit`] holds all effects of one commit group; its entries are
//!   commands in the words that repeat the effects
//! * [`draft`] - the entries that a group collects until it is committed
//! * [`thread_log`] - one thread's log: its units on their way to the readers
//! * [`fan_out`] - the fan-out of the units to all readers, which join and leave independently
//! * [`reader`] - one reader: restores the order
//!
//! A group with log entries draws its number from one counter while it holds its shards, and
//! appends its unit to its thread's log. So the order of numbers agrees with the order of
//! execution: two groups that share a shard draw one after the other. It also agrees with real
//! time: a client that writes after it saw a reply draws a later number. Numbers are dense, so a
//! reader notices a missing one. A thread that is descheduled between the two steps delays only
//! the log.
//!
//! Without readers no entry is encoded and no number drawn. Each shard has an interest bit for it
//! ([`crate::interest`]), in a word that a write checks anyway. The bit is set and cleared while
//! the world is stopped, so a group is in the log as a whole or not at all, and the number at a
//! cut ([`Guard::log_position`]) separates earlier from later groups exactly.
//!
//! `docs/design/effect-log.md` has the proofs and the rejected designs.

pub mod draft;
mod fan_out;
pub mod reader;
pub(crate) mod thread_log;
pub mod unit;

pub use fan_out::{MAX_READERS, ReaderId};
pub use reader::LogReader;
pub use unit::{Entry, Piece, Target, Unit};

use crate::context::ExecContext;
use crate::guard::Guard;
use crate::interest::LOGGED;
use crate::keyspace::SHARDS;
use crate::sync::{AtomicU64, Mutex, Ordering, fence, lock};
use draft::Draft;
use fan_out::FanOut;
use std::fmt;
use std::sync::Arc;
use thread_log::ThreadLog;

/// Wakes the thread that reads the log. Producers call it, and they must not block: it is an
/// unpark, or a write to an eventfd.
pub type WakeReader = Arc<dyn Fn() + Send + Sync>;

/// The state shared by producers and readers.
#[derive(Default)]
pub struct Log {
    /// The last drawn number; 0: none. Every write of every thread changes it.
    drawn: CachePadded<AtomicU64>,
    /// The [`Target`] bits with a reader; 0: no reader. Changed while the world is stopped.
    wanted: AtomicU64,
    /// The bits of the readers that want to be woken for new units, by slot.
    asleep: AtomicU64,
    /// Of every thread that has logged a unit since the start of the process.
    thread_logs: CachePadded<Mutex<Vec<Arc<ThreadLog>>>>,
    /// Incremented when a thread log is added to the list above.
    thread_logs_version: AtomicU64,
    /// By reader slot, like `progress`.
    wakes: Mutex<[Option<WakeReader>; MAX_READERS]>,
    progress: [CachePadded<Progress>; MAX_READERS],
    fan_out: CachePadded<Mutex<FanOut>>,
}

/// Aligned so that writes to it cause no false sharing.
#[repr(align(128))]
#[derive(Default)]
struct CachePadded<T>(T);

/// The progress of one reader. Byte counts are of commands since the first published unit:
/// readers pass units in the order of their numbers, so a byte count is a position in that order.
#[derive(Default)]
struct Progress {
    /// The reader that this describes; 0: none. See [`ReaderId`].
    reader: AtomicU64,
    /// Bytes before the first unit that it has not passed. Changed by the reader.
    passed: AtomicU64,
    /// The last unit that it gets, and the bytes before the next one; [`u64::MAX`] until it is
    /// ended.
    end: AtomicU64,
    end_bytes: AtomicU64,
}

impl Progress {
    /// The range that it has not passed, in bytes; `published` is the current end.
    fn pending(&self, published: u64) -> (u64, u64) {
        let upto = self.end_bytes.load(Ordering::Relaxed).min(published);
        (self.passed.load(Ordering::Relaxed), upto)
    }

    /// A new reader begins at `published`.
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
    /// Whether changes are logged; may be outdated at once while the world runs.
    pub fn is_on(&self) -> bool {
        self.wanted.load(Ordering::Relaxed) != 0
    }

    /// Whether an active reader exists for `target`; may be outdated at once while the world
    /// runs.
    #[inline]
    pub fn wants(&self, target: Target) -> bool {
        self.wanted.load(Ordering::Relaxed) & target.bits() != 0
    }

    /// The last drawn number, 0 before the first; may be outdated at once while the world runs.
    /// Numbers continue across all readers of a process.
    pub fn last(&self) -> u64 {
        self.drawn.0.load(Ordering::Relaxed)
    }

    /// Bytes of logged commands that not all readers have passed: the memory that the log holds.
    /// Includes values shared with the dataset; excludes second copies for several late readers.
    /// O(threads).
    pub fn pending_bytes(&self) -> u64 {
        let published = self.published();
        lock(&self.fan_out.0).pending_bytes(&self.progress, published)
    }

    /// The same, plus the spare capacity of the thread logs: about what would be free after all
    /// units were read. O(threads).
    pub fn pending_memory(&self) -> u64 {
        let room =
            lock(&self.thread_logs.0).iter().map(|thread_log| thread_log.overhead()).sum::<u64>();
        self.pending_bytes() + room
    }

    /// As [`Log::pending_bytes`], for the units that this reader has not passed; 0 after it is
    /// gone. O(threads).
    pub fn pending_bytes_of(&self, id: &ReaderId) -> u64 {
        let progress = &self.progress[id.slot].0;
        if progress.reader.load(Ordering::Relaxed) != id.number {
            return 0;
        }
        let (passed, upto) = progress.pending(self.published());
        upto.saturating_sub(passed)
    }

    /// Bytes of all commands published so far.
    fn published(&self) -> u64 {
        lock(&self.thread_logs.0).iter().map(|thread_log| thread_log.published()).sum()
    }

    /// Adds a reader: see [`Guard::begin_log`], which is the only caller apart from tests. No
    /// thread may publish meanwhile.
    pub fn begin(self: &Arc<Log>, target: Target, wake: WakeReader) -> Option<LogReader> {
        let mut fan_out = lock(&self.fan_out.0);
        let id = fan_out.join(self, target)?;
        lock(&self.wakes)[id.slot] = Some(wake);
        self.progress[id.slot].0.begin(id, self.published());
        self.wanted.store(fan_out.wanted(), Ordering::Relaxed);
        Some(LogReader::new(self.clone(), id))
    }

    /// Ends a reader: see [`Guard::end_log`].
    pub fn end(&self, id: &ReaderId) {
        let mut fan_out = lock(&self.fan_out.0);
        if fan_out.end(self, *id) {
            let progress = &self.progress[id.slot].0;
            progress.end.store(self.last(), Ordering::Relaxed);
            progress.end_bytes.store(self.published(), Ordering::Relaxed);
            self.wanted.store(fan_out.wanted(), Ordering::Relaxed);
            self.clear_progress_if_gone(&fan_out, *id);
        }
        drop(fan_out);
        self.ring();
    }

    /// Handles the drop of a reader.
    fn leave(&self, id: ReaderId) {
        let inbox = {
            let mut fan_out = lock(&self.fan_out.0);
            lock(&self.wakes)[id.slot] = None;
            self.asleep.fetch_and(!bit(id), Ordering::Relaxed);
            let inbox = fan_out.leave(self, id);
            self.clear_progress_if_gone(&fan_out, id);
            inbox
        };
        // Freeing it may take long, and other readers need the fan-out.
        drop(inbox);
    }

    /// A reader that was both ended and dropped has nothing pending.
    fn clear_progress_if_gone(&self, fan_out: &FanOut, id: ReaderId) {
        if !fan_out.has(id) {
            self.progress[id.slot].0.reader.store(0, Ordering::Relaxed);
        }
    }

    /// Publishes `draft` as a unit and returns its number: see [`seal`], which is the only caller
    /// apart from tests. The shards of the group must be held, and the log must have begun.
    pub fn publish(self: &Arc<Log>, draft: &mut Draft, ms: i64) -> u64 {
        let thread_log = draft
            .thread_log
            .take_if(|thread_log| thread_log.is_of(self))
            .unwrap_or_else(|| self.new_thread_log());
        let number =
            thread_log.publish(draft, ms, || self.drawn.0.fetch_add(1, Ordering::Relaxed) + 1);
        draft.thread_log = Some(thread_log);
        number
    }

    #[cold]
    fn new_thread_log(self: &Arc<Log>) -> Arc<ThreadLog> {
        let thread_log = Arc::new(ThreadLog::new(self));
        lock(&self.thread_logs.0).push(thread_log.clone());
        self.thread_logs_version.fetch_add(1, Ordering::Release);
        thread_log
    }

    /// Wakes sleeping readers. Call it after a unit was published, preferably without holding
    /// shards. It loads one word, which is written only when a reader falls asleep or wakes.
    pub fn ring(&self) {
        // The unit was published before this load; a reader marks itself as asleep before it
        // looks for units. One of the two sees the other.
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

/// The bit in [`Log::asleep`].
fn bit(id: ReaderId) -> u64 {
    1 << id.slot
}

impl ExecContext {
    /// The number of the last unit logged in this context; 0 if none. A server that replies only
    /// when changes are durable compares it before and after a command.
    #[inline]
    pub fn last_unit(&self) -> u64 {
        self.effects.log.last
    }

    /// Bytes of all commands logged in this context so far, in the keyspace it was last used
    /// with.
    #[inline]
    pub fn logged_bytes(&self) -> u64 {
        self.effects.log.thread_log.as_ref().map_or(0, |thread_log| thread_log.published())
    }

    /// Wakes the readers of the log if this context has logged a unit since the last call. Call
    /// it without holding shards, before the thread sleeps.
    #[inline]
    pub fn ring(&mut self, log: &Log) {
        if std::mem::take(&mut self.effects.log.wakes_readers) {
            log.ring();
        }
    }
}

impl Guard<'_> {
    /// Whether changes under this guard are logged. For a slow-lane command, logging may end
    /// while it runs: [`seal`] checks again.
    #[inline]
    pub fn is_logged(&self) -> bool {
        self.keyspace().interest(self.any_shard()) & LOGGED != 0
    }

    /// Adds a reader for entries of `target`. It gets every group that commits from now on as a
    /// whole, and none from before. `wake` is called when it sleeps ([`LogReader::may_sleep`])
    /// and there is a unit for it. `None` when there are [`MAX_READERS`]. O(shards).
    ///
    /// # Panics
    /// Unless no other thread runs a command ([`Guard::is_alone`]): a running slow-lane command collects no entries for a log
    /// that has not begun, or for a target without a reader.
    #[must_use]
    pub fn begin_log(&self, target: Target, wake: WakeReader) -> Option<LogReader> {
        assert!(self.is_alone(), "the log begins between all commands");
        let reader = self.keyspace().observers.log.begin(target, wake)?;
        self.set_logged(true);
        Some(reader)
    }

    /// Ends a reader: it gets no group that commits from now on, but can still read earlier ones
    /// ([`LogReader::is_over`]). Other readers continue; the log ends with the last of them. No
    /// effect if it was ended before. Must be called for each reader, also for a dropped one:
    /// until then changes are logged for it. O(shards).
    ///
    /// # Panics
    /// Unless this guard stops the I/O threads.
    pub fn end_log(&self, id: &ReaderId) {
        self.assert_stopped();
        let log = &self.keyspace().observers.log;
        log.end(id);
        self.set_logged(log.is_on());
    }

    /// The number of the last unit before this moment, for a cut: all groups up to it have
    /// committed (and may still be on their way to the readers), and none after it has.
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
        let is_stopped = self.stops_io_threads() || self.is_alone();
        assert!(is_stopped, "the log is cut while the world is stopped");
    }
}

/// Ends a group: if it has log entries, draws its number and publishes it. Call it at the end of
/// the group, while all of its shards are held, and, in the slow lane, before threads that read
/// all keys may get in between. O(bytes).
#[cold]
pub fn seal(guard: &Guard<'_>, context: &mut ExecContext) {
    let now_ms = context.now_ms;
    let draft = &mut context.effects.log;
    // For a slow-lane command, the log may have ended while it ran.
    if !draft.is_empty() && guard.keyspace().interest(guard.any_shard()) & LOGGED != 0 {
        draft.last = guard.keyspace().observers.log.publish(draft, now_ms);
        draft.wakes_readers = true;
    }
    context.effects.clear_log();
}

#[cfg(all(test, not(loom)))]
mod simulation;
#[cfg(all(test, not(loom)))]
mod tests;

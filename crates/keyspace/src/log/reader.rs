//! A reader: merges the units of all thread logs into the order of their numbers.
//!
//! Units of one thread log are in order already, so this is a merge: the thread log whose first
//! unit has the next number comes next. Numbers are dense, so the reader also knows when a unit
//! is missing: a thread has drawn the number and is about to publish it. Each reader merges by
//! itself, from its inbox in the [fan-out](super::fan_out). A reader whose inbox is empty collects
//! the thread logs for all.
//!
//! ```
//! # use weft_keyspace::log::Target;
//! # use weft_keyspace::{Keyspace, Outside, ExecContext};
//! # use std::sync::Arc;
//! # let ks = Keyspace::new(1, 1, Box::new(|_| {}));
//! # let mut context = ExecContext::new(0, 1);
//! # let mut inside = Outside::new(&ks, 0).enter();
//! # let guard = inside.world(&mut context).expect("the slow thread_log is idle");
//! let reader_thread = std::thread::current();
//! let wake = Arc::new(move || reader_thread.unpark());
//! let mut log = guard.begin_log(Target::AOF, wake).expect("the only reader");
//! # guard.end_log(&log.id());
//! # drop(guard);
//! let (mut out, mut selected) = (Vec::new(), None);
//! while !log.is_over() {
//!     while let Some(unit) = log.next() {
//!         for entry in unit.entries().filter(|entry| entry.target().has(Target::AOF)) {
//!             if selected != Some(entry.db()) {
//!                 // write SELECT
//!                 selected = Some(entry.db());
//!             }
//!             entry.append_to(&mut out);
//!         }
//!     }
//!     // write `out`; everything up to `log.position()` is in it
//!     if log.may_sleep() {
//!         std::thread::park();
//!     }
//! }
//! ```

use super::fan_out::{KEPT_BLOCKS, ReaderId, Source};
use super::unit::Unit;
use super::{Log, Progress, bit};
use crate::sync::{Ordering, fence, lock};
use std::sync::Arc;

/// Reads the log from its position under [`Guard::begin_log`](crate::Guard::begin_log) on. It
/// gets all units, also those with entries for other targets only.
///
/// End it ([`Guard::end_log`](crate::Guard::end_log)) before dropping it: until then changes are
/// logged for it, and the log grows in memory unless others read.
#[derive(Debug)]
pub struct LogReader {
    log: Arc<Log>,
    id: ReaderId,
    sources: Vec<Source>,
    /// The number of the last unit that was returned.
    position: u64,
    /// The thread log of that unit, where it is still the first.
    current: Option<usize>,
    /// Whether producers must wake it.
    sleeps: bool,
}

impl Source {
    /// The number of the first unit.
    fn head(&self) -> Option<u64> {
        Some(self.blocks.front()?.units[self.at].number)
    }

    /// Passes the first unit and returns its bytes.
    fn pass(&mut self) -> usize {
        let Some(block) = self.blocks.front() else { return 0 };
        let bytes = block.unit(self.at).len();
        self.at += 1;
        if self.at == block.units.len() {
            self.at = 0;
            let passed = self.blocks.pop_front();
            if let Some(block) = passed.and_then(|block_ref| block_ref.into_block()) {
                self.thread_log.give_back(block);
            }
            if self.blocks.is_empty() {
                self.blocks.shrink_to(KEPT_BLOCKS);
            }
        }
        bytes
    }
}

impl LogReader {
    /// Call while the world is stopped.
    pub(super) fn new(log: Arc<Log>, id: ReaderId) -> LogReader {
        let position = log.last();
        LogReader { log, id, sources: Vec::new(), position, current: None, sleeps: false }
    }

    /// Its id, for the thread that ends it.
    pub fn id(&self) -> ReaderId {
        self.id
    }

    /// The number of the last unit that was returned; before the first, the last number before it
    /// joined.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// The last drawn number among those that it gets; may be outdated at once until it is ended.
    pub fn last(&self) -> u64 {
        self.log.last().min(self.progress().end.load(Ordering::Relaxed))
    }

    /// Bytes of commands logged for it that it has not passed yet. O(threads).
    pub fn pending_bytes(&self) -> u64 {
        self.log.pending_bytes_of(&self.id)
    }

    fn progress(&self) -> &Progress {
        &self.log.progress[self.id.slot].0
    }

    /// The log that it reads.
    pub fn log(&self) -> &Log {
        &self.log
    }

    /// The next unit; `None` if there is none, or the next one is about to be published.
    /// Amortized O(threads).
    #[allow(clippy::should_implement_trait, reason = "the result borrows from the reader")]
    pub fn next(&mut self) -> Option<Unit<'_>> {
        self.wake_up();
        if let Some(passed) = self.current.take() {
            let bytes = self.sources[passed].pass() as u64;
            let passed_bytes = &self.progress().passed;
            // Only this thread changes it.
            passed_bytes.store(passed_bytes.load(Ordering::Relaxed) + bytes, Ordering::Relaxed);
            // Threads work in batches, so the next unit likely comes from the same thread log.
            if self.sources[passed].head() == Some(self.position + 1) {
                return self.answer(passed);
            }
        }
        let mut found = self.find();
        if found.is_none() && self.collect() {
            found = self.find();
        }
        self.answer(found?)
    }

    fn find(&self) -> Option<usize> {
        self.sources.iter().position(|source| source.head() == Some(self.position + 1))
    }

    fn answer(&mut self, nth: usize) -> Option<Unit<'_>> {
        self.current = Some(nth);
        self.position += 1;
        let source = &self.sources[nth];
        Some(source.blocks.front()?.unit(source.at))
    }

    /// Collects new blocks from all thread logs. Returns whether there were any.
    fn collect(&mut self) -> bool {
        lock(&self.log.fan_out.0).collect(&self.log, self.id.slot, &mut self.sources)
    }

    /// Makes producers wake the reader for new units. There may be some already, so check
    /// [`LogReader::last`] afterwards. One call allows one wake-up.
    pub fn wants_more(&mut self) {
        self.sleeps = true;
        self.log.asleep.fetch_or(bit(self.id), Ordering::AcqRel);
        fence(Ordering::SeqCst);
    }

    /// Whether the calling thread may sleep until it is woken: there is no unit for it, and
    /// producers will wake it. Wake-ups may be spurious. Producers wake it only after this call,
    /// until [`LogReader::next`] is called.
    pub fn may_sleep(&mut self) -> bool {
        self.wants_more();
        // Only the number is used here of a unit that is first in its thread log.
        let next = self.position + 1;
        let is_next = |source: &Source, passed: bool| {
            let at = source.at + usize::from(passed);
            let of_first = source.blocks.front().and_then(|block| block.units.get(at));
            let found = of_first.or_else(|| source.blocks.get(1)?.units.first());
            found.is_some_and(|unit| unit.number == next)
        };
        self.collect();
        let current = self.current;
        let found = self
            .sources
            .iter()
            .enumerate()
            .any(|(nth, source)| is_next(source, current == Some(nth)));
        if found || self.is_over() {
            self.wake_up();
            return false;
        }
        true
    }

    /// Whether producers wake it: [`LogReader::may_sleep`] was called, and nothing was read since.
    pub fn is_asleep(&self) -> bool {
        self.sleeps
    }

    fn wake_up(&mut self) {
        if std::mem::take(&mut self.sleeps) {
            self.log.asleep.fetch_and(!bit(self.id), Ordering::Release);
        }
    }

    /// Whether it was ended and has returned all its units.
    pub fn is_over(&self) -> bool {
        self.position == self.progress().end.load(Ordering::Relaxed)
    }
}

impl Drop for LogReader {
    fn drop(&mut self) {
        self.log.leave(self.id);
    }
}

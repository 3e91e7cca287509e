//! A reader: puts the units of all lanes in the order of their numbers.
//!
//! Units of one lane are in order already, so it is a merge: whoever has the next number at its head
//! is next. Numbers are dense, so it is also known when one is missing: a thread has drawn it and is
//! about to publish its unit. Each reader does so by itself, with what it was given at the
//! [desk](super::desk); whoever finds nothing more to read empties the lanes for all.
//!
//! ```
//! # use weft_keyspace::log::Target;
//! # use weft_keyspace::{Keyspace, Outside, Turn};
//! # use std::sync::Arc;
//! # let ks = Keyspace::new(1, 1, Box::new(|_| {}));
//! # let mut turn = Turn::new(0, 1);
//! # let mut inside = Outside::new(&ks, 0).enter();
//! # let guard = inside.world(&mut turn).expect("nobody else");
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

use super::desk::{KEPT_PARCELS, ReaderId, Source};
use super::unit::Unit;
use super::{Log, Progress, bit};
use crate::sync::{Ordering, fence, lock};
use std::sync::Arc;

/// Reads the log, from where it was under [`Guard::begin_log`](crate::Guard::begin_log) on. It gets all
/// units, also those whose entries are all for others.
///
/// To be dropped after it was ended ([`Guard::end_log`](crate::Guard::end_log)): until then what is
/// done is logged for it, and the log grows in memory unless others read.
#[derive(Debug)]
pub struct LogReader {
    log: Arc<Log>,
    id: ReaderId,
    lanes: Vec<Source>,
    /// The number of the last unit that was answered.
    position: u64,
    /// The lane of that unit, which is still at its head.
    current: Option<usize>,
    /// Producers were told that this sleeps.
    sleeps: bool,
}

impl Source {
    /// The number of the unit at the head.
    fn head(&self) -> Option<u64> {
        Some(self.parcels.front()?.units[self.at].number)
    }

    /// Passes the unit at the head; how many bytes it has.
    fn pass(&mut self) -> usize {
        let Some(block) = self.parcels.front() else { return 0 };
        let bytes = block.unit(self.at).len();
        self.at += 1;
        if self.at == block.units.len() {
            self.at = 0;
            let passed = self.parcels.pop_front();
            if let Some(block) = passed.and_then(|parcel| parcel.into_block()) {
                self.lane.give_back(block);
            }
            if self.parcels.is_empty() {
                self.parcels.shrink_to(KEPT_PARCELS);
            }
        }
        bytes
    }
}

impl LogReader {
    /// The world is stopped.
    pub(super) fn new(log: Arc<Log>, id: ReaderId) -> LogReader {
        let position = log.last();
        LogReader { log, id, lanes: Vec::new(), position, current: None, sleeps: false }
    }

    /// Its name, for who ends it.
    pub fn id(&self) -> ReaderId {
        self.id
    }

    /// The number of the last unit that was answered; before the first, the last number before it
    /// joined.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// The number of the last unit that was drawn of those that it gets; a moment's value until it is
    /// ended.
    pub fn last(&self) -> u64 {
        self.log.last().min(self.progress().end.load(Ordering::Relaxed))
    }

    /// Bytes of commands that were logged for it and that it has not passed yet. O(threads).
    pub fn pending_bytes(&self) -> u64 {
        self.log.pending_bytes_of(&self.id)
    }

    fn progress(&self) -> &Progress {
        &self.log.progress[self.id.slot].0
    }

    /// The log that is read.
    pub fn log(&self) -> &Log {
        &self.log
    }

    /// The next unit; `None` when there is none, or the next one is about to be published. Amortized
    /// O(threads).
    #[allow(clippy::should_implement_trait, reason = "what it answers borrows from the reader")]
    pub fn next(&mut self) -> Option<Unit<'_>> {
        self.wake_up();
        if let Some(passed) = self.current.take() {
            let bytes = self.lanes[passed].pass() as u64;
            let passed_bytes = &self.progress().passed;
            // Nobody else changes it.
            passed_bytes.store(passed_bytes.load(Ordering::Relaxed) + bytes, Ordering::Relaxed);
            // Threads work in batches: the next is likely to come from the same one.
            if self.lanes[passed].head() == Some(self.position + 1) {
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
        self.lanes.iter().position(|source| source.head() == Some(self.position + 1))
    }

    fn answer(&mut self, nth: usize) -> Option<Unit<'_>> {
        self.current = Some(nth);
        self.position += 1;
        let source = &self.lanes[nth];
        Some(source.parcels.front()?.unit(source.at))
    }

    /// Takes what has come in all lanes; whether there is anything.
    fn collect(&mut self) -> bool {
        lock(&self.log.desk.0).collect(&self.log, self.id.slot, &mut self.lanes)
    }

    /// Has producers wake the reader when there is more, though there may be something for it: to be
    /// followed by a look at [`LogReader::last`], and called again for each time it is to be woken.
    pub fn wants_more(&mut self) {
        self.sleeps = true;
        self.log.asleep.fetch_or(bit(self.id), Ordering::AcqRel);
        fence(Ordering::SeqCst);
    }

    /// Whether the calling thread may sleep until it is woken: there is nothing for it, and producers
    /// were told to wake it. May be woken for nothing. While this was not called, or [`LogReader::next`]
    /// was called after it, producers wake nobody.
    pub fn may_sleep(&mut self) -> bool {
        self.wants_more();
        // Of the unit that is at the head of its lane only its number is used below.
        let next = self.position + 1;
        let is_next = |source: &Source, passed: bool| {
            let at = source.at + usize::from(passed);
            let of_first = source.parcels.front().and_then(|block| block.units.get(at));
            let found = of_first.or_else(|| source.parcels.get(1)?.units.first());
            found.is_some_and(|unit| unit.number == next)
        };
        self.collect();
        let current = self.current;
        let found = self
            .lanes
            .iter()
            .enumerate()
            .any(|(nth, source)| is_next(source, current == Some(nth)));
        if found || self.is_over() {
            self.wake_up();
            return false;
        }
        true
    }

    fn wake_up(&mut self) {
        if std::mem::take(&mut self.sleeps) {
            self.log.asleep.fetch_and(!bit(self.id), Ordering::Release);
        }
    }

    /// Whether it was ended and all that it gets was answered.
    pub fn is_over(&self) -> bool {
        self.position == self.progress().end.load(Ordering::Relaxed)
    }
}

impl Drop for LogReader {
    fn drop(&mut self) {
        self.log.leave(self.id);
    }
}

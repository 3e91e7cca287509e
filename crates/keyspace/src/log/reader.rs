//! The collector: puts the units of all lanes in the order of their numbers.
//!
//! Units of one lane are in order already, so it is a merge: whoever has the next number at its head
//! is next. Numbers are dense, so it is also known when one is missing: a thread has drawn it and is
//! about to publish its unit.
//!
//! ```
//! # use weft_keyspace::{Keyspace, Outside, Turn};
//! # use std::sync::Arc;
//! # let ks = Keyspace::new(1, 1, Box::new(|_| {}));
//! # let mut turn = Turn::new(0, 1);
//! # let mut inside = Outside::new(&ks, 0).enter();
//! # let guard = inside.world(&mut turn).expect("nobody else");
//! let reader_thread = std::thread::current();
//! let mut log = guard.begin_log(Arc::new(move || reader_thread.unpark())).expect("the only reader");
//! # guard.end_log();
//! # drop(guard);
//! let (mut out, mut selected) = (Vec::new(), None);
//! while !log.is_over() {
//!     while let Some(unit) = log.next() {
//!         for entry in unit.entries() {
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

use super::Log;
use super::lane::Lane;
use super::unit::{Block, Unit};
use crate::sync::{Ordering, fence, lock};
use std::collections::VecDeque;
use std::sync::Arc;

/// Reads the log, from its beginning under [`Guard::begin_log`](crate::Guard::begin_log) on. There is
/// one at a time; who wants to give the units to several hands copies of them on.
///
/// To be dropped after the log was ended ([`Guard::end_log`](crate::Guard::end_log)), or the log grows
/// in memory until it is.
#[derive(Debug)]
pub struct LogReader {
    log: Arc<Log>,
    lanes: Vec<Source>,
    lanes_version: u64,
    /// The number of the last unit that was answered.
    position: u64,
    /// The lane of that unit, which is still at its head.
    current: Option<usize>,
    /// Producers were told that this sleeps.
    sleeps: bool,
}

/// A lane, and what was taken out of it.
#[derive(Debug)]
struct Source {
    lane: Arc<Lane>,
    blocks: VecDeque<Box<Block>>,
    /// The index of the next unit in the first block.
    at: usize,
}

impl Source {
    /// The number of the unit at the head.
    fn head(&self) -> Option<u64> {
        Some(self.blocks.front()?.units[self.at].number)
    }

    /// Takes what has come; whether there is anything.
    fn collect(&mut self) -> bool {
        let block = self.lane.collect();
        let is_new = block.is_some();
        self.blocks.extend(block);
        is_new
    }

    /// Passes the unit at the head.
    fn pass(&mut self) {
        let Some(block) = self.blocks.front() else { return };
        self.lane.passed(block.unit(self.at).len());
        self.at += 1;
        if self.at == block.units.len() {
            self.at = 0;
            if let Some(block) = self.blocks.pop_front() {
                self.lane.give_back(block);
            }
        }
    }
}

impl LogReader {
    /// The world is stopped.
    pub(super) fn new(log: Arc<Log>) -> LogReader {
        let position = log.last();
        LogReader {
            log,
            lanes: Vec::new(),
            lanes_version: 0,
            position,
            current: None,
            sleeps: false,
        }
    }

    /// The number of the last unit that was answered; before the first, the last number before the
    /// log was begun.
    pub fn position(&self) -> u64 {
        self.position
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
            self.lanes[passed].pass();
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
        Some(source.blocks.front()?.unit(source.at))
    }

    /// Takes what has come in all lanes; whether there is anything.
    fn collect(&mut self) -> bool {
        let version = self.log.lanes_version.load(Ordering::Acquire);
        if version != self.lanes_version {
            self.lanes_version = version;
            self.meet_new_lanes();
        }
        let mut is_new = false;
        for source in &mut self.lanes {
            is_new |= source.collect();
        }
        is_new
    }

    #[cold]
    fn meet_new_lanes(&mut self) {
        let all = lock(&self.log.lanes);
        for lane in all.iter() {
            if !self.lanes.iter().any(|known| Arc::ptr_eq(&known.lane, lane)) {
                let lane = lane.clone();
                self.lanes.push(Source { lane, blocks: VecDeque::new(), at: 0 });
            }
        }
    }

    /// Has producers wake the reader when there is more, though there may be something for it: to be
    /// followed by a look at [`Log::last`], and called again for each time it is to be woken.
    pub fn wants_more(&mut self) {
        self.sleeps = true;
        self.log.asleep.swap(true, Ordering::AcqRel);
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
            let of_first = source.blocks.front().and_then(|block| block.units.get(at));
            let found = of_first.or_else(|| source.blocks.get(1)?.units.first());
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
            self.log.asleep.store(false, Ordering::Release);
        }
    }

    /// Whether the log was ended and all of it was answered.
    pub fn is_over(&self) -> bool {
        !self.log.is_on() && self.position == self.log.last()
    }
}

impl Drop for LogReader {
    fn drop(&mut self) {
        self.log.asleep.store(false, Ordering::Relaxed);
        self.log.has_reader.store(false, Ordering::Release);
    }
}

//! The fan-out from the thread logs to the readers: every reader gets all blocks.
//!
//! ```text
//!  thread logs  thread 0 ──┐            ┌─► inbox of reader 0:  per thread log, in its order
//!               thread 1 ──┼─► a reader ┤
//!               slow thread_log ─┘  collects  └─► inbox of reader 1:  kept until it collects
//! ```
//!
//! The fan-out is a mutex that only readers take, and threads that add or end a reader: never a
//! thread that publishes. The collecting reader empties the thread logs for all readers. So a
//! late reader finds all blocks in its inbox, and a reader that does not collect delays no other.
//!
//! With one reader, the block itself is handed over and returns to its thread log after it was
//! read. With several readers, a small block is copied, into the last block of a reader's inbox
//! if that has room; otherwise a slow reader's inbox would hold thousands of blocks with one unit
//! each. A large block is shared.

use super::thread_log::ThreadLog;
use super::unit::{Block, Target};
use super::{CachePadded, Log, Progress};
use crate::sync::{Ordering, lock};
use std::collections::VecDeque;
use std::ops::Deref;
use std::sync::Arc;

/// The maximum number of readers.
pub const MAX_READERS: usize = 4;

/// The capacity that an emptied list of blocks keeps.
pub(super) const KEPT_BLOCKS: usize = 64;

/// Identifies a reader to other threads. No two readers of a log have the same id, even at
/// different times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReaderId {
    pub(super) slot: usize,
    /// From 1.
    pub(super) number: u64,
}

/// A block for one reader.
#[derive(Debug)]
pub(super) enum BlockRef {
    Own(Box<Block>),
    /// Other readers have the block, too.
    Shared(Arc<Block>),
}

impl Deref for BlockRef {
    type Target = Block;

    fn deref(&self) -> &Block {
        match self {
            BlockRef::Own(block) => block,
            BlockRef::Shared(block) => block,
        }
    }
}

impl BlockRef {
    /// The block for reuse, if no other reader has it any more.
    pub(super) fn into_block(self) -> Option<Box<Block>> {
        match self {
            BlockRef::Own(block) => Some(block),
            BlockRef::Shared(block) => Arc::into_inner(block).map(Box::new),
        }
    }
}

/// One thread log from the view of one reader: the collected blocks not passed yet.
#[derive(Debug)]
pub(super) struct Source {
    pub(super) thread_log: Arc<ThreadLog>,
    pub(super) blocks: VecDeque<BlockRef>,
    /// The index of the next unit in the first block.
    pub(super) at: usize,
}

/// The blocks for one reader that it has not collected, by thread log.
pub(super) type Inbox = Vec<Vec<BlockRef>>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// It gets all new blocks.
    Reads,
    /// It was ended, and has yet to read earlier blocks.
    Finishes,
    /// It was dropped but not ended yet.
    Dropped,
}

#[derive(Debug)]
struct ReaderSlot {
    number: u64,
    target: Target,
    state: State,
    inbox: Inbox,
    has_blocks: bool,
}

impl ReaderSlot {
    fn reads(&self) -> bool {
        self.state == State::Reads
    }

    fn put(&mut self, thread_log: usize, block_ref: BlockRef) {
        self.inbox_of(thread_log).push(block_ref);
    }

    /// Adds a copy of `block`.
    fn put_copy(&mut self, thread_log: usize, block: &Block) {
        let inbox = self.inbox_of(thread_log);
        if let Some(BlockRef::Own(last)) = inbox.last_mut()
            && last.has_room()
        {
            last.copy(block);
            return;
        }
        let mut copy = Box::<Block>::default();
        copy.copy(block);
        inbox.push(BlockRef::Own(copy));
    }

    fn inbox_of(&mut self, thread_log: usize) -> &mut Vec<BlockRef> {
        self.has_blocks = true;
        if self.inbox.len() <= thread_log {
            self.inbox.resize_with(thread_log + 1, Vec::new);
        }
        &mut self.inbox[thread_log]
    }
}

/// See the module's description.
#[derive(Debug, Default)]
pub(super) struct FanOut {
    /// All thread logs known at the last check.
    thread_logs: Vec<Arc<ThreadLog>>,
    thread_logs_version: u64,
    slots: [Option<ReaderSlot>; MAX_READERS],
    /// The number of readers so far.
    readers: u64,
    /// The bytes published when the last reader stopped reading. While a dropped reader has not
    /// been ended, later units stay in the thread logs.
    unread_from: u64,
}

impl FanOut {
    /// Assigns a slot to a new reader, which gets all units from now on; `None` if all slots are
    /// taken. The world must be stopped.
    pub(super) fn join(&mut self, log: &Log, target: Target) -> Option<ReaderId> {
        let is_vacant = |reader_slot: &Option<ReaderSlot>| reader_slot.is_none();
        // The slot of a reader that was dropped but not ended can be reused.
        let was_dropped = |reader_slot: &Option<ReaderSlot>| matches!(reader_slot, Some(s) if s.state == State::Dropped);
        let slot = self.slots.iter().position(is_vacant);
        let slot = slot.or_else(|| self.slots.iter().position(was_dropped))?;
        // Earlier units belong to the readers that exist already.
        self.collect_all(log, None);
        self.readers += 1;
        let number = self.readers;
        self.slots[slot] = Some(ReaderSlot {
            number,
            target,
            state: State::Reads,
            inbox: Vec::new(),
            has_blocks: false,
        });
        Some(ReaderId { slot, number })
    }

    /// Ends a reader: it gets no later units. Returns whether it was still to be ended. The world
    /// must be stopped.
    pub(super) fn end(&mut self, log: &Log, id: ReaderId) -> bool {
        self.collect_all(log, None);
        let Some(place) = self.place(id) else { return false };
        let Some(reader_slot) = place else { return false };
        match reader_slot.state {
            State::Reads => reader_slot.state = State::Finishes,
            State::Dropped => *place = None,
            State::Finishes => return false,
        }
        self.note_if_unread(log);
        true
    }

    /// Handles a dropped reader. The caller frees the returned inbox after it has released the
    /// fan-out.
    pub(super) fn leave(&mut self, log: &Log, id: ReaderId) -> Option<Inbox> {
        let place = self.place(id)?;
        let reader_slot = place.as_mut()?;
        let inbox = std::mem::take(&mut reader_slot.inbox);
        match reader_slot.state {
            State::Reads => {
                reader_slot.state = State::Dropped;
                self.note_if_unread(log);
            }
            State::Finishes | State::Dropped => *place = None,
        }
        Some(inbox)
    }

    /// If no reader is left, records the position from which units stay in the thread logs.
    fn note_if_unread(&mut self, log: &Log) {
        if !self.is_read() {
            self.unread_from = log.published();
            self.collect_all(log, None);
        }
    }

    /// The slot of that reader, if the reader still has it.
    fn place(&mut self, id: ReaderId) -> Option<&mut Option<ReaderSlot>> {
        self.has(id).then(|| &mut self.slots[id.slot])
    }

    /// Whether that reader still has its slot: it exists or has not been ended.
    pub(super) fn has(&self, id: ReaderId) -> bool {
        self.slots[id.slot].as_ref().is_some_and(|reader_slot| reader_slot.number == id.number)
    }

    /// Whether any reader gets new blocks.
    fn is_read(&self) -> bool {
        self.slots.iter().flatten().any(ReaderSlot::reads)
    }

    /// The bits of all targets with a reader that was not ended.
    pub(super) fn wanted(&self) -> u64 {
        let slots = self.slots.iter().flatten();
        let wanting = slots.filter(|reader_slot| reader_slot.state != State::Finishes);
        wanting.fold(0, |bits, reader_slot| bits | reader_slot.target.bits())
    }

    /// Moves the blocks for the reader in that slot to `sources`. Returns whether there were any.
    pub(super) fn collect(&mut self, log: &Log, slot: usize, sources: &mut Vec<Source>) -> bool {
        let Some(reader_slot) = &self.slots[slot] else { return false };
        // A reader that was ended already has all its blocks.
        if reader_slot.reads() {
            self.collect_all(log, Some(slot));
        }
        let known = sources.len();
        sources.extend(self.thread_logs[known..].iter().map(|thread_log| Source {
            thread_log: thread_log.clone(),
            blocks: VecDeque::new(),
            at: 0,
        }));
        let Some(reader_slot) = &mut self.slots[slot] else { return false };
        if !std::mem::take(&mut reader_slot.has_blocks) {
            return false;
        }
        for (source, inbox) in sources.iter_mut().zip(&mut reader_slot.inbox) {
            source.blocks.extend(inbox.drain(..));
            inbox.shrink_to(KEPT_BLOCKS);
        }
        true
    }

    /// Takes the blocks out of the thread logs and passes them to all active readers. `collector`
    /// gets the block itself if other readers get copies.
    fn collect_all(&mut self, log: &Log, collector: Option<usize>) {
        let version = log.thread_logs_version.load(Ordering::Acquire);
        if version != self.thread_logs_version {
            self.thread_logs_version = version;
            self.find_new_thread_logs(log);
        }
        for (nth, thread_log) in self.thread_logs.iter().enumerate() {
            if let Some(block) = thread_log.collect() {
                distribute(&mut self.slots, thread_log, nth, block, collector);
            }
        }
    }

    #[cold]
    fn find_new_thread_logs(&mut self, log: &Log) {
        let all = lock(&log.thread_logs.0);
        self.thread_logs.extend_from_slice(&all[self.thread_logs.len()..]);
    }

    /// Bytes of all units in memory: those that any existing reader has not passed. A reader's
    /// pending units are a range of the same order, so the ranges can be merged.
    pub(super) fn pending_bytes(&self, progress: &[CachePadded<Progress>], published: u64) -> u64 {
        let mut pending: Vec<(u64, u64)> = Vec::with_capacity(MAX_READERS + 1);
        for (reader_slot, progress) in self.slots.iter().zip(progress) {
            if reader_slot.as_ref().is_some_and(|reader_slot| reader_slot.state != State::Dropped) {
                pending.push(progress.0.pending(published));
            }
        }
        if self.wanted() != 0 && !self.is_read() {
            pending.push((self.unread_from, published));
        }
        pending.sort_unstable();
        let (mut bytes, mut counted) = (0, 0);
        for (from, upto) in pending {
            bytes += upto.saturating_sub(from.max(counted));
            counted = counted.max(upto);
        }
        bytes
    }
}

/// Passes a block of `thread_log`, the thread log at index `nth`, to all active readers.
fn distribute(
    slots: &mut [Option<ReaderSlot>; MAX_READERS],
    thread_log: &ThreadLog,
    nth: usize,
    block: Box<Block>,
    collector: Option<usize>,
) {
    let reads = |place: &Option<ReaderSlot>| place.as_ref().is_some_and(ReaderSlot::reads);
    let Some(first) = slots.iter().position(reads) else {
        thread_log.give_back(block);
        return;
    };
    let keeper = collector.unwrap_or(first);
    let is_alone = slots.iter().filter(|place| reads(place)).count() == 1;
    if is_alone || block.is_small() {
        let places = slots.iter_mut().enumerate().filter(|(slot, _)| *slot != keeper);
        let others = places
            .filter_map(|(_, place)| place.as_mut())
            .filter(|reader_slot| reader_slot.reads());
        others.for_each(|reader_slot| reader_slot.put_copy(nth, &block));
        if let Some(reader_slot) = &mut slots[keeper] {
            reader_slot.put(nth, BlockRef::Own(block));
        }
    } else {
        let block = Arc::new(*block);
        for reader_slot in slots.iter_mut().flatten().filter(|reader_slot| reader_slot.reads()) {
            reader_slot.put(nth, BlockRef::Shared(block.clone()));
        }
    }
}

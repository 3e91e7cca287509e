//! The fan-out from the thread logs to the readers: every reader gets all blocks.
//!
//! ```text
//!  thread logs  thread 0 ──┐            ┌─► inbox of reader 0:  per thread log, in its order
//!               thread 1 ──┼─► a reader ┤
//!               slow lane ─┘  collects  └─► inbox of reader 1:  kept until it collects
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

use super::lane::Lane;
use super::unit::{Block, Target};
use super::{Line, Log, Progress};
use crate::sync::{Ordering, lock};
use std::collections::VecDeque;
use std::ops::Deref;
use std::sync::Arc;

/// The maximum number of readers.
pub const MAX_READERS: usize = 4;

/// The capacity that an emptied list of blocks keeps.
pub(super) const KEPT_PARCELS: usize = 64;

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
pub(super) enum Parcel {
    Own(Box<Block>),
    /// Other readers have the block, too.
    Shared(Arc<Block>),
}

impl Deref for Parcel {
    type Target = Block;

    fn deref(&self) -> &Block {
        match self {
            Parcel::Own(block) => block,
            Parcel::Shared(block) => block,
        }
    }
}

impl Parcel {
    /// The block for reuse, if no other reader has it any more.
    pub(super) fn into_block(self) -> Option<Box<Block>> {
        match self {
            Parcel::Own(block) => Some(block),
            Parcel::Shared(block) => Arc::into_inner(block).map(Box::new),
        }
    }
}

/// One thread log from the view of one reader: the collected blocks not passed yet.
#[derive(Debug)]
pub(super) struct Source {
    pub(super) lane: Arc<Lane>,
    pub(super) parcels: VecDeque<Parcel>,
    /// The index of the next unit in the first block.
    pub(super) at: usize,
}

/// The blocks for one reader that it has not collected, by thread log.
pub(super) type Mail = Vec<Vec<Parcel>>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// It gets all new blocks.
    Reads,
    /// It was ended, and has yet to read earlier blocks.
    Finishes,
    /// It was dropped but not ended yet.
    Left,
}

#[derive(Debug)]
struct Seat {
    number: u64,
    target: Target,
    state: State,
    mail: Mail,
    has_mail: bool,
}

impl Seat {
    fn reads(&self) -> bool {
        self.state == State::Reads
    }

    fn put(&mut self, lane: usize, parcel: Parcel) {
        self.box_of(lane).push(parcel);
    }

    /// Adds a copy of `block`.
    fn put_copy(&mut self, lane: usize, block: &Block) {
        let mail = self.box_of(lane);
        if let Some(Parcel::Own(last)) = mail.last_mut()
            && last.has_room()
        {
            last.copy(block);
            return;
        }
        let mut copy = Box::<Block>::default();
        copy.copy(block);
        mail.push(Parcel::Own(copy));
    }

    fn box_of(&mut self, lane: usize) -> &mut Vec<Parcel> {
        self.has_mail = true;
        if self.mail.len() <= lane {
            self.mail.resize_with(lane + 1, Vec::new);
        }
        &mut self.mail[lane]
    }
}

/// See the module's description.
#[derive(Debug, Default)]
pub(super) struct Desk {
    /// All thread logs known at the last check.
    lanes: Vec<Arc<Lane>>,
    lanes_version: u64,
    seats: [Option<Seat>; MAX_READERS],
    /// The number of readers so far.
    readers: u64,
    /// The bytes published when the last reader stopped reading. While a dropped reader has not
    /// been ended, later units stay in the thread logs.
    left_at: u64,
}

impl Desk {
    /// Assigns a slot to a new reader, which gets all units from now on; `None` if all slots are
    /// taken. The world must be stopped.
    pub(super) fn join(&mut self, log: &Log, target: Target) -> Option<ReaderId> {
        let is_vacant = |seat: &Option<Seat>| seat.is_none();
        // The slot of a reader that was dropped but not ended can be reused.
        let is_left = |seat: &Option<Seat>| matches!(seat, Some(s) if s.state == State::Left);
        let slot = self.seats.iter().position(is_vacant);
        let slot = slot.or_else(|| self.seats.iter().position(is_left))?;
        // Earlier units belong to the readers that exist already.
        self.empty_lanes(log, None);
        self.readers += 1;
        let number = self.readers;
        self.seats[slot] =
            Some(Seat { number, target, state: State::Reads, mail: Vec::new(), has_mail: false });
        Some(ReaderId { slot, number })
    }

    /// Ends a reader: it gets no later units. Returns whether it was still to be ended. The world
    /// must be stopped.
    pub(super) fn end(&mut self, log: &Log, id: ReaderId) -> bool {
        self.empty_lanes(log, None);
        let Some(place) = self.place(id) else { return false };
        let Some(seat) = place else { return false };
        match seat.state {
            State::Reads => seat.state = State::Finishes,
            State::Left => *place = None,
            State::Finishes => return false,
        }
        self.note_if_left(log);
        true
    }

    /// Handles a dropped reader. The caller frees the returned inbox after it has released the
    /// fan-out.
    pub(super) fn leave(&mut self, log: &Log, id: ReaderId) -> Option<Mail> {
        let place = self.place(id)?;
        let seat = place.as_mut()?;
        let mail = std::mem::take(&mut seat.mail);
        match seat.state {
            State::Reads => {
                seat.state = State::Left;
                self.note_if_left(log);
            }
            State::Finishes | State::Left => *place = None,
        }
        Some(mail)
    }

    /// If no reader is left, records the position from which units stay in the thread logs.
    fn note_if_left(&mut self, log: &Log) {
        if !self.is_read() {
            self.left_at = log.published();
            self.empty_lanes(log, None);
        }
    }

    /// The slot of that reader, if the reader still has it.
    fn place(&mut self, id: ReaderId) -> Option<&mut Option<Seat>> {
        self.has(id).then(|| &mut self.seats[id.slot])
    }

    /// Whether that reader still has its slot: it exists or has not been ended.
    pub(super) fn has(&self, id: ReaderId) -> bool {
        self.seats[id.slot].as_ref().is_some_and(|seat| seat.number == id.number)
    }

    /// Whether any reader gets new blocks.
    fn is_read(&self) -> bool {
        self.seats.iter().flatten().any(Seat::reads)
    }

    /// The bits of all targets with a reader that was not ended.
    pub(super) fn wanted(&self) -> u64 {
        let seats = self.seats.iter().flatten();
        let wanting = seats.filter(|seat| seat.state != State::Finishes);
        wanting.fold(0, |bits, seat| bits | seat.target.bits())
    }

    /// Moves the blocks for the reader in that slot to `sources`. Returns whether there were any.
    pub(super) fn collect(&mut self, log: &Log, slot: usize, sources: &mut Vec<Source>) -> bool {
        let Some(seat) = &self.seats[slot] else { return false };
        // A reader that was ended already has all its blocks.
        if seat.reads() {
            self.empty_lanes(log, Some(slot));
        }
        let known = sources.len();
        sources.extend(self.lanes[known..].iter().map(|lane| Source {
            lane: lane.clone(),
            parcels: VecDeque::new(),
            at: 0,
        }));
        let Some(seat) = &mut self.seats[slot] else { return false };
        if !std::mem::take(&mut seat.has_mail) {
            return false;
        }
        for (source, mail) in sources.iter_mut().zip(&mut seat.mail) {
            source.parcels.extend(mail.drain(..));
            mail.shrink_to(KEPT_PARCELS);
        }
        true
    }

    /// Takes the blocks out of the thread logs and passes them to all active readers. `collector`
    /// gets the block itself if other readers get copies.
    fn empty_lanes(&mut self, log: &Log, collector: Option<usize>) {
        let version = log.lanes_version.load(Ordering::Acquire);
        if version != self.lanes_version {
            self.lanes_version = version;
            self.meet_new_lanes(log);
        }
        for (nth, lane) in self.lanes.iter().enumerate() {
            if let Some(block) = lane.collect() {
                hand_out(&mut self.seats, lane, nth, block, collector);
            }
        }
    }

    #[cold]
    fn meet_new_lanes(&mut self, log: &Log) {
        let all = lock(&log.lanes.0);
        self.lanes.extend_from_slice(&all[self.lanes.len()..]);
    }

    /// Bytes of all units in memory: those that any existing reader has not passed. A reader's
    /// pending units are a range of the same order, so the ranges can be merged.
    pub(super) fn pending_bytes(&self, progress: &[Line<Progress>], published: u64) -> u64 {
        let mut pending: Vec<(u64, u64)> = Vec::with_capacity(MAX_READERS + 1);
        for (seat, progress) in self.seats.iter().zip(progress) {
            if seat.as_ref().is_some_and(|seat| seat.state != State::Left) {
                pending.push(progress.0.pending(published));
            }
        }
        if self.wanted() != 0 && !self.is_read() {
            pending.push((self.left_at, published));
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

/// Passes a block of `lane`, the thread log at index `nth`, to all active readers.
fn hand_out(
    seats: &mut [Option<Seat>; MAX_READERS],
    lane: &Lane,
    nth: usize,
    block: Box<Block>,
    collector: Option<usize>,
) {
    let reads = |place: &Option<Seat>| place.as_ref().is_some_and(Seat::reads);
    let Some(first) = seats.iter().position(reads) else {
        lane.give_back(block);
        return;
    };
    let keeper = collector.unwrap_or(first);
    let is_alone = seats.iter().filter(|place| reads(place)).count() == 1;
    if is_alone || block.is_small() {
        let places = seats.iter_mut().enumerate().filter(|(slot, _)| *slot != keeper);
        let others = places.filter_map(|(_, place)| place.as_mut()).filter(|seat| seat.reads());
        others.for_each(|seat| seat.put_copy(nth, &block));
        if let Some(seat) = &mut seats[keeper] {
            seat.put(nth, Parcel::Own(block));
        }
    } else {
        let block = Arc::new(*block);
        for seat in seats.iter_mut().flatten().filter(|seat| seat.reads()) {
            seat.put(nth, Parcel::Shared(block.clone()));
        }
    }
}

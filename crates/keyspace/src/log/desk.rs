//! Where what is in the lanes is handed to those who read: to each its own, all of them the same.
//!
//! ```text
//!  lanes      thread 0 ──┐            ┌─► mail of reader 0:  by lane, in the order of the lane
//!             thread 1 ──┼─► a reader ┤
//!             slow lane ─┘  that comes└─► mail of reader 1:  stays here until it comes
//! ```
//!
//! The desk is a mutex that only readers take, and who lets one join or end: never a thread that
//! publishes. Who has it empties the lanes for everybody, so a reader that comes later finds in its
//! mail what it has missed, and one that does not come delays nobody.
//!
//! Where one reads, the lane's block itself is handed over, and goes back into the lane when it was
//! read. Where several do, a small block is copied: into the last block of a reader's mail, if that has
//! room, so that mail which waits for long is not thousands of blocks with a unit in each. A large
//! block is shared by all of them.

use super::lane::Lane;
use super::unit::{Block, Target};
use super::{Line, Log, Progress};
use crate::sync::{Ordering, lock};
use std::collections::VecDeque;
use std::ops::Deref;
use std::sync::Arc;

/// There are never more readers than this.
pub const MAX_READERS: usize = 4;

/// A list of blocks that was emptied keeps room for so many.
pub(super) const KEPT_PARCELS: usize = 64;

/// A reader, for those who do not have it in hand: it is somebody else's, or on another thread. No two
/// readers of a log have the same, whenever they are there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReaderId {
    pub(super) slot: usize,
    /// From 1.
    pub(super) number: u64,
}

/// A block on its way to one reader.
#[derive(Debug)]
pub(super) enum Parcel {
    Own(Box<Block>),
    /// Others have it as well.
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
    /// The block, to be used again, if nobody else has it any more.
    pub(super) fn into_block(self) -> Option<Box<Block>> {
        match self {
            Parcel::Own(block) => Some(block),
            Parcel::Shared(block) => Arc::into_inner(block).map(Box::new),
        }
    }
}

/// A lane, as one reader sees it: what has come out of it and was not passed.
#[derive(Debug)]
pub(super) struct Source {
    pub(super) lane: Arc<Lane>,
    pub(super) parcels: VecDeque<Parcel>,
    /// The index of the next unit in the first block.
    pub(super) at: usize,
}

/// What waits for one reader, by lane.
pub(super) type Mail = Vec<Vec<Parcel>>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// It gets all that comes.
    Reads,
    /// It was ended, and still has to read what came before that.
    Finishes,
    /// It was dropped, and is to be ended still.
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

    /// Puts a copy.
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

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Desk {
    /// All lanes that were known when it was last looked for them.
    lanes: Vec<Arc<Lane>>,
    lanes_version: u64,
    seats: [Option<Seat>; MAX_READERS],
    /// Readers that there have been.
    readers: u64,
    /// How many bytes had been published when nobody read any more. While one that was dropped is to
    /// be ended still, what has come since is in the lanes.
    left_at: u64,
}

impl Desk {
    /// Gives a seat to one that reads from now on; `None` where all are taken. The world is stopped.
    pub(super) fn join(&mut self, log: &Log, target: Target) -> Option<ReaderId> {
        let is_vacant = |seat: &Option<Seat>| seat.is_none();
        // One that was dropped and not ended is not there any more.
        let is_left = |seat: &Option<Seat>| matches!(seat, Some(s) if s.state == State::Left);
        let slot = self.seats.iter().position(is_vacant);
        let slot = slot.or_else(|| self.seats.iter().position(is_left))?;
        // What has come before is for those who read already.
        self.empty_lanes(log, None);
        self.readers += 1;
        let number = self.readers;
        self.seats[slot] =
            Some(Seat { number, target, state: State::Reads, mail: Vec::new(), has_mail: false });
        Some(ReaderId { slot, number })
    }

    /// Has a reader get nothing that comes after this; whether it would have, had it stayed. The world
    /// is stopped.
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

    /// The reader was dropped. What it leaves behind is to be freed by who has let go of the desk.
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

    /// Notes, where nobody reads any more, since when that is so.
    fn note_if_left(&mut self, log: &Log) {
        if !self.is_read() {
            self.left_at = log.published();
            self.empty_lanes(log, None);
        }
    }

    /// The place of that reader, if it is its own still.
    fn place(&mut self, id: ReaderId) -> Option<&mut Option<Seat>> {
        self.has(id).then(|| &mut self.seats[id.slot])
    }

    /// Whether that reader is there, or is to be ended still.
    pub(super) fn has(&self, id: ReaderId) -> bool {
        self.seats[id.slot].as_ref().is_some_and(|seat| seat.number == id.number)
    }

    /// Whether anybody gets what comes.
    fn is_read(&self) -> bool {
        self.seats.iter().flatten().any(Seat::reads)
    }

    /// The bits of all targets for which somebody was to read, and was not ended.
    pub(super) fn wanted(&self) -> u64 {
        let seats = self.seats.iter().flatten();
        let wanting = seats.filter(|seat| seat.state != State::Finishes);
        wanting.fold(0, |bits, seat| bits | seat.target.bits())
    }

    /// Gives the reader in that slot what has come for it; whether there is anything.
    pub(super) fn collect(&mut self, log: &Log, slot: usize, sources: &mut Vec<Source>) -> bool {
        let Some(seat) = &self.seats[slot] else { return false };
        // One that was ended has all that it gets.
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

    /// Takes what is in the lanes and gives it to all who read. The blocks go to `collector`, if
    /// others get copies.
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

    /// What is in memory of all units: those that anybody has not passed who is there. Each reader
    /// has still to pass what lies between two points of one order, so these overlap or lie apart.
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

/// Gives a block of `lane`, which is the lane at index `nth`, to all who read.
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

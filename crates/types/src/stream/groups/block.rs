//! A run of neighbouring ids with a value each. [`Sorted`](super::sorted::Sorted) consists of such
//! blocks.
//!
//! ```text
//!  ids:    [ gone gone | 7-0 7-1 9-0 ... ]     up to 128, in order
//!  values: [ gone gone |  v   v   v  ... ]
//! ```
//!
//! Entries are usually acknowledged from the front. Removing one there only increments `gone` and
//! moves nothing. The room is reclaimed when the block is full or few entries are left.

use super::Timed;
use crate::counted::CopyOnWrite;
use crate::stream::StreamId;

/// Entries of a full block: a power of two, so that vectors that grew to it have no spare capacity.
pub(super) const FULL: usize = 128;

/// A block that shrinks to this many entries looks for a neighbour to join.
pub(super) const FEW: usize = FULL / 4;

/// See the module documentation.
#[derive(Clone, Debug)]
pub(super) struct Block<V> {
    ids: Vec<StreamId>,
    values: Vec<V>,
    gone: usize,
    /// A lower bound of the times of the values (Unix milliseconds).
    pub(super) oldest_ms: i64,
}

impl<V: Timed> CopyOnWrite for Block<V> {
    fn owned_memory(&self) -> usize {
        self.memory()
    }
}

impl<V: Timed> Block<V> {
    pub(super) fn new() -> Self {
        Block { ids: Vec::new(), values: Vec::new(), gone: 0, oldest_ms: i64::MAX }
    }

    pub(super) fn with(id: StreamId, value: V) -> Self {
        let mut block = Block::new();
        block.push(id, value);
        block
    }

    pub(super) fn len(&self) -> usize {
        self.ids.len() - self.gone
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether there is no room for another entry without [`Block::make_room`].
    pub(super) fn is_full(&self) -> bool {
        self.ids.len() >= FULL
    }

    pub(super) fn ids(&self) -> &[StreamId] {
        &self.ids[self.gone..]
    }

    pub(super) fn values(&self) -> &[V] {
        &self.values[self.gone..]
    }

    pub(super) fn value_mut(&mut self, at: usize) -> &mut V {
        &mut self.values[self.gone + at]
    }

    pub(super) fn last(&self) -> Option<StreamId> {
        self.ids().last().copied()
    }

    /// The index of `id`, or where it would be inserted. O(log of the block).
    pub(super) fn find(&self, id: StreamId) -> Result<usize, usize> {
        // Fast path for removing from the front and for the newest entries.
        match self.ids().first() {
            Some(first) if *first == id => Ok(0),
            Some(_) | None => self.ids().binary_search(&id),
        }
    }

    /// Lowers `oldest_ms` for a value of that time.
    pub(super) fn note(&mut self, time_ms: i64) {
        self.oldest_ms = self.oldest_ms.min(time_ms);
    }

    /// Appends an entry. There must be room.
    pub(super) fn push(&mut self, id: StreamId, value: V) {
        debug_assert!(self.last().is_none_or(|last| last < id));
        self.note(value.time_ms());
        self.ids.push(id);
        self.values.push(value);
    }

    /// Inserts an entry before the one at `at`. There must be room: the block must not be full.
    pub(super) fn insert(&mut self, at: usize, id: StreamId, value: V) {
        self.note(value.time_ms());
        if at == 0 && self.gone > 0 {
            self.gone -= 1;
            self.ids[self.gone] = id;
            self.values[self.gone] = value;
            return;
        }
        self.ids.insert(self.gone + at, id);
        self.values.insert(self.gone + at, value);
    }

    /// Removes the entry at `at`. O(1) at both ends.
    pub(super) fn remove(&mut self, at: usize) -> V {
        let at = self.gone + at;
        let value = self.values[at];
        if at == self.gone {
            self.gone += 1;
        } else {
            self.ids.remove(at);
            self.values.remove(at);
        }
        value
    }

    /// Reclaims the room of removed entries.
    pub(super) fn compact(&mut self) {
        if self.gone > 0 {
            self.ids.drain(..self.gone);
            self.values.drain(..self.gone);
            self.gone = 0;
        }
    }

    /// Makes room in a full block: reclaims the room of removed entries if there are any. Otherwise
    /// splits the block and returns the upper half, which belongs after this block.
    pub(super) fn make_room(&mut self) -> Option<Block<V>> {
        if self.gone > 0 {
            self.compact();
            return None;
        }
        let middle = self.ids.len() / 2;
        let mut right = Block::new();
        right.ids = self.ids.split_off(middle);
        right.values = self.values.split_off(middle);
        self.recompute_oldest();
        right.recompute_oldest();
        Some(right)
    }

    /// Appends all entries of the next block. Together they must fit into one block.
    pub(super) fn join(&mut self, after: Block<V>) {
        debug_assert!(self.len() + after.len() <= FULL);
        self.compact();
        self.ids.extend_from_slice(after.ids());
        self.values.extend_from_slice(after.values());
        self.recompute_oldest();
    }

    fn recompute_oldest(&mut self) {
        let times = self.values().iter().map(Timed::time_ms);
        self.oldest_ms = times.min().unwrap_or(i64::MAX);
    }

    /// Bytes of memory, without the block itself.
    pub(super) fn memory(&self) -> usize {
        self.ids.capacity() * size_of::<StreamId>() + self.values.capacity() * size_of::<V>()
    }
}

//! One consumer group: its read position, its consumers, and the pending entries.
//!
//! ```text
//!  pending:    1-1  1-2  1-3  2-0  2-1 ...    id ─► owner, time and number of deliveries
//!  consumers:  ann  1-1       1-3             the ids again, for each consumer
//!              bob       1-2       2-0  2-1
//! ```
//!
//! Each pending id is in the list of exactly one consumer; other ids are in none. Every change goes
//! through [`Group::give`] and [`Group::acknowledge`], which preserve this.

use super::consumers::{Consumer, Consumers, Owner};
use super::lag::Counts;
use super::sorted::{Sorted, Walk};
use super::{Groups, Timed};
use crate::Record;
use crate::counted::CopyOnWrite;
use crate::stream::{Stream, StreamId};

/// State of an entry that was delivered and not acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pending {
    /// The consumer it was delivered to.
    pub owner: Owner,
    /// Time of the last delivery (Unix milliseconds).
    pub delivered_ms: i64,
    /// The number of deliveries. Clients can set any number.
    pub deliveries: i64,
}

/// [`Pending`] in 20 bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Packed {
    owner: Owner,
    delivered_ms: [u32; 2],
    deliveries: [u32; 2],
}

fn split_i64(n: i64) -> [u32; 2] {
    [n as u32, (n >> 32) as u32]
}

fn join_i64([low, high]: [u32; 2]) -> i64 {
    i64::from(low) | i64::from(high as i32) << 32
}

impl Packed {
    fn new(pending: Pending) -> Self {
        Packed {
            owner: pending.owner,
            delivered_ms: split_i64(pending.delivered_ms),
            deliveries: split_i64(pending.deliveries),
        }
    }

    fn get(self) -> Pending {
        Pending {
            owner: self.owner,
            delivered_ms: join_i64(self.delivered_ms),
            deliveries: join_i64(self.deliveries),
        }
    }
}

impl Timed for Packed {
    fn time_ms(&self) -> i64 {
        join_i64(self.delivered_ms)
    }
}

/// See the module documentation.
#[derive(Clone, Debug)]
pub struct Group {
    /// The greatest id that was delivered to any consumer.
    pub last_id: StreamId,
    /// The number of entries read, counted from the first one that the stream ever had. `None` if
    /// unknown.
    pub entries_read: Option<i64>,
    pending: Sorted<Packed>,
    consumers: Consumers,
}

impl CopyOnWrite for Group {
    fn owned_memory(&self) -> usize {
        self.consumers.list()
    }
}

impl Group {
    pub fn new(last_id: StreamId, entries_read: Option<i64>) -> Self {
        Group { last_id, entries_read, pending: Sorted::default(), consumers: Consumers::default() }
    }

    /// The number of pending entries. O(1).
    pub fn pending_len(&self) -> usize {
        self.pending.len()
    }

    /// The least and the greatest id of the pending entries. O(log n).
    pub fn pending_ends(&self) -> Option<(StreamId, StreamId)> {
        self.pending.first().zip(self.pending.last())
    }

    /// The state of `id` if it is pending. O(log n).
    pub fn pending(&self, id: StreamId) -> Option<Pending> {
        self.pending.get(id).map(Packed::get)
    }

    /// The pending entries from `from` on, in order.
    pub fn pending_from(&self, from: StreamId) -> impl Iterator<Item = (StreamId, Pending)> {
        self.pending.iter_from(from).map(|(id, packed)| (id, packed.get()))
    }

    /// The pending entries from `from` on that were last delivered at `until_ms` or before. The
    /// iterator counts its work and ends when it exceeds `enough`.
    pub fn old_pending_from(&self, from: StreamId, until_ms: i64, enough: usize) -> Old<'_> {
        Old(self.pending.iter_old_from(from, until_ms, enough))
    }

    /// The pending entries of a consumer from `from` on, in order. O(log n) each.
    pub fn pending_of(
        &self,
        owner: Owner,
        from: StreamId,
    ) -> impl Iterator<Item = (StreamId, Pending)> {
        let ids = self.ids_of(owner, from);
        ids.map(|id| (id, self.pending(id).expect("ids of a consumer are pending")))
    }

    /// The ids of the pending entries of a consumer from `from` on.
    pub fn ids_of(&self, owner: Owner, from: StreamId) -> impl Iterator<Item = StreamId> {
        self.consumers.get(owner).pending.iter_from(from).map(|(id, ())| id)
    }

    pub fn consumers_len(&self) -> usize {
        self.consumers.len()
    }

    /// The number of the consumer with that name.
    pub fn find_consumer(&self, name: &[u8]) -> Option<Owner> {
        self.consumers.find(name)
    }

    /// The consumer with a number that [`Group::find_consumer`] or another method returned.
    ///
    /// # Panics
    /// If it was deleted meanwhile.
    pub fn consumer(&self, owner: Owner) -> &Consumer {
        self.consumers.get(owner)
    }

    /// Like [`Group::consumer`], to change its times.
    pub fn consumer_mut(&mut self, owner: Owner) -> &mut Consumer {
        self.consumers.get_mut(owner)
    }

    /// All consumers in the order of their names.
    pub fn consumers(&self) -> impl Iterator<Item = (Owner, &Consumer)> {
        self.consumers.iter()
    }

    /// Creates a consumer unless one with that name exists. Returns its number and whether it is
    /// new.
    pub fn create_consumer(&mut self, name: &[u8], now_ms: i64) -> (Owner, bool) {
        match self.consumers.find(name) {
            Some(owner) => (owner, false),
            None => (self.consumers.create(name, now_ms), true),
        }
    }

    /// Deletes a consumer with its pending entries. Returns how many those were. O(entries log n).
    pub fn delete_consumer(&mut self, name: &[u8]) -> usize {
        let Some(consumer) = self.consumers.remove(name) else { return 0 };
        for (id, ()) in consumer.pending.iter_from(StreamId::MIN) {
            self.pending.remove(id);
        }
        consumer.pending.len()
    }

    /// Makes `id` pending, or changes its state and owner. O(log n).
    pub fn give(&mut self, id: StreamId, pending: Pending) {
        let before = self.pending.insert(id, Packed::new(pending)).map(|packed| packed.owner);
        if before == Some(pending.owner) {
            return;
        }
        if let Some(before) = before {
            self.consumers.get_mut(before).pending.remove(id);
        }
        self.consumers.get_mut(pending.owner).pending.insert(id, ());
    }

    /// Records another delivery of `id`, which must be pending, to its owner.
    pub fn delivered_again(&mut self, id: StreamId, now_ms: i64) {
        self.pending.change(id, |packed| {
            packed.delivered_ms = split_i64(now_ms);
            packed.deliveries = split_i64(join_i64(packed.deliveries).wrapping_add(1));
        });
    }

    /// Removes `id` from the pending entries. Returns whether it was pending. O(log n).
    pub fn acknowledge(&mut self, id: StreamId) -> bool {
        let Some(packed) = self.pending.remove(id) else { return false };
        self.consumers.get_mut(packed.owner).pending.remove(id);
        true
    }

    /// Advances the read position to the entry `id` and counts it, unless the group has read it
    /// already. `stream` holds the counts of the stream.
    pub fn advance(&mut self, id: StreamId, stream: &Counts) {
        if id <= self.last_id {
            return;
        }
        // One more than before, if no entry since then was deleted.
        let is_next = self.last_id >= stream.first_id && !stream.has_tombstone_from(self.last_id);
        match self.entries_read {
            Some(read) if is_next => {
                self.entries_read = Some(read.wrapping_add(1));
            }
            Some(_) | None if stream.entries_added != 0 => {
                self.entries_read = stream.distance_from_first(id);
            }
            Some(_) | None => {}
        }
        self.last_id = id;
    }

    /// The number of entries of the stream that the group has not read yet, if known.
    pub fn lag(&self, stream: &Counts) -> Option<i64> {
        stream.lag(self.last_id, self.entries_read)
    }

    /// A record without a key that holds only this group: for freeing it on another thread, since
    /// that may take long.
    #[must_use]
    pub fn into_waste(self) -> Record {
        let mut groups = Groups::default();
        groups.create(b"", self);
        let stream = Stream { groups: Some(Box::new(groups)), ..Stream::default() };
        stream.into_record(b"", None, 0)
    }

    /// The approximate number of allocations.
    pub fn pieces(&self) -> usize {
        2 * self.pending.pieces() + self.consumers.pieces()
    }

    /// Bytes of memory, without the group itself, estimated from the first blocks and consumers if
    /// there are many.
    pub fn memory(&self) -> usize {
        self.pending.memory() + self.consumers.memory()
    }

    /// Panics unless consumers and pending entries agree.
    #[cfg(test)]
    pub(super) fn check(&self) {
        self.pending.check();
        let mut owned = 0;
        for (owner, consumer) in self.consumers() {
            consumer.pending.check();
            owned += consumer.pending_len();
            assert!(self.pending_of(owner, StreamId::MIN).all(|(_, p)| p.owner == owner));
        }
        assert_eq!(owned, self.pending_len());
    }
}

/// An iterator over old pending entries: see [`Group::old_pending_from`].
#[derive(Clone, Debug)]
pub struct Old<'a>(Walk<'a, Packed>);

impl Old<'_> {
    /// The number of entries and whole blocks examined so far.
    pub fn work(&self) -> usize {
        self.0.looked_at
    }
}

impl Iterator for Old<'_> {
    type Item = (StreamId, Pending);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        self.0.next().map(|(id, packed)| (id, packed.get()))
    }
}

//! One consumer group: how far it has read, who reads, and what was delivered and not acknowledged.
//!
//! ```text
//!  pending:    1-1  1-2  1-3  2-0  2-1 ...    id ─► owner, time and number of deliveries
//!  consumers:  ann  1-1       1-3             the ids again, of each one's own
//!              bob       1-2       2-0  2-1
//! ```
//!
//! An id is in the list of exactly one consumer if it is pending, and in none if it is not. Every
//! change goes through [`Group::give`] and [`Group::acknowledge`], which keep it so.

use super::consumers::{Consumer, Consumers, Owner};
use super::lag::Counts;
use super::sorted::{Sorted, Walk};
use super::{Dated, Groups};
use crate::Record;
use crate::counted::Piece;
use crate::stream::{Stream, StreamId};

/// What is known of an entry that was delivered and not acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pending {
    /// Whose it is.
    pub owner: Owner,
    /// When it was delivered last (Unix milliseconds).
    pub delivered_ms: i64,
    /// How often it was delivered. What clients ask for, so any number.
    pub deliveries: i64,
}

/// The same in 20 bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Packed {
    owner: Owner,
    delivered_ms: [u32; 2],
    deliveries: [u32; 2],
}

fn halves(n: i64) -> [u32; 2] {
    [n as u32, (n >> 32) as u32]
}

fn whole([low, high]: [u32; 2]) -> i64 {
    i64::from(low) | i64::from(high as i32) << 32
}

impl Packed {
    fn new(pending: Pending) -> Self {
        Packed {
            owner: pending.owner,
            delivered_ms: halves(pending.delivered_ms),
            deliveries: halves(pending.deliveries),
        }
    }

    fn get(self) -> Pending {
        Pending {
            owner: self.owner,
            delivered_ms: whole(self.delivered_ms),
            deliveries: whole(self.deliveries),
        }
    }
}

impl Dated for Packed {
    fn time_ms(&self) -> i64 {
        whole(self.delivered_ms)
    }
}

/// See the module's description.
#[derive(Clone, Debug)]
pub struct Group {
    /// The greatest id that was delivered to anybody.
    pub last_id: StreamId,
    /// How many entries were read, counted from the first that the stream ever had. `None` when
    /// that can't be told.
    pub entries_read: Option<i64>,
    pending: Sorted<Packed>,
    consumers: Consumers,
}

impl Piece for Group {
    fn outside(&self) -> usize {
        self.consumers.list()
    }
}

impl Group {
    pub fn new(last_id: StreamId, entries_read: Option<i64>) -> Self {
        Group { last_id, entries_read, pending: Sorted::default(), consumers: Consumers::default() }
    }

    /// How many entries are pending. O(1).
    pub fn pending_len(&self) -> usize {
        self.pending.len()
    }

    /// The least and the greatest id of those. O(log n).
    pub fn pending_ends(&self) -> Option<(StreamId, StreamId)> {
        self.pending.first().zip(self.pending.last())
    }

    /// What is known of `id` if it is pending. O(log n).
    pub fn pending(&self, id: StreamId) -> Option<Pending> {
        self.pending.get(id).map(Packed::get)
    }

    /// The pending entries from `from` on, in order.
    pub fn pending_from(&self, from: StreamId) -> impl Iterator<Item = (StreamId, Pending)> {
        self.pending.onward(from).map(|(id, packed)| (id, packed.get()))
    }

    /// The same, with how much work it is, of those that were last delivered at `until_ms` or
    /// before. It ends when that work has become more than `enough`.
    pub fn old_from(&self, from: StreamId, until_ms: i64, enough: usize) -> Old<'_> {
        Old(self.pending.onward_old(from, until_ms, enough))
    }

    /// The pending entries of a consumer from `from` on, in order. O(log n) each.
    pub fn pending_of(
        &self,
        owner: Owner,
        from: StreamId,
    ) -> impl Iterator<Item = (StreamId, Pending)> {
        let ids = self.ids_of(owner, from);
        ids.map(|id| (id, self.pending(id).expect("what a consumer has is pending")))
    }

    /// The ids alone.
    pub fn ids_of(&self, owner: Owner, from: StreamId) -> impl Iterator<Item = StreamId> {
        self.consumers.get(owner).pending.onward(from).map(|(id, ())| id)
    }

    pub fn consumers_len(&self) -> usize {
        self.consumers.len()
    }

    /// The number of the consumer of that name.
    pub fn find_consumer(&self, name: &[u8]) -> Option<Owner> {
        self.consumers.find(name)
    }

    /// The consumer of a number that [`Group::find_consumer`] and others gave.
    ///
    /// # Panics
    /// If it was deleted meanwhile.
    pub fn consumer(&self, owner: Owner) -> &Consumer {
        self.consumers.get(owner)
    }

    /// As [`Group::consumer`], to change its times.
    pub fn consumer_mut(&mut self, owner: Owner) -> &mut Consumer {
        self.consumers.get_mut(owner)
    }

    /// All consumers in the order of their names.
    pub fn consumers(&self) -> impl Iterator<Item = (Owner, &Consumer)> {
        self.consumers.iter()
    }

    /// Makes a consumer unless there is one of that name; its number, and whether it is new.
    pub fn create_consumer(&mut self, name: &[u8], now_ms: i64) -> (Owner, bool) {
        match self.consumers.find(name) {
            Some(owner) => (owner, false),
            None => (self.consumers.create(name, now_ms), true),
        }
    }

    /// Deletes a consumer with its pending entries; how many those were. O(entries log n).
    pub fn delete_consumer(&mut self, name: &[u8]) -> usize {
        let Some(consumer) = self.consumers.remove(name) else { return 0 };
        for (id, ()) in consumer.pending.onward(StreamId::MIN) {
            self.pending.remove(id);
        }
        consumer.pending.len()
    }

    /// Makes `id` pending, or changes what is known of it and whose it is. O(log n).
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

    /// Notes that `id`, which is pending, was delivered to its owner once more.
    pub fn delivered_again(&mut self, id: StreamId, now_ms: i64) {
        self.pending.change(id, |packed| {
            packed.delivered_ms = halves(now_ms);
            packed.deliveries = halves(whole(packed.deliveries).wrapping_add(1));
        });
    }

    /// `id` is no longer pending; whether it was. O(log n).
    pub fn acknowledge(&mut self, id: StreamId) -> bool {
        let Some(packed) = self.pending.remove(id) else { return false };
        self.consumers.get_mut(packed.owner).pending.remove(id);
        true
    }

    /// Counts the entry `id`, which is being read, and goes on to it, unless the group was there
    /// already. `stream` is what is known of the stream.
    pub fn advance(&mut self, id: StreamId, stream: &Counts) {
        if id <= self.last_id {
            return;
        }
        // One more than before, if every entry since then is still there.
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

    /// How many entries of the stream the group has not read yet, if that can be told.
    pub fn lag(&self, stream: &Counts) -> Option<i64> {
        stream.lag(self.last_id, self.entries_read)
    }

    /// A record without a key that holds nothing but this group: for who frees it elsewhere, since
    /// that may take long.
    #[must_use]
    pub fn into_waste(self) -> Record {
        let mut groups = Groups::default();
        groups.create(b"", self);
        let stream = Stream { groups: Some(Box::new(groups)), ..Stream::default() };
        stream.into_record(b"", None, 0)
    }

    /// Of about how many allocations it is made.
    pub fn pieces(&self) -> usize {
        2 * self.pending.pieces() + self.consumers.pieces()
    }

    /// Bytes of memory beside the group itself; of many blocks or consumers from the first ones.
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

/// A walk over the old ones of the pending entries: see [`Group::old_from`].
#[derive(Clone, Debug)]
pub struct Old<'a>(Walk<'a, Packed>);

impl Old<'_> {
    /// How much was looked at so far, entries and whole blocks.
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

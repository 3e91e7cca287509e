//! Operations of the lock holder: look up, insert, change, remove.
//!
//! All of these are O(1): usually one bucket and one record, at worst one rebuilt segment. Walks
//! over the table are in `scan.rs` and `random.rs`, changes of its shape in `resize.rs`.
//!
//! A key is always passed with its hash, which the caller has from planning. It must be the hash of
//! the table's hasher. With a wrong one, the entry can't be found, but nothing else breaks.

use std::mem::ManuallyDrop;
use std::sync::atomic::Ordering;

use crate::borrow::{RecordMut, RecordRef};
use crate::detached::Detached;
use crate::directory::Root;
use crate::record::{Owner, Record};
use crate::segment::{Place, Segment, SegmentWord, limit};
use crate::slot::{Word, h16};
use crate::table::{KeyHasher, Table};

/// Exclusive access to a [`Table`]. Other threads may read its counters and buckets meanwhile. See
/// [`Table::exclusive`].
pub struct TableMut<'t, O: Owner, H: KeyHasher> {
    pub(crate) table: &'t Table<O, H>,
}

impl<'t, O: Owner, H: KeyHasher> TableMut<'t, O, H> {
    #[inline(always)]
    pub(crate) fn root(&self) -> Root {
        // Relaxed: only this thread and earlier holders of the lock write it.
        self.table.root(Ordering::Relaxed)
    }

    /// The segment of a hash with its word; `None` in an empty table.
    ///
    /// The view must not be used after a change of the table's shape (`make_room`, `shrink`,
    /// `take`). Callers within this crate must ensure that; their results are tied to a borrow of
    /// `self`.
    #[inline(always)]
    pub(crate) fn segment(&self, hash: u64) -> Option<(SegmentWord, Segment<'t>)> {
        // SAFETY: only `resize` and `detach` replace a directory, and they need the exclusive
        // access that `self` has.
        let word = unsafe { self.root().locate(hash, Ordering::Relaxed) };
        if word.is_null() {
            return None;
        }
        // SAFETY: the root leads to live memory. `self` is the only access to the table. Slots hold
        // live records. See above for the lifetime.
        Some((word, unsafe { word.view() }))
    }

    /// The number of records.
    #[inline]
    #[must_use]
    pub fn len(&self) -> usize {
        self.table.len()
    }

    /// Whether there are no records.
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.table.is_empty()
    }

    /// The number of records with an expiry.
    #[inline]
    #[must_use]
    pub fn expiring(&self) -> usize {
        self.table.expiring()
    }

    /// The number of marked records ([`MARK`](crate::MARK)).
    #[inline]
    #[must_use]
    pub fn marked(&self) -> usize {
        self.table.marked()
    }

    /// The number of records of a group. The table's hasher must have groups. O(1).
    ///
    /// # Panics
    ///
    /// If it has none.
    #[must_use]
    pub fn group_len(&self, group: usize) -> usize {
        self.table.group_len(group)
    }

    /// See [`Table::memory_usage`].
    #[must_use]
    pub fn memory_usage(&self) -> usize {
        self.table.memory_usage()
    }

    /// The table's hasher.
    #[must_use]
    pub fn hasher(&self) -> H {
        self.table.hasher
    }

    /// Looks a key up.
    #[inline]
    #[must_use]
    pub fn find(&self, hash: u64, key: &[u8]) -> Option<RecordRef<'_, O>> {
        let (_, segment) = self.segment(hash)?;
        segment.find::<O>(h16(hash), key).map(|(_, record)| record)
    }

    /// Looks a key up. The borrow lasts for `'t`, the lifetime of this access. It is a third of the path of GET, so its many callers
    /// must not make the compiler share it.
    #[inline(always)]
    #[must_use]
    pub fn into_found(self, hash: u64, key: &[u8]) -> Option<RecordRef<'t, O>> {
        let (_, segment) = self.segment(hash)?;
        segment.find::<O>(h16(hash), key).map(|(_, record)| record)
    }

    /// Looks a key up, to change or remove it. Inlined as [`TableMut::into_found`] is.
    #[inline(always)]
    #[must_use]
    pub fn find_mut(&mut self, hash: u64, key: &[u8]) -> Option<SlotMut<'_, O, H>> {
        let (_, segment) = self.segment(hash)?;
        let (place, _) = segment.find::<O>(h16(hash), key)?;
        Some(SlotMut { table: TableMut { table: self.table }, segment, place, hash })
    }

    /// Inserts a record. Its key must not be in the table: otherwise the table would have two, and
    /// `find` would return either.
    #[inline]
    pub fn insert(&mut self, hash: u64, record: Record<O>) {
        debug_assert!(self.find(hash, record.key()).is_none(), "key inserted twice");
        let tags = record.tags();
        let word = Word::new(h16(hash), record.address(), tags);
        let segment = match self.segment(hash) {
            Some((_, segment)) if segment.len() < limit(segment.buckets.len()) => segment,
            _ => self.make_room(hash),
        };
        segment.place(word);
        // The slot owns the record now.
        let _ = record.into_raw();
        self.table.len.add(1);
        self.table.expiring.add(usize::from(tags.expiring));
        self.table.marked.add(usize::from(tags.marked));
        if let Some(groups) = &self.table.groups {
            groups.add(hash);
        }
    }

    /// Inserts a record, or replaces and returns the one with its key.
    #[inline]
    pub fn replace_or_insert(&mut self, hash: u64, record: Record<O>) -> Option<Record<O>> {
        if let Some(slot) = self.find_mut(hash, record.key()) {
            return Some(slot.replace(record));
        }
        self.insert(hash, record);
        None
    }

    /// Removes a key and returns its record.
    #[inline]
    pub fn remove(&mut self, hash: u64, key: &[u8]) -> Option<Record<O>> {
        self.find_mut(hash, key).map(SlotMut::remove)
    }

    /// Empties a slot and updates the counters, except those of groups. Does not change the shape:
    /// the caller must call [`TableMut::shrink`] when done with the segment.
    #[inline]
    pub(crate) fn vacate(&mut self, segment: Segment<'_>, place: Place) -> Option<Record<O>> {
        let word = segment.vacate(place);
        let record = word.record()?;
        self.table.len.sub(1);
        self.table.expiring.sub(usize::from(word.expiring()));
        self.table.marked.sub(usize::from(word.marked()));
        // SAFETY: the word came from a slot, so it owned a record of owner `O`. The slot is empty
        // now and we own the record.
        Some(unsafe { Record::from_raw(record) })
    }

    /// Takes all records out of the table, in O(1). The result can be sent to another thread and
    /// dropped there.
    #[must_use = "dropping the result here takes as long as clearing the table"]
    pub fn take(&mut self) -> Detached<O> {
        self.table.detach()
    }

    /// Drops all records, in O(n).
    pub fn clear(&mut self) {
        drop(self.take());
    }

    /// Exchanges the contents of two tables, in O(1). Their hashers are not exchanged and must
    /// agree.
    pub fn swap(&mut self, other: &mut TableMut<'_, O, H>) {
        let (a, b) = (self.table, other.table);
        let (root_a, root_b) = (self.root(), other.root());
        a.set_root(root_b);
        b.set_root(root_a);
        for (a, b) in [
            (&a.len, &b.len),
            (&a.expiring, &b.expiring),
            (&a.marked, &b.marked),
            (&a.segments, &b.segments),
            (&a.lines, &b.lines),
            (&a.deepest, &b.deepest),
        ] {
            let value = a.get();
            a.set(b.get());
            b.set(value);
        }
        if let (Some(a), Some(b)) = (&a.groups, &b.groups) {
            a.swap(b);
        }
    }
}

/// A record in the table, with the right to change or remove it.
pub struct SlotMut<'t, O: Owner, H: KeyHasher> {
    table: TableMut<'t, O, H>,
    segment: Segment<'t>,
    place: Place,
    hash: u64,
}

impl<'t, O: Owner, H: KeyHasher> SlotMut<'t, O, H> {
    #[inline(always)]
    fn address(&self) -> std::ptr::NonNull<u8> {
        let record = self.segment.word(self.place).record();
        record.expect("the slot of a SlotMut is occupied")
    }

    /// The record.
    #[inline]
    #[must_use]
    pub fn record(&self) -> RecordRef<'_, O> {
        // SAFETY: the slot's record lives while it is there, and cannot be changed while `self` is
        // borrowed.
        unsafe { RecordRef::from_raw(self.address()) }
    }

    /// The record, for changes in place.
    #[inline]
    #[must_use]
    pub fn record_mut(&mut self) -> RecordMut<'_, O> {
        // SAFETY: the slot's record lives while it is there. `self` is borrowed exclusively and is
        // the only access to the table.
        unsafe { RecordMut::from_raw(self.address()) }
    }

    /// Like [`SlotMut::record_mut`], for as long as the table is borrowed.
    #[inline]
    #[must_use]
    pub fn into_record_mut(self) -> RecordMut<'t, O> {
        // SAFETY: as in `record_mut`, and the table stays borrowed for 't.
        unsafe { RecordMut::from_raw(self.address()) }
    }

    /// Takes the record out, passes it to `f`, and puts the result back, which must have the same
    /// key. If `f` panics, the entry is removed.
    #[inline]
    pub fn update(self, f: impl FnOnce(Record<O>) -> Record<O>) -> RecordMut<'t, O> {
        let address = self.address();
        let hole = Hole(self);
        // SAFETY: the slot owned the record. Its word is stale from here on. Planners do not
        // dereference it, and `f` has no access to the table. The slot gets a new word, or is
        // emptied when `f` panics.
        let record = f(unsafe { Record::from_raw(address) });
        hole.fill(record)
    }

    /// Like [`SlotMut::update`], but `f` may return `Err` to remove the record, which is then
    /// returned.
    #[inline]
    pub fn update_or_remove(
        self,
        f: impl FnOnce(Record<O>) -> Result<Record<O>, Record<O>>,
    ) -> Option<Record<O>> {
        let address = self.address();
        let hash = self.hash;
        let mut table = TableMut { table: self.table.table };
        let hole = Hole(self);
        // SAFETY: as in `update`.
        match f(unsafe { Record::from_raw(address) }) {
            Ok(record) => {
                hole.fill(record);
                None
            }
            Err(record) => {
                let (len, slots) = (hole.0.segment.len(), hole.0.segment.slots());
                drop(hole);
                if (len - 1) * 4 < slots {
                    table.shrink(hash);
                }
                Some(record)
            }
        }
    }

    /// Replaces this record by another one with the same key.
    #[inline]
    pub fn replace(self, record: Record<O>) -> Record<O> {
        let address = self.address();
        Hole(self).fill(record);
        // SAFETY: the slot owned the record and no longer does.
        unsafe { Record::from_raw(address) }
    }

    /// Removes the record.
    #[inline]
    pub fn remove(mut self) -> Record<O> {
        let record = self.table.vacate(self.segment, self.place);
        if let Some(groups) = &self.table.table.groups {
            groups.sub(self.hash);
        }
        let len = self.segment.len();
        if len * 4 < self.segment.slots() {
            self.table.shrink(self.hash);
        }
        record.expect("the slot of a SlotMut is occupied")
    }
}

/// A slot whose word is stale because its record was taken out. Dropping this empties the slot.
struct Hole<'t, O: Owner, H: KeyHasher>(SlotMut<'t, O, H>);

impl<'t, O: Owner, H: KeyHasher> Hole<'t, O, H> {
    #[inline]
    fn fill(self, record: Record<O>) -> RecordMut<'t, O> {
        let slot = &self.0;
        debug_assert_eq!(
            slot.table.table.hasher.hash(record.key()),
            slot.hash,
            "a record must be replaced by one with the same key"
        );
        let old = slot.segment.word(slot.place);
        let new = Word::new(old.h16(), record.address(), record.tags());
        // Most records stay at their address. Then only the record's own lines are written.
        if new != old {
            slot.segment.exchange(slot.place, new);
            let table = slot.table.table;
            table.expiring.sub(usize::from(old.expiring()));
            table.expiring.add(usize::from(new.expiring()));
            table.marked.sub(usize::from(old.marked()));
            table.marked.add(usize::from(new.marked()));
        }
        let _ = record.into_raw();
        let slot = ManuallyDrop::new(self);
        // SAFETY: the slot owns the record. The SlotMut, which is not used any more and has no
        // destructor, borrows the table for 't.
        unsafe { RecordMut::from_raw(slot.0.address()) }
    }
}

impl<O: Owner, H: KeyHasher> Drop for Hole<'_, O, H> {
    #[cold]
    fn drop(&mut self) {
        let record = self.0.table.vacate(self.0.segment, self.0.place);
        if let Some(groups) = &self.0.table.table.groups {
            groups.sub(self.0.hash);
        }
        // Don't drop the result: the record was taken out, and the word is stale.
        let _ = record.map(ManuallyDrop::new);
    }
}

//! Packed entries in a record's payload, preceded by their count.
//!
//! ```text
//!  payload = count (u16 LE), entries
//! ```
//!
//! The payload grows and shrinks with its entries, so key, metadata and all entries of a small
//! collection are one allocation. [`COUNT_MAX`] bounds their number, whatever the directives say.

use super::{Encoded, Entries, EntryBuffer, Form, OneWay, room};
use crate::{Kind, Record};
use std::marker::PhantomData;

/// Bytes of the count.
const COUNT: usize = 2;

/// The most packed entries of a record.
pub const COUNT_MAX: usize = u16::MAX as usize;

/// The packed entries of a payload, which must be in the form `F`.
#[inline]
pub(crate) fn entries<F: Form>(payload: &[u8]) -> Entries<'_, F> {
    Entries::new(&payload[COUNT..])
}

/// The number of entries that the payload states. O(1).
#[inline]
pub(crate) fn count(payload: &[u8]) -> usize {
    usize::from(u16::from_le_bytes([payload[0], payload[1]]))
}

/// A payload of `count` entries with these bytes.
pub(crate) fn payload(entries: &[u8], count: usize) -> Vec<u8> {
    let count = u16::try_from(count).expect("the caller checks COUNT_MAX");
    [&count.to_le_bytes()[..], entries].concat()
}

/// A record of entries without backward lengths, the form of most collections.
pub(crate) type Packed = PackedIn<OneWay>;

/// A record whose packed entries of the form `F` are being edited. Every edit updates the count.
///
/// [`PackedIn::finish`] returns the record. The caller chooses its kind.
#[derive(Debug)]
pub(crate) struct PackedIn<F> {
    /// `None` only inside `splice`, while the record changes its size.
    record: Option<Record>,
    form: PhantomData<F>,
}

impl<F: Form> PackedIn<F> {
    /// Edits `record`, which must hold packed entries in the form `F`.
    pub(crate) fn of(record: Record) -> Self {
        debug_assert_eq!(F::BACKWARD, Kind::of(record.kind()) == Kind::ListTwoWay);
        PackedIn { record: Some(record), form: PhantomData }
    }

    /// A record of `key` of kind `kind` with these entries. `expiry` and `clock` are as in
    /// [`Record::from_bytes`].
    pub(crate) fn new(
        key: &[u8],
        expiry: Option<i64>,
        kind: Kind,
        clock: u32,
        first: &[Encoded<'_>],
    ) -> Self {
        let len: usize = first.iter().map(Encoded::len::<F>).sum();
        let record = Record::new(key, expiry, kind as u8, clock, COUNT + len, |payload| {
            super::write_all::<F>(first, &mut payload[COUNT..]);
        });
        let mut packed = PackedIn::of(record);
        packed.set_count(first.len());
        packed
    }

    #[inline]
    fn record(&self) -> &Record {
        self.record.as_ref().expect("set outside splice")
    }

    /// How many entries there are.
    #[inline]
    pub(crate) fn count(&self) -> usize {
        count(self.record().payload())
    }

    fn set_count(&mut self, n: usize) {
        let n = u16::try_from(n).expect("the caller checks COUNT_MAX");
        let record = self.record.as_mut().expect("set outside splice");
        record.payload_mut()[..COUNT].copy_from_slice(&n.to_le_bytes());
    }

    /// Inserts entries before the offset `at`.
    pub(crate) fn insert(&mut self, at: usize, new: &[Encoded<'_>]) {
        self.replace(at, 0, new);
    }

    /// Replaces the `old` entries from the offset `at` on with `new`.
    pub(crate) fn replace(&mut self, at: usize, old: usize, new: &[Encoded<'_>]) {
        let count = self.count() + new.len() - old;
        room::replace(self, at, old, new);
        self.set_count(count);
    }

    /// Removes the `old` entries from the offset `at` on.
    pub(crate) fn remove(&mut self, at: usize, old: usize) {
        self.replace(at, old, &[]);
    }

    /// Removes the entries at these offsets, which must be in descending order. O(bytes).
    pub(crate) fn remove_all(&mut self, hits: &[usize]) {
        let Some(first) = hits.last() else { return };
        let mut record = self.record.take().expect("set outside splice");
        let payload = record.payload_mut();
        let end_of_all = payload.len();
        let mut end = COUNT + first;
        for (n, at) in hits.iter().enumerate().rev() {
            let from = COUNT + Entries::<F>::new(&payload[COUNT..]).after(*at);
            let until = n.checked_sub(1).map_or(end_of_all, |next| COUNT + hits[next]);
            payload.copy_within(from..until, end);
            end += until - from;
        }
        let left = count(payload) - hits.len();
        self.record = Some(record.resize_payload(end));
        self.set_count(left);
    }

    /// Removes the entries for which `keep` returns false. Calls `keep` for each in order. O(n).
    pub(crate) fn retain(&mut self, mut keep: impl FnMut(super::Value<'_>) -> bool) {
        let mut record = self.record.take().expect("set outside splice");
        let mut count = 0;
        let mut end = COUNT;
        let payload = record.payload_mut();
        let mut at = COUNT;
        while at < payload.len() {
            let entries = Entries::<F>::new(payload);
            let next = entries.after(at);
            if keep(entries.get(at)) {
                payload.copy_within(at..next, end);
                end += next - at;
                count += 1;
            }
            at = next;
        }
        self.record = Some(record.resize_payload(end));
        self.set_count(count);
    }

    /// The record with its new payload.
    pub(crate) fn finish(self) -> Record {
        self.record.expect("set outside splice")
    }
}

impl<F: Form> EntryBuffer for PackedIn<F> {
    type Form = F;

    #[inline]
    fn entries(&self) -> Entries<'_, F> {
        entries(self.record().payload())
    }

    fn splice(&mut self, at: usize, old: usize, new: usize) -> &mut [u8] {
        let mut record = self.record.take().expect("set outside splice");
        let at = COUNT + at;
        let len = record.payload().len();
        if new > old {
            record = record.resize_payload(len - old + new);
        }
        if new != old {
            record.payload_mut().copy_within(at + old..len, at + new);
        }
        if new < old {
            record = record.resize_payload(len - old + new);
        }
        &mut self.record.insert(record).payload_mut()[at..at + new]
    }
}

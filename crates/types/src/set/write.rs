//! Makes sets and changes them.
//!
//! Each function takes a record that holds a set and returns it, possibly as another record, since
//! a small set is in its record's payload. Only `create`, `announce` and `add` choose the form.

use super::{Form, Ints, Set, Table, ints, table_mut};
use crate::limits::PACKED_MAX;
use crate::packed::record::Packed;
use crate::packed::{COUNT_MAX, Encoded, EntryBuffer, OneWay, Value};
use crate::string::{Digits, canonical_int};
use crate::{Kind, Limits, Record, boxed};

/// The most integers of a SetInts.
pub(super) fn ints_max(limits: &Limits) -> usize {
    limits.set_ints.min(COUNT_MAX)
}

/// The most members of a SetPacked.
pub(super) fn packed_max(limits: &Limits) -> usize {
    limits.set_entries.min(COUNT_MAX)
}

/// The form that a set begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    Ints,
    Packed,
}

pub(super) fn table_record(key: &[u8], table: Table, expiry: Option<i64>, clock: u32) -> Record {
    let payload = boxed::store(Box::new(table));
    Record::from_bytes(key, expiry, Kind::SetTable as u8, clock, &payload)
}

/// A record of `key` with a set of the one member `first`, in the form for `announced` members.
/// `expiry` is in Unix milliseconds; `clock` is as in [`Record::clock`].
#[must_use]
pub fn create(
    key: &[u8],
    first: &[u8],
    announced: usize,
    expiry: Option<i64>,
    clock: u32,
    limits: &Limits,
) -> Record {
    if announced <= ints_max(limits)
        && let Some(n) = canonical_int(first)
    {
        return ints::record(key, &[n], expiry, clock);
    }
    if announced <= packed_max(limits) && first.len() <= limits.set_value.min(PACKED_MAX) {
        return Packed::new(key, expiry, Kind::SetPacked, clock, &[Encoded::of(first)]).finish();
    }
    let mut table = Table::new();
    table.insert(first, b"", None);
    table_record(key, table, expiry, clock)
}

/// A set that a command computes, starting empty.
#[derive(Debug)]
pub struct Builder<'l> {
    /// `None` only inside `add` and `remove`.
    record: Option<Record>,
    limits: &'l Limits,
}

impl<'l> Builder<'l> {
    /// An empty set of `key` in this form. Otherwise like [`create`].
    #[must_use]
    pub fn new(
        key: &[u8],
        start: Start,
        expiry: Option<i64>,
        clock: u32,
        limits: &'l Limits,
    ) -> Self {
        let record = match start {
            Start::Ints => ints::record(key, &[], expiry, clock),
            Start::Packed => Packed::new(key, expiry, Kind::SetPacked, clock, &[]).finish(),
        };
        Builder { record: Some(record), limits }
    }

    fn change(&mut self, change: impl FnOnce(Record) -> (Record, bool)) {
        self.record = self.record.take().map(|record| change(record).0);
    }

    /// See [`add`].
    pub fn add(&mut self, member: Value<'_>) {
        let limits = self.limits;
        self.change(|record| add(record, member, limits));
    }

    /// See [`remove`].
    pub fn remove(&mut self, member: Value<'_>) {
        self.change(|record| remove(record, member));
    }

    /// The number of members. O(1).
    #[must_use]
    pub fn len(&self) -> usize {
        self.record.as_ref().map_or(0, super::len)
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The record, which may hold an empty set.
    #[must_use]
    pub fn finish(self) -> Record {
        self.record.expect("every change returns it")
    }
}

/// Converts the set to a table if its small form can't hold `announced` more members. O(n) when the
/// form changes.
#[inline]
#[must_use]
pub fn announce(record: Record, announced: usize, limits: &Limits) -> Record {
    let too_many = match Form::of_set(&record) {
        Form::Ints => announced > ints_max(limits),
        Form::Packed => announced > packed_max(limits),
        Form::Table => false,
    };
    if too_many { to_table(record) } else { record }
}

/// Adds `member`. Returns whether it is new. O(n) in a small form, else expected O(1).
#[inline]
#[must_use]
pub fn add(mut record: Record, member: Value<'_>, limits: &Limits) -> (Record, bool) {
    match Form::of_set(&record) {
        Form::Ints => match member.int() {
            Some(n) => add_int(record, n, limits),
            None => (add_text_to_ints(record, member, limits), true),
        },
        Form::Packed => add_packed(record, member, limits),
        Form::Table => {
            let new = table_mut(&mut record).insert(member.bytes(&mut Digits::new()), b"", None);
            (record, new)
        }
    }
}

fn add_int(record: Record, n: i64, limits: &Limits) -> (Record, bool) {
    let (record, new) = ints::add(record, n);
    let too_many = new && Ints::of(record.payload()).len() > ints_max(limits);
    (if too_many { to_table(record) } else { record }, new)
}

/// Adds a member that is not an integer to a set of integers.
fn add_text_to_ints(record: Record, member: Value<'_>, limits: &Limits) -> Record {
    let ints = Ints::of(record.payload());
    let len = |n: i64| Digits::new().format(n).len();
    let longest = match ints.len() {
        0 => 0,
        count => len(ints.get(0)).max(len(ints.get(count - 1))),
    };
    let fits = ints.len() < packed_max(limits)
        && member.len().max(longest) <= limits.set_value.min(PACKED_MAX);
    let record = if fits { to_packed(record) } else { to_table(record) };
    let (record, new) = add(record, member, limits);
    debug_assert!(new, "the member is not an integer");
    record
}

fn add_packed(record: Record, member: Value<'_>, limits: &Limits) -> (Record, bool) {
    let mut packed = Packed::of(record);
    let entry = encoded(member);
    if packed.entries().find(&entry, 1).is_some() {
        return (packed.finish(), false);
    }
    let end = packed.entries().end();
    if packed.count() < packed_max(limits)
        && member.len() <= limits.set_value
        && end + entry.len::<OneWay>() <= PACKED_MAX
    {
        packed.insert(end, &[entry]);
        return (packed.finish(), true);
    }
    let mut record = to_table(packed.finish());
    table_mut(&mut record).insert(member.bytes(&mut Digits::new()), b"", None);
    (record, true)
}

/// Removes `member`. Returns whether it existed. O(n) in a small form, else expected O(1). Removing
/// the last one results in an empty set.
#[inline]
#[must_use]
pub fn remove(mut record: Record, member: Value<'_>) -> (Record, bool) {
    match Form::of_set(&record) {
        Form::Ints => {
            let ints = Ints::of(record.payload());
            match member.int().map(|n| ints.search(n)) {
                Some(Ok(at)) => (ints::remove_at(record, at), true),
                Some(Err(_)) | None => (record, false),
            }
        }
        Form::Packed => {
            let mut packed = Packed::of(record);
            let found = packed.entries().find(&encoded(member), 1);
            if let Some(at) = found {
                packed.remove(at, 1);
            }
            (packed.finish(), found.is_some())
        }
        Form::Table => {
            let removed = table_mut(&mut record).remove(member.bytes(&mut Digits::new()));
            (record, removed)
        }
    }
}

/// Converts a set that has only integers to the form of integers, if they are few enough for it.
/// O(n log n).
#[must_use]
pub fn convert_to_ints(record: Record, limits: &Limits) -> Record {
    let Some(set) = Set::of(&record) else {
        return record;
    };
    if set.len() > ints_max(limits) || matches!(set, Set::Ints(_)) {
        return record;
    }
    let mut members = Vec::with_capacity(set.len());
    set.each(|member| members.extend(member.int()));
    members.sort_unstable();
    ints::record(record.key(), &members, record.expiry(), record.clock())
}

#[inline]
fn encoded(member: Value<'_>) -> Encoded<'_> {
    match member {
        Value::Bytes(text) => Encoded::of(text),
        Value::Int(n) => Encoded::of_int(n),
    }
}

/// The members of a small set as a table. O(n).
fn to_table(record: Record) -> Record {
    let mut table = Table::new();
    if let Some(set) = Set::of(&record) {
        set.each(|member| {
            table.insert(member.bytes(&mut Digits::new()), b"", None);
        });
    }
    record.replace_payload(Kind::SetTable as u8, &boxed::store(Box::new(table)))
}

/// Integers as packed entries. O(n).
fn to_packed(record: Record) -> Record {
    let ints = Ints::of(record.payload());
    let entries: Vec<_> = ints.iter().map(Encoded::of_int).collect();
    let (key, expiry, clock) = (record.key(), record.expiry(), record.clock());
    Packed::new(key, expiry, Kind::SetPacked, clock, &entries).finish()
}

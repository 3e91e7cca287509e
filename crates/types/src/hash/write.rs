//! Makes hashes and changes them.
//!
//! Each function takes a record that holds a hash and returns it, possibly as another record, since
//! a small hash is in its record's payload. Only `create`, `announce`, `set` and `expire` choose
//! the form.

use super::{Form, Table, is_alive, pairs};
use crate::limits::PACKED_MAX;
use crate::packed::record::Packed;
use crate::packed::{COUNT_MAX, Encoded, EntryBuffer, record::entries};
use crate::string::Digits;
use crate::{Kind, Limits, Record, boxed};
use weft_table::MARK;

/// The most fields of a HashPacked.
pub(super) fn packed_max(limits: &Limits) -> usize {
    limits.hash_entries.min(COUNT_MAX / 2)
}

/// The state of a field before a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Old {
    /// There was no such field.
    Absent,
    /// The field existed, but had expired.
    Expired,
    Live,
}

impl Old {
    /// Whether the field was invisible to clients.
    #[must_use]
    pub fn is_new(self) -> bool {
        match self {
            Old::Absent | Old::Expired => true,
            Old::Live => false,
        }
    }
}

pub(super) fn table_record(key: &[u8], table: Table, expiry: Option<i64>, clock: u32) -> Record {
    let timed = table.expiring() > 0;
    let payload = boxed::store(Box::new(table));
    let mut record = Record::from_bytes(key, expiry, Kind::HashTable as u8, clock, &payload);
    mark(&mut record, timed);
    record
}

/// Whether alternating fields and values are few and short enough for a packed hash.
fn fit<'t>(count: usize, mut texts: impl Iterator<Item = &'t [u8]>, limits: &Limits) -> bool {
    let mut bytes = 0;
    count <= packed_max(limits)
        && texts.all(|text| {
            bytes += text.len();
            text.len() <= limits.hash_value && bytes <= PACKED_MAX
        })
}

/// A record of `key` with an empty hash in the form for `announced`: fields, each followed by its
/// value. `clock` is as in [`Record::clock`]. O(announced).
#[must_use]
pub fn create(key: &[u8], announced: &[&[u8]], clock: u32, limits: &Limits) -> Record {
    if fit(announced.len() / 2, announced.iter().copied(), limits) {
        Packed::new(key, None, Kind::HashPacked, clock, &[]).finish()
    } else {
        table_record(key, Table::new(), None, clock)
    }
}

/// Converts the hash to a table if a packed hash can't hold `announced`: fields that will be set,
/// each followed by its value. O(announced), or O(n) when the form changes.
#[inline]
#[must_use]
pub fn announce(record: Record, announced: &[&[u8]], limits: &Limits) -> Record {
    match Form::of_hash(&record) {
        Form::Packed if !fit(announced.len() / 2, announced.iter().copied(), limits) => {
            to_table(record)
        }
        Form::Packed | Form::Table => record,
    }
}

/// Sets the value and the expiry (Unix milliseconds) of `field`. Returns its previous state at
/// `now_ms`. O(n) in packed form, else expected O(1).
#[inline]
#[must_use]
pub fn set(
    mut record: Record,
    field: &[u8],
    value: &[u8],
    expiry: Option<i64>,
    now_ms: i64,
    limits: &Limits,
) -> (Record, Old) {
    match Form::of_hash(&record) {
        Form::Packed if expiry.is_none() && fit(0, [field, value].into_iter(), limits) => {
            set_packed(record, field, value, limits)
        }
        Form::Packed => set(to_table(record), field, value, expiry, now_ms, limits),
        Form::Table => {
            let table = table_mut(&mut record);
            // Only a table with expiring fields needs a lookup first.
            let had_expired = table.expiring() > 0
                && table.get(field).is_some_and(|e| !is_alive(e.expiry, now_ms));
            let old = match table.insert(field, value, expiry) {
                true => Old::Absent,
                false if had_expired => Old::Expired,
                false => Old::Live,
            };
            let timed = table.expiring() > 0;
            mark(&mut record, timed);
            (record, old)
        }
    }
}

/// Like [`set`], for a packed hash and texts that are short enough for it.
fn set_packed(record: Record, field: &[u8], value: &[u8], limits: &Limits) -> (Record, Old) {
    let mut packed = Packed::of(record);
    let name = Encoded::of(field);
    let there = packed.entries().find(&name, 2);
    // The limits also apply when a value is overwritten: the directive may have changed.
    let bytes = packed.entries().end() + field.len() + value.len();
    if packed.count() / 2 + usize::from(there.is_none()) > packed_max(limits) || bytes > PACKED_MAX
    {
        let mut record = to_table(packed.finish());
        table_mut(&mut record).insert(field, value, None);
        return (record, if there.is_some() { Old::Live } else { Old::Absent });
    }
    match there {
        Some(at) => {
            let at = packed.entries().after(at);
            packed.replace(at, 1, &[Encoded::of(value)]);
            (packed.finish(), Old::Live)
        }
        None => {
            let end = packed.entries().end();
            packed.insert(end, &[name, Encoded::of(value)]);
            (packed.finish(), Old::Absent)
        }
    }
}

/// Removes `field` if it is alive at `now_ms`. Returns its previous state. O(n) in packed form,
/// else expected O(1). Removing the last one results in an empty hash.
#[inline]
#[must_use]
pub fn remove(mut record: Record, field: &[u8], now_ms: i64) -> (Record, Old) {
    match Form::of_hash(&record) {
        Form::Packed => {
            let mut packed = Packed::of(record);
            let Some(at) = packed.entries().find(&Encoded::of(field), 2) else {
                return (packed.finish(), Old::Absent);
            };
            packed.remove(at, 2);
            (packed.finish(), Old::Live)
        }
        Form::Table => {
            let table = table_mut(&mut record);
            let had_expired = table.expiring() > 0
                && table.get(field).is_some_and(|e| !is_alive(e.expiry, now_ms));
            if had_expired {
                return (record, Old::Expired);
            }
            let old = if table.remove(field) { Old::Live } else { Old::Absent };
            let timed = table.expiring() > 0;
            mark(&mut record, timed);
            (record, old)
        }
    }
}

/// Sets or removes the expiry (Unix milliseconds) of `field`, which must exist. An expiry converts
/// a packed hash to a table. Expected O(1), or O(n) in packed form.
#[must_use]
pub fn expire(mut record: Record, field: &[u8], expiry: Option<i64>) -> Record {
    match (Form::of_hash(&record), expiry) {
        (Form::Packed, None) => record,
        (Form::Packed, Some(_)) => expire(to_table(record), field, expiry),
        (Form::Table, _) => {
            let table = table_mut(&mut record);
            table.set_expiry(field, expiry);
            let timed = table.expiring() > 0;
            mark(&mut record, timed);
            record
        }
    }
}

/// The result of [`expire_some`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Step {
    /// The cursor of the next step; 0 after the last.
    pub next: u64,
    /// The number of examined fields with an expiry.
    pub examined: usize,
    /// The number of them that had expired and were removed.
    pub removed: usize,
}

/// One step of removing fields that have expired at `now_ms`: a part of the hash of bounded size,
/// from `cursor`, which begins at 0. Passes the removed fields to `gone`. Removing the last one
/// results in an empty hash.
#[must_use]
pub fn expire_some(
    mut record: Record,
    cursor: u64,
    now_ms: i64,
    gone: &mut dyn FnMut(&[u8]),
) -> (Record, Step) {
    let mut step = Step::default();
    match Form::of_hash(&record) {
        Form::Packed => {}
        Form::Table => {
            let table = table_mut(&mut record);
            if table.expiring() > 0 {
                step.next = table.sweep(cursor, |e| {
                    let over = !is_alive(e.expiry, now_ms);
                    step.examined += 1;
                    if over {
                        step.removed += 1;
                        gone(e.key);
                    }
                    over
                });
            }
            let timed = table.expiring() > 0;
            mark(&mut record, timed);
        }
    }
    (record, step)
}

/// Marks records of hashes with expiring fields, so that the expiry cycle finds them.
#[inline]
fn mark(record: &mut Record, timed: bool) {
    if has_expiring_fields(record) != timed {
        record.set_owner_flags(if timed { MARK } else { 0 });
    }
}

/// Whether a field of the hash has an expiry. O(1).
#[inline]
#[must_use]
pub fn has_expiring_fields(record: &Record) -> bool {
    record.owner_flags() & MARK != 0
}

/// The table of a HashTable.
#[inline]
pub(super) fn table_mut(record: &mut Record) -> &mut Table {
    debug_assert_eq!(Form::of(record), Some(Form::Table));
    // SAFETY: a HashTable payload was made by `boxed::store` of a box of a Table; the record is
    // borrowed exclusively.
    unsafe { boxed::view_mut(record.payload_mut()) }
}

/// The fields of a packed hash as a table. O(n).
#[cold]
fn to_table(record: Record) -> Record {
    let mut table = Table::new();
    for pair in pairs(entries(record.payload())) {
        let (mut field, mut value) = (Digits::new(), Digits::new());
        table.insert(pair.field.bytes(&mut field), pair.value.bytes(&mut value), None);
    }
    record.replace_payload(Kind::HashTable as u8, &boxed::store(Box::new(table)))
}

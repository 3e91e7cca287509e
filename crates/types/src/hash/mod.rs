//! Hashes.
//!
//! ```text
//!  kind         payload                                     while
//!  HashPacked   packed entries: field, value, field, ...    few fields, all short, none expires
//!  HashTable    pointer to a [`Table`]                      else
//! ```
//!
//! Clients see the encodings `listpack` and `hashtable`. A hash begins packed. It becomes a table
//! when too many fields or too long a text are added or announced, or when a field gets an expiry.
//! It never becomes packed again.
//!
//! **Fields that expire** stay in the table until they are removed. Until then they count in
//! [`len`], as in Valkey, but reads don't return them: a `Hash` has a time and shows the fields
//! alive at that time.
//!
//! This file reads hashes; [`write`](self::write) makes and changes them, `pick` chooses fields at
//! random.

mod load;
mod pick;
#[cfg(test)]
mod tests;
mod write;

pub use load::Load;
pub use write::{
    Old, Step, announce, create, expire, expire_some, has_expiring_fields, remove, set,
};

use crate::boxed;
use crate::dict::{Dict, Entry};
use crate::packed::record::{count, entries};
use crate::packed::{Encoded, Entries, OneWay, Value};
use crate::{Kind, Record, Type};
use std::ops::ControlFlow;

/// The large form: fields with their values.
pub type Table = Dict;

/// A field with its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pair<'a> {
    pub field: Value<'a>,
    pub value: Value<'a>,
    /// Unix milliseconds.
    pub expiry: Option<i64>,
}

impl<'a> Pair<'a> {
    fn of(entry: Entry<'a>) -> Self {
        let Entry { key, value, expiry } = entry;
        Pair { field: Value::Bytes(key), value: Value::Bytes(value), expiry }
    }
}

/// The hash of a record at a point in time, for reading.
#[derive(Clone, Copy, Debug)]
pub struct Hash<'a> {
    view: View<'a>,
    now_ms: i64,
}

#[derive(Clone, Copy, Debug)]
enum View<'a> {
    Packed { count: usize, entries: Entries<'a, OneWay> },
    Table(&'a Table),
}

/// The two forms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Packed,
    Table,
}

impl Form {
    /// `None` for the kinds of other types.
    #[inline]
    fn of(record: &Record) -> Option<Form> {
        match Kind::of(record.kind()) {
            Kind::HashPacked => Some(Form::Packed),
            Kind::HashTable => Some(Form::Table),
            Kind::StrEmbedded | Kind::StrRaw | Kind::StrInt => None,
            Kind::StrBlob | Kind::StrPieces => None,
            Kind::ListPacked
            | Kind::ListTwoWay
            | Kind::ListChunks
            | Kind::ZsetPacked
            | Kind::ZsetTree
            | Kind::Stream => None,
            Kind::SetInts | Kind::SetPacked | Kind::SetTable => None,
        }
    }

    /// The form of a record, which must hold a hash.
    #[inline]
    fn of_hash(record: &Record) -> Form {
        Form::of(record).expect("the record holds a hash")
    }
}

/// Whether `record` holds a hash.
#[inline]
#[must_use]
pub fn is_hash(record: &Record) -> bool {
    Kind::of(record.kind()).type_of() == Type::Hash
}

/// Whether an entry that expires at `expiry` is still alive at `now_ms`.
#[inline]
fn is_alive(expiry: Option<i64>, now_ms: i64) -> bool {
    expiry.is_none_or(|at| at > now_ms)
}

/// Packed fields with their values, each with the offset of the field.
fn pairs(entries: Entries<'_, OneWay>) -> impl Iterator<Item = Pair<'_>> {
    let mut all = entries.iter();
    std::iter::from_fn(move || {
        let (_, field) = all.next()?;
        let (_, value) = all.next().expect("a value follows every field");
        Some(Pair { field, value, expiry: None })
    })
}

impl<'a> Hash<'a> {
    /// The hash of `record` at a Unix time in milliseconds, or `None` when it holds another type.
    #[inline]
    #[must_use]
    pub fn of(record: &'a Record, now_ms: i64) -> Option<Hash<'a>> {
        let payload = record.payload();
        let view = match Form::of(record)? {
            Form::Packed => View::Packed { count: count(payload) / 2, entries: entries(payload) },
            // SAFETY: a HashTable payload was made by `boxed::store` of a box of a Table, and it
            // is borrowed from its record.
            Form::Table => View::Table(unsafe { boxed::view(payload) }),
        };
        Some(Hash { view, now_ms })
    }

    /// The number of stored fields, including expired ones. O(1).
    #[inline]
    #[must_use]
    pub fn len(self) -> usize {
        match self.view {
            View::Packed { count, .. } => count,
            View::Table(table) => table.len(),
        }
    }

    #[must_use]
    pub fn is_empty(self) -> bool {
        self.len() == 0
    }

    /// Whether the hash is in its large form, which is scanned in steps.
    #[must_use]
    pub fn is_large(self) -> bool {
        matches!(self.view, View::Table(_))
    }

    /// The entries of the small form: field, value, field, ...
    #[must_use]
    pub fn packed(self) -> Option<Entries<'a, OneWay>> {
        match self.view {
            View::Packed { entries, .. } => Some(entries),
            View::Table(_) => None,
        }
    }

    /// The number of live fields. O(1), or O(n) if some have an expiry.
    #[must_use]
    pub fn live(self) -> usize {
        match self.view {
            View::Packed { count, .. } => count,
            View::Table(table) if table.expiring() == 0 => table.len(),
            View::Table(table) => table.iter().filter(|e| is_alive(e.expiry, self.now_ms)).count(),
        }
    }

    /// The value of `field`. O(n) in packed form, else expected O(1).
    #[inline]
    #[must_use]
    pub fn get(self, field: &[u8]) -> Option<Value<'a>> {
        match self.view {
            View::Packed { entries, .. } => {
                let at = entries.find(&Encoded::of(field), 2)?;
                Some(entries.get(entries.after(at)))
            }
            View::Table(_) => self.find(field).map(|pair| pair.value),
        }
    }

    /// `field` with its value and its expiry. O(n) in packed form, else expected O(1).
    #[must_use]
    pub fn find(self, field: &[u8]) -> Option<Pair<'a>> {
        match self.view {
            View::Packed { entries, .. } => {
                let at = entries.find(&Encoded::of(field), 2)?;
                let value = entries.get(entries.after(at));
                Some(Pair { field: entries.get(at), value, expiry: None })
            }
            View::Table(table) => {
                table.get(field).filter(|e| is_alive(e.expiry, self.now_ms)).map(Pair::of)
            }
        }
    }

    /// Passes every live field to `seen`: packed ones in insertion order, those of a table in no
    /// order. O(n).
    pub fn each(self, mut seen: impl FnMut(Pair<'a>)) {
        match self.view {
            View::Packed { entries, .. } => pairs(entries).for_each(seen),
            View::Table(table) => table
                .iter()
                .filter(|e| is_alive(e.expiry, self.now_ms))
                .for_each(|e| seen(Pair::of(e))),
        }
    }

    /// One step of a scan: passes some live fields to `seen`. Returns the cursor of the next step,
    /// 0 at the end, and how many fields it examined. A small hash is one step, whatever the
    /// cursor. So a field that exists from the first step (cursor 0) to the last is passed, even if
    /// the hash changes its form meanwhile.
    pub fn scan(self, cursor: u64, mut seen: impl FnMut(Pair<'a>)) -> (u64, usize) {
        match self.view {
            View::Packed { count, .. } => {
                self.each(seen);
                (0, count)
            }
            View::Table(table) => {
                let mut looked_at = 0;
                let next = table.scan(cursor, |e| {
                    looked_at += 1;
                    if is_alive(e.expiry, self.now_ms) {
                        seen(Pair::of(e));
                    }
                });
                (next, looked_at)
            }
        }
    }
}

/// The number of fields of the hash of `record`, including expired ones. O(1).
#[must_use]
pub fn len(record: &Record) -> usize {
    // The result doesn't depend on the time.
    Hash::of(record, 0).map_or(0, Hash::len)
}

/// See [`crate::value::memory`]. Always exact. O(1) for a small hash, O(n / 100) for a table.
#[must_use]
pub fn memory(record: &Record, _samples: usize) -> usize {
    let large = match Hash::of(record, 0).map(|hash| hash.view) {
        Some(View::Table(table)) => table.memory(),
        Some(View::Packed { .. }) | None => 0,
    };
    record.alloc_size() + large
}

fn table(record: &Record) -> Option<&Table> {
    match Hash::of(record, 0)?.view {
        View::Table(table) => Some(table),
        View::Packed { .. } => None,
    }
}

/// See [`crate::value::memory_about`].
pub(crate) fn memory_about(record: &Record, samples: usize) -> usize {
    record.alloc_size() + table(record).map_or(0, |table| table.memory_about(samples))
}

/// See [`crate::value::pieces`].
pub(crate) fn pieces(record: &Record, most: usize) -> usize {
    table(record).map_or(0, |table| table.pieces(most))
}

/// The fields alive at `now_ms`. If there are none, a copy of all: the copied fields expire later
/// like the originals, while an empty hash would never be removed.
fn live_fields(table: &Table, now_ms: i64) -> Table {
    let mut live_fields = Table::new();
    if table.expiring() > 0 {
        for entry in table.iter().filter(|entry| is_alive(entry.expiry, now_ms)) {
            live_fields.insert(entry.key, entry.value, entry.expiry);
        }
    }
    if live_fields.is_empty() { table.clone() } else { live_fields }
}

/// See [`crate::value::duplicate`].
#[must_use]
pub fn duplicate(
    record: &Record,
    key: &[u8],
    expiry: Option<i64>,
    clock: u32,
    now_ms: i64,
) -> Record {
    match Hash::of(record, now_ms).map(|hash| hash.view) {
        Some(View::Table(table)) => {
            write::table_record(key, live_fields(table, now_ms), expiry, clock)
        }
        Some(View::Packed { .. }) | None => {
            Record::from_bytes(key, expiry, record.kind(), clock, record.payload())
        }
    }
}

/// A copy of `record`, including expired fields.
pub(crate) fn share(record: &Record) -> Record {
    let (key, expiry, clock) = (record.key(), record.expiry(), record.clock());
    match table(record) {
        Some(table) => write::table_record(key, table.clone(), expiry, clock),
        None => Record::from_bytes(key, expiry, record.kind(), clock, record.payload()),
    }
}

/// Passes all fields, including expired ones, to `seen` until it breaks. A large hash is left
/// empty, and each page is released once it is passed.
pub(crate) fn pass<B>(
    record: &mut Record,
    mut seen: impl FnMut(Pair<'_>) -> ControlFlow<B>,
) -> ControlFlow<B> {
    match Form::of_hash(record) {
        Form::Packed => pairs(entries(record.payload())).try_for_each(seen),
        Form::Table => write::table_mut(record).pass(|entry| seen(Pair::of(entry))),
    }
}

//! Sets.
//!
//! ```text
//!  kind        payload                          while
//!  SetInts     sorted integers, see `ints`      all members are integers, few of them
//!  SetPacked   packed entries                   few members, all short
//!  SetTable    pointer to a [`Table`]           else
//! ```
//!
//! Clients see the encodings `intset`, `listpack` and `hashtable`, and expect changes exactly as in
//! Valkey. A set begins as integers or packed, depending on its first member and the announced
//! number. An integer too many converts the integers to a table. A text converts them to packed if
//! they are few enough. A packed set becomes a table with a member too many or too long. Removing
//! never changes the form.
//!
//! This file reads sets; [`write`](self::write) makes and changes them, `pick` chooses members at
//! random.

mod ints;
mod load;
mod pick;
#[cfg(test)]
mod tests;
mod write;

pub use ints::Ints;
pub use load::Load;
pub use pick::{pop, pop_many, split_most};
pub use write::{Builder, Start, add, announce, convert_to_ints, create, remove};

use crate::boxed;
use crate::dict::Dict;
use crate::packed::record::{count, entries};
use crate::packed::{Encoded, Entries, OneWay, Value};
use crate::string::Digits;
use crate::{Kind, Record, Type};
use std::ops::ControlFlow;

/// The large form: members with empty values.
pub type Table = Dict;

/// The set of a record, for reading.
#[derive(Clone, Copy, Debug)]
pub enum Set<'a> {
    Ints(Ints<'a>),
    Packed { count: usize, entries: Entries<'a, OneWay> },
    Table(&'a Table),
}

/// The three forms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Ints,
    Packed,
    Table,
}

impl Form {
    /// `None` for the kinds of other types.
    #[inline]
    fn of(record: &Record) -> Option<Form> {
        match Kind::of(record.kind()) {
            Kind::SetInts => Some(Form::Ints),
            Kind::SetPacked => Some(Form::Packed),
            Kind::SetTable => Some(Form::Table),
            Kind::StrEmbedded | Kind::StrRaw | Kind::StrInt => None,
            Kind::StrBlob | Kind::StrPieces => None,
            Kind::ListPacked
            | Kind::ListTwoWay
            | Kind::ListChunks
            | Kind::ZsetPacked
            | Kind::ZsetTree => None,
            Kind::HashPacked | Kind::HashTable | Kind::Stream => None,
        }
    }

    /// The form of a record, which must hold a set.
    #[inline]
    fn of_set(record: &Record) -> Form {
        Form::of(record).expect("the record holds a set")
    }
}

/// Whether `record` holds a set.
#[inline]
#[must_use]
pub fn is_set(record: &Record) -> bool {
    Kind::of(record.kind()).type_of() == Type::Set
}

impl<'a> Set<'a> {
    /// The set of `record`, or `None` when it holds another type.
    #[inline]
    #[must_use]
    pub fn of(record: &'a Record) -> Option<Set<'a>> {
        let payload = record.payload();
        Some(match Form::of(record)? {
            Form::Ints => Set::Ints(Ints::of(payload)),
            Form::Packed => Set::Packed { count: count(payload), entries: entries(payload) },
            // SAFETY: a SetTable payload was made by `boxed::store` of a box of a Table, and it
            // is borrowed from its record.
            Form::Table => Set::Table(unsafe { boxed::view(payload) }),
        })
    }

    /// The number of members. O(1).
    #[inline]
    #[must_use]
    pub fn len(self) -> usize {
        match self {
            Set::Ints(ints) => ints.len(),
            Set::Packed { count, .. } => count,
            Set::Table(table) => table.len(),
        }
    }

    #[must_use]
    pub fn is_empty(self) -> bool {
        self.len() == 0
    }

    /// Whether `member` is in the set. O(log n), O(n) and expected O(1) in the three forms.
    #[inline]
    #[must_use]
    pub fn contains(self, member: Value<'_>) -> bool {
        match self {
            Set::Ints(ints) => member.int().is_some_and(|n| ints.contains(n)),
            Set::Packed { entries, .. } => {
                let wanted = match member {
                    Value::Bytes(text) => Encoded::of(text),
                    Value::Int(n) => Encoded::of_int(n),
                };
                entries.find(&wanted, 1).is_some()
            }
            Set::Table(table) => table.contains(member.bytes(&mut Digits::new())),
        }
    }

    /// Passes every member to `seen` until it breaks: integers in ascending order, packed members
    /// in insertion order, those of a table in no order. O(n).
    pub fn try_each<B>(self, mut seen: impl FnMut(Value<'a>) -> ControlFlow<B>) -> ControlFlow<B> {
        match self {
            Set::Ints(ints) => ints.iter().map(Value::Int).try_for_each(seen),
            Set::Packed { entries, .. } => entries.iter().try_for_each(|(_, value)| seen(value)),
            Set::Table(table) => table.iter().try_for_each(|e| seen(Value::Bytes(e.key))),
        }
    }

    /// Passes every member to `seen`, as [`Set::try_each`]. O(n).
    pub fn each(self, mut seen: impl FnMut(Value<'a>)) {
        let _: ControlFlow<()> = self.try_each(|member| {
            seen(member);
            ControlFlow::Continue(())
        });
    }

    /// One step of a scan: passes some members to `seen`. Returns the cursor of the next step, 0 at
    /// the end. A small set is one step, whatever the cursor. So a member that exists from the
    /// first step (cursor 0) to the last is passed, even if the set changes its form meanwhile.
    pub fn scan(self, cursor: u64, mut seen: impl FnMut(Value<'a>)) -> u64 {
        match self {
            Set::Ints(_) | Set::Packed { .. } => {
                self.each(seen);
                0
            }
            Set::Table(table) => table.scan(cursor, |e| seen(Value::Bytes(e.key))),
        }
    }
}

/// The table of a SetTable.
#[inline]
fn table_mut(record: &mut Record) -> &mut Table {
    debug_assert_eq!(Form::of(record), Some(Form::Table));
    // SAFETY: a SetTable payload was made by `boxed::store` of a box of a Table; the record is
    // borrowed exclusively.
    unsafe { boxed::view_mut(record.payload_mut()) }
}

/// The number of members of the set of `record`. O(1).
#[must_use]
pub fn len(record: &Record) -> usize {
    Set::of(record).map_or(0, Set::len)
}

/// See [`crate::value::memory`]. Always exact. O(1) for small sets, O(n / 100) for a table.
#[must_use]
pub fn memory(record: &Record, _samples: usize) -> usize {
    let large = match Set::of(record) {
        Some(Set::Table(table)) => table.memory(),
        Some(Set::Ints(_) | Set::Packed { .. }) | None => 0,
    };
    record.alloc_size() + large
}

fn table(record: &Record) -> Option<&Table> {
    match Set::of(record)? {
        Set::Table(table) => Some(table),
        Set::Ints(_) | Set::Packed { .. } => None,
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

/// See [`crate::value::duplicate`].
#[must_use]
pub fn duplicate(record: &Record, key: &[u8], expiry: Option<i64>, clock: u32) -> Record {
    match Set::of(record) {
        Some(Set::Table(table)) => write::table_record(key, table.clone(), expiry, clock),
        Some(Set::Ints(_) | Set::Packed { .. }) | None => {
            Record::from_bytes(key, expiry, record.kind(), clock, record.payload())
        }
    }
}

/// Passes every member to `seen` until it breaks, as [`Set::try_each`]. A large set is left empty,
/// and each page is released once it is passed.
pub(crate) fn pass<B>(
    record: &mut Record,
    mut seen: impl FnMut(Value<'_>) -> ControlFlow<B>,
) -> ControlFlow<B> {
    match Set::of(record) {
        Some(Set::Table(_)) => table_mut(record).pass(|entry| seen(Value::Bytes(entry.key))),
        Some(small) => small.try_each(seen),
        None => panic!("the record holds a set"),
    }
}

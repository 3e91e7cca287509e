//! What holds for values of every type: how large they are, and a copy of one.

use crate::{Kind, Record, Type, hash, list, set, string, zset};

/// How many elements the value of `record` has: 1 for a string. O(1).
#[must_use]
pub fn elements(record: &Record) -> usize {
    match Kind::of(record.kind()).type_of() {
        Type::String => 1,
        Type::List => list::len(record),
        Type::Set => set::len(record),
        Type::Zset => zset::len(record),
        Type::Hash => hash::len(record),
    }
}

/// Bytes of memory of `record` with all that it owns. Large collections are estimated from up to
/// `samples` of their elements; 0: all of them are looked at.
#[must_use]
pub fn memory(record: &Record, samples: usize) -> usize {
    match Kind::of(record.kind()).type_of() {
        Type::String => string::memory(record),
        Type::List => list::memory(record, samples),
        Type::Set => set::memory(record, samples),
        Type::Zset => zset::memory(record, samples),
        Type::Hash => hash::memory(record, samples),
    }
}

/// A record of `key` with the value and the encoding of `record`; `expiry` in Unix milliseconds,
/// `clock` as [`Record::clock`]. O(1) for strings, O(elements) for collections.
#[must_use]
pub fn duplicate(record: &Record, key: &[u8], expiry: Option<i64>, clock: u32) -> Record {
    match Kind::of(record.kind()).type_of() {
        Type::String => string::duplicate(record, key, expiry, clock),
        Type::List => list::duplicate(record, key, expiry, clock),
        Type::Set => set::duplicate(record, key, expiry, clock),
        Type::Zset => zset::duplicate(record, key, expiry, clock),
        Type::Hash => hash::duplicate(record, key, expiry, clock),
    }
}

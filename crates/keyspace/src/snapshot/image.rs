//! What a visitor is given: one key as it was at the cut.

use std::ops::Deref;
use weft_types::{Kind, Record, value};

/// A key with its value and its expiry as they were at the cut. Dereferences to the record. The access clock is
/// that of the moment at which the image was made.
///
/// It belongs to who gets it, and may be sent to another thread to be encoded there. Fields of a
/// hash whose time was over at the cut may still be in it.
#[derive(Debug)]
pub struct Image {
    record: Record,
    db: u32,
    shard: u16,
    /// What is on the account for it.
    bytes: usize,
}

impl Image {
    /// Of a record in `shard` and database `db`, as that was numbered at the cut.
    pub(super) fn new(shard: u16, db: u32, record: &Record) -> Image {
        Image { record: copy(record), db, shard, bytes: 0 }
    }

    /// Notes how many bytes it takes, which the answer is: about. O(1) beside what
    /// [`value::memory_about`] does.
    pub(super) fn weigh(&mut self) -> usize {
        self.bytes = size_of::<Image>() + value::memory_about(&self.record);
        self.bytes
    }

    pub(super) fn shard(&self) -> u16 {
        self.shard
    }

    /// What [`Image::weigh`] has answered; 0 before.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// The database in which the key was at the cut.
    pub fn db(&self) -> usize {
        self.db as usize
    }

    /// The record, which may be large: to be dropped where that may take its time.
    pub fn into_record(self) -> Record {
        self.record
    }
}

impl Deref for Image {
    type Target = Record;

    fn deref(&self) -> &Record {
        &self.record
    }
}

/// Another record with the same key, value and metadata.
fn copy(record: &Record) -> Record {
    match Kind::of(record.kind()) {
        Kind::StrEmbedded | Kind::StrRaw | Kind::StrInt => flat(record),
        Kind::ListPacked | Kind::ListTwoWay | Kind::SetInts | Kind::SetPacked => flat(record),
        Kind::ZsetPacked | Kind::HashPacked => flat(record),
        Kind::StrBlob
        | Kind::ListChunks
        | Kind::SetTable
        | Kind::ZsetTree
        | Kind::HashTable
        | Kind::Stream => {
            // No time has come yet: the fields of a hash stay as they are.
            value::duplicate(record, record.key(), record.expiry(), record.clock(), i64::MIN)
        }
    }
}

/// A copy of a record that owns nothing beside its allocation.
fn flat(record: &Record) -> Record {
    let (kind, clock) = (record.kind(), record.clock());
    let mut copy = Record::from_bytes(record.key(), record.expiry(), kind, clock, record.payload());
    copy.set_owner_flags(record.owner_flags());
    copy
}

//! What a visitor is given: one key as it was at the cut.

use std::ops::Deref;
use weft_types::{Record, Shared};

/// A key with its value and its expiry as they were at the cut. Dereferences to the record. The access clock is
/// that of the moment at which the image was made.
///
/// A large value shares its pieces with the key, whatever is changed there. The image
/// belongs to who gets it, and may be sent to another thread to be encoded there. Fields of a
/// hash whose time was over at the cut may still be in it.
#[derive(Debug)]
pub struct Image {
    /// Large values share their pieces with the keyspace.
    shared: Shared,
    db: u32,
    shard: u16,
    /// What is on the account for it.
    bytes: usize,
}

impl Image {
    /// Of a record in `shard` and database `db`, as that was numbered at the cut.
    pub(super) fn new(shard: u16, db: u32, record: &Record) -> Image {
        Image { shared: Shared::of(record), db, shard, bytes: 0 }
    }

    /// Notes how many bytes it takes, which the answer is: about, and without what writers copy since
    /// it shares that with them. O(1).
    pub(super) fn weigh(&mut self) -> usize {
        self.bytes = size_of::<Image>() + self.shared.own_memory();
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

    /// The value as it is shared, for who writes it and lets go of it on the way.
    pub fn into_shared(self) -> Shared {
        self.shared
    }

    /// The record, which may be large: to be dropped where that may take its time.
    pub fn into_record(self) -> Record {
        self.shared.into_waste()
    }
}

impl Deref for Image {
    type Target = Record;

    fn deref(&self) -> &Record {
        &self.shared
    }
}

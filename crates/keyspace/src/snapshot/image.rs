//! The image of one key as it was at the cut, for a visitor.

use super::account::Account;
use std::ops::Deref;
use weft_types::{Kind, Record, Shared, value};

/// A key with its value and its expiry as they were at the cut. Dereferences to the record. The
/// access clock is that of the moment when the image was made.
///
/// A large value shares its pieces with the key, and later writes to the key do not change them.
/// The receiver owns the image and may send it to another thread for encoding. Hash fields that
/// had expired at the cut may still be in it.
#[derive(Debug)]
pub struct Image {
    /// Large values share their pieces with the keyspace.
    shared: Shared,
    db: u32,
    shard: u16,
    /// The bytes added to the account for it.
    bytes: usize,
    /// Its number among the images of values in pieces; 0: not such a value.
    number: u64,
    /// The extra priority of its shard for walkers.
    urgency: usize,
}

/// Its writers copy pieces until it is written.
const URGENCY: usize = 1 << 30;

impl Image {
    /// Of a record in `shard` and database `db`, as numbered at the cut.
    pub(super) fn new(shard: u16, db: u32, record: &Record) -> Image {
        Image { shared: Shared::of(record), db, shard, bytes: 0, number: 0, urgency: 0 }
    }

    /// Records on `account` that it shares the pieces of its value, if it has some.
    pub(super) fn share(mut self, account: &Account) -> Image {
        if is_in_pieces(&self.shared) {
            self.number = account.share(self.db, self.shared.key());
        }
        self
    }

    /// Makes walkers prefer its shard, if its writers copy pieces.
    pub(super) fn prioritize(&mut self, account: &Account) {
        if self.number != 0 {
            self.urgency = URGENCY;
            account.prioritize(self.shard, URGENCY);
        }
    }

    /// The charges of [`Image::weigh`], [`Image::share`] and [`Image::prioritize`], to subtract from
    /// the account when a visitor has finished with it.
    pub(super) fn charge(&self) -> Charge {
        let name = (self.number != 0).then(|| self.shared.key().into());
        let Image { db, shard, bytes, number, urgency, .. } = *self;
        Charge { db, shard, bytes, number, urgency, name }
    }

    /// Computes, stores and returns its approximate memory, without the copies that writers make
    /// because it shares pieces. O(1).
    pub(super) fn weigh(&mut self) -> usize {
        self.bytes = size_of::<Image>() + self.shared.extra_memory();
        self.bytes
    }

    /// The database of the key at the cut.
    pub fn db(&self) -> usize {
        self.db as usize
    }

    /// The shared value, for a writer that releases its pieces on the way.
    pub fn into_shared(self) -> Shared {
        self.shared
    }

    /// The record, which may be large: drop it where that may take time.
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

/// Whether a writer of the value copies a part of it while an image shares it.
fn is_in_pieces(record: &Record) -> bool {
    /// Copying a string up to this length is cheap.
    const SHORT: usize = 64 << 10;
    value::pieces(record, 1) > 0
        && (Kind::of(record.kind()) != Kind::StrBlob || value::memory(record, 1) > SHORT)
}

/// The charges of an image on the account.
pub(super) struct Charge {
    db: u32,
    shard: u16,
    bytes: usize,
    number: u64,
    urgency: usize,
    name: Option<Box<[u8]>>,
}

impl Charge {
    /// A visitor has finished with the image: subtracts its charges.
    pub(super) fn settle(self, account: &Account) {
        account.sub(self.shard, self.bytes);
        account.deprioritize(self.shard, self.urgency);
        if let Some(name) = &self.name {
            account.unshare(self.number, self.db, name);
        }
    }
}

//! What a visitor is given: one key as it was at the cut.

use super::account::Account;
use std::ops::Deref;
use weft_types::{Kind, Record, Shared, value};

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
    /// Among the images of values in pieces; 0: it is of another.
    number: u64,
    /// What it is worth to a walker that looks for work, beside its bytes.
    urgency: usize,
}

/// Its writers copy pieces until it is written.
const URGENCY: usize = 1 << 30;

impl Image {
    /// Of a record in `shard` and database `db`, as that was numbered at the cut.
    pub(super) fn new(shard: u16, db: u32, record: &Record) -> Image {
        Image { shared: Shared::of(record), db, shard, bytes: 0, number: 0, urgency: 0 }
    }

    /// Notes on `account` that it shares the pieces of its value, if that has some.
    pub(super) fn share(mut self, account: &Account) -> Image {
        if is_in_pieces(&self.shared) {
            self.number = account.share(self.db, self.shared.key());
        }
        self
    }

    /// Has walkers prefer its shard, if its writers copy pieces.
    pub(super) fn urge(&mut self, account: &Account) {
        if self.number != 0 {
            self.urgency = URGENCY;
            account.urge(self.shard, URGENCY);
        }
    }

    /// What [`Image::weigh`], [`Image::share`] and [`Image::urge`] have noted, to be taken off the account when a visitor
    /// is done with it.
    pub(super) fn charge(&self) -> Charge {
        let name = (self.number != 0).then(|| self.shared.key().into());
        let Image { db, shard, bytes, number, urgency, .. } = *self;
        Charge { db, shard, bytes, number, urgency, name }
    }

    /// Notes how many bytes it takes, which the answer is: about, and without what writers copy since
    /// it shares that with them. O(1).
    pub(super) fn weigh(&mut self) -> usize {
        self.bytes = size_of::<Image>() + self.shared.own_memory();
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

/// Whether who changes the value copies a part of it while an image has that.
fn is_in_pieces(record: &Record) -> bool {
    /// A string up to here is copied without a thought.
    const SHORT: usize = 64 << 10;
    value::pieces(record, 1) > 0
        && (Kind::of(record.kind()) != Kind::StrBlob || value::memory(record, 1) > SHORT)
}

/// What an image has on the account.
pub(super) struct Charge {
    db: u32,
    shard: u16,
    bytes: usize,
    number: u64,
    urgency: usize,
    name: Option<Box<[u8]>>,
}

impl Charge {
    /// A visitor is done with the image.
    pub(super) fn settle(self, account: &Account) {
        account.sub(self.shard, self.bytes);
        account.urge_no_more(self.shard, self.urgency);
        if let Some(name) = &self.name {
            account.unshare(self.number, self.db, name);
        }
    }
}

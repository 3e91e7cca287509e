//! One table's part in a snapshot: how far the walk has come, and which keys it must leave out.

use super::account::Account;
use super::image::Image;
use super::planted::{self, Fault};
use crate::keyspace::{Hasher, Key};
use smallvec::{SmallVec, smallvec};
use std::collections::BTreeMap;
use std::ops::Range;
use weft_table::{Detached, KeyHasher, POSITIONS, TableMut, position};
use weft_types::{Record, RecordRef, Shared, Values};

/// What one step does under a lock, as [`weight`] counts it: some tens of microseconds.
const STEP_WEIGHT: usize = if cfg!(test) { 2 << 10 } else { 128 << 10 };

/// What it costs to visit a segment, however little is in it.
const SEGMENT_WEIGHT: usize = 256;

/// What a record costs beside its bytes, in copied bytes: the miss of a cache and an allocation.
const RECORD_WEIGHT: usize = 128;

/// Names of one hash: more than one is as good as impossible, and happens.
type Names = SmallVec<[Box<[u8]>; 1]>;

/// The walk over one table of the cut. It belongs to the table's contents and goes where they go.
#[derive(Debug)]
pub(super) struct TableWalk {
    shard: u16,
    /// The database that these contents were at the cut.
    db: u32,
    /// Keys at positions below this have been given; `POSITIONS`: all.
    cursor: u64,
    /// Keys at positions not below `cursor` that somebody has changed since the cut, by their
    /// hashes. What is in the table under these names now is not of the cut.
    kept: Kept,
}

type Kept = BTreeMap<u64, Names>;

/// Entries of `kept` that are taken out at once when the walk has passed them.
const FORGET_AT_ONCE: usize = 1024;

/// What steps have taken out under a lock, to be dropped outside of it.
#[derive(Debug, Default)]
pub(super) struct Passed {
    names: Vec<Names>,
    whole: Vec<Kept>,
}

impl Passed {
    /// Drops everything; the bytes that it took. O(names).
    pub(super) fn free(self) -> usize {
        let of = |names: &Names| names.iter().map(|name| entry_bytes(name)).sum::<usize>();
        let some: usize = self.names.iter().map(of).sum();
        some + self.whole.iter().flat_map(Kept::values).map(of).sum::<usize>()
    }
}

/// Bytes of an entry of `kept`, about.
fn entry_bytes(name: &[u8]) -> usize {
    /// A node of the tree, two thirds full, and what the allocator adds to a name.
    const ENTRY: usize = 64;
    ENTRY + name.len()
}

impl TableWalk {
    /// A walk over the contents of database `db`, of which there are none if it `is_empty`.
    pub(super) fn new(shard: u16, db: usize) -> TableWalk {
        TableWalk { shard, db: db as u32, cursor: 0, kept: Kept::new() }
    }

    /// An image of a record that these contents had at the cut.
    pub(super) fn image(&self, record: &Record) -> Image {
        Image::new(self.shard, self.db, record)
    }

    /// Whether every key of the cut was given.
    pub(super) fn is_done(&self) -> bool {
        self.cursor == POSITIONS
    }

    /// Notes that `key` is about to change, if its image is needed; the bytes that were added.
    pub(super) fn keep(&mut self, key: &Key<'_>) -> Option<usize> {
        if position(key.hash) < self.cursor && !planted::is(Fault::CursorIgnored) {
            return None;
        }
        let names = self.kept.entry(key.hash).or_insert_with(|| smallvec![]);
        if names.iter().any(|name| **name == *key.bytes) {
            return None;
        }
        names.push(key.bytes.into());
        Some(entry_bytes(key.bytes))
    }

    /// Whether [`TableWalk::keep`] would add something.
    pub(super) fn would_keep(&self, key: &Key<'_>) -> bool {
        position(key.hash) >= self.cursor && !self.is_kept(key.hash, key.bytes)
    }

    /// The first hash of a `kept` key at position `from` or behind it.
    fn first_kept(&self, from: u64) -> Option<u64> {
        self.kept.range(from << 32..).next().map(|(hash, _)| *hash)
    }

    fn is_kept(&self, hash: u64, name: &[u8]) -> bool {
        self.kept.get(&hash).is_some_and(|names| names.iter().any(|kept| **kept == *name))
    }

    /// Goes on to `to`: what is below is given, and need not be known as kept any more. O(1) beside
    /// what is taken out; what is left below the cursor harms nobody.
    fn pass(&mut self, to: u64, passed: &mut Passed) {
        self.cursor = to;
        if to == POSITIONS {
            passed.whole.push(std::mem::take(&mut self.kept));
            return;
        }
        for _ in 0..FORGET_AT_ONCE {
            match self.kept.first_entry() {
                Some(first) if position(*first.key()) < to => passed.names.push(first.remove()),
                Some(_) | None => return,
            }
        }
    }

    /// Copies the next keys of the cut out of `contents`, to the weight that is left in the batch.
    pub(super) fn step(&mut self, contents: &impl Contents, account: &Account, batch: &mut Batch) {
        while !self.is_done() && batch.weight < STEP_WEIGHT {
            let from = self.cursor;
            let Some(piece) = contents.piece(from) else {
                return self.pass(POSITIONS, &mut batch.passed);
            };
            let (to, weight) = fitting(contents, from, piece.end);
            let shown = if planted::is(Fault::MergesIgnored) { piece.start } else { from };
            // Where nothing is kept, which is the rule, no key is hashed.
            let is_any_kept = self.first_kept(from).is_some_and(|hash| position(hash) < to);
            let is_kept = |key: &[u8]| is_any_kept && self.is_kept(contents.hash(key), key);
            contents.between(shown, to, |record| {
                if account.is_live(record.expiry()) && !is_kept(record.key()) {
                    batch.images.push(self.image(&record).share(account));
                }
            });
            batch.weight += weight;
            self.pass(to, &mut batch.passed);
        }
    }
}

/// Where a step from `from` ends, at or before `end`, so that it is not too much; and its weight.
fn fitting(contents: &impl Contents, from: u64, end: u64) -> (u64, usize) {
    let mut to = end;
    loop {
        let mut sum = SEGMENT_WEIGHT;
        contents.between(from, to, |record| sum += weight(&record));
        // One position can't be cut in two.
        if sum <= STEP_WEIGHT || to - from <= 1 {
            return (to, sum);
        }
        to = from + (to - from) / 2;
    }
}

/// What it costs to make an image of `record`. O(1).
fn weight(record: &RecordRef<'_>) -> usize {
    /// A step of sharing, some ten nanoseconds.
    const SHARE_WEIGHT: usize = 64;
    RECORD_WEIGHT + record.alloc_size() + Shared::work(record) * SHARE_WEIGHT
}

/// What a step brings.
#[derive(Default)]
pub(crate) struct Batch {
    /// Of which `passed` is.
    pub(super) shard: u16,
    /// What writers have handed over, and copies of what the walk has come by.
    pub(super) images: Vec<Image>,
    /// Emptied tables that are still to be walked over.
    pub(super) orphans: Vec<Orphan>,
    pub(super) passed: Passed,
    /// How much was done under the lock.
    weight: usize,
}

impl Batch {
    /// Whether there is anything to be done for it.
    pub(super) fn is_empty(&self) -> bool {
        self.images.is_empty() && self.orphans.is_empty()
    }

    pub(super) fn is_full(&self) -> bool {
        self.weight >= STEP_WEIGHT
    }
}

/// What a walk goes over: a table, or what was taken out of one.
pub(super) trait Contents {
    /// See [`TableMut::piece`].
    fn piece(&self, at: u64) -> Option<Range<u64>>;
    /// See [`TableMut::between`].
    fn between<'s>(&'s self, from: u64, to: u64, f: impl FnMut(RecordRef<'s>));
    fn hash(&self, key: &[u8]) -> u64;
}

impl Contents for TableMut<'_, Values, Hasher> {
    fn piece(&self, at: u64) -> Option<Range<u64>> {
        TableMut::piece(self, at)
    }

    fn between<'s>(&'s self, from: u64, to: u64, f: impl FnMut(RecordRef<'s>)) {
        TableMut::between(self, from, to, f);
    }

    fn hash(&self, key: &[u8]) -> u64 {
        self.hasher().hash(key)
    }
}

/// The contents of a table that was emptied, with the walk over them.
pub(super) struct Orphan {
    walk: TableWalk,
    contents: Detached<Values>,
    hasher: Hasher,
}

impl Orphan {
    pub(super) fn new(walk: TableWalk, contents: Detached<Values>, hasher: Hasher) -> Orphan {
        Orphan { walk, contents, hasher }
    }

    pub(super) fn shard(&self) -> u16 {
        self.walk.shard
    }

    /// A step of the walk; whether it is the last.
    pub(super) fn step(&mut self, account: &Account, batch: &mut Batch) -> bool {
        self.walk.step(&(&self.contents, self.hasher), account, batch);
        self.walk.is_done()
    }
}

impl Contents for (&Detached<Values>, Hasher) {
    fn piece(&self, at: u64) -> Option<Range<u64>> {
        self.0.piece(at)
    }

    fn between<'s>(&'s self, from: u64, to: u64, f: impl FnMut(RecordRef<'s>)) {
        self.0.between(self.1, from, to, f);
    }

    fn hash(&self, key: &[u8]) -> u64 {
        self.1.hash(key)
    }
}

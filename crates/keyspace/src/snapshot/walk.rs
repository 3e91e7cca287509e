//! One table's part in a snapshot: the progress of the walk, and the keys that it must skip.

use super::account::Account;
use super::image::Image;
use super::planted::{self, Fault};
use crate::keyspace::{Hasher, Key};
use smallvec::{SmallVec, smallvec};
use std::collections::BTreeMap;
use std::ops::Range;
use weft_table::{Detached, KeyHasher, POSITIONS, TableMut, position};
use weft_types::{Record, RecordRef, Shared, Values};

/// The maximum work of one step under a lock, in units of [`weight`]: some tens of microseconds.
const STEP_WEIGHT: usize = if cfg!(test) { 2 << 10 } else { 128 << 10 };

/// The cost of visiting a segment, even an empty one.
const SEGMENT_WEIGHT: usize = 256;

/// The cost of a record in addition to its bytes, in copied bytes: a cache miss and an
/// allocation.
const RECORD_WEIGHT: usize = 128;

/// Names with one hash: more than one is very unlikely but possible.
type Names = SmallVec<[Box<[u8]>; 1]>;

/// The walk over one table of the cut. It belongs to the table's contents and moves with them.
#[derive(Debug)]
pub(super) struct TableWalk {
    shard: u16,
    /// The database of these contents at the cut.
    db: u32,
    /// Keys at positions below this have been given; `POSITIONS`: all.
    cursor: u64,
    /// Keys at positions from `cursor` on that were changed since the cut, by hash. The table's
    /// current entries under these names do not belong to the snapshot.
    kept: Kept,
}

type Kept = BTreeMap<u64, Names>;

/// How many entries of `kept` one step removes after the walk has passed them.
const FORGET_AT_ONCE: usize = 1024;

/// Entries of `kept` removed under a lock, to be dropped outside of it.
#[derive(Debug, Default)]
pub(super) struct Passed {
    names: Vec<Names>,
    whole: Vec<Kept>,
}

impl Passed {
    /// Drops everything and returns the bytes that it took. O(names).
    pub(super) fn free(self) -> usize {
        let of = |names: &Names| names.iter().map(|name| entry_bytes(name)).sum::<usize>();
        let some: usize = self.names.iter().map(of).sum();
        some + self.whole.iter().flat_map(Kept::values).map(of).sum::<usize>()
    }
}

/// Approximate bytes of an entry of `kept`.
fn entry_bytes(name: &[u8]) -> usize {
    /// A node of the tree, two thirds full, and the allocator's overhead of a name.
    const ENTRY: usize = 64;
    ENTRY + name.len()
}

impl TableWalk {
    /// A walk over the contents of database `db`.
    pub(super) fn new(shard: u16, db: usize) -> TableWalk {
        TableWalk { shard, db: db as u32, cursor: 0, kept: Kept::new() }
    }

    /// An image of a record of these contents at the cut.
    pub(super) fn image(&self, record: &Record) -> Image {
        Image::new(self.shard, self.db, record)
    }

    /// Whether every key of the cut was given.
    pub(super) fn is_done(&self) -> bool {
        self.cursor == POSITIONS
    }

    /// Records that `key` is about to change. Returns the added bytes if its image is needed.
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

    /// Whether [`TableWalk::keep`] would add an entry.
    pub(super) fn would_keep(&self, key: &Key<'_>) -> bool {
        position(key.hash) >= self.cursor && !self.is_kept(key.hash, key.bytes)
    }

    /// The first hash of a `kept` key at position `from` or later.
    fn first_kept(&self, from: u64) -> Option<u64> {
        self.kept.range(from << 32..).next().map(|(hash, _)| *hash)
    }

    fn is_kept(&self, hash: u64, name: &[u8]) -> bool {
        self.kept.get(&hash).is_some_and(|names| names.iter().any(|kept| **kept == *name))
    }

    /// Advances to `to`: keys below it are given, so their `kept` entries can go. O(removed
    /// entries), at most [`FORGET_AT_ONCE`]; remaining entries below the cursor do no harm.
    fn advance(&mut self, to: u64, passed: &mut Passed) {
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

    /// Makes images of the next keys of the cut in `contents`, up to the weight left in the
    /// batch.
    pub(super) fn step(&mut self, contents: &impl Contents, account: &Account, batch: &mut Batch) {
        while !self.is_done() && batch.weight < STEP_WEIGHT {
            let from = self.cursor;
            let Some(piece) = contents.piece(from) else {
                return self.advance(POSITIONS, &mut batch.passed);
            };
            let (to, weight) = fit_step(contents, from, piece.end);
            let shown = if planted::is(Fault::MergesIgnored) { piece.start } else { from };
            // Usually no key is kept, and then no key is hashed.
            let is_any_kept = self.first_kept(from).is_some_and(|hash| position(hash) < to);
            let is_kept = |key: &[u8]| is_any_kept && self.is_kept(contents.hash(key), key);
            contents.between(shown, to, |record| {
                if account.is_live(record.expiry()) && !is_kept(record.key()) {
                    batch.images.push(self.image(&record).share(account));
                }
            });
            batch.weight += weight;
            self.advance(to, &mut batch.passed);
        }
    }
}

/// Where a step from `from` ends, at or before `end`, to stay within the limit; and its weight.
fn fit_step(contents: &impl Contents, from: u64, end: u64) -> (u64, usize) {
    let mut to = end;
    loop {
        let mut sum = SEGMENT_WEIGHT;
        contents.between(from, to, |record| sum += weight(&record));
        // One position can't be split.
        if sum <= STEP_WEIGHT || to - from <= 1 {
            return (to, sum);
        }
        to = from + (to - from) / 2;
    }
}

/// The cost of making an image of `record`. O(1).
fn weight(record: &RecordRef<'_>) -> usize {
    /// One unit of sharing work takes some ten nanoseconds.
    const SHARE_WEIGHT: usize = 64;
    RECORD_WEIGHT + record.alloc_size() + Shared::work(record) * SHARE_WEIGHT
}

/// The output of a step.
#[derive(Default)]
pub(crate) struct Batch {
    /// The shard that `passed` belongs to.
    pub(super) shard: u16,
    /// Images handed over by writers, and images made by the walk.
    pub(super) images: Vec<Image>,
    /// Emptied tables that still have to be walked.
    pub(super) orphans: Vec<Orphan>,
    pub(super) passed: Passed,
    /// The work done under the lock.
    weight: usize,
}

impl Batch {
    /// Whether it has nothing to process.
    pub(super) fn is_empty(&self) -> bool {
        self.images.is_empty() && self.orphans.is_empty()
    }

    pub(super) fn is_full(&self) -> bool {
        self.weight >= STEP_WEIGHT
    }
}

/// The contents that a walk visits: a table, or contents removed from one.
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

/// The contents of an emptied table, with their walk.
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

    /// One step of the walk. Returns whether it was the last.
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

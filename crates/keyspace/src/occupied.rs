//! Which shards of a database may have keys: sums over a database skip the empty ones.
//!
//! A database is spread over all shards, and there may be thousands of databases: INFO would load
//! 256 cache lines for each, most of them for empty tables. So each table has a bit, in half a
//! cache line per database. The thread that inserts the first key into a table sets its bit while
//! it holds the shard. The bit stays set when the table becomes empty again, so that a key that
//! is created and deleted all the time causes no writes to shared memory. The bit is cleared when
//! a whole database is emptied, and by a sum that finds the table empty and can take the shard.
//! The loom models leave the bits out: only the holder of the shard writes them, and readers
//! expect outdated values.

use crate::keyspace::SHARDS;
use std::sync::atomic::{AtomicU64, Ordering};

const BITS: usize = u64::BITS as usize;
/// Words of one database.
const WORDS: usize = SHARDS.div_ceil(BITS);

#[derive(Debug)]
pub(crate) struct Occupied {
    /// A bit per table, by database.
    tables: Box<[AtomicU64]>,
    /// The same bits by shard, for a thread that holds one shard and visits all databases.
    by_shard: Box<[AtomicU64]>,
    /// Words of one shard.
    words: usize,
    /// A bit for each database that has ever had a key. It is never cleared: threads that hold
    /// other shards of the database could set it at the same time.
    databases: Box<[AtomicU64]>,
}

/// The indexes of the bits set in these words, in ascending order.
fn bits(words: &[AtomicU64]) -> impl Iterator<Item = usize> + '_ {
    words.iter().enumerate().flat_map(|(n, word)| {
        let mut left = word.load(Ordering::Relaxed);
        std::iter::from_fn(move || {
            let bit = left.trailing_zeros();
            left &= left.wrapping_sub(1);
            (bit < u64::BITS).then(|| n * BITS + bit as usize)
        })
    })
}

fn set(word: &AtomicU64, bit: u64) {
    if word.load(Ordering::Relaxed) & bit == 0 {
        word.fetch_or(bit, Ordering::Relaxed);
    }
}

impl Occupied {
    pub(crate) fn new(databases: usize) -> Self {
        let words = |count: usize| (0..count).map(|_| AtomicU64::new(0)).collect();
        let of_shard = databases.div_ceil(BITS);
        Occupied {
            tables: words(databases * WORDS),
            by_shard: words(SHARDS * of_shard),
            words: of_shard,
            databases: words(of_shard),
        }
    }

    fn words(&self, db: usize) -> &[AtomicU64] {
        &self.tables[db * WORDS..][..WORDS]
    }

    fn word(&self, shard: u16, db: usize) -> (&AtomicU64, u64) {
        let shard = usize::from(shard);
        (&self.words(db)[shard / BITS], 1 << (shard % BITS))
    }

    /// The table has a key. Only the holder of the shard may call this.
    pub(crate) fn note(&self, shard: u16, db: usize) {
        let (word, bit) = self.word(shard, db);
        set(word, bit);
        set(self.word_of(shard, db), 1 << (db % BITS));
        set(&self.databases[db / BITS], 1 << (db % BITS));
    }

    /// The databases that may have keys, in ascending order.
    pub(crate) fn databases(&self) -> impl Iterator<Item = usize> + '_ {
        bits(&self.databases)
    }

    /// The table is empty. Only the holder of the shard may call this.
    pub(crate) fn forget(&self, shard: u16, db: usize) {
        let (word, bit) = self.word(shard, db);
        if word.load(Ordering::Relaxed) & bit != 0 {
            word.fetch_and(!bit, Ordering::Relaxed);
            self.word_of(shard, db).fetch_and(!(1 << (db % BITS)), Ordering::Relaxed);
        }
    }

    /// The word of `by_shard` with the bit of this table.
    fn word_of(&self, shard: u16, db: usize) -> &AtomicU64 {
        &self.by_shard[usize::from(shard) * self.words + db / BITS]
    }

    /// The databases of which `shard` may have keys, in ascending order; all others are empty
    /// there. For the holder of the shard. O(databases / 64).
    pub(crate) fn databases_of(&self, shard: u16) -> impl Iterator<Item = usize> + '_ {
        bits(&self.by_shard[usize::from(shard) * self.words..][..self.words])
    }

    /// The shards that may have keys of database `db`, in ascending order.
    pub(crate) fn shards(&self, db: usize) -> impl Iterator<Item = u16> + '_ {
        bits(self.words(db)).map(|shard| shard as u16)
    }

    /// How many tables may have keys. O(databases that have ever had keys).
    pub(crate) fn count(&self) -> usize {
        let of = |db| self.words(db).iter().map(|word| word.load(Ordering::Relaxed).count_ones());
        self.databases().flat_map(of).sum::<u32>() as usize
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn bits_by_database() {
        let occupied = Occupied::new(3);
        for shard in [255, 0, 63, 64, 0] {
            occupied.note(shard, 1);
        }
        occupied.note(7, 2);
        let of = |db| occupied.shards(db).collect::<Vec<_>>();
        let of_shard = |shard| occupied.databases_of(shard).collect::<Vec<_>>();
        assert_eq!((of_shard(7), of_shard(63), of_shard(8)), (vec![2], vec![1], vec![]));
        assert_eq!((of(0), of(1), of(2)), (vec![], vec![0, 63, 64, 255], vec![7]));
        occupied.forget(63, 1);
        occupied.forget(62, 1);
        assert_eq!((of(1), occupied.count()), (vec![0, 64, 255], 4));
        assert_eq!((of_shard(63), of_shard(62), of_shard(64)), (vec![], vec![], vec![1]));
        assert_eq!(occupied.databases().collect::<Vec<_>>(), [1, 2]);
    }
}

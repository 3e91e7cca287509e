//! The tables of all shards and databases.
//!
//! ```text
//!  databases 0 to 15   one row of tables, database by database, allocated at the start
//!  all others          made when somebody first touches them, eight shards of a database at a time
//! ```
//!
//! The row is database-major: the roots of the most used database are contiguous, 64 bytes each,
//! and stay in the first-level cache. (Shard-major, with a stride of a kilobyte, they competed
//! for four cache sets.) Servers with ten thousand databases use few of them, or put few keys
//! into each: allocating all roots would take 160 MB.

use crate::Table;
use crate::keyspace::{Hasher, SHARDS};
use std::sync::OnceLock;

/// The default number of databases.
const EAGER_DATABASES: usize = 16;

/// Shards of one database whose tables are allocated together.
const PART: usize = if SHARDS < 8 { SHARDS } else { 8 };

type Part = OnceLock<Box<[Table]>>;

pub(crate) struct Tables {
    first: Box<[Table]>,
    rest: Box<[Part]>,
    hasher: Hasher,
}

impl Tables {
    pub(crate) fn new(databases: usize, hasher: Hasher) -> Self {
        let first =
            (0..SHARDS * databases.min(EAGER_DATABASES)).map(|_| Table::new(hasher)).collect();
        let parts = SHARDS / PART * databases.saturating_sub(EAGER_DATABASES);
        Tables { first, rest: (0..parts).map(|_| Part::new()).collect(), hasher }
    }

    /// The table of `shard` in database `db`, which must exist.
    #[inline]
    pub(crate) fn get(&self, shard: u16, db: usize) -> &Table {
        match self.first.get(db * SHARDS + usize::from(shard)) {
            Some(table) => table,
            None => self.get_rest(shard, db),
        }
    }

    #[cold]
    fn get_rest(&self, shard: u16, db: usize) -> &Table {
        let (part, at) = Self::locate(shard, db);
        let tables = || (0..PART).map(|_| Table::new(self.hasher)).collect();
        &self.rest[part].get_or_init(tables)[at]
    }

    /// The same, or `None` if it was never accessed: then it is empty.
    #[inline]
    pub(crate) fn touched(&self, shard: u16, db: usize) -> Option<&Table> {
        let first = self.first.get(db * SHARDS + usize::from(shard));
        first.or_else(|| {
            let (part, at) = Self::locate(shard, db);
            self.rest[part].get().map(|tables| &tables[at])
        })
    }

    /// For a table outside of the first row: its part, and its index in it.
    fn locate(shard: u16, db: usize) -> (usize, usize) {
        let at = (db - EAGER_DATABASES) * SHARDS + usize::from(shard);
        (at / PART, at % PART)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::keyspace::Keyspace;
    use std::collections::HashSet;

    #[test]
    fn each_table_is_another_one_and_stays() {
        let tables =
            Tables::new(EAGER_DATABASES + 3, Keyspace::seeded(1, 1, 1).table(0, 0).hasher());
        let all =
            || (0..EAGER_DATABASES + 3).flat_map(|db| (0..SHARDS as u16).map(move |s| (s, db)));
        assert!(tables.touched(7, EAGER_DATABASES + 1).is_none() && tables.touched(7, 0).is_some());
        let at: Vec<*const Table> = all().map(|(s, db)| &raw const *tables.get(s, db)).collect();
        assert_eq!(at.iter().collect::<HashSet<_>>().len(), (EAGER_DATABASES + 3) * SHARDS);
        for ((shard, db), table) in all().zip(at) {
            let is_it = |found: &Table| std::ptr::eq(found, table);
            assert!(is_it(tables.get(shard, db)) && tables.touched(shard, db).is_some_and(is_it));
        }
    }
}

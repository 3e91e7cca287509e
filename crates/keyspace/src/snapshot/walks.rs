//! The walks over the tables of one shard. There may be thousands of databases, few with keys in
//! the shard.

use super::walk::TableWalk;
use crate::keyspace::Keyspace;

/// Walks by current database number, in ascending order. A table without a walk has no key of the
/// cut.
#[derive(Debug)]
pub(super) struct Walks(Vec<(usize, TableWalk)>);

impl Walks {
    /// Walks for the current tables. The caller holds the shard. O(databases in use).
    pub(super) fn of(ks: &Keyspace, shard: u16) -> Walks {
        let in_use = ks.occupied.databases_of(shard);
        let with_keys = in_use.filter(|db| ks.shard_len(shard, *db) > 0);
        Walks(with_keys.map(|db| (db, TableWalk::new(shard, db))).collect())
    }

    fn index_of(&self, db: usize) -> Result<usize, usize> {
        self.0.binary_search_by_key(&db, |(db, _)| *db)
    }

    /// The walk over database `db`. O(log walks).
    pub(super) fn get(&self, db: usize) -> Option<&TableWalk> {
        self.index_of(db).ok().map(|at| &self.0[at].1)
    }

    pub(super) fn get_mut(&mut self, db: usize) -> Option<&mut TableWalk> {
        self.index_of(db).ok().map(|at| &mut self.0[at].1)
    }

    /// Removes the walk over database `db`. O(walks).
    pub(super) fn remove(&mut self, db: usize) -> Option<TableWalk> {
        self.index_of(db).ok().map(|at| self.0.remove(at).1)
    }

    /// The contents of two databases are exchanged. O(walks).
    pub(super) fn swap(&mut self, a: usize, b: usize) {
        if a == b {
            return;
        }
        let (of_a, of_b) = (self.remove(a), self.remove(b));
        for (db, walk) in [(b, of_a), (a, of_b)] {
            if let (Some(walk), Err(at)) = (walk, self.index_of(db)) {
                self.0.insert(at, (db, walk));
            }
        }
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = (usize, &mut TableWalk)> {
        self.0.iter_mut().map(|(db, walk)| (*db, walk))
    }

    pub(super) fn are_done(&self) -> bool {
        self.0.iter().all(|(_, walk)| walk.is_done())
    }
}

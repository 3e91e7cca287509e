//! What a snapshot needs of who changes keys: old values, and tables that are emptied or exchanged.
//!
//! See [`crate::snapshot`]. All of this is behind a look at the shard's interest.

use super::{Db, Detached};
use crate::guard::Guard;
use crate::interest::{REPLICA_EXPIRY, SNAPSHOT};
use crate::keyspace::Key;
use crate::snapshot::shards;
use crate::snapshot::walk::Batch;

impl Db<'_> {
    /// A snapshot is being taken, or the shard is held by a command of the slow lane, which must be
    /// known to write, or this is a replica that clients write to.
    ///
    /// Asks for no more than it needs, so that a `Db` can stay in registers.
    #[cold]
    #[inline(never)]
    pub(super) fn keep(guard: &Guard<'_>, index: usize, key: &Key<'_>) {
        guard.writes();
        let ks = guard.keyspace();
        if ks.interest(key.shard) & REPLICA_EXPIRY != 0 {
            let found = Db::table_in(guard, key.shard, index).into_found(key.hash, key.bytes);
            ks.noted.before_write(key.shard, found.and_then(|record| record.expiry()));
        }
        // By now, which may be the cause: see `snapshot::begin`.
        if ks.interest(key.shard) & SNAPSHOT == 0 {
            return;
        }
        let found = Db::table_in(guard, key.shard, index).into_found(key.hash, key.bytes);
        shards::keep(ks, index, key, found.as_deref());
    }

    /// What was taken out of this database's table of `shard`, unless a snapshot keeps it.
    pub(super) fn unless_kept(&mut self, shard: u16, contents: Detached) -> Option<Detached> {
        shards::take(self.keyspace(), shard, self.index, contents)
    }

    /// The contents of this database and of `other` are exchanged in `shard`.
    pub(super) fn exchanged(&mut self, shard: u16, other: usize) {
        shards::swap(self.keyspace(), shard, self.index, other);
    }

    /// A step of the walk of a snapshot over the tables of `shard`, which the guard must hold;
    /// whether it is the last. What is copied comes into `batch`.
    pub(crate) fn snapshot_step(&mut self, shard: u16, batch: &mut Batch) -> bool {
        let ks = self.keyspace();
        shards::step(ks, shard, |db| Db::table_in(self.guard, shard, db), batch)
    }
}

//! The duties of writers for a snapshot: they keep old values, and tables that are emptied or exchanged.
//!
//! See [`crate::snapshot`]. Callers check the shard's interest bits first.

use super::{Db, Detached};
use crate::guard::Guard;
use crate::interest::{REPLICA_EXPIRY, SNAPSHOT};
use crate::keyspace::Key;
use crate::snapshot::shards;
use crate::snapshot::walk::Batch;

impl Db<'_> {
    /// Called before a write when a snapshot is being taken, when a slow-lane command holds the
    /// shard (its first write must be noted), or on a writable replica.
    ///
    /// Takes no `&mut Db`, so that a `Db` can stay in registers.
    #[cold]
    #[inline(never)]
    pub(super) fn keep(guard: &Guard<'_>, index: usize, key: &Key<'_>) {
        guard.before_write();
        let ks = guard.keyspace();
        if ks.interest(key.shard) & REPLICA_EXPIRY != 0 {
            let found = Db::table_in(guard, key.shard, index).into_found(key.hash, key.bytes);
            ks.noted.before_write(key.shard, found.and_then(|record| record.expiry()));
        }
        // The bit may have been set by `guard.before_write()` above: see `snapshot::begin`.
        if ks.interest(key.shard) & SNAPSHOT == 0 {
            return;
        }
        let found = Db::table_in(guard, key.shard, index).into_found(key.hash, key.bytes);
        shards::keep(ks, index, key, found.as_deref());
    }

    /// Returns the contents removed from this database's table of `shard`, unless a snapshot
    /// keeps them.
    pub(super) fn unless_snapshot_keeps(
        &mut self,
        shard: u16,
        contents: Detached,
    ) -> Option<Detached> {
        shards::take(self.keyspace(), shard, self.index, contents)
    }

    /// Records that the contents of this database and of `other` were exchanged in `shard`.
    pub(super) fn note_exchanged(&mut self, shard: u16, other: usize) {
        shards::swap(self.keyspace(), shard, self.index, other);
    }

    /// One step of a snapshot's walk over the tables of `shard`, which the guard must hold.
    /// Copies keys into `batch` and returns whether this step was the last.
    pub(crate) fn snapshot_step(&mut self, shard: u16, batch: &mut Batch) -> bool {
        let ks = self.keyspace();
        shards::step(ks, shard, |db| Db::table_in(self.guard, shard, db), batch)
    }
}

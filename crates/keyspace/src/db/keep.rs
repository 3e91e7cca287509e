//! The duties of writers for a snapshot: they keep old values, and tables that are emptied or exchanged.
//!
//! See [`crate::snapshot`]. Callers check the shard's interest bits first.

use super::{Db, Detached};
use crate::context::ExecContext;
use crate::guard::Guard;
use crate::interest::{REPLICA_EXPIRY, SNAPSHOT, UNDO};
use crate::keyspace::Key;
use crate::snapshot::shards;
use crate::snapshot::walk::Batch;
use weft_types::{Record, Shared};

impl Db<'_> {
    /// Called before a write when a snapshot is being taken, when a slow-lane command holds the
    /// shard (its first write must be noted), on a writable replica, or in a script that may start
    /// over.
    ///
    /// Takes no `&mut Db`, so that a `Db` can stay in registers.
    #[cold]
    #[inline(never)]
    pub(super) fn keep(guard: &Guard<'_>, context: &mut ExecContext, index: usize, key: &Key<'_>) {
        guard.before_write();
        let ks = guard.keyspace();
        if ks.interest(key.shard()) & UNDO != 0
            && let Some(undo) = &mut context.undo
        {
            undo.old.keep(index, key.bytes, || {
                let found = Db::table_in(guard, key.shard(), index).into_found(key.hash, key.bytes);
                found.as_deref().map(Shared::of)
            });
        }
        if ks.interest(key.shard()) & REPLICA_EXPIRY != 0 {
            let found = Db::table_in(guard, key.shard(), index).into_found(key.hash, key.bytes);
            ks.noted.before_write(key.shard(), found.and_then(|record| record.expiry()));
        }
        // The bit may have been set by `guard.before_write()` above: see `snapshot::begin`.
        if ks.interest(key.shard()) & SNAPSHOT == 0 {
            return;
        }
        let found = Db::table_in(guard, key.shard(), index).into_found(key.hash, key.bytes);
        shards::keep(ks, index, key, found.as_deref());
    }

    /// Makes `name` what it was: `old`, or absent. No listener is notified, since none was notified of the changes.
    pub(crate) fn restore(&mut self, name: &[u8], old: Option<Record>) {
        let key = self.key(name);
        let mut table = self.table(key.shard());
        let dead = match old {
            None => table.remove(key.hash, key.bytes),
            Some(old) => match table.find_mut(key.hash, key.bytes) {
                Some(slot) => Some(slot.replace(old)),
                None => {
                    table.insert(key.hash, old);
                    self.note_first(key.shard());
                    None
                }
            },
        };
        if let Some(dead) = dead {
            self.context.discard(dead);
        }
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

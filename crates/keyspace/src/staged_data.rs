//! A second data set that is loaded while the current one is served, and replaces it in one step.
//!
//! During a full sync a replica may keep serving its old data until the new data are loaded
//! ([`StagedData`]). The new tables have the layout of the keyspace; each shard's tables have a
//! mutex, so that several threads may fill them. [`Guard::exchange_all`] then installs them with
//! the world stopped, in O(shards * databases).

use crate::Table;
use crate::context::ExecContext;
use crate::db::{Db, Taken};
use crate::guard::Guard;
use crate::keyspace::{Hasher, Keyspace, SHARDS};
use crate::sync::{Mutex, lock};
use std::fmt;
use weft_types::Record;

/// Tables of all shards and databases from which no client is served yet.
pub struct StagedData {
    /// By shard, then by database.
    shards: Box<[Mutex<Vec<Table>>]>,
    hasher: Hasher,
}

impl fmt::Debug for StagedData {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Beside").finish_non_exhaustive()
    }
}

impl StagedData {
    /// An empty data set for `ks`.
    #[must_use]
    pub fn new(ks: &Keyspace) -> StagedData {
        let hasher = ks.table(0, 0).hasher();
        let tables = || (0..ks.databases()).map(|_| Table::new(hasher)).collect();
        let shards = (0..SHARDS).map(|_| Mutex::new(tables())).collect();
        StagedData { shards, hasher }
    }

    /// Inserts records of one shard, each with its database.
    ///
    /// # Errors
    /// A key already exists: its record.
    pub fn load(
        &self,
        shard: u16,
        records: impl Iterator<Item = (usize, Record)>,
    ) -> Result<(), Record> {
        let mut tables = lock(&self.shards[usize::from(shard)]);
        for (db, record) in records {
            let mut table = tables[db].get_mut();
            let hash = weft_table::KeyHasher::hash(&self.hasher, record.key());
            if table.find(hash, record.key()).is_some() {
                return Err(record);
            }
            table.insert(hash, record);
        }
        Ok(())
    }

    /// The number of keys. O(shards * databases).
    #[must_use]
    pub fn keys(&self) -> u64 {
        let of_shard =
            |tables: &Mutex<Vec<Table>>| lock(tables).iter().map(Table::len).sum::<usize>();
        self.shards.iter().map(of_shard).sum::<usize>() as u64
    }
}

impl Guard<'_> {
    /// Replaces all data by `staged`, which must have been created for this keyspace, and returns
    /// the old data. Watches, walks and clients that cache keys are notified as if all databases
    /// had been emptied. The world must be stopped. Dropping the returned data is O(n).
    ///
    /// # Panics
    /// If the world is not stopped.
    #[must_use]
    pub fn exchange_all(&self, context: &mut ExecContext, staged: StagedData) -> Vec<Taken> {
        assert!(self.is_world(), "data are exchanged while the world is stopped");
        let ks = self.keyspace();
        let taken = (0..ks.databases()).map(|db| Db::new(self, context, db).take_all()).collect();
        for (shard, tables) in staged.shards.into_iter().enumerate() {
            let tables = tables.into_inner().unwrap_or_else(|p| p.into_inner());
            for (db, mut table) in tables.into_iter().enumerate() {
                Db::new(self, context, db).put_table(shard as u16, &mut table);
            }
        }
        Db::new(self, context, 0).notify_emptied();
        taken
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::commit::settle;
    use crate::hold::Outside;
    use std::sync::Arc;
    use weft_types::string::{New, record};

    #[test]
    fn exchange_all_replaces_all_data() {
        let ks = Keyspace::new(2, 1, Box::new(|_| {}));
        let mut context = ExecContext::new(1000, 1);
        let mut inside = Outside::new(&ks, 0).enter();
        let staged = StagedData::new(&ks);
        let one = |name: &[u8]| record(name, New::Bytes(b"v"), Some(5000), 0);
        for n in 0..1000u32 {
            let name = n.to_string().into_bytes();
            let shard = ks.shard(&name);
            staged.load(shard, [(1, one(&name))].into_iter()).expect("new");
            assert!(staged.load(shard, [(1, one(&name))].into_iter()).is_err());
        }
        assert_eq!(staged.keys(), 1000);
        let guard = inside.world(&mut context).expect("the slow lane is idle");
        let mut db = Db::new(&guard, &mut context, 0);
        let old = db.key(b"old");
        db.set(&old, one(b"old"));
        let watch = Arc::new(crate::Watch::default());
        let _ = db.watch(&old, &watch);
        let taken = guard.exchange_all(&mut context, staged);
        settle(&guard, &mut context);
        assert_eq!(taken.iter().map(|taken| taken.keys).sum::<u64>(), 1);
        assert!(watch.is_broken());
        assert_eq!((ks.counts(0), ks.counts(1)), ((0, 0), (1000, 1000)));
        let key = ks.key(b"77");
        assert!(Db::new(&guard, &mut context, 1).read(&key).is_some());
        drop(guard);
        context.free_removed();
    }
}

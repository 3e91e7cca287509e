//! Data that are loaded beside those that are served, and take their place at once.
//!
//! A replica that gets a copy of its primary may go on answering from what it has until the copy is there
//! ([`Beside`]). The copy's tables are as those of the keyspace, each behind a mutex of its own, so that any
//! number of threads may fill them; [`Guard::exchange_all`] then puts them in with the world stopped,
//! in O(shards * databases).

use crate::Table;
use crate::db::{Db, Taken};
use crate::guard::Guard;
use crate::keyspace::{Hasher, Keyspace, SHARDS};
use crate::sync::{Mutex, lock};
use crate::turn::Turn;
use std::fmt;
use weft_types::Record;

/// Tables of all shards and databases that nobody is served from.
pub struct Beside {
    /// By shard, then by database.
    shards: Box<[Mutex<Vec<Table>>]>,
    hasher: Hasher,
}

impl fmt::Debug for Beside {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Beside").finish_non_exhaustive()
    }
}

impl Beside {
    /// Without any keys, for `ks`.
    #[must_use]
    pub fn new(ks: &Keyspace) -> Beside {
        let hasher = ks.table(0, 0).hasher();
        let tables = || (0..ks.databases()).map(|_| Table::new(hasher)).collect();
        let shards = (0..SHARDS).map(|_| Mutex::new(tables())).collect();
        Beside { shards, hasher }
    }

    /// Puts in what belongs to one shard, each record with its database.
    ///
    /// # Errors
    /// A key is there already: its record.
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

    /// How many keys there are. O(shards * databases).
    #[must_use]
    pub fn keys(&self) -> u64 {
        let of_shard =
            |tables: &Mutex<Vec<Table>>| lock(tables).iter().map(Table::len).sum::<usize>();
        self.shards.iter().map(of_shard).sum::<usize>() as u64
    }
}

impl Guard<'_> {
    /// Puts the data of `beside`, which was made for this keyspace, in the place of all there are. Who
    /// watches a key, walks over all or keeps what it has read is told as if all databases had been
    /// emptied. The world is stopped. What there was is the answer; dropping that is O(n).
    ///
    /// # Panics
    /// If the world is not stopped.
    #[must_use]
    pub fn exchange_all(&self, turn: &mut Turn, beside: Beside) -> Vec<Taken> {
        assert!(self.is_world(), "data are exchanged while the world is stopped");
        let ks = self.keyspace();
        let taken = (0..ks.databases()).map(|db| Db::new(self, turn, db).take_all()).collect();
        for (shard, tables) in beside.shards.into_iter().enumerate() {
            let tables = tables.into_inner().unwrap_or_else(|p| p.into_inner());
            for (db, mut table) in tables.into_iter().enumerate() {
                Db::new(self, turn, db).put_table(shard as u16, &mut table);
            }
        }
        Db::new(self, turn, 0).tell_emptied();
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
    fn what_was_loaded_beside_takes_the_place_of_all() {
        let ks = Keyspace::new(2, 1, Box::new(|_| {}));
        let mut turn = Turn::new(1000, 1);
        let mut inside = Outside::new(&ks, 0).enter();
        let beside = Beside::new(&ks);
        let one = |name: &[u8]| record(name, New::Bytes(b"v"), Some(5000), 0);
        for n in 0..1000u32 {
            let name = n.to_string().into_bytes();
            let shard = ks.shard(&name);
            beside.load(shard, [(1, one(&name))].into_iter()).expect("new");
            assert!(beside.load(shard, [(1, one(&name))].into_iter()).is_err());
        }
        assert_eq!(beside.keys(), 1000);
        let guard = inside.world(&mut turn).expect("nobody else");
        let mut db = Db::new(&guard, &mut turn, 0);
        let old = db.key(b"old");
        db.set(&old, one(b"old"));
        let watch = Arc::new(crate::Watch::default());
        let _ = db.watch(&old, &watch);
        let taken = guard.exchange_all(&mut turn, beside);
        settle(&guard, &mut turn);
        assert_eq!(taken.iter().map(|taken| taken.keys).sum::<u64>(), 1);
        assert!(watch.is_broken());
        assert_eq!((ks.counts(0), ks.counts(1)), ((0, 0), (1000, 1000)));
        let key = ks.key(b"77");
        assert!(Db::new(&guard, &mut turn, 1).read(&key).is_some());
        drop(guard);
        turn.drop_trash();
    }
}

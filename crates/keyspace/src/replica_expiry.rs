//! Keys whose expiry a client of a writable replica has set.
//!
//! A replica does not remove expired keys: its primary does, and sends the deletions. But the
//! primary does not know keys that clients write on the replica itself, so those would never be
//! removed. While a server is a writable replica, every shard has the bit
//! [`REPLICA_EXPIRY`](crate::interest::REPLICA_EXPIRY), and a client's command that sets the
//! expiry of a key records the key here. [`crate::expiry::expire_noted`] removes recorded keys
//! when they expire.
//!
//! Valkey keeps a set of names and samples it (`expireReplicaKeys` in `expire.c`). Here the keys
//! are also ordered by time, so a step visits expired keys only. When the primary sets the expiry
//! of a recorded key, the key is the primary's again.

use crate::interest::REPLICA_EXPIRY;
use crate::keyspace::{Keyspace, SHARDS};
use crate::sync::{AtomicUsize, Mutex, Ordering, lock};
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

/// The recorded keys of all shards.
pub(crate) struct NotedKeys {
    shards: Box<[Mutex<Noted>]>,
    count: AtomicUsize,
}

/// The recorded keys of one shard. Only the holder of the shard changes them.
#[derive(Default)]
struct Noted {
    /// By database: name and expiry.
    by_name: HashMap<usize, HashMap<Arc<[u8]>, i64>>,
    /// The same, ordered by expiry.
    by_time: BTreeSet<(i64, usize, Arc<[u8]>)>,
    /// The old expiry of the key that is about to change.
    before: Option<i64>,
}

impl Noted {
    fn put(&mut self, db: usize, key: &[u8], at: i64) {
        self.remove(db, key);
        let name: Arc<[u8]> = key.into();
        self.by_name.entry(db).or_default().insert(name.clone(), at);
        self.by_time.insert((at, db, name));
    }

    fn remove(&mut self, db: usize, key: &[u8]) {
        let Some(names) = self.by_name.get_mut(&db) else { return };
        if let Some((name, at)) = names.remove_entry(key) {
            self.by_time.remove(&(at, db, name));
        }
    }
}

impl NotedKeys {
    pub(crate) fn new() -> NotedKeys {
        let shards = (0..SHARDS).map(|_| Mutex::new(Noted::default())).collect();
        NotedKeys { shards, count: AtomicUsize::new(0) }
    }

    fn change<T>(&self, shard: u16, change: impl FnOnce(&mut Noted) -> T) -> T {
        let mut noted = lock(&self.shards[usize::from(shard)]);
        let before = noted.by_time.len();
        let answer = change(&mut noted);
        let after = noted.by_time.len();
        if after >= before {
            self.count.fetch_add(after - before, Ordering::Relaxed);
        } else {
            self.count.fetch_sub(before - after, Ordering::Relaxed);
        }
        answer
    }

    /// A key of `shard` with this expiry is about to change.
    pub(crate) fn before_write(&self, shard: u16, expiry: Option<i64>) {
        self.change(shard, |noted| noted.before = expiry);
    }

    /// The key has changed and has the expiry `at` now. `is_client`: a client made the change,
    /// not the primary. A change that keeps the expiry, to the millisecond, has no effect here.
    pub(crate) fn changed(
        &self,
        shard: u16,
        db: usize,
        key: &[u8],
        at: Option<i64>,
        is_client: bool,
    ) {
        self.change(shard, |noted| {
            if noted.before == at {
                return;
            }
            match at {
                Some(at) if is_client => noted.put(db, key, at),
                Some(_) | None => noted.remove(db, key),
            }
        });
    }

    /// The key was removed.
    pub(crate) fn removed(&self, shard: u16, db: usize, key: &[u8]) {
        self.change(shard, |noted| noted.remove(db, key));
    }

    /// Up to `most` keys of `shard`, with their databases, that expire at or before `now_ms`.
    pub(crate) fn due(&self, shard: u16, now_ms: i64, most: usize) -> Vec<(usize, Arc<[u8]>)> {
        let noted = lock(&self.shards[usize::from(shard)]);
        let due = noted.by_time.iter().take_while(|(at, ..)| *at <= now_ms).take(most);
        due.map(|(_, db, key)| (*db, key.clone())).collect()
    }

    /// All keys of `db` in `shard` were removed.
    pub(crate) fn emptied(&self, shard: u16, db: usize) {
        if self.count() > 0 {
            self.change(shard, |noted| {
                noted.by_name.remove(&db);
                noted.by_time.retain(|(_, own, _)| *own != db);
            });
        }
    }

    /// The keys of two databases in `shard` were exchanged.
    pub(crate) fn exchanged(&self, shard: u16, a: usize, b: usize) {
        if self.count() == 0 {
            return;
        }
        self.change(shard, |noted| {
            let (of_a, of_b) = (noted.by_name.remove(&a), noted.by_name.remove(&b));
            noted.by_time.retain(|(_, own, _)| *own != a && *own != b);
            for (db, names) in [(b, of_a), (a, of_b)] {
                let Some(names) = names else { continue };
                noted.by_time.extend(names.iter().map(|(name, at)| (*at, db, name.clone())));
                noted.by_name.insert(db, names);
            }
        });
    }

    /// The number of recorded keys; may be outdated at once.
    pub(crate) fn count(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }
}

impl Keyspace {
    /// Starts or stops recording keys whose expiry is set by clients of this server, a replica.
    /// Call it before such clients may write. Recorded keys stay recorded.
    pub fn note_replica_expiry(&self, on: bool) {
        if (self.interest(0) & REPLICA_EXPIRY != 0) == on {
            return;
        }
        (0..SHARDS as u16).for_each(|shard| self.set_interest(shard, REPLICA_EXPIRY, on));
    }

    /// Forgets all recorded keys: the server is a primary now, or has other data.
    pub fn forget_replica_expiry(&self) {
        if self.noted.count() == 0 {
            return;
        }
        for shard in 0..SHARDS as u16 {
            for db in 0..self.databases() {
                self.noted.emptied(shard, db);
            }
        }
    }

    /// The number of recorded keys; may be outdated at once.
    pub fn replica_expiry_count(&self) -> usize {
        self.noted.count()
    }
}

//! The lines of waiting clients, by shard, database and key.

use super::Waiting;
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard};
use weft_keyspace::{Keyspace, SHARDS};

type Name = (usize, Box<[u8]>);
type Shard = HashMap<Name, VecDeque<Arc<Waiting>>>;

/// Everybody who waits.
#[derive(Debug)]
pub struct Lines {
    shards: Box<[Mutex<Shard>]>,
    by_client: Mutex<HashMap<u64, Arc<Waiting>>>,
}

impl Default for Lines {
    fn default() -> Self {
        let shards = (0..SHARDS).map(|_| Mutex::default()).collect();
        Lines { shards, by_client: Mutex::default() }
    }
}

impl Lines {
    fn shard(&self, shard: u16) -> MutexGuard<'_, Shard> {
        self.shards[usize::from(shard)].lock().unwrap_or_else(|p| p.into_inner())
    }

    fn clients(&self) -> MutexGuard<'_, HashMap<u64, Arc<Waiting>>> {
        self.by_client.lock().unwrap_or_else(|p| p.into_inner())
    }

    /// Puts a client at the end of the lines of all its keys, whose shards must be held.
    pub fn enter(&self, ks: &Keyspace, waiting: &Arc<Waiting>) {
        self.clients().insert(waiting.client, waiting.clone());
        for (shard, key) in &waiting.keys {
            let mut lines = self.shard(*shard);
            lines.entry((waiting.db, key.clone())).or_default().push_back(waiting.clone());
            ks.set_waited(*shard, true);
        }
    }

    /// Takes a client out of all its lines. O(clients in them). Needs no shard: the bit that is
    /// cleared with the last line of a shard is set under the same mutex.
    pub fn leave(&self, ks: &Keyspace, waiting: &Arc<Waiting>) {
        let mut clients = self.clients();
        if clients.get(&waiting.client).is_some_and(|w| Arc::ptr_eq(w, waiting)) {
            clients.remove(&waiting.client);
        }
        drop(clients);
        for (shard, key) in &waiting.keys {
            let mut lines = self.shard(*shard);
            let name = (waiting.db, key.clone());
            if let Some(line) = lines.get_mut(&name) {
                // Who is served is at the front, as a rule.
                if let Some(at) = line.iter().position(|w| Arc::ptr_eq(w, waiting)) {
                    line.remove(at);
                }
                if line.is_empty() {
                    lines.remove(&name);
                }
            }
            if lines.is_empty() {
                *lines = Shard::default();
                ks.set_waited(*shard, false);
            }
        }
    }

    /// The first of those who wait for `key` that satisfies `is_next`.
    pub fn first(
        &self,
        shard: u16,
        db: usize,
        key: &[u8],
        mut is_next: impl FnMut(&Arc<Waiting>) -> bool,
    ) -> Option<Arc<Waiting>> {
        let lines = self.shard(shard);
        lines.get(&(db, key.into()))?.iter().find(|w| is_next(w)).cloned()
    }

    /// Whether anybody waits for `key`.
    pub fn has(&self, shard: u16, db: usize, key: &[u8]) -> bool {
        self.shard(shard).contains_key(&(db, key.into()))
    }

    /// Every key of `db` in `shard` for which somebody waits.
    pub fn keys(&self, shard: u16, db: usize) -> Vec<Box<[u8]>> {
        let lines = self.shard(shard);
        lines.keys().filter(|(of, _)| *of == db).map(|(_, key)| key.clone()).collect()
    }

    /// What the client of that id waits for.
    pub fn of_client(&self, client: u64) -> Option<Arc<Waiting>> {
        self.clients().get(&client).cloned()
    }

    /// How many of them do not wait forever.
    pub fn with_deadline(&self) -> usize {
        self.clients().values().filter(|w| w.deadline_ms.is_some()).count()
    }

    /// How many keys are waited for.
    pub fn keys_waited_for(&self) -> usize {
        (0..SHARDS as u16).map(|s| self.shard(s).len()).sum()
    }
}

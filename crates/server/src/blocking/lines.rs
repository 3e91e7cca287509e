//! The lines of waiting clients, by shard, database and key.

use super::Waiting;
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard};
use weft_keyspace::{Keyspace, SHARDS};

type Name = (usize, Box<[u8]>);

/// Those who wait for one key, each with a number by which they can be told apart: ascending.
type Line = VecDeque<(u64, Arc<Waiting>)>;

#[derive(Debug, Default)]
struct Shard {
    lines: HashMap<Name, Line>,
    /// Places in lines of clients that wait for changes, too: [`Waiting::follows`].
    followers: usize,
    /// The number of who came last.
    number: u64,
}

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
        // Held to the end: who finds the client by its id, to have it leave, finds it in all its lines.
        let mut clients = self.clients();
        clients.insert(waiting.client, waiting.clone());
        for (shard, key) in &waiting.keys {
            let mut of_shard = self.shard(*shard);
            of_shard.number += 1;
            let number = of_shard.number;
            let line = of_shard.lines.entry((waiting.db, key.clone())).or_default();
            line.push_back((number, waiting.clone()));
            ks.set_waited(*shard, true);
            if waiting.follows() {
                of_shard.followers += 1;
                ks.set_followed(*shard, true);
            }
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
            let mut guard = self.shard(*shard);
            let of_shard = &mut *guard;
            let name = (waiting.db, key.clone());
            if let Some(line) = of_shard.lines.get_mut(&name) {
                // Who is served is at the front, as a rule.
                if let Some(at) = line.iter().position(|(_, w)| Arc::ptr_eq(w, waiting)) {
                    line.remove(at);
                    of_shard.followers -= usize::from(waiting.follows());
                }
                if line.is_empty() {
                    of_shard.lines.remove(&name);
                }
            }
            if of_shard.followers == 0 {
                ks.set_followed(*shard, false);
            }
            if of_shard.lines.is_empty() {
                of_shard.lines = HashMap::new();
                ks.set_waited(*shard, false);
            }
        }
    }

    /// The first of those who wait for `key` and came after the one with the number `after` that
    /// satisfies `is_next`; 0: of all. With its number. O(log n + those that do not).
    pub fn first_after(
        &self,
        after: u64,
        (shard, db, key): (u16, usize, &[u8]),
        mut is_next: impl FnMut(&Arc<Waiting>) -> bool,
    ) -> Option<(u64, Arc<Waiting>)> {
        let of_shard = self.shard(shard);
        let line = of_shard.lines.get(&(db, key.into()))?;
        let from = line.partition_point(|(number, _)| *number <= after);
        line.range(from..).find(|(_, w)| is_next(w)).cloned()
    }

    /// Whether anybody waits for `key`.
    pub fn has(&self, shard: u16, db: usize, key: &[u8]) -> bool {
        self.shard(shard).lines.contains_key(&(db, key.into()))
    }

    /// Every key of `db` in `shard` for which somebody waits.
    pub fn keys(&self, shard: u16, db: usize) -> Vec<Box<[u8]>> {
        let of_shard = self.shard(shard);
        of_shard.lines.keys().filter(|(of, _)| *of == db).map(|(_, key)| key.clone()).collect()
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
        (0..SHARDS as u16).map(|s| self.shard(s).lines.len()).sum()
    }
}

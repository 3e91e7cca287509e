//! The readers of the keys of one shard, since the last message about each key.
//!
//! Only a thread that holds the shard accesses its table. The keys are in a vector as well as in an
//! index, so that a random one can be evicted when there are too many. Keys of the same name in
//! several databases count as one.
//!
//! Entries of clients that have left may stay. They are removed when the number of a key's readers
//! has doubled. So a key that many clients read in turn, and none writes, keeps at most twice as
//! many entries as there are clients.

use crate::tracker::{Receiver, Tracker};
use std::collections::HashMap;
use std::sync::Arc;

/// Up to this many readers, no search for left clients.
const MIN_CLEANUP: u32 = 16;

/// The clients that have read a key, in ascending order of ids.
pub type Readers<C> = Vec<Arc<Tracker<C>>>;

/// The readers of the keys of one shard.
#[derive(Debug)]
pub struct Table<C> {
    /// The position of each key in `keys`.
    index: HashMap<Arc<[u8]>, usize, foldhash::fast::RandomState>,
    keys: Vec<Key<C>>,
}

#[derive(Debug)]
struct Key<C> {
    name: Arc<[u8]>,
    readers: Readers<C>,
    /// The number of readers at which the entries of left clients are removed.
    cleanup_at: u32,
}

/// The changes of [`Table::add`] to the numbers of keys and readers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Added {
    pub keys: usize,
    pub readers: usize,
    /// Removed entries of left clients.
    pub dead: usize,
}

impl<C> Default for Table<C> {
    fn default() -> Self {
        Table { index: HashMap::default(), keys: Vec::new() }
    }
}

impl<C: Receiver> Table<C> {
    /// The number of tracked keys.
    pub fn len(&self) -> usize {
        self.keys.len()
    }

    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// Records that a client has read `key`. Expected O(log(readers)), plus the move of later
    /// entries for a new reader.
    pub fn add(&mut self, key: &[u8], reader: &Arc<Tracker<C>>) -> Added {
        let Some(at) = self.index.get(key).copied() else {
            let name: Arc<[u8]> = key.into();
            self.index.insert(name.clone(), self.keys.len());
            self.keys.push(Key { name, readers: vec![reader.clone()], cleanup_at: MIN_CLEANUP });
            return Added { keys: 1, readers: 1, dead: 0 };
        };
        let Key { readers, cleanup_at, .. } = &mut self.keys[at];
        let Err(mut place) = readers.binary_search_by_key(&reader.client, |r| r.client) else {
            return Added::default();
        };
        let mut dead = 0;
        if readers.len() as u32 >= *cleanup_at {
            dead = readers.len();
            readers.retain(|reader| !reader.is_gone());
            dead -= readers.len();
            *cleanup_at = MIN_CLEANUP.max(2 * readers.len() as u32);
            place = readers.partition_point(|r| r.client < reader.client);
        }
        readers.insert(place, reader.clone());
        Added { keys: 0, readers: 1, dead }
    }

    /// Removes `key` and returns its readers. Expected O(1).
    pub fn take(&mut self, key: &[u8]) -> Option<Readers<C>> {
        let at = self.index.remove(key)?;
        Some(self.take_at(at).readers)
    }

    /// Removes a key chosen by `random`. Returns its name and its readers. Expected O(1).
    pub fn take_any(&mut self, random: u64) -> Option<(Arc<[u8]>, Readers<C>)> {
        let at = (random % (self.keys.len() as u64).max(1)) as usize;
        let name = self.keys.get(at)?.name.clone();
        self.index.remove(&name);
        Some((name, self.take_at(at).readers))
    }

    /// Removes the key at `at`, which is no longer in the index, from the vector.
    fn take_at(&mut self, at: usize) -> Key<C> {
        let key = self.keys.swap_remove(at);
        if let Some(moved) = self.keys.get(at) {
            let place = self.index.get_mut(&moved.name).expect("every key is in the index");
            *place = at;
        }
        if self.keys.is_empty() {
            *self = Table::default();
        }
        key
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tracker::Client;

    fn reader(client: u64) -> Arc<Tracker<Client>> {
        Arc::new(Tracker::without_receiver(client))
    }

    fn ids(readers: Option<Readers<Client>>) -> Vec<u64> {
        readers.unwrap_or_default().iter().map(|r| r.client).collect()
    }

    #[test]
    fn readers_are_unique_and_removed_with_their_key() {
        let mut table = Table::default();
        let (one, two) = (reader(1), reader(2));
        assert_eq!(table.add(b"k", &two), Added { keys: 1, readers: 1, dead: 0 });
        assert_eq!(table.add(b"k", &one), Added { keys: 0, readers: 1, dead: 0 });
        assert_eq!(table.add(b"k", &two), Added::default());
        table.add(b"l", &one);
        table.add(b"m", &two);
        assert_eq!(ids(table.take(b"k")), [1, 2]);
        assert_eq!(ids(table.take(b"k")), [0; 0]);
        assert_eq!(ids(table.take(b"m")), [2]);
        assert_eq!(table.len(), 1);
        assert_eq!(ids(table.take(b"l")), [1]);
        assert!(table.is_empty());
    }

    #[test]
    fn random_removal_takes_every_key_once() {
        let mut table = Table::default();
        for n in 0..100u8 {
            table.add(&[n], &reader(1));
        }
        let mut drawn: Vec<u8> =
            (0..100u64).map(|n| table.take_any(n * 7919).expect("one is left").0[0]).collect();
        drawn.sort_unstable();
        assert_eq!(drawn, (0..100u8).collect::<Vec<_>>());
        assert!(table.take_any(5).is_none());
    }

    #[test]
    fn left_clients_are_removed() {
        let mut table = Table::default();
        let mut left = 0;
        for n in 1..=1000 {
            let added = table.add(b"k", &reader(n));
            left = left + added.readers - added.dead;
            assert!(left <= MIN_CLEANUP as usize, "{left}");
        }
        assert_eq!(ids(table.take(b"k")).len(), left);
    }
}

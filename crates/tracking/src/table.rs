//! Which clients have read which keys of one shard, since they were told last that a key has changed.
//!
//! A table is looked at by who holds its shard. Keys stand in a row as well as in an index, so that one
//! can be drawn at random when there are too many. Keys of one name in several databases are one.
//!
//! Of a client that is gone its place may be left. What is left is thrown away when the readers of a
//! key have doubled, so that a key which is read by many clients in turn, and never written, keeps at
//! most twice as many as there are.

use crate::tracker::{Receiver, Tracker};
use std::collections::HashMap;
use std::sync::Arc;

/// Readers up to which nobody looks for the dead.
const FEW: u32 = 16;

/// Clients that have read a key, in the order of their numbers.
pub type Readers<C> = Vec<Arc<Tracker<C>>>;

/// See the module.
#[derive(Debug)]
pub struct Table<C> {
    /// Where in `keys` each is.
    index: HashMap<Arc<[u8]>, usize, foldhash::fast::RandomState>,
    keys: Vec<Key<C>>,
}

#[derive(Debug)]
struct Key<C> {
    name: Arc<[u8]>,
    readers: Readers<C>,
    /// From so many readers on the dead are thrown away.
    clear_at: u32,
}

/// What [`Table::add`] has made of the numbers of keys and readers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Added {
    pub keys: usize,
    pub readers: usize,
    /// Readers that were thrown away.
    pub dead: usize,
}

impl<C> Default for Table<C> {
    fn default() -> Self {
        Table { index: HashMap::default(), keys: Vec::new() }
    }
}

impl<C: Receiver> Table<C> {
    /// How many keys are remembered.
    pub fn len(&self) -> usize {
        self.keys.len()
    }

    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// Notes that a client has read `key`. Expected O(log(readers)) beside what is moved for one that
    /// is new.
    pub fn add(&mut self, key: &[u8], reader: &Arc<Tracker<C>>) -> Added {
        let Some(at) = self.index.get(key).copied() else {
            let name: Arc<[u8]> = key.into();
            self.index.insert(name.clone(), self.keys.len());
            self.keys.push(Key { name, readers: vec![reader.clone()], clear_at: FEW });
            return Added { keys: 1, readers: 1, dead: 0 };
        };
        let Key { readers, clear_at, .. } = &mut self.keys[at];
        let Err(mut place) = readers.binary_search_by_key(&reader.client, |r| r.client) else {
            return Added::default();
        };
        let mut dead = 0;
        if readers.len() as u32 >= *clear_at {
            dead = readers.len();
            readers.retain(|reader| !reader.is_gone());
            dead -= readers.len();
            *clear_at = FEW.max(2 * readers.len() as u32);
            place = readers.partition_point(|r| r.client < reader.client);
        }
        readers.insert(place, reader.clone());
        Added { keys: 0, readers: 1, dead }
    }

    /// Forgets `key`; who has read it. Expected O(1).
    pub fn take(&mut self, key: &[u8]) -> Option<Readers<C>> {
        let at = self.index.remove(key)?;
        Some(self.take_at(at).readers)
    }

    /// Forgets a key, drawn by `random`; its name, and who has read it. Expected O(1).
    pub fn take_any(&mut self, random: u64) -> Option<(Arc<[u8]>, Readers<C>)> {
        let at = (random % (self.keys.len() as u64).max(1)) as usize;
        let name = self.keys.get(at)?.name.clone();
        self.index.remove(&name);
        Some((name, self.take_at(at).readers))
    }

    /// Takes the key at `at`, which the index has forgotten, out of the row.
    fn take_at(&mut self, at: usize) -> Key<C> {
        let key = self.keys.swap_remove(at);
        if let Some(moved) = self.keys.get(at) {
            let place =
                self.index.get_mut(&moved.name).expect("what is in the row is in the index");
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
        Arc::new(Tracker::of_nobody(client))
    }

    fn ids(readers: Option<Readers<Client>>) -> Vec<u64> {
        readers.unwrap_or_default().iter().map(|r| r.client).collect()
    }

    #[test]
    fn readers_stand_once_and_go_with_their_key() {
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
    fn every_key_is_drawn_once() {
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
    fn the_dead_are_thrown_away() {
        let mut table = Table::default();
        let mut left = 0;
        for n in 1..=1000 {
            let added = table.add(b"k", &reader(n));
            left = left + added.readers - added.dead;
            assert!(left <= FEW as usize, "{left}");
        }
        assert_eq!(ids(table.take(b"k")).len(), left);
    }
}

//! Listeners for changes in a shard: watchers, blocked clients, a walk over all keys.
//!
//! ```text
//!  WATCH k          every change of k marks the watch         Watch
//!  BLPOP k          k was created: serve blocked clients      commit::Awaited
//!  XREAD k          the same with every change of k
//!  KEYS, stepwise   keys created and removed since the cut    journal
//!  GET k            client-side caching: k has changed        stale::Caches
//! ```
//!
//! Usually nothing listens, and then all of this costs one load of a word next to the shard's
//! lock. Only the thread that holds the shard changes the word and the data it stands for, except
//! for the bits of blocked clients and prefix tracking, which the server maintains.

use crate::sync::{AtomicBool, Mutex, Ordering, lock};
use foldhash::fast::RandomState;
use std::collections::HashMap;
use std::sync::Arc;

/// Keys of this shard are watched.
pub(crate) const WATCHED: u32 = 1;
/// Clients are blocked on keys of this shard.
pub(crate) const WAITED: u32 = 2;
/// Some of these clients wait for changes of keys, not only for new keys: readers of streams.
pub(crate) const FOLLOWED: u32 = 32;
/// Clients that cache keys have read keys of this shard: see [`crate::invalidation`].
pub(crate) const READ: u32 = 128;
/// Clients track keys by prefix and are notified of all changes. Set in all shards or in none.
pub(crate) const FOLLOWED_BY_PREFIX: u32 = 256;
/// A walk over all keys has not reached this shard yet.
pub(crate) const JOURNALED: u32 = 4;
/// Changes are logged; the bit is the same in all shards. See [`crate::log`].
pub(crate) const LOGGED: u32 = 16;
/// A slow-lane command holds this shard: see [`crate::running`].
pub(crate) const RUNNING: u32 = 8;

/// A snapshot has not written all keys of this shard yet: see [`crate::snapshot`]. Writers keep
/// old values for it, and need not make effects.
pub(crate) const SNAPSHOT: u32 = 64;

/// This server is a writable replica: see [`crate::replica_expiry`]. Set in all shards or in
/// none.
pub(crate) const REPLICA_EXPIRY: u32 = 512;

/// A script that may start over holds this shard: see [`crate::undo`]. Its writes keep old values, and need not make
/// effects.
pub(crate) const UNDO: u32 = 1024;

/// Slots of this shard are being copied to another server: see [`crate::moving`].
pub(crate) const MOVING: u32 = 2048;

const ALL: [u32; 12] = [
    WATCHED,
    WAITED,
    FOLLOWED,
    READ,
    FOLLOWED_BY_PREFIX,
    JOURNALED,
    LOGGED,
    RUNNING,
    SNAPSHOT,
    REPLICA_EXPIRY,
    UNDO,
    MOVING,
];

/// Every constant has its own bit.
const _: () = {
    let (mut bits, mut at) = (0, 0);
    while at < ALL.len() {
        assert!(ALL[at].count_ones() == 1 && bits & ALL[at] == 0);
        bits |= ALL[at];
        at += 1;
    }
};

/// The watch of a client, marked when one of its keys has changed. EXEC checks it while it holds
/// the shards of those keys.
#[derive(Debug, Default)]
pub struct Watch(AtomicBool);

impl Watch {
    /// Whether a watched key has changed.
    pub fn is_broken(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// Marks the watch: one of its keys has changed.
    pub fn break_it(&self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// One change of the set of keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    Created,
    /// With the expiry that the key had.
    Removed(Option<i64>),
}

/// A client's watch of one key.
#[derive(Debug)]
struct Watcher {
    watch: Arc<Watch>,
    /// The key had expired when the watch began, but could not be removed then. Its later removal
    /// does not break the watch.
    was_expired: bool,
}

impl Watcher {
    /// The key has changed, or was only removed because it had expired (`expired`). Returns
    /// whether the watch stays.
    fn survives(&mut self, expired: bool) -> bool {
        let survives = expired && std::mem::take(&mut self.was_expired);
        if !survives {
            self.watch.break_it();
        }
        survives
    }
}

/// Identifies a watch.
fn id_of(watch: &Arc<Watch>) -> usize {
    Arc::as_ptr(watch) as usize
}

/// The watchers of one key. Beginning and ending a watch take O(1), regardless of their number.
#[derive(Debug)]
enum Watchers {
    One(Watcher),
    #[expect(clippy::box_collection, reason = "most keys have one watcher: entries stay small")]
    Many(Box<HashMap<usize, Watcher, RandomState>>),
}

impl Watchers {
    /// Adds a watcher; `false` if it exists.
    fn add(&mut self, new: Watcher) -> bool {
        match self {
            Watchers::One(one) if Arc::ptr_eq(&one.watch, &new.watch) => false,
            Watchers::One(_) => {
                let mut all = Box::<HashMap<usize, Watcher, RandomState>>::default();
                all.insert(id_of(&new.watch), new);
                if let Watchers::One(one) = std::mem::replace(self, Watchers::Many(all)) {
                    self.add(one);
                }
                true
            }
            Watchers::Many(all) => all.insert(id_of(&new.watch), new).is_none(),
        }
    }

    /// Removes a watcher. Returns whether none is left.
    fn remove(&mut self, watch: &Arc<Watch>) -> bool {
        match self {
            Watchers::One(one) => Arc::ptr_eq(&one.watch, watch),
            Watchers::Many(all) => {
                all.remove(&id_of(watch));
                all.is_empty()
            }
        }
    }

    /// Breaks the watches. Returns whether none is left.
    fn break_all(&mut self, expired: bool) -> bool {
        match self {
            Watchers::One(one) => !one.survives(expired),
            Watchers::Many(all) => {
                all.retain(|_, watcher| watcher.survives(expired));
                all.is_empty()
            }
        }
    }
}

type ByKey = HashMap<Arc<[u8]>, Watchers, RandomState>;

/// The data of one shard's interest bits.
#[derive(Debug, Default)]
pub(crate) struct Interest(Mutex<Notes>);

#[derive(Debug, Default)]
struct Notes {
    /// By database; no map is empty.
    watched: HashMap<usize, ByKey, RandomState>,
    /// In order of execution.
    journal: Vec<(usize, Box<[u8]>, Event)>,
}

/// A map that has shrunk to less than this share of its capacity releases memory.
const SHRINK_BELOW: usize = 8;

impl Interest {
    /// Adds a watch of `key` in database `db`. `was_expired`: the key had expired before and is
    /// still in the table. Returns the key's name for [`Interest::unwatch`], or `None` if the
    /// watch exists. Calls `mark` before any other thread can end a watch of this shard.
    pub(crate) fn watch(
        &self,
        (db, key): (usize, &[u8]),
        watch: &Arc<Watch>,
        was_expired: bool,
        mark: impl FnOnce(),
    ) -> Option<Arc<[u8]>> {
        let mut notes = lock(&self.0);
        let keys = notes.watched.entry(db).or_default();
        let new = Watcher { watch: watch.clone(), was_expired };
        let name = match keys.get_key_value(key) {
            Some((name, _)) => name.clone(),
            None => {
                let name: Arc<[u8]> = key.into();
                keys.insert(name.clone(), Watchers::One(new));
                mark();
                return Some(name);
            }
        };
        keys.get_mut(key)?.add(new).then_some(name)
    }

    /// Ends a watch of `key`, if it exists. Calls `clear` when no key is watched any more, before
    /// any other thread can begin a watch. Needs no shard.
    pub(crate) fn unwatch(
        &self,
        (db, key): (usize, &[u8]),
        watch: &Arc<Watch>,
        clear: impl FnOnce(),
    ) {
        lock(&self.0).end((db, key), |watchers| watchers.remove(watch), clear);
    }

    /// Breaks the watches of `key`. `expired`: an expired key was removed, and nothing else
    /// happened. Calls `clear` when no key is watched any more, before any other thread can begin
    /// a watch.
    pub(crate) fn break_watches(
        &self,
        (db, key): (usize, &[u8]),
        expired: bool,
        clear: impl FnOnce(),
    ) {
        lock(&self.0).end((db, key), |watchers| watchers.break_all(expired), clear);
    }

    /// The watched keys of `db`.
    pub(crate) fn watched(&self, db: usize) -> Vec<Arc<[u8]>> {
        let notes = lock(&self.0);
        notes.watched.get(&db).map_or(Vec::new(), |keys| keys.keys().cloned().collect())
    }

    /// How many keys are watched.
    #[cfg(test)]
    pub(crate) fn watched_keys(&self) -> usize {
        lock(&self.0).watched.values().map(HashMap::len).sum()
    }

    pub(crate) fn note(&self, db: usize, key: &[u8], event: Event) {
        lock(&self.0).journal.push((db, key.into(), event));
    }

    /// Takes the journal and leaves an empty one.
    pub(crate) fn take_journal(&self) -> Vec<(usize, Box<[u8]>, Event)> {
        std::mem::take(&mut lock(&self.0).journal)
    }
}

impl Notes {
    /// Ends watches of `key` by calling `end`, which returns whether none is left. Expected O(1),
    /// in addition to `end`.
    fn end(
        &mut self,
        (db, key): (usize, &[u8]),
        end: impl FnOnce(&mut Watchers) -> bool,
        clear: impl FnOnce(),
    ) {
        if let Some(keys) = self.watched.get_mut(&db)
            && let Some(watchers) = keys.get_mut(key)
            && end(watchers)
        {
            keys.remove(key);
            if keys.is_empty() {
                self.watched.remove(&db);
                if self.watched.is_empty() {
                    self.watched = HashMap::default();
                }
            } else if keys.len() < keys.capacity() / SHRINK_BELOW {
                keys.shrink_to(2 * keys.len());
            }
        }
        if self.watched.is_empty() {
            clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    /// Breaks the watches of a key. Returns whether any key is still watched.
    fn breaks(interest: &Interest, db: usize, key: &[u8]) -> bool {
        let left = Cell::new(true);
        interest.break_watches((db, key), false, || left.set(false));
        left.get()
    }

    #[test]
    fn watches_break_for_their_key_and_database_only() {
        let interest = Interest::default();
        let (a, b) = (Arc::new(Watch::default()), Arc::new(Watch::default()));
        interest.watch((0, b"k"), &a, false, || {});
        interest.watch((1, b"k"), &b, false, || {});
        assert!(breaks(&interest, 0, b"other"));
        assert!(!a.is_broken() && !b.is_broken());
        assert!(breaks(&interest, 0, b"k"));
        assert!(a.is_broken() && !b.is_broken());
        assert!(!breaks(&interest, 1, b"k"));
        assert!(b.is_broken());
    }

    #[test]
    fn an_ended_watch_releases_its_memory() {
        let interest = Interest::default();
        let watches: Vec<Arc<Watch>> = (0..3).map(|_| Arc::default()).collect();
        let marked = Cell::new(false);
        for watch in &watches {
            for _ in 0..2 {
                interest.watch((0, b"k"), watch, false, || marked.set(true));
            }
            interest.watch((7, b"l"), watch, false, || {});
        }
        assert!(marked.get());
        for (n, watch) in watches.iter().enumerate() {
            assert_eq!(Arc::strong_count(watch), 3, "once for each key");
            let cleared = Cell::new(false);
            interest.unwatch((0, b"k"), watch, || cleared.set(true));
            interest.unwatch((0, b"k"), watch, || cleared.set(true));
            assert!(!cleared.get());
            interest.unwatch((7, b"l"), watch, || cleared.set(true));
            assert_eq!(cleared.get(), n == 2);
            assert_eq!(Arc::strong_count(watch), 1);
        }
        assert_eq!(interest.watched_keys(), 0);
    }

    #[test]
    fn a_name_is_stored_once_and_returned_once_per_watch() {
        let interest = Interest::default();
        let (a, b) = (Arc::new(Watch::default()), Arc::new(Watch::default()));
        let first = interest.watch((0, b"k"), &a, false, || {}).expect("new");
        assert!(interest.watch((0, b"k"), &a, false, || {}).is_none());
        let second = interest.watch((0, b"k"), &b, false, || {}).expect("new");
        assert!(Arc::ptr_eq(&first, &second));
    }

    #[test]
    fn an_expired_key_goes_once_without_breaking_a_watch() {
        let interest = Interest::default();
        let (old, new) = (Arc::new(Watch::default()), Arc::new(Watch::default()));
        interest.watch((0, b"k"), &old, true, || {});
        interest.watch((0, b"k"), &new, false, || {});
        interest.break_watches((0, b"k"), true, || panic!("one is left"));
        assert!(!old.is_broken() && new.is_broken());
        assert!(!breaks(&interest, 0, b"k"));
        assert!(old.is_broken());
    }

    #[test]
    fn a_map_shrinks_after_its_watches_end() {
        let interest = Interest::default();
        let watch = Arc::new(Watch::default());
        for n in 0..10_000u32 {
            interest.watch((0, &n.to_be_bytes()), &watch, false, || {});
        }
        for n in 1..10_000u32 {
            interest.unwatch((0, &n.to_be_bytes()), &watch, || {});
        }
        assert!(lock(&interest.0).watched[&0].capacity() < 100);
    }
}

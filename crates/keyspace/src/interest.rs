//! Who wants to know of the changes in a shard: watchers, waiting clients, a walk over all keys.
//!
//! ```text
//!  WATCH k          every change of k marks the watch         Watch
//!  BLPOP k          k came to be: see who waits for it        commit::Awaited
//!  XREAD k          the same with every change of k
//!  KEYS, stepwise   keys that came and went since the cut     journal
//!  GET k            by who caches: k has changed              stale::Caches
//! ```
//!
//! Nobody wants to know anything, as a rule, and then all this costs one look at a word that lies
//! beside the shard's lock. The word and what is behind it are changed only by who holds the
//! shard, but for the bits of waiting clients and of those who follow prefixes, whom the server keeps.

use crate::sync::{AtomicBool, Mutex, Ordering, lock};
use std::collections::HashMap;
use std::sync::{Arc, Weak};

/// Keys of this shard are watched.
pub(crate) const WATCHED: u32 = 1;
/// Clients wait for keys of this shard.
pub(crate) const WAITED: u32 = 2;
/// Some of these clients wait for changes of keys, not only for keys that come to be: readers of
/// streams.
pub(crate) const FOLLOWED: u32 = 32;
/// Keys of this shard were read by clients that keep what they read: see [`crate::stale`].
pub(crate) const READ: u32 = 128;
/// Clients keep keys of some prefix, and are told of all changes. Set in all shards or in none.
pub(crate) const FOLLOWED_BY_PREFIX: u32 = 256;
/// A walk over all keys has not come to this shard yet.
pub(crate) const JOURNALED: u32 = 4;
/// What is done is logged: the bit is the same in all shards. See [`crate::log`].
pub(crate) const LOGGED: u32 = 16;
/// A command of the slow lane holds this shard: see [`crate::running`].
pub(crate) const RUNNING: u32 = 8;

/// A snapshot has not given all keys of this shard: see [`crate::snapshot`]. Those who change keys
/// keep old values for it, and need not tell of what has become of them.
pub(crate) const SNAPSHOT: u32 = 64;

/// This server is a replica that clients may write to: see [`crate::replica_expiry`]. Set in all shards or in
/// none.
pub(crate) const REPLICA_EXPIRY: u32 = 512;

const ALL: [u32; 10] = [
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
];

/// Each of them has a bit of its own.
const _: () = {
    let (mut bits, mut at) = (0, 0);
    while at < ALL.len() {
        assert!(ALL[at].count_ones() == 1 && bits & ALL[at] == 0);
        bits |= ALL[at];
        at += 1;
    }
};

/// What a client watches: marked when one of its keys has changed. EXEC looks at it while it holds
/// the shards of those keys.
#[derive(Debug, Default)]
pub struct Watch(AtomicBool);

impl Watch {
    /// Whether a watched key has changed.
    pub fn is_broken(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// Marks the watch: a key of it has changed.
    pub fn break_it(&self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// One change of the set of keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    Came,
    /// With the expiry that the key had.
    Went(Option<i64>),
}

type ByKey<T> = HashMap<Box<[u8]>, T>;

/// A client's watch of one key.
#[derive(Debug)]
struct Watcher {
    watch: Weak<Watch>,
    /// The key had expired when the watch began, and was only not removed, since nothing might
    /// change then. That it is removed one day is no news.
    was_expired: bool,
}

impl Watcher {
    fn is_dead(&self) -> bool {
        self.watch.strong_count() == 0
    }

    fn break_it(&self) {
        if let Some(watch) = self.watch.upgrade() {
            watch.break_it();
        }
    }
}

/// What is behind one shard's bits.
#[derive(Debug, Default)]
pub(crate) struct Interest(Mutex<Notes>);

#[derive(Debug, Default)]
struct Notes {
    /// By database.
    watched: HashMap<usize, ByKey<Vec<Watcher>>>,
    /// At most so many entries, and how many make it time to clear the dead ones away.
    entries: usize,
    clear_at: usize,
    /// Changes that were looked up since then.
    asked: usize,
    /// In order of time.
    journal: Vec<(usize, Box<[u8]>, Event)>,
}

impl Interest {
    /// Adds a watch of `key` in database `db`; `was_expired`: which had expired before, and is
    /// still in the table.
    pub(crate) fn watch(&self, db: usize, key: &[u8], watch: &Arc<Watch>, was_expired: bool) {
        let mut notes = lock(&self.0);
        // A client that goes away, or UNWATCHes, leaves its entries behind. They are cleared away
        // when there may be twice as many as were left the last time: amortized O(1).
        notes.entries += 1;
        if notes.entries > notes.clear_at {
            notes.clear_dead();
        }
        let watches = notes.watched.entry(db).or_default().entry(key.into()).or_default();
        watches.retain(|w| !w.is_dead());
        watches.push(Watcher { watch: Arc::downgrade(watch), was_expired });
    }

    /// Breaks the watches of `key`; whether any key is still watched. `expired`: nothing has
    /// happened but that a key whose time was over has been removed.
    pub(crate) fn break_watches(&self, db: usize, key: &[u8], expired: bool) -> bool {
        let mut notes = lock(&self.0);
        // Dead entries must not keep the shard's bit set: amortized O(1), as in `watch`.
        notes.asked += 1;
        if notes.asked > notes.entries {
            notes.clear_dead();
        }
        if let Some(keys) = notes.watched.get_mut(&db)
            && let Some(watches) = keys.get_mut(key)
        {
            watches.retain_mut(|watcher| {
                let goes_on = expired && std::mem::take(&mut watcher.was_expired);
                if !goes_on {
                    watcher.break_it();
                }
                goes_on
            });
            if watches.is_empty() {
                keys.remove(key);
            }
        }
        notes.watched.retain(|_, keys| !keys.is_empty());
        !notes.watched.is_empty()
    }

    /// The watched keys of `db`.
    pub(crate) fn watched(&self, db: usize) -> Vec<Box<[u8]>> {
        let notes = lock(&self.0);
        notes.watched.get(&db).map_or(Vec::new(), |keys| keys.keys().cloned().collect())
    }

    pub(crate) fn note(&self, db: usize, key: &[u8], event: Event) {
        lock(&self.0).journal.push((db, key.into(), event));
    }

    /// The journal, which is empty afterwards.
    pub(crate) fn take_journal(&self) -> Vec<(usize, Box<[u8]>, Event)> {
        std::mem::take(&mut lock(&self.0).journal)
    }
}

impl Notes {
    fn clear_dead(&mut self) {
        for keys in self.watched.values_mut() {
            keys.retain(|_, watches| {
                watches.retain(|w| !w.is_dead());
                !watches.is_empty()
            });
        }
        self.watched.retain(|_, keys| !keys.is_empty());
        let left: usize = self.watched.values().flat_map(HashMap::values).map(Vec::len).sum();
        self.entries = left;
        self.asked = 0;
        self.clear_at = 16 + 2 * left;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn watches_break_for_their_key_and_database_only() {
        let interest = Interest::default();
        let (a, b) = (Arc::new(Watch::default()), Arc::new(Watch::default()));
        interest.watch(0, b"k", &a, false);
        interest.watch(1, b"k", &b, false);
        assert!(interest.break_watches(0, b"other", false));
        assert!(!a.is_broken() && !b.is_broken());
        assert!(interest.break_watches(0, b"k", false));
        assert!(a.is_broken() && !b.is_broken());
        assert!(!interest.break_watches(1, b"k", false));
        assert!(b.is_broken());
    }

    #[test]
    fn the_dead_are_cleared_away() {
        let interest = Interest::default();
        for n in 0..1000 {
            interest.watch(0, format!("{n}").as_bytes(), &Arc::default(), false);
        }
        let kept = lock(&interest.0).watched.values().map(HashMap::len).sum::<usize>();
        assert!(kept < 100, "{kept}");
        let calls = (0..1000).take_while(|_| interest.break_watches(0, b"unknown", false)).count();
        assert!(calls < 100, "{calls}");
    }
}

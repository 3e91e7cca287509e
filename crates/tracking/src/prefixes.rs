//! Broadcasting mode: clients that are notified of all changed keys with certain prefixes, read or
//! not.
//!
//! The keys that have changed as one group give one message for each prefix. It has the keys in
//! order, each of them once.

use crate::message::News;
use crate::tracker::{Mode, Push, Receiver, Tracker};
use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, RwLock, RwLockWriteGuard};
use weft_keyspace::invalidation::Changed;
use weft_pubsub::registry::give_back;

/// The number of prefixes added or removed under one lock, for which threads that change keys may
/// wait.
const AT_ONCE: usize = 64;

type Followers<C> = BTreeMap<u64, Arc<Tracker<C>>>;

/// The prefixes of all clients.
#[derive(Debug)]
pub struct Prefixes<C> {
    all: RwLock<PrefixMap<C>>,
    len: AtomicUsize,
}

#[derive(Debug)]
struct PrefixMap<C> {
    followers: HashMap<Box<[u8]>, Followers<C>, foldhash::fast::RandomState>,
    /// The number of prefixes of each length: a key is looked up by its beginnings of these
    /// lengths.
    lengths: BTreeMap<usize, usize>,
}

impl<C> Default for Prefixes<C> {
    fn default() -> Self {
        Prefixes { all: RwLock::default(), len: AtomicUsize::new(0) }
    }
}

impl<C> Default for PrefixMap<C> {
    fn default() -> Self {
        PrefixMap { followers: HashMap::default(), lengths: BTreeMap::new() }
    }
}

impl<C: Receiver> PrefixMap<C> {
    fn add(&mut self, prefix: &[u8], tracker: &Arc<Tracker<C>>) {
        if !self.followers.contains_key(prefix) {
            *self.lengths.entry(prefix.len()).or_default() += 1;
        }
        let followers = self.followers.entry(prefix.into()).or_default();
        followers.insert(tracker.client, tracker.clone());
    }

    fn remove(&mut self, prefix: &[u8], client: u64) {
        let Some(followers) = self.followers.get_mut(prefix) else { return };
        followers.remove(&client);
        if !followers.is_empty() {
            return;
        }
        self.followers.remove(prefix);
        give_back(&mut self.followers);
        if let Some(count) = self.lengths.get_mut(&prefix.len()) {
            *count -= 1;
            if *count == 0 {
                self.lengths.remove(&prefix.len());
            }
        }
    }

    /// The prefixes of `key` and their followers, the shortest first. Expected O(distinct prefix
    /// lengths).
    fn prefixes_of<'a>(
        &'a self,
        key: &'a [u8],
    ) -> impl Iterator<Item = (&'a [u8], &'a Followers<C>)> {
        let lengths = self.lengths.range(..=key.len()).map(|(len, _)| &key[..*len]);
        lengths.filter_map(|prefix| Some((prefix, self.followers.get(prefix)?)))
    }
}

/// The followers of a prefix, and the changed keys with it, each with the client that changed it.
type Found<'a, C> = (&'a Followers<C>, Vec<(&'a [u8], u64)>);

impl<C: Receiver> Prefixes<C> {
    /// The number of prefixes that clients follow.
    pub fn count(&self) -> usize {
        self.len.load(Ordering::Relaxed)
    }

    /// Calls `change` with all prefixes. Calls `changed` if the answer to "does any client follow a
    /// prefix" changes, with the new answer and under the lock.
    fn change(&self, change: impl FnOnce(&mut PrefixMap<C>), changed: impl FnOnce(bool)) {
        let mut all: RwLockWriteGuard<'_, PrefixMap<C>> =
            self.all.write().unwrap_or_else(|p| p.into_inner());
        let had = !all.followers.is_empty();
        change(&mut all);
        self.len.store(all.followers.len(), Ordering::Relaxed);
        let has = !all.followers.is_empty();
        if had != has {
            changed(has);
        }
    }

    /// Adds `prefixes` to those that the client follows. Calls `changed` under the lock if the
    /// answer to "does any client follow a prefix" changes.
    pub fn follow(&self, tracker: &Arc<Tracker<C>>, prefixes: &[&[u8]], changed: impl Fn(bool)) {
        for chunk in prefixes.chunks(AT_ONCE) {
            let mut own = tracker.prefixes();
            own.extend(tracker, chunk);
            self.change(|all| chunk.iter().for_each(|prefix| all.add(prefix, tracker)), &changed);
        }
    }

    /// Removes all prefixes of the client.
    pub fn leave(&self, tracker: &Tracker<C>, changed: impl Fn(bool)) {
        let own = tracker.prefixes().take();
        for chunk in own.chunks(AT_ONCE) {
            let client = tracker.client;
            self.change(|all| chunk.iter().for_each(|prefix| all.remove(prefix, client)), &changed);
        }
    }

    /// Notifies followers of keys that have changed as one group. O(keys * (log(keys) + prefix
    /// lengths)), plus the messages.
    pub fn spread(&self, push: Push<'_, C>, changed: &[Changed]) {
        // If several clients have changed a key, the last one counts.
        let keys: BTreeMap<&[u8], u64> = changed.iter().map(|(key, by)| (&**key, *by)).collect();
        let all = self.all.read().unwrap_or_else(|p| p.into_inner());
        let mut found: BTreeMap<&[u8], Found<'_, C>> = BTreeMap::new();
        for (key, by) in &keys {
            for (prefix, followers) in all.prefixes_of(key) {
                let (_, changed_keys) = found.entry(prefix).or_insert((followers, Vec::new()));
                changed_keys.push((key, *by));
            }
        }
        found
            .values()
            .for_each(|(followers, changed_keys)| notify_followers(push, followers, changed_keys));
    }
}

fn notify_followers<C: Receiver>(
    push: Push<'_, C>,
    followers: &Followers<C>,
    keys: &[(&[u8], u64)],
) {
    let news = News::of(keys.iter().map(|(key, _)| *key));
    for (client, tracker) in followers {
        let own = |by: &u64| tracker.mode().has(Mode::NOLOOP) && by == client;
        if !keys.iter().any(|(_, by)| own(by)) {
            tracker.tell(push, &news);
            continue;
        }
        let others: Vec<&[u8]> =
            keys.iter().filter(|(_, by)| !own(by)).map(|(key, _)| *key).collect();
        if !others.is_empty() {
            tracker.tell(push, &News::of(others.into_iter()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tracker::Client;

    #[test]
    fn prefixes_of_a_key() {
        let mut all: PrefixMap<Client> = PrefixMap::default();
        let tracker = Arc::new(Tracker::without_receiver(1));
        let names = |all: &PrefixMap<Client>, key: &[u8]| -> Vec<String> {
            all.prefixes_of(key).map(|(name, _)| String::from_utf8_lossy(name).into()).collect()
        };
        for prefix in ["", "a", "ab", "b", "abc"] {
            all.add(prefix.as_bytes(), &tracker);
            all.add(prefix.as_bytes(), &tracker);
        }
        assert_eq!(names(&all, b"abx"), ["", "a", "ab"]);
        assert_eq!(names(&all, b""), [""]);
        for prefix in ["", "ab", "nothing"] {
            all.remove(prefix.as_bytes(), 1);
        }
        assert_eq!(names(&all, b"abc"), ["a", "abc"]);
        for prefix in ["a", "b", "abc"] {
            all.remove(prefix.as_bytes(), 1);
        }
        assert!(all.followers.is_empty() && all.lengths.is_empty());
    }
}

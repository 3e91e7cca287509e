//! Clients that are told of all keys of some prefixes, whether they have read them or not.
//!
//! What has changed as one group is told by one message for each prefix, with its keys in order and
//! each of them once.

use super::message::News;
use super::tracker::{Mode, Tracker};
use crate::server::Server;
use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, RwLock};
use weft_keyspace::stale::Changed;

type Followers = BTreeMap<u64, Arc<Tracker>>;

/// See the module.
#[derive(Debug, Default)]
pub struct Prefixes {
    all: RwLock<BTreeMap<Box<[u8]>, Followers>>,
    len: AtomicUsize,
}

impl Prefixes {
    /// How many prefixes are followed.
    pub fn len(&self) -> usize {
        self.len.load(Ordering::Relaxed)
    }

    /// Has the client follow `prefixes`, and those that it follows already. `changed` is called with
    /// whether anybody follows any, while nobody changes that.
    pub fn follow(&self, tracker: &Arc<Tracker>, prefixes: &[&[u8]], changed: impl FnOnce(bool)) {
        let mut own = tracker.prefixes();
        let mut all = self.all.write().unwrap_or_else(|p| p.into_inner());
        for prefix in prefixes {
            own.insert((*prefix).into());
            let followers = all.entry((*prefix).into()).or_default();
            followers.insert(tracker.client, tracker.clone());
        }
        self.len.store(all.len(), Ordering::Relaxed);
        changed(!all.is_empty());
    }

    /// The client follows nothing any more.
    pub fn leave(&self, tracker: &Tracker, changed: impl FnOnce(bool)) {
        let own = std::mem::take(&mut *tracker.prefixes());
        if own.is_empty() {
            return;
        }
        let mut all = self.all.write().unwrap_or_else(|p| p.into_inner());
        for prefix in own {
            if let Some(followers) = all.get_mut(&prefix) {
                followers.remove(&tracker.client);
                if followers.is_empty() {
                    all.remove(&prefix);
                }
            }
        }
        self.len.store(all.len(), Ordering::Relaxed);
        changed(!all.is_empty());
    }

    /// Tells of keys that have changed as one group. O(keys * log(keys) + prefixes * keys of each).
    pub fn spread(&self, srv: &Server, changed: &[Changed]) {
        // Of a key that several have changed, the last one counts.
        let keys: BTreeMap<&[u8], u64> = changed.iter().map(|(key, by)| (&**key, *by)).collect();
        let all = self.all.read().unwrap_or_else(|p| p.into_inner());
        for (prefix, followers) in all.iter() {
            let from = (Bound::Included(&**prefix), Bound::Unbounded);
            let those = keys.range::<[u8], _>(from);
            let those: Vec<(&[u8], u64)> = those
                .map(|(key, by)| (*key, *by))
                .take_while(|(key, _)| key.starts_with(prefix))
                .collect();
            if !those.is_empty() {
                tell(srv, followers, &those);
            }
        }
    }
}

fn tell(srv: &Server, followers: &Followers, keys: &[(&[u8], u64)]) {
    let news = News::of(keys.iter().map(|(key, _)| *key));
    for (client, tracker) in followers {
        let own = |by: &u64| tracker.mode().has(Mode::NOLOOP) && by == client;
        if !keys.iter().any(|(_, by)| own(by)) {
            tracker.tell(srv, &news);
            continue;
        }
        let others: Vec<&[u8]> =
            keys.iter().filter(|(_, by)| !own(by)).map(|(key, _)| *key).collect();
        if !others.is_empty() {
            tracker.tell(srv, &News::of(others.into_iter()));
        }
    }
}

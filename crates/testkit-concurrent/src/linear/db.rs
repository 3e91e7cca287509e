//! The keys of one database: values with deadlines, cheap to copy and to compare.

use super::digest::digest;
use super::streams::Stream;
use super::time::{Deadline, Life, Moment};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

/// A field of a hash: its number, and its deadline.
pub type Field = (i64, Option<Deadline>);

/// A value of a key.
#[derive(Clone, Debug, Hash)]
pub enum Held {
    Text(String),
    List(VecDeque<String>),
    Set(BTreeSet<i64>),
    Hash(BTreeMap<String, Field>),
    /// Scores and members in order.
    Zset(BTreeSet<(i64, String)>),
    Stream(Stream),
}

impl Held {
    fn is_empty(&self) -> bool {
        match self {
            Held::Text(_) => false,
            Held::List(list) => list.is_empty(),
            Held::Set(set) => set.is_empty(),
            Held::Hash(hash) => hash.is_empty(),
            Held::Zset(zset) => zset.is_empty(),
            Held::Stream(_) => false,
        }
    }
}

/// A key's value, its deadline, and the digest of both.
#[derive(Clone, Debug)]
struct Entry {
    held: Arc<Held>,
    deadline: Option<Deadline>,
    /// Of key and value. Computed when the value is stored, since it may be large.
    digest: u128,
}

/// One database. Cheap to clone, since the search clones it all the time.
#[derive(Clone, Debug, Default)]
pub struct Db {
    /// Shared with states that differ elsewhere: most operations only read.
    keys: Arc<BTreeMap<Arc<str>, Entry>>,
    /// Expired keys that the server may not have removed: they may be counted until they are
    /// created anew. The flag marks hashes, which may also be listed.
    expired_keys: BTreeMap<Arc<str>, bool>,
    /// Hashes with an expired field that the server may not have removed. Without other fields they
    /// still exist for commands that count or list keys.
    hashes_with_expired_fields: BTreeSet<Arc<str>>,
    /// Keys that no operation reads; they make the keyspace large.
    pub filler: usize,
    /// The digests of all entries, xored.
    digest: u128,
}

/// The digest of an entry with its deadline.
fn whole(entry: &Entry) -> u128 {
    match entry.deadline {
        None => entry.digest,
        Some(deadline) => entry.digest ^ digest(&(entry.digest, deadline)),
    }
}

/// A value with a deadline that an operation touches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mortal {
    Key(String),
    Field(String, String),
}

impl Db {
    /// The digest of this database.
    pub fn digest(&self) -> u128 {
        let expired_keys =
            if self.expired_keys.is_empty() { 0 } else { digest(&self.expired_keys) };
        let hashes_with_expired_fields = if self.hashes_with_expired_fields.is_empty() {
            0
        } else {
            digest(&self.hashes_with_expired_fields).rotate_left(2)
        };
        self.digest ^ expired_keys ^ hashes_with_expired_fields ^ (self.filler as u128)
    }

    /// The number of expired keys that may be counted.
    pub fn expired_keys(&self) -> usize {
        self.expired_keys.len()
    }

    /// Whether `key` may be listed although all of its fields have expired.
    pub fn may_be_named(&self, key: &str) -> bool {
        self.expired_keys.get(key).is_some_and(|hash| *hash)
    }

    /// Removes an expired key that the server may not have removed.
    pub fn hide(&mut self, key: &str) {
        if self.remove(key) {
            self.expired_keys.insert(key.into(), false);
        }
    }

    pub fn len(&self) -> usize {
        self.keys.len()
    }

    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    pub fn has(&self, key: &str) -> bool {
        self.keys.contains_key(key)
    }

    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.keys.keys().map(|key| &**key)
    }

    pub fn get(&self, key: &str) -> Option<&Held> {
        self.keys.get(key).map(|entry| &*entry.held)
    }

    pub fn shared(&self, key: &str) -> Option<Arc<Held>> {
        self.keys.get(key).map(|entry| entry.held.clone())
    }

    pub fn deadline(&self, key: &str) -> Option<Deadline> {
        self.keys.get(key)?.deadline
    }

    /// Stores a value without a deadline; an empty value removes the key.
    pub fn put(&mut self, key: &str, held: Held) {
        self.put_until(key, Arc::new(held), None);
    }

    /// Changes a value and keeps its deadline.
    pub fn change(&mut self, key: &str, held: Held) {
        let deadline = self.deadline(key);
        // A hash that is filled again may still have its old fields.
        let was_hash = matches!(held, Held::Hash(_)) && self.may_be_named(key);
        let hashes_with_expired_fields =
            self.hashes_with_expired_fields.take(key).or(was_hash.then(|| key.into()));
        self.put_until(key, Arc::new(held), deadline);
        match hashes_with_expired_fields {
            Some(key) if self.has(&key) => drop(self.hashes_with_expired_fields.insert(key)),
            Some(key) => drop(self.expired_keys.insert(key, true)),
            None => {}
        }
    }

    pub fn put_until(&mut self, key: &str, held: Arc<Held>, deadline: Option<Deadline>) {
        self.remove(key);
        if !held.is_empty() {
            let entry = Entry { digest: digest(&(key, &*held)), held, deadline };
            self.digest ^= whole(&entry);
            self.expired_keys.remove(key);
            Arc::make_mut(&mut self.keys).insert(key.into(), entry);
        }
    }

    /// Sets or removes the deadline of an existing key.
    pub fn set_deadline(&mut self, key: &str, deadline: Option<Deadline>) {
        if !self.has(key) {
            return;
        }
        if let Some(entry) = Arc::make_mut(&mut self.keys).get_mut(key) {
            self.digest ^= whole(entry);
            entry.deadline = deadline;
            self.digest ^= whole(entry);
        }
    }

    pub fn remove(&mut self, key: &str) -> bool {
        if !self.has(key) {
            return false;
        }
        self.hashes_with_expired_fields.remove(key);
        if let Some(old) = Arc::make_mut(&mut self.keys).remove(key) {
            self.digest ^= whole(&old);
        }
        true
    }

    pub fn text(&self, key: &str) -> Option<String> {
        match self.get(key)? {
            Held::Text(text) => Some(text.clone()),
            Held::List(_) | Held::Set(_) | Held::Hash(_) | Held::Zset(_) | Held::Stream(_) => None,
        }
    }

    pub fn list(&self, key: &str) -> VecDeque<String> {
        match self.get(key) {
            Some(Held::List(list)) => list.clone(),
            _ => VecDeque::new(),
        }
    }

    pub fn set(&self, key: &str) -> BTreeSet<i64> {
        match self.get(key) {
            Some(Held::Set(set)) => set.clone(),
            _ => BTreeSet::new(),
        }
    }

    pub fn zset(&self, key: &str) -> BTreeSet<(i64, String)> {
        match self.get(key) {
            Some(Held::Zset(zset)) => zset.clone(),
            _ => BTreeSet::new(),
        }
    }

    /// `None`: the key doesn't exist. An empty stream does.
    pub fn stream(&self, key: &str) -> Option<Stream> {
        match self.get(key) {
            Some(Held::Stream(stream)) => Some(stream.clone()),
            _ => None,
        }
    }

    pub fn hash(&self, key: &str) -> BTreeMap<String, Field> {
        match self.get(key) {
            Some(Held::Hash(hash)) => hash.clone(),
            _ => BTreeMap::new(),
        }
    }

    /// Whether one of the fields of `key` has a deadline.
    pub fn has_mortal_fields(&self, key: &str) -> bool {
        match self.get(key) {
            Some(Held::Hash(hash)) => hash.values().any(|(_, deadline)| deadline.is_some()),
            _ => false,
        }
    }

    /// The keys and fields with a deadline among the words of a command, each with its state.
    pub fn mortals(&self, words: &[String], moment: Moment) -> Vec<(Mortal, Life)> {
        let mut found = Vec::new();
        for word in words {
            let Some(entry) = self.keys.get(word.as_str()) else { continue };
            let mut add = |mortal: Mortal, deadline: Option<Deadline>| {
                let Some(deadline) = deadline else { return };
                if !found.iter().any(|(known, _)| *known == mortal) {
                    found.push((mortal, deadline.at(moment)));
                }
            };
            add(Mortal::Key(word.clone()), entry.deadline);
            if let Held::Hash(hash) = &*entry.held {
                for (field, (_, deadline)) in hash.iter().filter(|(f, _)| words.contains(f)) {
                    add(Mortal::Field(word.clone(), field.clone()), *deadline);
                }
            }
        }
        found
    }

    /// The deadline of `mortal` has come; `stays`: the server may not remove it now.
    pub fn expire(&mut self, mortal: &Mortal, stays: bool) {
        match mortal {
            Mortal::Key(key) => match stays {
                true => self.hide(key),
                false => drop(self.remove(key)),
            },
            Mortal::Field(key, field) => {
                let mut hash = self.hash(key);
                hash.remove(field);
                // A command that only reads a field removes nothing.
                self.hashes_with_expired_fields.insert(key.as_str().into());
                self.change(key, Held::Hash(hash));
            }
        }
    }
}

//! The subscriptions of all clients: channels and shard channels by name, and patterns.
//!
//! ```text
//!  part 0..63, by the hash of the name      patterns
//!    "news"  ─► thread 0: [3, 17, 20]         "n*" ─► thread 1: [8]
//!               thread 1: [8]
//! ```
//!
//! A publisher holds the lock of the channel's part while it puts one message into the mailbox of
//! each thread that has subscribers. So all threads get the messages of a channel in the same
//! order. The message names its receivers at that moment, so clients that subscribe, leave or move
//! need no other synchronization. A list of receivers is copied only if it changes while a message
//! refers to it.
//!
//! A part without channels is not locked if there are no patterns either: a publication without
//! subscribers only reads two counters. The publisher matches patterns once per message, under the
//! part's lock and the shared lock of the patterns.
//!
//! Lock order: parts in ascending order, then the patterns.

use crate::message;
use crate::message::{Ids, Published};
use smallvec::SmallVec;
use std::collections::{BTreeSet, HashMap};
use std::fmt::Debug;
use std::hash::{BuildHasher, Hash};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, RwLock, RwLockReadGuard, RwLockWriteGuard};
use weft_base::glob;
use weft_memory::size_class::{heap, map_entry};
use weft_resp::Blob;

/// The name of a channel or pattern; all its subscribers share one allocation.
pub type Name = Arc<[u8]>;

type Hasher = foldhash::fast::RandomState;

/// The number of parts: a power of two, many times the number of cores.
const PARTS: usize = 64;

/// The number of names that one call subscribes or unsubscribes atomically. Publishers of all
/// threads wait for that. Calls with more names work in chunks of `CHUNK`.
const MAX_ATOMIC_NAMES: usize = 2000;
const CHUNK: usize = 64;

/// The chunk size for a call with so many names.
pub fn at_once(names: usize) -> usize {
    if names <= MAX_ATOMIC_NAMES { MAX_ATOMIC_NAMES } else { CHUNK }
}

/// The kinds of subscriptions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    Channel = 0,
    Shard = 1,
    Pattern = 2,
}

impl Kind {
    pub const COUNT: usize = 3;
    pub const ALL: [Kind; Kind::COUNT] = [Kind::Channel, Kind::Shard, Kind::Pattern];

    /// The prefix of `subscribe` and `unsubscribe` in command names.
    pub fn prefix(self) -> &'static str {
        match self {
            Kind::Channel => "",
            Kind::Shard => "s",
            Kind::Pattern => "p",
        }
    }
}

/// Whether a publisher can wait for a thread with a full mailbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CanWait {
    Some,
    None,
}

/// The mailbox of this thread is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MailboxFull(pub usize);

/// The subscriptions of one client.
pub trait Subscriptions {
    /// All names of a kind, in no particular order.
    fn each(&self, kind: Kind) -> impl Iterator<Item = &Name>;
}

/// The mailboxes of the threads.
pub trait Post {
    /// Appends a message to the thread's mailbox.
    fn put(&self, thread: usize, published: Published);
    /// Wakes the thread. Called without any lock held.
    fn ring(&self, thread: usize);
    /// Whether the thread's mailbox is full.
    fn is_crowded(&self, thread: usize) -> bool;
}

/// The copies of a message that a client gets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Delivery {
    /// One for its channel, and one for each pattern that matches.
    #[default]
    PerMatch,
    /// One, as a message of the channel: the client distributes it further.
    Once,
}

/// Is notified of names that get their first subscriber, or lose their last one.
pub trait Listener: Debug + Send + Sync {
    /// Called with the lock of the name held.
    fn changed(&self, kind: Kind, name: &Name);
}

/// Client ids by thread. There are few threads, and every entry has clients.
#[derive(Debug, Default)]
struct Subscribers {
    by_thread: SmallVec<[(u32, Ids); 1]>,
}

impl Subscribers {
    fn add(&mut self, thread: usize, client: u64) {
        let thread = thread as u32;
        let at = self.by_thread.iter().position(|(t, _)| *t == thread).unwrap_or_else(|| {
            self.by_thread.push((thread, Ids::default()));
            self.by_thread.len() - 1
        });
        let ids = Arc::make_mut(&mut self.by_thread[at].1);
        if let Err(place) = ids.binary_search(&client) {
            ids.insert(place, client);
        }
    }

    fn remove(&mut self, thread: usize, client: u64) {
        let found = self.by_thread.iter().position(|(t, _)| *t == thread as u32);
        let Some(at) = found else { return };
        let ids = &mut self.by_thread[at].1;
        if let Ok(place) = ids.binary_search(&client) {
            Arc::make_mut(ids).remove(place);
        }
        if ids.is_empty() {
            self.by_thread.swap_remove(at);
        }
    }

    fn len(&self) -> usize {
        self.by_thread.iter().map(|(_, ids)| ids.len()).sum()
    }

    fn is_empty(&self) -> bool {
        self.by_thread.is_empty()
    }

    fn first_full_mailbox(&self, threads: &impl Post) -> Option<MailboxFull> {
        let mut all = self.by_thread.iter().map(|(thread, _)| *thread as usize);
        all.find(|thread| threads.is_crowded(*thread)).map(MailboxFull)
    }
}

type Names = HashMap<Name, Subscribers, Hasher>;

/// The approximate memory of one client's subscription here, in bytes.
pub fn cost(kind: Kind, name: &[u8]) -> usize {
    /// The reference counts of an `Arc`.
    const SHARED: usize = 2 * size_of::<usize>();
    /// The list of clients: the shared allocation and room for a few ids.
    const IDS: usize = heap(SHARED + size_of::<Vec<u64>>()) + 4 * size_of::<u64>();
    /// The bytes around the name in a message's head.
    const HEAD: usize = 32;
    let shared = IDS + heap(SHARED + name.len());
    match kind {
        Kind::Channel | Kind::Shard => shared + map_entry(size_of::<(Name, Subscribers)>()),
        Kind::Pattern => {
            let head = heap(SHARED + HEAD + name.len());
            shared + head + map_entry(size_of::<(Name, usize)>()) + size_of::<Pattern>() * 3 / 2
        }
    }
}

/// Shrinks a map that has lost most of its entries. Amortized O(1) for each removed entry.
pub fn give_back<K: Eq + Hash, V, S: BuildHasher>(map: &mut HashMap<K, V, S>) {
    if map.len() < map.capacity() / 8 {
        map.shrink_to(2 * map.len());
    }
}

/// The channels and shard channels of one part.
#[derive(Debug, Default)]
struct Part {
    names: [Names; 2],
}

impl Part {
    fn names_mut(&mut self, kind: Kind) -> &mut Names {
        match kind {
            Kind::Channel => &mut self.names[0],
            Kind::Shard => &mut self.names[1],
            Kind::Pattern => unreachable!("patterns are in no part"),
        }
    }

    fn get(&self, kind: Kind, name: &[u8]) -> Option<&Subscribers> {
        match kind {
            Kind::Channel => self.names[0].get(name),
            Kind::Shard => self.names[1].get(name),
            Kind::Pattern => None,
        }
    }

    fn len(&self) -> usize {
        self.names.iter().map(HashMap::len).sum()
    }
}

/// On its own cache lines, so that publishers to different parts cause no false sharing.
#[repr(align(128))]
#[derive(Debug, Default)]
struct Slot {
    /// The number of channels in the part; changed under its lock.
    names: AtomicUsize,
    part: Mutex<Part>,
}

impl Slot {
    fn lock(&self) -> MutexGuard<'_, Part> {
        self.part.lock().unwrap_or_else(|p| p.into_inner())
    }
}

#[derive(Debug, Default)]
struct Patterns {
    /// The position of each pattern in `all`.
    at: HashMap<Name, usize, Hasher>,
    all: Vec<Pattern>,
}

#[derive(Debug)]
struct Pattern {
    name: Name,
    /// The head of matching messages.
    head: Arc<[u8]>,
    subscribers: Subscribers,
}

impl Patterns {
    /// Returns the shared name, and whether it is new.
    fn add(&mut self, name: &[u8], thread: usize, client: u64) -> (Name, bool) {
        let known = self.at.get(name).copied();
        let at = known.unwrap_or_else(|| {
            let name: Name = name.into();
            let (head, subscribers) = (message::pattern_head(&name), Subscribers::default());
            self.at.insert(name.clone(), self.all.len());
            self.all.push(Pattern { name, head, subscribers });
            self.all.len() - 1
        });
        let pattern = &mut self.all[at];
        pattern.subscribers.add(thread, client);
        (pattern.name.clone(), known.is_none())
    }

    /// Returns whether the pattern has lost its last subscriber.
    fn remove(&mut self, name: &[u8], thread: usize, client: u64) -> bool {
        let Some(at) = self.at.get(name).copied() else { return false };
        self.all[at].subscribers.remove(thread, client);
        let is_gone = self.all[at].subscribers.is_empty();
        if is_gone {
            self.at.remove(name);
            self.all.swap_remove(at);
            give_back(&mut self.at);
            if self.all.len() < self.all.capacity() / 8 {
                self.all.shrink_to(2 * self.all.len());
            }
            if let Some(moved) = self.all.get(at) {
                self.at.insert(moved.name.clone(), at);
            }
        }
        is_gone
    }
}

/// The registry of all subscriptions.
#[derive(Debug)]
pub struct Registry {
    slots: Box<[Slot]>,
    patterns: RwLock<Patterns>,
    /// The number of patterns; changed under their lock.
    pattern_count: AtomicUsize,
    hasher: Hasher,
    delivery: Delivery,
    listener: OnceLock<Box<dyn Listener>>,
}

impl Default for Registry {
    fn default() -> Self {
        Registry {
            slots: (0..PARTS).map(|_| Slot::default()).collect(),
            patterns: RwLock::default(),
            pattern_count: AtomicUsize::new(0),
            hasher: Hasher::default(),
            delivery: Delivery::default(),
            listener: OnceLock::new(),
        }
    }
}

impl Registry {
    pub fn with_delivery(delivery: Delivery) -> Registry {
        Registry { delivery, ..Registry::default() }
    }

    /// Notifies `listener` from now on. Only the first call has an effect.
    pub fn listen(&self, listener: Box<dyn Listener>) {
        let _ = self.listener.set(listener);
    }

    fn notify(&self, kind: Kind, name: &Name) {
        if let Some(listener) = self.listener.get() {
            listener.changed(kind, name);
        }
    }

    fn slot_of(&self, name: &[u8]) -> usize {
        (self.hasher.hash_one(name) >> 32) as usize % PARTS
    }

    fn read_patterns(&self) -> RwLockReadGuard<'_, Patterns> {
        self.patterns.read().unwrap_or_else(|p| p.into_inner())
    }

    fn write_patterns(&self) -> RwLockWriteGuard<'_, Patterns> {
        self.patterns.write().unwrap_or_else(|p| p.into_inner())
    }

    /// Puts a message into the mailbox of each thread that has subscribers. Returns the number of
    /// receivers. O(threads with subscribers + patterns).
    ///
    /// # Errors
    /// The mailbox of one of the threads is full, and the publisher can wait: nothing was
    /// published.
    #[inline]
    pub fn publish(
        &self,
        kind: Kind,
        channel: &[u8],
        message: &[u8],
        patience: CanWait,
        threads: &impl Post,
        accepted: &mut dyn FnMut(),
    ) -> Result<usize, MailboxFull> {
        self.publish_as(false, (kind, channel, message), patience, threads, accepted)
    }

    /// As [`Registry::publish`]; `is_bound`: the message may be delivered only while this node has the authority of its lease.
    ///
    /// # Errors
    /// As [`Registry::publish`].
    #[inline]
    pub fn publish_as(
        &self,
        is_bound: bool,
        (kind, channel, message): (Kind, &[u8], &[u8]),
        patience: CanWait,
        threads: &impl Post,
        accepted: &mut dyn FnMut(),
    ) -> Result<usize, MailboxFull> {
        let slot = &self.slots[self.slot_of(channel)];
        let matches = kind == Kind::Channel && self.pattern_count.load(Ordering::Acquire) > 0;
        if !matches && slot.names.load(Ordering::Acquire) == 0 {
            accepted();
            return Ok(0);
        }
        let message = (is_bound, kind, channel, message);
        self.publish_to(slot, message, (matches, patience), threads, accepted)
    }

    fn publish_to(
        &self,
        slot: &Slot,
        (is_bound, kind, channel, message): (bool, Kind, &[u8], &[u8]),
        (matches, patience): (bool, CanWait),
        threads: &impl Post,
        accepted: &mut dyn FnMut(),
    ) -> Result<usize, MailboxFull> {
        let part = slot.lock();
        let direct = part.get(kind, channel);
        let patterns = matches.then(|| self.read_patterns());
        let matched: SmallVec<[&Pattern; 4]> = patterns
            .iter()
            .flat_map(|p| &p.all)
            .filter(|pattern| glob::matches(&pattern.name, channel, false))
            .collect();
        if direct.is_none() && matched.is_empty() {
            accepted();
            return Ok(0);
        }
        if patience == CanWait::Some {
            let mut all = direct.into_iter().chain(matched.iter().map(|p| &p.subscribers));
            if let Some(crowded) = all.find_map(|s| s.first_full_mailbox(threads)) {
                return Err(crowded);
            }
        }
        accepted();
        let mut messages = MessagesByThread::new(message::tail(channel, message), is_bound);
        let head = if kind == Kind::Shard { message::SHARD_MESSAGE } else { message::MESSAGE };
        for (thread, ids) in direct.iter().flat_map(|s| &s.by_thread) {
            messages.message_to(*thread).add_direct(head, ids);
        }
        for pattern in matched {
            for (thread, ids) in &pattern.subscribers.by_thread {
                let published = messages.message_to(*thread);
                match self.delivery {
                    Delivery::PerMatch => published.add_matched(pattern.head.clone(), ids.clone()),
                    Delivery::Once => published.add_direct(head, ids),
                }
            }
        }
        let receivers = messages.all.iter().map(|(_, published)| published.receivers()).sum();
        let mut notified: SmallVec<[u32; 4]> = SmallVec::new();
        for (thread, published) in messages.all {
            threads.put(thread as usize, published);
            notified.push(thread);
        }
        drop((patterns, part));
        notified.into_iter().for_each(|thread| threads.ring(thread as usize));
        Ok(receivers)
    }

    /// Locks the parts of all `names` in ascending order, each once.
    fn lock_parts<'n>(&self, names: impl Iterator<Item = &'n [u8]>) -> LockedParts<'_> {
        let slots: BTreeSet<usize> = names.map(|name| self.slot_of(name)).collect();
        let parts = slots.into_iter().map(|slot| (slot, self.slots[slot].lock())).collect();
        LockedParts { registry: self, parts }
    }

    /// Subscribes the client to all `names`, atomically unless they are very many. Each entry gets
    /// the shared name.
    pub fn subscribe<'n>(
        &self,
        client: u64,
        thread: usize,
        kind: Kind,
        names: impl Iterator<Item = (&'n [u8], &'n mut Option<Name>)>,
    ) {
        let mut names: Vec<(&[u8], &mut Option<Name>)> = names.collect();
        let at_once = at_once(names.len());
        for some in names.chunks_mut(at_once) {
            if kind == Kind::Pattern {
                let mut patterns = self.write_patterns();
                for (name, shared) in some {
                    let (name, is_new) = patterns.add(name, thread, client);
                    if is_new {
                        self.notify(kind, &name);
                    }
                    **shared = Some(name);
                }
                self.pattern_count.store(patterns.all.len(), Ordering::Release);
                continue;
            }
            let mut locked = self.lock_parts(some.iter().map(|(name, _)| *name));
            for (name, shared) in some {
                **shared = Some(locked.add(kind, name, thread, client));
            }
        }
    }

    /// Unsubscribes the client from `names`, atomically unless they are very many.
    pub fn unsubscribe(&self, client: u64, thread: usize, kind: Kind, names: &[Name]) {
        names
            .chunks(at_once(names.len()))
            .for_each(|some| self.unsubscribe_atomically(client, thread, kind, some));
    }

    /// Like [`Registry::unsubscribe`], always atomically.
    fn unsubscribe_atomically(&self, client: u64, thread: usize, kind: Kind, names: &[Name]) {
        if kind == Kind::Pattern {
            let mut patterns = self.write_patterns();
            for name in names {
                if patterns.remove(name, thread, client) {
                    self.notify(kind, name);
                }
            }
            return self.pattern_count.store(patterns.all.len(), Ordering::Release);
        }
        let mut locked = self.lock_parts(names.iter().map(|name| &name[..]));
        names.iter().for_each(|name| locked.remove(kind, name, thread, client));
    }

    /// Removes all subscriptions of a client that leaves. Not atomic, since no client can see the
    /// difference.
    pub fn leave(&self, client: u64, thread: usize, subscriber: &impl Subscriptions) {
        for kind in Kind::ALL {
            let names: Vec<Name> = subscriber.each(kind).cloned().collect();
            names
                .chunks(CHUNK)
                .for_each(|some| self.unsubscribe_atomically(client, thread, kind, some));
        }
    }

    /// Moves the subscriptions of a client to another thread, which gets all later messages.
    /// Nothing can be published while the returned guard is held: all earlier messages are in the
    /// old thread's mailbox, and anything put into the new thread's mailbox precedes all later
    /// ones. O(subscriptions).
    pub fn relocate(
        &self,
        client: u64,
        from: usize,
        to: usize,
        subscriber: &impl Subscriptions,
    ) -> Moment<'_> {
        let parts = self.slots.iter().enumerate().map(|(n, slot)| (n, slot.lock())).collect();
        let mut locked = LockedParts { registry: self, parts };
        let mut patterns = self.write_patterns();
        for kind in [Kind::Channel, Kind::Shard] {
            for name in subscriber.each(kind) {
                locked.add(kind, name, to, client);
                locked.remove(kind, name, from, client);
            }
        }
        for name in subscriber.each(Kind::Pattern) {
            patterns.add(name, to, client);
            patterns.remove(name, from, client);
        }
        Moment { _parts: locked, _patterns: patterns }
    }

    /// The first full mailbox among those that would get a message on `channel` now. O(patterns).
    pub fn full_mailbox(
        &self,
        kind: Kind,
        channel: &[u8],
        threads: &impl Post,
    ) -> Option<MailboxFull> {
        let slot = &self.slots[self.slot_of(channel)];
        let matches = kind == Kind::Channel && self.pattern_count.load(Ordering::Acquire) > 0;
        if !matches && slot.names.load(Ordering::Acquire) == 0 {
            return None;
        }
        let part = slot.lock();
        let direct = part.get(kind, channel).and_then(|s| s.first_full_mailbox(threads));
        if direct.is_some() || !matches {
            return direct;
        }
        let patterns = self.read_patterns();
        let mut matched = patterns.all.iter().filter(|p| glob::matches(&p.name, channel, false));
        matched.find_map(|pattern| pattern.subscribers.first_full_mailbox(threads))
    }

    /// Whether `name` has subscribers.
    pub fn has(&self, kind: Kind, name: &[u8]) -> bool {
        match kind {
            Kind::Pattern => self.read_patterns().at.contains_key(name),
            Kind::Channel | Kind::Shard => self.subscribers(kind, name) > 0,
        }
    }

    /// The number of subscribers of `channel` by its name.
    pub fn subscribers(&self, kind: Kind, channel: &[u8]) -> usize {
        let slot = &self.slots[self.slot_of(channel)];
        slot.lock().get(kind, channel).map_or(0, Subscribers::len)
    }

    /// The number of clients that would get a message on `channel` now, by its name and by patterns. O(patterns).
    pub fn receivers(&self, kind: Kind, channel: &[u8]) -> usize {
        let direct = self.subscribers(kind, channel);
        if kind != Kind::Channel || self.pattern_count.load(Ordering::Acquire) == 0 {
            return direct;
        }
        let patterns = self.read_patterns();
        let matched = patterns.all.iter().filter(|p| glob::matches(&p.name, channel, false));
        direct + matched.map(|pattern| pattern.subscribers.len()).sum::<usize>()
    }

    /// The names of all channels of a kind. O(channels). Locks one part at a time.
    pub fn channels(&self, kind: Kind) -> Vec<Name> {
        let mut all = Vec::new();
        for slot in &self.slots {
            if slot.names.load(Ordering::Acquire) > 0 {
                all.extend(slot.lock().names_mut(kind).keys().cloned());
            }
        }
        all
    }

    /// All patterns, in the order of their messages.
    #[cfg(test)]
    pub fn patterns(&self) -> Vec<Name> {
        self.read_patterns().all.iter().map(|pattern| pattern.name.clone()).collect()
    }

    /// The number of channels of a kind. O(parts).
    pub fn count(&self, kind: Kind) -> usize {
        match kind {
            Kind::Pattern => self.pattern_count.load(Ordering::Acquire),
            Kind::Channel | Kind::Shard => {
                let busy = self.slots.iter().filter(|s| s.names.load(Ordering::Acquire) > 0);
                busy.map(|slot| slot.lock().names_mut(kind).len()).sum()
            }
        }
    }
}

/// Blocks publications, subscriptions and removals while it exists.
pub struct Moment<'a> {
    _parts: LockedParts<'a>,
    _patterns: RwLockWriteGuard<'a, Patterns>,
}

/// Locked parts.
struct LockedParts<'a> {
    registry: &'a Registry,
    parts: SmallVec<[(usize, MutexGuard<'a, Part>); 4]>,
}

impl LockedParts<'_> {
    fn part(&mut self, name: &[u8]) -> (&Slot, &mut Part) {
        let slot = self.registry.slot_of(name);
        let at = self.parts.binary_search_by_key(&slot, |(n, _)| *n).expect("held");
        (&self.registry.slots[slot], &mut self.parts[at].1)
    }

    fn add(&mut self, kind: Kind, name: &[u8], thread: usize, client: u64) -> Name {
        let registry = self.registry;
        let (slot, part) = self.part(name);
        let names = part.names_mut(kind);
        let shared = match names.get_key_value(name) {
            Some((shared, _)) => shared.clone(),
            None => name.into(),
        };
        let subscribers = names.entry(shared.clone()).or_default();
        let is_new = subscribers.is_empty();
        subscribers.add(thread, client);
        slot.names.store(part.len(), Ordering::Release);
        if is_new {
            registry.notify(kind, &shared);
        }
        shared
    }

    fn remove(&mut self, kind: Kind, name: &[u8], thread: usize, client: u64) {
        let registry = self.registry;
        let (slot, part) = self.part(name);
        let names = part.names_mut(kind);
        if let Some(subscribers) = names.get_mut(name) {
            subscribers.remove(thread, client);
            if subscribers.is_empty() {
                let removed = names.remove_entry(name);
                give_back(names);
                if let Some((name, _)) = removed {
                    registry.notify(kind, &name);
                }
            }
        }
        slot.names.store(part.len(), Ordering::Release);
    }
}

/// One message for each thread, under construction.
struct MessagesByThread {
    tail: Blob,
    is_bound: bool,
    all: SmallVec<[(u32, Published); 2]>,
}

impl MessagesByThread {
    fn new(tail: Blob, is_bound: bool) -> Self {
        MessagesByThread { tail, is_bound, all: SmallVec::new() }
    }

    fn message_to(&mut self, thread: u32) -> &mut Published {
        let found = self.all.iter().position(|(t, _)| *t == thread);
        let at = found.unwrap_or_else(|| {
            let tail = self.tail.clone();
            let published =
                if self.is_bound { Published::bound(tail) } else { Published::new(tail) };
            self.all.push((thread, published));
            self.all.len() - 1
        });
        &mut self.all[at].1
    }
}

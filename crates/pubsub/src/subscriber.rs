//! The subscriptions of one client. They belong to the client's session; the registry is shared.

use crate::registry;
use crate::registry::{Kind, Name, Registry, Subscriptions, at_once, give_back};
use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, Ordering};
use weft_memory::size_class::map_entry;

/// The memory of a subscription here and in the registry, in bytes.
fn cost(kind: Kind, name: &[u8]) -> usize {
    const OWN: usize = map_entry(size_of::<(Name, u64)>());
    OWN + registry::cost(kind, name)
}

/// The subscriptions of one client.
#[derive(Debug, Default)]
pub struct Subscriber {
    /// By kind: the names, each with a number that gives their order.
    names: [HashMap<Name, u64, foldhash::fast::RandomState>; Kind::COUNT],
    next: u64,
    /// The memory of all subscriptions, in bytes.
    bytes: usize,
}

impl Subscriber {
    pub fn len(&self, kind: Kind) -> usize {
        self.names[kind as usize].len()
    }

    /// The number of subscriptions of all kinds.
    pub fn all(&self) -> usize {
        self.names.iter().map(HashMap::len).sum()
    }

    pub fn is_empty(&self) -> bool {
        self.names.iter().all(HashMap::is_empty)
    }

    /// The number of subscriptions to report to the client: channels and patterns together, or
    /// shard channels.
    pub fn told(&self, kind: Kind) -> usize {
        match kind {
            Kind::Channel | Kind::Pattern => self.len(Kind::Channel) + self.len(Kind::Pattern),
            Kind::Shard => self.len(Kind::Shard),
        }
    }

    /// The memory in bytes. O(1).
    pub fn memory(&self) -> usize {
        size_of::<Self>() + self.bytes
    }

    pub fn has(&self, kind: Kind, name: &[u8]) -> bool {
        self.names[kind as usize].contains_key(name)
    }

    /// Whether `is` holds for each name of a kind. O(n).
    pub fn all_names(&self, kind: Kind, is: impl Fn(&[u8]) -> bool) -> bool {
        self.names[kind as usize].keys().all(|name| is(name))
    }

    /// All names of a kind, oldest first. O(n * log(n)).
    pub fn names(&self, kind: Kind) -> Vec<Name> {
        let mut all: Vec<(u64, &Name)> =
            self.names[kind as usize].iter().map(|(name, number)| (*number, name)).collect();
        all.sort_unstable_by_key(|(number, _)| *number);
        all.into_iter().map(|(_, name)| name.clone()).collect()
    }

    /// Subscribes to all `names`, atomically unless they are very many, and calls `notify` for each
    /// of them in order. With very many names, it stops between chunks when `continues` returns
    /// `false`.
    pub fn subscribe(
        &mut self,
        registry: &Registry,
        (client, thread): (u64, usize),
        kind: Kind,
        names: &[&[u8]],
        continues: impl Fn() -> bool,
        mut notify: impl FnMut(&[u8], usize),
    ) {
        for names in names.chunks(at_once(names.len())).take_while(|_| continues()) {
            let mut new: HashMap<&[u8], Option<Name>, foldhash::fast::RandomState> =
                HashMap::default();
            new.extend(names.iter().filter(|name| !self.has(kind, name)).map(|n| (*n, None)));
            registry.subscribe(client, thread, kind, new.iter_mut().map(|(name, at)| (*name, at)));
            for name in names {
                if let Some(name) = new.get_mut(name).and_then(Option::take) {
                    self.bytes += cost(kind, &name);
                    self.names[kind as usize].insert(name, self.next);
                    self.next += 1;
                }
                notify(name, self.told(kind));
            }
        }
    }

    /// Removes `name` here, but not from the registry. Returns whether the client was subscribed to
    /// it.
    pub fn forget(&mut self, kind: Kind, name: &[u8]) -> bool {
        let names = &mut self.names[kind as usize];
        let was = names.remove(name).is_some();
        if was {
            self.bytes -= cost(kind, name);
            give_back(names);
        }
        was
    }
}

impl Subscriptions for Subscriber {
    fn each(&self, kind: Kind) -> impl Iterator<Item = &Name> {
        self.names[kind as usize].keys()
    }
}

/// The numbers of subscriptions, readable by other threads.
#[derive(Debug, Default)]
pub struct Shown {
    pub channels: AtomicU32,
    pub patterns: AtomicU32,
    pub shards: AtomicU32,
}

impl Shown {
    /// The number of subscriptions of all kinds.
    pub fn all(&self) -> usize {
        let all = [&self.channels, &self.patterns, &self.shards];
        all.iter().map(|n| n.load(Ordering::Relaxed) as usize).sum()
    }

    /// Copies the numbers of `subscriber`; `None` means no subscriptions.
    pub fn renew(&self, subscriber: Option<&Subscriber>) {
        let len = |kind| subscriber.map_or(0, |subscriber| subscriber.len(kind) as u32);
        self.channels.store(len(Kind::Channel), Ordering::Relaxed);
        self.patterns.store(len(Kind::Pattern), Ordering::Relaxed);
        self.shards.store(len(Kind::Shard), Ordering::Relaxed);
    }

    /// Whether there are any subscriptions.
    pub fn any(&self) -> bool {
        self.all() > 0
    }
}

//! What one client listens to. It belongs to the client's session, as the registry's part of it
//! belongs to everybody.

use crate::registry;
use crate::registry::{Kind, Name, Registry, at_once, give_back};
use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, Ordering};
use weft_memory::size_class::map_entry;

/// Bytes that a subscription takes here and in the registry.
fn cost(kind: Kind, name: &[u8]) -> usize {
    const OWN: usize = map_entry(size_of::<(Name, u64)>());
    OWN + registry::cost(kind, name)
}

/// See the module.
#[derive(Debug, Default)]
pub struct Subscriber {
    /// By kind: names, with numbers by which they can be told in their order.
    names: [HashMap<Name, u64, foldhash::fast::RandomState>; Kind::COUNT],
    next: u64,
    /// Bytes of all subscriptions.
    bytes: usize,
}

impl Subscriber {
    pub fn len(&self, kind: Kind) -> usize {
        self.names[kind as usize].len()
    }

    /// How many there are of all kinds.
    pub fn all(&self) -> usize {
        self.names.iter().map(HashMap::len).sum()
    }

    pub fn is_empty(&self) -> bool {
        self.names.iter().all(HashMap::is_empty)
    }

    /// How many subscriptions the client is told: of channels and patterns together, or of shard
    /// channels.
    pub fn told(&self, kind: Kind) -> usize {
        match kind {
            Kind::Channel | Kind::Pattern => self.len(Kind::Channel) + self.len(Kind::Pattern),
            Kind::Shard => self.len(Kind::Shard),
        }
    }

    /// Bytes of memory. O(1).
    pub fn memory(&self) -> usize {
        size_of::<Self>() + self.bytes
    }

    pub fn has(&self, kind: Kind, name: &[u8]) -> bool {
        self.names[kind as usize].contains_key(name)
    }

    /// All names of a kind, oldest first. O(n * log(n)).
    pub fn names(&self, kind: Kind) -> Vec<Name> {
        let mut all: Vec<(u64, &Name)> =
            self.names[kind as usize].iter().map(|(name, number)| (*number, name)).collect();
        all.sort_unstable_by_key(|(number, _)| *number);
        all.into_iter().map(|(_, name)| name.clone()).collect()
    }

    /// All names of a kind in no order.
    pub fn each(&self, kind: Kind) -> impl Iterator<Item = &Name> {
        self.names[kind as usize].keys()
    }

    /// Listens to all `names`, at one moment unless they are very many, calling `told` for each of them in their
    /// order. In the middle of very many it gives up when `goes_on` says so.
    pub fn subscribe(
        &mut self,
        registry: &Registry,
        (client, thread): (u64, usize),
        kind: Kind,
        names: &[&[u8]],
        goes_on: impl Fn() -> bool,
        mut told: impl FnMut(&[u8], usize),
    ) {
        for names in names.chunks(at_once(names.len())).take_while(|_| goes_on()) {
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
                told(name, self.told(kind));
            }
        }
    }

    /// Forgets `name`; whether the client listened to it. The registry is not told.
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

/// Numbers of subscriptions as other threads may see them.
#[derive(Debug, Default)]
pub struct Shown {
    pub channels: AtomicU32,
    pub patterns: AtomicU32,
    pub shards: AtomicU32,
}

impl Shown {
    /// How many there are of all kinds.
    pub fn all(&self) -> usize {
        let all = [&self.channels, &self.patterns, &self.shards];
        all.iter().map(|n| n.load(Ordering::Relaxed) as usize).sum()
    }

    /// Copies the numbers of `subscriber`; `None`: it listens to nothing.
    pub fn renew(&self, subscriber: Option<&Subscriber>) {
        let len = |kind| subscriber.map_or(0, |subscriber| subscriber.len(kind) as u32);
        self.channels.store(len(Kind::Channel), Ordering::Relaxed);
        self.patterns.store(len(Kind::Pattern), Ordering::Relaxed);
        self.shards.store(len(Kind::Shard), Ordering::Relaxed);
    }

    /// Whether there are any.
    pub fn any(&self) -> bool {
        self.all() > 0
    }
}

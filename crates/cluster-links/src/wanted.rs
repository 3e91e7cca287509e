//! What the clients of this node listen to.
//!
//! The registry reports each name that gets its first subscriber or loses its last one. The report only says that the name may have
//! changed: the thread of the links asks the registry. So reports may be merged, and their order doesn't matter.

use rustix::event::{EventfdFlags, eventfd};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard};
use weft_pubsub::registry::{Kind, Listener, Name, Registry};

/// A channel, shard channel or pattern.
pub type Wish = (Kind, Name);

/// Names that may have changed, and the descriptor that wakes the thread of the links.
#[derive(Debug)]
pub struct Changes {
    names: Mutex<HashSet<Wish>>,
    wake: OwnedFd,
}

impl Changes {
    /// # Errors
    /// The system can't create a descriptor.
    pub fn new() -> std::io::Result<Changes> {
        let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Changes { names: Mutex::default(), wake })
    }

    fn names(&self) -> MutexGuard<'_, HashSet<Wish>> {
        self.names.lock().unwrap_or_else(|p| p.into_inner())
    }

    pub fn wake(&self) {
        // Fails only if the counter is full, and then the descriptor is readable.
        let _ = rustix::io::write(&self.wake, &1u64.to_ne_bytes());
    }

    /// Takes all names. The descriptor is not readable any more, until another one comes.
    pub fn take(&self) -> HashSet<Wish> {
        let _ = rustix::io::read(&self.wake, &mut [0u8; 8]);
        std::mem::take(&mut *self.names())
    }
}

impl AsFd for Changes {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.wake.as_fd()
    }
}

/// What the registry notifies.
#[derive(Debug)]
pub struct Reports(pub Arc<Changes>);

impl Listener for Reports {
    fn changed(&self, kind: Kind, name: &Name) {
        let mut names = self.0.names();
        let is_first = names.is_empty();
        names.insert((kind, name.clone()));
        drop(names);
        if is_first {
            self.0.wake();
        }
    }
}

/// What the links are to listen to.
#[derive(Debug, Default)]
pub struct Wanted {
    all: HashSet<Wish>,
    /// The number of shard channels in it.
    shards: usize,
}

/// A change of [`Wanted`].
#[derive(Debug, Default)]
pub struct Difference {
    pub added: Vec<Wish>,
    pub removed: Vec<Wish>,
}

impl Wanted {
    /// Asks the registry for the names that may have changed.
    pub fn renew(&mut self, changed: HashSet<Wish>, registry: &Registry) -> Difference {
        let mut difference = Difference::default();
        for wish in changed {
            let is_shard = usize::from(wish.0 == Kind::Shard);
            match registry.has(wish.0, &wish.1) {
                true if self.all.insert(wish.clone()) => {
                    self.shards += is_shard;
                    difference.added.push(wish);
                }
                false if self.all.remove(&wish) => {
                    self.shards -= is_shard;
                    difference.removed.push(wish);
                }
                true | false => {}
            }
        }
        shrink(&mut self.all);
        difference
    }

    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Whether anything is wanted of a node. `in_shard`: it belongs to the shard of this node.
    pub fn is_wanted_of(&self, in_shard: bool) -> bool {
        in_shard && self.shards > 0 || self.all.len() > self.shards
    }

    /// All that is wanted of a node.
    pub fn of_node(&self, in_shard: bool) -> impl Iterator<Item = &Wish> {
        self.all.iter().filter(move |(kind, _)| in_shard || *kind != Kind::Shard)
    }

    /// The shard channels.
    pub fn of_shard(&self) -> impl Iterator<Item = &Wish> {
        self.all.iter().filter(|(kind, _)| *kind == Kind::Shard)
    }
}

/// Shrinks a set that has lost most of its entries.
fn shrink(set: &mut HashSet<Wish>) {
    if set.len() < set.capacity() / 8 {
        set.shrink_to(2 * set.len());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn subscribe(registry: &Registry, client: u64, kind: Kind, name: &str) {
        let mut shared = None;
        registry.subscribe(client, 0, kind, std::iter::once((name.as_bytes(), &mut shared)));
    }

    fn unsubscribe(registry: &Registry, client: u64, kind: Kind, name: &str) {
        registry.unsubscribe(client, 0, kind, &[name.as_bytes().into()]);
    }

    #[test]
    fn first_and_last_subscribers_change_what_is_wanted() {
        let registry = Registry::default();
        let changes = Arc::new(Changes::new().expect("a descriptor"));
        registry.listen(Box::new(Reports(changes.clone())));
        let mut wanted = Wanted::default();
        for (kind, name) in [(Kind::Channel, "a"), (Kind::Shard, "a"), (Kind::Pattern, "a*")] {
            subscribe(&registry, 1, kind, name);
            assert_eq!(wanted.renew(changes.take(), &registry).added.len(), 1);
            subscribe(&registry, 2, kind, name);
            assert!(changes.take().is_empty());
            unsubscribe(&registry, 1, kind, name);
            assert!(changes.take().is_empty());
        }
        assert_eq!((wanted.of_node(true).count(), wanted.of_node(false).count()), (3, 2));
        for (kind, name) in [(Kind::Channel, "a"), (Kind::Pattern, "a*")] {
            unsubscribe(&registry, 2, kind, name);
            assert_eq!(wanted.renew(changes.take(), &registry).removed.len(), 1);
        }
        assert_eq!((wanted.is_wanted_of(true), wanted.is_wanted_of(false)), (true, false));
        // It has gone and is back: no difference.
        unsubscribe(&registry, 2, Kind::Shard, "a");
        subscribe(&registry, 3, Kind::Shard, "a");
        let difference = wanted.renew(changes.take(), &registry);
        assert!(difference.added.is_empty() && difference.removed.is_empty());
    }
}

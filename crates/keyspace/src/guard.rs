//! Holding shards: the ordered multi-guard, and the whole world.
//!
//! This file is the only one that takes shard locks. A [`Guard`] holds the locks of a
//! [`ShardSet`], taken in ascending order, so that two commands can never wait for each other
//! in a circle; if one is busy, those already taken are released and the caller parks its
//! connection. [`Keyspace::world`] closes the gates instead and holds everything.

use crate::gate::Closed;
use crate::keyspace::{Keyspace, SHARDS};
use crate::lock::{Park, Waiter};
use smallvec::SmallVec;

/// A set of shards in ascending order. Most commands have one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ShardSet(SmallVec<[u16; 4]>);

impl ShardSet {
    pub fn one(shard: u16) -> Self {
        ShardSet(smallvec::smallvec![shard])
    }

    /// Of any shards, in any order, with repetitions.
    pub fn of(shards: impl IntoIterator<Item = u16>) -> Self {
        let mut set: SmallVec<[u16; 4]> = shards.into_iter().collect();
        set.sort_unstable();
        set.dedup();
        ShardSet(set)
    }

    pub fn iter(&self) -> impl DoubleEndedIterator<Item = u16> + '_ {
        self.0.iter().copied()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// The shards of a command, held.
#[derive(Debug)]
pub struct Guard<'k> {
    ks: &'k Keyspace,
    held: Held<'k>,
}

#[derive(Debug)]
enum Held<'k> {
    One(u16),
    Many(ShardSet),
    World { _closed: Closed<'k> },
}

/// A shard was not free: the connection is queued behind it, or must be (see [`Keyspace::park`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Busy {
    pub shard: u16,
}

impl Keyspace {
    /// Holds one shard, unless it is busy for longer than a short spin.
    #[inline]
    pub fn guard_one(&self, shard: u16) -> Result<Guard<'_>, Busy> {
        if self.locks[usize::from(shard)].try_lock() {
            Ok(Guard { ks: self, held: Held::One(shard) })
        } else {
            Err(Busy { shard })
        }
    }

    /// Holds all shards of `set`, or none.
    pub fn guard(&self, set: ShardSet) -> Result<Guard<'_>, Busy> {
        if let [one] = set.0[..] {
            return self.guard_one(one);
        }
        for (n, shard) in set.iter().enumerate() {
            if !self.locks[usize::from(shard)].try_lock() {
                set.iter().take(n).for_each(|s| self.release(s));
                return Err(Busy { shard });
            }
        }
        Ok(Guard { ks: self, held: Held::Many(set) })
    }

    /// After [`Busy`]: queues `waiter` to be woken when the shard is released. `false` when the
    /// shard has become free meanwhile, so that the caller should try again at once.
    pub fn park(&self, busy: Busy, waiter: Waiter) -> bool {
        match self.locks[usize::from(busy.shard)].park(waiter) {
            Park::Parked => true,
            Park::Acquired => {
                self.release(busy.shard);
                false
            }
        }
    }

    /// Stops every thread between two commands and holds the whole keyspace. The caller must
    /// be outside its own gate.
    pub fn world(&self) -> Guard<'_> {
        let closed = self.gates.close();
        Guard { ks: self, held: Held::World { _closed: closed } }
    }

    #[inline]
    fn release(&self, shard: u16) {
        for waiter in self.locks[usize::from(shard)].release() {
            (self.wake)(waiter);
        }
    }
}

impl<'k> Guard<'k> {
    pub fn keyspace(&self) -> &'k Keyspace {
        self.ks
    }

    /// Whether this guard holds `shard`.
    #[inline]
    pub fn holds(&self, shard: u16) -> bool {
        match &self.held {
            Held::One(s) => *s == shard,
            Held::Many(set) => set.0.binary_search(&shard).is_ok(),
            Held::World { .. } => usize::from(shard) < SHARDS,
        }
    }

    /// Whether this guard holds every shard.
    pub fn is_world(&self) -> bool {
        match &self.held {
            Held::World { .. } => true,
            Held::One(_) | Held::Many(_) => false,
        }
    }
}

impl Drop for Guard<'_> {
    #[inline]
    fn drop(&mut self) {
        match &self.held {
            Held::One(shard) => self.ks.release(*shard),
            Held::Many(set) => set.iter().for_each(|s| self.ks.release(s)),
            Held::World { .. } => {}
        }
    }
}

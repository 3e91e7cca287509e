//! Holding shards: the ordered multi-guard, and the whole world.
//!
//! This file is the only one that takes shard locks. A [`Guard`] holds the locks of a
//! [`ShardSet`], taken in ascending order, so that two commands can never wait for each other
//! in a circle; if one is busy, those already taken are released and the caller parks its
//! connection. [`Keyspace::world`] closes the gates instead and holds everything.

use crate::cut::{Cut, begin_journals};
use crate::gate::Closed;
use crate::keyspace::{Keyspace, SHARDS};
use crate::lock::{Park, Waiter};
use smallvec::SmallVec;
use std::sync::{RwLockReadGuard, RwLockWriteGuard, TryLockError};

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
    World { _closed: Closed<'k>, _alone: RwLockWriteGuard<'k, ()> },
    Cut(Cut<'k>),
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
    ///
    /// While a long command runs in the slow lane this waits for its end, with everybody else at
    /// work. The caller may hold no shard.
    pub fn world(&self) -> Guard<'_> {
        let alone = self.slow.write().unwrap_or_else(|p| p.into_inner());
        let closed = self.gates.close();
        Guard { ks: self, held: Held::World { _closed: closed, _alone: alone } }
    }

    /// Whether [`Keyspace::world`] would have to wait for the slow lane.
    pub fn is_slow_lane_busy(&self) -> bool {
        matches!(self.slow.try_read(), Err(TryLockError::WouldBlock))
            || matches!(self.slow.try_write(), Err(TryLockError::WouldBlock))
    }

    /// Says that the calling thread, which has no gate, is going to execute a command; to be kept
    /// until that has ended. Must be taken before the command's guard, and must not be held while
    /// the thread waits for a shard: who stops the world may hold it.
    pub fn slow(&self) -> SlowLane<'_> {
        SlowLane(self.slow.read().unwrap_or_else(|p| p.into_inner()))
    }

    /// Begins a walk over the set of keys as it is now: see [`crate::cut`]. The calling thread has
    /// no gate, and sleeps in `wait` until a shard that it was parked on is free.
    pub fn cut<'k>(&'k self, waiter: Waiter, wait: &'k dyn Fn(), now_ms: i64) -> Guard<'k> {
        let alone = self.slow.write().unwrap_or_else(|p| p.into_inner());
        let closed = self.gates.close();
        begin_journals(self);
        drop(closed);
        let alone = RwLockWriteGuard::downgrade(alone);
        Guard { ks: self, held: Held::Cut(Cut::new(self, waiter, wait, now_ms, alone)) }
    }

    #[inline]
    pub(crate) fn release(&self, shard: u16) {
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
            Held::Cut(cut) => cut.holds(shard),
        }
    }

    /// Adds `set` to what is held, if all of it is free or held already; this never waits. Changes
    /// nothing otherwise. A guard taken out of order can't come to wait for another, since it
    /// gives up at the first shard that is busy.
    pub fn try_extend(&mut self, set: &ShardSet) -> Result<(), Busy> {
        let missing: SmallVec<[u16; 4]> = set.iter().filter(|s| !self.holds(*s)).collect();
        for (n, shard) in missing.iter().enumerate() {
            if !self.ks.locks[usize::from(*shard)].try_lock() {
                missing[..n].iter().for_each(|s| self.ks.release(*s));
                return Err(Busy { shard: *shard });
            }
        }
        if missing.is_empty() {
            return Ok(());
        }
        let held: SmallVec<[u16; 4]> = match &self.held {
            Held::One(shard) => smallvec::smallvec![*shard],
            Held::Many(set) => set.0.clone(),
            Held::World { .. } | Held::Cut(_) => unreachable!("the world lacks nothing"),
        };
        self.held = Held::Many(ShardSet::of(held.into_iter().chain(missing)));
        Ok(())
    }

    /// The walk, if this is the guard of one.
    pub(crate) fn as_cut(&self) -> Option<&Cut<'k>> {
        match &self.held {
            Held::Cut(cut) => Some(cut),
            Held::One(_) | Held::Many(_) | Held::World { .. } => None,
        }
    }

    /// Whether this guard holds every shard.
    pub fn is_world(&self) -> bool {
        match &self.held {
            Held::World { .. } => true,
            Held::One(_) | Held::Many(_) | Held::Cut(_) => false,
        }
    }
}

/// See [`Keyspace::slow`].
#[derive(Debug)]
pub struct SlowLane<'k>(#[allow(dead_code, reason = "held, not read")] RwLockReadGuard<'k, ()>);

impl Drop for Guard<'_> {
    #[inline]
    fn drop(&mut self) {
        match &self.held {
            Held::One(shard) => self.ks.release(*shard),
            Held::Many(set) => set.iter().for_each(|s| self.ks.release(s)),
            Held::World { .. } | Held::Cut(_) => {}
        }
    }
}

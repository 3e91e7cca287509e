//! Holding shards: the ordered multi-guard, and the whole world.
//!
//! This file is the only one that takes shard locks. A [`Guard`] holds the locks of a
//! [`ShardSet`], taken in ascending order, so that two commands can never wait for each other
//! in a circle; if one is busy, those already taken are released and the caller parks its
//! connection. Who stops the world instead holds everything. The ways to a guard are in
//! [`crate::hold`].

use crate::cut::Cut;
use crate::hold::Stop;
use crate::keyspace::{Keyspace, SHARDS};
use crate::lock::{Park, Waiter};
use crate::running::{self, LongCommand, Running};
use crate::sync::Ordering;
use crate::turn::Turn;
use smallvec::SmallVec;
use std::collections::VecDeque;

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

    pub fn len(&self) -> usize {
        self.0.len()
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
    /// It is a thread of the slow lane that executes.
    long: Option<Box<LongCommand<'k>>>,
}

#[derive(Debug)]
pub(crate) enum Held<'k> {
    One(u16),
    Many(ShardSet),
    // In boxes, since they are rare: a guard of one shard is small, and moved often.
    World(#[allow(dead_code, reason = "held, not read")] Box<Stop<'k>>),
    Cut(Box<Cut<'k>>),
    Rest(Box<Rest<'k>>),
}

/// All shards but those that the slow lane holds; the I/O threads are stopped.
#[derive(Debug)]
pub(crate) struct Rest<'k> {
    pub(crate) running: Running<'k>,
    pub(crate) _stop: Stop<'k>,
}

/// A shard was not free: the connection is queued behind it, or must be (see [`Keyspace::park`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Busy {
    pub shard: u16,
}

impl Keyspace {
    #[inline]
    pub(crate) fn lock_one(&self, turn: &mut Turn, shard: u16) -> Result<Guard<'_>, Busy> {
        turn.check_committed();
        let lock = &self.locks[usize::from(shard)];
        if lock.try_lock() {
            lock.agree_on_time(turn);
            Ok(self.guard_of(Held::One(shard)))
        } else {
            Err(Busy { shard })
        }
    }

    pub(crate) fn lock_all(&self, turn: &mut Turn, set: ShardSet) -> Result<Guard<'_>, Busy> {
        if let [one] = set.0[..] {
            return self.lock_one(turn, one);
        }
        turn.check_committed();
        self.try_all(&set)?;
        let mut guard = self.guard_of(Held::Many(set));
        guard.raise_time(turn);
        Ok(guard)
    }

    /// Takes the locks of all of `set`, or of none.
    fn try_all(&self, set: &ShardSet) -> Result<(), Busy> {
        for (n, shard) in set.iter().enumerate() {
            if !self.locks[usize::from(shard)].try_lock() {
                set.iter().take(n).for_each(|s| self.release(s));
                return Err(Busy { shard });
            }
        }
        Ok(())
    }

    #[inline]
    pub(crate) fn guard_of<'k>(&'k self, held: Held<'k>) -> Guard<'k> {
        Guard { ks: self, held, long: None }
    }

    /// Gives all shards the time of `turn`, or the latest of theirs to all. The world is stopped.
    pub(crate) fn agree_on_time(&self, turn: &mut Turn) {
        turn.check_committed();
        let latest = self.locks.iter().map(|lock| lock.time.load(Ordering::Relaxed)).max();
        turn.raise_time(latest.unwrap_or_default());
        self.locks.iter().for_each(|lock| lock.time.store(turn.now_ms, Ordering::Relaxed));
    }

    /// Forgets which time commands have seen, so that the next may run at an earlier one. Whoever has
    /// the keyspace alone may go back: a run of generated commands that begins anew, never a server.
    pub fn forget_time(&mut self) {
        self.locks.iter().for_each(|lock| lock.time.store(i64::MIN, Ordering::Relaxed));
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

    #[inline]
    pub(crate) fn release(&self, shard: u16) {
        let waiters = self.locks[usize::from(shard)].release();
        if !waiters.is_empty() {
            self.wake_all(waiters);
        }
    }

    #[cold]
    fn wake_all(&self, waiters: VecDeque<Waiter>) {
        for waiter in waiters {
            if !self.sleepers.wake(waiter) {
                (self.wake)(waiter);
            }
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
            Held::World(_) => usize::from(shard) < SHARDS,
            Held::Cut(cut) => cut.holds(shard),
            Held::Rest(rest) => !running::is_held(&rest.running, shard),
        }
    }

    /// Releases what is held, as dropping does; for one shard, the usual case, without a look at
    /// everything that a guard can be.
    #[inline]
    pub fn release(self) {
        if let (Held::One(shard), None) = (&self.held, &self.long) {
            let (ks, shard) = (self.ks, *shard);
            std::mem::forget(self);
            ks.release(shard);
        }
    }

    /// Adds `set` to what is held, if all of it is free or held already; this never waits. Changes
    /// nothing otherwise. A guard taken out of order can't come to wait for another, since it
    /// gives up at the first shard that is busy.
    pub fn try_extend(&mut self, turn: &mut Turn, set: &ShardSet) -> Result<(), Busy> {
        let missing: SmallVec<[u16; 4]> = set.iter().filter(|s| !self.holds(*s)).collect();
        if missing.is_empty() {
            return Ok(());
        }
        let missing = ShardSet(missing);
        let ks = self.ks;
        match &mut self.long {
            None => ks.try_all(&missing)?,
            Some(long) => long.extend(&missing, || ks.try_all(&missing))?,
        }
        let held: SmallVec<[u16; 4]> = match &self.held {
            Held::One(shard) => smallvec::smallvec![*shard],
            Held::Many(set) => set.0.clone(),
            Held::World(_) | Held::Cut(_) | Held::Rest(_) => {
                unreachable!("the world lacks nothing")
            }
        };
        self.held = Held::Many(ShardSet::of(held.into_iter().chain(missing.iter())));
        self.raise_time(turn);
        Ok(())
    }

    /// Raises the time of `turn` to the latest of the shards', and theirs to it.
    pub(crate) fn raise_time(&mut self, turn: &mut Turn) {
        let locks = &self.ks.locks;
        match &self.held {
            Held::One(shard) => locks[usize::from(*shard)].agree_on_time(turn),
            Held::Many(set) => {
                set.iter().for_each(|shard| locks[usize::from(shard)].agree_on_time(turn));
                set.iter().for_each(|shard| locks[usize::from(shard)].agree_on_time(turn));
            }
            Held::World(_) | Held::Cut(_) | Held::Rest(_) => {}
        }
    }

    /// Says that this is the guard of a command of the slow lane.
    pub(crate) fn of_long(mut self, long: LongCommand<'k>) -> Self {
        self.long = Some(Box::new(long));
        self
    }

    /// What the command has done is about to be told: nobody who looks at all keys comes in between
    /// until [`Guard::publish`].
    pub fn begin_commit(&mut self) {
        if let Some(long) = &mut self.long {
            long.begin_commit();
        }
    }

    /// All is told, and clients may be.
    pub fn publish(&mut self) {
        if let Some(long) = &mut self.long {
            long.publish();
        }
    }

    /// Something is about to be changed through this guard. What a command of the slow lane changes
    /// must be kept before its first write, if a snapshot is about to begin.
    pub(crate) fn writes(&self) {
        if let Some(long) = &self.long {
            long.writes();
        }
    }

    /// The keys of `shard` in database `db`, before what the slow lane is doing.
    pub(crate) fn shard_len(&self, shard: u16, db: usize) -> usize {
        match &self.held {
            Held::Rest(rest) => running::keys_of(self.ks, &rest.running, shard, db),
            Held::One(_) | Held::Many(_) | Held::World(_) | Held::Cut(_) => {
                self.ks.shard_len(shard, db)
            }
        }
    }

    /// The walk, if this is the guard of one.
    pub(crate) fn as_cut(&self) -> Option<&Cut<'k>> {
        match &self.held {
            Held::Cut(cut) => Some(cut),
            Held::One(_) | Held::Many(_) | Held::World(_) | Held::Rest(_) => None,
        }
    }

    /// One of the shards that are held; where all may be, any.
    #[inline]
    pub(crate) fn any_shard(&self) -> u16 {
        match &self.held {
            Held::One(shard) => *shard,
            Held::Many(set) => set.0.first().copied().unwrap_or(0),
            Held::World(_) | Held::Cut(_) | Held::Rest(_) => 0,
        }
    }

    /// Whether the I/O threads are stopped.
    pub(crate) fn stops_everybody(&self) -> bool {
        match &self.held {
            Held::World(_) | Held::Rest(_) => true,
            Held::One(_) | Held::Many(_) | Held::Cut(_) => false,
        }
    }

    /// Whether this guard holds every shard.
    pub fn is_world(&self) -> bool {
        match &self.held {
            Held::World(_) => true,
            Held::One(_) | Held::Many(_) | Held::Cut(_) | Held::Rest(_) => false,
        }
    }
}

impl Drop for Guard<'_> {
    #[inline]
    fn drop(&mut self) {
        if self.long.is_some() {
            self.publish();
        }
        match &self.held {
            Held::One(shard) => self.ks.release(*shard),
            Held::Many(set) => set.iter().for_each(|s| self.ks.release(s)),
            Held::World(_) | Held::Cut(_) | Held::Rest(_) => {}
        }
    }
}

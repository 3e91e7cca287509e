//! Holding shards: the ordered guard of several shards, and the whole world.
//!
//! This file is the only one that takes shard locks. A [`Guard`] holds the locks of a
//! [`ShardSet`], taken in ascending order, so that two commands can't deadlock. If a lock is
//! busy, those already taken are released and the caller parks its connection. A thread that
//! stops the world holds everything instead. [`crate::hold`] has the ways to a guard.

use crate::context::ExecContext;
use crate::cut::Cut;
use crate::hold::Stop;
use crate::interest::UNDO;
use crate::keyspace::{Keyspace, SHARDS};
use crate::lock::{Park, Waiter};
use crate::running::{self, LongCommand, Running};
use crate::sync::Ordering;
use smallvec::SmallVec;
use std::collections::VecDeque;

/// A set of shards in ascending order. Most commands have one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ShardSet(SmallVec<[u16; 4]>);

impl ShardSet {
    pub fn one(shard: u16) -> Self {
        ShardSet(smallvec::smallvec![shard])
    }

    /// From any shards, in any order, with repetitions.
    pub fn of(shards: impl IntoIterator<Item = u16>) -> Self {
        let mut set: SmallVec<[u16; 4]> = shards.into_iter().collect();
        set.sort_unstable();
        set.dedup();
        ShardSet(set)
    }

    pub fn iter(&self) -> impl DoubleEndedIterator<Item = u16> + '_ {
        self.0.iter().copied()
    }

    pub fn contains(&self, shard: u16) -> bool {
        self.0.binary_search(&shard).is_ok()
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// The held shards of a command.
#[derive(Debug)]
pub struct Guard<'k> {
    ks: &'k Keyspace,
    held: Held<'k>,
    /// Set if a slow-lane thread executes the command.
    long: Option<Box<LongCommand<'k>>>,
}

#[derive(Debug)]
pub(crate) enum Held<'k> {
    One(u16),
    Many(ShardSet),
    // Boxed because they are rare: a guard of one shard is small and moved often.
    AllShards(#[allow(dead_code, reason = "held, not read")] Box<Stop<'k>>),
    Cut(Box<Cut<'k>>),
    Rest(Box<Rest<'k>>),
}

/// All shards except those held by the slow lane; the I/O threads are stopped.
#[derive(Debug)]
pub(crate) struct Rest<'k> {
    pub(crate) running: Running<'k>,
    pub(crate) _stop: Stop<'k>,
}

/// A shard was busy: queue the connection on its lock (see [`Keyspace::park`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Busy {
    pub shard: u16,
}

impl Keyspace {
    #[inline]
    pub(crate) fn lock_one(
        &self,
        context: &mut ExecContext,
        shard: u16,
    ) -> Result<Guard<'_>, Busy> {
        context.check_committed();
        let lock = &self.locks[usize::from(shard)];
        if lock.try_lock() {
            lock.agree_on_time(context);
            Ok(self.new_guard(Held::One(shard)))
        } else {
            Err(Busy { shard })
        }
    }

    pub(crate) fn lock_all(
        &self,
        context: &mut ExecContext,
        set: ShardSet,
    ) -> Result<Guard<'_>, Busy> {
        if let [one] = set.0[..] {
            return self.lock_one(context, one);
        }
        context.check_committed();
        self.try_lock_all(&set)?;
        let guard = self.new_guard(Held::Many(set));
        guard.raise_time(context);
        Ok(guard)
    }

    /// Takes the locks of all shards in `set`, or of none.
    fn try_lock_all(&self, set: &ShardSet) -> Result<(), Busy> {
        for (n, shard) in set.iter().enumerate() {
            if !self.locks[usize::from(shard)].try_lock() {
                set.iter().take(n).for_each(|s| self.release(s));
                return Err(Busy { shard });
            }
        }
        Ok(())
    }

    #[inline]
    pub(crate) fn new_guard<'k>(&'k self, held: Held<'k>) -> Guard<'k> {
        Guard { ks: self, held, long: None }
    }

    /// Sets the time of all shards and of `context` to the latest of them. The world must be
    /// stopped.
    pub(crate) fn agree_on_time(&self, context: &mut ExecContext) {
        context.check_committed();
        let latest = self.locks.iter().map(|lock| lock.time.load(Ordering::Relaxed)).max();
        context.raise_time(latest.unwrap_or_default());
        self.locks.iter().for_each(|lock| lock.time.store(context.now_ms, Ordering::Relaxed));
    }

    /// Resets the latest command times, so that the next command may run at an earlier time. For
    /// generated test runs that restart, never for a server.
    pub fn forget_time(&mut self) {
        self.locks.iter().for_each(|lock| lock.time.store(i64::MIN, Ordering::Relaxed));
    }

    /// After [`Busy`]: queues `waiter` to be woken when the shard is released. Returns `false` if
    /// the shard has become free, so that the caller should retry at once.
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
            if !self.background_threads.wake(waiter) {
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
            Held::Many(set) => set.contains(shard),
            Held::AllShards(_) => usize::from(shard) < SHARDS,
            Held::Cut(cut) => cut.holds(shard),
            Held::Rest(rest) => !running::is_held(&rest.running, shard),
        }
    }

    /// Calls `act` with each held shard. The guard must not be that of a walk.
    pub(crate) fn each_shard(&self, act: impl FnMut(u16)) {
        match &self.held {
            Held::One(shard) => [*shard].into_iter().for_each(act),
            Held::Many(set) => set.iter().for_each(act),
            Held::AllShards(_) | Held::Rest(_) => {
                (0..SHARDS as u16).filter(|shard| self.holds(*shard)).for_each(act);
            }
            Held::Cut(_) => unreachable!("a walk holds one shard after the other"),
        }
    }

    /// Releases the held shards, as dropping does. For one shard, the usual case, it skips the
    /// checks for other kinds of guards.
    #[inline]
    pub fn release(self) {
        if let (Held::One(shard), None) = (&self.held, &self.long) {
            let (ks, shard) = (self.ks, *shard);
            std::mem::forget(self);
            ks.release(shard);
        }
    }

    /// Adds `set` to the held shards if all of it is free or held already, without waiting.
    /// Changes nothing otherwise. Taking locks out of order can't deadlock here, since it stops
    /// at the first busy shard.
    pub fn try_extend(&mut self, context: &mut ExecContext, set: &ShardSet) -> Result<(), Busy> {
        let missing: SmallVec<[u16; 4]> = set.iter().filter(|s| !self.holds(*s)).collect();
        if missing.is_empty() {
            return Ok(());
        }
        let missing = ShardSet(missing);
        let ks = self.ks;
        match &mut self.long {
            None => ks.try_lock_all(&missing)?,
            Some(long) => long.extend(&missing, || ks.try_lock_all(&missing))?,
        }
        let held: SmallVec<[u16; 4]> = match &self.held {
            Held::One(shard) => smallvec::smallvec![*shard],
            Held::Many(set) => set.0.clone(),
            Held::AllShards(_) | Held::Cut(_) | Held::Rest(_) => {
                unreachable!("a world guard holds every shard")
            }
        };
        self.held = Held::Many(ShardSet::of(held.into_iter().chain(missing.iter())));
        let now_ms = context.now_ms;
        if let Some(undo) = &mut context.undo {
            missing.iter().for_each(|shard| ks.set_interest(shard, UNDO, true));
            if undo.is_time_fixed {
                self.note_late(undo, now_ms, &missing);
                return Ok(());
            }
        }
        self.raise_time(context);
        Ok(())
    }

    /// Raises the time of `context` to the latest of the shards', and theirs to it.
    pub(crate) fn raise_time(&self, context: &mut ExecContext) {
        let locks = &self.ks.locks;
        match &self.held {
            Held::One(shard) => locks[usize::from(*shard)].agree_on_time(context),
            Held::Many(set) => {
                set.iter().for_each(|shard| locks[usize::from(shard)].agree_on_time(context));
                set.iter().for_each(|shard| locks[usize::from(shard)].agree_on_time(context));
            }
            Held::AllShards(_) | Held::Cut(_) | Held::Rest(_) => {}
        }
    }

    /// For a slow-lane command that holds all shards: also stops the I/O threads, so that it holds the world until
    /// [`Guard::resume_io_threads`]. A snapshot that is about to begin counts it as a write.
    pub fn stop_io_threads(&mut self) {
        if let Some(long) = &mut self.long {
            long.before_write();
            long.stop_io_threads();
        }
    }

    /// The shards stay held.
    pub fn resume_io_threads(&mut self) {
        if let Some(long) = &mut self.long {
            long.resume_io_threads();
        }
    }

    /// Whether this is the guard of a slow-lane command that holds all shards and keeps walks away, while the I/O threads
    /// run.
    pub fn leaves_io_threads(&self) -> bool {
        self.long.as_ref().is_some_and(|long| long.is_without_walks())
    }

    /// Wakes all that wait for one of the shards, which stay held, or for commands of the slow lane: they find the reason
    /// for which the wait is long.
    pub fn wake_waiters(&self) {
        self.each_shard(|shard| {
            self.ks.wake_all(self.ks.locks[usize::from(shard)].take_waiters());
        });
        self.ks.slow_lane.wake();
        self.ks.walk.wake();
    }

    /// The held shards, in ascending order. O(shards held).
    pub fn shards(&self) -> Vec<u16> {
        let mut shards = Vec::new();
        self.each_shard(|shard| shards.push(shard));
        shards
    }

    /// Marks this as the guard of a slow-lane command.
    pub(crate) fn for_long_command(mut self, long: LongCommand<'k>) -> Self {
        self.long = Some(Box::new(long));
        self
    }

    /// The effects of the command are about to be published: no thread that reads all keys gets
    /// in between until [`Guard::publish`].
    pub fn begin_commit(&mut self) {
        if let Some(long) = &mut self.long {
            long.begin_commit();
        }
    }

    /// All listeners are notified, so clients may get their replies.
    pub fn publish(&mut self) {
        if let Some(long) = &mut self.long {
            long.publish();
        }
    }

    /// Call before a change through this guard. Before the first write of a slow-lane command,
    /// old values must be kept if a snapshot is about to begin.
    pub(crate) fn before_write(&self) {
        if let Some(long) = &self.long {
            long.before_write();
        }
    }

    /// The keys of `shard` in database `db`, without the changes of a running slow-lane command.
    pub(crate) fn shard_len(&self, shard: u16, db: usize) -> usize {
        match &self.held {
            Held::Rest(rest) => running::keys_of(self.ks, &rest.running, shard, db),
            Held::One(_) | Held::Many(_) | Held::AllShards(_) | Held::Cut(_) => {
                self.ks.shard_len(shard, db)
            }
        }
    }

    /// The number of keys in a database, without the changes of running commands. These may have emptied shards, or
    /// exchanged databases.
    pub(crate) fn count_keys(&self, db: usize) -> usize {
        let occupied = self.ks.occupied_shards(db);
        match &self.held {
            Held::Rest(rest) => {
                let held: usize = rest.running.iter().map(|entry| entry.keys(db)).sum();
                let free = occupied.filter(|shard| !running::is_held(&rest.running, *shard));
                held + free.map(|shard| self.ks.shard_len(shard, db)).sum::<usize>()
            }
            Held::One(_) | Held::Many(_) | Held::AllShards(_) | Held::Cut(_) => {
                occupied.map(|shard| self.ks.shard_len(shard, db)).sum()
            }
        }
    }

    /// The walk, if this guard belongs to one.
    pub(crate) fn as_cut(&self) -> Option<&Cut<'k>> {
        match &self.held {
            Held::Cut(cut) => Some(cut),
            Held::One(_) | Held::Many(_) | Held::AllShards(_) | Held::Rest(_) => None,
        }
    }

    /// One of the held shards; 0 if all may be held.
    #[inline]
    pub(crate) fn any_shard(&self) -> u16 {
        match &self.held {
            Held::One(shard) => *shard,
            Held::Many(set) => set.0.first().copied().unwrap_or(0),
            Held::AllShards(_) | Held::Cut(_) | Held::Rest(_) => 0,
        }
    }

    /// Whether the I/O threads are stopped: the thread was outside of its safepoint when it took this guard, so other
    /// threads may have stopped the world shortly before.
    pub fn stops_io_threads(&self) -> bool {
        match &self.held {
            Held::AllShards(_) | Held::Rest(_) => true,
            Held::One(_) | Held::Many(_) | Held::Cut(_) => false,
        }
    }

    /// Whether no other thread runs a command: a world guard, or that of a slow-lane command which holds all shards and
    /// has stopped the I/O threads.
    pub(crate) fn is_alone(&self) -> bool {
        let has_stopped = self.long.as_ref().is_some_and(|long| long.stops_io_threads());
        self.is_world() || has_stopped && self.leaves_io_threads()
    }

    /// Whether this guard holds every shard, and the I/O threads are stopped.
    pub fn is_world(&self) -> bool {
        match &self.held {
            Held::AllShards(_) => true,
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
            Held::AllShards(_) | Held::Cut(_) | Held::Rest(_) => {}
        }
    }
}

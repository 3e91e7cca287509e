//! What a thread holds, as a type: nothing, a set of shards, or the world.
//!
//! ```text
//!   Outside ──enter──► Inside ──guard, guard_one──► Guard of shards ──drop──► Inside
//!      ▲                 │  └──────world, stop────► Guard of everything ─drop──► Inside
//!      └─────leave───────┘
//!   SlowHand ──hold, world, cut──► Guard ──drop──► SlowHand
//!         └──Snapshot::begin──► a Snapshot, and nothing held
//! ```
//!
//! A thread with a gate is [`Outside`] of it while it reads, writes and sleeps, and [`Inside`]
//! while it executes a batch. A [`Guard`] borrows the `Inside` that it was taken from, so who holds
//! shards can neither leave the gate in the middle of a command nor stop the world while others
//! wait for those shards: that would not compile. Who holds the world holds every shard, and needs
//! not ask again.
//!
//! ```
//! # use weft_keyspace::{Keyspace, Outside, Turn};
//! # let ks = Keyspace::new(1, 1, Box::new(|_| {}));
//! # let mut turn = Turn::new(0, 1);
//! let mut inside = Outside::new(&ks, 0).enter();
//! let guard = inside.guard_one(&mut turn, 7);
//! drop(guard);
//! let stop = inside.stop();
//! # drop(stop);
//! ```
//!
//! ```compile_fail
//! # use weft_keyspace::{Keyspace, Outside, Turn};
//! # let ks = Keyspace::new(1, 1, Box::new(|_| {}));
//! # let mut turn = Turn::new(0, 1);
//! let mut inside = Outside::new(&ks, 0).enter();
//! let guard = inside.guard_one(&mut turn, 7);
//! let stop = inside.stop();
//! drop(guard);
//! # drop(stop);
//! ```
//!
//! A thread of the slow lane has no gate. It may sleep for a shard, and while it does it holds
//! nothing at all.
//!
//! **Time.** Every way to a guard takes the thread's [`Turn`] and raises its time to that of the
//! last command that held any of the shards, and theirs to it. So the time of commands never goes
//! back along any shard or any thread, and no order of time contradicts the order of execution,
//! however long ago a thread has read its clock.

use crate::cut::{Cut, begin_journals};
use crate::gate::Closed;
use crate::guard::{Busy, Guard, Held, Rest, ShardSet};
use crate::keyspace::Keyspace;
use crate::lock::Waiter;
use crate::running::LongCommand;
use crate::sleepers::Seat;
use crate::sync::{RwLock, RwLockReadGuard, RwLockWriteGuard};
use crate::turn::Turn;
use std::sync::TryLockError;

/// A thread with a gate, outside of it: it holds nothing.
#[derive(Debug)]
pub struct Outside<'k> {
    ks: &'k Keyspace,
    own: usize,
}

/// A thread inside of its gate that holds no shard.
#[derive(Debug)]
pub struct Inside<'k> {
    ks: &'k Keyspace,
    own: usize,
}

impl<'k> Outside<'k> {
    /// The thread that owns gate `own`; to be made once for each gate.
    pub fn new(ks: &'k Keyspace, own: usize) -> Self {
        Outside { ks, own }
    }

    /// Goes inside; waits while the world is stopped, which takes microseconds.
    #[inline]
    pub fn enter(self) -> Inside<'k> {
        let Outside { ks, own } = self;
        ks.gates.enter(own);
        Inside { ks, own }
    }
}

impl<'k> Inside<'k> {
    pub fn keyspace(&self) -> &'k Keyspace {
        self.ks
    }

    /// Goes outside.
    #[inline]
    pub fn leave(self) -> Outside<'k> {
        Outside { ks: self.ks, own: self.own }
    }

    /// Lets whoever waits to stop the world do so now.
    pub fn pass(&mut self) {
        self.ks.gates.leave(self.own);
        self.ks.gates.enter(self.own);
    }

    /// Holds one shard, unless it is busy for longer than a short spin.
    #[inline]
    pub fn guard_one(&mut self, turn: &mut Turn, shard: u16) -> Result<Guard<'_>, Busy> {
        self.ks.lock_one(turn, shard)
    }

    /// Holds all shards of `set`, or none.
    #[inline]
    pub fn guard(&mut self, turn: &mut Turn, set: ShardSet) -> Result<Guard<'_>, Busy> {
        self.ks.lock_all(turn, set)
    }

    /// Stops every thread between two commands and holds the whole keyspace. `None` while a
    /// command runs in the slow lane, whose end this would have to wait for: a thread that has
    /// other clients to serve leaves that to the slow lane.
    pub fn world(&mut self, turn: &mut Turn) -> Option<Guard<'_>> {
        let alone = self.alone()?;
        Some(self.world_alone(turn, alone))
    }

    /// That no command runs in the slow lane, nor will until this is dropped.
    pub fn alone(&self) -> Option<Alone<'k>> {
        let outside = try_write(&self.ks.slow_lane.outside)?;
        Some(Alone { _slow: try_write(&self.ks.slow_lane.slow)?, _outside: outside })
    }

    /// As [`Inside::world`], where it is known that nobody has to be waited for.
    pub fn world_alone<'a>(&'a mut self, turn: &mut Turn, alone: Alone<'a>) -> Guard<'a> {
        let stop = Stop::from(self, Some(alone));
        stop.ks.agree_on_time(turn);
        stop.ks.guard_of(Held::World(Box::new(stop)))
    }

    /// Stops every I/O thread between two commands and holds all shards but those that the slow
    /// lane holds, whose keys are counted as they were before: see [`crate::running`].
    pub fn rest(&mut self, turn: &mut Turn) -> Guard<'_> {
        let stop = Stop::from(self, None);
        let ks = stop.ks;
        let running = ks.slow_lane.running();
        ks.agree_on_time(turn);
        ks.guard_of(Held::Rest(Box::new(Rest { running, _stop: stop })))
    }

    /// Stops every I/O thread between two commands. What the slow lane is doing goes on, so no
    /// shard is held.
    pub fn stop(&mut self) -> Stop<'_> {
        Stop::from(self, None)
    }
}

impl Drop for Inside<'_> {
    #[inline]
    fn drop(&mut self) {
        self.ks.gates.leave(self.own);
    }
}

/// Nobody executes in the slow lane until this is dropped.
#[derive(Debug)]
pub struct Alone<'k> {
    _slow: RwLockWriteGuard<'k, ()>,
    _outside: RwLockWriteGuard<'k, ()>,
}

fn try_write(lock: &RwLock<()>) -> Option<RwLockWriteGuard<'_, ()>> {
    match lock.try_write() {
        Ok(guard) => Some(guard),
        Err(TryLockError::Poisoned(p)) => Some(p.into_inner()),
        Err(TryLockError::WouldBlock) => None,
    }
}

/// The I/O threads are between two commands until this is dropped.
#[derive(Debug)]
pub struct Stop<'k> {
    ks: &'k Keyspace,
    /// The gate to go back into.
    back: Option<usize>,
    closed: Option<Closed<'k>>,
    /// Nobody executes in the slow lane.
    alone: Option<Alone<'k>>,
}

impl<'k> Stop<'k> {
    fn from(inside: &'k mut Inside<'_>, alone: Option<Alone<'k>>) -> Self {
        let (ks, own) = (inside.ks, inside.own);
        ks.gates.leave(own);
        Stop { ks, back: Some(own), closed: Some(ks.gates.close()), alone }
    }
}

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.closed = None;
        self.alone = None;
        if let Some(own) = self.back {
            self.ks.gates.enter(own);
        }
    }
}

/// A thread of the slow lane that holds nothing: it has no gate, and may take its time.
pub struct SlowHand<'k> {
    ks: &'k Keyspace,
    /// Of a thread whom the server does not know how to wake.
    _seat: Option<Seat<'k>>,
    /// By what it is known to the locks, and how it sleeps until one of them wakes it.
    waiter: Waiter,
    sleep: &'k dyn Fn(),
    /// Unix time in milliseconds, asked when a guard was got.
    clock: &'k dyn Fn() -> i64,
}

/// Attempts of a command on several shards, each ended by one that was busy, after which it stops
/// the world: others that take single ones of them could keep it waiting for ever.
pub const PATIENCE: u32 = 8;

/// So many times that, where it would have to wait for a command that waits outside.
const MORE_PATIENCE: u32 = 16;

/// Which of the two locks says that a command is under way, to who stops the world.
#[derive(Clone, Copy)]
enum Way {
    Lane,
    Outside,
}

impl<'k> SlowHand<'k> {
    pub fn new(
        ks: &'k Keyspace,
        waiter: Waiter,
        sleep: &'k dyn Fn(),
        clock: &'k dyn Fn() -> i64,
    ) -> Self {
        SlowHand { ks, _seat: None, waiter, sleep, clock }
    }

    /// The calling thread, which is none of those that the server wakes: it sleeps and is woken by
    /// itself. `clock` tells Unix time in milliseconds.
    pub fn background(ks: &'k Keyspace, clock: &'k dyn Fn() -> i64) -> Self {
        let seat = ks.sleepers.seat();
        let waiter = seat.waiter();
        SlowHand { ks, _seat: Some(seat), waiter, sleep: &std::thread::park, clock }
    }

    pub(crate) fn keyspace(&self) -> &'k Keyspace {
        self.ks
    }

    /// Stops the I/O threads, each between two commands. What the slow lane is doing goes on.
    pub(crate) fn stop(&mut self) -> Stop<'k> {
        Stop { ks: self.ks, back: None, closed: Some(self.ks.gates.close()), alone: None }
    }

    /// Reads the clock, and gives all shards that time or the latest of theirs to all. The I/O
    /// threads are stopped, and nobody takes shards in the slow lane.
    pub(crate) fn agree_on_time(&self, turn: &mut Turn) {
        turn.raise_time((self.clock)());
        self.ks.agree_on_time(turn);
    }

    /// Holds all shards of `set`, however long that takes.
    pub fn hold(&mut self, turn: &mut Turn, set: &ShardSet) -> Guard<'_> {
        self.hold_after(turn, set, PATIENCE, Way::Lane)
    }

    /// As [`SlowHand::hold`], but never stops the world for them. Where many shards are busy it may have to try for
    /// long.
    pub fn hold_only(&mut self, turn: &mut Turn, set: &ShardSet) -> Guard<'_> {
        self.hold_after(turn, set, u32::MAX, Way::Lane)
    }

    /// As [`SlowHand::hold_only`], for a command that may wait for something outside of the process with its shards
    /// in hand. Only those who need one of these shards wait with it, and who stops the world; while that waits,
    /// others come and go in the slow lane.
    pub fn hold_outside(&mut self, turn: &mut Turn, set: &ShardSet) -> Guard<'_> {
        self.hold_after(turn, set, u32::MAX, Way::Outside)
    }

    fn hold_after(
        &mut self,
        turn: &mut Turn,
        set: &ShardSet,
        patience: u32,
        way: Way,
    ) -> Guard<'_> {
        let mut attempts = 0_u32;
        loop {
            if attempts >= patience
                && let Some(alone) = self.alone_unless_outside()
            {
                return self.world_of(turn, alone);
            }
            if attempts >= patience.saturating_mul(MORE_PATIENCE) {
                return self.world(turn);
            }
            // To be kept until the guard is dropped; not while this thread waits for a shard,
            // since who stops the world may hold that.
            let lane = match way {
                Way::Lane => self.lane(),
                Way::Outside => self.outside(),
            };
            let mut running = self.ks.slow_lane.running();
            match self.ks.lock_all(turn, set.clone()) {
                Ok(guard) => {
                    let long = LongCommand::new(self.ks, set, &mut running, lane);
                    let mut guard = guard.of_long(long);
                    // Under the mutex, too: who makes all shards agree on the time does not ask
                    // whether they are held, and must not take a time back that he has not seen.
                    turn.raise_time((self.clock)());
                    guard.raise_time(turn);
                    drop(running);
                    return guard;
                }
                Err(busy) => {
                    drop((running, lane));
                    if self.ks.park(busy, self.waiter) {
                        (self.sleep)();
                    }
                }
            }
            attempts = attempts.saturating_add(1);
        }
    }

    /// Sleeps until a shard that was busy may be free. The calling thread holds nothing, and is outside of
    /// its gate if it has one.
    pub fn wait_for(&mut self, busy: Busy) {
        if self.ks.park(busy, self.waiter) {
            (self.sleep)();
        }
    }

    fn lane(&self) -> RwLockReadGuard<'k, ()> {
        self.ks.slow_lane.slow.read().unwrap_or_else(|p| p.into_inner())
    }

    fn outside(&self) -> RwLockReadGuard<'k, ()> {
        self.ks.slow_lane.outside.read().unwrap_or_else(|p| p.into_inner())
    }

    /// Waits first for those who may take longest, with the slow lane open.
    fn alone(&self) -> Alone<'k> {
        let outside = self.ks.slow_lane.outside.write().unwrap_or_else(|p| p.into_inner());
        let slow = self.ks.slow_lane.slow.write().unwrap_or_else(|p| p.into_inner());
        Alone { _slow: slow, _outside: outside }
    }

    /// The same, unless there are such: a command that only wants some shards does not wait for those.
    fn alone_unless_outside(&self) -> Option<Alone<'k>> {
        let outside = try_write(&self.ks.slow_lane.outside)?;
        let slow = self.ks.slow_lane.slow.write().unwrap_or_else(|p| p.into_inner());
        Some(Alone { _slow: slow, _outside: outside })
    }

    /// Waits until nothing is done in the slow lane, with everybody else at work, then stops the
    /// world and holds the whole keyspace.
    pub fn world(&mut self, turn: &mut Turn) -> Guard<'_> {
        let alone = self.alone();
        self.world_of(turn, alone)
    }

    fn world_of(&mut self, turn: &mut Turn, alone: Alone<'k>) -> Guard<'_> {
        let stop = Stop {
            ks: self.ks,
            back: None,
            closed: Some(self.ks.gates.close()),
            alone: Some(alone),
        };
        turn.raise_time((self.clock)());
        self.ks.agree_on_time(turn);
        self.ks.guard_of(Held::World(Box::new(stop)))
    }

    /// Begins a walk over the set of keys as it is now: see [`crate::cut`].
    pub fn cut(&mut self, turn: &mut Turn) -> Guard<'_> {
        let walk = self.ks.walk.lock().unwrap_or_else(|p| p.into_inner());
        let lane = self.lane();
        let closed = self.ks.gates.close();
        let running = self.ks.slow_lane.running();
        self.agree_on_time(turn);
        begin_journals(self.ks);
        drop((running, closed));
        let held = (walk, lane);
        let cut = Cut::new(self.ks, self.waiter, self.sleep, turn.over_ms, held);
        self.ks.guard_of(Held::Cut(Box::new(cut)))
    }
}

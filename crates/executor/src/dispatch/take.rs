//! Taking the shards that a request needs. Every thread takes them by [`take_shards`]; threads differ in how they wait.
//!
//! | | [`Try`]: I/O threads, and the replica's link inside its safepoint | [`Wait`]: the slow lane, loading, and the link outside |
//! |---|---|---|
//! | a busy shard | [`Refused::Busy`] | sleeps until it is released |
//! | several shards, some busy [`PATIENCE`] times | stops the world | stops the world |
//! | the world, while a command runs in the slow lane | [`Refused::SlowLane`] | waits for the command |
//!
//! A thread that has planned a request of one key calls [`Inside::guard_one`] itself, as [`Try`] does.

use crate::dispatch::outcome::Suspend;
use std::convert::Infallible;
use weft_keyspace::hold::{GivesUp, PATIENCE};
use weft_keyspace::{Busy, ExecContext, GaveUp, Guard, Inside, SHARDS, ShardSet, SlowLaneThread};
use weft_state::attempt::Attempt;
use weft_state::command_table::Need;

/// Takes `need` for a request that needs locks. [`Need::Nothing`], [`Need::Stop`] and [`Need::Aside`] count as the
/// world: a caller that can do with less has checked for them.
///
/// # Errors
/// Those of a thread that doesn't wait. Nothing is held then.
#[inline]
pub fn take_shards<'g, T: Taker<'g>>(
    taker: T,
    context: &mut ExecContext,
    need: Need,
) -> Result<Guard<'g>, T::Refusal> {
    match need {
        Need::One(shard) => taker.take_one(context, shard),
        Need::Shards(set) => taker.take_set(context, set),
        Need::AllShards => taker.take_all(context),
        Need::Names => taker.take_names(context),
        Need::Rest => taker.take_rest(context),
        Need::Nothing | Need::Stop | Need::World | Need::Aside => taker.take_world(context),
    }
}

/// A thread that takes shards, and how it waits for them.
pub trait Taker<'g>: Sized {
    /// Why it has not taken them.
    type Refusal;

    fn take_one(self, context: &mut ExecContext, shard: u16) -> Result<Guard<'g>, Self::Refusal>;

    fn take_set(self, context: &mut ExecContext, set: ShardSet)
    -> Result<Guard<'g>, Self::Refusal>;

    fn take_world(self, context: &mut ExecContext) -> Result<Guard<'g>, Self::Refusal>;

    /// All shards, while other threads continue; or the world.
    fn take_all(self, context: &mut ExecContext) -> Result<Guard<'g>, Self::Refusal> {
        self.take_world(context)
    }

    /// The names of all keys at one moment; or the world.
    fn take_names(self, context: &mut ExecContext) -> Result<Guard<'g>, Self::Refusal> {
        self.take_world(context)
    }

    /// All shards that the slow lane does not hold; or the world.
    fn take_rest(self, context: &mut ExecContext) -> Result<Guard<'g>, Self::Refusal> {
        self.take_world(context)
    }
}

/// A thread inside its safepoint, which waits neither for a shard nor for the slow lane.
pub struct Try<'g> {
    inside: &'g mut Inside<'static>,
    attempt: &'g Attempt,
}

/// Why a thread has not taken shards.
#[derive(Clone, Copy, Debug)]
pub enum Refused {
    /// A shard is not free.
    Busy(Busy),
    /// The thread would have to wait for the slow lane.
    SlowLane,
}

impl From<Refused> for Suspend {
    fn from(refused: Refused) -> Suspend {
        match refused {
            Refused::Busy(busy) => Suspend::Busy(busy),
            Refused::SlowLane => Suspend::SLOW,
        }
    }
}

impl<'g> Try<'g> {
    pub fn new(inside: &'g mut Inside<'static>, attempt: &'g Attempt) -> Try<'g> {
        Try { inside, attempt }
    }
}

impl<'g> Taker<'g> for Try<'g> {
    type Refusal = Refused;

    #[inline]
    fn take_one(self, context: &mut ExecContext, shard: u16) -> Result<Guard<'g>, Refused> {
        self.inside.guard_one(context, shard).map_err(Refused::Busy)
    }

    fn take_set(self, context: &mut ExecContext, set: ShardSet) -> Result<Guard<'g>, Refused> {
        let Try { inside, attempt } = self;
        // Commands that take single ones of these shards could delay it forever: after some attempts, it stops the world.
        if attempt.tries < PATIENCE || set.len() < 2 {
            return inside.guard(context, set).map_err(Refused::Busy);
        }
        match inside.alone() {
            Some(alone) => Ok(inside.world_alone(context, alone)),
            // A client in a wait queue is not sent to the slow lane for that: the clients after it would have to wait, too.
            None if attempt.retry.is_some() => inside.guard(context, set).map_err(Refused::Busy),
            None => Err(Refused::SlowLane),
        }
    }

    fn take_world(self, context: &mut ExecContext) -> Result<Guard<'g>, Refused> {
        self.inside.world(context).ok_or(Refused::SlowLane)
    }

    fn take_rest(self, context: &mut ExecContext) -> Result<Guard<'g>, Refused> {
        Ok(self.inside.rest(context))
    }
}

/// A thread outside of any safepoint, which waits as long as it must.
pub struct Wait<'g> {
    thread: &'g mut SlowLaneThread<'static>,
    /// The command waits for another server while it holds its shards.
    waits_outside: bool,
}

impl<'g> Wait<'g> {
    pub fn new(thread: &'g mut SlowLaneThread<'static>) -> Wait<'g> {
        Wait { thread, waits_outside: false }
    }

    /// For a command that waits for another server while it holds its shards, if `waits_outside`.
    pub fn outside(self, waits_outside: bool) -> Wait<'g> {
        Wait { waits_outside, ..self }
    }
}

impl<'g> Taker<'g> for Wait<'g> {
    type Refusal = Infallible;

    fn take_one(self, context: &mut ExecContext, shard: u16) -> Result<Guard<'g>, Infallible> {
        self.take_set(context, ShardSet::one(shard))
    }

    fn take_set(self, context: &mut ExecContext, set: ShardSet) -> Result<Guard<'g>, Infallible> {
        Ok(match self.waits_outside {
            true => self.thread.hold_outside(context, &set),
            false => self.thread.hold(context, &set),
        })
    }

    fn take_world(self, context: &mut ExecContext) -> Result<Guard<'g>, Infallible> {
        Ok(self.thread.world(context))
    }

    fn take_all(self, context: &mut ExecContext) -> Result<Guard<'g>, Infallible> {
        let all = ShardSet::of(0..SHARDS as u16);
        Ok(self.thread.hold_many(context, &all, &|_| false).expect("it doesn't give up"))
    }

    fn take_names(self, context: &mut ExecContext) -> Result<Guard<'g>, Infallible> {
        Ok(self.thread.cut(context))
    }
}

/// As [`Wait`], but gives up if it would have to wait and `gives_up` returns true. A command that waits for another server
/// never gives up.
pub struct WaitOrGiveUp<'g> {
    pub wait: Wait<'g>,
    pub gives_up: GivesUp<'g>,
}

impl<'g> Taker<'g> for WaitOrGiveUp<'g> {
    type Refusal = GaveUp;

    fn take_one(self, context: &mut ExecContext, shard: u16) -> Result<Guard<'g>, GaveUp> {
        self.take_set(context, ShardSet::one(shard))
    }

    fn take_set(self, context: &mut ExecContext, set: ShardSet) -> Result<Guard<'g>, GaveUp> {
        let WaitOrGiveUp { wait, gives_up } = self;
        match wait.waits_outside {
            true => Ok(wait.thread.hold_outside(context, &set)),
            false => wait.thread.hold_or_give_up(context, &set, gives_up),
        }
    }

    fn take_world(self, context: &mut ExecContext) -> Result<Guard<'g>, GaveUp> {
        self.wait.thread.world_or_give_up(context, self.gives_up)
    }

    fn take_all(self, context: &mut ExecContext) -> Result<Guard<'g>, GaveUp> {
        let all = ShardSet::of(0..SHARDS as u16);
        self.wait.thread.hold_many(context, &all, self.gives_up)
    }

    fn take_names(self, context: &mut ExecContext) -> Result<Guard<'g>, GaveUp> {
        self.wait.thread.cut_or_give_up(context, self.gives_up)
    }
}

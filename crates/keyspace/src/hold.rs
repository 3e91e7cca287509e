//! A thread's locks as a type: nothing, a set of shards, or the world.
//!
//! ```text
//!   Outside ──enter──► Inside ──guard, guard_one──► Guard of shards ──drop──► Inside
//!      ▲                 │  └──────world, stop────► Guard of everything ─drop──► Inside
//!      └─────leave───────┘
//!   SlowHand ──hold, world, cut──► Guard ──drop──► SlowHand
//!         └──Snapshot::begin──► a Snapshot, and nothing held
//! ```
//!
//! A thread with a safepoint is [`Outside`] of it while it reads, writes and sleeps, and
//! [`Inside`] while it executes a batch. A [`Guard`] borrows the `Inside` that it was taken from.
//! So a thread that holds shards can't leave its safepoint in the middle of a command, and can't
//! stop the world while others wait for those shards: that would not compile. A thread that holds
//! the world holds every shard and needs no further check.
//!
//! ```
//! # use weft_keyspace::{Keyspace, Outside, ExecContext};
//! # let ks = Keyspace::new(1, 1, Box::new(|_| {}));
//! # let mut context = ExecContext::new(0, 1);
//! let mut inside = Outside::new(&ks, 0).enter();
//! let guard = inside.guard_one(&mut context, 7);
//! drop(guard);
//! let stop = inside.stop();
//! # drop(stop);
//! ```
//!
//! ```compile_fail
//! # use weft_keyspace::{Keyspace, Outside, ExecContext};
//! # let ks = Keyspace::new(1, 1, Box::new(|_| {}));
//! # let mut context = ExecContext::new(0, 1);
//! let mut inside = Outside::new(&ks, 0).enter();
//! let guard = inside.guard_one(&mut context, 7);
//! let stop = inside.stop();
//! drop(guard);
//! # drop(stop);
//! ```
//!
//! A slow-lane thread has no safepoint. It may sleep for a shard, and holds nothing while it
//! sleeps.
//!
//! **Time.** Every way to a guard takes the thread's [`ExecContext`] and raises its time to that of the
//! last command that held any of the shards, and theirs to it. So the time of commands never goes
//! back along any shard or any thread, and the order of times never contradicts the order of
//! execution, however long ago a thread has read its clock.

use crate::background_threads::ThreadHandle;
use crate::context::ExecContext;
use crate::cut::{Cut, Wait, begin_journals};
use crate::guard::{Busy, Guard, Held, Rest, ShardSet};
use crate::keyspace::Keyspace;
use crate::lane_lock::{Exclusive, Shared};
use crate::lock::Waiter;
use crate::running::LongCommand;
use crate::safepoint::Closed;

/// A thread outside of its safepoint: it holds nothing.
#[derive(Debug)]
pub struct Outside<'k> {
    ks: &'k Keyspace,
    own: usize,
}

/// A thread inside of its safepoint that holds no shard.
#[derive(Debug)]
pub struct Inside<'k> {
    ks: &'k Keyspace,
    own: usize,
}

impl<'k> Outside<'k> {
    /// The thread that owns safepoint `own`; create it once per safepoint.
    pub fn new(ks: &'k Keyspace, own: usize) -> Self {
        Outside { ks, own }
    }

    /// Enters the safepoint; waits while the world is stopped, which takes microseconds.
    #[inline]
    pub fn enter(self) -> Inside<'k> {
        let Outside { ks, own } = self;
        ks.safepoints.enter(own);
        Inside { ks, own }
    }
}

impl<'k> Inside<'k> {
    pub fn keyspace(&self) -> &'k Keyspace {
        self.ks
    }

    /// Leaves the safepoint.
    #[inline]
    pub fn leave(self) -> Outside<'k> {
        Outside { ks: self.ks, own: self.own }
    }

    /// Lets a waiting thread stop the world now.
    pub fn pass(&mut self) {
        self.ks.safepoints.leave(self.own);
        self.ks.safepoints.enter(self.own);
    }

    /// Holds one shard, unless it is busy for longer than a short spin.
    #[inline]
    pub fn guard_one(&mut self, context: &mut ExecContext, shard: u16) -> Result<Guard<'_>, Busy> {
        self.ks.lock_one(context, shard)
    }

    /// Holds all shards of `set`, or none.
    #[inline]
    pub fn guard(&mut self, context: &mut ExecContext, set: ShardSet) -> Result<Guard<'_>, Busy> {
        self.ks.lock_all(context, set)
    }

    /// Stops every thread between two commands and holds the whole keyspace. `None` while a
    /// slow-lane command runs, since this call would have to wait for it: a thread with other
    /// clients to serve leaves such work to the slow lane.
    pub fn world(&mut self, context: &mut ExecContext) -> Option<Guard<'_>> {
        let alone = self.alone()?;
        Some(self.world_alone(context, alone))
    }

    /// Proof that no command runs in the slow lane until it is dropped; `None` if one runs.
    pub fn alone(&self) -> Option<Alone<'k>> {
        let outside = self.ks.slow_lane.outside.try_exclude()?;
        Some(Alone { _slow: self.ks.slow_lane.slow.try_exclude()?, _outside: outside })
    }

    /// As [`Inside::world`], with the proof that no slow-lane command runs.
    pub fn world_alone<'a>(&'a mut self, context: &mut ExecContext, alone: Alone<'a>) -> Guard<'a> {
        let stop = Stop::from(self, Some(alone));
        stop.ks.agree_on_time(context);
        stop.ks.new_guard(Held::AllShards(Box::new(stop)))
    }

    /// Stops every I/O thread between two commands and holds all shards except those held by the
    /// slow lane. Their keys are counted as they were before the running commands: see
    /// [`crate::running`].
    pub fn rest(&mut self, context: &mut ExecContext) -> Guard<'_> {
        let stop = Stop::from(self, None);
        let ks = stop.ks;
        let running = ks.slow_lane.running();
        ks.agree_on_time(context);
        ks.new_guard(Held::Rest(Box::new(Rest { running, _stop: stop })))
    }

    /// Stops every I/O thread between two commands. The slow lane continues, so no shard is held.
    pub fn stop(&mut self) -> Stop<'_> {
        Stop::from(self, None)
    }
}

impl Drop for Inside<'_> {
    #[inline]
    fn drop(&mut self) {
        self.ks.safepoints.leave(self.own);
    }
}

/// Keeps the slow lane idle until this is dropped.
#[derive(Debug)]
pub struct Alone<'k> {
    _slow: Exclusive<'k>,
    _outside: Exclusive<'k>,
}

/// Keeps the I/O threads between two commands until this is dropped.
#[derive(Debug)]
pub struct Stop<'k> {
    ks: &'k Keyspace,
    /// The safepoint to enter again.
    reenter: Option<usize>,
    closed: Option<Closed<'k>>,
    /// Keeps the slow lane idle.
    alone: Option<Alone<'k>>,
}

impl<'k> Stop<'k> {
    fn from(inside: &'k mut Inside<'_>, alone: Option<Alone<'k>>) -> Self {
        let (ks, own) = (inside.ks, inside.own);
        ks.safepoints.leave(own);
        Stop { ks, reenter: Some(own), closed: Some(ks.safepoints.close()), alone }
    }
}

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.closed = None;
        self.alone = None;
        if let Some(own) = self.reenter {
            self.ks.safepoints.enter(own);
        }
    }
}

/// A slow-lane thread that holds nothing: it has no safepoint and may block.
pub struct SlowLaneThread<'k> {
    ks: &'k Keyspace,
    /// For a thread that the server can't wake.
    _handle: Option<ThreadHandle<'k>>,
    /// Identifies the thread to the locks; `sleep` blocks until a lock wakes it.
    waiter: Waiter,
    sleep: &'k dyn Fn(),
    /// Returns Unix time in milliseconds; called after a guard was taken.
    clock: &'k dyn Fn() -> i64,
}

/// Failed attempts of a command on several shards before it stops the world: other commands that
/// take single shards could starve it.
pub const PATIENCE: u32 = 8;

/// Multiplies [`PATIENCE`] where stopping the world means to wait for a command that waits
/// outside.
const MORE_PATIENCE: u32 = 16;

/// Whether a thread that would have to wait gives up instead. `None`: for any command of the slow lane; else for the
/// holder of this shard. Asked again after [`Guard::wake_waiters`]. Called under locks of this crate, so it must not take any.
pub type GivesUp<'a> = &'a dyn Fn(Option<Busy>) -> bool;

/// A thread would have had to wait, and has given up. It holds nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GaveUp;

/// For threads that wait as long as they must.
const NEVER: fn(Option<Busy>) -> bool = |_| false;

const NEVER_GIVES_UP: &str = "it doesn't give up";

/// Which of the two locks shows a running command to threads that stop the world.
#[derive(Clone, Copy)]
enum CommandLock {
    Lane,
    Outside,
}

impl<'k> SlowLaneThread<'k> {
    pub fn new(
        ks: &'k Keyspace,
        waiter: Waiter,
        sleep: &'k dyn Fn(),
        clock: &'k dyn Fn() -> i64,
    ) -> Self {
        SlowLaneThread { ks, _handle: None, waiter, sleep, clock }
    }

    /// The calling thread, which the server does not wake: it parks and is unparked directly.
    /// `clock` returns Unix time in milliseconds.
    pub fn background(ks: &'k Keyspace, clock: &'k dyn Fn() -> i64) -> Self {
        let handle = ks.background_threads.register();
        let waiter = handle.waiter();
        SlowLaneThread { ks, _handle: Some(handle), waiter, sleep: &std::thread::park, clock }
    }

    pub(crate) fn keyspace(&self) -> &'k Keyspace {
        self.ks
    }

    /// Stops the I/O threads, each between two commands. The slow lane continues.
    pub fn stop(&mut self) -> Stop<'k> {
        Stop { ks: self.ks, reenter: None, closed: Some(self.ks.safepoints.close()), alone: None }
    }

    /// Reads the clock, and sets all shards to that time or to their latest. The I/O threads must
    /// be stopped, and the slow lane must not take shards meanwhile.
    pub(crate) fn agree_on_time(&self, context: &mut ExecContext) {
        context.raise_time((self.clock)());
        self.ks.agree_on_time(context);
    }

    /// Holds all shards of `set`, however long that takes.
    pub fn hold(&mut self, context: &mut ExecContext, set: &ShardSet) -> Guard<'_> {
        let held = self.hold_with_patience(context, set, PATIENCE, CommandLock::Lane, &NEVER);
        held.expect(NEVER_GIVES_UP)
    }

    /// As [`SlowLaneThread::hold`], but gives up if it would have to wait and `gives_up` returns true.
    ///
    /// # Errors
    /// It has given up.
    pub fn hold_or_give_up(
        &mut self,
        context: &mut ExecContext,
        set: &ShardSet,
        gives_up: GivesUp<'_>,
    ) -> Result<Guard<'_>, GaveUp> {
        self.hold_with_patience(context, set, PATIENCE, CommandLock::Lane, gives_up)
    }

    /// As [`SlowLaneThread::hold`], but never stops the world. May have to retry for long where many
    /// shards are busy.
    pub fn hold_only(&mut self, context: &mut ExecContext, set: &ShardSet) -> Guard<'_> {
        let held = self.hold_with_patience(context, set, u32::MAX, CommandLock::Lane, &NEVER);
        held.expect(NEVER_GIVES_UP)
    }

    /// As [`SlowLaneThread::hold_only`], for a command that may wait for something outside of the
    /// process while it holds its shards. Only commands on these shards and threads that stop the
    /// world wait for it. While such a thread waits, other slow-lane commands still run.
    pub fn hold_outside(&mut self, context: &mut ExecContext, set: &ShardSet) -> Guard<'_> {
        let held = self.hold_with_patience(context, set, u32::MAX, CommandLock::Outside, &NEVER);
        held.expect(NEVER_GIVES_UP)
    }

    fn hold_with_patience(
        &mut self,
        context: &mut ExecContext,
        set: &ShardSet,
        patience: u32,
        command_lock: CommandLock,
        gives_up: GivesUp<'_>,
    ) -> Result<Guard<'_>, GaveUp> {
        let mut attempts = 0_u32;
        loop {
            if attempts >= patience
                && let Some(alone) = self.alone_unless_outside(gives_up)?
            {
                return Ok(self.world_of(context, alone));
            }
            if attempts >= patience.saturating_mul(MORE_PATIENCE) {
                return self.world_or_give_up(context, gives_up);
            }
            // Held until the guard is dropped, but not while this thread waits for a shard: the
            // thread that stops the world may hold that shard.
            let lane = match command_lock {
                CommandLock::Lane => self.share_slow(gives_up)?,
                CommandLock::Outside => self.share_outside(gives_up)?,
            };
            match self.try_hold(context, set, lane, None) {
                Ok(guard) => return Ok(guard),
                Err(busy) => self.wait_or_give_up(busy, gives_up)?,
            }
            attempts = attempts.saturating_add(1);
        }
    }

    /// Holds all shards of `set`, which may be all shards. While it takes them, the I/O threads are stopped, each
    /// between two commands; afterwards they continue, unlike with [`SlowLaneThread::world`]. Waits for commands of the
    /// slow lane that hold one of them, and for a walk: the command may remove or exchange whole tables, which journals
    /// don't note.
    /// Gives up if it would have to wait and `gives_up` returns true.
    ///
    /// # Errors
    /// It has given up.
    pub fn hold_many(
        &mut self,
        context: &mut ExecContext,
        set: &ShardSet,
        gives_up: GivesUp<'_>,
    ) -> Result<Guard<'_>, GaveUp> {
        loop {
            let walk = self.exclude_walks(gives_up)?;
            let lane = self.share_slow(gives_up)?;
            let closed = self.ks.safepoints.close();
            let held = self.try_hold(context, set, lane, Some(walk));
            drop(closed);
            match held {
                Ok(guard) => return Ok(guard),
                Err(busy) => self.wait_or_give_up(busy, gives_up)?,
            }
        }
    }

    /// Holds all shards of `set` for a slow-lane command that `lane` shows to threads that stop the world, and that keeps
    /// walks away with `walk`. Or releases both and holds nothing.
    fn try_hold(
        &self,
        context: &mut ExecContext,
        set: &ShardSet,
        lane: Shared<'k>,
        walk: Option<Exclusive<'k>>,
    ) -> Result<Guard<'k>, Busy> {
        let mut running = self.ks.slow_lane.running();
        let guard = self.ks.lock_all(context, set.clone())?;
        let mut long = LongCommand::new(self.ks, set, &mut running, lane);
        if let Some(walk) = walk {
            long = long.without_walks(walk);
        }
        let guard = guard.for_long_command(long);
        // Also under the mutex: a thread that makes all shards agree on the time does not check whether they are held,
        // and must not miss this time.
        context.raise_time((self.clock)());
        guard.raise_time(context);
        Ok(guard)
    }

    /// Sleeps until a busy shard may be free. The calling thread must hold nothing and be outside
    /// of its safepoint if it has one.
    pub fn wait_for(&mut self, busy: Busy) {
        if self.ks.park(busy, self.waiter) {
            (self.sleep)();
        }
    }

    fn wait_or_give_up(&mut self, busy: Busy, gives_up: GivesUp<'_>) -> Result<(), GaveUp> {
        Wait { waiter: self.waiter, sleep: self.sleep, gives_up }.wait_for(self.ks, busy)
    }

    fn exclude_walks(&self, gives_up: GivesUp<'_>) -> Result<Exclusive<'k>, GaveUp> {
        self.ks.walk.exclude(&|| gives_up(None)).ok_or(GaveUp)
    }

    fn share_slow(&self, gives_up: GivesUp<'_>) -> Result<Shared<'k>, GaveUp> {
        self.ks.slow_lane.slow.share(&|| gives_up(None)).ok_or(GaveUp)
    }

    fn share_outside(&self, gives_up: GivesUp<'_>) -> Result<Shared<'k>, GaveUp> {
        self.ks.slow_lane.outside.share(&|| gives_up(None)).ok_or(GaveUp)
    }

    fn exclude_slow(&self, gives_up: GivesUp<'_>) -> Result<Exclusive<'k>, GaveUp> {
        self.ks.slow_lane.slow.exclude(&|| gives_up(None)).ok_or(GaveUp)
    }

    /// Waits for commands that wait outside first, with the slow lane still open: they may take
    /// longest.
    fn alone(&self, gives_up: GivesUp<'_>) -> Result<Alone<'k>, GaveUp> {
        let outside = self.ks.slow_lane.outside.exclude(&|| gives_up(None)).ok_or(GaveUp)?;
        Ok(Alone { _slow: self.exclude_slow(gives_up)?, _outside: outside })
    }

    /// The same, but `None` if a command waits outside: a command that only needs some shards
    /// does not wait for those.
    fn alone_unless_outside(&self, gives_up: GivesUp<'_>) -> Result<Option<Alone<'k>>, GaveUp> {
        let Some(outside) = self.ks.slow_lane.outside.try_exclude() else { return Ok(None) };
        Ok(Some(Alone { _slow: self.exclude_slow(gives_up)?, _outside: outside }))
    }

    /// Waits until no command runs in the slow lane. One may begin afterwards.
    ///
    /// # Errors
    /// It has given up.
    pub fn wait_until_idle(&mut self, gives_up: GivesUp<'_>) -> Result<(), GaveUp> {
        self.alone(gives_up).map(drop)
    }

    /// Waits until the slow lane is idle, during which the I/O threads run; then stops the world
    /// and holds the whole keyspace.
    pub fn world(&mut self, context: &mut ExecContext) -> Guard<'_> {
        self.world_or_give_up(context, &NEVER).expect(NEVER_GIVES_UP)
    }

    /// As [`SlowLaneThread::world`], but gives up if it would have to wait and `gives_up` returns true.
    ///
    /// # Errors
    /// It has given up.
    pub fn world_or_give_up(
        &mut self,
        context: &mut ExecContext,
        gives_up: GivesUp<'_>,
    ) -> Result<Guard<'_>, GaveUp> {
        let alone = self.alone(gives_up)?;
        Ok(self.world_of(context, alone))
    }

    fn world_of(&mut self, context: &mut ExecContext, alone: Alone<'k>) -> Guard<'_> {
        let stop = Stop {
            ks: self.ks,
            reenter: None,
            closed: Some(self.ks.safepoints.close()),
            alone: Some(alone),
        };
        context.raise_time((self.clock)());
        self.ks.agree_on_time(context);
        self.ks.new_guard(Held::AllShards(Box::new(stop)))
    }

    /// Begins a walk over the current set of keys: see [`crate::cut`].
    pub fn cut(&mut self, context: &mut ExecContext) -> Guard<'_> {
        self.cut_or_give_up(context, &NEVER).expect(NEVER_GIVES_UP)
    }

    /// As [`SlowLaneThread::cut`], but gives up if it would have to wait and `gives_up` returns true. The walk ends early then.
    ///
    /// # Errors
    /// It has given up.
    pub fn cut_or_give_up<'a>(
        &'a mut self,
        context: &mut ExecContext,
        gives_up: GivesUp<'a>,
    ) -> Result<Guard<'a>, GaveUp> {
        let walk = self.exclude_walks(gives_up)?;
        let lane = self.share_slow(gives_up)?;
        let closed = self.ks.safepoints.close();
        let running = self.ks.slow_lane.running();
        self.agree_on_time(context);
        begin_journals(self.ks);
        drop((running, closed));
        let wait = Wait { waiter: self.waiter, sleep: self.sleep, gives_up };
        let cut = Cut::new(self.ks, wait, context.over_ms, (walk, lane));
        Ok(self.ks.new_guard(Held::Cut(Box::new(cut))))
    }
}

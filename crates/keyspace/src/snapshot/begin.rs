//! The cut: how a snapshot begins, and how slow-lane commands come after it as a whole.
//!
//! A slow-lane command may be writing for seconds, and a cut in between would be inconsistent.
//! Keeping old images of all its writes in case a snapshot begins would nearly always be wasted.
//! So a thread that wants a snapshot announces a wish first:
//!
//! ```text
//!  wish ──────────► commands that have begun to write end ──► stop ─► cut ─► go
//!    │                       ▲                                          ▲
//!    └─ a command that writes for the first time now keeps images ──────┘
//!       (its shards take part from that moment: the command holds them, so their content is that
//!        of the cut; if the command ends before the cut, their images are dropped)
//! ```
//!
//! Only the snapshot waits, and only for commands that had begun to write before the wish: later
//! commands can't prolong it. Slow-lane commands that only read are not waited for.
//!
//! All of this happens under the mutex of [`crate::running`], under which long commands also take
//! their shards and commit. I/O threads are stopped for the cut itself, for microseconds.

use super::Snapshot;
use super::account::Account;
use super::shards;
use crate::context::ExecContext;
use crate::guard::{Busy, Guard};
use crate::hold::{SlowLaneThread, Stop};
use crate::keyspace::{Keyspace, SHARDS};
use crate::running::{self, Entry, Running};
use crate::sync::Mutex;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The keys of a database at the cut.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub keys: usize,
    /// How many of these had an expiry; approximate if a long command was running.
    pub expiring: usize,
}

/// Why a snapshot could not begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BeginError {
    /// Another snapshot is in progress: there is one at a time.
    Taken,
    /// The call was cancelled while it waited for a long command.
    Cancelled,
    /// The call has given up while it waited for a long command.
    GaveUp,
}

impl fmt::Display for BeginError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            BeginError::Taken => "a snapshot is being taken already",
            BeginError::Cancelled => "the snapshot was cancelled before it began",
            BeginError::GaveUp => "a script that has written runs for very long",
        })
    }
}

impl std::error::Error for BeginError {}

impl<'k> Snapshot<'k> {
    /// Begins a snapshot of all keys as they are at one moment of this call. `at_cut` is called
    /// at that moment: no command is running then except long ones that come after the cut as a
    /// whole. It must not block or take shards. Keys that have expired for `context` are left out.
    /// `limit_bytes`: the memory that may be held in addition to the keys before writers must
    /// wait ([`Keyspace::is_snapshot_full`]), 0 for no limit.
    ///
    /// Waits, without stopping other threads, for slow-lane commands that have begun to write,
    /// unless `context` is cancelled. The world is stopped for O(shards * databases).
    ///
    /// # Errors
    /// See [`BeginError`].
    pub fn begin<T>(
        hand: &mut SlowLaneThread<'k>,
        context: &mut ExecContext,
        limit_bytes: usize,
        at_cut: impl FnOnce(&Stop<'_>) -> T,
    ) -> Result<(Snapshot<'k>, T), BeginError> {
        Snapshot::begin_or_give_up(hand, context, limit_bytes, &|_| false, at_cut)
    }

    /// As [`Snapshot::begin`], but gives up if it would have to wait for a command and `gives_up` returns true for one of its
    /// shards.
    ///
    /// # Errors
    /// See [`BeginError`].
    pub fn begin_or_give_up<T>(
        hand: &mut SlowLaneThread<'k>,
        context: &mut ExecContext,
        limit_bytes: usize,
        gives_up: &dyn Fn(Busy) -> bool,
        at_cut: impl FnOnce(&Stop<'_>) -> T,
    ) -> Result<(Snapshot<'k>, T), BeginError> {
        let wish = Wish::new(hand.keyspace(), limit_bytes)?;
        wish.wait(context, gives_up)?;
        Ok(wish.cut(hand, context, at_cut))
    }

    /// As [`Snapshot::begin`], for a thread that already holds the world and need not wait.
    ///
    /// # Errors
    /// Another snapshot is in progress.
    ///
    /// # Panics
    /// If the guard is not a world guard of `ks`.
    pub fn begin_in(
        ks: &'k Keyspace,
        guard: &Guard<'_>,
        context: &mut ExecContext,
        limit_bytes: usize,
    ) -> Result<Snapshot<'k>, BeginError> {
        assert!(guard.is_world(), "a cut needs the world");
        assert!(std::ptr::eq(ks, guard.keyspace()), "the guard belongs to another keyspace");
        let wish = Wish::new(ks, limit_bytes)?;
        let running = ks.slow_lane.running();
        Ok(wish.grant(&running, context.over_ms))
    }
}

/// A snapshot that wants to begin; dropping it withdraws the wish.
pub(super) struct Wish<'k> {
    ks: &'k Keyspace,
    account: Arc<Account>,
    granted: bool,
}

impl<'k> Wish<'k> {
    pub(super) fn new(ks: &'k Keyspace, limit_bytes: usize) -> Result<Wish<'k>, BeginError> {
        let account = Arc::new(Account::new(limit_bytes, &ks.snapshots.gauge));
        if !ks.snapshots.claim(&account) {
            return Err(BeginError::Taken);
        }
        let _running = ks.slow_lane.running();
        ks.snapshots.set_wish(Some(account.clone()));
        Ok(Wish { ks, account, granted: false })
    }

    /// Waits until no running command has written without keeping images.
    fn wait(
        &self,
        context: &ExecContext,
        gives_up: &dyn Fn(Busy) -> bool,
    ) -> Result<(), BeginError> {
        /// The interval of checks for cancellation and for busy scripts. Commands that end wake this thread at once.
        const LOOK: Duration = Duration::from_millis(20);
        let mut running = self.ks.slow_lane.running();
        while !self.is_ready(&running) {
            if context.is_cancelled() {
                return Err(BeginError::Cancelled);
            }
            if self.waits_for(&running).any(gives_up) {
                return Err(BeginError::GaveUp);
            }
            let woken = self.ks.snapshots.ended.wait_timeout(running, LOOK);
            running = woken.unwrap_or_else(|poisoned| poisoned.into_inner()).0;
        }
        Ok(())
    }

    /// Whether every running command that has written keeps images. Stays true.
    pub(super) fn is_ready(&self, running: &Running<'_>) -> bool {
        self.waits_for(running).next().is_none()
    }

    /// The shards of the commands that it waits for.
    fn waits_for(&self, running: &Running<'_>) -> impl Iterator<Item = Busy> {
        let waits = |entry: &&Entry| entry.wrote_without_images(&self.account);
        running.iter().filter(waits).map(|entry| Busy { shard: entry.shard() })
    }

    /// Stops the I/O threads and makes the cut, once it is ready.
    pub(super) fn cut<T>(
        self,
        hand: &mut SlowLaneThread<'k>,
        context: &mut ExecContext,
        at_cut: impl FnOnce(&Stop<'_>) -> T,
    ) -> (Snapshot<'k>, T) {
        let (ks, began) = (self.ks, Instant::now());
        let stop = hand.stop();
        let running = ks.slow_lane.running();
        hand.agree_on_time(context);
        let snapshot = self.grant(&running, context.over_ms);
        let result = at_cut(&stop);
        drop((running, stop));
        ks.snapshots.cuts.add(began.elapsed());
        (snapshot, result)
    }

    /// Makes the cut. The I/O threads must be stopped.
    fn grant(mut self, running: &Running<'k>, at_ms: i64) -> Snapshot<'k> {
        let ks = self.ks;
        let mut counts = vec![Counts::default(); ks.databases()];
        let mut left = Vec::with_capacity(SHARDS);
        for shard in 0..SHARDS as u16 {
            let held = running::entry_of(running, shard);
            debug_assert!(held.is_none_or(|entry| !entry.wrote_without_images(&self.account)));
            let keeps = held.is_some_and(|entry| entry.keeps_for(&self.account));
            // A shard without keys at the cut needs no part: no later key belongs to the
            // snapshot.
            if count(ks, shard, held, &mut counts) > 0 {
                if !keeps {
                    shards::begin(ks, shard, &self.account);
                }
                left.push(shard);
            } else if keeps {
                drop(shards::end(ks, shard));
            }
        }
        self.account.open(at_ms, counts.iter().map(|counts| counts.keys).sum());
        ks.snapshots.set_wish(None);
        self.granted = true;
        let account = self.account.clone();
        Snapshot { ks, account, counts, left: Mutex::new(left), orphans: Mutex::new(Vec::new()) }
    }
}

impl Drop for Wish<'_> {
    fn drop(&mut self) {
        if self.granted {
            return;
        }
        let running = self.ks.slow_lane.running();
        self.ks.snapshots.set_wish(None);
        let keeping = running.iter().filter(|entry| entry.keeps_for(&self.account));
        let parts: Vec<_> = keeping.map(|entry| shards::end(self.ks, entry.shard())).collect();
        drop(running);
        drop(parts);
        self.ks.snapshots.release();
    }
}

/// Adds the keys of `shard` to the counts of their databases and returns their number. `held`: a
/// slow-lane command holds the shard, and its changes so far do not count.
fn count(ks: &Keyspace, shard: u16, held: Option<&Entry>, counts: &mut [Counts]) -> usize {
    let mut sum = 0;
    for db in ks.occupied.databases_of(shard) {
        let counts = &mut counts[db];
        let table = ks.table(shard, db);
        let keys = held.map_or_else(|| table.len(), |entry| entry.keys(db));
        counts.keys += keys;
        counts.expiring += table.expiring().min(keys);
        sum += keys;
    }
    sum
}

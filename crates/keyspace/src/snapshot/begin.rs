//! The cut: how a snapshot begins, and how commands of the slow lane come after it as a whole.
//!
//! A command of the slow lane may be in the middle of its writes for seconds, and a cut there would
//! tear it. To keep old images of everything that such a command writes, in case that somebody
//! takes a snapshot meanwhile, would be a price for nothing nearly always. So whoever wants a
//! snapshot says so first:
//!
//! ```text
//!  wish ──────────► those that have begun to write are over ──► stop ─► cut ─► go
//!    │                       ▲                                           ▲
//!    └─ who writes for the first time now keeps images from there on ────┘
//!       (its shards take part from that moment: it holds them, so they are what they will be at
//!        the cut; if it ends before the cut, they are let go again)
//! ```
//!
//! Nobody waits but the snapshot, and only for commands that had begun to write before the wish:
//! others can't prolong it. Commands of the slow lane that only read are no matter.
//!
//! All of this is under the mutex of [`crate::running`], under which long commands also take their
//! shards and commit. I/O threads are stopped for the cut itself, for microseconds.

use super::Snapshot;
use super::account::Account;
use super::shards;
use crate::guard::Guard;
use crate::hold::{SlowHand, Stop};
use crate::keyspace::{Keyspace, SHARDS};
use crate::running::{self, Entry, Running};
use crate::sync::Mutex;
use crate::turn::Turn;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// How many keys a database had at the cut.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub keys: usize,
    /// Of these, how many had an expiry; about, where a long command was under way.
    pub expiring: usize,
}

/// Why no snapshot has begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BeginError {
    /// One is being taken already: there is one at a time.
    Taken,
    /// The turn was cancelled while it waited for a long command.
    Cancelled,
}

impl fmt::Display for BeginError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            BeginError::Taken => "a snapshot is being taken already",
            BeginError::Cancelled => "the snapshot was cancelled before it began",
        })
    }
}

impl std::error::Error for BeginError {}

impl<'k> Snapshot<'k> {
    /// Begins a snapshot of all keys as they are at one moment of this call, at which `at_cut` is
    /// called: no command is under way then but long ones that come after the cut as a whole. It
    /// must neither wait nor take shards. Keys that have expired for `turn` are no keys. `limit_bytes`: how much may be held beside the keys
    /// until writers must wait ([`Keyspace::is_snapshot_full`]), 0 for any amount.
    ///
    /// Waits, with everybody else at work, for commands of the slow lane that have begun to write;
    /// and while `turn` is cancelled, no longer. The world is stopped for O(shards * databases).
    ///
    /// # Errors
    /// See [`BeginError`].
    pub fn begin<T>(
        hand: &mut SlowHand<'k>,
        turn: &mut Turn,
        limit_bytes: usize,
        at_cut: impl FnOnce(&Stop<'_>) -> T,
    ) -> Result<(Snapshot<'k>, T), BeginError> {
        let wish = Wish::new(hand.keyspace(), limit_bytes)?;
        wish.wait(turn)?;
        Ok(wish.cut(hand, turn, at_cut))
    }

    /// As [`Snapshot::begin`], by who holds the world already: nothing has to be waited for.
    ///
    /// # Errors
    /// A snapshot is being taken already.
    ///
    /// # Panics
    /// If the guard is not one of the world of `ks`.
    pub fn begin_in(
        ks: &'k Keyspace,
        guard: &Guard<'_>,
        turn: &mut Turn,
        limit_bytes: usize,
    ) -> Result<Snapshot<'k>, BeginError> {
        assert!(guard.is_world(), "the world is to be held for a cut");
        assert!(std::ptr::eq(ks, guard.keyspace()), "the world is to be that of the keyspace");
        let wish = Wish::new(ks, limit_bytes)?;
        let running = ks.slow_lane.running();
        Ok(wish.grant(&running, turn.over_ms))
    }
}

/// A snapshot that wants to begin; withdrawn on drop.
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

    /// Until no command is under way that has written without keeping images.
    fn wait(&self, turn: &Turn) -> Result<(), BeginError> {
        /// A look at whether the turn was cancelled. Commands that end wake at once.
        const LOOK: Duration = Duration::from_millis(20);
        let mut running = self.ks.slow_lane.running();
        while !self.is_ready(&running) {
            if turn.is_cancelled() {
                return Err(BeginError::Cancelled);
            }
            let woken = self.ks.snapshots.ended.wait_timeout(running, LOOK);
            running = woken.unwrap_or_else(|poisoned| poisoned.into_inner()).0;
        }
        Ok(())
    }

    /// Whether every command that has written keeps images, or is over. That stays so.
    pub(super) fn is_ready(&self, running: &Running<'_>) -> bool {
        !running.iter().any(|entry| entry.wrote_plainly(&self.account))
    }

    /// Stops the I/O threads and makes the cut, once it is ready.
    pub(super) fn cut<T>(
        self,
        hand: &mut SlowHand<'k>,
        turn: &mut Turn,
        at_cut: impl FnOnce(&Stop<'_>) -> T,
    ) -> (Snapshot<'k>, T) {
        let stop = hand.stop();
        let running = self.ks.slow_lane.running();
        hand.agree_on_time(turn);
        let snapshot = self.grant(&running, turn.over_ms);
        let told = at_cut(&stop);
        drop((running, stop));
        (snapshot, told)
    }

    /// Makes the cut. The I/O threads are stopped.
    fn grant(mut self, running: &Running<'k>, at_ms: i64) -> Snapshot<'k> {
        let ks = self.ks;
        let mut counts = vec![Counts::default(); ks.databases()];
        let mut left = Vec::with_capacity(SHARDS);
        for shard in 0..SHARDS as u16 {
            let held = running::entry_of(running, shard);
            debug_assert!(held.is_none_or(|entry| !entry.wrote_plainly(&self.account)));
            let keeps = held.is_some_and(|entry| entry.keeps_for(&self.account));
            // Into a shard without keys there comes nothing that is of the cut.
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

/// Adds the keys of `shard` to those of their databases; how many there are. `held`: a command of
/// the slow lane holds the shard, and what it has done so far does not count.
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

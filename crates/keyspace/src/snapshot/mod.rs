//! A snapshot: all keys as they were at one moment, read while commands run.
//!
//! There is no second process and no copy of the memory. At the *cut* the I/O threads stop for
//! microseconds. After it, snapshot threads walk the tables in small steps. A writer that is
//! about to change a key not reached yet hands over an image of the old value first:
//!
//! ```text
//!   a table, its keys in the order of positions (the top 32 bits of the hash)
//!  ┌───────────────────────────────┬───────────────────────────────────────────┐
//!  │ given to the visitor          │ still to walk, except those in `kept`     │
//!  └───────────────────────────────┴───────────────────────────────────────────┘
//!                               cursor
//!   a writer after the cursor, whose key is not in `kept`:
//!      the key goes into `kept`, and if it existed at the cut, its image to the walkers
//! ```
//!
//! So each key of the cut is given once: by the walk if it is unchanged, else as an image.
//! Without a snapshot nothing is stored per key, and a write costs one load of a word next to the
//! shard's lock ([`crate::interest`]).
//!
//! * `shards` - what each shard keeps: the walks of its tables, and images
//! * `walk` - one table's cursor and its `kept`; `walks`: those of a shard; `image`: a key for a
//!   visitor
//! * `begin` - the cut, and how slow-lane commands come after it as a whole
//! * `step` - the walkers; `account`: the memory of a snapshot, and when writers wait for it
//!
//! ```
//! # use weft_keyspace::{Keyspace, SlowLaneThread, ExecContext, snapshot::{Snapshot, Step}};
//! # let ks = Keyspace::new(1, 1, Box::new(|_| {}));
//! let clock = || 1_700_000_000_000;
//! let mut hand = SlowLaneThread::background(&ks, &clock);
//! let mut context = ExecContext::new(clock(), 1);
//! let (snapshot, ()) = Snapshot::begin(&mut hand, &mut context, 64 << 20, |_stopped| ())?;
//! // Any number of threads, each with its own `SlowLaneThread` and `ExecContext`:
//! while let Step::More = snapshot.step(&mut hand, &mut context, &mut |image| {
//!     let _ = (image.db(), image.key(), image.expiry());
//! }) {}
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! `docs/design/snapshots.md` has the reasons.

pub(crate) mod account;
mod begin;
mod cut_times;
mod image;
#[cfg(not(loom))]
pub(crate) mod planted;
#[cfg(loom)]
pub mod planted;
pub(crate) mod shards;
mod step;
#[cfg(all(test, not(loom)))]
mod tests;
pub(crate) mod walk;
mod walks;

pub use account::Progress;
pub use begin::{BeginError, Counts};
pub use cut_times::CutTimes;
pub use image::Image;
pub use step::Step;

use crate::keyspace::{Key, Keyspace};
use crate::sync::Mutex;
use account::Account;
use std::fmt;
use std::sync::Arc;
use walk::Orphan;

/// A snapshot in progress: the content of the keyspace at its cut. There is one at a time.
///
/// Shared by the walking threads. Dropping it before its end cancels it: writers then keep
/// nothing for it any more.
pub struct Snapshot<'k> {
    ks: &'k Keyspace,
    account: Arc<Account>,
    counts: Vec<Counts>,
    /// Unfinished shards that no walker is visiting.
    left: Mutex<Vec<u16>>,
    /// Contents of tables emptied since the cut that no walker is visiting.
    orphans: Mutex<Vec<Orphan>>,
}

impl fmt::Debug for Snapshot<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Snapshot").field("progress", &self.progress()).finish_non_exhaustive()
    }
}

impl Snapshot<'_> {
    /// Unix time of the cut, in milliseconds: keys that had expired then are not in the snapshot.
    pub fn time_ms(&self) -> i64 {
        self.account.at_ms()
    }

    /// The number of keys at the cut, by database: a size hint for loading. Includes keys that
    /// had expired but were not removed yet.
    pub fn counts(&self) -> &[Counts] {
        &self.counts
    }

    /// Its progress.
    pub fn progress(&self) -> Progress {
        self.account.progress()
    }
}

impl Keyspace {
    /// The progress of the current snapshot, if there is one.
    pub fn snapshot_progress(&self) -> Option<Progress> {
        self.snapshots.account().map(|account| account.progress())
    }

    /// How long the I/O threads were stopped for snapshots.
    pub fn cut_times(&self) -> &CutTimes {
        &self.snapshots.cuts
    }

    /// Bytes that the current snapshot holds in addition to the keys. Two loads.
    pub fn snapshot_bytes(&self) -> usize {
        self.snapshots.gauge.held()
    }

    /// Whether the current snapshot holds so much memory that some writers must wait. A few
    /// loads.
    pub fn is_snapshot_full(&self) -> bool {
        self.snapshots.gauge.is_full()
    }

    /// Whether the snapshot was full and has room again, so that waiting writers should retry.
    /// Returns true once.
    pub fn is_snapshot_relieved(&self) -> bool {
        self.snapshots.gauge.is_relieved()
    }

    /// Whether a write of `key` in database `db` must wait, since the snapshot is full and the
    /// write would make it hold more. The answer may be outdated unless the caller holds the
    /// shard.
    pub fn must_wait_for_snapshot(&self, db: usize, key: &Key<'_>) -> bool {
        let gauge = &self.snapshots.gauge;
        gauge.is_full() && gauge.must_wait(shards::write_cost(self, db, key))
    }

    /// A writer has waited long enough: raises the limit of the snapshot by an eighth.
    pub fn raise_snapshot_limit(&self) {
        if let Some(account) = self.snapshots.account() {
            account.raise();
        }
    }
}

//! A snapshot: all keys as they were at one moment, read while commands go on.
//!
//! No second process, and no copy of the memory. At the *cut* the I/O threads stand still for
//! microseconds. From then on snapshot threads walk the tables in small steps, and whoever is about
//! to change a key that was not reached yet hands over its old image first:
//!
//! ```text
//!   a table, its keys in the order of positions (the top 32 bits of the hash)
//!  ┌───────────────────────────────┬───────────────────────────────────────────┐
//!  │ given to the visitor          │ to come, but for those in `kept`          │
//!  └───────────────────────────────┴───────────────────────────────────────────┘
//!                               cursor
//!   a writer in front of the cursor, whose key is not in `kept`:
//!      the key goes into `kept`, and if it was there at the cut, its image to the walkers
//! ```
//!
//! So each key of the cut is given once: by the walk if nobody has changed it, else as an image.
//! Nothing is stored per key while no snapshot is taken, and a write then costs a look at a word
//! that lies beside the shard's lock ([`crate::interest`]).
//!
//! * `shards` - what each shard keeps: the walks of its tables, and images
//! * `walk` - one table's cursor and its `kept`; `walks`: those of a shard; `image`: what a visitor is given
//! * `begin` - the cut, and how commands of the slow lane come after it as a whole
//! * `step` - the walkers; `account`: the memory that a snapshot takes, and when writers wait for it
//!
//! ```
//! # use weft_keyspace::{Keyspace, SlowHand, Turn, snapshot::{Snapshot, Step}};
//! # let ks = Keyspace::new(1, 1, Box::new(|_| {}));
//! let clock = || 1_700_000_000_000;
//! let mut hand = SlowHand::background(&ks, &clock);
//! let mut turn = Turn::new(clock(), 1);
//! let (snapshot, ()) = Snapshot::begin(&mut hand, &mut turn, 64 << 20, |_stopped| ())?;
//! // Any number of threads, each with a hand and a turn of its own:
//! while let Step::More = snapshot.step(&mut hand, &mut turn, &mut |image| {
//!     let _ = (image.db(), image.key(), image.expiry());
//! }) {}
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! The reasons are in `docs/design/snapshots.md`.

pub(crate) mod account;
mod begin;
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
pub use image::Image;
pub use step::Step;

use crate::keyspace::{Key, Keyspace};
use crate::sync::Mutex;
use account::Account;
use std::fmt;
use std::sync::Arc;
use walk::Orphan;

/// A snapshot that is being taken: the content of the keyspace at its cut. There is one at a time.
///
/// Shared by the threads that walk. Dropped before its end, it is broken off: writers keep nothing
/// for it any more.
pub struct Snapshot<'k> {
    ks: &'k Keyspace,
    account: Arc<Account>,
    counts: Vec<Counts>,
    /// Shards that are not done and at which no walker is.
    left: Mutex<Vec<u16>>,
    /// Contents of tables that were emptied meanwhile, at which no walker is.
    orphans: Mutex<Vec<Orphan>>,
}

impl fmt::Debug for Snapshot<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Snapshot").field("progress", &self.progress()).finish_non_exhaustive()
    }
}

impl Snapshot<'_> {
    /// Unix time of the cut, in milliseconds: what had expired then is not in the snapshot.
    pub fn time_ms(&self) -> i64 {
        self.account.at_ms()
    }

    /// How many keys there were at the cut, by database: a hint for who loads them. Keys that had
    /// expired and were not removed yet are counted.
    pub fn counts(&self) -> &[Counts] {
        &self.counts
    }

    /// How far it has come.
    pub fn progress(&self) -> Progress {
        self.account.progress()
    }
}

impl Keyspace {
    /// How far the snapshot has come that is being taken, if there is one.
    pub fn snapshot_progress(&self) -> Option<Progress> {
        self.snapshots.account().map(|account| account.progress())
    }

    /// Bytes that the snapshot which is being taken holds beside the keys. Two loads.
    pub fn snapshot_bytes(&self) -> usize {
        self.snapshots.gauge.held()
    }

    /// Whether the snapshot that is being taken holds so much that some writers must wait. Some loads.
    pub fn is_snapshot_full(&self) -> bool {
        self.snapshots.gauge.is_full()
    }

    /// Whether the snapshot was full and has room again, so that those who wait should look again. It says
    /// so once.
    pub fn is_snapshot_relieved(&self) -> bool {
        self.snapshots.gauge.is_relieved()
    }

    /// Whether a write of `key` in database `db` must wait, since the snapshot is full and it would make
    /// that hold more. Who does not hold its shard may get an answer that is a moment old.
    pub fn must_wait_for_snapshot(&self, db: usize, key: &Key<'_>) -> bool {
        let gauge = &self.snapshots.gauge;
        gauge.is_full() && gauge.holds_back(shards::written(self, db, key))
    }

    /// A writer has waited for long enough: the snapshot may hold more by an eighth of its limit.
    pub fn raise_snapshot_limit(&self) {
        if let Some(account) = self.snapshots.account() {
            account.raise();
        }
    }
}

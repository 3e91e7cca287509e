//! The account of a snapshot: the memory that it takes beside the keys themselves, and how far it
//! has come.
//!
//! Images and `kept` keys take memory until the walkers have come by. Writers add to the account
//! and never wait: who would bring it over the limit gives the snapshot up instead, and from then
//! on nobody keeps anything. The walkers find that out at their next step.

use crate::keyspace::SHARDS;
use crate::sync::{AtomicBool, AtomicI64, AtomicUsize, Ordering};
use weft_types::Shared;

/// How far a snapshot has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Keys at the cut.
    pub keys: usize,
    /// Of these, how many were given to visitors. Keys that had expired at the cut are passed over,
    /// so fewer than `keys` may be given in all.
    pub given: usize,
    /// Bytes that writers have made the snapshot keep and that were not given to visitors yet.
    pub kept_bytes: usize,
    /// The most that it has been, with what writers copied of large values meanwhile.
    pub peak_bytes: usize,
    /// Bytes at which it is given up; 0: never.
    pub limit_bytes: usize,
}

/// See the module's description. Counters are added to under the mutexes of shards, and read at
/// any time.
#[derive(Debug)]
pub(crate) struct Account {
    at_ms: AtomicI64,
    keys: AtomicUsize,
    given: AtomicUsize,
    limit: usize,
    bytes: AtomicUsize,
    /// What writers had copied of shared values, ever, when this began.
    copied: u64,
    peak: AtomicUsize,
    of_shards: Box<[AtomicUsize]>,
    given_up: AtomicBool,
}

impl Account {
    pub(super) fn new(limit: usize) -> Account {
        Account {
            // Before the cut, everything that is there is kept: see `begin`.
            at_ms: AtomicI64::new(i64::MIN),
            keys: AtomicUsize::new(0),
            given: AtomicUsize::new(0),
            limit,
            bytes: AtomicUsize::new(0),
            copied: Shared::copied_bytes(),
            peak: AtomicUsize::new(0),
            of_shards: (0..SHARDS).map(|_| AtomicUsize::new(0)).collect(),
            given_up: AtomicBool::new(false),
        }
    }

    /// The cut is made: with that many keys.
    pub(super) fn open(&self, at_ms: i64, keys: usize) {
        self.at_ms.store(at_ms, Ordering::Relaxed);
        self.keys.store(keys, Ordering::Relaxed);
    }

    pub(super) fn at_ms(&self) -> i64 {
        self.at_ms.load(Ordering::Relaxed)
    }

    /// Whether a key with this expiry is in the snapshot.
    pub(super) fn is_live(&self, expiry: Option<i64>) -> bool {
        expiry.is_none_or(|at| at > self.at_ms())
    }

    /// Adds bytes that `shard` keeps; gives the snapshot up when that is too much.
    pub(super) fn add(&self, shard: u16, bytes: usize) {
        self.of_shards[usize::from(shard)].fetch_add(bytes, Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        self.look();
    }

    /// Gives the snapshot up if too much is kept.
    pub(super) fn look(&self) {
        let now = self.bytes();
        self.peak.fetch_max(now, Ordering::Relaxed);
        if self.limit > 0 && now > self.limit {
            self.given_up.store(true, Ordering::Relaxed);
        }
    }

    /// What is kept, with what writers have copied since this began of values that are shared. They
    /// may have copied for others, too, and some of that may be free again: at most.
    fn bytes(&self) -> usize {
        let copied = Shared::copied_bytes().saturating_sub(self.copied);
        self.bytes.load(Ordering::Relaxed) + copied as usize
    }

    /// Takes off bytes that `shard` keeps no more.
    pub(super) fn sub(&self, shard: u16, bytes: usize) {
        self.of_shards[usize::from(shard)].fetch_sub(bytes, Ordering::Relaxed);
        self.bytes.fetch_sub(bytes, Ordering::Relaxed);
    }

    pub(super) fn of_shard(&self, shard: u16) -> usize {
        self.of_shards[usize::from(shard)].load(Ordering::Relaxed)
    }

    /// Whether so much is kept that the walkers should go where most of it is.
    pub(super) fn is_pressed(&self) -> bool {
        /// Less than this is kept without a thought of order.
        const EASY: usize = 1 << 20;
        let bytes = self.bytes();
        bytes > EASY && self.limit > 0 && bytes > self.limit / 4
    }

    pub(super) fn is_given_up(&self) -> bool {
        self.given_up.load(Ordering::Relaxed)
    }

    pub(super) fn note_given(&self) {
        self.given.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn progress(&self) -> Progress {
        Progress {
            keys: self.keys.load(Ordering::Relaxed),
            given: self.given.load(Ordering::Relaxed),
            kept_bytes: self.bytes.load(Ordering::Relaxed),
            peak_bytes: self.peak.load(Ordering::Relaxed),
            limit_bytes: self.limit,
        }
    }
}

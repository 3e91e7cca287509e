//! The account of a snapshot: its memory in addition to the keys, its progress, and whether
//! writers must wait for it.
//!
//! Images and `kept` names take memory until the walkers have passed them. So do writers' copies
//! of large values whose images are still being written. Near the limit the account is *full*.
//! From then on, a command whose write would make the snapshot hold more memory waits until the
//! walkers have made room. All others continue: reads, and writes to keys that are written to the
//! snapshot or already kept.
//!
//! ```text
//!  images, names and copies  0 ───────────── 5/8 ───── 7/8 ── limit
//!                                    room again   full      for commands that had begun
//!  copies alone              0 ── 1/4 ── 1/2
//!                         room again   full, for writers of values that are being write_cost
//! ```
//!
//! So a single value that changes everywhere does not use up the room of all other keys.
//!
//! A command waits for a bounded time. Then it continues, and the limit is raised for this
//! snapshot, by an eighth of its original value at a time. So with a slow disk, a snapshot takes
//! more memory at a bounded rate, and no pattern of writes makes it fail.

use crate::keyspace::SHARDS;
use crate::sync::{AtomicBool, AtomicI64, AtomicU64, AtomicUsize, Mutex, Ordering, lock};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use weft_types::Shared;

/// The progress of a snapshot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Keys at the cut.
    pub keys: usize,
    /// How many of these were given to visitors. Keys that had expired at the cut are skipped, so
    /// the final value may be below `keys`.
    pub given: usize,
    /// Bytes that the snapshot holds because of writers, until visitors have finished with them.
    pub kept_bytes: usize,
    /// The maximum so far.
    pub peak_bytes: usize,
    /// The current limit, including raises; 0: no limit.
    pub limit_bytes: usize,
}

/// The memory of the current snapshot in addition to the keys. One per keyspace, so that a writer
/// can check it without a lock.
#[derive(Debug)]
pub(crate) struct Gauge {
    /// Images and names.
    bytes: AtomicUsize,
    /// Copies of pieces after this point count: see [`Shared::copied_bytes`]. `NEVER` while no
    /// image shares pieces, so that none count.
    copied_before: AtomicU64,
    /// 0: no limit, or there is no snapshot.
    limit: AtomicUsize,
    is_full: AtomicBool,
    /// The same for copies.
    is_copied_full: AtomicBool,
    /// Images of values in pieces that visitors have not finished with.
    shared: Mutex<SharedImages>,
}

/// Images of values in pieces: a writer of such a value copies a part of it.
#[derive(Debug, Default)]
struct SharedImages {
    next: u64,
    /// The bytes copied when each image was made, in the order of creation.
    made_at: BTreeMap<u64, u64>,
    /// The databases of the images of each key. `Box`, so that a lookup by slice needs no
    /// allocation.
    names: HashMap<Box<[u8]>, Vec<u32>>,
}

const NEVER: u64 = u64::MAX;

impl Default for Gauge {
    fn default() -> Self {
        Gauge {
            bytes: AtomicUsize::new(0),
            copied_before: AtomicU64::new(NEVER),
            limit: AtomicUsize::new(0),
            is_full: AtomicBool::new(false),
            is_copied_full: AtomicBool::new(false),
            shared: Mutex::new(SharedImages::default()),
        }
    }
}

/// The effect of a write on the snapshot's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WriteCost {
    /// The snapshot keeps an image of the key first.
    Kept,
    /// The writer copies pieces that a visitor has not finished with.
    Copied,
    /// None.
    Free,
}

/// The marks at which writers must wait, and may continue, in eighths of the limit.
struct Mark {
    full: usize,
    room: usize,
}

/// For all memory. The last eighth is for commands that had begun.
const ALL: Mark = Mark { full: 7, room: 5 };
/// For copies.
const COPIES: Mark = Mark { full: 4, room: 2 };
const _: () = assert!(COPIES.full < ALL.room, "copies alone hold back only writers that copy");

/// `n` eighths of `limit`.
fn eighths(limit: usize, n: usize) -> usize {
    limit / 8 * n + limit % 8 * n / 8
}

impl Gauge {
    /// Resets it for a new snapshot, or for none.
    pub(super) fn reset(&self, limit: usize) {
        *lock(&self.shared) = SharedImages::default();
        self.bytes.store(0, Ordering::Relaxed);
        self.copied_before.store(NEVER, Ordering::Relaxed);
        self.limit.store(limit, Ordering::Relaxed);
        self.is_full.store(false, Ordering::Relaxed);
        self.is_copied_full.store(false, Ordering::Relaxed);
    }

    /// Images and names alone.
    #[cfg(all(test, not(loom)))]
    pub(super) fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    /// An upper bound of the bytes copied by writers: some may have been copied for other
    /// reasons.
    fn copied(&self) -> usize {
        let before = self.copied_before.load(Ordering::Relaxed);
        Shared::copied_bytes().saturating_sub(before) as usize
    }

    /// The memory held now.
    pub(crate) fn held(&self) -> usize {
        self.bytes.load(Ordering::Relaxed) + self.copied()
    }

    /// Whether so much memory is held that some writers must wait.
    pub(super) fn is_full(&self) -> bool {
        let limit = self.limit.load(Ordering::Relaxed);
        if limit == 0 {
            return false;
        }
        let look = |flag: &AtomicBool, now: usize, mark: Mark| {
            let is_full = flag.load(Ordering::Relaxed);
            if !is_full && now > eighths(limit, mark.full) {
                flag.store(true, Ordering::Relaxed);
                return true;
            }
            is_full
        };
        let copied = self.copied();
        let all = self.bytes.load(Ordering::Relaxed) + copied;
        look(&self.is_full, all, ALL) | look(&self.is_copied_full, copied, COPIES)
    }

    /// Whether writers had to wait, and some need not any more.
    pub(super) fn is_relieved(&self) -> bool {
        let limit = self.limit.load(Ordering::Relaxed);
        let look = |flag: &AtomicBool, now: usize, mark: Mark| {
            flag.load(Ordering::Relaxed)
                && now <= eighths(limit, mark.room)
                && flag.swap(false, Ordering::Relaxed)
        };
        look(&self.is_full, self.held(), ALL) | look(&self.is_copied_full, self.copied(), COPIES)
    }

    /// Whether a write with the effect `write_cost` must wait.
    pub(super) fn must_wait(&self, write_cost: WriteCost) -> bool {
        let is_full = self.is_full.load(Ordering::Relaxed);
        match write_cost {
            WriteCost::Kept => is_full,
            WriteCost::Copied => is_full || self.is_copied_full.load(Ordering::Relaxed),
            WriteCost::Free => false,
        }
    }

    /// Raises the limit by an eighth of `own`, above the memory held now.
    fn raise(&self, own: usize) {
        /// The smallest useful step.
        const LEAST: usize = 64 << 10;
        let limit = self.limit.load(Ordering::Relaxed);
        if limit == 0 {
            return;
        }
        // With this limit, the memory held is at most at one of the two marks.
        let needed = (self.held() / ALL.full).max(self.copied() / COPIES.full) * 8;
        let raised = limit.max(needed) + (own / 8).max(LEAST);
        self.limit.store(raised, Ordering::Relaxed);
        self.is_full.store(false, Ordering::Relaxed);
        self.is_copied_full.store(false, Ordering::Relaxed);
    }

    /// Records an image of a value in pieces and returns its number.
    pub(super) fn share(&self, db: u32, name: &[u8]) -> u64 {
        let mut shared = lock(&self.shared);
        let copied = Shared::copied_bytes();
        if shared.made_at.is_empty() {
            self.copied_before.store(copied, Ordering::Relaxed);
        }
        shared.next += 1;
        let number = shared.next;
        shared.made_at.insert(number, copied);
        match shared.names.get_mut(name) {
            Some(dbs) => dbs.push(db),
            None => drop(shared.names.insert(name.into(), vec![db])),
        }
        number
    }

    /// A visitor has finished with the image of that number. Bytes copied before the oldest
    /// remaining image was made are free again.
    pub(super) fn unshare(&self, number: u64, db: u32, name: &[u8]) {
        let mut shared = lock(&self.shared);
        if shared.made_at.remove(&number).is_none() {
            // It belongs to an earlier snapshot.
            return;
        }
        if let Some(dbs) = shared.names.get_mut(name) {
            if let Some(at) = dbs.iter().position(|other| *other == db) {
                dbs.swap_remove(at);
            }
            if dbs.is_empty() {
                shared.names.remove(name);
            }
        }
        let oldest = shared.made_at.first_key_value().map(|(_, copied)| *copied);
        self.copied_before.store(oldest.unwrap_or(NEVER), Ordering::Relaxed);
    }

    /// Whether a visitor has not finished with an image of this key, whose value is in pieces.
    pub(super) fn is_shared(&self, db: u32, name: &[u8]) -> bool {
        lock(&self.shared).names.get(name).is_some_and(|dbs| dbs.contains(&db))
    }
}

/// See the module's description. Counters are incremented under the mutexes of shards, and read
/// at any time.
#[derive(Debug)]
pub(crate) struct Account {
    at_ms: AtomicI64,
    keys: AtomicUsize,
    given: AtomicUsize,
    /// The limit at the start of the snapshot.
    limit: usize,
    gauge: Arc<Gauge>,
    peak: AtomicUsize,
    of_shards: Box<[AtomicUsize]>,
}

impl Account {
    pub(super) fn new(limit: usize, gauge: &Arc<Gauge>) -> Account {
        Account {
            // Until the cut, all keys are kept: see `begin`.
            at_ms: AtomicI64::new(i64::MIN),
            keys: AtomicUsize::new(0),
            given: AtomicUsize::new(0),
            limit,
            gauge: gauge.clone(),
            peak: AtomicUsize::new(0),
            of_shards: (0..SHARDS).map(|_| AtomicUsize::new(0)).collect(),
        }
    }

    pub(super) fn limit(&self) -> usize {
        self.limit
    }

    /// The cut was made, with that many keys.
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

    /// Adds bytes that `shard` keeps.
    pub(super) fn add(&self, shard: u16, bytes: usize) {
        self.prioritize(shard, bytes);
        self.gauge.bytes.fetch_add(bytes, Ordering::Relaxed);
        self.note_peak();
    }

    /// Makes walkers prefer `shard` as if it kept that many more bytes.
    pub(super) fn prioritize(&self, shard: u16, bytes: usize) {
        self.of_shards[usize::from(shard)].fetch_add(bytes, Ordering::Relaxed);
    }

    pub(super) fn deprioritize(&self, shard: u16, bytes: usize) {
        self.of_shards[usize::from(shard)].fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Updates the maximum of the memory held.
    pub(super) fn note_peak(&self) {
        self.peak.fetch_max(self.gauge.held(), Ordering::Relaxed);
    }

    /// Subtracts bytes that `shard` no longer keeps.
    pub(super) fn sub(&self, shard: u16, bytes: usize) {
        self.deprioritize(shard, bytes);
        self.gauge.bytes.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Records an image of a value in pieces and returns its number.
    pub(super) fn share(&self, db: u32, name: &[u8]) -> u64 {
        self.gauge.share(db, name)
    }

    pub(super) fn unshare(&self, number: u64, db: u32, name: &[u8]) {
        self.note_peak();
        self.gauge.unshare(number, db, name);
    }

    pub(super) fn of_shard(&self, shard: u16) -> usize {
        self.of_shards[usize::from(shard)].load(Ordering::Relaxed)
    }

    /// Whether so much memory is held that the walkers should prefer the shards that keep most.
    pub(super) fn is_under_pressure(&self) -> bool {
        self.limit > 0 && self.gauge.held() > self.limit / 4
    }

    pub(super) fn raise(&self) {
        self.gauge.raise(self.limit);
    }

    pub(super) fn note_given(&self) {
        self.given.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn progress(&self) -> Progress {
        Progress {
            keys: self.keys.load(Ordering::Relaxed),
            given: self.given.load(Ordering::Relaxed),
            kept_bytes: self.gauge.held(),
            peak_bytes: self.peak.load(Ordering::Relaxed),
            limit_bytes: self.gauge.limit.load(Ordering::Relaxed),
        }
    }
}

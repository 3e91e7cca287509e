//! Shards, tables and keys.

use crate::Table;
use crate::background_threads::BackgroundThreads;
use crate::interest::Watch;
use crate::interest::{self, Interest};
use crate::invalidation::Caches;
use crate::lane_lock::LaneLock;
use crate::lock::{ShardLock, Waiter};
use crate::log::Log;
use crate::moving_slots::MovingSlots;
use crate::notice::Listener;
use crate::occupied::Occupied;
use crate::replica_expiry::NotedKeys;
use crate::running::{Entry, Running};
use crate::safepoint::Safepoints;
use crate::snapshot::shards::Snapshots;
use crate::sync::{Mutex, Ordering};
use crate::tables::Tables;
use foldhash::SharedSeed;
use foldhash::quality::FoldHasher;
use std::fmt;
use std::hash::{BuildHasher, Hasher as _, RandomState};
use std::sync::{Arc, OnceLock};
use weft_base::limits::SLOTS;
use weft_base::slot::key_slot;
use weft_table::{GROUPS, KeyHasher, grouped};

/// The number of shards of the hash slots. Enough that dozens of threads rarely meet on
/// one; few enough that their locks and roots stay in a core's second-level cache.
/// Fewer in loom models, which explore every lock.
pub const SHARDS: usize = if cfg!(loom) { 2 } else { 256 };
const _: () = assert!(SHARDS.is_power_of_two() && SHARDS <= SLOTS);

/// The seeded hash of keys (foldhash): fast on short keys, with a seed that clients can't know. In
/// a cluster, keys of a slot are neighbours in their table ([`weft_table::grouped`]).
#[derive(Clone, Copy, Debug)]
pub struct Hasher {
    seed: u64,
    shared: &'static SharedSeed,
    by_slot: bool,
}

impl Hasher {
    #[inline]
    fn hash_bytes(&self, key: &[u8]) -> u64 {
        let mut h = FoldHasher::with_seed(self.seed, self.shared);
        h.write(key);
        h.finish()
    }

    /// The hash of a key in `slot`.
    #[inline]
    fn hash_in(&self, key: &[u8], slot: u16) -> u64 {
        let hash = self.hash_bytes(key);
        if self.by_slot { grouped(hash, group_of(slot)) } else { hash }
    }
}

impl KeyHasher for Hasher {
    #[inline]
    fn hash(&self, key: &[u8]) -> u64 {
        match self.by_slot {
            true => self.hash_in(key, key_slot(key)),
            false => self.hash_bytes(key),
        }
    }

    #[inline]
    fn is_grouped(&self) -> bool {
        self.by_slot
    }
}

/// A key with the values derived from its bytes.
#[derive(Clone, Copy, Debug)]
pub struct Key<'a> {
    pub bytes: &'a [u8],
    pub hash: u64,
    /// The hash slot, from which the shard follows.
    pub slot: u16,
}

impl Key<'_> {
    /// The shard with the key.
    #[inline]
    pub fn shard(&self) -> u16 {
        shard_of(self.slot)
    }
}

/// The shard with the keys of a hash slot.
#[inline]
pub fn shard_of(slot: u16) -> u16 {
    slot % SHARDS as u16
}

/// The group of the keys of a slot in its shard's tables.
#[inline]
pub(crate) fn group_of(slot: u16) -> usize {
    usize::from(slot) / SHARDS % GROUPS
}
// Each slot of a shard has its own group. The loom models have no cluster.
const _: () = assert!(cfg!(loom) || SLOTS / SHARDS == GROUPS);

/// Counts of one database.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sums {
    pub keys: usize,
    /// Keys that have an expiry.
    pub expiring: usize,
    /// Keys that hold fields with an expiry.
    pub timed: usize,
    /// Bytes of the tables without the records.
    pub table_bytes: usize,
}

/// Wakes the connection of a waiter. Called outside of all locks.
pub type Wake = Box<dyn Fn(Waiter) + Send + Sync>;

/// Locks of the commands that run in the slow lane.
pub(crate) struct SlowLane {
    /// Shared by the commands that run without a safepoint, in the slow lane; held alone
    /// by a thread that needs the whole keyspace. See [`crate::hold::SlowLaneThread`].
    pub slow: LaneLock,
    /// The same for commands that wait for something outside of the process; locked before `slow`.
    pub outside: LaneLock,
    running: Mutex<Vec<Entry>>,
}

impl SlowLane {
    fn new() -> Self {
        SlowLane {
            slow: LaneLock::new(),
            outside: LaneLock::new(),
            running: Mutex::new(Vec::new()),
        }
    }

    /// Makes the threads that wait for running commands ask again whether to give up.
    pub fn wake(&self) {
        self.slow.wake();
        self.outside.wake();
    }

    /// The shards held by the slow lane. No entry is added or removed while this is locked.
    pub fn running(&self) -> Running<'_> {
        self.running.lock().unwrap_or_else(|p| p.into_inner())
    }
}

/// Receivers of changes: watches, notices, the effect log, clients with client-side caching.
pub(crate) struct Observers {
    pub interests: Box<[Interest]>,
    pub listener: OnceLock<Listener>,
    pub log: Arc<Log>,
    pub caches: OnceLock<Box<dyn Caches>>,
    pub moving: MovingSlots,
}

impl Observers {
    fn new() -> Self {
        Observers {
            interests: (0..SHARDS).map(|_| Interest::default()).collect(),
            listener: OnceLock::new(),
            log: Arc::default(),
            caches: OnceLock::new(),
            moving: MovingSlots::new(SHARDS),
        }
    }
}

/// All keys of all logical databases.
pub struct Keyspace {
    pub(crate) locks: Box<[ShardLock]>,
    tables: Tables,
    pub(crate) occupied: Occupied,
    databases: usize,
    pub(crate) safepoints: Safepoints,
    pub(crate) slow_lane: SlowLane,
    /// Held by a walk over all keys, since there is one set of journals.
    pub(crate) walk: LaneLock,
    pub(crate) snapshots: Snapshots,
    pub(crate) noted: NotedKeys,
    pub(crate) wake: Wake,
    pub(crate) background_threads: BackgroundThreads,
    pub(crate) observers: Observers,
    hasher: Hasher,
}

impl fmt::Debug for Keyspace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Keyspace").field("databases", &self.databases).finish_non_exhaustive()
    }
}

impl Keyspace {
    /// An empty keyspace of `databases` logical databases for up to `threads` threads;
    /// [`Safepoints::use_up_to`] sets how many there are.
    pub fn new(databases: usize, threads: usize, wake: Wake) -> Self {
        Keyspace::with_seed(databases, threads, wake, false)
    }

    /// As [`Keyspace::new`], for a node of a cluster: the keys of a slot can be counted and listed.
    pub fn by_slot(databases: usize, threads: usize, wake: Wake) -> Self {
        Keyspace::with_seed(databases, threads, wake, true)
    }

    fn with_seed(databases: usize, threads: usize, wake: Wake, by_slot: bool) -> Self {
        let seed = RandomState::default().hash_one(std::process::id());
        let hasher = Hasher { seed, shared: SharedSeed::global_random(), by_slot };
        Keyspace::with_hasher(databases, threads, wake, hasher)
    }

    /// As [`Keyspace::new`], with reproducible places of keys: the same seed gives the same
    /// places in any process.
    #[cfg(any(test, loom))]
    pub fn seeded(databases: usize, threads: usize, seed: u64) -> Self {
        let hasher = Hasher { seed, shared: SharedSeed::global_fixed(), by_slot: false };
        Keyspace::with_hasher(databases, threads, Box::new(|_| {}), hasher)
    }

    fn with_hasher(databases: usize, threads: usize, wake: Wake, hasher: Hasher) -> Self {
        Keyspace {
            locks: (0..SHARDS).map(|_| ShardLock::default()).collect(),
            tables: Tables::new(databases, hasher),
            occupied: Occupied::new(databases),
            databases,
            safepoints: Safepoints::new(threads, 1),
            slow_lane: SlowLane::new(),
            walk: LaneLock::new(),
            snapshots: Snapshots::new(),
            noted: NotedKeys::new(),
            wake,
            background_threads: BackgroundThreads::new(),
            observers: Observers::new(),
            hasher,
        }
    }

    /// Sets the listener for all notices. There is one, and it stays.
    ///
    /// # Panics
    /// If a listener is already set.
    pub fn listen(&self, listener: Listener) {
        assert!(self.observers.listener.set(listener).is_ok(), "notices have one listener");
    }

    /// The effect log: begun by [`Guard::begin_log`](crate::Guard::begin_log).
    pub fn log(&self) -> &Log {
        &self.observers.log
    }

    pub fn databases(&self) -> usize {
        self.databases
    }

    /// The safepoints of the executing threads: see [`crate::safepoint`].
    pub fn safepoints(&self) -> &Safepoints {
        &self.safepoints
    }

    /// Hashes a key and finds its shard. Inlined into the plan of requests; callers off the path of the first key should not inline
    /// themselves.
    #[inline(always)]
    pub fn key<'a>(&self, bytes: &'a [u8]) -> Key<'a> {
        let slot = key_slot(bytes);
        Key { bytes, hash: self.hasher.hash_in(bytes, slot), slot }
    }

    /// The shard of a key.
    #[inline]
    pub fn shard(&self, bytes: &[u8]) -> u16 {
        shard_of(key_slot(bytes))
    }

    #[inline]
    pub(crate) fn table(&self, shard: u16, db: usize) -> &Table {
        self.tables.get(shard, db)
    }

    /// The number of keys in one shard and database; may be outdated at once unless the shard is
    /// held.
    pub fn shard_len(&self, shard: u16, db: usize) -> usize {
        self.tables.touched(shard, db).map_or(0, Table::len)
    }

    /// The number of keys with an expiry in one shard and database; as [`Keyspace::shard_len`].
    pub fn shard_expiring(&self, shard: u16, db: usize) -> usize {
        self.tables.touched(shard, db).map_or(0, Table::expiring)
    }

    /// The number of keys that hold fields with an expiry in one shard and database; as
    /// [`Keyspace::shard_len`].
    pub(crate) fn shard_timed(&self, shard: u16, db: usize) -> usize {
        self.tables.touched(shard, db).map_or(0, Table::marked)
    }

    /// Whether the keys of a slot can be counted and listed: [`Keyspace::by_slot`].
    pub fn is_by_slot(&self) -> bool {
        self.hasher.is_grouped()
    }

    /// The number of keys, expired or not, of a slot and database; as [`Keyspace::shard_len`]. O(1).
    ///
    /// # Panics
    /// If the keyspace was not made by [`Keyspace::by_slot`].
    pub fn slot_len(&self, slot: u16, db: usize) -> usize {
        let table = self.tables.touched(shard_of(slot), db);
        table.map_or(0, |table| table.group_len(group_of(slot)))
    }

    /// Counts of one database; exact only while the world is stopped. O(shards with keys).
    pub fn sums(&self, db: usize) -> Sums {
        let tables = self.occupied.shards(db).map(|shard| self.table(shard, db));
        tables.fold(Sums::default(), |mut sums, table| {
            sums.keys += table.len();
            sums.expiring += table.expiring();
            sums.timed += table.marked();
            sums.table_bytes += table.memory_usage();
            sums
        })
    }

    /// The number of keys, and of keys with an expiry, in one database; as [`Keyspace::sums`].
    pub fn counts(&self, db: usize) -> (usize, usize) {
        let sums = self.sums(db);
        (sums.keys, sums.expiring)
    }

    /// The number of tables that may have keys, over all databases: the cost of summing them.
    /// O(databases).
    pub fn occupied(&self) -> usize {
        self.occupied.count()
    }

    /// The databases that may have keys. All others are empty.
    pub fn occupied_databases(&self) -> impl Iterator<Item = usize> + '_ {
        self.occupied.databases()
    }

    /// The shards that may have keys of one database. All others are empty.
    pub fn occupied_shards(&self, db: usize) -> impl Iterator<Item = u16> + '_ {
        self.occupied.shards(db)
    }

    /// The interest bits of a shard.
    #[inline]
    pub(crate) fn interest(&self, shard: u16) -> u32 {
        self.locks[usize::from(shard)].interest.load(Ordering::Relaxed)
    }

    pub(crate) fn set_interest(&self, shard: u16, bit: u32, on: bool) {
        let bits = &self.locks[usize::from(shard)].interest;
        if on {
            bits.fetch_or(bit, Ordering::Relaxed);
        } else {
            bits.fetch_and(!bit, Ordering::Relaxed);
        }
    }

    /// Ends a watch that [`Db::watch`](crate::Db::watch) has begun. Needs no shard. Expected
    /// O(1).
    pub fn unwatch(&self, (shard, db, key): (u16, usize, &[u8]), watch: &Arc<Watch>) {
        let clear = || self.set_interest(shard, interest::WATCHED, false);
        self.observers.interests[usize::from(shard)].unwatch((db, key), watch, clear);
    }

    /// Sets whether clients are blocked on keys of `shard`: then
    /// [`settle`](crate::commit::settle) returns new keys. Set while the shard is held.
    pub fn set_waited(&self, shard: u16, on: bool) {
        self.set_interest(shard, interest::WAITED, on);
    }

    /// Sets whether some of them also wait for changes of keys. Set while the shard is held.
    pub fn set_followed(&self, shard: u16, on: bool) {
        self.set_interest(shard, interest::FOLLOWED, on);
    }

    /// First step of a planned command: prefetches the key's bucket.
    #[inline]
    pub fn plan_bucket(&self, key: &Key<'_>, db: usize, pin: &weft_table::epoch::Guard) {
        self.table(key.shard(), db).plan_bucket(key.hash, pin);
    }

    /// Second step: prefetches the records that the key's bucket points to.
    #[inline]
    pub fn plan_record(
        &self,
        key: &Key<'_>,
        db: usize,
        lines: usize,
        pin: &weft_table::epoch::Guard,
    ) {
        self.table(key.shard(), db).plan_record(key.hash, lines, pin);
    }
}

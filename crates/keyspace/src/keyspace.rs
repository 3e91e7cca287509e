//! Shards, tables and keys.

use crate::Table;
use crate::gate::Gates;
use crate::interest::Watch;
use crate::interest::{self, Interest};
use crate::lock::{ShardLock, Waiter};
use crate::log::Log;
use crate::notice::Listener;
use crate::occupied::Occupied;
use crate::replica_expiry::NotedKeys;
use crate::running::{Entry, Running};
use crate::sleepers::Sleepers;
use crate::snapshot::shards::Snapshots;
use crate::stale::Caches;
use crate::sync::{Mutex, Ordering, RwLock};
use crate::tables::Tables;
use foldhash::SharedSeed;
use foldhash::quality::FoldHasher;
use std::fmt;
use std::hash::{BuildHasher, Hasher as _, RandomState};
use std::sync::{Arc, OnceLock};
use weft_table::KeyHasher;

/// How many shards the hash slots are cut into. Enough that dozens of threads rarely meet on
/// one; few enough that their locks and roots stay in a core's second-level cache.
/// Few in models, where each lock is tried out.
pub const SHARDS: usize = if cfg!(loom) { 2 } else { 256 };
const _: () = assert!(SHARDS.is_power_of_two() && SHARDS <= 16384);

/// The seeded hash of keys (foldhash): fast on short keys, and clients can't know the seed.
#[derive(Clone, Copy, Debug)]
pub struct Hasher {
    seed: u64,
    shared: &'static SharedSeed,
}

impl KeyHasher for Hasher {
    #[inline]
    fn hash(&self, key: &[u8]) -> u64 {
        let mut h = FoldHasher::with_seed(self.seed, self.shared);
        h.write(key);
        h.finish()
    }
}

/// A key with everything that is derived from its bytes.
#[derive(Clone, Copy, Debug)]
pub struct Key<'a> {
    pub bytes: &'a [u8],
    pub hash: u64,
    pub shard: u16,
}

/// What there is in one database.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sums {
    pub keys: usize,
    /// Keys that have an expiry.
    pub expiring: usize,
    /// Keys that hold fields with an expiry.
    pub timed: usize,
    /// Bytes of the tables beside the records.
    pub table_bytes: usize,
}

/// Wakes the connection that a waiter stands for. Called outside of all locks.
pub type Wake = Box<dyn Fn(Waiter) + Send + Sync>;

/// Locks of the commands that run in the slow lane.
pub(crate) struct SlowLane {
    /// Who executes commands without a gate, in the slow lane, reads; who needs the whole keyspace
    /// writes. See [`crate::hold::SlowHand`].
    pub slow: RwLock<()>,
    /// The same for commands that wait for something outside of the process; taken in front of the other.
    pub outside: RwLock<()>,
    running: Mutex<Vec<Entry>>,
}

impl SlowLane {
    fn new() -> Self {
        SlowLane {
            slow: RwLock::new(()),
            outside: RwLock::new(()),
            running: Mutex::new(Vec::new()),
        }
    }

    /// What the slow lane holds; it takes and gives nothing back meanwhile.
    pub fn running(&self) -> Running<'_> {
        self.running.lock().unwrap_or_else(|p| p.into_inner())
    }
}

/// Receivers of changes: watches, notices, the log of effects, clients that cache.
pub(crate) struct Observers {
    pub interests: Box<[Interest]>,
    pub listener: OnceLock<Listener>,
    pub log: Arc<Log>,
    pub caches: OnceLock<Box<dyn Caches>>,
}

impl Observers {
    fn new() -> Self {
        Observers {
            interests: (0..SHARDS).map(|_| Interest::default()).collect(),
            listener: OnceLock::new(),
            log: Arc::default(),
            caches: OnceLock::new(),
        }
    }
}

/// All keys of all logical databases.
pub struct Keyspace {
    pub(crate) locks: Box<[ShardLock]>,
    tables: Tables,
    pub(crate) occupied: Occupied,
    databases: usize,
    pub(crate) gates: Gates,
    pub(crate) slow_lane: SlowLane,
    /// Held by a walk over all keys: there is one set of journals.
    pub(crate) walk: Mutex<()>,
    pub(crate) snapshots: Snapshots,
    pub(crate) noted: NotedKeys,
    pub(crate) wake: Wake,
    pub(crate) sleepers: Sleepers,
    pub(crate) observers: Observers,
    hasher: Hasher,
}

impl fmt::Debug for Keyspace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Keyspace").field("databases", &self.databases).finish_non_exhaustive()
    }
}

impl Keyspace {
    /// An empty keyspace of `databases` logical databases, executed by up to `threads` threads;
    /// [`Gates::use_up_to`] says how many there are.
    pub fn new(databases: usize, threads: usize, wake: Wake) -> Self {
        let seed = RandomState::default().hash_one(std::process::id());
        let hasher = Hasher { seed, shared: SharedSeed::global_random() };
        Keyspace::hashed(databases, threads, wake, hasher)
    }

    /// As [`Keyspace::new`], where the same seed gives the same places of keys in any process.
    #[cfg(any(test, loom))]
    pub fn seeded(databases: usize, threads: usize, seed: u64) -> Self {
        let hasher = Hasher { seed, shared: SharedSeed::global_fixed() };
        Keyspace::hashed(databases, threads, Box::new(|_| {}), hasher)
    }

    fn hashed(databases: usize, threads: usize, wake: Wake, hasher: Hasher) -> Self {
        Keyspace {
            locks: (0..SHARDS).map(|_| ShardLock::default()).collect(),
            tables: Tables::new(databases, hasher),
            occupied: Occupied::new(databases),
            databases,
            gates: Gates::new(threads, 1),
            slow_lane: SlowLane::new(),
            walk: Mutex::new(()),
            snapshots: Snapshots::new(),
            noted: NotedKeys::new(),
            wake,
            sleepers: Sleepers::new(),
            observers: Observers::new(),
            hasher,
        }
    }

    /// Has `listener` be given all notices. There is one, for good.
    ///
    /// # Panics
    /// If there is one already.
    pub fn listen(&self, listener: Listener) {
        assert!(self.observers.listener.set(listener).is_ok(), "notices have one listener");
    }

    /// The log of effects: begun by [`Guard::begin_log`](crate::Guard::begin_log).
    pub fn log(&self) -> &Log {
        &self.observers.log
    }

    pub fn databases(&self) -> usize {
        self.databases
    }

    /// The gates of the executing threads: see [`crate::gate`].
    pub fn gates(&self) -> &Gates {
        &self.gates
    }

    /// Hashes a key and finds its shard.
    #[inline]
    pub fn key<'a>(&self, bytes: &'a [u8]) -> Key<'a> {
        Key { bytes, hash: self.hasher.hash(bytes), shard: self.shard(bytes) }
    }

    /// The shard of a key.
    #[inline]
    pub fn shard(&self, bytes: &[u8]) -> u16 {
        weft_base::slot::key_slot(bytes) % SHARDS as u16
    }

    #[inline]
    pub(crate) fn table(&self, shard: u16, db: usize) -> &Table {
        self.tables.get(shard, db)
    }

    /// How many keys one shard holds in one database; a moment's value when not locked.
    pub fn shard_len(&self, shard: u16, db: usize) -> usize {
        self.tables.touched(shard, db).map_or(0, Table::len)
    }

    /// How many keys of one shard have an expiry, in one database; as [`Keyspace::shard_len`].
    pub fn shard_expiring(&self, shard: u16, db: usize) -> usize {
        self.tables.touched(shard, db).map_or(0, Table::expiring)
    }

    /// How many keys of one shard hold fields with an expiry, in one database; as [`Keyspace::shard_len`].
    pub(crate) fn shard_timed(&self, shard: u16, db: usize) -> usize {
        self.tables.touched(shard, db).map_or(0, Table::marked)
    }

    /// What there is in one database; moment's values when the world runs. O(shards with keys).
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

    /// Keys, and keys with an expiry, of one database; as [`Keyspace::sums`].
    pub fn counts(&self, db: usize) -> (usize, usize) {
        let sums = self.sums(db);
        (sums.keys, sums.expiring)
    }

    /// How many tables may have keys, over all databases: what it takes to sum them up.
    /// O(databases).
    pub fn occupied(&self) -> usize {
        self.occupied.count()
    }

    /// The databases that may have keys. Others have none.
    pub fn occupied_databases(&self) -> impl Iterator<Item = usize> + '_ {
        self.occupied.databases()
    }

    /// The shards that may have keys of one database. Others have none.
    pub fn occupied_shards(&self, db: usize) -> impl Iterator<Item = u16> + '_ {
        self.occupied.shards(db)
    }

    /// The bits of a shard that tell who wants to know of its changes.
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

    /// Ends a watch that [`Db::watch`](crate::Db::watch) has begun. Needs no shard. Expected O(1).
    pub fn unwatch(&self, (shard, db, key): (u16, usize, &[u8]), watch: &Arc<Watch>) {
        let clear = || self.set_interest(shard, interest::WATCHED, false);
        self.observers.interests[usize::from(shard)].unwatch((db, key), watch, clear);
    }

    /// Says whether clients wait for keys of `shard`: then keys that come to be are answered by
    /// [`settle`](crate::commit::settle). Set while the shard is held.
    pub fn set_waited(&self, shard: u16, on: bool) {
        self.set_interest(shard, interest::WAITED, on);
    }

    /// Says whether some of them wait for changes of keys, too. Set while the shard is held.
    pub fn set_followed(&self, shard: u16, on: bool) {
        self.set_interest(shard, interest::FOLLOWED, on);
    }

    /// First step of a planned command: fetches the key's bucket towards the cache.
    #[inline]
    pub fn plan_bucket(&self, key: &Key<'_>, db: usize, pin: &weft_table::epoch::Guard) {
        self.table(key.shard, db).plan_bucket(key.hash, pin);
    }

    /// Second step: fetches the records that the key's bucket points to.
    #[inline]
    pub fn plan_record(
        &self,
        key: &Key<'_>,
        db: usize,
        lines: usize,
        pin: &weft_table::epoch::Guard,
    ) {
        self.table(key.shard, db).plan_record(key.hash, lines, pin);
    }
}

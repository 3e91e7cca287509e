//! A logical database seen through a guard: the operations that commands are made of.
//!
//! Every access names a [`Key`] and is checked against the guard, so safe code can only reach
//! records whose shard it holds. Expired keys are removed when they are met (lazy expiry), so
//! no operation here ever shows one. Records that die are kept in the turn's trash, to be freed
//! after the locks are released.

mod alter;
mod rework;
mod several;

pub use alter::Change;
pub use rework::Rework;

use crate::Table;
use crate::guard::Guard;
use crate::keyspace::{Hasher, Key, Keyspace, SHARDS};
use crate::turn::{Rng, Turn};
use weft_table::TableMut;
use weft_types::{Record, RecordRef, Values};

/// A logical database, through a guard.
#[derive(Debug)]
pub struct Db<'g> {
    guard: &'g Guard<'g>,
    pub turn: &'g mut Turn,
    index: usize,
}

/// Whether a key met by [`Db::check`] is there.
enum Met {
    Absent,
    Live,
    Expired,
}

impl<'g> Db<'g> {
    /// Database `index` (below the number of databases) through `guard`.
    #[inline]
    pub fn new(guard: &'g Guard<'g>, turn: &'g mut Turn, index: usize) -> Self {
        assert!(index < guard.keyspace().databases());
        Db { guard, turn, index }
    }

    /// The number of this database.
    pub fn index(&self) -> usize {
        self.index
    }

    pub fn keyspace(&self) -> &'g Keyspace {
        self.guard.keyspace()
    }

    /// Another database through the same guard.
    pub fn other(&mut self, index: usize) -> Db<'_> {
        Db::new(self.guard, self.turn, index)
    }

    /// Whether the guard holds `shard`.
    pub fn holds(&self, shard: u16) -> bool {
        self.guard.holds(shard)
    }

    /// Hashes a key.
    #[inline]
    pub fn key<'a>(&self, bytes: &'a [u8]) -> Key<'a> {
        self.keyspace().key(bytes)
    }

    #[inline]
    fn table(&mut self, shard: u16) -> TableMut<'g, Values, Hasher> {
        assert!(self.guard.holds(shard), "shard {shard} is not held");
        let table: &'g Table = self.guard.keyspace().table(shard, self.index);
        // SAFETY: the guard holds the shard, so no other thread has a TableMut of it; on this
        // thread every TableMut made here ends before the next method of this `Db` (or of one
        // that borrows it mutably) is called: references into it are tied to `&mut self`.
        unsafe { table.exclusive() }
    }

    #[inline]
    fn check(&mut self, key: &Key<'_>) -> Met {
        let now = self.turn.now_ms;
        match self.table(key.shard).find(key.hash, key.bytes) {
            None => Met::Absent,
            Some(r) if r.expiry().is_some_and(|at| at <= now) => Met::Expired,
            Some(_) => Met::Live,
        }
    }

    #[cold]
    fn expire(&mut self, key: &Key<'_>) {
        if let Some(dead) = self.table(key.shard).remove(key.hash, key.bytes) {
            self.turn.tally.expired += 1;
            self.turn.discard(dead);
        }
    }

    /// Called after every change of `key`: who watches it must know.
    #[inline]
    pub(crate) fn modified(&mut self, _key: &Key<'_>) {}

    /// Called after `key` came to be or got a value of another type: who waits for it must know.
    #[inline]
    pub(crate) fn appeared(&mut self, _key: &Key<'_>) {}

    /// The record of `key`, without counting or touching. Expected O(1), as all below.
    #[inline]
    pub fn peek(&mut self, key: &Key<'_>) -> Option<RecordRef<'_>> {
        let now = self.turn.now_ms;
        let record = self.table(key.shard).into_found(key.hash, key.bytes)?;
        if record.expiry().is_some_and(|at| at <= now) {
            self.expire(key);
            return None;
        }
        Some(record)
    }

    /// The record of `key` for a command that reads: counts a hit or a miss and touches the
    /// access clock.
    #[inline]
    pub fn read(&mut self, key: &Key<'_>) -> Option<RecordRef<'_>> {
        let now = self.turn.now_ms;
        match self.table(key.shard).into_found(key.hash, key.bytes) {
            Some(record) if record.expiry().is_none_or(|at| at > now) => {
                self.turn.tally.hits += 1;
                self.touch(record);
                Some(record)
            }
            Some(_) => {
                self.turn.tally.misses += 1;
                self.expire(key);
                None
            }
            None => {
                self.turn.tally.misses += 1;
                None
            }
        }
    }

    /// The record of `key` for a command that asks about the key and not for its value: counts a
    /// hit or a miss and leaves the access clock alone.
    pub fn inspect(&mut self, key: &Key<'_>) -> Option<RecordRef<'_>> {
        match self.check(key) {
            Met::Live => self.turn.tally.hits += 1,
            Met::Absent | Met::Expired => self.turn.tally.misses += 1,
        }
        self.peek(key)
    }

    /// The record of `key` for a command that is going to change it: touches the clock.
    #[inline]
    pub fn for_write(&mut self, key: &Key<'_>) -> Option<RecordRef<'_>> {
        let now = self.turn.now_ms;
        let record = self.table(key.shard).into_found(key.hash, key.bytes)?;
        if record.expiry().is_some_and(|at| at <= now) {
            self.expire(key);
            return None;
        }
        self.touch(record);
        Some(record)
    }

    #[inline]
    fn touch(&mut self, record: RecordRef<'_>) {
        if self.turn.no_touch {
            return;
        }
        let old = record.clock();
        let access = self.turn.access;
        let new = access.touched(old, || self.turn.random());
        // An unchanged clock is not written: a read then leaves the line clean.
        if new != old {
            record.set_clock(new);
        }
    }

    pub fn contains(&mut self, key: &Key<'_>) -> bool {
        self.peek(key).is_some()
    }

    /// Stores `record` under its key, in the place of any other.
    #[inline]
    pub fn set(&mut self, key: &Key<'_>, record: Record) {
        debug_assert_eq!(key.bytes, record.key());
        let mut table = self.table(key.shard);
        if let Some(slot) = table.find_mut(key.hash, key.bytes) {
            let dead = slot.replace(record);
            self.turn.discard(dead);
        } else {
            table.insert(key.hash, record);
        }
    }

    /// Removes `key`; an expired one counts as absent.
    pub fn remove(&mut self, key: &Key<'_>) -> Option<Record> {
        match self.check(key) {
            Met::Absent => None,
            Met::Live => self.table(key.shard).remove(key.hash, key.bytes),
            Met::Expired => {
                self.expire(key);
                None
            }
        }
    }

    /// Removes `key` and discards its record; whether it was there.
    pub fn delete(&mut self, key: &Key<'_>) -> bool {
        self.remove(key).map(|dead| self.turn.discard(dead)).is_some()
    }

    /// Lets `change` turn the record of `key` into another one; whether there was one.
    #[inline]
    pub fn update(&mut self, key: &Key<'_>, change: impl FnOnce(Record) -> Record) -> bool {
        match self.check(key) {
            Met::Absent => false,
            Met::Expired => {
                self.expire(key);
                false
            }
            Met::Live => {
                let mut table = self.table(key.shard);
                let slot = table.find_mut(key.hash, key.bytes).expect("it was just found");
                slot.update(change);
                true
            }
        }
    }

    /// Gives `key` an expiry in Unix milliseconds, or takes it away; whether it is there.
    pub fn set_expiry(&mut self, key: &Key<'_>, at: Option<i64>) -> bool {
        // A string without room for the expiry beside it is no longer seen as embedded.
        self.update(key, |record| weft_types::string::refit(record.with_expiry(at)))
    }

    /// Keys in this database. Exact under a world guard.
    pub fn len(&self) -> usize {
        self.keyspace().counts(self.index).0
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Keys of one shard of this database.
    pub fn shard_len(&self, shard: u16) -> usize {
        self.keyspace().shard_len(shard, self.index)
    }

    /// Walks one step of a scan over `shard`, which the guard must hold; `seen` gets live
    /// records only. Cursor 0 starts and ends; see `weft_table` for the guarantee.
    pub fn scan_shard(
        &mut self,
        shard: u16,
        cursor: u64,
        mut seen: impl FnMut(RecordRef<'_>),
    ) -> u64 {
        let now = self.turn.now_ms;
        self.table(shard).scan(cursor, |record| {
            if record.expiry().is_none_or(|at| at > now) {
                seen(record);
            }
        })
    }

    /// Every live record. Needs a world guard. O(n).
    pub fn for_each(&mut self, mut seen: impl FnMut(RecordRef<'_>)) {
        for shard in 0..SHARDS as u16 {
            let now = self.turn.now_ms;
            self.table(shard).for_each(|record| {
                if record.expiry().is_none_or(|at| at > now) {
                    seen(record);
                }
            });
        }
    }

    /// A random live key, found with the same chance as any other up to the unevenness of the
    /// shards. Needs a world guard. Expired keys that are met are removed.
    pub fn random_key(&mut self) -> Option<Vec<u8>> {
        // As many tries as it takes, but not forever in a database of expired keys.
        for _ in 0..100 {
            let shard = self.random_shard()?;
            let mut rng = Rng::new(self.turn.random());
            let bytes = self.table(shard).random(&mut || rng.next())?.key().to_vec();
            let key = self.key(&bytes);
            if self.peek(&key).is_some() {
                return Some(bytes);
            }
        }
        let mut first = None;
        self.for_each(|r| {
            first.get_or_insert_with(|| r.key().to_vec());
        });
        first
    }

    /// A shard chosen with a chance in proportion to its keys; `None` in an empty database.
    fn random_shard(&mut self) -> Option<u16> {
        let total = self.len();
        if total == 0 {
            return None;
        }
        let mut nth = (self.turn.random() % total as u64) as usize;
        (0..SHARDS as u16).find(|s| {
            let len = self.shard_len(*s);
            let here = nth < len;
            nth = nth.saturating_sub(len);
            here
        })
    }

    /// Takes all keys out. Needs a world guard. O(shards); dropping the answer is O(n) and
    /// should happen elsewhere.
    pub fn take_all(&mut self) -> Vec<Detached> {
        let mut taken = Vec::new();
        for shard in 0..SHARDS as u16 {
            if self.shard_len(shard) > 0 {
                taken.push(self.table(shard).take());
            }
        }
        taken
    }

    /// Exchanges the contents of two databases. Needs a world guard. O(shards).
    pub fn swap_with(&mut self, other: usize) {
        if other == self.index {
            return;
        }
        for shard in 0..SHARDS as u16 {
            let mut ours = self.table(shard);
            // The two databases differ, so these are two tables.
            let mut theirs = Db::new(self.guard, self.turn, other).table(shard);
            ours.swap(&mut theirs);
        }
    }

    /// The shape of one shard's table, which the guard must hold. O(capacity).
    pub fn table_stats(&mut self, shard: u16) -> weft_table::Stats {
        self.table(shard).stats()
    }

    /// Exclusive access to one shard's table for the sweeps of this crate.
    pub(crate) fn sweep_table(&mut self, shard: u16) -> TableMut<'_, Values, Hasher> {
        self.table(shard)
    }
}

/// The keys of one shard, taken out of it.
pub type Detached = weft_table::Detached<Values>;

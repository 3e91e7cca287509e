//! A logical database seen through a guard: the operations that commands are made of.
//!
//! Every access names a [`Key`] and is checked against the guard, so safe code can only reach
//! records whose shard it holds. An operation that meets an expired key removes it (lazy expiry),
//! so no operation returns one. Removed records go to the deferred free list ([`ExecContext::discard`])
//! and are freed after the locks are released.

mod alter;
mod changes;
mod keep;
mod logging;
mod rework;
mod several;
mod slot;

pub use alter::Change;
pub use rework::Rework;

use crate::Table;
use crate::context::{ExecContext, Expired, Rng};
use crate::cut::Names;
use crate::effect::Cause;
use crate::guard::{Busy, Guard};
use crate::interest::SNAPSHOT;
use crate::keyspace::{Hasher, Key, Keyspace, SHARDS};
use crate::notice::Classes;
use std::collections::VecDeque;
use weft_table::{TableMut, Verdict, Which};
use weft_types::{Record, RecordMut, RecordRef, Values};

/// A logical database, accessed through a guard.
#[derive(Debug)]
pub struct Db<'g> {
    guard: &'g Guard<'g>,
    pub context: &'g mut ExecContext,
    index: usize,
}

/// The state of a key as found by [`Db::check`].
enum KeyState {
    Absent,
    Live,
    Expired,
}

impl<'g> Db<'g> {
    /// Database `index` (below the number of databases) through `guard`.
    #[inline]
    pub fn new(guard: &'g Guard<'g>, context: &'g mut ExecContext, index: usize) -> Self {
        assert!(index < guard.keyspace().databases());
        Db { guard, context, index }
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
        Db::new(self.guard, self.context, index)
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

    #[inline(always)]
    fn table(&mut self, shard: u16) -> TableMut<'g, Values, Hasher> {
        Db::table_in(self.guard, shard, self.index)
    }

    /// The table of `shard` in database `index`.
    #[inline(always)]
    fn table_in(guard: &'g Guard<'g>, shard: u16, index: usize) -> TableMut<'g, Values, Hasher> {
        assert!(guard.holds(shard), "shard {shard} is not held");
        let table: &'g Table = guard.keyspace().table(shard, index);
        // SAFETY: the guard holds the shard, so no other thread has a TableMut of it. On this
        // thread, every TableMut made here ends before the next method of this `Db` (or of one
        // that borrows it mutably) is called: references into it are tied to `&mut self`. A
        // direct caller in this module uses one table at a time.
        unsafe { table.exclusive() }
    }

    #[inline]
    fn check(&mut self, key: &Key<'_>) -> KeyState {
        let now = self.context.over_ms;
        match self.table(key.shard()).find(key.hash, key.bytes) {
            None => KeyState::Absent,
            Some(r) if r.expiry().is_some_and(|at| at <= now) => KeyState::Expired,
            Some(_) => KeyState::Live,
        }
    }

    /// A read met an expired key: removes it, if this thread may.
    #[cold]
    fn expire_on_read(&mut self, key: &Key<'_>) {
        match self.context.expired {
            Expired::Remove => self.expire(key),
            Expired::Keep | Expired::KeepFromReads => {}
        }
    }

    /// A write met an expired key: removes it, if this thread may.
    #[cold]
    fn expire_on_write(&mut self, key: &Key<'_>) {
        match self.context.expired {
            Expired::Remove | Expired::KeepFromReads => self.expire(key),
            Expired::Keep => {}
        }
    }

    /// Removes an expired key.
    #[cold]
    pub(crate) fn expire(&mut self, key: &Key<'_>) {
        self.before_write(key);
        if let Some(dead) = self.table(key.shard()).remove(key.hash, key.bytes) {
            self.context.tally.expired += 1;
            self.note_removed(key, dead.expiry(), Cause::Expiry);
            self.context.discard(dead);
        }
    }

    /// The record of `key`; counts no hit and leaves the access clock alone. Expected O(1), as
    /// all operations below.
    #[inline]
    pub fn peek(&mut self, key: &Key<'_>) -> Option<RecordRef<'_>> {
        let now = self.context.over_ms;
        let record = self.table(key.shard()).into_found(key.hash, key.bytes)?;
        if record.expiry().is_some_and(|at| at <= now) {
            self.expire_on_read(key);
            return None;
        }
        Some(record)
    }

    /// The record of `key` for a command that reads it: counts a hit or a miss and updates the
    /// access clock.
    #[inline]
    pub fn read(&mut self, key: &Key<'_>) -> Option<RecordRef<'_>> {
        let now = self.context.over_ms;
        match self.table(key.shard()).into_found(key.hash, key.bytes) {
            Some(record) if record.expiry().is_none_or(|at| at > now) => {
                self.context.tally.hits += 1;
                self.touch(record);
                Some(record)
            }
            Some(_) => {
                self.expire_on_read(key);
                self.count_miss(key);
                None
            }
            None => {
                self.count_miss(key);
                None
            }
        }
    }

    /// The record of `key` for a command that asks about the key and not its value: counts a hit
    /// or a miss, but leaves the access clock alone.
    #[inline]
    pub fn inspect(&mut self, key: &Key<'_>) -> Option<RecordRef<'_>> {
        match self.check(key) {
            KeyState::Live => {
                self.context.tally.hits += 1;
                return self.peek(key);
            }
            KeyState::Absent => {}
            KeyState::Expired => self.expire_on_read(key),
        }
        self.count_miss(key);
        None
    }

    /// As [`Db::inspect`], for a command that asks how a key is stored: a miss sends no notice.
    pub fn examine(&mut self, key: &Key<'_>) -> Option<RecordRef<'_>> {
        match self.check(key) {
            KeyState::Live => self.context.tally.hits += 1,
            KeyState::Absent | KeyState::Expired => self.context.tally.misses += 1,
        }
        self.peek(key)
    }

    /// The record of `key` for a command that will change it: updates the access clock.
    #[inline]
    pub fn for_write(&mut self, key: &Key<'_>) -> Option<RecordRef<'_>> {
        let now = self.context.over_ms;
        let record = self.table(key.shard()).into_found(key.hash, key.bytes)?;
        if record.expiry().is_some_and(|at| at <= now) {
            self.expire_on_write(key);
            return None;
        }
        self.touch(record);
        Some(record)
    }

    /// Counts a miss and sends a `keymiss` notice.
    #[inline]
    fn count_miss(&mut self, key: &Key<'_>) {
        self.context.tally.misses += 1;
        self.notify(Classes::MISS, "keymiss", key);
    }

    #[inline]
    fn touch(&mut self, record: RecordRef<'_>) {
        if self.context.no_touch {
            return;
        }
        let old = record.clock();
        let access = self.context.access;
        let new = access.touched(old, || self.context.random());
        // An unchanged clock is not written, so that a read leaves the cache line clean.
        if new != old {
            record.set_clock(new);
        }
    }

    pub fn contains(&mut self, key: &Key<'_>) -> bool {
        self.peek(key).is_some()
    }

    /// Stores `record` under its key and replaces any other.
    #[inline]
    pub fn set(&mut self, key: &Key<'_>, record: Record) {
        debug_assert_eq!(key.bytes, record.key());
        self.before_write(key);
        let mut table = self.table(key.shard());
        if let Some(slot) = table.find_mut(key.hash, key.bytes) {
            let dead = slot.replace(record);
            self.note_replaced(key, dead);
        } else {
            table.insert(key.hash, record);
            self.note_created(key);
        }
    }

    /// Removes `key` and returns its record. An expired key counts as absent.
    pub fn remove(&mut self, key: &Key<'_>) -> Option<Record> {
        match self.check(key) {
            KeyState::Absent => None,
            KeyState::Live => {
                self.before_write(key);
                let record = self.table(key.shard()).remove(key.hash, key.bytes)?;
                self.note_removed(key, record.expiry(), Cause::Command);
                Some(record)
            }
            KeyState::Expired => {
                self.expire(key);
                None
            }
        }
    }

    /// Inserts a record from a file, or returns it if its key exists, expired or not. It sends no
    /// effects, so it may only be called while no client watches or waits and no snapshot is
    /// taken, as before a server accepts clients.
    ///
    /// # Errors
    /// The key exists.
    pub fn load(&mut self, record: Record) -> Result<(), Record> {
        let key = self.key(record.key());
        let (hash, shard) = (key.hash, key.shard());
        let mut table = self.table(shard);
        if table.find(hash, record.key()).is_some() {
            return Err(record);
        }
        table.insert(hash, record);
        self.note_first(shard);
        Ok(())
    }

    /// As [`Db::set`], for a value that replaces a key as a whole, as RENAME does. If the key
    /// exists, it sends the `new` notice that `set` omits.
    pub fn put(&mut self, key: &Key<'_>, record: Record) {
        let replaces = self.context.effects.wants(Classes::NEW) && self.contains(key);
        if replaces {
            self.notify(Classes::NEW, "new", key);
        }
        self.set(key, record);
    }

    /// Removes `key`, expired or not, and discards its record. Returns whether the key was there.
    /// For commands that store an empty result over an old value.
    pub fn clear(&mut self, key: &Key<'_>) -> bool {
        self.before_write(key);
        let Some(dead) = self.table(key.shard()).remove(key.hash, key.bytes) else { return false };
        self.note_removed(key, dead.expiry(), Cause::Command);
        self.context.discard(dead);
        true
    }

    /// Removes `key` and discards its record. Returns whether the key was there.
    pub fn delete(&mut self, key: &Key<'_>) -> bool {
        self.remove(key).map(|dead| self.context.discard(dead)).is_some()
    }

    /// Replaces the record of `key` by the result of `change`. Returns whether the key was there.
    #[inline]
    pub fn update(&mut self, key: &Key<'_>, change: impl FnOnce(Record) -> Record) -> bool {
        match self.check(key) {
            KeyState::Absent => false,
            KeyState::Expired => {
                self.expire(key);
                false
            }
            KeyState::Live => {
                self.before_write(key);
                let mut table = self.table(key.shard());
                let slot = table.find_mut(key.hash, key.bytes).expect("it was just found");
                slot.update(change);
                self.note_changed(key);
                true
            }
        }
    }

    /// Sets the expiry of `key` in Unix milliseconds, or removes it. Returns whether the key was
    /// there.
    pub fn set_expiry(&mut self, key: &Key<'_>, at: Option<i64>) -> bool {
        // With an expiry the record may no longer have room for an embedded string.
        self.update(key, |record| weft_types::string::refit(record.with_expiry(at)))
    }

    /// The number of keys in this database. Exact while the I/O threads are stopped. O(shards
    /// with keys).
    pub fn len(&self) -> usize {
        self.guard.count_keys(self.index)
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The number of keys in one shard of this database.
    pub fn shard_len(&self, shard: u16) -> usize {
        self.guard.shard_len(shard, self.index)
    }

    /// One step of a scan over `shard`, which the guard must hold. Calls `seen` for live records
    /// only. Cursor 0 starts and ends the scan; see `weft_table` for the guarantee.
    pub fn scan_shard(
        &mut self,
        shard: u16,
        cursor: u64,
        mut seen: impl FnMut(RecordRef<'_>),
    ) -> u64 {
        let now = self.context.over_ms;
        self.table(shard).scan(cursor, |record| {
            if record.expiry().is_none_or(|at| at > now) {
                seen(record);
            }
        })
    }

    /// One step of a scan over `shard` that moves records to new allocations, where `is_badly_placed`
    /// returns true for address and size. Returns the cursor to continue from. Changes no key.
    pub(crate) fn relocate_step(
        &mut self,
        shard: u16,
        cursor: u64,
        done: &mut crate::defrag::Step,
        is_badly_placed: &mut impl FnMut(*const u8, usize) -> bool,
    ) -> u64 {
        let mut keys: Vec<Box<[u8]>> = Vec::new();
        let next = self.table(shard).scan(cursor, |record| {
            done.examined += 1;
            if is_badly_placed(record.as_ptr(), record.alloc_size()) {
                keys.push(record.key().into());
            }
        });
        done.moved += keys.len() as u64;
        for name in &keys {
            let key = self.key(name);
            if let Some(slot) = self.table(shard).find_mut(key.hash, key.bytes) {
                slot.update(Record::relocated);
            }
        }
        next
    }

    /// Visits every live record. Needs a world guard. O(n).
    pub fn for_each(&mut self, mut seen: impl FnMut(RecordRef<'_>)) {
        for shard in 0..SHARDS as u16 {
            let now = self.context.over_ms;
            self.table(shard).for_each(|record| {
                if record.expiry().is_none_or(|at| at > now) {
                    seen(record);
                }
            });
        }
    }

    /// Visits the names of all live keys of one moment, shard by shard. Under a world guard the
    /// moment is now; under a cut ([`SlowLaneThread::cut`](crate::SlowLaneThread::cut)) it is the cut, and
    /// each shard is held only while its names are copied. `seen` is called with no shard held
    /// and returns whether to continue. Returns false if it gave up, because it would have had to wait for long. O(n).
    pub fn each_name(&mut self, mut seen: impl FnMut(&[u8]) -> bool) -> bool {
        let guard = self.guard;
        let mut left: VecDeque<u16> = (0..SHARDS as u16).collect();
        let mut next = || match guard.as_cut() {
            Some(cut) => cut.take_next(&mut left),
            None => left.pop_front(),
        };
        while let Some(shard) = next() {
            let Some(names) = self.shard_names(shard) else { return false };
            if !names.iter().all(&mut seen) {
                break;
            }
        }
        true
    }

    fn shard_names(&mut self, shard: u16) -> Option<Names> {
        let mut names = Names::with_room(self.shard_len(shard));
        let guard = self.guard;
        let Some(cut) = guard.as_cut() else {
            self.copy_names(shard, self.context.over_ms, &mut names);
            return Some(names);
        };
        let journal = cut.visit(shard, || self.copy_names(shard, cut.at_ms, &mut names))?;
        journal.undo(self.index, cut.at_ms, &mut names);
        Some(names)
    }

    fn copy_names(&mut self, shard: u16, now_ms: i64, names: &mut Names) {
        self.table(shard).for_each(|record| {
            if record.expiry().is_none_or(|at| at > now_ms) {
                names.push(record.key());
            }
        });
    }

    /// A random live key, with equal chances up to the unevenness of the shards. Chooses from the
    /// shards that the guard holds. The I/O threads must be stopped. Removes expired keys that it
    /// meets.
    ///
    /// # Errors
    /// The database has keys, but no live key was found in the held shards: a busy shard with
    /// keys.
    pub fn random_key(&mut self) -> Result<Option<Vec<u8>>, Busy> {
        // Limits the number of tries in a database of expired keys.
        for _ in 0..100 {
            let Some(shard) = self.random_shard() else { break };
            let mut rng = Rng::new(self.context.random());
            let drawn = self.table(shard).random(&mut || rng.next()).map(|r| r.key().to_vec());
            let Some(bytes) = drawn else { break };
            let key = self.key(&bytes);
            if self.peek(&key).is_some() {
                return Ok(Some(bytes));
            }
        }
        let now = self.context.over_ms;
        for shard in 0..SHARDS as u16 {
            if !self.guard.holds(shard) {
                if self.shard_len(shard) > 0 {
                    return Err(Busy { shard });
                }
                continue;
            }
            let mut first = None;
            self.table(shard).for_each(|r| {
                if first.is_none() && r.expiry().is_none_or(|at| at > now) {
                    first = Some(r.key().to_vec());
                }
            });
            if first.is_some() {
                return Ok(first);
            }
        }
        Ok(None)
    }

    /// Calls `see` with a random record of a shard that the guard holds, unless it has expired. O(1) unless the table is
    /// nearly empty.
    pub fn see_random<T>(&mut self, shard: u16, see: impl FnOnce(RecordRef<'_>) -> T) -> Option<T> {
        let (now, mut rng) = (self.context.over_ms, Rng::new(self.context.random()));
        let table = self.table(shard);
        let record = table.random(&mut || rng.next())?;
        record.expiry().is_none_or(|at| at > now).then(|| see(record))
    }

    /// A shard that the guard holds, chosen in proportion to its number of keys; `None` when
    /// there are no keys.
    fn random_shard(&mut self) -> Option<u16> {
        let mut lens = [0; SHARDS];
        let mut total = 0;
        for shard in self.keyspace().occupied_shards(self.index) {
            if self.guard.holds(shard) {
                let len = self.shard_len(shard);
                lens[usize::from(shard)] = len;
                total += len;
            }
        }
        if total == 0 {
            return None;
        }
        let mut nth = (self.context.random() % total as u64) as usize;
        let at = lens.iter().position(|len| {
            let here = nth < *len;
            nth = nth.saturating_sub(*len);
            here
        });
        at.map(|shard| shard as u16)
    }

    /// Removes all keys and returns them. Needs a world guard. O(shards); dropping the result is
    /// O(n) and should happen on another thread.
    pub fn take_all(&mut self) -> Taken {
        let mut taken = Taken::default();
        self.keyspace().observers.moving.count_replacement();
        self.rouse_followers();
        self.as_one_operation(|db| {
            for shard in db.keyspace().occupied_shards(db.index) {
                let keys = db.shard_len(shard);
                if keys > 0 {
                    db.record_watched_removals(shard);
                    let contents = db.table(shard).take();
                    db.keyspace().noted.emptied(shard, db.index);
                    db.keyspace().observers.moving.replaced(shard);
                    db.note_table(shard);
                    taken.keys += keys as u64;
                    taken.contents.extend(db.unless_snapshot_keeps(shard, contents));
                }
            }
        });
        taken
    }

    /// Exchanges the contents of two databases. Needs a world guard. O(shards).
    pub fn swap_with(&mut self, other: usize) {
        if other == self.index {
            return;
        }
        self.keyspace().observers.moving.count_replacement();
        self.context.effects.push_exchange(self.index, other);
        self.as_one_operation(|db| {
            for shard in 0..SHARDS as u16 {
                if !db.is_affected_by_exchange(shard, other) {
                    continue;
                }
                db.record_watched_exchange(shard, other);
                let mut ours = db.table(shard);
                // The two databases differ, so these are two different tables.
                let mut theirs = Db::new(db.guard, db.context, other).table(shard);
                ours.swap(&mut theirs);
                db.note_table(shard);
                db.other(other).note_table(shard);
                db.note_exchanged(shard, other);
                db.keyspace().noted.exchanged(shard, db.index, other);
                db.keyspace().observers.moving.replaced(shard);
            }
        });
    }

    /// Whether `shard` holds keys of this database or `other`, or a snapshot walks over it.
    fn is_affected_by_exchange(&self, shard: u16, other: usize) -> bool {
        let ks = self.keyspace();
        [self.index, other].iter().any(|db| ks.shard_len(shard, *db) > 0)
            || ks.interest(shard) & SNAPSHOT != 0
    }

    /// Installs `table` as this database's table of `shard`, whose old table must be empty. O(1).
    pub(crate) fn put_table(&mut self, shard: u16, table: &mut Table) {
        let mut ours = self.table(shard);
        assert!(ours.is_empty(), "the old table was not emptied");
        ours.swap(&mut table.get_mut());
        self.note_table(shard);
    }

    /// Records that the table of `shard`, which the guard must hold, is empty: sums skip it from
    /// now on.
    pub fn note_empty(&mut self, shard: u16) {
        self.note_table(shard);
    }

    /// Statistics of one shard's table, which the guard must hold. O(capacity).
    pub fn table_stats(&mut self, shard: u16) -> weft_table::Stats {
        self.table(shard).stats()
    }

    /// Calls `seen` with the expiry of some live keys of `shard`. Returns the next cursor, as
    /// [`Db::scan_shard`]. O(1); skips parts of the table without expiries.
    pub fn some_expiries(&mut self, shard: u16, cursor: u64, mut seen: impl FnMut(i64)) -> u64 {
        const BUCKETS: usize = 64;
        let now = self.context.over_ms;
        let look = |record: RecordMut<'_>| {
            record.expiry().filter(|at| *at > now).into_iter().for_each(&mut seen);
            Verdict::Keep
        };
        self.table(shard).sweep(cursor, BUCKETS, Which::Expiring, look, drop)
    }

    /// Exclusive access to one shard's table for the sweeps of this crate.
    pub(crate) fn sweep_table(&mut self, shard: u16) -> TableMut<'_, Values, Hasher> {
        self.table(shard)
    }
}

/// The keys removed by [`Db::take_all`].
#[derive(Default)]
#[must_use]
pub struct Taken {
    /// How many keys were removed.
    pub keys: u64,
    /// Their contents, except keys that a snapshot still needs and frees itself.
    pub contents: Vec<Detached>,
}

/// The keys of one shard, detached from its table.
pub type Detached = weft_table::Detached<Values>;

//! The execution context of a thread: time, randomness, counters, pending effects, and the
//! removed records that are freed after the locks are released.

use crate::access::{Access, Policy};
use crate::db::Detached;
use crate::effect::Effects;
use crate::old_records::OldRecords;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use weft_types::Record;

/// Counters of a thread; the server adds up those of all threads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    pub hits: u64,
    pub misses: u64,
    pub expired: u64,
    /// Fields of hashes.
    pub expired_fields: u64,
    pub evicted: u64,
    /// Changes of the keyspace, as `rdb_changes_since_last_save` counts them.
    pub dirty: u64,
    /// Commands that have removed all keys of all databases.
    pub flushes: u64,
}

/// Which thread frees removed values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Free {
    /// The executing thread, before the client gets its reply.
    Here,
    /// Another thread, later.
    Background,
}

/// The contents of tables that were emptied as a whole, by FLUSHALL and the like. Dropping it is
/// O(n) in the number of keys.
pub struct Emptied {
    pub contents: Vec<Detached>,
    pub free: Free,
}

impl fmt::Debug for Emptied {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let keys: usize = self.contents.iter().map(Detached::len).sum();
        f.debug_struct("Emptied").field("keys", &keys).field("free", &self.free).finish()
    }
}

/// A small pseudo-random generator (SplitMix64; Steele, Lea, Flood, OOPSLA 2014).
#[derive(Debug)]
pub struct Rng(u64);

impl Rng {
    pub fn new(seed: u64) -> Self {
        Rng(seed)
    }

    #[inline]
    #[allow(clippy::should_implement_trait)]
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

/// How a command treats an expired key that it meets. It is hidden from the command either way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Expired {
    /// It is removed: an effect like that of any command.
    #[default]
    Remove,
    /// It stays: removal is forbidden, because writes are paused or another server decides.
    Keep,
    /// It stays until a command writes to it: another server decides otherwise (import mode).
    KeepFromReads,
}

/// The command that logs a deletion.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Deletion {
    /// DEL: a server that repeats it frees the value at once.
    Del,
    /// UNLINK: it frees the value in the background.
    #[default]
    Unlink,
}

impl Deletion {
    pub fn word(self) -> &'static [u8] {
        match self {
            Deletion::Del => b"DEL",
            Deletion::Unlink => b"UNLINK",
        }
    }

    /// From a directive of the `lazyfree` family.
    pub fn lazy(lazy: bool) -> Deletion {
        if lazy { Deletion::Unlink } else { Deletion::Del }
    }
}

/// The command by cause of the deletion: `lazyfree-lazy-expire` and the like.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Deletions {
    pub expiry: Deletion,
    pub eviction: Deletion,
    /// A command that removes the last element of a collection, or replaces a value by another.
    pub server: Deletion,
}

/// Whether an importing server decides which keys have expired (`import-mode`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Import {
    /// No: the clock decides.
    #[default]
    No,
    /// Yes, and the command is from another client: expired keys are hidden from it but not
    /// removed.
    Bystander,
    /// Yes, and the command is from that server: no key has expired for it.
    Source,
}

/// The state that a script returns to if it starts over: see `undo`.
#[derive(Debug, Default)]
pub(crate) struct Undo {
    pub(crate) old: OldRecords,
    pub(crate) tally: Tally,
    /// The script has read its time: no key may expire from here on.
    pub(crate) is_time_fixed: bool,
    /// Shards that were taken since, whose last command ran later than the script's time.
    pub(crate) late: Vec<u16>,
    /// The latest of their times.
    pub(crate) late_ms: i64,
}

/// The execution context of one thread.
#[derive(Debug)]
pub struct ExecContext {
    /// Unix time in milliseconds. One value for a whole command, so that a key can't expire
    /// during it.
    pub now_ms: i64,
    pub access: Access,
    pub tally: Tally,
    /// CLIENT NO-TOUCH: reads leave the access clock alone.
    pub no_touch: bool,
    /// The client whose command is running, if it may exclude its own changes from invalidation;
    /// else the number that no client has: see [`crate::invalidation`].
    pub client: u64,
    /// Keys and fields with an expiry at or before this have expired: `now_ms`, or `i64::MIN` for
    /// [`Import::Source`].
    pub over_ms: i64,
    import: Import,
    /// The changes not committed yet: see [`crate::effect`].
    pub effects: Effects,
    pub expired: Expired,
    pub deletions: Deletions,
    /// Set when no client waits for the result of a long command any more.
    pub cancel: Option<Arc<AtomicBool>>,
    /// Set while a script runs that may start over.
    pub(crate) undo: Option<Box<Undo>>,
    /// That of the last script, for the next one.
    pub(crate) spare_undo: Option<Box<Undo>>,
    rng: Rng,
    after: After,
}

/// Work for the time after the command has released its shards.
#[derive(Debug, Default)]
struct After {
    /// Records to free.
    deferred: Vec<Record>,
    /// Databases to free.
    emptied: Vec<Emptied>,
    /// Keys with their databases that sweeps have removed: clients that wait for changes of them must retry.
    lost: Vec<(usize, Box<[u8]>)>,
}

impl ExecContext {
    pub fn new(now_ms: i64, seed: u64) -> Self {
        ExecContext {
            now_ms,
            access: Access::new(Policy::Lru, now_ms, 10, 1),
            tally: Tally::default(),
            no_touch: false,
            client: crate::invalidation::NO_CLIENT,
            over_ms: now_ms,
            import: Import::No,
            effects: Effects::default(),
            expired: Expired::Remove,
            deletions: Deletions::default(),
            cancel: None,
            undo: None,
            spare_undo: None,
            rng: Rng::new(seed),
            after: After::default(),
        }
    }

    /// Sets the time of the next commands.
    pub fn set_time(&mut self, now_ms: i64) {
        self.now_ms = now_ms;
        self.over_ms = if self.import == Import::Source { i64::MIN } else { now_ms };
        self.access.set_time(now_ms);
    }

    /// Sets the import mode of the next commands.
    pub fn set_import(&mut self, import: Import) {
        self.import = import;
        self.over_ms = if import == Import::Source { i64::MIN } else { self.now_ms };
    }

    /// Whether the commands come from an importing server, or from a log that is loaded: its
    /// decisions on expiry are final.
    pub fn is_import_source(&self) -> bool {
        self.import == Import::Source
    }

    /// An expiry at or before this time removes the key at once; in import mode none does.
    pub fn past_ms(&self) -> i64 {
        match self.import {
            Import::No => self.now_ms,
            Import::Bystander | Import::Source => i64::MIN,
        }
    }

    /// As [`ExecContext::set_time`], but never goes back.
    #[inline]
    pub fn raise_time(&mut self, now_ms: i64) {
        if now_ms > self.now_ms {
            self.set_time(now_ms);
        }
    }

    /// Whether the current command should end at its next opportunity: its client is gone.
    pub fn is_cancelled(&self) -> bool {
        self.cancel.as_ref().is_some_and(|c| c.load(Ordering::Relaxed))
    }

    /// The next pseudo-random number.
    #[inline]
    pub fn random(&mut self) -> u64 {
        self.rng.next()
    }

    /// Keeps a removed record until the locks are released.
    #[inline]
    pub fn discard(&mut self, record: Record) {
        weft_types::Shared::note_removed(&record);
        self.after.deferred.push(record);
    }

    /// Keeps the contents of tables until the locks are released. O(1).
    pub fn discard_all(&mut self, contents: Vec<Detached>, free: Free) {
        if !contents.is_empty() {
            self.after.emptied.push(Emptied { contents, free });
        }
    }

    /// Adds keys that sweeps have removed.
    pub(crate) fn add_lost(&mut self, keys: Vec<(usize, Box<[u8]>)>) {
        self.after.lost.extend(keys);
    }

    /// Takes the keys, with their databases, that sweeps have removed since the last call in
    /// shards where clients wait for changes. Those clients must retry.
    pub fn take_lost(&mut self) -> Vec<(usize, Box<[u8]>)> {
        std::mem::take(&mut self.after.lost)
    }

    /// Panics, in builds with debug assertions, if changes were made under a guard that was
    /// released without a commit. Called when the next guard is taken.
    #[inline]
    pub(crate) fn check_committed(&self) {
        debug_assert!(self.effects.is_empty(), "released without a commit: {:?}", self.effects);
    }

    /// Whether there are removed records to free, or removed keys to notify blocked clients of.
    /// Few commands remove anything.
    #[inline]
    pub fn has_deferred_frees(&self) -> bool {
        !self.after.deferred.is_empty()
            || !self.after.emptied.is_empty()
            || !self.after.lost.is_empty()
    }

    /// Takes the contents of tables discarded since the last call, in order. Drop them outside of
    /// all locks, on the thread that each one's `free` names. Allocates nothing when there are
    /// none.
    #[inline]
    pub fn take_detached(&mut self) -> Vec<Emptied> {
        std::mem::take(&mut self.after.emptied)
    }

    /// Takes the records removed since the last call. Drop them outside of all locks, on any
    /// thread.
    #[inline]
    pub fn take_removed(&mut self) -> Option<Vec<Record>> {
        (!self.after.deferred.is_empty()).then(|| std::mem::take(&mut self.after.deferred))
    }

    /// Drops the removed records now, except those that take long to free; keeps the capacity for
    /// the next ones.
    #[inline]
    pub fn free_removed(&mut self) {
        self.after.deferred.retain(weft_types::value::is_long_to_free);
    }
}

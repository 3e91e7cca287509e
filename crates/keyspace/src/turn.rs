//! What one thread carries along while it executes commands: time, randomness, tallies, and
//! the records that died under a lock and are freed after it.

use crate::access::{Access, Policy};
use crate::db::Detached;
use crate::effect::Effects;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use weft_types::Record;

/// Counts that a thread collects; the server adds the threads up.
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

/// Who frees what was removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Free {
    /// The executing thread, before the client gets its reply.
    Here,
    /// Another thread, whenever it comes to it.
    Background,
}

/// The contents of tables that were taken out as a whole, by FLUSHALL and the like. Dropping it
/// is O(n) in the number of keys.
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

/// What is done with an expired key that a command meets. No command sees it either way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Expired {
    /// It is removed: an effect like that of any command.
    #[default]
    Remove,
    /// It stays: nothing may change, because writes are paused or another server decides.
    Keep,
    /// It stays until somebody writes to it: another server decides, but for that (import mode).
    KeepFromReads,
}

/// In what word it is logged that a key was deleted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Deletion {
    /// DEL: whoever repeats it frees the value at once.
    Del,
    /// UNLINK: in the background.
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

    /// As the directives of the `lazyfree` family say it.
    pub fn lazy(lazy: bool) -> Deletion {
        if lazy { Deletion::Unlink } else { Deletion::Del }
    }
}

/// The same by what has deleted the key: `lazyfree-lazy-expire` and the like.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Deletions {
    pub expiry: Deletion,
    pub eviction: Deletion,
    /// A command that takes the last element out of a collection, or puts a value in the place of
    /// another.
    pub server: Deletion,
}

/// Whether a server that brings data decides on what has expired (`import-mode`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Import {
    /// No: the clock does.
    #[default]
    No,
    /// Yes, and another client asks: what has expired is hidden from it, nothing more.
    Bystander,
    /// Yes, and that server asks: for it nothing has expired.
    Source,
}

/// The context of one thread's execution.
#[derive(Debug)]
pub struct Turn {
    /// Unix time in milliseconds. One value for a whole command, so that a key can't expire in
    /// the middle of it.
    pub now_ms: i64,
    pub access: Access,
    pub tally: Tally,
    /// CLIENT NO-TOUCH: reads leave the access clock alone.
    pub no_touch: bool,
    /// Whose command is being run, if that client may want not to be told of what it does itself; else
    /// [`NOBODY`](crate::stale::NOBODY).
    pub client: u64,
    /// Keys and fields whose time is at or before this have expired: `now_ms`, or no time at all
    /// for [`Import::Source`].
    pub over_ms: i64,
    import: Import,
    /// What was changed and is not committed yet: see [`crate::effect`].
    pub effects: Effects,
    pub expired: Expired,
    pub deletions: Deletions,
    /// Set when nobody wants the result of a long command any more.
    pub cancel: Option<Arc<AtomicBool>>,
    rng: Rng,
    trash: Vec<Record>,
    emptied: Vec<Emptied>,
    lost: Vec<(usize, Box<[u8]>)>,
}

impl Turn {
    pub fn new(now_ms: i64, seed: u64) -> Self {
        Turn {
            now_ms,
            access: Access::new(Policy::Lru, now_ms, 10, 1),
            tally: Tally::default(),
            no_touch: false,
            client: crate::stale::NOBODY,
            over_ms: now_ms,
            import: Import::No,
            effects: Effects::default(),
            expired: Expired::Remove,
            deletions: Deletions::default(),
            cancel: None,
            rng: Rng::new(seed),
            trash: Vec::new(),
            emptied: Vec::new(),
            lost: Vec::new(),
        }
    }

    /// Sets the time of the commands to come.
    pub fn set_time(&mut self, now_ms: i64) {
        self.now_ms = now_ms;
        self.over_ms = if self.import == Import::Source { i64::MIN } else { now_ms };
        self.access.set_time(now_ms);
    }

    /// Says on whose behalf the next commands run.
    pub fn set_import(&mut self, import: Import) {
        self.import = import;
        self.over_ms = if import == Import::Source { i64::MIN } else { self.now_ms };
    }

    /// Whether the commands come from a server that brings data, or from a log that is loaded: what
    /// has been decided there is not decided again.
    pub fn is_import_source(&self) -> bool {
        self.import == Import::Source
    }

    /// What is given a time to live that ends at or before this moment is over at once: in import
    /// mode nothing is.
    pub fn past_ms(&self) -> i64 {
        match self.import {
            Import::No => self.now_ms,
            Import::Bystander | Import::Source => i64::MIN,
        }
    }

    /// As [`Turn::set_time`], unless it is later already.
    #[inline]
    pub fn raise_time(&mut self, now_ms: i64) {
        if now_ms > self.now_ms {
            self.set_time(now_ms);
        }
    }

    /// Whether the present command should end at its next opportunity: its client is gone.
    pub fn is_cancelled(&self) -> bool {
        self.cancel.as_ref().is_some_and(|c| c.load(Ordering::Relaxed))
    }

    /// The next pseudo-random number.
    #[inline]
    pub fn random(&mut self) -> u64 {
        self.rng.next()
    }

    /// Keeps a dead record until the locks are released.
    #[inline]
    pub fn discard(&mut self, record: Record) {
        weft_types::Shared::note_removed(&record);
        self.trash.push(record);
    }

    /// Keeps the contents of tables until the locks are released. O(1).
    pub fn discard_all(&mut self, contents: Vec<Detached>, free: Free) {
        if !contents.is_empty() {
            self.emptied.push(Emptied { contents, free });
        }
    }

    /// Notes keys that sweeps have removed.
    pub(crate) fn lose(&mut self, keys: Vec<(usize, Box<[u8]>)>) {
        self.lost.extend(keys);
    }

    /// Keys, with their databases, that sweeps have removed since the last call where clients wait
    /// for changes: they are to look again.
    pub fn take_lost(&mut self) -> Vec<(usize, Box<[u8]>)> {
        std::mem::take(&mut self.lost)
    }

    /// Panics, in builds with debug assertions, if something was changed under a guard that was
    /// released without a commit: called when the next one is taken.
    #[inline]
    pub(crate) fn check_committed(&self) {
        debug_assert!(self.effects.is_empty(), "released without a commit: {:?}", self.effects);
    }

    /// Whether something has died and is to be freed, or somebody is to be told of it. Few commands
    /// kill anything.
    #[inline]
    pub fn has_dead(&self) -> bool {
        !self.trash.is_empty() || !self.emptied.is_empty() || !self.lost.is_empty()
    }

    /// The contents of tables that were discarded since the last call, in order; to be dropped
    /// outside of every lock, by whom each of them says. Allocates nothing when there are none.
    #[inline]
    pub fn take_detached(&mut self) -> Vec<Emptied> {
        std::mem::take(&mut self.emptied)
    }

    /// The records that died since the last call; to be dropped outside of every lock, by any
    /// thread.
    #[inline]
    pub fn take_trash(&mut self) -> Option<Vec<Record>> {
        (!self.trash.is_empty()).then(|| std::mem::take(&mut self.trash))
    }

    /// Drops the dead records here and now, but those that take long; keeps the room for the next
    /// ones.
    #[inline]
    pub fn drop_trash(&mut self) {
        self.trash.retain(weft_types::value::is_long_to_free);
    }
}

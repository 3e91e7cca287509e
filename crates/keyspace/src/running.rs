//! What commands of the slow lane hold, for those who must know all keys at one moment.
//!
//! A long command is in the middle of its work for seconds. Who counts the keys, picks one by
//! chance or begins a walk over them stops the I/O threads for microseconds, and must not wait for
//! it: it comes before the long command, in the order of execution, whatever that has done so far.
//!
//! ```text
//!  long command    hold: notes its shards and how many keys they have ─► work ─► commit: all at once
//!  DBSIZE          counts what was noted where a shard is held, else what is there
//!  KEYS            begins its journals; the long command writes its effects there when it commits
//! ```
//!
//! A walk ([`crate::cut`]) holds the shard that it visits in the same way: it is no thread that is
//! stopped with the others, and copies names that nobody may free meanwhile.
//!
//! One mutex makes each of these a single step: a long command takes its shards, and commits, under
//! it. With the shards it sets a bit of their interest, so that its effects are noted whoever else
//! wants to know.

use crate::guard::ShardSet;
use crate::interest::RUNNING;
use crate::keyspace::Keyspace;
use std::sync::{MutexGuard, RwLockReadGuard};

/// A shard that a command of the slow lane holds, or a walk over all keys.
#[derive(Debug)]
pub(crate) struct Entry {
    shard: u16,
    /// The keys that it had when it was taken, by database.
    keys: Box<[usize]>,
}

impl Entry {
    /// Of a shard that has just been taken, under the mutex.
    pub(crate) fn new(ks: &Keyspace, shard: u16) -> Self {
        let keys = (0..ks.databases()).map(|db| ks.shard_len(shard, db)).collect();
        Entry { shard, keys }
    }
}

/// The shards that are held by commands of the slow lane, or visited by a walk.
pub(crate) type Running<'k> = MutexGuard<'k, Vec<Entry>>;

/// Notes that `shard` is held no more.
pub(crate) fn forget(running: &mut Vec<Entry>, shard: u16) {
    running.retain(|entry| entry.shard != shard);
}

/// Whether a command of the slow lane, or a walk, holds `shard`.
pub(crate) fn is_held(running: &[Entry], shard: u16) -> bool {
    running.iter().any(|entry| entry.shard == shard)
}

/// The keys of `shard` in database `db`, as they are before what is running.
pub(crate) fn keys_of(ks: &Keyspace, running: &[Entry], shard: u16, db: usize) -> usize {
    let entry = running.iter().find(|entry| entry.shard == shard);
    entry.map_or_else(|| ks.shard_len(shard, db), |entry| entry.keys[db])
}

/// A command of the slow lane, as long as it holds its shards.
#[derive(Debug)]
pub(crate) struct LongCommand<'k> {
    ks: &'k Keyspace,
    shards: ShardSet,
    /// From the beginning of the commit to its end.
    committing: Option<Running<'k>>,
    /// Who stops the world waits for this.
    _lane: RwLockReadGuard<'k, ()>,
}

impl<'k> LongCommand<'k> {
    /// Of one that has just taken `shards`, under the mutex.
    pub(crate) fn new(
        ks: &'k Keyspace,
        shards: &ShardSet,
        running: &mut Running<'k>,
        lane: RwLockReadGuard<'k, ()>,
    ) -> Self {
        let mut command =
            LongCommand { ks, shards: ShardSet::default(), committing: None, _lane: lane };
        command.note(shards, running);
        command
    }

    fn note(&mut self, shards: &ShardSet, running: &mut Vec<Entry>) {
        for shard in shards.iter() {
            running.push(Entry::new(self.ks, shard));
            self.ks.set_interest(shard, RUNNING, true);
        }
        self.shards = ShardSet::of(self.shards.iter().chain(shards.iter()));
    }

    /// Runs `take` under the mutex, and notes the shards that it has taken.
    pub(crate) fn extend<E>(
        &mut self,
        shards: &ShardSet,
        take: impl FnOnce() -> Result<(), E>,
    ) -> Result<(), E> {
        let committing = self.committing.is_some();
        let mut running = self.committing.take().unwrap_or_else(|| self.ks.running());
        let taken = take();
        if taken.is_ok() {
            self.note(shards, &mut running);
        }
        self.committing = committing.then_some(running);
        taken
    }

    /// What the command has done is told from here on, and nobody who looks at all keys may come
    /// in between.
    pub(crate) fn begin_commit(&mut self) {
        if self.committing.is_none() {
            self.committing = Some(self.ks.running());
        }
    }

    /// All is told: the command is over.
    pub(crate) fn publish(&mut self) {
        let shards = std::mem::take(&mut self.shards);
        if shards.is_empty() {
            return;
        }
        let mut running = self.committing.take().unwrap_or_else(|| self.ks.running());
        running.retain(|entry| shards.iter().all(|shard| shard != entry.shard));
        shards.iter().for_each(|shard| self.ks.set_interest(shard, RUNNING, false));
    }
}

//! The shards held by slow-lane commands, for threads that need all keys at one moment.
//!
//! A long command may run for seconds. A thread that counts the keys, picks a random key or
//! begins a walk stops the I/O threads for microseconds and must not wait for the long command.
//! In the order of execution it comes before the long command, however much of that has been
//! done.
//!
//! ```text
//!  long command    hold: records its shards and their key counts ─► work ─► commit: all at once
//!  DBSIZE          uses the recorded count of a held shard, else the current count
//!  KEYS            begins its journals; the long command writes its effects there when it commits
//! ```
//!
//! A walk ([`crate::cut`]) holds the shard that it visits in the same way: its thread is not
//! stopped with the others, and no thread may free the names while it copies them.
//!
//! One mutex makes each of these a single step: a long command takes its shards, and commits,
//! under it. With the shards it sets a bit of their interest, so that its effects are recorded
//! even if nothing else listens.
//!
//! A snapshot also needs the old values. If a command has already begun to write, they are lost:
//! the snapshot waits for that command, but for no other. So each command announces its first
//! write under the same mutex; [`crate::snapshot`]'s `begin` describes the consequence.

use crate::guard::ShardSet;
use crate::interest::RUNNING;
use crate::keyspace::Keyspace;
use crate::lane_lock::{Exclusive, Shared};
use crate::safepoint::Closed;
use crate::snapshot::account::Account;
use crate::snapshot::planted::{self, Fault};
use crate::snapshot::shards as parts;
use crate::sync::MutexGuard;
use std::cell::RefCell;
use std::sync::Arc;

/// Whether a slow-lane command has written, and whether the old values were kept.
#[derive(Clone, Debug)]
pub(crate) enum WriteState {
    /// It has only read so far.
    Nothing,
    /// It has written, and no snapshot was about to begin at its first write.
    WithoutImages,
    /// It has written, and its shards have kept images for that snapshot since before its first
    /// write.
    Keeping(Arc<Account>),
}

impl WriteState {
    /// Whether it has written without keeping old values for the snapshot of `account`.
    fn lacks_images(&self, account: &Arc<Account>) -> bool {
        match self {
            WriteState::Nothing => false,
            WriteState::WithoutImages => true,
            WriteState::Keeping(_) => !self.keeps_for(account),
        }
    }

    /// Whether it has written and kept old values for the snapshot of `account`.
    fn keeps_for(&self, account: &Arc<Account>) -> bool {
        match self {
            WriteState::Nothing | WriteState::WithoutImages => false,
            WriteState::Keeping(of) => Arc::ptr_eq(of, account),
        }
    }
}

/// A shard held by a slow-lane command or a walk over all keys.
#[derive(Debug)]
pub(crate) struct Entry {
    shard: u16,
    /// The number of keys when the shard was taken, by database in ascending order; empty
    /// databases are left out.
    keys: Vec<(usize, usize)>,
    /// Of the command that holds it. Changed by that command, under the mutex.
    write_state: RefCell<WriteState>,
}

impl Entry {
    /// An entry of a shard that has just been taken. Call it under the mutex. O(databases with
    /// keys in it + databases / 64).
    pub(crate) fn new(ks: &Keyspace, shard: u16, write_state: WriteState) -> Self {
        let keys = ks.occupied.databases_of(shard).map(|db| (db, ks.shard_len(shard, db)));
        Entry { shard, keys: keys.collect(), write_state: RefCell::new(write_state) }
    }

    pub(crate) fn shard(&self) -> u16 {
        self.shard
    }

    /// The keys that it had in database `db`. O(log databases).
    pub(crate) fn keys(&self, db: usize) -> usize {
        self.keys.binary_search_by_key(&db, |(db, _)| *db).map_or(0, |at| self.keys[at].1)
    }

    /// See [`WriteState::lacks_images`].
    pub(crate) fn wrote_without_images(&self, account: &Arc<Account>) -> bool {
        self.write_state.borrow().lacks_images(account)
    }

    /// See [`WriteState::keeps_for`].
    pub(crate) fn keeps_for(&self, account: &Arc<Account>) -> bool {
        self.write_state.borrow().keeps_for(account)
    }
}

/// The shards held by slow-lane commands, or visited by a walk.
pub(crate) type Running<'k> = MutexGuard<'k, Vec<Entry>>;

/// Removes the entry of `shard`.
pub(crate) fn forget(running: &mut Vec<Entry>, shard: u16) {
    running.retain(|entry| entry.shard != shard);
}

/// Whether a slow-lane command or a walk holds `shard`.
pub(crate) fn is_held(running: &[Entry], shard: u16) -> bool {
    running.iter().any(|entry| entry.shard == shard)
}

/// The held shards.
pub(crate) fn held(running: &[Entry]) -> impl Iterator<Item = u16> {
    running.iter().map(|entry| entry.shard)
}

/// The entry of `shard`, if it is held.
pub(crate) fn entry_of(running: &[Entry], shard: u16) -> Option<&Entry> {
    running.iter().find(|entry| entry.shard == shard)
}

/// The keys of `shard` in database `db`, without the changes of running commands.
pub(crate) fn keys_of(ks: &Keyspace, running: &[Entry], shard: u16, db: usize) -> usize {
    let entry = entry_of(running, shard);
    entry.map_or_else(|| ks.shard_len(shard, db), |entry| entry.keys(db))
}

/// A slow-lane command while it holds its shards.
#[derive(Debug)]
pub(crate) struct LongCommand<'k> {
    ks: &'k Keyspace,
    shards: ShardSet,
    /// From the beginning of the commit to its end.
    committing: Option<Running<'k>>,
    write_state: RefCell<WriteState>,
    /// Set while the command needs the I/O threads to be stopped.
    stop: Option<Closed<'k>>,
    /// A thread that stops the world waits for this lock.
    _lane: Shared<'k>,
    /// Keeps walks away.
    walk: Option<Exclusive<'k>>,
}

impl<'k> LongCommand<'k> {
    /// A command that has just taken `shards`. Call it under the mutex.
    pub(crate) fn new(
        ks: &'k Keyspace,
        shards: &ShardSet,
        running: &mut Running<'k>,
        lane: Shared<'k>,
    ) -> Self {
        let mut command = LongCommand {
            ks,
            shards: ShardSet::default(),
            committing: None,
            write_state: RefCell::new(WriteState::Nothing),
            stop: None,
            _lane: lane,
            walk: None,
        };
        command.note(shards, running);
        command
    }

    /// No walk is in progress while the command runs. `walk` is the lock that walks hold.
    pub(crate) fn without_walks(self, walk: Exclusive<'k>) -> Self {
        LongCommand { walk: Some(walk), ..self }
    }

    fn note(&mut self, shards: &ShardSet, running: &mut Vec<Entry>) {
        let write_state = self.write_state.get_mut();
        for shard in shards.iter() {
            running.push(Entry::new(self.ks, shard, write_state.clone()));
            self.ks.set_interest(shard, RUNNING, true);
        }
        if let Some(account) = prepared(self.ks, write_state) {
            shards.iter().for_each(|shard| parts::begin(self.ks, shard, &account));
        }
        self.shards = ShardSet::of(self.shards.iter().chain(shards.iter()));
    }

    /// The command is about to write, maybe for the first time.
    pub(crate) fn before_write(&self) {
        let mut write_state = self.write_state.borrow_mut();
        let WriteState::Nothing = *write_state else { return };
        if planted::is(Fault::WishesIgnored) {
            return;
        }
        let mut taken = None;
        let running = match &self.committing {
            Some(running) => running,
            None => &*taken.insert(self.ks.slow_lane.running()),
        };
        *write_state = match self.ks.snapshots.wish() {
            None => WriteState::WithoutImages,
            Some(account) => {
                self.shards.iter().for_each(|shard| parts::begin(self.ks, shard, &account));
                WriteState::Keeping(account)
            }
        };
        let ours = |entry: &&Entry| self.shards.iter().any(|shard| shard == entry.shard);
        running
            .iter()
            .filter(ours)
            .for_each(|entry| *entry.write_state.borrow_mut() = write_state.clone());
    }

    /// The I/O threads continue. They find all shards held.
    pub(crate) fn resume_io_threads(&mut self) {
        self.stop = None;
    }

    /// Stops the I/O threads, each between two commands, until they resume or the command has ended. They wait for no shard there, so
    /// this can't deadlock.
    pub(crate) fn stop_io_threads(&mut self) {
        if self.stop.is_none() {
            self.stop = Some(self.ks.safepoints.close());
        }
    }

    pub(crate) fn is_without_walks(&self) -> bool {
        self.walk.is_some()
    }

    pub(crate) fn stops_io_threads(&self) -> bool {
        self.stop.is_some()
    }

    /// Runs `take` under the mutex and records the taken shards.
    pub(crate) fn extend<E>(
        &mut self,
        shards: &ShardSet,
        take: impl FnOnce() -> Result<(), E>,
    ) -> Result<(), E> {
        let committing = self.committing.is_some();
        let mut running = self.committing.take().unwrap_or_else(|| self.ks.slow_lane.running());
        let taken = take();
        if taken.is_ok() {
            self.note(shards, &mut running);
        }
        self.committing = committing.then_some(running);
        taken
    }

    /// Call before the effects of the command are published: no thread that reads all keys may
    /// get in between.
    pub(crate) fn begin_commit(&mut self) {
        if self.committing.is_none() {
            self.committing = Some(self.ks.slow_lane.running());
        }
    }

    /// Ends the command after its effects were published.
    pub(crate) fn publish(&mut self) {
        let shards = std::mem::take(&mut self.shards);
        if shards.is_empty() {
            return;
        }
        let mut running = self.committing.take().unwrap_or_else(|| self.ks.slow_lane.running());
        running.retain(|entry| shards.iter().all(|shard| shard != entry.shard));
        shards.iter().for_each(|shard| self.ks.set_interest(shard, RUNNING, false));
        // The command comes before the cut, which has not been made yet.
        let unneeded = prepared(self.ks, self.write_state.get_mut())
            .map(|_| shards.iter().map(|shard| parts::end(self.ks, shard)).collect::<Vec<_>>());
        if self.ks.snapshots.wish().is_some() {
            self.ks.snapshots.ended.notify_all();
        }
        drop(running);
        drop(unneeded);
    }
}

/// The snapshot for which a command keeps images, until the cut is made.
fn prepared(ks: &Keyspace, write_state: &WriteState) -> Option<Arc<Account>> {
    ks.snapshots.wish().filter(|account| write_state.keeps_for(account))
}

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
//!
//! A snapshot needs the old values, too, which nobody has kept if the command has begun to write
//! already: it waits for that one, and for no other. So each command says, under the same mutex,
//! when it is about to write for the first time; what comes of that is told in
//! [`crate::snapshot`]'s `begin`.

use crate::guard::ShardSet;
use crate::interest::RUNNING;
use crate::keyspace::Keyspace;
use crate::snapshot::account::Account;
use crate::snapshot::planted::{self, Fault};
use crate::snapshot::shards as parts;
use crate::sync::{MutexGuard, RwLockReadGuard};
use std::cell::RefCell;
use std::sync::Arc;

/// Whether a command of the slow lane has written, and whether the old values are there.
#[derive(Clone, Debug)]
pub(crate) enum Wrote {
    /// It has only read so far.
    Nothing,
    /// It has, and nobody was about to begin a snapshot when it began to.
    Plainly,
    /// It has, and its shards have kept images for that snapshot since before its first write.
    Keeping(Arc<Account>),
}

impl Wrote {
    /// Whether it has, and its old values are not there for the snapshot of `account`.
    fn is_plain(&self, account: &Arc<Account>) -> bool {
        match self {
            Wrote::Nothing => false,
            Wrote::Plainly => true,
            Wrote::Keeping(_) => !self.keeps_for(account),
        }
    }

    /// Whether it has, and they are.
    fn keeps_for(&self, account: &Arc<Account>) -> bool {
        match self {
            Wrote::Nothing | Wrote::Plainly => false,
            Wrote::Keeping(of) => Arc::ptr_eq(of, account),
        }
    }
}

/// A shard that a command of the slow lane holds, or a walk over all keys.
#[derive(Debug)]
pub(crate) struct Entry {
    shard: u16,
    /// How many keys it had when it was taken: databases in ascending order, without those that had none.
    keys: Vec<(usize, usize)>,
    /// Of the command that holds it. Changed under the mutex, by that command.
    wrote: RefCell<Wrote>,
}

impl Entry {
    /// Of a shard that has just been taken, under the mutex. O(databases of which it has keys + databases / 64).
    pub(crate) fn new(ks: &Keyspace, shard: u16, wrote: Wrote) -> Self {
        let keys = ks.occupied.databases_of(shard).map(|db| (db, ks.shard_len(shard, db)));
        Entry { shard, keys: keys.collect(), wrote: RefCell::new(wrote) }
    }

    pub(crate) fn shard(&self) -> u16 {
        self.shard
    }

    /// The keys that it had in database `db`. O(log databases).
    pub(crate) fn keys(&self, db: usize) -> usize {
        self.keys.binary_search_by_key(&db, |(db, _)| *db).map_or(0, |at| self.keys[at].1)
    }

    /// See [`Wrote::is_plain`].
    pub(crate) fn wrote_plainly(&self, account: &Arc<Account>) -> bool {
        self.wrote.borrow().is_plain(account)
    }

    /// See [`Wrote::keeps_for`].
    pub(crate) fn keeps_for(&self, account: &Arc<Account>) -> bool {
        self.wrote.borrow().keeps_for(account)
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

/// The shards that are held.
pub(crate) fn held(running: &[Entry]) -> impl Iterator<Item = u16> {
    running.iter().map(|entry| entry.shard)
}

/// Of who holds `shard`.
pub(crate) fn entry_of(running: &[Entry], shard: u16) -> Option<&Entry> {
    running.iter().find(|entry| entry.shard == shard)
}

/// The keys of `shard` in database `db`, as they are before what is running.
pub(crate) fn keys_of(ks: &Keyspace, running: &[Entry], shard: u16, db: usize) -> usize {
    let entry = entry_of(running, shard);
    entry.map_or_else(|| ks.shard_len(shard, db), |entry| entry.keys(db))
}

/// A command of the slow lane, as long as it holds its shards.
#[derive(Debug)]
pub(crate) struct LongCommand<'k> {
    ks: &'k Keyspace,
    shards: ShardSet,
    /// From the beginning of the commit to its end.
    committing: Option<Running<'k>>,
    wrote: RefCell<Wrote>,
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
        let mut command = LongCommand {
            ks,
            shards: ShardSet::default(),
            committing: None,
            wrote: RefCell::new(Wrote::Nothing),
            _lane: lane,
        };
        command.note(shards, running);
        command
    }

    fn note(&mut self, shards: &ShardSet, running: &mut Vec<Entry>) {
        let wrote = self.wrote.get_mut();
        for shard in shards.iter() {
            running.push(Entry::new(self.ks, shard, wrote.clone()));
            self.ks.set_interest(shard, RUNNING, true);
        }
        if let Some(account) = prepared(self.ks, wrote) {
            shards.iter().for_each(|shard| parts::begin(self.ks, shard, &account));
        }
        self.shards = ShardSet::of(self.shards.iter().chain(shards.iter()));
    }

    /// The command is about to write, maybe for the first time.
    pub(crate) fn writes(&self) {
        let mut wrote = self.wrote.borrow_mut();
        let Wrote::Nothing = *wrote else { return };
        if planted::is(Fault::WishesIgnored) {
            return;
        }
        let mut taken = None;
        let running = match &self.committing {
            Some(running) => running,
            None => &*taken.insert(self.ks.slow_lane.running()),
        };
        *wrote = match self.ks.snapshots.wish() {
            None => Wrote::Plainly,
            Some(account) => {
                self.shards.iter().for_each(|shard| parts::begin(self.ks, shard, &account));
                Wrote::Keeping(account)
            }
        };
        let ours = |entry: &&Entry| self.shards.iter().any(|shard| shard == entry.shard);
        running.iter().filter(ours).for_each(|entry| *entry.wrote.borrow_mut() = wrote.clone());
    }

    /// Runs `take` under the mutex, and notes the shards that it has taken.
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

    /// What the command has done is told from here on, and nobody who looks at all keys may come
    /// in between.
    pub(crate) fn begin_commit(&mut self) {
        if self.committing.is_none() {
            self.committing = Some(self.ks.slow_lane.running());
        }
    }

    /// All is told: the command is over.
    pub(crate) fn publish(&mut self) {
        let shards = std::mem::take(&mut self.shards);
        if shards.is_empty() {
            return;
        }
        let mut running = self.committing.take().unwrap_or_else(|| self.ks.slow_lane.running());
        running.retain(|entry| shards.iter().all(|shard| shard != entry.shard));
        shards.iter().for_each(|shard| self.ks.set_interest(shard, RUNNING, false));
        // It comes before the cut, which is not made yet.
        let unneeded = prepared(self.ks, self.wrote.get_mut())
            .map(|_| shards.iter().map(|shard| parts::end(self.ks, shard)).collect::<Vec<_>>());
        if self.ks.snapshots.wish().is_some() {
            self.ks.snapshots.ended.notify_all();
        }
        drop(running);
        drop(unneeded);
    }
}

/// The snapshot for which a command keeps images, while that has not made its cut.
fn prepared(ks: &Keyspace, wrote: &Wrote) -> Option<Arc<Account>> {
    ks.snapshots.wish().filter(|account| wrote.keeps_for(account))
}

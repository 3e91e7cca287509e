//! The state of shards for a snapshot, and the calls of writers that maintain it.
//!
//! A mutex guards a shard's part. A writer holds the shard and takes the mutex for an instant. So
//! do the walkers, which may also fetch images while another thread holds the shard. A bit of the
//! shard's interest shows that it takes part; the bit is set and cleared under the mutex.

use super::account::{Account, Gauge, WriteCost};
use super::cut_times::CutTimes;
use super::image::Image;
use super::planted::{self, Fault};
use super::walk::{Batch, Orphan};
use super::walks::Walks;
use crate::interest::SNAPSHOT;
use crate::keyspace::{Hasher, Key, Keyspace, SHARDS};
use crate::sync::{Condvar, Mutex, MutexGuard, lock};
use std::fmt;
use std::sync::Arc;
use weft_table::{Detached, TableMut};
use weft_types::{Record, Values};

/// The state of the current snapshot.
pub(crate) struct Snapshots {
    shards: Box<[Mutex<Option<Part>>]>,
    /// Of the snapshot that is being taken or prepared.
    account: Mutex<Option<Arc<Account>>>,
    /// Set while a cut is prepared. Read and changed under the mutex of [`crate::running`].
    wish: Mutex<Option<Arc<Account>>>,
    /// Signalled when a slow-lane command ends while a cut is prepared.
    pub(crate) ended: Condvar,
    /// Of the current snapshot.
    pub(crate) gauge: Arc<Gauge>,
    pub(crate) cuts: CutTimes,
}

/// The state of one shard.
pub(crate) struct Part {
    account: Arc<Account>,
    walks: Walks,
    /// Tables emptied since the cut, before their walk was complete.
    orphans: Vec<Orphan>,
    images: Vec<Image>,
}

impl fmt::Debug for Snapshots {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Snapshots").finish_non_exhaustive()
    }
}

impl Snapshots {
    pub(crate) fn new() -> Snapshots {
        Snapshots {
            shards: (0..SHARDS).map(|_| Mutex::new(None)).collect(),
            account: Mutex::new(None),
            wish: Mutex::new(None),
            ended: Condvar::new(),
            gauge: Arc::default(),
            cuts: CutTimes::default(),
        }
    }

    fn part(&self, shard: u16) -> MutexGuard<'_, Option<Part>> {
        lock(&self.shards[usize::from(shard)])
    }

    pub(super) fn account(&self) -> Option<Arc<Account>> {
        lock(&self.account).clone()
    }

    /// Registers the snapshot, if there is no other. Returns whether it did.
    pub(super) fn claim(&self, account: &Arc<Account>) -> bool {
        let mut place = lock(&self.account);
        let is_free = place.is_none();
        if is_free {
            *place = Some(account.clone());
            self.gauge.reset(account.limit());
        }
        is_free
    }

    pub(super) fn release(&self) {
        let mut place = lock(&self.account);
        *place = None;
        self.gauge.reset(0);
    }

    /// The snapshot whose cut is being prepared. Call it under the mutex of [`crate::running`].
    pub(crate) fn wish(&self) -> Option<Arc<Account>> {
        lock(&self.wish).clone()
    }

    pub(super) fn set_wish(&self, wish: Option<Arc<Account>>) {
        *lock(&self.wish) = wish;
    }
}

impl Part {
    /// A part for the current tables. O(databases in use).
    pub(super) fn new(ks: &Keyspace, shard: u16, account: &Arc<Account>) -> Part {
        let walks = Walks::of(ks, shard);
        Part { account: account.clone(), walks, orphans: Vec::new(), images: Vec::new() }
    }

    fn fetch(&mut self, batch: &mut Batch) {
        batch.images.append(&mut self.images);
        batch.orphans.append(&mut self.orphans);
    }
}

/// Begins the part of `shard`, whose tables are those of the cut. No thread may change them
/// meanwhile.
pub(crate) fn begin(ks: &Keyspace, shard: u16, account: &Arc<Account>) {
    let mut part = ks.snapshots.part(shard);
    *part = Some(Part::new(ks, shard, account));
    ks.set_interest(shard, SNAPSHOT, true);
}

/// Ends the part of `shard` and returns it, to be dropped outside of locks.
pub(crate) fn end(ks: &Keyspace, shard: u16) -> Option<Part> {
    let mut part = ks.snapshots.part(shard);
    ks.set_interest(shard, SNAPSHOT, false);
    let ended = part.take();
    if let Some(part) = &ended {
        part.images.iter().for_each(|image| image.charge().settle(&part.account));
        // The remaining bytes are names.
        part.account.sub(shard, part.account.of_shard(shard));
    }
    ended
}

/// `key` of database `db` is about to change: records that, and makes an image of the old
/// `record` if the snapshot needs one. The caller holds the shard.
pub(crate) fn keep(ks: &Keyspace, db: usize, key: &Key<'_>, record: Option<&Record>) {
    let mut guard = ks.snapshots.part(key.shard());
    let Some(part) = guard.as_mut() else { return };
    if record.is_none() && planted::is(Fault::NewcomersForgotten) {
        return;
    }
    let Some(walk) = part.walks.get_mut(db) else { return };
    let Some(mut bytes) = walk.keep(key) else { return };
    if let Some(record) = record.filter(|record| part.account.is_live(record.expiry())) {
        let mut image = walk.image(record).share(&part.account);
        image.prioritize(&part.account);
        bytes += image.weigh();
        part.images.push(image);
    }
    part.account.add(key.shard(), bytes);
}

/// The effect of a write of `key` in database `db` on the snapshot's memory.
pub(super) fn write_cost(ks: &Keyspace, db: usize, key: &Key<'_>) -> WriteCost {
    let would_keep = |part: &Part| part.walks.get(db).is_some_and(|walk| walk.would_keep(key));
    if planted::is(Fault::WritersNotHeld) {
        WriteCost::Free
    } else if ks.snapshots.part(key.shard()).as_ref().is_some_and(would_keep) {
        WriteCost::Kept
    } else if ks.snapshots.gauge.is_shared(db as u32, key.bytes) {
        WriteCost::Copied
    } else {
        WriteCost::Free
    }
}

/// The contents of two databases in `shard` are exchanged. The caller holds the shard.
/// O(databases in use).
pub(crate) fn swap(ks: &Keyspace, shard: u16, a: usize, b: usize) {
    if let Some(part) = ks.snapshots.part(shard).as_mut()
        && !planted::is(Fault::SwapsForgotten)
    {
        part.walks.swap(a, b);
    }
}

/// Returns the contents removed from the table of database `db` in `shard`, unless the snapshot
/// keeps them until it has walked them. The caller holds the shard. O(databases in use).
pub(crate) fn take(
    ks: &Keyspace,
    shard: u16,
    db: usize,
    contents: Detached<Values>,
) -> Option<Detached<Values>> {
    let mut guard = ks.snapshots.part(shard);
    let Some(part) = guard.as_mut() else { return Some(contents) };
    // Keys inserted into the table from now on do not belong to the snapshot.
    let Some(walk) = part.walks.remove(db) else { return Some(contents) };
    if walk.is_done() || planted::is(Fault::FlushesForgotten) {
        return Some(contents);
    }
    part.orphans.push(Orphan::new(walk, contents, ks.table(shard, db).hasher()));
    None
}

/// Fetches the images that writers have handed over in `shard`, even if another thread holds it.
pub(super) fn fetch(ks: &Keyspace, shard: u16, batch: &mut Batch) {
    if let Some(part) = ks.snapshots.part(shard).as_mut() {
        part.fetch(batch);
    }
}

/// One step of the walk over the tables of `shard`, which the caller holds. Returns whether the
/// shard is done; then its part has ended.
pub(crate) fn step<'t>(
    ks: &Keyspace,
    shard: u16,
    table: impl Fn(usize) -> TableMut<'t, Values, Hasher>,
    batch: &mut Batch,
) -> bool {
    let mut guard = ks.snapshots.part(shard);
    let Some(part) = guard.as_mut() else { return true };
    part.fetch(batch);
    for (db, walk) in part.walks.iter_mut() {
        if batch.is_full() {
            break;
        }
        walk.step(&table(db), &part.account, batch);
    }
    let is_done = part.walks.are_done();
    if is_done {
        *guard = None;
        ks.set_interest(shard, SNAPSHOT, false);
    }
    is_done
}

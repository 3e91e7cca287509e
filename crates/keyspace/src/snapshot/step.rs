//! The walkers: a step holds a shard briefly and gives its images to the visitor outside of all
//! locks.
//!
//! Each walker takes a shard that no other walker visits. Shards held by slow-lane commands come
//! last. When much memory is held ([`Account::is_under_pressure`](super::account::Account)), the shard
//! that holds most comes first. Fetching images needs no shard lock, and the further the walk has
//! come, the less writers must keep.

use super::planted::{self, Fault};
use super::shards;
use super::walk::{Batch, Orphan};
use super::{Image, Snapshot};
use crate::context::ExecContext;
use crate::db::Db;
use crate::guard::ShardSet;
use crate::hold::SlowLaneThread;
use crate::keyspace::SHARDS;
use crate::running;
use crate::sync::lock;

/// The result of [`Snapshot::step`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// There may be more keys.
    More,
    /// All keys were given, or other walkers process the rest: this thread has finished.
    Done,
}

impl<'k> Snapshot<'k> {
    /// Gives some keys of the cut to `visit`: each key once over all steps of all threads, in no
    /// order. Any number of threads may call this, each with its own `hand` and `context`, until it
    /// returns [`Step::Done`]; when all of them have got that, the snapshot is complete. `visit`
    /// is called with nothing held and may block: no thread waits for it, but the longer it
    /// takes, the more memory may be held.
    ///
    /// A shard is held for some tens of microseconds, or as long as it takes to make one image.
    /// Waits for a shard held by a long command when no other is left.
    pub fn step(
        &self,
        hand: &mut SlowLaneThread<'_>,
        context: &mut ExecContext,
        visit: &mut dyn FnMut(Image),
    ) -> Step {
        self.account.note_peak();
        let mut batch = Batch::default();
        let orphan = lock(&self.orphans).pop();
        if let Some(orphan) = orphan {
            self.step_of_orphan(orphan, &mut batch);
            return self.give(batch, visit);
        }
        if self.account.is_under_pressure() {
            // Images of long commands must be fetched before those commands end.
            running::held(&self.ks.slow_lane.running())
                .for_each(|s| shards::fetch(self.ks, s, &mut batch));
        }
        match self.take_shard() {
            Some(at) => at.step(hand, context, &mut batch),
            None if batch.is_empty() => return Step::Done,
            None => {}
        }
        self.give(batch, visit)
    }

    fn step_of_orphan(&self, mut orphan: Orphan, batch: &mut Batch) {
        let is_done = orphan.step(&self.account, batch);
        batch.shard = orphan.shard();
        if !is_done {
            lock(&self.orphans).push(orphan);
        }
    }

    /// Takes an unfinished shard: preferably one that no long command holds, and under memory
    /// pressure the one that holds most. O(shards).
    fn take_shard(&self) -> Option<TakenShard<'_, 'k>> {
        let mut left = lock(&self.left);
        let running = self.ks.slow_lane.running();
        let is_under_pressure = self.account.is_under_pressure();
        let merit = |at: &usize| {
            let shard = left[*at];
            let kept = if is_under_pressure { self.account.of_shard(shard) } else { 0 };
            (!running::is_held(&running, shard), kept, *at)
        };
        let best = (0..left.len()).max_by_key(merit)?;
        let shard = left.swap_remove(best);
        let is_held = running::is_held(&running, shard);
        Some(TakenShard { snapshot: self, shard, is_held, is_done: false })
    }

    /// Gives a batch to the visitor.
    fn give(&self, batch: Batch, visit: &mut dyn FnMut(Image)) -> Step {
        lock(&self.orphans).extend(batch.orphans);
        self.account.sub(batch.shard, batch.passed.free());
        for image in batch.images {
            let charge = image.charge();
            // An image kept before the cut may have expired by the cut.
            if self.account.is_live(image.expiry()) {
                self.account.note_given();
                visit(image);
            } else {
                drop(image);
            }
            if !planted::is(Fault::ChargesForgotten) {
                charge.settle(&self.account);
            }
        }
        Step::More
    }
}

/// A walker's shard; dropping it returns the shard to `left` unless it is done.
struct TakenShard<'s, 'k> {
    snapshot: &'s Snapshot<'k>,
    shard: u16,
    /// By a slow-lane command.
    is_held: bool,
    is_done: bool,
}

impl TakenShard<'_, '_> {
    fn step(mut self, hand: &mut SlowLaneThread<'_>, context: &mut ExecContext, batch: &mut Batch) {
        batch.shard = self.shard;
        if self.is_held {
            // The holder may keep it for long, so its images are fetched first.
            shards::fetch(self.snapshot.ks, self.shard, batch);
            if !batch.is_empty() {
                return;
            }
        }
        let guard = hand.hold_only(context, &ShardSet::one(self.shard));
        self.is_done = Db::new(&guard, context, 0).snapshot_step(self.shard, batch);
    }
}

impl Drop for TakenShard<'_, '_> {
    fn drop(&mut self) {
        if !self.is_done {
            lock(&self.snapshot.left).push(self.shard);
        }
    }
}

impl Drop for Snapshot<'_> {
    fn drop(&mut self) {
        let parts: Vec<_> = (0..SHARDS as u16).map(|s| shards::end(self.ks, s)).collect();
        drop(parts);
        self.ks.snapshots.release();
    }
}

//! The walkers: a shard is held for a small step, and what it brings is given to the visitor
//! outside of every lock.
//!
//! Each walker takes a shard that no other is at. Shards that a command of the slow lane holds come
//! last. When much is kept ([`Account::is_pressed`](super::account::Account)), the one that keeps most comes first:
//! what writers have handed over is fetched without the shard, and the more of a table is walked
//! over, the less must be kept.

use super::planted::{self, Fault};
use super::shards;
use super::walk::{Batch, Orphan};
use super::{Image, Snapshot};
use crate::db::Db;
use crate::guard::ShardSet;
use crate::hold::SlowHand;
use crate::keyspace::SHARDS;
use crate::running;
use crate::sync::lock;
use crate::turn::Turn;

/// What [`Snapshot::step`] has come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// There is more to be done.
    More,
    /// All was given, or the rest is in the hands of other walkers: nothing is left for this one.
    Done,
}

impl<'k> Snapshot<'k> {
    /// Gives some keys of the cut to `visit`, each key of the cut once over all steps of all
    /// threads, in no order. Any number of threads may call this, each with a hand and a turn of
    /// its own, until it answers [`Step::Done`]; when all of them have got that, the snapshot is
    /// complete. `visit` is called with nothing held, and may take its time: nobody waits for it,
    /// but the longer it takes, the more may have to be kept.
    ///
    /// A shard is held for some tens of microseconds, and for as long as it takes to make one
    /// image. Waits for a shard that a long command holds when nothing else is left.
    pub fn step(
        &self,
        hand: &mut SlowHand<'_>,
        turn: &mut Turn,
        visit: &mut dyn FnMut(Image),
    ) -> Step {
        self.account.note_peak();
        let mut batch = Batch::default();
        let orphan = lock(&self.orphans).pop();
        if let Some(orphan) = orphan {
            self.step_of_orphan(orphan, &mut batch);
            return self.give(batch, visit);
        }
        if self.account.is_pressed() {
            // What long commands hand over must not wait for their end.
            running::held(&self.ks.slow_lane.running())
                .for_each(|s| shards::fetch(self.ks, s, &mut batch));
        }
        match self.choose() {
            Some(at) => at.step(hand, turn, &mut batch),
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

    /// Takes a shard out of those that are left: one that can be had, if there is any, and one that
    /// keeps much, if that matters. O(shards).
    fn choose(&self) -> Option<At<'_, 'k>> {
        let mut left = lock(&self.left);
        let running = self.ks.slow_lane.running();
        let is_pressed = self.account.is_pressed();
        let merit = |at: &usize| {
            let shard = left[*at];
            let kept = if is_pressed { self.account.of_shard(shard) } else { 0 };
            (!running::is_held(&running, shard), kept, *at)
        };
        let best = (0..left.len()).max_by_key(merit)?;
        let shard = left.swap_remove(best);
        let is_held = running::is_held(&running, shard);
        Some(At { snapshot: self, shard, is_held, is_done: false })
    }

    /// Gives a batch to the visitor.
    fn give(&self, batch: Batch, visit: &mut dyn FnMut(Image)) -> Step {
        lock(&self.orphans).extend(batch.orphans);
        self.account.sub(batch.shard, batch.passed.free());
        for image in batch.images {
            let charge = image.charge();
            // What was kept before the cut was made may have expired at it.
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

/// A walker at a shard, which goes back to those that are left unless it is done.
struct At<'s, 'k> {
    snapshot: &'s Snapshot<'k>,
    shard: u16,
    /// By a command of the slow lane.
    is_held: bool,
    is_done: bool,
}

impl At<'_, '_> {
    fn step(mut self, hand: &mut SlowHand<'_>, turn: &mut Turn, batch: &mut Batch) {
        batch.shard = self.shard;
        if self.is_held {
            // Who holds it may go on for long: what it hands over is taken first.
            shards::fetch(self.snapshot.ks, self.shard, batch);
            if !batch.is_empty() {
                return;
            }
        }
        let guard = hand.hold_only(turn, &ShardSet::one(self.shard));
        self.is_done = Db::new(&guard, turn, 0).snapshot_step(self.shard, batch);
    }
}

impl Drop for At<'_, '_> {
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

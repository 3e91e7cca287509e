//! Whom to tell that what clients have read, and may have kept, is no longer so.
//!
//! ```text
//!  change of a key ─► Effect ─► invalidate: those who have read it     in the order of execution
//!                       │
//!                       └─────► spread: those who follow its prefix    once for each group
//!  FLUSHALL, FLUSHDB ─────────► everybody who keeps anything
//! ```
//!
//! Both are done while the shards of the keys are held, by who settles the effects. A shard in which no
//! key is remembered for anybody has no bit that says so, and its changes cost nothing here.
//!
//! Exchanging two databases tells nobody, as in Valkey: clients remember keys and not databases, and
//! who exchanges them knows who reads what.

use crate::effect::{Cause, Effect};
use crate::guard::Guard;
use crate::interest::{FOLLOWED_BY_PREFIX, READ};
use crate::keyspace::{Keyspace, SHARDS};
use crate::turn::Turn;

/// The number of a client; none has this one.
pub const NOBODY: u64 = 0;

/// A key that has changed, and the client that did it, or [`NOBODY`].
pub type Changed = (Box<[u8]>, u64);

/// What is kept of clients that cache values.
///
/// Everything but [`Caches::spread`] is called while the shards that it is about are held. None of it
/// may wait.
pub trait Caches: Send + Sync {
    /// `key`, of this shard, was changed by the client `by`: tells those who have read it, and forgets
    /// them. Whether keys of this shard are still remembered.
    fn invalidate(&self, shard: u16, key: &[u8], by: u64) -> bool;

    /// Databases were emptied: tells everybody that nothing is true any more, and forgets all keys.
    fn emptied(&self);

    /// What has changed as one group, in the order of time.
    fn spread(&self, keys: Vec<Changed>);
}

/// What was done to whole databases: its effects on single keys are no news to readers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Whole {
    /// Such effects are these, by their places among those of the group.
    pub from: usize,
    pub to: usize,
    /// All readers are to be told that what they keep is gone.
    pub emptied: bool,
}

/// Effects of the turn, as far as readers are concerned.
#[derive(Debug, Default)]
pub(crate) struct Unread {
    pub wholes: Vec<Whole>,
    /// How many effects, and how many of `wholes`, readers have been told of.
    told: usize,
    told_wholes: usize,
    /// What is to be spread.
    pub changed: Vec<Changed>,
}

impl Unread {
    /// The effects were taken: the next one is the first again.
    pub fn begin(&mut self) {
        self.wholes.clear();
        (self.told, self.told_wholes) = (0, 0);
    }
}

impl Keyspace {
    /// Has `caches` be told of changes. There is one, for good.
    ///
    /// # Panics
    /// If there is one already.
    pub fn tell_caches(&self, caches: Box<dyn Caches>) {
        assert!(self.observers.caches.set(caches).is_ok(), "caches are kept in one place");
    }

    /// Says that a key of `shard` is remembered, for a client that has read it. To be called while the
    /// shard is held.
    pub fn set_read(&self, shard: u16, on: bool) {
        self.set_interest(shard, READ, on);
    }

    /// Whether keys of `shard` are remembered; a moment's value unless the shard is held.
    pub fn is_read(&self, shard: u16) -> bool {
        self.interest(shard) & READ != 0
    }

    /// Says whether clients follow all keys of some prefix: then changes are spread. A command that is
    /// being executed may not see it yet.
    pub fn set_followed_by_prefix(&self, on: bool) {
        (0..SHARDS as u16).for_each(|shard| self.set_interest(shard, FOLLOWED_BY_PREFIX, on));
    }
}

/// Tells those who have read keys of the effects since the last call. To be called before anybody is
/// noted as a reader of what the turn has changed; settling does it, too. O(effects).
#[inline]
pub fn invalidate(guard: &Guard<'_>, turn: &mut Turn) {
    if !turn.effects.is_empty() {
        tell_readers(guard, turn);
    }
}

#[cold]
fn tell_readers(guard: &Guard<'_>, turn: &mut Turn) {
    let ks = guard.keyspace();
    let Some(caches) = ks.observers.caches.get() else { return };
    let (effects, unread) = turn.effects.unread();
    let mut at = unread.told;
    let mut tell = |effect: &Effect| tell_of(ks, &**caches, effect, &mut unread.changed);
    for whole in &unread.wholes[unread.told_wholes..] {
        effects[at..whole.from].iter().for_each(&mut tell);
        // What was found to have expired meanwhile is, though.
        let expired = |effect: &&Effect| effect.cause != Cause::Command;
        effects[whole.from..whole.to].iter().filter(expired).for_each(&mut tell);
        if whole.emptied {
            caches.emptied();
            (0..SHARDS as u16).for_each(|shard| ks.set_read(shard, false));
        }
        at = whole.to;
    }
    effects[at..].iter().for_each(&mut tell);
    (unread.told, unread.told_wholes) = (effects.len(), unread.wholes.len());
}

fn tell_of(ks: &Keyspace, caches: &dyn Caches, effect: &Effect, changed: &mut Vec<Changed>) {
    let Effect { shard, key, by, cause, .. } = effect;
    let interest = ks.interest(*shard);
    let by = match cause {
        Cause::Command => *by,
        // That its time is over is nobody's doing, whoever finds it.
        Cause::Expiry | Cause::Eviction => NOBODY,
    };
    if interest & READ != 0 && !caches.invalidate(*shard, key, by) {
        ks.set_read(*shard, false);
    }
    if interest & FOLLOWED_BY_PREFIX != 0 {
        changed.push((key.clone(), by));
    }
}

/// Tells those who follow prefixes what has changed since the last call, as one group. O(keys) beside
/// what they do.
#[inline]
pub fn spread(guard: &Guard<'_>, turn: &mut Turn) {
    let changed = turn.effects.take_spread();
    if !changed.is_empty()
        && let Some(caches) = guard.keyspace().observers.caches.get()
    {
        caches.spread(changed);
    }
}

//! Invalidation of values that clients have read and may have cached.
//!
//! ```text
//!  change of a key ─► Effect ─► invalidate: clients that have read it      in the order of execution
//!                       │
//!                       └─────► spread: clients that track its prefix      once for each group
//!  FLUSHALL, FLUSHDB ─────────► all clients that cache keys
//! ```
//!
//! The thread that settles the effects does both while it holds the shards of the keys. A shard
//! without tracked keys has its interest bit clear, and its changes cost nothing here.
//!
//! Exchanging two databases sends no invalidation, as in Valkey: clients track keys and not
//! databases, and the operator of SWAPDB knows which clients read what.

use crate::context::ExecContext;
use crate::effect::{Cause, Effect};
use crate::guard::Guard;
use crate::interest::{FOLLOWED_BY_PREFIX, READ};
use crate::keyspace::{Keyspace, SHARDS};

/// A client number that no client has.
pub const NO_CLIENT: u64 = 0;

/// A changed key, and the client that changed it, or [`NO_CLIENT`].
pub type Changed = (Box<[u8]>, u64);

/// The registry of clients that cache values.
///
/// Every method except [`Caches::spread`] is called while the shards of its keys are held. No
/// method may block.
pub trait Caches: Send + Sync {
    /// `key`, of this shard, was changed by the client `by`: notifies the clients that have read
    /// it, and forgets them. Returns whether keys of this shard are still tracked.
    fn invalidate(&self, shard: u16, key: &[u8], by: u64) -> bool;

    /// Databases were emptied: notifies all clients that all cached values are invalid, and
    /// forgets all keys.
    fn emptied(&self);

    /// The changed keys of one group, in order of execution.
    fn spread(&self, keys: Vec<Changed>);
}

/// An operation on whole databases: its effects on single keys are not sent to readers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BulkOperation {
    /// The range of its effects, as indexes into those of the group.
    pub from: usize,
    pub to: usize,
    /// All readers must be notified that their cached values are invalid.
    pub emptied: bool,
}

/// The pending effects that readers have not been notified of.
#[derive(Debug, Default)]
pub(crate) struct Unsent {
    pub bulk_operations: Vec<BulkOperation>,
    /// How many effects, and how many of `bulk_operations`, readers have been notified of.
    notified: usize,
    notified_bulk: usize,
    /// Changes for clients that track prefixes.
    pub changed: Vec<Changed>,
}

impl Unsent {
    /// The effects were taken: indexes begin at 0 again.
    pub fn begin(&mut self) {
        self.bulk_operations.clear();
        (self.notified, self.notified_bulk) = (0, 0);
    }
}

impl Keyspace {
    /// Sets the registry to notify of changes. There is one, and it stays.
    ///
    /// # Panics
    /// If a registry is already set.
    pub fn set_caches(&self, caches: Box<dyn Caches>) {
        assert!(self.observers.caches.set(caches).is_ok(), "there is one registry of caches");
    }

    /// Sets whether a key of `shard` is tracked for a client that has read it. Call it while the
    /// shard is held.
    pub fn set_read(&self, shard: u16, on: bool) {
        self.set_interest(shard, READ, on);
    }

    /// Whether keys of `shard` are tracked; may be outdated at once unless the shard is held.
    pub fn is_read(&self, shard: u16) -> bool {
        self.interest(shard) & READ != 0
    }

    /// Sets whether clients track keys by prefix: then changes are passed to [`Caches::spread`].
    /// A running command may not see it yet.
    pub fn set_followed_by_prefix(&self, on: bool) {
        (0..SHARDS as u16).for_each(|shard| self.set_interest(shard, FOLLOWED_BY_PREFIX, on));
    }
}

/// Notifies the readers of changed keys of the effects since the last call. Call it before a
/// client is recorded as a reader of keys that this context has changed;
/// [`settle`](crate::commit::settle) calls it, too. O(effects).
#[inline]
pub fn invalidate(guard: &Guard<'_>, context: &mut ExecContext) {
    if !context.effects.is_empty() {
        notify_readers(guard, context);
    }
}

#[cold]
fn notify_readers(guard: &Guard<'_>, context: &mut ExecContext) {
    let ks = guard.keyspace();
    let Some(caches) = ks.observers.caches.get() else { return };
    let (effects, unsent) = context.effects.unsent();
    let mut at = unsent.notified;
    let mut notify = |effect: &Effect| notify_of(ks, &**caches, effect, &mut unsent.changed);
    for bulk in &unsent.bulk_operations[unsent.notified_bulk..] {
        effects[at..bulk.from].iter().for_each(&mut notify);
        // Expiry found meanwhile is sent nevertheless.
        let expired = |effect: &&Effect| effect.cause != Cause::Command;
        effects[bulk.from..bulk.to].iter().filter(expired).for_each(&mut notify);
        if bulk.emptied {
            caches.emptied();
            (0..SHARDS as u16).for_each(|shard| ks.set_read(shard, false));
        }
        at = bulk.to;
    }
    effects[at..].iter().for_each(&mut notify);
    (unsent.notified, unsent.notified_bulk) = (effects.len(), unsent.bulk_operations.len());
}

fn notify_of(ks: &Keyspace, caches: &dyn Caches, effect: &Effect, changed: &mut Vec<Changed>) {
    let Effect { shard, key, by, cause, .. } = effect;
    let interest = ks.interest(*shard);
    let by = match cause {
        Cause::Command => *by,
        // Expiry is attributed to no client, whichever finds it.
        Cause::Expiry | Cause::Eviction => NO_CLIENT,
    };
    if interest & READ != 0 && !caches.invalidate(*shard, key, by) {
        ks.set_read(*shard, false);
    }
    if interest & FOLLOWED_BY_PREFIX != 0 {
        changed.push((key.clone(), by));
    }
}

/// Notifies clients that track prefixes of the changes since the last call, as one group.
/// O(keys), in addition to the work of the registry.
#[inline]
pub fn spread(guard: &Guard<'_>, context: &mut ExecContext) {
    let changed = context.effects.take_spread();
    if !changed.is_empty()
        && let Some(caches) = guard.keyspace().observers.caches.get()
    {
        caches.spread(changed);
    }
}

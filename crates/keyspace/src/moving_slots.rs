//! The names of changed keys in slots that are being copied: see [`crate::moving`].

use crate::sync::{Mutex, lock};
use std::collections::{BTreeMap, BTreeSet};
use weft_base::slot::key_slot;

/// The changed keys of a slot: database and name.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct ChangedKeys {
    pub names: BTreeSet<(usize, Box<[u8]>)>,
    /// Databases were emptied or exchanged: any key may have changed.
    pub replaced: bool,
}

/// The recorded slots of each shard. Only the holder of a shard uses its entry.
pub(crate) struct MovingSlots(Box<[Mutex<BTreeMap<u16, ChangedKeys>>]>);

impl MovingSlots {
    pub(crate) fn new(shards: usize) -> MovingSlots {
        MovingSlots((0..shards).map(|_| Mutex::default()).collect())
    }

    /// Calls `act` with the recorded slots of a shard.
    pub(crate) fn with<T>(
        &self,
        shard: u16,
        act: impl FnOnce(&mut BTreeMap<u16, ChangedKeys>) -> T,
    ) -> T {
        act(&mut lock(&self.0[usize::from(shard)]))
    }

    /// A key of `shard` has changed.
    pub(crate) fn note(&self, db: usize, shard: u16, key: &[u8]) {
        if let Some(changed) = lock(&self.0[usize::from(shard)]).get_mut(&key_slot(key)) {
            changed.names.insert((db, key.into()));
        }
    }

    /// A table of `shard` was replaced.
    pub(crate) fn replaced(&self, shard: u16) {
        lock(&self.0[usize::from(shard)]).values_mut().for_each(|changed| changed.replaced = true);
    }
}

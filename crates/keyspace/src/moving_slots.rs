//! The names of changed keys in slots that are being copied: see [`crate::moving`].

use crate::sync::{AtomicU64, Mutex, Ordering, lock};
use std::collections::{BTreeMap, BTreeSet};
use weft_base::slot::key_slot;

/// The changed keys of a slot: database and name.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct ChangedKeys {
    pub names: BTreeSet<(usize, Box<[u8]>)>,
    /// Databases were emptied or exchanged: any key may have changed.
    pub replaced: bool,
}

/// Identifies a copy of slots. An earlier copy of a slot may still end after a later one has begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CopyNumber(u64);

/// The changed keys of a slot, for one copy.
pub(crate) struct Recorded {
    pub(crate) copy: CopyNumber,
    pub(crate) changed: ChangedKeys,
}

/// The recorded slots of each shard. Only the holder of a shard uses its entry.
pub(crate) struct MovingSlots {
    shards: Box<[Mutex<BTreeMap<u16, Recorded>>]>,
    copies: AtomicU64,
    /// How often keys were removed or exchanged other than one by one.
    replacements: AtomicU64,
}

impl MovingSlots {
    pub(crate) fn new(shards: usize) -> MovingSlots {
        MovingSlots {
            shards: (0..shards).map(|_| Mutex::default()).collect(),
            copies: AtomicU64::new(0),
            replacements: AtomicU64::new(0),
        }
    }

    pub(crate) fn new_copy(&self) -> CopyNumber {
        CopyNumber(self.copies.fetch_add(1, Ordering::Relaxed))
    }

    pub(crate) fn replacements(&self) -> u64 {
        self.replacements.load(Ordering::SeqCst)
    }

    /// Keys are about to be removed or exchanged other than one by one.
    pub(crate) fn count_replacement(&self) {
        self.replacements.fetch_add(1, Ordering::SeqCst);
    }

    /// Calls `act` with the recorded slots of a shard.
    pub(crate) fn with<T>(
        &self,
        shard: u16,
        act: impl FnOnce(&mut BTreeMap<u16, Recorded>) -> T,
    ) -> T {
        act(&mut lock(&self.shards[usize::from(shard)]))
    }

    /// A key of `shard` has changed.
    pub(crate) fn note(&self, db: usize, shard: u16, key: &[u8]) {
        if let Some(slot) = lock(&self.shards[usize::from(shard)]).get_mut(&key_slot(key)) {
            slot.changed.names.insert((db, key.into()));
        }
    }

    /// A table of `shard` was replaced.
    pub(crate) fn replaced(&self, shard: u16) {
        let mut slots = lock(&self.shards[usize::from(shard)]);
        slots.values_mut().for_each(|slot| slot.changed.replaced = true);
    }
}

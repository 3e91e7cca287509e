//! The consumers of a group: found by name, iterated in the order of their names, and referred to
//! by a number of four bytes in each pending entry.

use super::sorted::Sorted;
use crate::counted::{CopyOnWrite, Counted, HEADER};
use crate::stream::StreamId;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The number of a consumer in its group. It is reused after the consumer is deleted.
pub type Owner = u32;

/// A consumer.
#[derive(Clone, Debug)]
pub struct Consumer {
    name: Arc<[u8]>,
    /// Time of the last attempt to read (Unix milliseconds).
    pub seen_ms: i64,
    /// Time of the last successful read (Unix milliseconds), if any.
    pub active_ms: Option<i64>,
    /// The ids of the consumer's pending entries.
    pub(super) pending: Sorted<()>,
}

impl CopyOnWrite for Consumer {
    fn owned_memory(&self) -> usize {
        self.pending.own()
    }
}

impl Consumer {
    pub fn name(&self) -> &[u8] {
        &self.name
    }

    /// The number of delivered entries that were not acknowledged. O(1).
    pub fn pending_len(&self) -> usize {
        self.pending.len()
    }

    /// The least and the greatest id of the pending entries.
    pub fn pending_ends(&self) -> Option<(StreamId, StreamId)> {
        self.pending.first().zip(self.pending.last())
    }
}

/// All consumers of a group.
#[derive(Clone, Debug, Default)]
pub(super) struct Consumers {
    by_name: BTreeMap<Arc<[u8]>, Owner>,
    by_number: Vec<Option<Counted<Consumer>>>,
    /// Unused numbers less than the length of `by_number`.
    free: Vec<Owner>,
}

impl Consumers {
    pub(super) fn len(&self) -> usize {
        self.by_name.len()
    }

    /// The number of the consumer with that name. O(log n).
    pub(super) fn find(&self, name: &[u8]) -> Option<Owner> {
        self.by_name.get(name).copied()
    }

    pub(super) fn get(&self, owner: Owner) -> &Consumer {
        let found = self.by_number.get(owner as usize).and_then(|slot| slot.as_deref());
        found.expect("a number of a consumer")
    }

    pub(super) fn get_mut(&mut self, owner: Owner) -> &mut Consumer {
        let found = self.by_number.get_mut(owner as usize).and_then(|slot| slot.as_deref_mut());
        found.expect("a number of a consumer")
    }

    /// Creates a consumer, whose name must be unused. O(log n).
    pub(super) fn create(&mut self, name: &[u8], now_ms: i64) -> Owner {
        let name: Arc<[u8]> = name.into();
        let owner = self.free.pop().unwrap_or_else(|| {
            self.by_number.push(None);
            (self.by_number.len() - 1) as Owner
        });
        self.by_name.insert(name.clone(), owner);
        let consumer =
            Consumer { name, seen_ms: now_ms, active_ms: None, pending: Sorted::default() };
        self.by_number[owner as usize] = Some(Counted::new(consumer));
        owner
    }

    /// Removes a consumer. O(log n).
    pub(super) fn remove(&mut self, name: &[u8]) -> Option<Consumer> {
        let owner = self.by_name.remove(name)?;
        self.free.push(owner);
        self.by_number[owner as usize].take().map(Counted::into_inner)
    }

    /// All consumers in the order of their names.
    pub(super) fn iter(&self) -> impl Iterator<Item = (Owner, &Consumer)> {
        self.by_name.values().map(|owner| (*owner, self.get(*owner)))
    }

    /// Approximate bytes of memory of `by_number`.
    pub(super) fn list(&self) -> usize {
        const EACH: usize = size_of::<Arc<[u8]>>() + size_of::<Owner>() + size_of::<usize>();
        self.by_number.len() * EACH
    }

    /// The approximate number of allocations.
    pub(super) fn pieces(&self) -> usize {
        self.iter().take(1000).map(|(_, consumer)| 2 + 2 * consumer.pending.pieces()).sum()
    }

    /// Approximate bytes of memory, estimated from the first consumers if there are many.
    pub(super) fn memory(&self) -> usize {
        const SAMPLES: usize = 256;
        /// A node of the tree is about two thirds full. The name has two counters.
        const SLOT: usize = (size_of::<Arc<[u8]>>() + size_of::<Owner>()) * 3 / 2 + 16;
        let each = |consumer: &Consumer| {
            HEADER + size_of::<Consumer>() + SLOT + consumer.name.len() + consumer.pending.memory()
        };
        let sampled: usize = self.iter().take(SAMPLES).map(|(_, consumer)| each(consumer)).sum();
        sampled * self.len() / self.len().clamp(1, SAMPLES)
            + self.by_number.capacity() * size_of::<usize>()
            + self.free.capacity() * size_of::<Owner>()
    }
}

//! The consumers of a group: found by name, walked in the order of their names, and named in each
//! pending entry by a number of four bytes.

use super::sorted::Sorted;
use crate::counted::{Counted, HEADER, Piece};
use crate::stream::StreamId;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The number of a consumer in its group; another one may get it when the consumer is deleted.
pub type Owner = u32;

/// One consumer.
#[derive(Clone, Debug)]
pub struct Consumer {
    name: Arc<[u8]>,
    /// When it last tried something (Unix milliseconds).
    pub seen_ms: i64,
    /// When it last got entries (Unix milliseconds), if ever.
    pub active_ms: Option<i64>,
    /// The ids of the pending entries that are its.
    pub(super) pending: Sorted<()>,
}

impl Piece for Consumer {
    fn outside(&self) -> usize {
        self.pending.own()
    }
}

impl Consumer {
    pub fn name(&self) -> &[u8] {
        &self.name
    }

    /// How many entries it has got and not acknowledged. O(1).
    pub fn pending_len(&self) -> usize {
        self.pending.len()
    }

    /// The least and the greatest id of those.
    pub fn pending_ends(&self) -> Option<(StreamId, StreamId)> {
        self.pending.first().zip(self.pending.last())
    }
}

/// All consumers of a group.
#[derive(Clone, Debug, Default)]
pub(super) struct Consumers {
    by_name: BTreeMap<Arc<[u8]>, Owner>,
    by_number: Vec<Option<Counted<Consumer>>>,
    /// Numbers below the length of `by_number` that nobody has.
    free: Vec<Owner>,
}

impl Consumers {
    pub(super) fn len(&self) -> usize {
        self.by_name.len()
    }

    /// The number of the consumer of that name. O(log n).
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

    /// Makes a consumer, whose name nobody has. O(log n).
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

    /// Takes a consumer out. O(log n).
    pub(super) fn remove(&mut self, name: &[u8]) -> Option<Consumer> {
        let owner = self.by_name.remove(name)?;
        self.free.push(owner);
        self.by_number[owner as usize].take().map(Counted::into_inner)
    }

    /// All of them in the order of their names.
    pub(super) fn iter(&self) -> impl Iterator<Item = (Owner, &Consumer)> {
        self.by_name.values().map(|owner| (*owner, self.get(*owner)))
    }

    /// Bytes of memory of the lists of them, about.
    pub(super) fn list(&self) -> usize {
        const EACH: usize = size_of::<Arc<[u8]>>() + size_of::<Owner>() + size_of::<usize>();
        self.by_number.len() * EACH
    }

    /// How many allocations they are.
    pub(super) fn pieces(&self) -> usize {
        self.iter().take(1000).map(|(_, consumer)| 2 + 2 * consumer.pending.pieces()).sum()
    }

    /// Bytes of memory, about: of many consumers from the first ones.
    pub(super) fn memory(&self) -> usize {
        const SAMPLES: usize = 256;
        /// A node of the tree is about two thirds full; the name has two counters.
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

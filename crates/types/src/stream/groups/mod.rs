//! Consumer groups: readers that share the entries of a stream.
//!
//! | file | holds |
//! |---|---|
//! | [`group`] | one group: its read position and its pending entries |
//! | [`consumers`] | its consumers, by name and by number |
//! | [`lag`] | the read position of a group, counted in entries |
//! | [`sorted`], [`blocks`], [`block`] | maps from ids to small values, for lists of pending entries |
//!
//! Groups and consumers are reference-counted: a clone of all groups shares each until it is
//! changed. The first change of a shared group copies the lists of its consumers and of its pages
//! of pending entries.

mod block;
mod blocks;
mod consumers;
mod group;
mod lag;
mod sorted;
#[cfg(test)]
mod tests;

use crate::counted::{Counted, HEADER};
pub use consumers::{Consumer, Owner};
pub use group::{Group, Old, Pending};
pub use lag::Counts;
use std::collections::BTreeMap;

/// A value of a [`sorted::Sorted`].
trait Timed: Copy {
    /// The time that walks filter by (Unix milliseconds).
    fn time_ms(&self) -> i64;
}

impl Timed for () {
    fn time_ms(&self) -> i64 {
        0
    }
}

/// All groups of a stream.
#[derive(Clone, Debug, Default)]
pub struct Groups {
    by_name: BTreeMap<Box<[u8]>, Counted<Group>>,
}

impl Groups {
    pub fn len(&self) -> usize {
        self.by_name.len()
    }

    pub fn is_empty(&self) -> bool {
        self.by_name.is_empty()
    }

    /// The group with that name. O(log n), as those below.
    pub fn get(&self, name: &[u8]) -> Option<&Group> {
        self.by_name.get(name).map(|group| &**group)
    }

    pub fn get_mut(&mut self, name: &[u8]) -> Option<&mut Group> {
        self.by_name.get_mut(name).map(|group| &mut **group)
    }

    /// Adds a group. Returns false if one with that name exists.
    pub fn create(&mut self, name: &[u8], group: Group) -> bool {
        if self.by_name.contains_key(name) {
            return false;
        }
        self.by_name.insert(name.into(), Counted::new(group));
        true
    }

    /// Removes a group. Dropping one with many pending entries takes long.
    pub fn remove(&mut self, name: &[u8]) -> Option<Group> {
        self.by_name.remove(name).map(Counted::into_inner)
    }

    /// All groups in the order of their names.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], &Group)> {
        self.by_name.iter().map(|(name, group)| (&name[..], &**group))
    }

    /// The approximate number of allocations. Stops counting at `most` or slightly later.
    pub fn pieces(&self, most: usize) -> usize {
        let mut pieces = 0;
        for group in self.by_name.values() {
            pieces += 3 + group.pieces();
            if pieces >= most {
                break;
            }
        }
        pieces
    }

    /// Bytes of memory, estimated from the first groups if there are many.
    pub fn memory(&self) -> usize {
        const SAMPLES: usize = 64;
        let sampled = self.by_name.iter().take(SAMPLES);
        let bytes: usize = sampled
            .map(|(name, group)| {
                let slot = (size_of::<Box<[u8]>>() + size_of::<Counted<Group>>()) * 3 / 2;
                name.len() + slot + HEADER + size_of::<Group>() + group.memory()
            })
            .sum();
        bytes * self.len() / self.len().clamp(1, SAMPLES)
    }
}

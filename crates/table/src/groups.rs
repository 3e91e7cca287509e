//! Groups: records that a hasher keeps together, and their numbers.
//!
//! In a cluster, a node gives all keys of a hash slot away, lists them or counts them. A table has
//! the keys of 64 slots. A hasher with groups puts the number of a key's group into the top
//! [`GROUP_BITS`] of its hash. Segments follow the hash's prefix, so the records of a group are
//! neighbours: a walk over a group visits its segments and no others. In a table of few segments,
//! some contain several groups, and a walk skips the records of the other ones. There are at most a
//! few hundred of them, since a full segment is split.
//!
//! The numbers of records are counted here. Only creation and removal of a record change them.

use std::ops::Range;

use crate::counter::Counter;

/// Leading bits of a hash that are its group.
pub const GROUP_BITS: u32 = 6;
/// The number of groups.
pub const GROUPS: usize = 1 << GROUP_BITS;

/// The group of a hash.
#[inline(always)]
pub(crate) fn group_of(hash: u64) -> usize {
    (hash >> (64 - GROUP_BITS)) as usize
}

/// A hash with the group `group`, which must be below [`GROUPS`], and the other bits of `hash`.
#[inline(always)]
#[must_use]
pub fn grouped(hash: u64, group: usize) -> u64 {
    const REST: u64 = u64::MAX >> GROUP_BITS;
    hash & REST | (group as u64) << (64 - GROUP_BITS)
}

/// The prefixes of the hashes in a group: their top 32 bits.
pub(crate) fn prefixes_of(group: usize) -> Range<u64> {
    const WIDTH: u32 = 32 - GROUP_BITS;
    let group = group as u64;
    group << WIDTH..(group + 1) << WIDTH
}

/// The numbers of records of each group. One thread changes them: the holder of the table's lock.
pub(crate) struct Groups {
    counts: [Counter; GROUPS],
    /// Words in the directories of groups.
    pub(crate) words: Counter,
}

impl Default for Groups {
    fn default() -> Self {
        Groups { counts: [const { Counter::new() }; GROUPS], words: Counter::new() }
    }
}

impl Groups {
    pub(crate) fn len(&self, group: usize) -> usize {
        self.counts[group].get()
    }

    pub(crate) fn add(&self, hash: u64) {
        self.counts[group_of(hash)].add(1);
    }

    pub(crate) fn sub(&self, hash: u64) {
        self.counts[group_of(hash)].sub(1);
    }

    pub(crate) fn clear(&self) {
        self.all().for_each(|count| count.set(0));
    }

    pub(crate) fn swap(&self, other: &Groups) {
        for (a, b) in self.all().zip(other.all()) {
            let value = a.get();
            a.set(b.get());
            b.set(value);
        }
    }

    fn all(&self) -> impl Iterator<Item = &Counter> {
        self.counts.iter().chain([&self.words])
    }

    /// The group of the record number `at`, if records are numbered by groups. `at` must be less
    /// than their number.
    pub(crate) fn group_at(&self, mut at: usize) -> usize {
        for (group, count) in self.counts.iter().enumerate() {
            match at.checked_sub(count.get()) {
                Some(rest) => at = rest,
                None => return group,
            }
        }
        GROUPS - 1
    }
}

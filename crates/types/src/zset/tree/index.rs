//! Maps a member's hash to the leaf that holds the member.
//!
//! An extendible hash table (Fagin, Nievergelt, Pippenger, Strong, TODS 4(3), 1979) whose buckets
//! are arrays sorted by hash:
//!
//! ```text
//!  directory, by the first bits of the hash     segment: hashes of one prefix, ascending
//!   000 ─┐
//!   001 ─┴─► segment 00    depth 2              [ hash, leaf ][ hash, leaf ] ... up to 256
//!   010 ───► segment 010   depth 3
//!   011 ───► segment 011   depth 3
//!   1xx ───► segment 1     depth 1
//! ```
//!
//! * **Small.** An entry is eight bytes: 32 bits of hash and the number of a leaf. The member is
//!   only in the leaf. A sorted array has no empty slots, so nearly all of the memory is entries.
//! * **Fast.** Hashes are uniform, so the hash predicts the position of an entry. The search starts
//!   there and is about five entries off, within a cache line or two.
//! * **No large steps.** A full segment is split. Only the directory doubles, and it has a
//!   four-byte number for some two hundred entries.
//! * **A scan walks along the hashes.** A member's position depends only on its hash. So a member
//!   that exists throughout a scan is passed, whatever is split, merged or moved meanwhile.

use super::arena::{Arena, Id};

/// A segment of this many entries is split.
const FULL: usize = 256;
/// Two halves of a segment are joined when they have at most this many entries together.
const JOIN: usize = FULL * 3 / 8;
/// A segment's capacity grows in steps of this many entries.
const STEP: usize = 32;
/// No segment is deeper: the directory has at most 64 Mi entries, enough for 10^10 members.
const DEEPEST: u32 = 26;

/// A hash and a leaf.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Entry(u64);

impl Entry {
    fn new(hash: u32, leaf: Id) -> Self {
        Entry(u64::from(hash) << 32 | u64::from(leaf))
    }

    #[inline]
    fn hash(self) -> u32 {
        (self.0 >> 32) as u32
    }

    #[inline]
    fn leaf(self) -> Id {
        self.0 as u32
    }
}

#[derive(Clone, Debug, Default)]
struct Segment {
    /// The number of leading hash bits that all entries share.
    depth: u32,
    /// Sorted by hash; entries of the same hash are in any order.
    entries: Vec<Entry>,
}

impl Segment {
    /// The index of the first entry of `hash`, or where it would be inserted.
    #[inline]
    fn place(&self, hash: u32) -> usize {
        let entries = &self.entries[..];
        let fraction = u64::from(hash << self.depth);
        let mut at = ((fraction * entries.len() as u64) >> 32) as usize;
        while at < entries.len() && entries[at].hash() < hash {
            at += 1;
        }
        while at > 0 && entries[at - 1].hash() >= hash {
            at -= 1;
        }
        at
    }

    /// The index of the entry of `hash` and `leaf`.
    #[inline]
    fn find(&self, hash: u32, leaf: Id) -> usize {
        let wanted = Entry::new(hash, leaf);
        let from = self.place(hash);
        let offset = self.entries[from..].iter().position(|e| *e == wanted);
        from + offset.expect("an entry for every member")
    }

    fn insert(&mut self, entry: Entry) {
        let at = self.place(entry.hash());
        if self.entries.len() == self.entries.capacity() {
            // More than a step only if a segment could not be split.
            self.entries.reserve_exact(STEP.max(at / 8));
        }
        self.entries.insert(at, entry);
    }

    /// Frees memory when two steps or more are unused.
    fn trim(&mut self) {
        if self.entries.capacity() >= self.entries.len() + 2 * STEP {
            self.entries.shrink_to(self.entries.len().next_multiple_of(STEP));
        }
    }
}

/// The index of a tree's members.
#[derive(Clone, Debug)]
pub(super) struct Index {
    /// Indexed by the first `depth` bits of a hash; the length is a power of two.
    directory: Vec<Id>,
    depth: u32,
    segments: Arena<Segment>,
    /// The number of segments, and the number of them as deep as the directory.
    count: usize,
    deepest: usize,
}

impl Index {
    pub(super) fn new() -> Self {
        let mut segments = Arena::new();
        let only = segments.insert(Segment::default());
        Index { directory: vec![only], depth: 0, segments, count: 1, deepest: 1 }
    }

    /// The index of a tree without lookups of members, which would panic.
    pub(super) fn none() -> Self {
        Index { directory: Vec::new(), depth: 0, segments: Arena::new(), count: 0, deepest: 0 }
    }

    #[inline]
    fn slot(&self, hash: u32) -> usize {
        (u64::from(hash) << self.depth >> 32) as usize
    }

    #[inline]
    fn segment(&self, hash: u32) -> &Segment {
        &self.segments[self.directory[self.slot(hash)]]
    }

    #[inline]
    fn segment_mut(&mut self, hash: u32) -> &mut Segment {
        let id = self.directory[self.slot(hash)];
        &mut self.segments[id]
    }

    /// The leaves that may hold a member with this hash: nearly always none or one.
    #[inline]
    pub(super) fn find(&self, hash: u32) -> impl Iterator<Item = Id> {
        let segment = self.segment(hash);
        let from = segment.place(hash);
        segment.entries[from..].iter().take_while(move |e| e.hash() == hash).map(|e| e.leaf())
    }

    /// Adds an entry. Expected O(1), with an occasional split of a segment.
    pub(super) fn insert(&mut self, hash: u32, leaf: Id) {
        if self.segment(hash).entries.len() >= FULL {
            self.split(hash);
        }
        self.segment_mut(hash).insert(Entry::new(hash, leaf));
    }

    /// Removes the entry of a member in `leaf`, which must exist.
    pub(super) fn remove(&mut self, hash: u32, leaf: Id) {
        let segment = self.segment_mut(hash);
        let at = segment.find(hash, leaf);
        segment.entries.remove(at);
        segment.trim();
        if segment.entries.len() < JOIN {
            while self.join(hash) {}
        }
    }

    /// Updates the entry of a member that has moved to another leaf.
    #[inline]
    pub(super) fn relocate(&mut self, hash: u32, from: Id, to: Id) {
        let segment = self.segment_mut(hash);
        let at = segment.find(hash, from);
        segment.entries[at] = Entry::new(hash, to);
    }

    /// Splits the segment of `hash`, unless the directory would become disproportionate. In that
    /// case the hashes are not uniform, and the segment just grows.
    fn split(&mut self, hash: u32) {
        let id = self.directory[self.slot(hash)];
        let depth = self.segments[id].depth;
        if depth == self.depth {
            if depth == DEEPEST || self.directory.len() > 16 * self.count {
                return;
            }
            self.double();
        }
        let segment = &mut self.segments[id];
        let bit = 1 << (31 - depth);
        let middle = segment.entries.partition_point(|e| e.hash() & bit == 0);
        let mut upper = Segment { depth: depth + 1, entries: Vec::new() };
        upper.entries.reserve_exact((segment.entries.len() - middle + 1).next_multiple_of(STEP));
        upper.entries.extend_from_slice(&segment.entries[middle..]);
        segment.entries.truncate(middle);
        segment.depth += 1;
        segment.trim();
        let upper = self.segments.insert(upper);
        // The second half of the segment's slots is now the new segment's.
        let slots = 1usize << (self.depth - depth);
        let first = self.slot(hash) & !(slots - 1);
        self.directory[first + slots / 2..first + slots].fill(upper);
        self.count += 1;
        if depth + 1 == self.depth {
            self.deepest += 2;
        }
    }

    /// Doubles the directory.
    fn double(&mut self) {
        let mut doubled = Vec::with_capacity(2 * self.directory.len());
        self.directory.iter().for_each(|id| doubled.extend([*id, *id]));
        self.directory = doubled;
        self.depth += 1;
        self.deepest = 0;
    }

    /// Joins the segment of `hash` with its sibling of the same split if both are small. Returns
    /// whether it did.
    fn join(&mut self, hash: u32) -> bool {
        let id = self.directory[self.slot(hash)];
        let depth = self.segments[id].depth;
        if depth == 0 {
            return false;
        }
        let buddy = self.directory[self.slot(hash ^ 1 << (32 - depth))];
        let together = self.segments[id].entries.len() + self.segments[buddy].entries.len();
        if self.segments[buddy].depth != depth || together > JOIN {
            return false;
        }
        let (lower, upper) = if hash & 1 << (32 - depth) == 0 { (id, buddy) } else { (buddy, id) };
        let gone = self.segments.remove(upper);
        let segment = &mut self.segments[lower];
        segment.entries.reserve_exact(together.next_multiple_of(STEP) - segment.entries.len());
        segment.entries.extend(gone.entries);
        segment.depth -= 1;
        let slots = 1usize << (self.depth - (depth - 1));
        let first = self.slot(hash) & !(slots - 1);
        self.directory[first..first + slots].fill(lower);
        self.count -= 1;
        if depth == self.depth {
            self.deepest -= 2;
            self.halve();
        }
        true
    }

    /// Halves the directory while no segment is as deep as it.
    fn halve(&mut self) {
        while self.deepest == 0 && self.depth > 0 {
            self.directory = self.directory.iter().copied().step_by(2).collect();
            self.depth -= 1;
            let deep = |slot: &usize| self.segments[self.directory[*slot]].depth == self.depth;
            self.deepest = (0..self.directory.len()).filter(deep).count();
        }
    }

    /// The first hash from `from` on that has entries. Sets `leaves` to their leaves, sorted and
    /// distinct.
    pub(super) fn next_hash(&self, from: u32, leaves: &mut Vec<Id>) -> Option<u32> {
        leaves.clear();
        let mut hash = from;
        loop {
            let segment = self.segment(hash);
            let at = segment.place(hash);
            if let Some(first) = segment.entries.get(at) {
                let same = segment.entries[at..].iter().take_while(|e| e.hash() == first.hash());
                leaves.extend(same.map(|e| e.leaf()));
                leaves.sort_unstable();
                leaves.dedup();
                return Some(first.hash());
            }
            // Continue with the first hash of the next segment.
            let width = 1u64 << (32 - segment.depth);
            hash = u32::try_from((u64::from(hash) & !(width - 1)) + width).ok()?;
        }
    }

    /// Bytes of memory.
    pub(super) fn memory(&self) -> usize {
        let entries: usize = self.segments.iter().map(|s| s.entries.capacity()).sum();
        entries * size_of::<Entry>() + self.directory.capacity() * 4 + self.segments.memory()
    }

    /// Panics unless the invariants of the module documentation hold; for tests.
    #[cfg(test)]
    pub(super) fn check(&self) -> usize {
        assert_eq!(self.directory.len(), 1 << self.depth);
        let mut total = 0;
        let mut slot = 0;
        let (mut count, mut deepest) = (0, 0);
        while slot < self.directory.len() {
            let id = self.directory[slot];
            let segment = &self.segments[id];
            let slots = 1usize << (self.depth - segment.depth);
            assert!(self.directory[slot..slot + slots].iter().all(|other| *other == id));
            assert!(segment.entries.is_sorted_by_key(|e| e.hash()));
            for e in &segment.entries {
                assert_eq!(self.slot(e.hash()) / slots, slot / slots, "in the wrong segment");
            }
            total += segment.entries.len();
            slot += slots;
            count += 1;
            deepest += usize::from(segment.depth == self.depth);
        }
        assert_eq!((count, deepest), (self.count, self.deepest));
        assert_eq!(self.segments.iter().count(), count);
        total
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn all(index: &Index) -> Vec<(u32, Vec<Id>)> {
        let mut found = Vec::new();
        let mut leaves = Vec::new();
        let mut from = Some(0);
        while let Some(hash) = from.and_then(|from| index.next_hash(from, &mut leaves)) {
            found.push((hash, leaves.clone()));
            from = hash.checked_add(1);
        }
        found
    }

    /// Spreads small numbers over all hashes.
    fn spread(n: u32) -> u32 {
        n.wrapping_mul(0x9e37_79b1)
    }

    #[test]
    fn grows_and_shrinks() {
        let mut index = Index::new();
        let n = 20_000;
        for i in 0..n {
            index.insert(spread(i), i);
        }
        assert_eq!(index.check(), n as usize);
        let full = index.memory();
        assert!(full < n as usize * 11, "{full}");
        for i in 0..n {
            assert_eq!(index.find(spread(i)).collect::<Vec<_>>(), [i]);
            index.relocate(spread(i), i, i + 1);
        }
        assert_eq!(all(&index).len(), n as usize);
        for i in 0..n {
            index.remove(spread(i), i + 1);
            if i % 1000 == 0 {
                index.check();
            }
        }
        assert_eq!(index.check(), 0);
        assert!(index.memory() < 4096, "{} is left", index.memory());
    }

    #[test]
    fn equal_hashes_do_not_grow_the_directory() {
        let mut index = Index::new();
        for i in 0..2000 {
            index.insert(0xffff_ffff, i);
            index.insert(0, i);
        }
        assert_eq!(index.check(), 4000);
        assert!(index.memory() < 4000 * 8 + 8192, "{}", index.memory());
        assert_eq!(index.find(0).count(), 2000);
        assert_eq!(all(&index), [(0, (0..2000).collect()), (u32::MAX, (0..2000).collect())]);
        for i in 0..2000 {
            index.remove(0, i);
            index.remove(u32::MAX, i);
        }
        assert_eq!(index.check(), 0);
    }

    proptest! {
        /// Uses hashes of a few bits, so that some are equal and segments are uneven.
        #[test]
        fn matches_a_multiset(steps in prop::collection::vec((any::<bool>(), 0u32..40, 0u32..4), 0..600)) {
            let mut index = Index::new();
            let mut model: Vec<(u32, Id)> = Vec::new();
            for (add, hash, leaf) in steps {
                let hash = hash << 27 | hash;
                if add {
                    index.insert(hash, leaf);
                    model.push((hash, leaf));
                } else if let Some(at) = model.iter().position(|e| *e == (hash, leaf)) {
                    index.remove(hash, leaf);
                    model.swap_remove(at);
                }
            }
            prop_assert_eq!(index.check(), model.len());
            model.sort_unstable();
            for (hash, _) in &model {
                let mut found: Vec<_> = index.find(*hash).collect();
                found.sort_unstable();
                let want: Vec<_> = model.iter().filter(|e| e.0 == *hash).map(|e| e.1).collect();
                prop_assert_eq!(found, want);
            }
        }
    }
}

//! Adapts the shape of the table to its contents.
//!
//! Growth happens in this order. An empty table gets a segment of one bucket. A full segment is
//! rebuilt one size larger, from its words alone. A full segment of the largest size is split in
//! two by the next bit of the hash. Slots don't store that bit, so all keys are prefetched, read
//! and hashed again. If the directory cannot separate the halves, it is doubled first.
//!
//! Shrinking is the reverse with hysteresis, so that a table whose size varies a little keeps its
//! shape. When a segment falls below a quarter of its slots, it is merged with its buddy (the one
//! that differs in the last bit of their prefix) if both together fill at most half a segment.
//! Otherwise it is rebuilt smaller. The directory is halved when no segment needs its depth and it
//! has four words for every segment.
//!
//! In a forest (`directory.rs`), the same happens in the directory of a group.
//!
//! Every step handles at most two segments, some 300 entries, in a few microseconds. Only doubling
//! and halving the directory copy more: 8 bytes for every 120 records or so, 16 KiB per million.

use std::sync::atomic::Ordering;

use crate::borrow::RecordRef;
use crate::directory::Root;
use crate::groups::{GROUP_BITS, group_of};
use crate::ops::TableMut;
use crate::prefetch::prefetch_read;
use crate::record::Owner;
use crate::segment::{LINE, MAX_SLOTS, Segment, SegmentWord, limit, size_above, size_for};
use crate::slot::Word;
use crate::table::KeyHasher;

/// Buddies with more entries than this are not merged. They split again at 7/8 of [`MAX_SLOTS`],
/// far enough away to avoid oscillation.
const MERGE_MAX: usize = MAX_SLOTS / 2;

/// The directory is halved when it has this many words per segment. With a good hash it needs one
/// to two.
const HALVE_RATIO: usize = 4;

impl<'t, O: Owner, H: KeyHasher> TableMut<'t, O, H> {
    /// Grows the table until the segment for `hash` has room for another entry.
    #[cold]
    pub(crate) fn make_room(&mut self, hash: u64) -> Segment<'t> {
        loop {
            let Some((word, segment)) = self.segment(hash) else {
                let first = self.allocate(1, 0);
                self.table.segments.set(1);
                self.table.set_root(Root::single(first));
                continue;
            };
            if segment.len() < limit(segment.buckets.len()) {
                return segment;
            }
            match size_above(segment.buckets.len()) {
                Some(buckets) => self.rebuild(hash, word, segment, buckets),
                None => self.split(hash, word, segment),
            }
        }
    }

    /// Frees memory after a removal from the segment for `hash`.
    #[cold]
    pub(crate) fn shrink(&mut self, hash: u64) {
        let mut merged = false;
        while self.merge(hash) {
            merged = true;
        }
        if merged {
            self.trim_group(hash);
            self.trim_directory();
        }
        let Some((word, segment)) = self.segment(hash) else {
            return;
        };
        if self.is_empty() && self.table.segments.get() == 1 {
            self.table.set_root(Root::EMPTY);
            self.table.segments.set(0);
            self.retire(word);
        } else if segment.len() * 4 < segment.slots() {
            let buckets = size_for(segment.len());
            if buckets < segment.buckets.len() {
                self.rebuild(hash, word, segment, buckets);
            }
        }
    }

    fn allocate(&mut self, buckets: usize, depth: u32) -> SegmentWord {
        let word = SegmentWord::allocate(buckets, depth);
        self.table.lines.add(word.bytes() / LINE);
        word
    }

    /// Retires a segment to which no root or directory word leads any more.
    fn retire(&mut self, word: SegmentWord) {
        self.table.lines.sub(word.bytes() / LINE);
        // SAFETY: the callers, all in this file, have replaced every word that led to this segment,
        // and do not use views of it afterwards.
        unsafe { word.retire() };
    }

    /// Enters a segment for all hashes that share `depth` bits with `hash`.
    fn publish(&mut self, hash: u64, depth: u32, segment: SegmentWord) {
        let root = self.root();
        if root.depth() == 0 {
            self.table.set_root(Root::single(segment));
            return;
        }
        if root.is_forest() {
            // SAFETY: the root's directory lives until this thread replaces it.
            let group = unsafe { root.group(group_of(hash)) };
            if group.depth() > 0 {
                self.publish_in_group(hash, depth, segment, group);
                return;
            }
        }
        store(root, hash, depth, segment);
    }

    /// As [`TableMut::publish`], for a group with a directory.
    fn publish_in_group(&mut self, hash: u64, depth: u32, segment: SegmentWord, group: Root) {
        if depth == GROUP_BITS {
            self.replace_group(hash, Root::single(segment));
        } else {
            store(group, hash << GROUP_BITS, depth - GROUP_BITS, segment);
        }
    }

    /// Replaces the root of a group in the forest, and frees its directory.
    fn replace_group(&mut self, hash: u64, new: Root) {
        let root = self.root();
        debug_assert!(root.is_forest());
        // SAFETY: the root's directory lives until this thread replaces it.
        let word = &unsafe { root.words() }[group_of(hash)];
        let old = Root::from_raw(word.swap(new.into_raw(), Ordering::AcqRel));
        if let Some(groups) = &self.table.groups {
            groups.words.add(new.len());
            groups.words.sub(old.len());
        }
        // SAFETY: no longer the root of the group, and not used any more.
        unsafe { old.retire() };
    }

    /// Replaces a segment with one of another size with the same entries.
    fn rebuild(&mut self, hash: u64, word: SegmentWord, old: Segment<'_>, buckets: usize) {
        let depth = old.depth();
        let new = self.allocate(buckets, depth);
        fill(new, old.words());
        self.publish(hash, depth, new);
        self.retire(word);
    }

    /// Replaces a segment with two of the next depth.
    fn split(&mut self, hash: u64, word: SegmentWord, old: Segment<'_>) {
        let depth = old.depth();
        let halves = self.partition(old, depth);
        self.deepen(hash, depth);
        let root = self.root();
        let deepest = !root.is_forest() && depth + 1 == root.depth();
        for (half, bit) in [(halves.zeros(), 0), (halves.ones(), 1)] {
            let new = self.allocate(size_for(half.len()), depth + 1);
            fill(new, half.iter().copied());
            let position = 63 - depth;
            self.publish(hash & !(1 << position) | bit << position, depth + 1, new);
        }
        self.retire(word);
        self.table.segments.add(1);
        self.table.deepest.add(if deepest { 2 } else { 0 });
    }

    /// Sorts the words of a segment by the first bit of the hash that its entries do not share.
    /// Calls the table's hasher before anything changes, so that it may panic.
    fn partition(&self, segment: Segment<'_>, depth: u32) -> Halves {
        let mut all = [Word::EMPTY; MAX_SLOTS];
        let mut len = 0;
        for word in segment.words() {
            if let Some(record) = word.record() {
                // Header, expiry and a short key: 32 bytes, often in two lines.
                prefetch_read(record.as_ptr());
                prefetch_read(record.as_ptr().cast_const().wrapping_add(32));
                all[len] = word;
                len += 1;
            }
        }
        let mut halves = Halves::EMPTY;
        for word in &all[..len] {
            if let Some(record) = word.record() {
                // SAFETY: a word in a slot stands for a live record of `O`.
                let record = unsafe { RecordRef::<O>::from_raw(record) };
                let hash = self.table.hasher.hash(record.key());
                halves.push(*word, (hash >> (63 - depth)) & 1 == 1);
            }
        }
        halves
    }

    /// Merges the segment for `hash` with its buddy if both are small and of the same depth.
    /// Returns whether it did.
    fn merge(&mut self, hash: u64) -> bool {
        let Some((word, segment)) = self.segment(hash) else {
            return false;
        };
        let depth = segment.depth();
        if depth == 0 {
            return false;
        }
        let Some((buddy_word, buddy)) = self.segment(hash ^ (1 << (64 - depth))) else {
            return false;
        };
        let len = segment.len() + buddy.len();
        if buddy.depth() != depth || len > MERGE_MAX {
            return false;
        }
        let merged = self.allocate(size_for(len), depth - 1);
        fill(merged, segment.words().chain(buddy.words()));
        let root = self.root();
        let was_deepest = !root.is_forest() && depth == root.depth();
        self.publish(hash, depth - 1, merged);
        self.retire(word);
        self.retire(buddy_word);
        self.table.segments.sub(1);
        self.table.deepest.sub(if was_deepest { 2 } else { 0 });
        true
    }

    /// Makes the directory deep enough to split a segment of depth `depth`.
    fn deepen(&mut self, hash: u64, depth: u32) {
        if !self.root().is_forest() {
            if depth < self.root().depth() {
                return;
            }
            if self.table.groups.is_none() || depth < GROUP_BITS {
                self.double_directory();
                return;
            }
            self.make_forest();
        }
        if depth < GROUP_BITS {
            return;
        }
        // SAFETY: this is the table's directory.
        let group = unsafe { self.root().group(group_of(hash)) };
        if depth - GROUP_BITS == group.depth() {
            self.replace_group(hash, doubled(group));
        }
    }

    fn make_forest(&mut self) {
        let old = self.root();
        debug_assert_eq!(old.depth(), GROUP_BITS);
        // SAFETY: this is the table's directory until `set_root` below.
        let words = unsafe { old.words() };
        // Not in place: planners that have read the old root expect segments in its words.
        self.table.set_root(Root::forest(|i| Root::single(load(words, i))));
        self.table.deepest.set(0);
        // SAFETY: no longer the table's root, and not used any more.
        unsafe { old.retire() };
    }

    fn double_directory(&mut self) {
        let old = self.root();
        let new = doubled(old);
        self.table.deepest.set(0);
        self.table.set_root(new);
        // SAFETY: no longer the table's root, and not used any more.
        unsafe { old.retire() };
    }

    /// Halves the directory of a group while it is much too large. O(words of it).
    fn trim_group(&mut self, hash: u64) {
        while self.root().is_forest() {
            // SAFETY: this is the table's directory.
            let old = unsafe { self.root().group(group_of(hash)) };
            // SAFETY: the directory of the group lives until this thread replaces it, below.
            let words = unsafe { old.words() };
            let is_pair = |i: usize| load(words, 2 * i) == load(words, 2 * i + 1);
            let may_halve = old.depth() > 1 && (0..words.len() / 2).all(is_pair);
            let is_first = |i: &usize| *i == 0 || load(words, *i) != load(words, i - 1);
            if !may_halve || (0..words.len()).filter(is_first).count() * HALVE_RATIO > words.len() {
                return;
            }
            self.replace_group(hash, Root::directory(old.depth() - 1, |i| load(words, 2 * i)));
        }
    }

    /// Turns a forest into a directory, unless a group has a directory. Returns whether it did.
    fn flatten(&mut self) -> bool {
        let old = self.root();
        // SAFETY: this is the table's directory until `set_root` below.
        let words = unsafe { old.words() };
        if words.iter().any(|word| Root::from_raw(word.load(Ordering::Relaxed)).depth() > 0) {
            return false;
        }
        let new = Root::directory(GROUP_BITS, |i| load(words, i));
        self.table.deepest.set(deepest(new));
        self.table.set_root(new);
        // SAFETY: no longer the table's root, and not used any more.
        unsafe { old.retire() };
        true
    }

    /// Turns a forest without directories of groups into a directory, and halves the directory
    /// while it is much too large.
    fn trim_directory(&mut self) {
        if self.root().is_forest() && !self.flatten() {
            return;
        }
        loop {
            let old = self.root();
            let segments = self.table.segments.get();
            if old.depth() == 0 {
                return;
            }
            // SAFETY: this is the table's directory until `set_root` below.
            let words = unsafe { old.words() };
            let new = if segments == 1 {
                Root::single(load(words, 0))
            } else if self.table.deepest.get() == 0 && segments * HALVE_RATIO <= words.len() {
                Root::directory(old.depth() - 1, |i| load(words, 2 * i))
            } else {
                return;
            };
            self.table.deepest.set(deepest(new));
            self.table.set_root(new);
            // SAFETY: no longer the table's root, and not used any more.
            unsafe { old.retire() };
        }
    }
}

/// A directory twice as large, with the segments of `root`.
fn doubled(root: Root) -> Root {
    if root.depth() == 0 {
        let only = SegmentWord::from_raw(root.into_raw());
        return Root::directory(1, |_| only);
    }
    // SAFETY: the callers replace and retire the directory afterwards.
    let words = unsafe { root.words() };
    Root::directory(root.depth() + 1, |i| load(words, i / 2))
}

/// Enters a segment into a directory, for all hashes that share `depth` bits with `hash`.
fn store(root: Root, hash: u64, depth: u32, segment: SegmentWord) {
    let free_bits = root.depth() - depth;
    let first = root.index(hash) >> free_bits << free_bits;
    // SAFETY: the directory lives until the caller, the holder of the lock, replaces it.
    let words = unsafe { root.words() };
    for word in &words[first..first + (1 << free_bits)] {
        word.store(segment.into_raw(), Ordering::Release);
    }
}

/// The number of segments with the depth of the directory: such a segment is in one word only, so
/// it differs from the neighbour that shares all bits but one.
fn deepest(root: Root) -> usize {
    // SAFETY: the callers have just made this root.
    let words = unsafe { root.words() };
    (0..words.len()).filter(|&i| load(words, i) != load(words, i ^ 1)).count()
}

fn load(words: &[std::sync::atomic::AtomicPtr<u8>], i: usize) -> SegmentWord {
    SegmentWord::from_raw(words[i].load(Ordering::Relaxed))
}

/// Places words into a newly allocated segment.
fn fill(new: SegmentWord, words: impl Iterator<Item = Word>) {
    // SAFETY: the segment is not published yet. The words come from slots of this table and stand
    // for live records.
    let segment = unsafe { new.view() };
    for word in words {
        segment.place(word);
    }
}

/// Up to [`MAX_SLOTS`] words in two groups. One grows from the front of the array, the other from
/// the back.
struct Halves {
    words: [Word; MAX_SLOTS],
    zeros: usize,
    ones: usize,
}

impl Halves {
    const EMPTY: Halves = Halves { words: [Word::EMPTY; MAX_SLOTS], zeros: 0, ones: 0 };

    fn push(&mut self, word: Word, one: bool) {
        if one {
            self.ones += 1;
            self.words[MAX_SLOTS - self.ones] = word;
        } else {
            self.words[self.zeros] = word;
            self.zeros += 1;
        }
    }

    fn zeros(&self) -> &[Word] {
        &self.words[..self.zeros]
    }

    fn ones(&self) -> &[Word] {
        &self.words[MAX_SLOTS - self.ones..]
    }
}

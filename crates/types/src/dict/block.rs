//! The block of a segment: its entries, and sorted words that locate them.
//!
//! ```text
//!  block = | words, sorted | free ... | entries, the newest first |
//!                                     |<--------- used ---------->|
//!  word  = 16 bits of the hash after the range's prefix, 16 bits of distance from the end of
//!          the block to the entry (u32 LE, with the hash in the high half)
//! ```
//!
//! The words are sorted, and the hashes of a range are uniform. So the hash and the count predict
//! the position of a word to within a few words (interpolation search; W. W. Peterson: Addressing
//! for Random-Access Storage, IBM J. 1(2), 1957). A lookup thus reads one cache line of words,
//! rarely two, and that of the entry. Sixteen bits of hash leave next to no false matches.
//!
//! Words and entries grow towards each other, so one free gap serves both. Distances from the end
//! stay valid when the block grows. A removal closes its hole at once, by moving some hundred
//! bytes. There is no garbage, and the block is at most one size class larger than its contents.
//!
//! An entry of more than [`NEAR_MAX`] bytes is kept in a block of its own, and its index is stored
//! here.
//!
//! Blocks are reference-counted: a clone shares them with its original until either is changed.

use super::entry::{self, Entry, FAR_LEN};
use super::segment::Put;
use crate::counted::{Counted, CountedRow, HEADER};

/// A segment with more entries is split.
pub(super) const COUNT_SPLIT: usize = 128;

/// A segment with more bytes is split.
const BYTES_SPLIT: usize = 4096;

/// The longest entry that is stored in the block itself (bytes).
const NEAR_MAX: usize = 1024;

/// The most entries of a segment that can't be split.
const COUNT_MAX: usize = 1024;

/// The most bytes of entries of a segment that can't be split: distances have 16 bits.
const USED_MAX: usize = 60_000;

/// Bytes of a word.
const WORD: usize = 4;

/// The entries of a segment as long as their hashes distinguish them: see above.
#[derive(Clone, Debug, Default)]
pub(super) struct Packed {
    block: CountedRow<u8>,
    /// The blocks of far entries, in no order. Boxed because they are rare and segments must be
    /// small.
    far: Option<Counted<Vec<CountedRow<u8>>>>,
    count: u16,
    /// Bytes of entries.
    used: u16,
    depth: u8,
    /// Whether an entry may have an expiry: true once one had.
    expires: bool,
}

/// Whether there is room for another entry.
pub(super) enum Room {
    Enough,
    /// Only after the segment is split.
    SplitFirst,
    /// No, and splitting would not help.
    MailboxFull,
}

/// The length of a block for `needed` bytes. Together with the count before it, it is one of the
/// allocator's size classes, four to a doubling.
fn block_len(needed: usize) -> usize {
    let class = match needed + HEADER {
        HEADER => return 0,
        all @ ..=64 => all.next_multiple_of(16),
        all => all.next_multiple_of(1 << ((all - 1).ilog2() - 2)),
    };
    class - HEADER
}

/// Bytes of an entry in a block.
#[inline]
fn len_in_block(entry: &Entry<'_>) -> usize {
    match entry.near_len() {
        near @ 0..=NEAR_MAX => near,
        _ => FAR_LEN,
    }
}

#[inline]
fn word_of(fragment: u16, distance: usize) -> [u8; WORD] {
    (u32::from(fragment) << 16 | distance as u32).to_le_bytes()
}

#[inline]
fn fragment_of(word: [u8; WORD]) -> u16 {
    (u32::from_le_bytes(word) >> 16) as u16
}

#[inline]
fn distance_of(word: [u8; WORD]) -> usize {
    usize::from(u32::from_le_bytes(word) as u16)
}

impl Packed {
    /// An empty block for a prefix of `depth` bits. Allocates nothing.
    pub(super) fn new(depth: u32) -> Self {
        Packed { depth: depth as u8, ..Packed::default() }
    }

    /// The number of bits of the range's prefix.
    #[inline]
    pub(super) fn depth(&self) -> u32 {
        u32::from(self.depth)
    }

    #[inline]
    pub(super) fn count(&self) -> usize {
        usize::from(self.count)
    }

    /// Whether an entry may have an expiry.
    pub(super) fn expires(&self) -> bool {
        self.expires
    }

    /// The number of allocations.
    pub(super) fn pieces(&self) -> usize {
        1 + self.far.as_ref().map_or(0, |far| 2 + far.len())
    }

    /// Bytes on the heap.
    pub(super) fn memory(&self) -> usize {
        let far = self.far.as_ref().map_or(0, |far| {
            let each = size_of::<CountedRow<u8>>() * far.capacity();
            let blocks = far.iter().map(CountedRow::memory).sum::<usize>();
            HEADER + size_of::<Vec<CountedRow<u8>>>() + each + blocks
        });
        self.block.memory() + far
    }

    /// Whether the contents and those of `other` together fill at most half of a segment.
    pub(super) fn may_merge(&self, other: &Packed) -> bool {
        self.count() + other.count() <= COUNT_SPLIT / 2
            && self.needed() + other.needed() <= BYTES_SPLIT / 2
    }

    #[inline]
    pub(super) fn is_sparse(&self) -> bool {
        self.count() <= COUNT_SPLIT / 2 && self.needed() <= BYTES_SPLIT / 2
    }

    #[inline]
    fn words(&self) -> &[[u8; WORD]] {
        self.block[..WORD * usize::from(self.count)].as_chunks().0
    }

    #[inline]
    fn words_mut(&mut self) -> &mut [[u8; WORD]] {
        self.block[..WORD * usize::from(self.count)].as_chunks_mut().0
    }

    /// The part of a hash that is stored in a word.
    #[inline]
    fn fragment(&self, hash: u64) -> u16 {
        ((hash << self.depth) >> 48) as u16
    }

    /// Bytes of the contents.
    #[inline]
    fn needed(&self) -> usize {
        WORD * usize::from(self.count) + usize::from(self.used)
    }

    /// The index of `key`, or where it would be inserted.
    #[inline]
    pub(super) fn find(&self, hash: u64, key: &[u8]) -> Result<usize, usize> {
        let words = self.words();
        let wanted = self.fragment(hash);
        let mut at = (usize::from(wanted) * words.len()) >> 16;
        while at > 0 && fragment_of(words[at - 1]) >= wanted {
            at -= 1;
        }
        while at < words.len() && fragment_of(words[at]) < wanted {
            at += 1;
        }
        let place = at;
        while at < words.len() && fragment_of(words[at]) == wanted {
            if entry::has_key(self.near(distance_of(words[at])), key) {
                return Ok(at);
            }
            at += 1;
        }
        Err(place)
    }

    /// The near form of the entry at a distance from the end, and the bytes after it.
    #[inline]
    fn near(&self, distance: usize) -> &[u8] {
        let bytes = &self.block[self.block.len() - distance..];
        match entry::far_index(bytes) {
            None => bytes,
            Some(index) => &self.far_blocks()[index],
        }
    }

    /// The blocks of far entries. There must be one.
    fn far_blocks(&self) -> &[CountedRow<u8>] {
        self.far.as_ref().expect("a far entry exists")
    }

    /// The near form of the entry at `at`, mutable.
    pub(super) fn near_mut(&mut self, at: usize) -> &mut [u8] {
        let from = self.block.len() - distance_of(self.words()[at]);
        match entry::far_index(&self.block[from..]) {
            None => &mut self.block[from..],
            Some(index) => &mut self.far.as_mut().expect("a far entry exists")[index],
        }
    }

    /// The entry at `at`, which must be less than the count.
    #[inline]
    pub(super) fn entry(&self, at: usize) -> Entry<'_> {
        entry::read(self.near(distance_of(self.words()[at])))
    }

    /// All entries, in the order of their hashes.
    pub(super) fn entries(&self) -> impl Iterator<Item = Entry<'_>> {
        self.words().iter().map(|word| entry::read(self.near(distance_of(*word))))
    }

    /// Whether there is room for `new`, instead of the entry at `old` or in addition to all others.
    #[inline]
    pub(super) fn check_room(&self, old: Option<usize>, new: &Entry<'_>, deepest: u32) -> Room {
        let (count, freed) = match old {
            Some(at) => (usize::from(self.count), self.stored_len(at)),
            None => (usize::from(self.count) + 1, 0),
        };
        let used = usize::from(self.used) + len_in_block(new) - freed;
        if count <= COUNT_SPLIT && WORD * count + used <= BYTES_SPLIT {
            Room::Enough
        } else if u32::from(self.depth) < deepest {
            Room::SplitFirst
        } else if count <= COUNT_MAX && used <= USED_MAX {
            Room::Enough
        } else {
            Room::MailboxFull
        }
    }

    /// Bytes in the block of the entry at `at`.
    fn stored_len(&self, at: usize) -> usize {
        let from = self.block.len() - distance_of(self.words()[at]);
        entry::stored_len(&self.block[from..])
    }

    /// Stores `new` at the result of [`Packed::find`] for its key.
    #[inline]
    pub(super) fn put_at(
        &mut self,
        found: Result<usize, usize>,
        hash: u64,
        new: &Entry<'_>,
    ) -> Put {
        match found {
            Ok(at) => Put::Replaced { expired: self.replace(at, new) },
            Err(at) => {
                self.add(at, self.fragment(hash), new);
                Put::Added
            }
        }
    }

    /// Adds an entry whose word will be at `at`.
    fn add(&mut self, at: usize, fragment: u16, new: &Entry<'_>) {
        let len = len_in_block(new);
        self.expires |= new.expiry.is_some();
        if len == new.near_len() {
            new.write(self.insert_space(at, fragment, len));
        } else {
            let mut block = CountedRow::zeros(new.near_len());
            new.write(&mut block);
            self.add_far(at, fragment, block);
        }
    }

    fn add_far(&mut self, at: usize, fragment: u16, block: CountedRow<u8>) {
        let far = self.far.get_or_insert_with(|| Counted::new(Vec::new()));
        // Grow by one: a far entry is large, and most segments have none or one.
        far.reserve_exact(1);
        far.push(block);
        let index = far.len() - 1;
        entry::write_far(index, self.insert_space(at, fragment, FAR_LEN));
    }

    /// Makes room for an entry of `len` bytes, with its word at `at`. The caller writes the entry.
    fn insert_space(&mut self, at: usize, fragment: u16, len: usize) -> &mut [u8] {
        let used = usize::from(self.used) + len;
        let count = usize::from(self.count) + 1;
        self.reserve(WORD * count + used);
        self.count = count as u16;
        self.used = u16::try_from(used).expect("check_room checks USED_MAX");
        let block = &mut *self.block;
        block.copy_within(WORD * at..WORD * (count - 1), WORD * (at + 1));
        block[WORD * at..WORD * (at + 1)].copy_from_slice(&word_of(fragment, used));
        let from = block.len() - used;
        &mut block[from..from + len]
    }

    /// Grows the block for `needed` bytes if it is shorter.
    fn reserve(&mut self, needed: usize) {
        if needed > self.block.len() {
            self.refit(block_len(needed));
        }
    }

    /// Shrinks the block once more than a quarter of it is free.
    fn shrink(&mut self) {
        let old = self.block.len();
        let new = block_len(self.needed());
        if old - new > old / 4 {
            self.refit(new);
        }
    }

    /// Moves words and entries to a block of another length.
    fn refit(&mut self, len: usize) {
        let words = &self.block[..WORD * usize::from(self.count)];
        let entries = &self.block[self.block.len() - usize::from(self.used)..];
        self.block = CountedRow::from_ends(len, words, entries);
    }

    /// Removes the entry at `at`. Returns whether it had an expiry.
    pub(super) fn remove(&mut self, at: usize) -> bool {
        let expired = self.expires && self.entry(at).expiry.is_some();
        self.remove_entry(at);
        self.shrink();
        expired
    }

    /// Removes the entry at `at` and closes its hole. Frees its block if it is far.
    fn remove_entry(&mut self, at: usize) {
        let end = self.block.len();
        let distance = distance_of(self.words()[at]);
        let from = end - distance;
        let len = entry::stored_len(&self.block[from..]);
        if let Some(index) = entry::far_index(&self.block[from..]) {
            self.free_far(index);
        }
        let start = end - usize::from(self.used);
        let count = usize::from(self.count);
        let block = &mut *self.block;
        block.copy_within(start..from, start + len);
        block.copy_within(WORD * (at + 1)..WORD * count, WORD * at);
        self.count -= 1;
        self.used -= len as u16;
        for word in self.words_mut() {
            // Entries before the hole have moved; their distances are larger than that of the hole.
            if distance_of(*word) > distance {
                *word = (u32::from_le_bytes(*word) - len as u32).to_le_bytes();
            }
        }
    }

    /// Frees a far block. The last one takes its index.
    fn free_far(&mut self, index: usize) {
        let far = self.far.as_mut().expect("a far entry exists");
        far.swap_remove(index);
        let moved = far.len();
        if far.is_empty() {
            self.far = None;
        }
        if moved == index {
            return;
        }
        let end = self.block.len();
        for at in 0..usize::from(self.count) {
            let from = end - distance_of(self.words()[at]);
            if entry::far_index(&self.block[from..]) == Some(moved) {
                entry::write_far(index, &mut self.block[from..]);
                return;
            }
        }
    }

    /// Replaces the entry at `at` with `new`. Returns whether the old one had an expiry.
    fn replace(&mut self, at: usize, new: &Entry<'_>) -> bool {
        let word = self.words()[at];
        let from = self.block.len() - distance_of(word);
        let expired = self.expires && self.entry(at).expiry.is_some();
        let stored = &self.block[from..];
        let len = entry::stored_len(stored);
        if new.near_len() <= NEAR_MAX && len == new.near_len() && entry::far_index(stored).is_none()
        {
            self.expires |= new.expiry.is_some();
            new.write(&mut self.block[from..from + len]);
        } else {
            self.remove_entry(at);
            self.add(at, fragment_of(word), new);
            self.shrink();
        }
        expired
    }

    /// Splits the block into those for the two halves of the range. O(count).
    pub(super) fn split(self, hash: impl Fn(&[u8]) -> u64) -> (Packed, Packed) {
        let words = self.words();
        let half = words.partition_point(|word| fragment_of(*word) < 0x8000);
        let count = words.len();
        (self.part(0..half, &hash), self.part(half..count, &hash))
    }

    /// The entries of some words, as a block for half of the range.
    fn part(&self, words: std::ops::Range<usize>, hash: impl Fn(&[u8]) -> u64) -> Packed {
        let mut part = Packed { depth: self.depth + 1, expires: self.expires, ..Packed::default() };
        let entries: usize = words.clone().map(|at| self.stored_len(at)).sum();
        part.reserve(WORD * words.len() + entries);
        for at in words {
            let distance = distance_of(self.words()[at]);
            let fragment = part.fragment(hash(entry::read(self.near(distance)).key));
            // The order stays, except for words that differ only in the new bit.
            let sorted = part.words();
            let place = sorted.len()
                - sorted.iter().rev().take_while(|w| fragment_of(**w) > fragment).count();
            part.copy_entry(place, fragment, self, distance);
        }
        part
    }

    /// Copies an entry from another segment, which will be dropped.
    fn copy_entry(&mut self, at: usize, fragment: u16, from: &Packed, distance: usize) {
        let stored = &from.block[from.block.len() - distance..];
        match entry::far_index(stored) {
            Some(index) => self.add_far(at, fragment, from.far_blocks()[index].clone()),
            None => {
                let len = entry::stored_len(stored);
                self.insert_space(at, fragment, len).copy_from_slice(&stored[..len]);
            }
        }
    }

    /// Joins the blocks of the two halves of a range. O(count).
    pub(super) fn join(low: Packed, high: Packed) -> Packed {
        let mut joined = Packed {
            depth: low.depth - 1,
            expires: low.expires || high.expires,
            ..Packed::default()
        };
        joined.reserve(low.needed() + high.needed());
        for (half, first) in [(&low, 0), (&high, 0x8000)] {
            for at in 0..usize::from(half.count) {
                let word = half.words()[at];
                let fragment = first | fragment_of(word) >> 1;
                joined.copy_entry(usize::from(joined.count), fragment, half, distance_of(word));
            }
        }
        joined
    }
}

#[cfg(test)]
impl Packed {
    /// Checks the invariants between the parts of a block.
    pub(super) fn check(&self) {
        assert!(self.words().is_sorted_by_key(|w| fragment_of(*w)));
        let mut distances: Vec<_> = self.words().iter().map(|w| distance_of(*w)).collect();
        distances.sort_unstable();
        let mut end = 0;
        let mut far = Vec::new();
        for distance in distances {
            let stored = &self.block[self.block.len() - distance..];
            end += entry::stored_len(stored);
            assert_eq!(end, distance, "entries must be contiguous");
            far.extend(entry::far_index(stored));
        }
        assert_eq!(end, usize::from(self.used));
        far.sort_unstable();
        let blocks = self.far.as_ref().map_or(0, |far| far.len());
        assert!(far.into_iter().eq(0..blocks), "far entries must match blocks");
        let (len, snug) = (self.block.len(), block_len(self.needed()));
        assert!(len - snug <= len / 4, "{len} bytes, but {snug} suffice");
    }
}

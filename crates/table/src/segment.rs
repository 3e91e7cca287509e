//! A segment: a small, self-contained hash table in one block of cache lines.
//!
//! ```text
//!            ┌──────────────────────────────────────────────────┐
//!  line 0    │ len  expiring  depth  buckets  displaced[47]     │  header
//!            ├──────┬──────┬──────┬──────┬──────┬──────┬─────┬──┤
//!  line 1    │ slot │ slot │ slot │ slot │ slot │ slot │ ... │  │  bucket 0
//!            ├──────┼──────┼──────┼──────┼──────┼──────┼─────┼──┤
//!  line B    │      │      │      │      │      │      │     │  │  bucket B-1
//!            └──────┴──────┴──────┴──────┴──────┴──────┴─────┴──┘
//! ```
//!
//! The *home* bucket of an entry is `h16 * B / 65536`. If it is full, the entry goes to the next
//! bucket with room, wrapping around at the end, and every full bucket that it passes counts it in
//! `displaced`. So a lookup may stop at the first bucket that no entry has passed, which is nearly
//! always the home bucket. Removal decrements the counters on the same path. The path follows from
//! `h16` and the number of buckets. So records are not read for it, nor for rebuilding the words as
//! a segment of another size.
//!
//! A counter that has reached 255 stays there, since its value is lost. A counter that is too large
//! costs time, never correctness. The next rebuild corrects it.
//!
//! The sizes are chosen so that header and buckets together are a size class of common allocators
//! (128 bytes to 3 KiB): rounding wastes nothing.
//!
//! Only the mutator uses the header. Planners, which run without the lock, read only buckets and
//! get the number of buckets from the [`SegmentWord`].

use std::alloc::{Layout, alloc_zeroed, handle_alloc_error};
use std::cell::Cell;

use crate::borrow::RecordRef;
use crate::record::Owner;
use crate::slot::{Bucket, SLOTS, Word};

/// The possible numbers of buckets of a segment.
pub(crate) const SIZES: [usize; 11] = [1, 2, 3, 5, 7, 11, 15, 23, 31, 39, 47];
/// The largest number of buckets.
pub(crate) const MAX_BUCKETS: usize = SIZES[SIZES.len() - 1];
/// Slots of the largest segment.
pub(crate) const MAX_SLOTS: usize = MAX_BUCKETS * SLOTS;

/// Bytes of a cache line, the unit of segments.
pub(crate) const LINE: usize = 64;
/// Bits of a segment's address that are zero and hold the number of buckets.
const BUCKETS_MASK: usize = LINE - 1;
const _: () = assert!(MAX_BUCKETS <= BUCKETS_MASK);

/// The value of a `displaced` counter that stays until the next rebuild.
const STICKY: u8 = u8::MAX;

/// How many entries a segment may hold before it must grow: 7/8 of its slots, where displacement is
/// still rare. A single bucket may be full, since there is no bucket to be displaced to.
pub(crate) const fn limit(buckets: usize) -> usize {
    if buckets == 1 { SLOTS } else { buckets * SLOTS * 7 / 8 }
}

/// The smallest size that `len` entries fill to 3/4 or less; the largest size
/// if there is none. Sizes grow by 1.2 to 2, so the fill is mostly 60 to 75 %.
pub(crate) fn size_for(len: usize) -> usize {
    let roomy = |&&buckets: &&usize| len * 4 <= buckets * SLOTS * 3;
    SIZES.iter().find(roomy).copied().unwrap_or(MAX_BUCKETS)
}

/// The size after `buckets`; `None` for the largest.
pub(crate) fn size_above(buckets: usize) -> Option<usize> {
    SIZES.iter().copied().find(|&size| size > buckets)
}

/// The home bucket of `h16` among `buckets`.
#[inline(always)]
pub(crate) fn home(h16: u16, buckets: usize) -> usize {
    (usize::from(h16) * buckets) >> 16
}

/// Cells, since only one thread at a time uses the header: the holder of the lock.
#[repr(C, align(64))]
struct Header {
    len: Cell<u16>,
    expiring: Cell<u16>,
    marked: Cell<u16>,
    depth: Cell<u8>,
    buckets: Cell<u8>,
    displaced: [Cell<u8>; MAX_BUCKETS],
}

const _: () = assert!(size_of::<Header>() == LINE);

/// The address of a segment with its number of buckets in the low bits, as stored in a directory.
/// Null means no segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct SegmentWord(*mut u8);

impl SegmentWord {
    /// A new and empty segment.
    pub(crate) fn allocate(buckets: usize, depth: u32) -> SegmentWord {
        let layout = layout(buckets);
        // SAFETY: the size is not zero.
        let block = unsafe { alloc_zeroed(layout) };
        if block.is_null() {
            handle_alloc_error(layout);
        }
        // SAFETY: the block starts with a header: all zeroes is an empty one.
        let header = unsafe { &*block.cast::<Header>() };
        header.depth.set(depth as u8);
        header.buckets.set(buckets as u8);
        assert!(block.addr() >> 47 == 0, "a segment's address must be below 2^47");
        SegmentWord(block.map_addr(|address| address | buckets))
    }

    #[inline(always)]
    pub(crate) const fn from_raw(raw: *mut u8) -> SegmentWord {
        SegmentWord(raw)
    }

    #[inline(always)]
    pub(crate) const fn into_raw(self) -> *mut u8 {
        self.0
    }

    #[inline(always)]
    pub(crate) fn is_null(self) -> bool {
        self.0.is_null()
    }

    #[inline(always)]
    pub(crate) fn buckets(self) -> usize {
        self.0.addr() & BUCKETS_MASK
    }

    #[inline(always)]
    fn block(self) -> *mut u8 {
        self.0.map_addr(|word| word & !BUCKETS_MASK)
    }

    /// The address of the home bucket of `h16`. Only computed: the segment may no longer exist.
    #[inline(always)]
    pub(crate) fn home_bucket(self, h16: u16) -> *const Bucket {
        let line = 1 + home(h16, self.buckets());
        self.block().cast_const().wrapping_add(line * LINE).cast()
    }

    /// Bytes requested from the allocator.
    pub(crate) fn bytes(self) -> usize {
        layout(self.buckets()).size()
    }

    /// # Safety
    ///
    /// During `'a`, the segment is not freed, and only this thread uses it, except that others may
    /// load the words of its buckets. Every word in its slots stands for a record that lives while
    /// the word is there.
    #[inline(always)]
    pub(crate) unsafe fn view<'a>(self) -> Segment<'a> {
        let block = self.block();
        // SAFETY: the block is that of `allocate`: one header, then as many buckets as the word
        // says, initialised. By the contract only this thread uses the cells. Slots are atomic.
        unsafe {
            Segment {
                header: &*block.cast::<Header>(),
                buckets: std::slice::from_raw_parts(block.add(LINE).cast(), self.buckets()),
            }
        }
    }

    /// Frees the segment once no planner can see it. Does not touch the records of its slots.
    ///
    /// # Safety
    ///
    /// The segment came from `allocate` and is retired only once. No directory or root word leads
    /// to it, and no view of it is used after this.
    pub(crate) unsafe fn retire(self) {
        // SAFETY: the block and layout are those of `allocate`. The caller has unlinked it.
        unsafe { crate::epoch::retire(self.block(), layout(self.buckets())) };
    }
}

fn layout(buckets: usize) -> Layout {
    Layout::from_size_align((1 + buckets) * LINE, LINE).expect("a segment is at most 3 KiB")
}

/// The position of a word in a segment.
#[derive(Clone, Copy)]
pub(crate) struct Place {
    pub(crate) bucket: usize,
    pub(crate) slot: usize,
}

/// The lock holder's view of a segment.
#[derive(Clone, Copy)]
pub(crate) struct Segment<'a> {
    header: &'a Header,
    pub(crate) buckets: &'a [Bucket],
}

impl<'a> Segment<'a> {
    #[inline(always)]
    pub(crate) fn len(self) -> usize {
        usize::from(self.header.len.get())
    }

    /// The number of entries with an expiry.
    #[inline(always)]
    pub(crate) fn expiring(self) -> usize {
        usize::from(self.header.expiring.get())
    }

    /// The number of marked entries.
    #[inline(always)]
    pub(crate) fn marked(self) -> usize {
        usize::from(self.header.marked.get())
    }

    /// Local depth: the number of leading bits of the hash that its entries share.
    #[inline(always)]
    pub(crate) fn depth(self) -> u32 {
        u32::from(self.header.depth.get())
    }

    #[inline(always)]
    pub(crate) fn slots(self) -> usize {
        self.buckets.len() * SLOTS
    }

    #[inline(always)]
    fn after(self, bucket: usize) -> usize {
        if bucket + 1 == self.buckets.len() { 0 } else { bucket + 1 }
    }

    /// Whether an entry was displaced over this bucket.
    #[inline(always)]
    pub(crate) fn passed(self, bucket: usize) -> bool {
        self.header.displaced[bucket].get() != 0
    }

    /// The number of entries that were displaced over this bucket; 255 means unknown.
    #[cfg(test)]
    pub(crate) fn displaced(self, bucket: usize) -> u8 {
        self.header.displaced[bucket].get()
    }

    #[inline(always)]
    pub(crate) fn word(self, place: Place) -> Word {
        self.buckets[place.bucket].0[place.slot].load()
    }

    /// Looks a key up. The records must be of owner `O`.
    #[inline(always)]
    pub(crate) fn find<O: Owner>(self, h16: u16, key: &[u8]) -> Option<(Place, RecordRef<'a, O>)> {
        let mut at = home(h16, self.buckets.len());
        for _ in 0..self.buckets.len() {
            let bucket = &self.buckets[at];
            // SAFETY: only the holder of the lock, which is this thread, writes slots (contract of
            // `view`).
            for slot in unsafe { bucket.matches(h16) } {
                if let Some(record) = bucket.0[slot].load().record() {
                    // SAFETY: words in slots stand for live records (contract
                    // of `view`).
                    let record = unsafe { RecordRef::<O>::from_raw(record) };
                    if record.key() == key {
                        return Some((Place { bucket: at, slot }, record));
                    }
                }
            }
            if !self.passed(at) {
                return None;
            }
            at = self.after(at);
        }
        None
    }

    /// Puts a word into the first empty slot on its path.
    ///
    /// # Panics
    ///
    /// If all slots are occupied.
    #[inline]
    pub(crate) fn place(self, word: Word) -> Place {
        assert!(self.len() < self.slots(), "no empty slot in this segment");
        let mut at = home(word.h16(), self.buckets.len());
        let slot = loop {
            match self.buckets[at].vacancy() {
                Some(slot) => break slot,
                None => {
                    let displaced = &self.header.displaced[at];
                    displaced.set(displaced.get().saturating_add(1));
                    at = self.after(at);
                }
            }
        };
        self.buckets[at].0[slot].store(word);
        self.header.len.set(self.header.len.get() + 1);
        self.count_tags(word);
        Place { bucket: at, slot }
    }

    /// Empties a slot and returns its word. The caller owns the record.
    #[inline]
    pub(crate) fn vacate(self, place: Place) -> Word {
        let word = self.word(place);
        if word.is_empty() {
            return word;
        }
        self.buckets[place.bucket].0[place.slot].store(Word::EMPTY);
        let mut at = home(word.h16(), self.buckets.len());
        while at != place.bucket {
            let displaced = &self.header.displaced[at];
            if displaced.get() != STICKY {
                displaced.set(displaced.get() - 1);
            }
            at = self.after(at);
        }
        self.header.len.set(self.header.len.get() - 1);
        self.uncount_tags(word);
        word
    }

    /// Replaces the word in an occupied slot with another one with the same h16.
    #[inline]
    pub(crate) fn exchange(self, place: Place, word: Word) {
        let old = self.word(place);
        debug_assert!(!old.is_empty() && old.h16() == word.h16());
        self.buckets[place.bucket].0[place.slot].store(word);
        self.uncount_tags(old);
        self.count_tags(word);
    }

    /// Counts the tags of an added word.
    #[inline(always)]
    fn count_tags(self, word: Word) {
        self.header.expiring.set(self.header.expiring.get() + u16::from(word.expiring()));
        self.header.marked.set(self.header.marked.get() + u16::from(word.marked()));
    }

    /// Uncounts the tags of a removed word.
    #[inline(always)]
    fn uncount_tags(self, word: Word) {
        self.header.expiring.set(self.header.expiring.get() - u16::from(word.expiring()));
        self.header.marked.set(self.header.marked.get() - u16::from(word.marked()));
    }

    /// All words, bucket by bucket.
    #[inline]
    pub(crate) fn words(self) -> impl Iterator<Item = Word> + 'a {
        let words = self.buckets.iter().flat_map(Bucket::words);
        words.filter(|word| !word.is_empty())
    }

    /// Passes the words whose h16 is within `first..=last` to `f`, each once.
    ///
    /// They are in the home buckets of the range or, if displaced, after them. An entry after the
    /// last home bucket has passed it and all buckets between, so the walk stops at a bucket that
    /// no entry has passed.
    pub(crate) fn words_between(self, first: u16, last: u16, mut f: impl FnMut(Word)) {
        let count = self.buckets.len();
        let homes = home(last, count) - home(first, count) + 1;
        let mut at = home(first, count);
        for visited in 1..=count {
            for word in self.buckets[at].words() {
                if !word.is_empty() && (first..=last).contains(&word.h16()) {
                    f(word);
                }
            }
            if visited >= homes && !self.passed(at) {
                break;
            }
            at = self.after(at);
        }
    }

    /// The number of buckets from the home bucket of a word to `bucket`.
    pub(crate) fn displacement(self, word: Word, bucket: usize) -> usize {
        let count = self.buckets.len();
        (bucket + count - home(word.h16(), count)) % count
    }
}

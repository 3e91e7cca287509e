//! A segment: a small hash table of its own, in one block of cache lines.
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
//! An entry belongs into its *home* bucket, `h16 * B / 65536`. If that is full it goes to the next
//! bucket with room, round the end if need be, and every full bucket that it passes counts it in
//! `displaced`. So a lookup may stop at the first bucket that no entry has passed, which is nearly
//! always the home bucket. Removal uncounts the entry on the same path. The path follows from
//! `h16` and the number of buckets, so no record is read for it, nor for
//! building a segment of another size out of the same words.
//!
//! A counter that has reached 255 stays there, as it no longer knows: too
//! large a counter costs time, never an entry. The next rebuild corrects it.
//!
//! The sizes are chosen so that header and buckets together are a size class
//! of common allocators (128 bytes to 3 KiB): nothing is lost to rounding.
//!
//! The header is the mutator's own: planners, who run without the lock, look
//! at buckets only, and find the number of buckets in the [`SegmentWord`].

use std::alloc::{Layout, alloc_zeroed, handle_alloc_error};
use std::cell::Cell;

use crate::borrow::RecordRef;
use crate::record::Owner;
use crate::slot::{Bucket, SLOTS, Word};

/// Numbers of buckets that a segment can have.
pub(crate) const SIZES: [usize; 11] = [1, 2, 3, 5, 7, 11, 15, 23, 31, 39, 47];
/// The largest of them.
pub(crate) const MAX_BUCKETS: usize = SIZES[SIZES.len() - 1];
/// Slots of the largest segment.
pub(crate) const MAX_SLOTS: usize = MAX_BUCKETS * SLOTS;

/// Bytes of a cache line; segments are made of these.
pub(crate) const LINE: usize = 64;
/// Bits of a segment's address that are free for the number of buckets.
const BUCKETS_MASK: usize = LINE - 1;
const _: () = assert!(MAX_BUCKETS <= BUCKETS_MASK);

/// The value of a `displaced` counter that never changes again.
const STICKY: u8 = u8::MAX;

/// How many entries a segment may hold before it must grow: 7/8 of its slots,
/// where displacement is still rare; but a single bucket may be full, as there
/// is nowhere to be displaced to.
pub(crate) const fn limit(buckets: usize) -> usize {
    if buckets == 1 { SLOTS } else { buckets * SLOTS * 7 / 8 }
}

/// The smallest size that `len` entries fill to 3/4 or less; the largest size
/// if there is none. Sizes grow by 1.2 to 2, so the fill is mostly 60 to 75 %.
pub(crate) fn size_for(len: usize) -> usize {
    let roomy = |&&buckets: &&usize| len * 4 <= buckets * SLOTS * 3;
    SIZES.iter().find(roomy).copied().unwrap_or(MAX_BUCKETS)
}

/// The size after `buckets`, `None` for the largest.
pub(crate) fn size_above(buckets: usize) -> Option<usize> {
    SIZES.iter().copied().find(|&size| size > buckets)
}

/// The home bucket of `h16` among `buckets`.
#[inline(always)]
pub(crate) fn home(h16: u16, buckets: usize) -> usize {
    (usize::from(h16) * buckets) >> 16
}

/// Cells, as one thread at a time has the header: the holder of the lock.
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

/// Address of a segment with its number of buckets in the low bits, as in a directory. Null stands
/// for no segment.
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

    /// Address of the home bucket of `h16`. Only computed: the segment need
    /// not exist any more.
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
    /// The segment is not freed during `'a`; this thread alone may use it during `'a`, except that
    /// others may load the words of its buckets; and every word in its slots stands for a record
    /// that lives, for as long as it is there.
    #[inline(always)]
    pub(crate) unsafe fn view<'a>(self) -> Segment<'a> {
        let block = self.block();
        // SAFETY: the block is that of `allocate`: one header, then as many
        // buckets as the word says, initialised. The caller gives the rest:
        // cells are used by this thread alone, slots are atomic.
        unsafe {
            Segment {
                header: &*block.cast::<Header>(),
                buckets: std::slice::from_raw_parts(block.add(LINE).cast(), self.buckets()),
            }
        }
    }

    /// Frees the segment when no planner can see it any more. Records that its
    /// slots stand for are not touched.
    ///
    /// # Safety
    ///
    /// The segment came from `allocate` and is retired only once; no directory
    /// or root word leads to it; no view of it is used after this.
    pub(crate) unsafe fn retire(self) {
        // SAFETY: the block and layout are those of `allocate`; the caller has
        // unlinked it.
        unsafe { crate::epoch::retire(self.block(), layout(self.buckets())) };
    }
}

fn layout(buckets: usize) -> Layout {
    Layout::from_size_align((1 + buckets) * LINE, LINE).expect("a segment is at most 3 KiB")
}

/// The place of a word in a segment.
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

    /// Entries with an expiry.
    #[inline(always)]
    pub(crate) fn expiring(self) -> usize {
        usize::from(self.header.expiring.get())
    }

    /// Marked entries.
    #[inline(always)]
    pub(crate) fn marked(self) -> usize {
        usize::from(self.header.marked.get())
    }

    /// Local depth: how many leading bits of the hash its entries share.
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

    /// How many entries were displaced over this bucket, or 255.
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
            // SAFETY: only the holder of the lock writes slots, which is this
            // thread (contract of `view`).
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

    /// Puts a word into the first vacancy on its path.
    ///
    /// # Panics
    ///
    /// If all slots are taken.
    #[inline]
    pub(crate) fn place(self, word: Word) -> Place {
        assert!(self.len() < self.slots(), "no vacancy in this segment");
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
        self.note(word);
        Place { bucket: at, slot }
    }

    /// Empties a slot and returns its word. The record is the caller's.
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
        self.forget(word);
        word
    }

    /// Puts another word with the same h16 into a taken slot.
    #[inline]
    pub(crate) fn exchange(self, place: Place, word: Word) {
        let old = self.word(place);
        debug_assert!(!old.is_empty() && old.h16() == word.h16());
        self.buckets[place.bucket].0[place.slot].store(word);
        self.forget(old);
        self.note(word);
    }

    /// Counts the tags of a word that comes.
    #[inline(always)]
    fn note(self, word: Word) {
        self.header.expiring.set(self.header.expiring.get() + u16::from(word.expiring()));
        self.header.marked.set(self.header.marked.get() + u16::from(word.marked()));
    }

    /// And of one that goes.
    #[inline(always)]
    fn forget(self, word: Word) {
        self.header.expiring.set(self.header.expiring.get() - u16::from(word.expiring()));
        self.header.marked.set(self.header.marked.get() - u16::from(word.marked()));
    }

    /// All words, bucket by bucket.
    #[inline]
    pub(crate) fn words(self) -> impl Iterator<Item = Word> + 'a {
        let words = self.buckets.iter().flat_map(Bucket::words);
        words.filter(|word| !word.is_empty())
    }

    /// Gives the words whose h16 is within `first..=last` to `f`, each once.
    ///
    /// They are in the home buckets of the range or, displaced, after them. An entry after the last
    /// home bucket has passed it and all buckets between, so the walk can stop at a bucket that no
    /// entry has passed.
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

    /// How many buckets from its home a word stands.
    pub(crate) fn displacement(self, word: Word, bucket: usize) -> usize {
        let count = self.buckets.len();
        (bucket + count - home(word.h16(), count)) % count
    }
}

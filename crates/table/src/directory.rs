//! Maps a hash to its segment.
//!
//! The directory is an array of 2^g segment words, indexed by the top g bits of the hash; g is the
//! *global depth*. A segment of local depth l holds the entries whose hashes share l leading bits.
//! It is in 2^(g-l) adjacent words:
//!
//! ```text
//!   root: address of the directory, g = 3
//!          │
//!          ▼      000   001   010   011   100   101   110   111
//!        words: │  A  │  A  │  B  │  C  │  D  │  D  │  D  │  D  │
//!                   │           │     │           │
//!               depth 2         depth 3       depth 1
//! ```
//!
//! The root word holds the global depth and the address, so both change at once. At depth 0 there
//! is no directory: the root is the segment's word, and a table of a few keys is one block of 128
//! bytes. Null is the empty table.
//!
//! ```text
//!  63     58 57    47 46                                     6 5         0
//! ┌─────────┬────────┬────────────────────────────────────────┬───────────┐
//! │ depth   │ 0      │ address of directory or segment        │ buckets   │
//! └─────────┴────────┴────────────────────────────────────────┴───────────┘
//!                                                   (in segment words only)
//! ```
//!
//! Root and directory words are published with Release and read by planners with Acquire, so a
//! planner that finds a block through them sees it initialised.

use std::alloc::{Layout, alloc, handle_alloc_error};
use std::sync::atomic::{AtomicPtr, Ordering};

use crate::segment::SegmentWord;

/// The largest global depth: scan cursors hold 32 bits of prefix.
pub(crate) const MAX_DEPTH: u32 = 32;

const DEPTH_SHIFT: u32 = 58;
const ADDRESS_MASK: usize = (1 << 47) - 1;
const LINE: usize = 64;

/// The value of a table's root; see the module documentation.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Root(*mut u8);

impl Root {
    pub(crate) const EMPTY: Root = Root(std::ptr::null_mut());

    /// The root of a table with a single segment.
    pub(crate) const fn single(segment: SegmentWord) -> Root {
        Root(segment.into_raw())
    }

    #[inline(always)]
    pub(crate) const fn from_raw(raw: *mut u8) -> Root {
        Root(raw)
    }

    #[inline(always)]
    pub(crate) const fn into_raw(self) -> *mut u8 {
        self.0
    }

    #[inline(always)]
    pub(crate) fn is_empty(self) -> bool {
        self.0.is_null()
    }

    /// Global depth.
    #[inline(always)]
    pub(crate) fn depth(self) -> u32 {
        (self.0.addr() >> DEPTH_SHIFT) as u32
    }

    /// Allocates a directory whose word `i` is `word(i)`.
    ///
    /// # Panics
    ///
    /// If `depth` is zero or above [`MAX_DEPTH`].
    pub(crate) fn directory(depth: u32, mut word: impl FnMut(usize) -> SegmentWord) -> Root {
        assert!((1..=MAX_DEPTH).contains(&depth), "directory deeper than any good hash makes it");
        let layout = layout(depth);
        // SAFETY: the size is not zero.
        let block = unsafe { alloc(layout) };
        if block.is_null() {
            handle_alloc_error(layout);
        }
        let words: *mut AtomicPtr<u8> = block.cast();
        for i in 0..1 << depth {
            // SAFETY: the block has room for 2^depth words.
            unsafe { words.add(i).write(AtomicPtr::new(word(i).into_raw())) };
        }
        assert!(block.addr() & !ADDRESS_MASK == 0, "a directory's address must be below 2^47");
        Root(block.map_addr(|address| address | (depth as usize) << DEPTH_SHIFT))
    }

    /// The index in the directory for a hash. Only for depths above zero.
    #[inline(always)]
    pub(crate) fn index(self, hash: u64) -> usize {
        (hash >> (64 - self.depth())) as usize
    }

    /// The words of the directory; none at depth 0.
    ///
    /// # Safety
    ///
    /// The directory is not freed during `'a`.
    #[inline(always)]
    pub(crate) unsafe fn words<'a>(self) -> &'a [AtomicPtr<u8>] {
        let depth = self.depth();
        if depth == 0 {
            return &[];
        }
        let block = self.0.map_addr(|root| root & ADDRESS_MASK);
        // SAFETY: with a depth above zero the address is that of a directory of 2^depth initialised
        // words, which live (contract).
        unsafe { std::slice::from_raw_parts(block.cast(), 1 << depth) }
    }

    /// The segment for a hash; null in an empty table.
    ///
    /// # Safety
    ///
    /// The directory is not freed during the call.
    #[inline(always)]
    pub(crate) unsafe fn locate(self, hash: u64, order: Ordering) -> SegmentWord {
        if self.depth() == 0 {
            return SegmentWord::from_raw(self.0);
        }
        // SAFETY: the directory lives (contract). The index is a hash of 64 bits, shifted right by
        // 64 - depth: it is below 2^depth.
        let word = unsafe { self.words().get_unchecked(self.index(hash)) };
        SegmentWord::from_raw(word.load(order))
    }

    /// Every segment once, in the order of prefixes; none in an empty table. Reads only the words
    /// of the directory.
    ///
    /// # Safety
    ///
    /// The directory is not freed during `'a` and its words do not change.
    pub(crate) unsafe fn segments<'a>(self) -> impl Iterator<Item = SegmentWord> + 'a {
        let single = (self.depth() == 0).then_some(SegmentWord::from_raw(self.0));
        // SAFETY: the caller's contract.
        let words = unsafe { self.words::<'a>() };
        let words = words.iter().map(|word| SegmentWord::from_raw(word.load(Ordering::Relaxed)));
        // Initially null, so that the null of an empty table is skipped.
        let mut last = SegmentWord::from_raw(std::ptr::null_mut());
        single.into_iter().chain(words).filter(move |&word| {
            let new = word != last;
            last = word;
            new
        })
    }

    /// Bytes requested from the allocator for the directory.
    pub(crate) fn bytes(self) -> usize {
        if self.depth() == 0 { 0 } else { layout(self.depth()).size() }
    }

    /// Frees the directory, if there is one, once no planner can see it. Does not touch the
    /// segments.
    ///
    /// # Safety
    ///
    /// The root came from `directory` (or is at depth 0). It is no longer the root of any table, is
    /// retired only once, and is not used afterwards.
    pub(crate) unsafe fn retire(self) {
        if self.depth() > 0 {
            let block = self.0.map_addr(|root| root & ADDRESS_MASK);
            // SAFETY: block and layout are those of `directory`. The caller has unlinked it.
            unsafe { crate::epoch::retire(block, layout(self.depth())) };
        }
    }
}

fn layout(depth: u32) -> Layout {
    // At most 2^32 words of 8 bytes.
    Layout::from_size_align(8 << depth, LINE).expect("a directory is at most 32 GiB")
}

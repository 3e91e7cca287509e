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

use crate::groups::{GROUP_BITS, GROUPS, group_of};
use crate::segment::SegmentWord;

/// The largest global depth. Scan cursors hold 32 bits of prefix, and the root 5 bits of depth.
pub(crate) const MAX_DEPTH: u32 = 31;

const DEPTH_SHIFT: u32 = 58;
const FOREST: usize = 1 << 63;
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

    /// Global depth; that of groups in a forest.
    #[inline(always)]
    pub(crate) fn depth(self) -> u32 {
        (self.0.addr() >> DEPTH_SHIFT) as u32 & MAX_DEPTH
    }

    /// Whether the words are roots of groups.
    #[inline(always)]
    pub(crate) fn is_forest(self) -> bool {
        self.0.addr() & FOREST != 0
    }

    /// Allocates a directory whose word `i` is `word(i)`.
    ///
    /// # Panics
    ///
    /// If `depth` is zero or above [`MAX_DEPTH`].
    pub(crate) fn directory(depth: u32, mut word: impl FnMut(usize) -> SegmentWord) -> Root {
        assert!((1..=MAX_DEPTH).contains(&depth), "directory deeper than any good hash makes it");
        let block = allocate(depth, |i| word(i).into_raw());
        Root(block.map_addr(|address| address | (depth as usize) << DEPTH_SHIFT))
    }

    /// Allocates a forest in which the root of group `i` is `root(i)`.
    pub(crate) fn forest(mut root: impl FnMut(usize) -> Root) -> Root {
        let block = allocate(GROUP_BITS, |i| root(i).into_raw());
        let depth = (GROUP_BITS as usize) << DEPTH_SHIFT;
        Root(block.map_addr(|address| address | depth | FOREST))
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
    /// The directory, and those of its groups, are not freed during the call.
    #[inline(always)]
    pub(crate) unsafe fn locate(self, hash: u64, order: Ordering) -> SegmentWord {
        // Negative in a forest: one comparison finds both exceptions.
        let depth = self.0.addr().cast_signed() >> DEPTH_SHIFT;
        if depth <= 0 {
            if depth == 0 {
                return SegmentWord::from_raw(self.0);
            }
            // SAFETY: the caller's contract.
            return unsafe { self.locate_in_forest(hash, order) };
        }
        // SAFETY: the directory lives (contract). The index is a hash of 64 bits, shifted right by
        // 64 - depth: it is below 2^depth.
        let word = unsafe { self.words().get_unchecked(self.index(hash)) };
        SegmentWord::from_raw(word.load(order))
    }

    /// # Safety
    ///
    /// As for [`Root::locate`], and this is a forest.
    #[inline(never)]
    unsafe fn locate_in_forest(self, hash: u64, order: Ordering) -> SegmentWord {
        // SAFETY: the directory lives (contract).
        let root = Root(unsafe { self.words() }[group_of(hash)].load(order));
        if root.depth() == 0 {
            return SegmentWord::from_raw(root.0);
        }
        // SAFETY: the directory lives (contract).
        let word = &unsafe { root.words() }[root.index(hash << GROUP_BITS)];
        SegmentWord::from_raw(word.load(order))
    }

    /// The root of a group in a forest.
    ///
    /// # Safety
    ///
    /// The directory is not freed during the call.
    pub(crate) unsafe fn group(self, group: usize) -> Root {
        debug_assert!(self.is_forest());
        // SAFETY: the caller's contract.
        Root(unsafe { self.words() }[group].load(Ordering::Relaxed))
    }

    /// Every segment once, in the order of prefixes; none in an empty table. Reads only the words
    /// of directories.
    ///
    /// # Safety
    ///
    /// The directories are not freed during `'a` and their words do not change.
    pub(crate) unsafe fn segments<'a>(self) -> impl Iterator<Item = SegmentWord> + 'a {
        let load = |word: &AtomicPtr<u8>| Root(word.load(Ordering::Relaxed));
        let single = (self.depth() == 0).then_some(self);
        // SAFETY: the caller's contract.
        let roots = single.into_iter().chain(unsafe { self.words::<'a>() }.iter().map(load));
        // The words of a plain directory are segments, that is, roots without a directory.
        let words = roots.flat_map(move |root| {
            let single = (root.depth() == 0).then_some(root);
            // SAFETY: the caller's contract.
            single.into_iter().chain(unsafe { root.words::<'a>() }.iter().map(load))
        });
        // Initially null, so that the null of an empty table is skipped.
        let mut last = Root::EMPTY;
        words.filter_map(move |word| {
            let is_new = word != last;
            last = word;
            is_new.then_some(SegmentWord::from_raw(word.0))
        })
    }

    /// The number of words in the directory.
    pub(crate) fn len(self) -> usize {
        if self.depth() == 0 { 0 } else { 1 << self.depth() }
    }

    /// Bytes requested from the allocator for the directory, without those of groups.
    pub(crate) fn bytes(self) -> usize {
        if self.depth() == 0 { 0 } else { layout(self.depth()).size() }
    }

    /// Frees the directory, if there is one, once no planner can see it. Does not touch the
    /// segments, nor directories of groups.
    ///
    /// # Safety
    ///
    /// The root came from `directory` or `forest` (or is at depth 0). It is no longer the root of
    /// any table or group, is retired only once, and is not used afterwards.
    pub(crate) unsafe fn retire(self) {
        if self.depth() > 0 {
            let block = self.0.map_addr(|root| root & ADDRESS_MASK);
            // SAFETY: block and layout are those of `directory`. The caller has unlinked it.
            unsafe { crate::epoch::retire(block, layout(self.depth())) };
        }
    }

    /// As [`Root::retire`], with the directories of groups.
    ///
    /// # Safety
    ///
    /// As for [`Root::retire`].
    pub(crate) unsafe fn retire_all(self) {
        if self.is_forest() {
            for group in 0..GROUPS {
                // SAFETY: the directory lives until it is retired below. Its groups are unlinked
                // with it.
                unsafe { self.group(group).retire() };
            }
        }
        // SAFETY: the caller's contract.
        unsafe { self.retire() };
    }
}

/// Allocates 2^depth words.
fn allocate(depth: u32, mut word: impl FnMut(usize) -> *mut u8) -> *mut u8 {
    let layout = layout(depth);
    // SAFETY: the size is not zero.
    let block = unsafe { alloc(layout) };
    if block.is_null() {
        handle_alloc_error(layout);
    }
    let words: *mut AtomicPtr<u8> = block.cast();
    for i in 0..1 << depth {
        // SAFETY: the block has room for 2^depth words.
        unsafe { words.add(i).write(AtomicPtr::new(word(i))) };
    }
    assert!(block.addr() & !ADDRESS_MASK == 0, "a directory's address must be below 2^47");
    block
}

fn layout(depth: u32) -> Layout {
    // At most 2^31 words of 8 bytes.
    Layout::from_size_align(8 << depth, LINE).expect("a directory is at most 16 GiB")
}

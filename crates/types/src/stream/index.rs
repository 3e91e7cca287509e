//! The blocks of a stream in order, in pages of up to [`PAGE`] blocks.
//!
//! ```text
//!  full: [page][page] ... [page]      each a row of blocks; none is empty
//!  last: [block][block]               where blocks are added; all of a small stream
//! ```
//!
//! Appending a block and finding one by id take O(log n) steps. Removing one moves at most a page
//! of blocks. Only the row of pages is moved as a whole, and it is ten thousand times shorter than
//! the stream.
//!
//! Full pages and the bytes of blocks are reference-counted. A clone copies the row of pages and
//! the last page, and shares the other pages until one side changes a block in them.

use super::block::Block;
use super::{StreamId, nodes};
use crate::counted::{CountedRow, HEADER};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The most blocks of a page. With the count before them they fill a size class of the allocator.
/// Low in tests, so that small streams have several pages.
pub(super) const PAGE: usize = if cfg!(test) { 16 } else { 127 };

const _: () = assert!(cfg!(test) || PAGE * size_of::<Block>() + HEADER <= 8192);

/// A page with at most this many blocks is joined with the next one if half a page holds both.
const FEW: usize = PAGE / 8;

/// The position of a block, valid until a block is removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    page: usize,
    at: usize,
}

/// See the module documentation.
#[derive(Clone, Debug, Default)]
pub(super) struct Blocks {
    full: VecDeque<CountedRow<Block>>,
    /// Empty only if there is no block at all.
    last: Vec<Block>,
    nodes: CachedCount,
}

/// A cached count over all blocks, valid until a block is added or removed; 0 if not computed.
#[derive(Debug, Default)]
struct CachedCount(AtomicUsize);

impl Clone for CachedCount {
    fn clone(&self) -> Self {
        CachedCount(AtomicUsize::new(self.0.load(Ordering::Relaxed)))
    }
}

impl Blocks {
    /// The number of blocks. O(pages).
    pub(super) fn len(&self) -> usize {
        self.full.iter().map(|page| page.len()).sum::<usize>() + self.last.len()
    }

    /// The approximate number of allocations of blocks and pages.
    pub(super) fn pieces(&self) -> usize {
        2 * (self.full.len() * PAGE + self.last.len()) + self.full.len() + 1
    }

    #[inline]
    fn page(&self, page: usize) -> &[Block] {
        self.full.get(page).map_or(&self.last[..], |page| page)
    }

    #[inline]
    pub(super) fn get(&self, place: Place) -> &Block {
        &self.page(place.page)[place.at]
    }

    #[inline]
    pub(super) fn get_mut(&mut self, place: Place) -> &mut Block {
        match self.full.get_mut(place.page) {
            Some(page) => &mut page[place.at],
            None => &mut self.last[place.at],
        }
    }

    /// The position of the first block.
    #[inline]
    pub(super) fn first(&self) -> Option<Place> {
        (!self.last.is_empty()).then_some(Place { page: 0, at: 0 })
    }

    /// The position of the last block.
    #[inline]
    pub(super) fn last(&self) -> Option<Place> {
        let at = self.last.len().checked_sub(1)?;
        Some(Place { page: self.full.len(), at })
    }

    /// The block to which new entries are appended.
    #[inline]
    pub(super) fn last_mut(&mut self) -> Option<&mut Block> {
        self.last.last_mut()
    }

    /// The position after this one.
    #[inline]
    pub(super) fn next(&self, place: Place) -> Option<Place> {
        let Place { page, at } = place;
        if at + 1 < self.page(page).len() {
            Some(Place { page, at: at + 1 })
        } else {
            (page < self.full.len()).then_some(Place { page: page + 1, at: 0 })
        }
    }

    /// The position before this one.
    #[inline]
    pub(super) fn before(&self, place: Place) -> Option<Place> {
        let Place { page, at } = place;
        match at.checked_sub(1) {
            Some(at) => Some(Place { page, at }),
            None => {
                let page = page.checked_sub(1)?;
                Some(Place { page, at: self.page(page).len() - 1 })
            }
        }
    }

    /// The position of the last block that begins at or before `id`. O(log n).
    #[inline]
    pub(super) fn find(&self, id: StreamId) -> Option<Place> {
        let begins = |page: &[Block]| page.first().is_some_and(|block| block.master <= id);
        let page = if begins(&self.last) {
            self.full.len()
        } else {
            self.full.partition_point(|page| begins(page)).checked_sub(1)?
        };
        let at = self.page(page).partition_point(|block| block.master <= id).checked_sub(1)?;
        Some(Place { page, at })
    }

    /// The number of blocks before this position. O(pages).
    pub(super) fn rank(&self, place: Place) -> usize {
        self.full.iter().take(place.page).map(|page| page.len()).sum::<usize>() + place.at
    }

    /// The number of nodes of Valkey's tree over the ids of the blocks; at least one. O(blocks) for
    /// the first call after a block was added or removed.
    pub(super) fn tree_nodes(&self) -> usize {
        match self.nodes.0.load(Ordering::Relaxed) {
            0 => {
                let id = |block: &Block| u128::from_be_bytes(block.master.to_bytes());
                let nodes = nodes::count(&self.iter().map(id).collect::<Vec<_>>());
                self.nodes.0.store(nodes, Ordering::Relaxed);
                nodes
            }
            nodes => nodes,
        }
    }

    /// Whether [`Blocks::tree_nodes`] is O(1) now.
    pub(super) fn knows_tree(&self) -> bool {
        self.nodes.0.load(Ordering::Relaxed) != 0
    }

    /// Appends a block.
    pub(super) fn push(&mut self, block: Block) {
        self.nodes = CachedCount::default();
        if self.last.len() == PAGE {
            let page = std::mem::replace(&mut self.last, Vec::with_capacity(PAGE));
            self.full.push_back(page.into());
        }
        if self.last.is_empty() && self.last.capacity() == 0 {
            self.last.reserve_exact(1);
        }
        self.last.push(block);
    }

    /// Removes the block at this position. O(page).
    pub(super) fn remove(&mut self, place: Place) -> Block {
        self.nodes = CachedCount::default();
        let Some(page) = self.full.get_mut(place.page) else {
            let block = self.last.remove(place.at);
            if self.last.is_empty() {
                self.last = self.full.pop_back().map(CountedRow::into_vec).unwrap_or_default();
            }
            return block;
        };
        let mut blocks = std::mem::take(page).into_vec();
        let block = blocks.remove(place.at);
        let left = blocks.len();
        *page = blocks.into();
        if left == 0 {
            self.full.remove(place.page);
        } else if left <= FEW {
            self.join(place.page);
        }
        block
    }

    /// Joins a page, which must not be the last, with the next one, if half a page holds both.
    fn join(&mut self, page: usize) {
        if self.full[page].len() + self.page(page + 1).len() > PAGE / 2 {
            return;
        }
        let Some(joined) = self.full.remove(page) else { return };
        let mut joined = joined.into_vec();
        match self.full.get_mut(page) {
            Some(next) => {
                joined.extend(std::mem::take(next).into_vec());
                *next = joined.into();
            }
            None => {
                joined.append(&mut self.last);
                joined.shrink_to(PAGE / 2);
                self.last = joined;
            }
        }
    }

    /// All blocks, in order.
    pub(super) fn iter(&self) -> impl DoubleEndedIterator<Item = &Block> {
        self.full.iter().flat_map(|page| page.iter()).chain(&self.last)
    }

    /// Bytes of memory of the rows, without the memory that blocks own. O(pages).
    pub(super) fn memory(&self) -> usize {
        let pages: usize = self.full.iter().map(CountedRow::memory).sum();
        let last = self.last.capacity() * size_of::<Block>();
        pages + last + self.full.capacity() * size_of::<CountedRow<Block>>()
    }

    /// Panics unless the invariants of the module documentation hold.
    #[cfg(test)]
    pub(super) fn check(&self) {
        assert!(self.full.iter().all(|page| !page.is_empty() && page.len() <= PAGE));
        assert!(!self.last.is_empty() || self.full.is_empty());
        assert!(self.last.len() <= PAGE);
        assert_eq!(self.len(), self.iter().count());
    }
}

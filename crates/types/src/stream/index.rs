//! The blocks of a stream in order: pages of up to [`PAGE`] of them.
//!
//! ```text
//!  full: [page][page] ... [page]      each a row of blocks; none is empty
//!  last: [block][block]               where blocks are added; all of a small stream
//! ```
//!
//! Adding a block at the end and finding one by its id take O(log n) steps, removing one moves a page
//! of others at most. Nothing that grows with the stream is moved as a whole but the row of pages,
//! which is some thousand times shorter than the stream.

use super::StreamId;
use super::block::Block;
use std::collections::VecDeque;

/// The most blocks of a page.
pub(super) const PAGE: usize = 256;

/// A page of fewer is joined with its neighbour, if they have room in one.
const FEW: usize = PAGE / 8;

/// Where a block stands: it stays there until one is removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    page: usize,
    at: usize,
}

/// See the module's description.
#[derive(Clone, Debug, Default)]
pub(super) struct Blocks {
    full: VecDeque<Vec<Block>>,
    /// Only empty when there is no block at all.
    last: Vec<Block>,
}

impl Blocks {
    /// How many blocks. O(pages).
    pub(super) fn len(&self) -> usize {
        self.full.iter().map(Vec::len).sum::<usize>() + self.last.len()
    }

    /// How many blocks, and some pages.
    pub(super) fn pieces(&self) -> usize {
        self.full.len() * PAGE + self.full.len() + self.last.len() + 1
    }

    #[inline]
    fn page(&self, page: usize) -> &[Block] {
        self.full.get(page).unwrap_or(&self.last)
    }

    #[inline]
    fn page_mut(&mut self, page: usize) -> &mut Vec<Block> {
        self.full.get_mut(page).unwrap_or(&mut self.last)
    }

    #[inline]
    pub(super) fn get(&self, place: Place) -> &Block {
        &self.page(place.page)[place.at]
    }

    #[inline]
    pub(super) fn get_mut(&mut self, place: Place) -> &mut Block {
        &mut self.page_mut(place.page)[place.at]
    }

    /// The place of the first block.
    #[inline]
    pub(super) fn first(&self) -> Option<Place> {
        (!self.last.is_empty()).then_some(Place { page: 0, at: 0 })
    }

    /// The place of the last block.
    #[inline]
    pub(super) fn last(&self) -> Option<Place> {
        let at = self.last.len().checked_sub(1)?;
        Some(Place { page: self.full.len(), at })
    }

    /// The block at which new entries are added.
    #[inline]
    pub(super) fn last_mut(&mut self) -> Option<&mut Block> {
        self.last.last_mut()
    }

    /// The place behind this one.
    #[inline]
    pub(super) fn next(&self, place: Place) -> Option<Place> {
        let Place { page, at } = place;
        if at + 1 < self.page(page).len() {
            Some(Place { page, at: at + 1 })
        } else {
            (page < self.full.len()).then_some(Place { page: page + 1, at: 0 })
        }
    }

    /// The place in front of this one.
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

    /// The place of the last block that began at or before `id`. O(log n).
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

    /// How many blocks stand in front of this place. O(pages).
    pub(super) fn rank(&self, place: Place) -> usize {
        self.full.iter().take(place.page).map(Vec::len).sum::<usize>() + place.at
    }

    /// Adds a block behind all others.
    pub(super) fn push(&mut self, block: Block) {
        if self.last.len() == PAGE {
            self.full.push_back(std::mem::replace(&mut self.last, Vec::with_capacity(PAGE)));
        }
        if self.last.is_empty() && self.last.capacity() == 0 {
            self.last.reserve_exact(1);
        }
        self.last.push(block);
    }

    /// Takes the block at this place out. O(page).
    pub(super) fn remove(&mut self, place: Place) -> Block {
        let page = self.page_mut(place.page);
        let block = page.remove(place.at);
        let left = page.len();
        if left == 0 {
            if place.page < self.full.len() {
                self.full.remove(place.page);
            } else {
                self.last = self.full.pop_back().unwrap_or_default();
            }
        } else if left <= FEW && place.page < self.full.len() {
            self.join(place.page);
        }
        block
    }

    /// Joins a page, which is not the last, with the next one, if both have room in one.
    fn join(&mut self, page: usize) {
        if self.full[page].len() + self.page(page + 1).len() > PAGE / 2 {
            return;
        }
        let Some(mut joined) = self.full.remove(page) else { return };
        let next = self.page_mut(page);
        joined.append(next);
        *next = joined;
        next.shrink_to(PAGE / 2);
    }

    /// All blocks, in order.
    pub(super) fn iter(&self) -> impl DoubleEndedIterator<Item = &Block> {
        self.full.iter().flatten().chain(&self.last)
    }

    /// Bytes of memory of the rows, without what the blocks own. O(pages).
    pub(super) fn memory(&self) -> usize {
        let pages: usize = self.full.iter().map(Vec::capacity).sum();
        let blocks = pages + self.last.capacity();
        blocks * size_of::<Block>() + self.full.capacity() * size_of::<Vec<Block>>()
    }

    /// Panics unless everything is as the module says.
    #[cfg(test)]
    pub(super) fn check(&self) {
        assert!(self.full.iter().all(|page| !page.is_empty() && page.len() <= PAGE));
        assert!(!self.last.is_empty() || self.full.is_empty());
        assert!(self.last.len() <= PAGE);
        assert_eq!(self.len(), self.iter().count());
    }
}

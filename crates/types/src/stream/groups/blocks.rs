//! The blocks of a large map in order, each with the least id that belongs to it, in pages that
//! clones share.
//!
//! ```text
//!  pages   [ 0-0 ─► block, 17-3 ─► block ... ]  [ 90-0 ─► block ... ] ...     up to 128 blocks each
//! ```
//!
//! Pages and blocks are reference-counted. A clone copies the list of pages. The first change of a
//! shared block copies its page, which is 128 ids and pointers, and the block. Most blocks are
//! appended, so pages are full.

use super::Timed;
use super::block::Block;
use crate::counted::{Counted, HEADER};
use crate::stream::StreamId;
use std::collections::VecDeque;

/// The most blocks of a page. Low in tests, so that small maps have several pages.
const PAGE: usize = if cfg!(test) { 6 } else { 128 };

/// A page with at most this many blocks is joined with the next one if half a page holds both.
const FEW: usize = PAGE / 6;

type Page<V> = Vec<(StreamId, Counted<Block<V>>)>;

/// The position of a block, valid until this or an earlier block is added or removed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    page: usize,
    at: usize,
}

/// See the module documentation.
#[derive(Clone, Debug)]
pub(super) struct Blocks<V> {
    /// No page is empty.
    pages: VecDeque<Counted<Page<V>>>,
    len: usize,
}

impl<V: Timed> Blocks<V> {
    /// A map of one block, to which every id belongs.
    pub(super) fn of(block: Block<V>) -> Self {
        let page = vec![(StreamId::MIN, Counted::new(block))];
        Blocks { pages: VecDeque::from([Counted::new(page)]), len: 1 }
    }

    /// The number of blocks. O(1), as all below unless stated otherwise.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// The position of the block to which `id` belongs; `None` if it is less than all least ids.
    /// O(log blocks).
    #[inline]
    pub(super) fn find(&self, id: StreamId) -> Option<Place> {
        let begins = |page: &Page<V>| page.first().is_some_and(|(least, _)| *least <= id);
        let page = self.pages.partition_point(|page| begins(page)).checked_sub(1)?;
        let at = self.pages[page].partition_point(|(least, _)| *least <= id).checked_sub(1)?;
        Some(Place { page, at })
    }

    pub(super) fn first(&self) -> Option<Place> {
        (self.len > 0).then_some(Place { page: 0, at: 0 })
    }

    pub(super) fn last(&self) -> Option<Place> {
        let page = self.pages.len().checked_sub(1)?;
        Some(Place { page, at: self.pages[page].len() - 1 })
    }

    /// The position after this one.
    #[inline]
    pub(super) fn next(&self, place: Place) -> Option<Place> {
        let Place { page, at } = place;
        if at + 1 < self.pages[page].len() {
            return Some(Place { page, at: at + 1 });
        }
        (page + 1 < self.pages.len()).then_some(Place { page: page + 1, at: 0 })
    }

    /// The position before this one.
    pub(super) fn before(&self, place: Place) -> Option<Place> {
        let Place { page, at } = place;
        match at.checked_sub(1) {
            Some(at) => Some(Place { page, at }),
            None => {
                let page = page.checked_sub(1)?;
                Some(Place { page, at: self.pages[page].len() - 1 })
            }
        }
    }

    #[inline]
    pub(super) fn get(&self, place: Place) -> &Block<V> {
        &self.pages[place.page][place.at].1
    }

    #[inline]
    pub(super) fn get_mut(&mut self, place: Place) -> &mut Block<V> {
        &mut self.pages[place.page][place.at].1
    }

    /// The least id that belongs to the block at a position.
    pub(super) fn least(&self, place: Place) -> StreamId {
        self.pages[place.page][place.at].0
    }

    /// Lowers the least id of the first block to `least`.
    pub(super) fn lower_first(&mut self, least: StreamId) {
        if let Some((first, _)) = self.pages.front_mut().and_then(|page| page.first_mut()) {
            *first = least;
        }
    }

    /// Inserts a block with the least id `least`, which must be unique and greater than that of the
    /// first block. O(log blocks + blocks of a page).
    pub(super) fn insert(&mut self, least: StreamId, block: Block<V>) {
        let before = self.find(least).expect("the first block has a lesser id");
        let entry = (least, Counted::new(block));
        self.len += 1;
        let pages = self.pages.len();
        let page = &mut self.pages[before.page];
        if page.len() < PAGE {
            page.insert(before.at + 1, entry);
        } else if before.page + 1 == pages && before.at + 1 == page.len() {
            self.pages.push_back(Counted::new(vec![entry]));
        } else {
            let mut after = page.split_off(PAGE / 2);
            match (before.at + 1).checked_sub(PAGE / 2) {
                Some(at) if at > 0 => after.insert(at, entry),
                Some(_) | None => page.insert(before.at + 1, entry),
            }
            self.pages.insert(before.page + 1, Counted::new(after));
        }
    }

    /// Removes the block at a position. O(blocks of a page).
    pub(super) fn remove(&mut self, place: Place) -> Block<V> {
        let (_, block) = self.pages[place.page].remove(place.at);
        self.len -= 1;
        let left = self.pages[place.page].len();
        if left == 0 {
            self.pages.remove(place.page);
        } else if left <= FEW
            && self.pages.get(place.page + 1).is_some_and(|next| left + next.len() <= PAGE / 2)
            && let Some(next) = self.pages.remove(place.page + 1)
        {
            self.pages[place.page].extend(next.into_inner());
        }
        block.into_inner()
    }

    /// All blocks in order.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Block<V>> {
        self.pages.iter().flat_map(|page| page.iter()).map(|(_, block)| &**block)
    }

    /// Bytes of memory of the list of pages.
    pub(super) fn own(&self) -> usize {
        self.pages.len() * size_of::<Counted<Page<V>>>()
    }

    /// Approximate bytes of memory for each block, without the memory that it owns.
    pub(super) fn memory_each() -> usize {
        HEADER + size_of::<Block<V>>() + size_of::<(StreamId, Counted<Block<V>>)>() * 5 / 4
    }

    /// Panics unless the invariants of the module documentation hold.
    #[cfg(test)]
    pub(super) fn check(&self) {
        assert!(self.pages.iter().all(|page| !page.is_empty() && page.len() <= PAGE));
        assert_eq!(self.len, self.iter().count());
        assert!(self.pages.iter().flat_map(|page| page.iter()).is_sorted_by(|a, b| a.0 < b.0));
    }
}

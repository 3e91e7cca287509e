//! Nodes with numbers, as in [`arena`](super::arena), which clones share.
//!
//! ```text
//!  pages: [ row of 512 places ][ row of 512 ][ no memory ][ row that grows ]
//!             │
//!             └► reference-counted node or none
//! ```
//!
//! Rows and nodes are reference-counted. A clone copies the list of pages. The first change of a
//! shared node copies its page, which is 512 pointers, and the node.

use super::arena::Id;
use crate::counted::CountedRow;

/// Places of a page. Low in tests, so that small trees have several pages.
const PAGE: usize = if cfg!(test) { 8 } else { 512 };

/// Places of a new page.
const FIRST: usize = 4;

#[derive(Clone, Debug)]
struct Page<S> {
    /// Up to [`PAGE`] places, some of them vacant.
    places: CountedRow<Option<S>>,
    /// The number of places with a node.
    used: u16,
    /// No place before this one is vacant.
    vacant: u16,
    /// Whether `SharedArena::partial` contains this page.
    listed: bool,
}

/// Nodes of one type. `S` is a counted pointer.
#[derive(Clone, Debug)]
pub(super) struct SharedArena<S> {
    pages: Vec<Page<S>>,
    /// The pages with vacant places.
    partial: Vec<u32>,
}

impl<S: Clone> SharedArena<S> {
    pub(super) fn new() -> Self {
        SharedArena { pages: Vec::new(), partial: Vec::new() }
    }

    /// Stores `node`. Returns its number. O(places of a page) at worst.
    ///
    /// # Panics
    ///
    /// With 2^32 - 512 nodes, which is more than memory holds.
    pub(super) fn insert(&mut self, node: S) -> Id {
        let Some(at) = self.partial.last().copied() else {
            let page = Page { places: CountedRow::new(), used: 0, vacant: 0, listed: true };
            self.partial.push(self.pages.len() as u32);
            self.pages.push(page);
            return self.insert(node);
        };
        assert!(at < Id::MAX / PAGE as u32, "too many nodes");
        let page = &mut self.pages[at as usize];
        let from = usize::from(page.vacant);
        let place = match page.places[from..].iter().position(Option::is_none) {
            Some(offset) => from + offset,
            None => page.grow(),
        };
        page.places[place] = Some(node);
        page.used += 1;
        page.vacant = place as u16 + 1;
        if usize::from(page.used) == PAGE {
            page.listed = false;
            self.partial.pop();
        }
        at * PAGE as u32 + place as u32
    }

    /// Removes a node. Its number may be reused.
    pub(super) fn remove(&mut self, id: Id) -> S {
        let at = id as usize / PAGE;
        let place = id as usize % PAGE;
        let page = &mut self.pages[at];
        let node = page.places[place].take().expect("a node in use");
        page.used -= 1;
        page.vacant = page.vacant.min(place as u16);
        if page.used == 0 {
            page.places = CountedRow::new();
            page.vacant = 0;
        }
        if !page.listed {
            page.listed = true;
            self.partial.push(at as u32);
        }
        node
    }

    /// Bytes of memory of the pages, without the nodes.
    pub(super) fn memory(&self) -> usize {
        let places: usize = self.pages.iter().map(|page| page.places.memory()).sum();
        places + self.pages.capacity() * size_of::<Page<S>>() + self.partial.capacity() * 4
    }

    /// The number of nodes. O(pages).
    pub(super) fn len(&self) -> usize {
        self.pages.iter().map(|page| usize::from(page.used)).sum()
    }

    /// The nodes.
    #[cfg(test)]
    pub(super) fn iter(&self) -> impl Iterator<Item = &S> {
        self.pages.iter().flat_map(|page| page.places.iter().flatten())
    }
}

impl<S: Clone> Page<S> {
    /// Adds places. Returns the first new one.
    #[cold]
    fn grow(&mut self) -> usize {
        let had = self.places.len();
        let mut places = std::mem::take(&mut self.places).into_vec();
        let grown = (2 * had).clamp(FIRST, PAGE);
        places.reserve_exact(grown - had);
        places.resize(grown, None);
        self.places = places.into();
        had
    }
}

impl<S> std::ops::Index<Id> for SharedArena<S> {
    type Output = S;

    #[inline]
    fn index(&self, id: Id) -> &S {
        let place = &self.pages[id as usize / PAGE].places[id as usize % PAGE];
        place.as_ref().expect("a node in use")
    }
}

impl<S: Clone> std::ops::IndexMut<Id> for SharedArena<S> {
    #[inline]
    fn index_mut(&mut self, id: Id) -> &mut S {
        let place = &mut self.pages[id as usize / PAGE].places[id as usize % PAGE];
        place.as_mut().expect("a node in use")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::counted::Counted;
    use std::collections::BTreeMap;

    #[test]
    fn nodes_keep_their_numbers_and_clones_are_stable() {
        let mut shelf = SharedArena::new();
        let mut model = BTreeMap::new();
        let mut kept = Vec::new();
        for n in 0..1000u64 {
            let id = shelf.insert(Counted::new(vec![n]));
            assert!(model.insert(id, n).is_none(), "number {id} is in use");
            // Remove two of three again, in an order that empties pages.
            if n % 3 == 2 {
                for _ in 0..2 {
                    let (id, n) = model.pop_last().unwrap();
                    assert_eq!(*shelf.remove(id), [n]);
                }
            }
            if n % 7 == 0 {
                let id = *model.first_key_value().unwrap().0;
                shelf[id][0] += 1000;
                *model.get_mut(&id).unwrap() += 1000;
            }
            if n % 100 == 99 {
                kept.push((shelf.clone(), model.clone()));
            }
        }
        kept.push((shelf.clone(), model.clone()));
        for (shelf, model) in &kept {
            assert!(model.iter().all(|(id, n)| *shelf[*id] == [*n]));
            assert_eq!(shelf.iter().count(), model.len());
        }
        drop(kept);
        let full = shelf.memory();
        for id in model.keys() {
            shelf.remove(*id);
        }
        assert_eq!(shelf.iter().count(), 0);
        assert!(shelf.memory() < full / 2, "{} of {full}", shelf.memory());
        assert!(shelf.insert(Counted::new(vec![7])) < 1000);
    }
}

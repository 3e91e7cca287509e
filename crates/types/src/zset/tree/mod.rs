//! Large sorted sets: a B+ tree by score and member, and an index by member.
//!
//! ```text
//!            branch          counts, first scores             index: hash of member ─► leaf
//!           /      \                                           [ 1f3a.. ─► 7 ][ 1f91.. ─► 2 ] ..
//!      branch      branch
//!     /   |   \     /   \
//!  leaf─leaf─leaf─leaf─leaf    up to 64 elements each
//! ```
//!
//! The classic structure for this is a skip list and a hash table: every element is a node, found
//! by following pointers, each a cache miss. Here neighbours share a leaf, whose parts are arrays
//! ([`leaf`]). So a search visits three or four nodes instead of twenty, and an element has no
//! pointer at all: eight bytes of score, four of head, its text, and eight in the index
//! ([`index`]). The index selects the leaf, and tags in the leaf find the member. Counts in the
//! branches ([`branch`]) give ranks (Knuth, TAOCP 3, 6.2.3, for counts in balanced trees).
//!
//! The price: splitting a leaf updates the index for half of its members, which is one entry for
//! every insertion on average. Elements added in ascending or descending order split nothing: they
//! start a new leaf at that end, and the others stay full.
//!
//! Nodes are numbers in arenas ([`arena`]) and store their parents, so a member found through the
//! index has its rank without a comparison. All sizes are bounded, hence all steps.
//!
//! Leaves are reference-counted, in reference-counted pages ([`shelf`]). A snapshot of the set
//! shares the leaves in their order ([`Tree::share`]) and needs neither branches nor index.
//!
//! The order is by score, then by the bytes of the member. No score is NaN. Zero and negative zero
//! are equal.

mod arena;
mod branch;
#[cfg(test)]
mod check;
mod grow;
mod index;
mod leaf;
mod shelf;
mod shrink;
#[cfg(test)]
mod tests;

use crate::counted::{Counted, CountedRow, HEADER};
use arena::{Arena, Id, NONE};
use branch::Branch;
use index::Index;
use leaf::{Leaf, Text};
use shelf::SharedArena;
use std::hash::{BuildHasher, Hasher};
use std::ops::ControlFlow;

/// A large sorted set.
#[derive(Clone, Debug)]
pub struct Tree {
    leaves: SharedArena<Counted<Leaf>>,
    branches: Arena<Branch>,
    /// Members too long for a leaf.
    long: SharedArena<CountedRow<u8>>,
    index: Index,
    seed: foldhash::quality::RandomState,
    /// A leaf if `height` is 0, else a branch of that height.
    root: Id,
    height: u32,
    first: Id,
    last: Id,
    len: usize,
}

/// The position of an element, valid until the tree is changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    leaf: Id,
    at: usize,
}

/// The member of an element that a search compares, fetched only when scores are equal.
#[derive(Clone, Copy, Debug)]
pub struct LazyMember<'a> {
    tree: &'a Tree,
    place: Place,
}

impl<'a> LazyMember<'a> {
    #[inline]
    pub fn bytes(self) -> &'a [u8] {
        self.tree.member(self.place)
    }
}

/// The first of `from..to` for which `before` is false. It must be true for all before that one.
#[inline]
fn partition(mut from: usize, mut to: usize, mut before: impl FnMut(usize) -> bool) -> usize {
    while from < to {
        let middle = (from + to) / 2;
        if before(middle) {
            from = middle + 1;
        } else {
            to = middle;
        }
    }
    from
}

impl Default for Tree {
    fn default() -> Self {
        Tree::new()
    }
}

impl Tree {
    /// An empty set.
    #[must_use]
    pub fn new() -> Self {
        let mut leaves = SharedArena::new();
        let root = leaves.insert(Counted::new(Leaf::default()));
        Tree {
            leaves,
            branches: Arena::new(),
            long: SharedArena::new(),
            index: Index::new(),
            seed: foldhash::quality::RandomState::default(),
            root,
            height: 0,
            first: root,
            last: root,
            len: 0,
        }
    }

    /// A snapshot of the elements, which can be walked from either end on any thread while the set
    /// changes, but not searched by rank or member. Shares all elements with the set. O(pages),
    /// with a page for some thirty thousand elements.
    #[must_use]
    pub fn share(&self) -> Tree {
        Tree {
            leaves: self.leaves.clone(),
            branches: Arena::new(),
            long: self.long.clone(),
            index: Index::none(),
            seed: self.seed.clone(),
            ..*self
        }
    }

    /// The number of elements.
    #[inline]
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    #[inline]
    fn hash(&self, member: &[u8]) -> u32 {
        let mut hasher = self.seed.build_hasher();
        hasher.write(member);
        (hasher.finish() >> 32) as u32
    }

    /// The part of a hash that leaves store. The index compares all bits, so any part will do.
    #[inline]
    fn tag(hash: u32) -> u16 {
        hash as u16
    }

    /// The member at `place`.
    #[inline]
    #[must_use]
    pub fn member(&self, place: Place) -> &[u8] {
        self.member_in(&self.leaves[place.leaf], place.at)
    }

    /// The member at `at` in a leaf of this tree.
    #[inline]
    fn member_in<'t>(&'t self, leaf: &'t Leaf, at: usize) -> &'t [u8] {
        match leaf.text(at) {
            Text::Here(bytes) => bytes,
            Text::Elsewhere(id) => &self.long[id],
        }
    }

    /// The score at `place`.
    #[inline]
    #[must_use]
    pub fn score(&self, place: Place) -> f64 {
        self.leaves[place.leaf].score(place.at)
    }

    /// The position of `member`. Expected O(1).
    #[inline]
    #[must_use]
    pub fn find(&self, member: &[u8]) -> Option<Place> {
        self.find_hashed(member, self.hash(member))
    }

    #[inline]
    fn find_hashed(&self, member: &[u8], hash: u32) -> Option<Place> {
        self.index.find(hash).find_map(|id| {
            let leaf: &Leaf = &self.leaves[id];
            let mut from = 0;
            while let Some(at) = leaf.tagged(Tree::tag(hash), from) {
                if self.member_in(leaf, at) == member {
                    return Some(Place { leaf: id, at });
                }
                from = at + 1;
            }
            None
        })
    }

    /// The number of elements before `place`. O(log n).
    #[must_use]
    pub fn rank(&self, place: Place) -> usize {
        let mut rank = place.at as u64;
        let mut child = place.leaf;
        let mut parent = self.leaves[place.leaf].parent;
        while parent != NONE {
            let branch = &self.branches[parent];
            rank += branch.count_before(branch.position(child));
            child = parent;
            parent = branch.parent;
        }
        rank as usize
    }

    /// The element with the rank `rank`. O(log n).
    #[must_use]
    pub fn nth(&self, rank: usize) -> Option<Place> {
        if rank >= self.len {
            return None;
        }
        let mut rest = rank as u64;
        let mut id = self.root;
        for _ in 0..self.height {
            let branch = &self.branches[id];
            let (at, n) = branch.nth(rest);
            id = branch.id(at);
            rest = n;
        }
        Some(Place { leaf: id, at: rest as usize })
    }

    /// Descends to the end of the elements for which `before` holds; they must be the first ones.
    /// The position may be after the last element of a leaf. With `RANK` also returns their number,
    /// which is meaningless otherwise.
    #[inline]
    fn descend<const RANK: bool>(
        &self,
        before: impl Fn(f64, LazyMember<'_>) -> bool,
    ) -> (Place, u64) {
        let mut id = self.root;
        let mut rank = 0;
        for _ in 0..self.height {
            let branch = &self.branches[id];
            let at = partition(1, branch.len(), |at| {
                let place = Place { leaf: branch.first(at), at: 0 };
                before(branch.score(at), LazyMember { tree: self, place })
            }) - 1;
            if RANK {
                rank += branch.count_before(at);
            }
            id = branch.id(at);
        }
        let scores = self.leaves[id].scores();
        let at = partition(0, scores.len(), |at| {
            before(scores[at], LazyMember { tree: self, place: Place { leaf: id, at } })
        });
        (Place { leaf: id, at }, rank + at as u64)
    }

    /// The number of elements for which `before` holds; they must be the first ones. O(log n).
    #[inline]
    pub fn count_before(&self, before: impl Fn(f64, LazyMember<'_>) -> bool) -> usize {
        self.descend::<true>(before).1 as usize
    }

    /// The elements from rank `from` on, in order.
    pub fn forward(&self, from: usize) -> impl Iterator<Item = (&[u8], f64)> {
        let mut place = match from {
            0 if self.len > 0 => Some(Place { leaf: self.first, at: 0 }),
            from => self.nth(from),
        };
        std::iter::from_fn(move || {
            let here = place?;
            let leaf = &self.leaves[here.leaf];
            place = if here.at + 1 < leaf.len() {
                Some(Place { at: here.at + 1, ..here })
            } else {
                (leaf.next != NONE).then_some(Place { leaf: leaf.next, at: 0 })
            };
            Some((self.member(here), leaf.score(here.at)))
        })
    }

    /// The elements from rank `from` on, backwards.
    pub fn backward(&self, from: usize) -> impl Iterator<Item = (&[u8], f64)> {
        let mut place = match from.checked_add(1) {
            Some(len) if len == self.len => {
                Some(Place { leaf: self.last, at: self.leaves[self.last].len() - 1 })
            }
            Some(_) | None => self.nth(from),
        };
        std::iter::from_fn(move || {
            let here = place?;
            let leaf = &self.leaves[here.leaf];
            place = if here.at > 0 {
                Some(Place { at: here.at - 1, ..here })
            } else {
                let before = leaf.previous;
                (before != NONE).then(|| Place { leaf: before, at: self.leaves[before].len() - 1 })
            };
            Some((self.member(here), leaf.score(here.at)))
        })
    }

    /// Passes elements in the order of their hashes to `seen`, starting at `cursor`, until it
    /// breaks or all were passed. Returns the next cursor, 0 at the end. A scan also starts with 0.
    ///
    /// An element that exists throughout a scan is passed at least once, whatever happens to its
    /// score and to other elements, since its hash stays. After `seen` breaks, elements with the
    /// same hash are still passed.
    pub fn scan(&self, cursor: u64, mut seen: impl FnMut(&[u8], f64) -> ControlFlow<()>) -> u64 {
        let mut leaves = Vec::new();
        let mut enough = false;
        let mut from = u32::try_from(cursor).ok();
        while let Some(hash) = from.and_then(|from| self.index.next_hash(from, &mut leaves)) {
            if enough {
                // Only now it is certain that this is not the end. The cursor is not 0: the first
                // hash was in the first step.
                return u64::from(hash);
            }
            for leaf in &leaves {
                let mut next = 0;
                while let Some(at) = self.leaves[*leaf].tagged(Tree::tag(hash), next) {
                    next = at + 1;
                    let place = Place { leaf: *leaf, at };
                    let member = self.member(place);
                    if self.hash(member) == hash {
                        enough |= seen(member, self.score(place)).is_break();
                    }
                }
            }
            from = hash.checked_add(1);
        }
        0
    }

    /// The approximate number of allocations: leaves are usually at least half full and have four.
    /// O(pages).
    pub fn pieces(&self) -> usize {
        4 + 4 * (self.len / (leaf::FULL / 2)) + self.long.len()
    }

    /// Bytes of memory, estimated from the leaves of the first `samples` elements; 0: all.
    #[must_use]
    pub fn memory(&self, samples: usize) -> usize {
        let samples = if samples == 0 { self.len } else { samples };
        let (mut elements, mut bytes) = (0, 0);
        let mut id = self.first;
        while id != NONE && elements < samples {
            let leaf = &self.leaves[id];
            elements += leaf.len();
            bytes += leaf.memory() + HEADER + size_of::<Leaf>();
            for at in 0..leaf.len() {
                if let Text::Elsewhere(id) = leaf.text(at) {
                    bytes += self.long[id].memory();
                }
            }
            id = leaf.next;
        }
        if elements < self.len {
            bytes = (bytes as f64 / elements as f64 * self.len as f64) as usize;
        }
        let branches: usize = self.branches.iter().map(Branch::memory).sum();
        let pages = self.leaves.memory() + self.long.memory() + self.branches.memory();
        size_of::<Tree>() + bytes + pages + branches + self.index.memory()
    }
}

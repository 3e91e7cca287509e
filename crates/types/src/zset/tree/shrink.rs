//! Removes elements, and joins nodes that have become small.
//!
//! A node is joined with a neighbour of the same parent when it is at most a quarter full and both
//! together leave room. Joining earlier would repeatedly move elements and change the index. A
//! half-full node wastes little, since its arrays shrink with their contents.

use super::arena::{Id, NONE};
use super::branch;
use super::leaf::{self, Leaf, Text};
use super::{Place, Tree};
use crate::counted::Counted;

impl Tree {
    /// Removes the element at `place`. O(log n).
    pub fn remove(&mut self, place: Place) {
        self.unindex(place);
        self.remove_from_leaf(place);
    }

    /// Removes the elements with these ranks. O(log n) for each of their leaves and expected O(1)
    /// for each element.
    pub fn remove_ranks(&mut self, ranks: std::ops::Range<usize>) {
        let mut left = ranks.end.min(self.len).saturating_sub(ranks.start);
        while left > 0 {
            let place = self.nth(ranks.start).expect("ranks below the length");
            let end = self.leaves[place.leaf].len().min(place.at + left);
            (place.at..end).for_each(|at| self.unindex(Place { at, ..place }));
            self.remove_range_from_leaf(place, end);
            left -= end - place.at;
        }
    }

    /// Removes an element from the index, and its text if it is long.
    fn unindex(&mut self, place: Place) {
        let hash = self.hash(self.member(place));
        self.index.remove(hash, place.leaf);
        if let Text::Elsewhere(id) = self.leaves[place.leaf].text(place.at) {
            self.long.remove(id);
        }
    }

    /// Removes an element from its leaf.
    pub(super) fn remove_from_leaf(&mut self, place: Place) {
        self.remove_range_from_leaf(place, place.at + 1);
    }

    /// Removes the elements from `place` to `end` from their leaf.
    fn remove_range_from_leaf(&mut self, place: Place, end: usize) {
        let gone = end - place.at;
        self.len -= gone;
        let leaf = &mut self.leaves[place.leaf];
        leaf.remove(place.at, end);
        let (empty, small) = (leaf.is_empty(), leaf.len() <= leaf::FULL / 4);
        self.climb(place.leaf, |branch, at| branch.subtract(at, gone as u64));
        if empty {
            self.unlink(place.leaf);
            return;
        }
        if place.at == 0 {
            self.refresh_first(place.leaf);
        }
        if small {
            self.join_leaf(place.leaf);
        }
    }

    /// Removes an empty leaf, unless it is the only one.
    fn unlink(&mut self, id: Id) {
        let Leaf { parent, previous, next, .. } = *self.leaves[id];
        if parent == NONE {
            return;
        }
        match previous {
            NONE => self.first = next,
            previous => self.leaves[previous].next = next,
        }
        match next {
            NONE => self.last = previous,
            next => self.leaves[next].previous = previous,
        }
        self.leaves.remove(id);
        self.remove_child(parent, id);
    }

    /// Removes a child without elements from a branch.
    fn remove_child(&mut self, id: Id, child: Id) {
        let branch = &mut self.branches[id];
        let at = branch.position(child);
        branch.remove(at);
        let parent = branch.parent;
        match branch.len() {
            0 => {
                self.branches.remove(id);
                match parent {
                    NONE => self.reset_root(),
                    parent => self.remove_child(parent, id),
                }
            }
            1 if parent == NONE => self.lower_root(),
            len => {
                let (score, first) = (branch.score(0), branch.first(0));
                if at == 0 {
                    self.refresh_from(id, parent, score, first);
                }
                if len <= branch::FULL / 4 {
                    self.join_branch(id);
                }
            }
        }
    }

    /// Makes an empty root after the last leaf was removed.
    fn reset_root(&mut self) {
        debug_assert_eq!(self.len, 0);
        self.root = self.leaves.insert(Counted::new(Leaf::default()));
        self.height = 0;
        self.first = self.root;
        self.last = self.root;
    }

    /// Makes the root's only child the root.
    fn lower_root(&mut self) {
        while self.height > 0 && self.branches[self.root].len() == 1 {
            let old = self.branches.remove(self.root);
            self.root = old.id(0);
            self.height -= 1;
            self.set_parent(self.root, self.height, NONE);
        }
    }

    /// Joins a small leaf with a neighbour that has room for it.
    fn join_leaf(&mut self, id: Id) {
        let parent = self.leaves[id].parent;
        if parent == NONE {
            return;
        }
        let branch = &self.branches[parent];
        let at = branch.position(id);
        let fits = |other: Id| {
            let (a, b) = (&self.leaves[id], &self.leaves[other]);
            a.len() + b.len() <= leaf::FULL * 3 / 4
                && a.text_len() + b.text_len() <= leaf::FULL_TEXT * 3 / 4
        };
        let (left, right) = if at + 1 < branch.len() && fits(branch.id(at + 1)) {
            (at, at + 1)
        } else if at > 0 && fits(branch.id(at - 1)) {
            (at - 1, at)
        } else {
            return;
        };
        let (to, from) = (branch.id(left), branch.id(right));
        let moved = branch.child(right).count;
        self.branches[parent].subtract(right, moved);
        self.branches[parent].add(left, moved);
        let had = self.leaves[to].len();
        let mut gone = std::mem::take::<Leaf>(&mut self.leaves[from]);
        gone.move_tail(0, &mut self.leaves[to]);
        // Empty, but still linked until `unlink`.
        *self.leaves[from] = gone;
        self.members_moved(to, had, from, to);
        self.unlink(from);
    }

    /// Joins a small branch with a neighbour that has room for its children.
    fn join_branch(&mut self, id: Id) {
        let parent = self.branches[id].parent;
        if parent == NONE {
            return;
        }
        let above = &self.branches[parent];
        let at = above.position(id);
        let fits = |other: Id| {
            self.branches[id].len() + self.branches[other].len() <= branch::FULL * 3 / 4
        };
        let (left, right) = if at + 1 < above.len() && fits(above.id(at + 1)) {
            (at, at + 1)
        } else if at > 0 && fits(above.id(at - 1)) {
            (at - 1, at)
        } else {
            return;
        };
        let (to, from) = (above.id(left), above.id(right));
        let moved = above.child(right).count;
        self.branches[parent].subtract(right, moved);
        self.branches[parent].add(left, moved);
        let had = self.branches[to].len();
        let mut gone = self.branches.remove(from);
        gone.move_tail(0, &mut self.branches[to]);
        self.set_parents(to, had);
        self.remove_child(parent, from);
    }
}

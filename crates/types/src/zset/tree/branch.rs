//! A branch: up to 64 children with the data of each that searches and ranks need.
//!
//! ```text
//!  children numbers of leaves (height 1) or of branches
//!  counts   elements below each: a rank is a sum of these on the way down or up
//!  scores   score of the first element below each
//!  firsts   the leaf of that element, where its member is, for scores that are equal
//! ```
//!
//! Branches contain no members. The arrays are separate because every pass over a branch reads one
//! of them from end to end.

use super::arena::{Id, NONE};

/// Children of a full branch. Low in tests, so that small trees are high.
pub(super) const FULL: usize = if cfg!(test) { 8 } else { 64 };

#[derive(Clone, Debug)]
pub(super) struct Branch {
    /// The branch above, or [`NONE`].
    pub(super) parent: Id,
    /// 1 above leaves, 2 above such branches, and so on.
    pub(super) height: u32,
    children: Vec<Id>,
    counts: Vec<u64>,
    scores: Vec<f64>,
    firsts: Vec<Id>,
}

impl Default for Branch {
    fn default() -> Self {
        Branch {
            parent: NONE,
            height: 0,
            children: Vec::new(),
            counts: Vec::new(),
            scores: Vec::new(),
            firsts: Vec::new(),
        }
    }
}

/// The data that a branch stores for a child.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Child {
    pub(super) id: Id,
    pub(super) count: u64,
    pub(super) score: f64,
    pub(super) first: Id,
}

impl Branch {
    pub(super) fn at_height(height: u32) -> Self {
        Branch { height, ..Branch::default() }
    }

    #[inline]
    pub(super) fn len(&self) -> usize {
        self.children.len()
    }

    pub(super) fn is_full(&self) -> bool {
        self.len() >= FULL
    }

    pub(super) fn child(&self, at: usize) -> Child {
        Child {
            id: self.children[at],
            count: self.counts[at],
            score: self.scores[at],
            first: self.firsts[at],
        }
    }

    #[inline]
    pub(super) fn id(&self, at: usize) -> Id {
        self.children[at]
    }

    #[inline]
    pub(super) fn score(&self, at: usize) -> f64 {
        self.scores[at]
    }

    #[inline]
    pub(super) fn first(&self, at: usize) -> Id {
        self.firsts[at]
    }

    /// The index of the child `id`.
    #[inline]
    pub(super) fn position(&self, id: Id) -> usize {
        self.children.iter().position(|child| *child == id).expect("the child's parent contains it")
    }

    /// The number of elements below the children before `at`.
    #[inline]
    pub(super) fn count_before(&self, at: usize) -> u64 {
        self.counts[..at].iter().sum()
    }

    /// The number of elements below all children.
    pub(super) fn count(&self) -> u64 {
        self.count_before(self.len())
    }

    /// The child with the `n`-th element below this branch, and the index of the element below that
    /// child. The element must exist.
    #[inline]
    pub(super) fn nth(&self, mut n: u64) -> (usize, u64) {
        let last = self.len() - 1;
        for (at, count) in self.counts[..last].iter().enumerate() {
            if n < *count {
                return (at, n);
            }
            n -= count;
        }
        (last, n)
    }

    #[inline]
    pub(super) fn add(&mut self, at: usize, elements: u64) {
        self.counts[at] += elements;
    }

    #[inline]
    pub(super) fn subtract(&mut self, at: usize, elements: u64) {
        self.counts[at] -= elements;
    }

    /// Sets the first element below a child.
    pub(super) fn set_first(&mut self, at: usize, score: f64, first: Id) {
        self.scores[at] = score;
        self.firsts[at] = first;
    }

    pub(super) fn insert(&mut self, at: usize, child: Child) {
        self.children.insert(at, child.id);
        self.counts.insert(at, child.count);
        self.scores.insert(at, child.score);
        self.firsts.insert(at, child.first);
    }

    pub(super) fn remove(&mut self, at: usize) {
        self.children.remove(at);
        self.counts.remove(at);
        self.scores.remove(at);
        self.firsts.remove(at);
    }

    /// Moves the children from `at` on to the end of `to`.
    pub(super) fn move_tail(&mut self, at: usize, to: &mut Branch) {
        to.children.extend(self.children.drain(at..));
        to.counts.extend(self.counts.drain(at..));
        to.scores.extend(self.scores.drain(at..));
        to.firsts.extend(self.firsts.drain(at..));
    }

    /// Bytes of memory of the arrays.
    pub(super) fn memory(&self) -> usize {
        (self.children.capacity() + self.firsts.capacity()) * 4
            + (self.counts.capacity() + self.scores.capacity()) * 8
    }
}

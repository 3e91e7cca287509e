//! Adds elements: insertion, splitting of nodes, and moving an element.

use super::arena::{Id, NONE};
use super::branch::{self, Branch, Child};
use super::leaf::{self, LONG, Leaf, Text};
use super::{Place, Tree};
use crate::counted::Counted;

/// A member to be put into a leaf.
#[derive(Clone, Copy)]
pub(super) enum Member<'a> {
    Bytes(&'a [u8]),
    /// A long one that the tree already stores.
    Long(Id, &'a [u8]),
}

impl<'a> Member<'a> {
    #[inline]
    fn bytes(self) -> &'a [u8] {
        match self {
            Member::Bytes(bytes) | Member::Long(_, bytes) => bytes,
        }
    }
}

impl Tree {
    /// Adds an element whose member must not be in the set. O(log n).
    pub fn insert(&mut self, member: &[u8], score: f64) {
        debug_assert!(self.find(member).is_none());
        let hash = self.hash(member);
        let leaf = self.put(Member::Bytes(member), score, hash);
        self.index.insert(hash, leaf);
    }

    /// Appends an element, which must sort after all others and whose member must not be in the
    /// set. Expected O(1).
    pub fn push(&mut self, member: &[u8], score: f64) {
        let hash = self.hash(member);
        let place = Place { leaf: self.last, at: self.leaves[self.last].len() };
        let leaf = self.put_at(place, Member::Bytes(member), score, hash);
        self.index.insert(hash, leaf);
    }

    /// Changes the score of the element at `place`, whose member is `member`. O(log n), or O(1) if
    /// it stays between its neighbours.
    pub fn set_score(&mut self, place: Place, member: &[u8], score: f64) {
        debug_assert_eq!(self.member(place), member);
        if self.keeps_position(place, member, score) {
            self.leaves[place.leaf].set_score(place.at, score);
            if place.at == 0 {
                self.refresh_first(place.leaf);
            }
            return;
        }
        let hash = self.hash(member);
        let moved = match self.leaves[place.leaf].text(place.at) {
            Text::Here(_) => Member::Bytes(member),
            Text::Elsewhere(id) => Member::Long(id, member),
        };
        // Between these two steps the index has the old leaf of the member, but no lookup happens.
        self.remove_from_leaf(place);
        let leaf = self.put(moved, score, hash);
        self.index.relocate(hash, place.leaf, leaf);
    }

    /// Whether `member` stays at the same position with another score. May return false if only the
    /// next leaf could decide it.
    fn keeps_position(&self, place: Place, member: &[u8], score: f64) -> bool {
        let leaf: &Leaf = &self.leaves[place.leaf];
        let text = |at| self.member_in(leaf, at);
        if score > leaf.score(place.at) {
            let next = place.at + 1;
            return match next < leaf.len() {
                true => {
                    let other = leaf.score(next);
                    score < other || (score == other && member < text(next))
                }
                false => leaf.next == NONE,
            };
        }
        match place.at.checked_sub(1) {
            Some(previous) => {
                let other = leaf.score(previous);
                score > other || (score == other && member > text(previous))
            }
            None => leaf.previous == NONE,
        }
    }

    /// Adds an element to its leaf, but not to the index. Returns the leaf.
    fn put(&mut self, member: Member<'_>, score: f64, hash: u32) -> Id {
        let bytes = member.bytes();
        let (place, _) = self.descend::<false>(|other, lazy| {
            other < score || (other == score && lazy.bytes() < bytes)
        });
        self.put_at(place, member, score, hash)
    }

    /// Inserts an element before `place`, which must be its position in the order.
    fn put_at(&mut self, mut place: Place, member: Member<'_>, score: f64, hash: u32) -> Id {
        self.len += 1;
        let text = match member {
            Member::Bytes(bytes) if bytes.len() <= LONG => Text::Here(bytes),
            Member::Bytes(bytes) => Text::Elsewhere(self.long.insert(bytes.into())),
            Member::Long(id, _) => Text::Elsewhere(id),
        };
        let tag = Tree::tag(hash);
        let len = match text {
            Text::Here(bytes) => bytes.len(),
            Text::Elsewhere(_) => size_of::<Id>(),
        };
        let leaf = &self.leaves[place.leaf];
        if !leaf.has_room(len) {
            let at_end = place.at == leaf.len() && leaf.next == NONE;
            let at_start = place.at == 0 && leaf.previous == NONE;
            if at_end || at_start {
                let mut alone = Leaf::default();
                alone.insert(0, score, tag, text);
                return self.link(place.leaf, at_end, alone);
            }
            let middle = leaf.middle();
            let right = self.split(place.leaf, middle);
            if place.at > middle {
                place = Place { leaf: right, at: place.at - middle };
            }
        }
        self.leaves[place.leaf].insert(place.at, score, tag, text);
        self.climb(place.leaf, |branch, at| branch.add(at, 1));
        if place.at == 0 {
            self.refresh_first(place.leaf);
        }
        place.leaf
    }

    /// Moves the elements of a leaf from `middle` on to a new leaf after it.
    fn split(&mut self, id: Id, middle: usize) -> Id {
        let mut right = Leaf::default();
        self.leaves[id].move_tail(middle, &mut right);
        let moved = right.len();
        self.climb(id, |branch, at| branch.subtract(at, moved as u64));
        let right = self.link(id, true, right);
        self.members_moved(right, 0, id, right);
        right
    }

    /// Updates the index: the members of `leaf` from `at` on moved from the leaf `from` to `to`.
    pub(super) fn members_moved(&mut self, leaf: Id, at: usize, from: Id, to: Id) {
        for at in at..self.leaves[leaf].len() {
            let hash = self.hash(self.member(Place { leaf, at }));
            self.index.relocate(hash, from, to);
        }
    }

    /// Links a new leaf, which must have elements, after or before the leaf `neighbour`. Returns
    /// its number.
    fn link(&mut self, neighbour: Id, is_after: bool, new: Leaf) -> Id {
        let (count, score) = (new.len() as u64, new.score(0));
        let id = self.leaves.insert(Counted::new(new));
        let (before, after) = match is_after {
            true => (neighbour, self.leaves[neighbour].next),
            false => (self.leaves[neighbour].previous, neighbour),
        };
        self.leaves[id].previous = before;
        self.leaves[id].next = after;
        match before {
            NONE => self.first = id,
            before => self.leaves[before].next = id,
        }
        match after {
            NONE => self.last = id,
            after => self.leaves[after].previous = id,
        }
        if self.leaves[neighbour].parent == NONE {
            let leaf = &self.leaves[neighbour];
            let only = Child {
                id: neighbour,
                count: leaf.len() as u64,
                score: leaf.score(0),
                first: neighbour,
            };
            self.leaves[neighbour].parent = self.raise_root(only);
        }
        let parent = self.leaves[neighbour].parent;
        let at = self.branches[parent].position(neighbour) + usize::from(is_after);
        // Count its elements once it is linked, wherever splits of branches have put it.
        self.add_child(parent, at, Child { id, count: 0, score, first: id });
        self.climb(id, |branch, at| branch.add(at, count));
        if at == 0 {
            self.refresh_first(id);
        }
        id
    }

    /// Adds a branch above the root. Returns its number.
    fn raise_root(&mut self, only: Child) -> Id {
        self.height += 1;
        let mut root = Branch::at_height(self.height);
        root.insert(0, only);
        self.root = self.branches.insert(root);
        self.root
    }

    /// Inserts a child before the child `at` of a branch, and splits the branch if it is full.
    fn add_child(&mut self, mut parent: Id, mut at: usize, child: Child) {
        if self.branches[parent].is_full() {
            // Children added in order result in full branches, as elements result in full leaves.
            let middle = match at {
                0 => 1,
                branch::FULL => branch::FULL - 1,
                _ => branch::FULL / 2,
            };
            let right = self.split_branch(parent, middle);
            if at > middle {
                parent = right;
                at -= middle;
            }
        }
        self.branches[parent].insert(at, child);
        let height = self.branches[parent].height;
        self.set_parent(child.id, height - 1, parent);
    }

    /// Moves the children of a branch from `middle` on to a new branch after it.
    fn split_branch(&mut self, id: Id, middle: usize) -> Id {
        let height = self.branches[id].height;
        let mut right = Branch::at_height(height);
        self.branches[id].move_tail(middle, &mut right);
        let (count, score, first) = (right.count(), right.score(0), right.first(0));
        let right_id = self.branches.insert(right);
        self.set_parents(right_id, 0);
        if self.branches[id].parent == NONE {
            let left = &self.branches[id];
            let only =
                Child { id, count: left.count(), score: left.score(0), first: left.first(0) };
            self.branches[id].parent = self.raise_root(only);
        } else {
            let parent = self.branches[id].parent;
            self.climb_from(id, parent, |branch, at| branch.subtract(at, count));
        }
        let parent = self.branches[id].parent;
        let at = self.branches[parent].position(id) + 1;
        self.add_child(parent, at, Child { id: right_id, count: 0, score, first });
        let parent = self.branches[right_id].parent;
        self.climb_from(right_id, parent, |branch, at| branch.add(at, count));
        right_id
    }

    /// Sets the parent of the children of a branch from `at` on.
    pub(super) fn set_parents(&mut self, id: Id, at: usize) {
        let height = self.branches[id].height;
        for at in at..self.branches[id].len() {
            self.set_parent(self.branches[id].id(at), height - 1, id);
        }
    }

    /// Sets the parent of the node `id` of this height.
    pub(super) fn set_parent(&mut self, id: Id, height: u32, parent: Id) {
        match height {
            0 => self.leaves[id].parent = parent,
            _ => self.branches[id].parent = parent,
        }
    }

    /// Calls `change` for all branches above a leaf, with the index of the child on the path.
    #[inline]
    pub(super) fn climb(&mut self, leaf: Id, change: impl FnMut(&mut Branch, usize)) {
        let parent = self.leaves[leaf].parent;
        self.climb_from(leaf, parent, change);
    }

    /// Like [`Tree::climb`], for any node and its parent.
    #[inline]
    pub(super) fn climb_from(
        &mut self,
        mut child: Id,
        mut parent: Id,
        mut change: impl FnMut(&mut Branch, usize),
    ) {
        while parent != NONE {
            let branch = &mut self.branches[parent];
            let at = branch.position(child);
            change(branch, at);
            child = parent;
            parent = branch.parent;
        }
    }

    /// Updates the branches above a leaf after its first element changed.
    pub(super) fn refresh_first(&mut self, leaf: Id) {
        let score = self.leaves[leaf].score(0);
        let parent = self.leaves[leaf].parent;
        self.refresh_from(leaf, parent, score, leaf);
    }

    /// Like [`Tree::refresh_first`], for any node: the first element below it is that of the leaf
    /// `first`.
    pub(super) fn refresh_from(&mut self, mut child: Id, mut parent: Id, score: f64, first: Id) {
        while parent != NONE {
            let branch = &mut self.branches[parent];
            let at = branch.position(child);
            branch.set_first(at, score, first);
            if at > 0 {
                break;
            }
            child = parent;
            parent = branch.parent;
        }
    }
}

const _: () = assert!(leaf::FULL >= 4 && branch::FULL >= 4, "halves have elements");

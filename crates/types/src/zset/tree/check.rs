//! Checks the invariants of a tree, for tests.

use super::arena::{Id, NONE};
use super::{Place, Tree};

impl Tree {
    /// Panics unless all invariants hold. Returns the elements in order.
    pub(super) fn check(&self) -> Vec<(Vec<u8>, f64)> {
        let mut leaves = Vec::new();
        let total = self.check_node(self.root, self.height, NONE, &mut leaves);
        assert_eq!(total as usize, self.len);
        assert_eq!((leaves.first(), leaves.last()), (Some(&self.first), Some(&self.last)));
        let mut before = NONE;
        let mut elements = Vec::new();
        for (n, id) in leaves.iter().enumerate() {
            let leaf = &self.leaves[*id];
            assert_eq!(leaf.previous, before);
            assert_eq!(leaf.next, leaves.get(n + 1).copied().unwrap_or(NONE));
            assert!(!leaf.is_empty() || self.height == 0, "an empty leaf");
            before = *id;
            for at in 0..leaf.len() {
                let place = Place { leaf: *id, at };
                let member = self.member(place);
                assert_eq!(self.find(member), Some(place));
                assert_eq!(self.rank(place), elements.len());
                assert_eq!(self.nth(elements.len()), Some(place));
                elements.push((member.to_vec(), self.score(place)));
            }
        }
        let ordered = elements.windows(2).all(|w| {
            let ((a, x), (b, y)) = (&w[0], &w[1]);
            x < y || (x == y && a < b)
        });
        assert!(ordered, "out of order");
        assert_eq!(self.index.check(), self.len);
        assert_eq!(self.leaves.iter().count(), leaves.len());
        let long = elements.iter().filter(|(m, _)| m.len() > super::leaf::LONG).count();
        assert_eq!(self.long.iter().count(), long);
        elements
    }

    /// Checks the subtree of a node. Returns its number of elements.
    fn check_node(&self, id: Id, height: u32, parent: Id, leaves: &mut Vec<Id>) -> u64 {
        if height == 0 {
            assert_eq!(self.leaves[id].parent, parent);
            leaves.push(id);
            return self.leaves[id].len() as u64;
        }
        let branch = &self.branches[id];
        assert_eq!((branch.parent, branch.height), (parent, height));
        assert!(branch.len() > usize::from(parent == NONE), "a branch with too few children");
        for at in 0..branch.len() {
            let first = leaves.len();
            let known = branch.child(at);
            let count = self.check_node(known.id, height - 1, id, leaves);
            assert_eq!((known.count, known.first), (count, leaves[first]));
            assert_eq!(known.score, self.leaves[leaves[first]].score(0));
        }
        branch.count()
    }
}

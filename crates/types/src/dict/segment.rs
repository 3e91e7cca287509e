//! The entries of one range of hashes.
//!
//! They are usually [`Packed`] in one block. If so many keys have nearly equal hashes that
//! splitting doesn't separate them, which happens only in an attack on the hash, the segment
//! becomes a search tree, which needs no hash.

use super::block::{Packed, Room};
use super::directory::Ranged;
use super::entry::{self, Entry};
use crate::counted::{CopyOnWrite, Counted};
use std::collections::BTreeMap;

/// The entries of one range of hashes.
#[derive(Clone, Debug)]
pub(super) enum Segment {
    Packed(Packed),
    Tree(Tree),
}

// Each slot of a directory has this size, so two slots fill a cache line.
const _: () = assert!(size_of::<Option<Segment>>() == 32);

type Entries = BTreeMap<Box<[u8]>, Box<[u8]>>;

impl CopyOnWrite for Entries {
    fn owned_memory(&self) -> usize {
        let each = 2 * size_of::<Box<[u8]>>();
        self.iter().map(|(key, block)| each + key.len() + block.len()).sum()
    }
}

/// The fallback when hashes don't distinguish keys: near forms by key. A change of a shared tree
/// copies it as a whole.
#[derive(Clone, Debug)]
pub(super) struct Tree {
    entries: Counted<Entries>,
    depth: u8,
}

/// The result of [`Segment::put`].
pub(super) enum Put {
    Added,
    /// The key existed, with an expiry or without.
    Replaced {
        expired: bool,
    },
    /// Nothing has changed: the segment must be split first.
    Full,
}

impl Tree {
    fn of(packed: &Packed) -> Self {
        let entries: Entries = packed.entries().map(|e| (e.key.into(), e.to_block())).collect();
        Tree { entries: Counted::new(entries), depth: packed.depth() as u8 }
    }
}

impl Ranged for Segment {
    #[inline]
    fn depth(&self) -> u32 {
        match self {
            Segment::Packed(packed) => packed.depth(),
            Segment::Tree(tree) => u32::from(tree.depth),
        }
    }
}

impl Segment {
    /// An empty segment for a prefix of `depth` bits. Allocates nothing.
    pub(super) fn new(depth: u32) -> Self {
        Segment::Packed(Packed::new(depth))
    }

    #[inline]
    pub(super) fn count(&self) -> usize {
        match self {
            Segment::Packed(packed) => packed.count(),
            Segment::Tree(tree) => tree.entries.len(),
        }
    }

    /// The number of allocations.
    pub(super) fn pieces(&self) -> usize {
        match self {
            Segment::Packed(packed) => packed.pieces(),
            Segment::Tree(tree) => 2 * tree.entries.len(),
        }
    }

    /// Bytes on the heap.
    pub(super) fn memory(&self) -> usize {
        match self {
            Segment::Packed(packed) => packed.memory(),
            Segment::Tree(tree) => tree.entries.owned_memory(),
        }
    }

    #[inline]
    pub(super) fn get(&self, hash: u64, key: &[u8]) -> Option<Entry<'_>> {
        match self {
            Segment::Packed(packed) => packed.find(hash, key).ok().map(|at| packed.entry(at)),
            Segment::Tree(tree) => tree.entries.get(key).map(|block| entry::read(block)),
        }
    }

    /// The entry at `n`, which must be less than the count. O(1), or O(count) in a tree.
    pub(super) fn nth(&self, n: usize) -> Entry<'_> {
        match self {
            Segment::Packed(packed) => packed.entry(n),
            Segment::Tree(tree) => {
                entry::read(tree.entries.values().nth(n).expect("n is less than the count"))
            }
        }
    }

    /// All entries, in no particular order.
    pub(super) fn entries(&self) -> impl Iterator<Item = Entry<'_>> {
        let (packed, tree) = match self {
            Segment::Packed(packed) => (Some(packed), None),
            Segment::Tree(tree) => (None, Some(tree)),
        };
        let near = packed.into_iter().flat_map(Packed::entries);
        near.chain(tree.into_iter().flat_map(|t| t.entries.values().map(|b| entry::read(b))))
    }

    /// Whether an entry may have an expiry.
    pub(super) fn expires(&self) -> bool {
        match self {
            Segment::Packed(packed) => packed.expires(),
            Segment::Tree(_) => true,
        }
    }

    /// Replaces the entry with the key of `new`, or adds it. A segment at `deepest` bits is never
    /// full.
    #[inline]
    pub(super) fn put(&mut self, hash: u64, new: &Entry<'_>, deepest: u32) -> Put {
        match self {
            Segment::Packed(packed) => {
                let found = packed.find(hash, new.key);
                match packed.check_room(found.ok(), new, deepest) {
                    Room::Enough => packed.put_at(found, hash, new),
                    Room::SplitFirst => Put::Full,
                    Room::MailboxFull => {
                        *self = Segment::Tree(Tree::of(packed));
                        self.put(hash, new, deepest)
                    }
                }
            }
            Segment::Tree(tree) => match tree.entries.insert(new.key.into(), new.to_block()) {
                None => Put::Added,
                Some(old) => Put::Replaced { expired: entry::read(&old).expiry.is_some() },
            },
        }
    }

    /// Removes the entry of `key`. Returns whether it had an expiry, or `None` if there was no
    /// entry.
    #[inline]
    pub(super) fn remove(&mut self, hash: u64, key: &[u8]) -> Option<bool> {
        match self {
            Segment::Packed(packed) => {
                let at = packed.find(hash, key).ok()?;
                Some(packed.remove(at))
            }
            Segment::Tree(tree) => {
                let old = tree.entries.remove(key)?;
                if tree.entries.is_empty() {
                    *self = Segment::new(self.depth());
                }
                Some(entry::read(&old).expiry.is_some())
            }
        }
    }

    /// Removes the entry at `n`, which must be less than the count. Returns whether it had an
    /// expiry.
    pub(super) fn remove_nth(&mut self, n: usize) -> bool {
        match self {
            Segment::Packed(packed) => packed.remove(n),
            Segment::Tree(tree) => {
                let key = tree.entries.keys().nth(n).expect("n is less than the count").clone();
                let old = tree.entries.remove(&key).expect("the key exists");
                if tree.entries.is_empty() {
                    *self = Segment::new(self.depth());
                }
                entry::read(&old).expiry.is_some()
            }
        }
    }

    /// Removes the entries that are `dead`. Returns how many, and how many of them had an expiry.
    pub(super) fn remove_if(&mut self, mut dead: impl FnMut(Entry<'_>) -> bool) -> (usize, usize) {
        let (mut removed, mut expired) = (0, 0);
        match self {
            Segment::Packed(packed) => {
                for at in (0..packed.count()).rev() {
                    if dead(packed.entry(at)) {
                        removed += 1;
                        expired += usize::from(packed.remove(at));
                    }
                }
            }
            Segment::Tree(tree) => {
                tree.entries.retain(|_, block| {
                    let found = entry::read(block);
                    let is_dead = dead(found);
                    removed += usize::from(is_dead);
                    expired += usize::from(is_dead && found.expiry.is_some());
                    !is_dead
                });
                if tree.entries.is_empty() {
                    *self = Segment::new(self.depth());
                }
            }
        }
        (removed, expired)
    }

    /// Overwrites the expiry of `key` if it exists and has one. Returns whether it did.
    pub(super) fn patch_expiry(&mut self, hash: u64, key: &[u8], expiry: i64) -> bool {
        self.near_mut(hash, key).is_some_and(|near| entry::patch_expiry(near, expiry))
    }

    /// The near form of the entry of `key`, mutable.
    fn near_mut(&mut self, hash: u64, key: &[u8]) -> Option<&mut [u8]> {
        match self {
            Segment::Packed(packed) => {
                let at = packed.find(hash, key).ok()?;
                Some(packed.near_mut(at))
            }
            Segment::Tree(tree) => tree.entries.get_mut(key).map(|block| &mut **block),
        }
    }

    /// Splits the segment into those for the two halves of its range. O(count).
    pub(super) fn split(self, hash: impl Fn(&[u8]) -> u64) -> (Segment, Segment) {
        match self {
            Segment::Packed(packed) => {
                let (low, high) = packed.split(hash);
                (Segment::Packed(low), Segment::Packed(high))
            }
            Segment::Tree(_) => unreachable!("a tree is never full"),
        }
    }

    /// Whether two segments are so sparse that joining them leaves the result at most half full.
    pub(super) fn may_merge(&self, other: &Segment) -> bool {
        match (self, other) {
            (Segment::Packed(a), Segment::Packed(b)) => a.may_merge(b),
            (Segment::Tree(_), _) | (_, Segment::Tree(_)) => false,
        }
    }

    /// Whether a merge may be possible.
    #[inline]
    pub(super) fn is_sparse(&self) -> bool {
        match self {
            Segment::Packed(packed) => packed.is_sparse(),
            Segment::Tree(_) => false,
        }
    }

    /// Joins the segments of the two halves of a range. O(count).
    pub(super) fn join(low: Segment, high: Segment) -> Segment {
        match (low, high) {
            (Segment::Packed(low), Segment::Packed(high)) => {
                Segment::Packed(Packed::join(low, high))
            }
            (Segment::Tree(_), _) | (_, Segment::Tree(_)) => {
                unreachable!("trees are not merged")
            }
        }
    }
}

#[cfg(test)]
impl Segment {
    /// Checks the invariants between the parts of a block.
    pub(super) fn check(&self) {
        match self {
            Segment::Packed(packed) => packed.check(),
            Segment::Tree(tree) => assert!(!tree.entries.is_empty()),
        }
    }
}

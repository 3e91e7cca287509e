//! Maps a hash to the item that owns it: extendible hashing on the top bits.
//!
//! ```text
//!  base bits of the hash selected this directory; the next `bits` select the slot
//!
//!  bits = 3     slot 000  001  010  011  100  101  110  111
//!               [ A ][    ][    ][    ][ B ][    ][ C ][ D ]
//!               A owns 0.., B owns 10., C owns 110, D owns 111
//! ```
//!
//! An item of depth d owns the hashes that share its first d bits: an aligned run of slots. It is
//! stored in the first slot of the run, and the others are empty. The owner of a slot is found by
//! clearing low bits of its number until a slot is not empty, usually with two reads in one cache
//! line. (The textbook form repeats a pointer in every slot of the run, which would give several
//! references to one item.) Splitting an item of full depth doubles the slots first.
//!
//! R. Fagin, J. Nievergelt, N. Pippenger, H. R. Strong: Extendible Hashing — a Fast Access Method
//! for Dynamic Files. ACM TODS 4(3), 1979.

use crate::counted::CountedRow;

/// An item that owns all hashes with certain first bits.
pub(super) trait Ranged {
    /// The number of these bits.
    fn depth(&self) -> u32;
}

/// The items that own all hashes whose first `base` bits selected this directory. A clone shares
/// the slots until either is changed.
#[derive(Clone, Debug)]
pub(super) struct Directory<T> {
    /// The first slot is never empty. Every item is at a multiple of its run's length.
    slots: CountedRow<Option<T>>,
    base: u8,
    bits: u8,
}

impl<T> Ranged for Directory<T> {
    fn depth(&self) -> u32 {
        u32::from(self.base)
    }
}

impl<T: Ranged + Clone> Directory<T> {
    /// A directory after `base` bits with a single item.
    pub(super) fn new(base: u32, item: T) -> Self {
        debug_assert_eq!(item.depth(), base);
        Directory { slots: vec![Some(item)].into(), base: base as u8, bits: 0 }
    }

    /// The number of bits of the hash that select a slot.
    #[inline]
    pub(super) fn bits(&self) -> u32 {
        u32::from(self.bits)
    }

    /// The number of bits of the hash used up to the slot.
    #[inline]
    pub(super) fn full_depth(&self) -> u32 {
        u32::from(self.base) + u32::from(self.bits)
    }

    #[inline]
    fn slot(&self, hash: u64) -> usize {
        // Two shifts, since `bits` may be 0.
        (((hash << self.base) >> 1) >> (63 - self.bits)) as usize
    }

    #[inline]
    fn owner(&self, hash: u64) -> usize {
        let mut at = self.slot(hash);
        while self.slots[at].is_none() {
            at &= at - 1;
        }
        at
    }

    /// The item that owns `hash`.
    #[inline]
    pub(super) fn get(&self, hash: u64) -> &T {
        self.slots[self.owner(hash)].as_ref().expect("the owner's slot is not empty")
    }

    #[inline]
    pub(super) fn get_mut(&mut self, hash: u64) -> &mut T {
        let at = self.owner(hash);
        self.slots[at].as_mut().expect("the owner's slot is not empty")
    }

    /// The item in the slot of `hash` itself, if that is not empty.
    pub(super) fn exact(&self, hash: u64) -> Option<&T> {
        self.slots[self.slot(hash)].as_ref()
    }

    /// All items, in the order of their hashes.
    pub(super) fn items(&self) -> impl Iterator<Item = &T> {
        self.slots.iter().flatten()
    }

    /// All items by value, in the order of their hashes.
    pub(super) fn into_items(self) -> impl Iterator<Item = T> {
        self.slots.into_vec().into_iter().flatten()
    }

    /// Bytes of memory of the slots.
    pub(super) fn memory(&self) -> usize {
        self.slots.memory()
    }

    /// The number of slots that the item at `at` owns.
    fn run(&self, at: usize) -> usize {
        let item = self.slots[at].as_ref().expect("the slot holds an item");
        1 << (self.full_depth() - item.depth())
    }

    /// Splits the item that owns `hash` into those for the two halves of its range. O(slots) at
    /// worst.
    pub(super) fn split(&mut self, hash: u64, cut: impl FnOnce(T) -> (T, T)) {
        if self.get(hash).depth() == self.full_depth() {
            self.double();
        }
        let at = self.owner(hash);
        let run = self.run(at);
        let slots = &mut *self.slots;
        let (low, high) = cut(slots[at].take().expect("the owner's slot is not empty"));
        slots[at] = Some(low);
        slots[at + run / 2] = Some(high);
    }

    /// Joins the item that owns `hash` with the one for the other half of their common range, if
    /// that is a single item and `may` agrees. Returns whether it did. O(slots) at worst.
    pub(super) fn merge(
        &mut self,
        hash: u64,
        may: impl FnOnce(&T, &T) -> bool,
        join: impl FnOnce(T, T) -> T,
    ) -> bool {
        let at = self.owner(hash);
        let run = self.run(at);
        if run == self.slots.len() {
            return false;
        }
        let (low, high) = (at & !run, at | run);
        let (Some(a), Some(b)) = (&self.slots[low], &self.slots[high]) else {
            return false;
        };
        if a.depth() != b.depth() || !may(a, b) {
            return false;
        }
        let slots = &mut *self.slots;
        let a = slots[low].take().expect("both slots hold an item");
        let b = slots[high].take().expect("both slots hold an item");
        slots[low] = Some(join(a, b));
        if run == 1 && self.slots.iter().skip(1).step_by(2).all(Option::is_none) {
            self.halve();
        }
        true
    }

    fn double(&mut self) {
        let old = std::mem::take(&mut self.slots).into_vec();
        let doubled: Vec<Option<T>> = old.into_iter().flat_map(|item| [item, None]).collect();
        self.slots = doubled.into();
        self.bits += 1;
    }

    fn halve(&mut self) {
        let old = std::mem::take(&mut self.slots).into_vec();
        let halved: Vec<Option<T>> = old.into_iter().step_by(2).collect();
        self.slots = halved.into();
        self.bits -= 1;
    }

    /// Splits the directory itself. It must have more than one item.
    pub(super) fn divide(self) -> (Self, Self) {
        let mut low = self.slots.into_vec();
        let high = low.split_off(low.len() / 2);
        let (base, bits) = (self.base + 1, self.bits - 1);
        (Directory { slots: low.into(), base, bits }, Directory { slots: high.into(), base, bits })
    }

    /// The inverse of [`Directory::divide`].
    pub(super) fn join(low: Self, high: Self) -> Self {
        let bits = low.bits.max(high.bits);
        let base = low.base - 1;
        let mut slots: Vec<Option<T>> = Vec::with_capacity(2 << bits);
        for half in [low, high] {
            let gap = 1 << (bits - half.bits);
            for item in half.slots.into_vec() {
                let next = slots.len() + gap;
                slots.push(item);
                slots.resize_with(next, || None);
            }
        }
        Directory { slots: slots.into(), base, bits: bits + 1 }
    }
}

//! Which item is responsible for a hash: extendible hashing on the top bits.
//!
//! ```text
//!  base bits of the hash led here; the next `bits` of it are the slot
//!
//!  bits = 3     slot 000  001  010  011  100  101  110  111
//!               [ A ][    ][    ][    ][ B ][    ][ C ][ D ]
//!               A is responsible for 0.., B for 10., C for 110, D for 111
//! ```
//!
//! An item of depth d is responsible for the hashes that share its first d bits: an aligned run
//! of slots. It stands in the first slot of the run and the others are empty; the owner of a slot
//! is found by clearing low bits of its number until something stands there, two looks as a rule
//! and in one cache line. (The textbook form repeats a pointer in every slot of the run; so there
//! would be two ways to the same item.) Splitting an item of full depth doubles the slots first.
//!
//! R. Fagin, J. Nievergelt, N. Pippenger, H. R. Strong: Extendible Hashing — a Fast Access Method
//! for Dynamic Files. ACM TODS 4(3), 1979.

use crate::counted::CountedRow;

/// Something that is responsible for all hashes with certain first bits.
pub(super) trait Ranged {
    /// How many bits.
    fn depth(&self) -> u32;
}

/// The items responsible for all hashes whose first `base` bits led here. A clone shares the slots
/// until either is changed.
#[derive(Clone, Debug)]
pub(super) struct Directory<T> {
    /// The first is never empty, and every item is at a multiple of its run's length.
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
    /// A directory behind `base` bits, all of which is `item`'s.
    pub(super) fn new(base: u32, item: T) -> Self {
        debug_assert_eq!(item.depth(), base);
        Directory { slots: vec![Some(item)].into(), base: base as u8, bits: 0 }
    }

    /// How many bits of the hash choose a slot.
    #[inline]
    pub(super) fn bits(&self) -> u32 {
        u32::from(self.bits)
    }

    /// How many bits of the hash are used up to the slot.
    #[inline]
    pub(super) fn full_depth(&self) -> u32 {
        u32::from(self.base) + u32::from(self.bits)
    }

    #[inline]
    fn slot(&self, hash: u64) -> usize {
        // In two steps, for `bits` may be 0.
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

    /// The item responsible for `hash`.
    #[inline]
    pub(super) fn get(&self, hash: u64) -> &T {
        self.slots[self.owner(hash)].as_ref().expect("an owner is there")
    }

    #[inline]
    pub(super) fn get_mut(&mut self, hash: u64) -> &mut T {
        let at = self.owner(hash);
        self.slots[at].as_mut().expect("an owner is there")
    }

    /// What stands in the very slot of `hash`.
    pub(super) fn exact(&self, hash: u64) -> Option<&T> {
        self.slots[self.slot(hash)].as_ref()
    }

    /// All items, in the order of their hashes.
    pub(super) fn items(&self) -> impl Iterator<Item = &T> {
        self.slots.iter().flatten()
    }

    /// Bytes of the slots.
    pub(super) fn memory(&self) -> usize {
        self.slots.memory()
    }

    /// How many slots the item at `at` is responsible for.
    fn run(&self, at: usize) -> usize {
        let item = self.slots[at].as_ref().expect("an item is there");
        1 << (self.full_depth() - item.depth())
    }

    /// Cuts the item responsible for `hash` into those for the two halves of its range. O(slots)
    /// at worst.
    pub(super) fn split(&mut self, hash: u64, cut: impl FnOnce(T) -> (T, T)) {
        if self.get(hash).depth() == self.full_depth() {
            self.double();
        }
        let at = self.owner(hash);
        let run = self.run(at);
        let slots = &mut *self.slots;
        let (low, high) = cut(slots[at].take().expect("an owner is there"));
        slots[at] = Some(low);
        slots[at + run / 2] = Some(high);
    }

    /// Joins the item responsible for `hash` with the one that has the other half of their common
    /// range, if that is one item and they `may`; whether so. O(slots) at worst.
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
        let a = slots[low].take().expect("it was just looked at");
        let b = slots[high].take().expect("it was just looked at");
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

    /// Cuts the directory itself in two. It must have more than one item.
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

//! Hash slots and sets of them.

use std::fmt;
use weft_base::limits::SLOTS;

/// A hash slot, below [`SLOTS`].
pub type Slot = u16;

const WORDS: usize = SLOTS / 64;

/// Slots from `first` to `last`, both included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlotRange {
    pub first: Slot,
    pub last: Slot,
}

impl SlotRange {
    pub fn slots(self) -> impl Iterator<Item = Slot> {
        self.first..=self.last
    }
}

/// As in CLUSTER NODES: `5` or `0-16383`.
impl fmt::Display for SlotRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.first == self.last {
            true => write!(f, "{}", self.first),
            false => write!(f, "{}-{}", self.first, self.last),
        }
    }
}

/// A set of slots: one bit each, 2 KiB.
#[derive(Clone, PartialEq, Eq)]
pub struct SlotSet([u64; WORDS]);

impl Default for SlotSet {
    fn default() -> Self {
        SlotSet([0; WORDS])
    }
}

impl SlotSet {
    /// All slots.
    pub fn full() -> Self {
        SlotSet([u64::MAX; WORDS])
    }

    #[inline]
    pub fn contains(&self, slot: Slot) -> bool {
        self.0[usize::from(slot) / 64] & bit(slot) != 0
    }

    /// Adds `slot`. False if it was there.
    pub fn insert(&mut self, slot: Slot) -> bool {
        let added = !self.contains(slot);
        self.0[usize::from(slot) / 64] |= bit(slot);
        added
    }

    /// Removes `slot`. False if it was not there.
    pub fn remove(&mut self, slot: Slot) -> bool {
        let there = self.contains(slot);
        self.0[usize::from(slot) / 64] &= !bit(slot);
        there
    }

    /// Whether this set has all slots of the other one.
    pub fn contains_all(&self, others: &SlotSet) -> bool {
        self.0.iter().zip(&others.0).all(|(own, other)| other & !own == 0)
    }

    /// The slots of this set that are not in the other one.
    #[must_use]
    pub fn without(&self, others: &SlotSet) -> SlotSet {
        let mut left = self.clone();
        left.0.iter_mut().zip(&others.0).for_each(|(own, other)| *own &= !other);
        left
    }

    pub fn len(&self) -> usize {
        self.0.iter().map(|word| word.count_ones() as usize).sum()
    }

    pub fn is_empty(&self) -> bool {
        self.0.iter().all(|word| *word == 0)
    }

    /// The slots, ascending.
    pub fn iter(&self) -> impl Iterator<Item = Slot> + '_ {
        (0..SLOTS as Slot).filter(|slot| self.contains(*slot))
    }

    /// The longest ranges that together are the set, ascending.
    pub fn ranges(&self) -> Vec<SlotRange> {
        let mut ranges: Vec<SlotRange> = Vec::new();
        for slot in self.iter() {
            match ranges.last_mut() {
                Some(range) if range.last + 1 == slot => range.last = slot,
                _ => ranges.push(SlotRange { first: slot, last: slot }),
            }
        }
        ranges
    }
}

impl FromIterator<Slot> for SlotSet {
    fn from_iter<I: IntoIterator<Item = Slot>>(slots: I) -> Self {
        let mut set = SlotSet::default();
        slots.into_iter().for_each(|slot| _ = set.insert(slot));
        set
    }
}

impl fmt::Debug for SlotSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.ranges().iter().map(ToString::to_string)).finish()
    }
}

#[inline]
fn bit(slot: Slot) -> u64 {
    1 << (slot % 64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_are_compared_and_subtracted() {
        let set = |slots: &[Slot]| slots.iter().copied().collect::<SlotSet>();
        let all = set(&[0, 63, 64, 16383]);
        assert!(all.contains_all(&set(&[0, 16383])) && all.contains_all(&SlotSet::default()));
        assert!(!all.contains_all(&set(&[0, 1])));
        let left = all.without(&set(&[1, 63, 16383]));
        assert!(left == set(&[0, 64]));
    }

    #[test]
    fn ranges_cover_the_set() {
        let set: SlotSet = [0, 1, 2, 63, 64, 65, 100, 16_383].into_iter().collect();
        let text: Vec<String> = set.ranges().iter().map(ToString::to_string).collect();
        assert_eq!(text, ["0-2", "63-65", "100", "16383"]);
        assert_eq!(set.len(), 8);
        assert_eq!(SlotSet::full().ranges(), [SlotRange { first: 0, last: 16_383 }]);
        assert!(SlotSet::default().ranges().is_empty() && SlotSet::default().is_empty());
    }

    #[test]
    fn insert_and_remove_say_what_they_changed() {
        let mut set = SlotSet::default();
        assert!(set.insert(77) && !set.insert(77) && set.contains(77));
        assert!(set.remove(77) && !set.remove(77) && !set.contains(77));
    }
}

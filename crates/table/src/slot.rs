//! The 64-bit word that stands for one record in the table, and the bucket of
//! eight such words that fills one cache line.
//!
//! ```text
//!  63            48 47                                            3 2 1 0
//! ┌────────────────┬───────────────────────────────────────────────┬─┬─┬─┐
//! │ h16            │ address of the record (a multiple of 8)       │0│M│E│
//! └────────────────┴───────────────────────────────────────────────┴─┴─┴─┘
//!   low 16 bits of                                  E: the record has an
//!   the key's hash                                  expiry; M: it is marked
//! ```
//!
//! A word of zero is an empty slot. `h16` has three uses. It filters: a lookup follows a pointer to
//! a wrong key once in 65 536 slots. It determines the home bucket, so a segment can grow or lose
//! an entry without reading records. It determines the stripe of the entry in a scan. `E` and `M`
//! let sweeps find their candidates without touching records.
//!
//! Addresses have 47 bits: all of user space on x86-64 and aarch64, unless a program explicitly
//! asks for more. [`Word::new`] asserts it.
//!
//! The words are stored as tagged pointers, not as integers, so that a record pointer keeps its
//! provenance in the table.

use std::ptr::NonNull;
use std::sync::atomic::{AtomicPtr, Ordering};

const _: () = assert!(usize::BITS == 64, "slot words hold 64-bit addresses");

/// Slots in a bucket: eight words of 8 bytes are one line of 64.
pub(crate) const SLOTS: usize = 8;

const H16_SHIFT: u32 = 48;
const ADDRESS_BITS: u32 = 47;
const ADDRESS_MASK: usize = ((1 << ADDRESS_BITS) - 1) & !0b111;
const EXPIRING: usize = 1;
const MARKED: usize = 2;

/// The part of a hash that is stored in a slot.
#[inline(always)]
pub(crate) fn h16(hash: u64) -> u16 {
    hash as u16
}

/// The properties of a record that its word includes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tags {
    pub(crate) expiring: bool,
    pub(crate) marked: bool,
}

/// The value of a slot.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Word(*mut u8);

impl Word {
    pub(crate) const EMPTY: Word = Word(std::ptr::null_mut());

    /// # Panics
    ///
    /// If `record` is not a multiple of 8 below 2^47.
    #[inline]
    pub(crate) fn new(h16: u16, record: NonNull<u8>, tags: Tags) -> Word {
        let address = record.as_ptr().addr();
        assert!(
            address & !ADDRESS_MASK == 0,
            "a record's address must be a multiple of 8 below 2^47"
        );
        let tag = (usize::from(h16) << H16_SHIFT)
            | (usize::from(tags.marked) * MARKED)
            | (usize::from(tags.expiring) * EXPIRING);
        Word(record.as_ptr().map_addr(|address| address | tag))
    }

    #[inline(always)]
    pub(crate) fn is_empty(self) -> bool {
        self.0.is_null()
    }

    #[inline(always)]
    pub(crate) fn h16(self) -> u16 {
        (self.0.addr() >> H16_SHIFT) as u16
    }

    #[inline(always)]
    pub(crate) fn expiring(self) -> bool {
        self.0.addr() & EXPIRING != 0
    }

    #[inline(always)]
    pub(crate) fn marked(self) -> bool {
        self.0.addr() & MARKED != 0
    }

    /// The record, `None` in an empty slot.
    #[inline(always)]
    pub(crate) fn record(self) -> Option<NonNull<u8>> {
        NonNull::new(self.0.map_addr(|word| word & ADDRESS_MASK))
    }
}

/// One cell of a bucket. Only the mutator writes it. Planners read it concurrently, so every write
/// is atomic.
#[repr(transparent)]
pub(crate) struct Slot(AtomicPtr<u8>);

impl Slot {
    #[inline(always)]
    pub(crate) fn load(&self) -> Word {
        Word(self.0.load(Ordering::Relaxed))
    }

    #[inline(always)]
    pub(crate) fn store(&self, word: Word) {
        // Relaxed is enough: a planner uses the value only as an address to prefetch. Code that
        // dereferences it holds the lock.
        self.0.store(word.0, Ordering::Relaxed);
    }
}

/// One cache line of slots.
#[repr(C, align(64))]
pub(crate) struct Bucket(pub(crate) [Slot; SLOTS]);

const _: () = assert!(size_of::<Bucket>() == 64);

impl Bucket {
    /// The slots with this `h16`. An empty slot matches an `h16` of zero, so check the word before
    /// following it.
    ///
    /// # Safety
    ///
    /// No other thread writes to this bucket during the call.
    #[inline(always)]
    pub(crate) unsafe fn matches(&self, h16: u16) -> Matches {
        #[cfg(target_arch = "x86_64")]
        {
            use core::arch::x86_64::{
                __m128i, _mm_cmpeq_epi16, _mm_load_si128, _mm_movemask_epi8, _mm_packs_epi16,
                _mm_set1_epi16,
            };
            let line: *const __m128i = std::ptr::from_ref(self).cast();
            // SAFETY: SSE2 is part of x86-64. The four loads cover exactly the 64 bytes of the
            // bucket, which is aligned to 64. They are not atomic; by the contract the bucket has
            // no writer now, and concurrent reads are not a race.
            unsafe {
                let wanted = _mm_set1_epi16(h16.cast_signed());
                let a = _mm_cmpeq_epi16(_mm_load_si128(line), wanted);
                let b = _mm_cmpeq_epi16(_mm_load_si128(line.add(1)), wanted);
                let c = _mm_cmpeq_epi16(_mm_load_si128(line.add(2)), wanted);
                let d = _mm_cmpeq_epi16(_mm_load_si128(line.add(3)), wanted);
                // One byte per 16-bit lane, one bit per byte. The h16 of a word is its fourth lane:
                // bits 3, 7, 11 ... are the slots.
                let low = _mm_movemask_epi8(_mm_packs_epi16(a, b)).cast_unsigned();
                let high = _mm_movemask_epi8(_mm_packs_epi16(c, d)).cast_unsigned();
                Matches((low | (high << 16)) & 0x8888_8888)
            }
        }
        #[cfg(not(target_arch = "x86_64"))]
        {
            // SAFETY: in bounds and aligned, since it is this bucket. Not atomic, but by the
            // contract it has no writer now.
            let words = unsafe { std::ptr::from_ref(self).cast::<[u64; SLOTS]>().read() };
            let mut mask = 0;
            for (i, word) in words.into_iter().enumerate() {
                mask |= u32::from((word >> H16_SHIFT) as u16 == h16) << (4 * i + 3);
            }
            Matches(mask)
        }
    }

    /// The first empty slot.
    #[inline]
    pub(crate) fn vacancy(&self) -> Option<usize> {
        self.0.iter().position(|slot| slot.load().is_empty())
    }

    /// The words of the bucket in order, for a planner: other threads may be writing them.
    #[inline(always)]
    pub(crate) fn words(&self) -> impl Iterator<Item = Word> + '_ {
        self.0.iter().map(Slot::load)
    }
}

/// A set of slots: bit `4 * i + 3` stands for slot `i`.
#[derive(Clone, Copy)]
pub(crate) struct Matches(u32);

impl Iterator for Matches {
    type Item = usize;

    #[inline(always)]
    fn next(&mut self) -> Option<usize> {
        if self.0 == 0 {
            return None;
        }
        let slot = self.0.trailing_zeros() >> 2;
        self.0 &= self.0 - 1;
        Some(slot as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NO_TAGS: Tags = Tags { expiring: false, marked: false };

    fn bucket() -> Bucket {
        Bucket([const { Slot(AtomicPtr::new(std::ptr::null_mut())) }; SLOTS])
    }

    #[test]
    fn words_round_trip() {
        let mut record = 0u64;
        let record = NonNull::from(&mut record).cast::<u8>();
        for h16 in [0, 1, 0x7fff, 0x8000, 0xffff] {
            for (expiring, marked) in [(false, false), (true, false), (false, true), (true, true)] {
                let word = Word::new(h16, record, Tags { expiring, marked });
                assert!(!word.is_empty());
                assert_eq!(word.h16(), h16);
                assert_eq!((word.expiring(), word.marked()), (expiring, marked));
                assert_eq!(word.record(), Some(record));
            }
        }
        assert!(Word::EMPTY.is_empty());
        assert_eq!(Word::EMPTY.record(), None);
    }

    #[test]
    #[should_panic(expected = "below 2^47")]
    fn address_beyond_47_bits_panics() {
        let far = std::ptr::without_provenance_mut::<u8>(1 << 47);
        let _ = Word::new(1, NonNull::new(far).unwrap(), NO_TAGS);
    }

    #[test]
    fn matches_finds_every_subset_of_slots() {
        let mut record = 0u64;
        let record = NonNull::from(&mut record).cast::<u8>();
        let bucket = bucket();
        let subsets = if cfg!(miri) { 0..16u32 } else { 0..256 };
        for subset in subsets {
            for (i, slot) in bucket.0.iter().enumerate() {
                let h16 = if subset & (1 << i) == 0 { 0x1234 } else { 0xabcd };
                slot.store(Word::new(h16, record, Tags { expiring: i % 2 == 0, marked: false }));
            }
            // SAFETY: the bucket is known to this thread only.
            let found = unsafe { bucket.matches(0xabcd) };
            assert_eq!(found.fold(0, |set, i| set | (1 << i)), subset);
        }
    }

    #[test]
    fn vacancy_is_the_first_empty_slot() {
        let mut record = 0u64;
        let record = NonNull::from(&mut record).cast::<u8>();
        let bucket = bucket();
        for i in 0..SLOTS {
            assert_eq!(bucket.vacancy(), Some(i));
            bucket.0[i].store(Word::new(0, record, NO_TAGS));
        }
        assert_eq!(bucket.vacancy(), None);
        bucket.0[5].store(Word::EMPTY);
        assert_eq!(bucket.vacancy(), Some(5));
    }
}

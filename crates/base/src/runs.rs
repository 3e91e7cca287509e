//! Runs of equal registers of sparse HyperLogLogs, skipped a block of bytes at a time.
//!
//! ```text
//!  00nnnnnn            n+1 registers     a run in one byte
//!  01nnnnnn nnnnnnnn   n+1 registers     in two
//!  1.....nn            n+1 registers     in one
//! ```
//!
//! Finding a register needs the sum of all runs before it. Run by run that is a chain of
//! predictions, half of which are wrong if lengths are mixed. AVX2 sums the registers of 32 bytes
//! without branches. Without AVX2 nothing is skipped here, and the caller walks run by run. In the
//! block that reaches the sum, prefix sums locate the run, again without branches. Only a run at
//! the edge of a block is left to the caller.
//!
//! `unsafe` is only used for the instructions.

use crate::sixbit::is_wide;

/// A position between two runs: the bytes and the registers before it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Between {
    pub at: usize,
    pub registers: usize,
}

/// The skipped part.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Passed {
    /// The run that covers the register begins here or later. It may be one byte after the last
    /// one, if the second byte of a run is missing.
    pub to: Between,
    /// The last run before `to` begins here or later; the beginning if nothing was skipped.
    pub before: Between,
}

/// The run that covers a register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Covering {
    /// The offset where it begins, and its first register.
    pub begin: Between,
    /// Its length in bytes.
    pub size: usize,
    /// Its length in registers.
    pub len: usize,
    /// The offset where the run before it begins.
    pub before: Between,
}

/// The result of [`find`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    Found(Covering),
    /// The caller must walk the rest run by run.
    Passed(Passed),
}

/// Searches the run that covers the register at `index`, as far as that can be done quickly. A
/// missing byte at the end counts as zero. O(bytes).
#[inline]
pub fn find(runs: &[u8], index: usize) -> Way {
    #[cfg(target_arch = "x86_64")]
    if runs.len() >= wide::BLOCK && is_wide() && is_x86_feature_detected!("popcnt") {
        // SAFETY: `is_wide` has checked that the processor has POPCNT and AVX2.
        return unsafe { wide::find(runs, index) };
    }
    let _ = (runs, index);
    Way::Passed(Passed::default())
}

/// Thirty-two bytes at a time.
#[cfg(target_arch = "x86_64")]
mod wide {
    use super::{Between, Covering, Passed, Way};
    use std::arch::x86_64::*;

    pub const BLOCK: usize = 32;

    #[target_feature(enable = "avx2,popcnt")]
    pub fn find(runs: &[u8], index: usize) -> Way {
        let mut passed = Passed::default();
        // The part before the block, without the second byte of the last run if that is in the
        // block.
        let mut from = Between::default();
        let mut begins_inside = false;
        let (blocks, rest) = runs.as_chunks::<BLOCK>();
        for block in blocks {
            let taken = Taken::apart(block, 0, begins_inside);
            let end =
                Between { at: from.at + BLOCK, registers: from.registers + taken.registers() };
            let second = if taken.ends_inside { runs.get(end.at).copied().unwrap_or(0) } else { 0 };
            let to = Between {
                at: end.at + usize::from(taken.ends_inside),
                registers: end.registers + usize::from(second),
            };
            if to.registers > index {
                return taken.covering(from, index).map_or(Way::Passed(passed), Way::Found);
            }
            passed = Passed { to, before: passed.to };
            (from, begins_inside) = (end, taken.ends_inside);
        }
        // The last few bytes are processed together with already skipped bytes before them.
        if !rest.is_empty()
            && let Some(block) = runs.last_chunk()
        {
            let skip = BLOCK - rest.len();
            let taken = Taken::apart(block, skip, begins_inside);
            let from = Between { at: from.at - skip, ..from };
            if let Some(found) = taken.covering(from, index) {
                return Way::Found(found);
            }
        }
        Way::Passed(passed)
    }

    /// The bytes of a block as runs, except skipped ones at its beginning.
    struct Taken {
        skip: usize,
        begins_inside: bool,
        /// The part of each byte that counts once: two bits of values, six of few zeros, all of a
        /// second byte.
        once: __m256i,
        /// The part that counts 256 times: six bits of the first byte of two.
        often: __m256i,
        /// The first bytes of two-byte runs, and the second ones.
        twos: u32,
        seconds: u32,
        /// Whether the last run has its second byte in the next block.
        ends_inside: bool,
    }

    impl Taken {
        /// `begins_inside`: the first byte that is not skipped is the second one of a run.
        #[inline]
        #[target_feature(enable = "avx2,popcnt")]
        fn apart(block: &[u8; BLOCK], skip: usize, begins_inside: bool) -> Taken {
            // SAFETY: the array has the 32 bytes that are read. No alignment is required.
            let bytes = unsafe { _mm256_loadu_si256(block.as_ptr().cast()) };
            // As signed numbers, those that begin with 01 are above 63 and those that begin with 1
            // below 0.
            let like_two = _mm256_cmpgt_epi8(bytes, _mm256_set1_epi8(63));
            let looks = _mm256_movemask_epi8(like_two).cast_unsigned() & u32::MAX << skip;
            let (seconds, ends_inside) = second_bytes(looks, u32::from(begins_inside) << skip);
            let second = spread(seconds);
            let two = _mm256_andnot_si256(second, like_two);
            let negative = _mm256_cmpgt_epi8(_mm256_setzero_si256(), bytes);
            let value = _mm256_andnot_si256(second, negative);
            let six = _mm256_andnot_si256(value, _mm256_set1_epi8(0x3f));
            let bits = _mm256_or_si256(six, _mm256_and_si256(value, _mm256_set1_epi8(3)));
            let bits = _mm256_or_si256(_mm256_andnot_si256(two, bits), second);
            Taken {
                skip,
                begins_inside,
                once: _mm256_and_si256(bytes, bits),
                often: _mm256_and_si256(bytes, _mm256_and_si256(two, _mm256_set1_epi8(0x3f))),
                twos: looks & !seconds,
                seconds,
                ends_inside,
            }
        }

        /// The number of registers of all bytes, if none is skipped.
        #[inline]
        #[target_feature(enable = "avx2,popcnt")]
        fn registers(&self) -> usize {
            let sums = |bytes| _mm256_sad_epu8(bytes, _mm256_setzero_si256());
            let both = _mm256_add_epi64(sums(self.once), _mm256_slli_epi64::<8>(sums(self.often)));
            let halves =
                _mm_add_epi64(_mm256_castsi256_si128(both), _mm256_extracti128_si256::<1>(both));
            let sum = _mm_cvtsi128_si64(halves) + _mm_extract_epi64::<1>(halves);
            // Plus one for each run.
            let runs = BLOCK as u32 - self.seconds.count_ones();
            sum.cast_unsigned() as usize + runs as usize
        }

        /// The run that covers the register at `index`, if it and the run before it are entirely in
        /// this block. The block begins at `from.at`, and `from.registers` precede the part that is
        /// not skipped.
        #[inline]
        #[target_feature(enable = "avx2,popcnt")]
        fn covering(&self, from: Between, index: usize) -> Option<Covering> {
            // The limit keeps a sum with one more run below the saturation of sums.
            let index =
                u16::try_from(index - from.registers).ok().filter(|index| *index < 1 << 15)?;
            let sums = self.sums();
            let last = sums.first_above(index)?;
            let second = |at: usize| (self.seconds >> at & 1) as usize;
            let begin = last - second(last);
            let size = 1 + (self.twos >> begin & 1) as usize;
            if begin <= self.skip + usize::from(self.begins_inside) || begin + size > BLOCK {
                return None;
            }
            let before = begin - 1 - second(begin - 1);
            let between = |at: usize| Between {
                at: from.at + at,
                registers: from.registers + usize::from(sums.before[at]),
            };
            let len = usize::from(sums.before[begin + size] - sums.before[begin]);
            Some(Covering { begin: between(begin), size, len, before: between(before) })
        }

        /// The number of registers up to each byte that is not skipped.
        #[inline]
        #[target_feature(enable = "avx2,popcnt")]
        fn sums(&self) -> Sums {
            let skipped = spread(!(u32::MAX << self.skip));
            // A byte minus 255 is one more: all but second bytes have one of these.
            let less = _mm256_andnot_si256(spread(self.seconds), _mm256_set1_epi8(-1));
            let once = _mm256_andnot_si256(skipped, _mm256_sub_epi8(self.once, less));
            let often = _mm256_andnot_si256(skipped, self.often);
            let half = |once, often| {
                let often = _mm256_slli_epi16::<8>(_mm256_cvtepu8_epi16(often));
                up_to(_mm256_add_epi16(_mm256_cvtepu8_epi16(once), often))
            };
            let low = half(_mm256_castsi256_si128(once), _mm256_castsi256_si128(often));
            let high =
                half(_mm256_extracti128_si256::<1>(once), _mm256_extracti128_si256::<1>(often));
            let last = last_of_eight(_mm256_permute2x128_si256::<0x11>(low, low));
            let high = _mm256_adds_epu16(high, last);
            let mut before = [0; BLOCK + 1];
            let (first, second) = before[1..].split_at_mut(BLOCK / 2);
            // SAFETY: both halves have the 32 bytes that are written. No alignment is required.
            unsafe {
                _mm256_storeu_si256(first.as_mut_ptr().cast(), low);
                _mm256_storeu_si256(second.as_mut_ptr().cast(), high);
            }
            Sums { low, high, before }
        }
    }

    /// The numbers of registers up to each byte of a block, including and excluding it. Sums
    /// saturate at the maximum.
    struct Sums {
        low: __m256i,
        high: __m256i,
        before: [u16; BLOCK + 1],
    }

    impl Sums {
        /// The first byte at which the sum exceeds `registers`.
        #[inline]
        #[target_feature(enable = "avx2,popcnt")]
        fn first_above(&self, registers: u16) -> Option<usize> {
            let registers = _mm256_set1_epi16(registers.cast_signed());
            let zero = _mm256_setzero_si256();
            let below = |sums| _mm256_cmpeq_epi16(_mm256_subs_epu16(sums, registers), zero);
            let both = _mm256_packs_epi16(below(self.low), below(self.high));
            // Packing takes eight bytes from each in turn.
            let both = _mm256_permute4x64_epi64::<0b11_01_10_00>(both);
            let below = _mm256_movemask_epi8(both).cast_unsigned();
            (below != u32::MAX).then_some(below.trailing_ones() as usize)
        }
    }

    /// The prefix sums of these sixteen.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn up_to(each: __m256i) -> __m256i {
        let two = _mm256_adds_epu16(each, _mm256_slli_si256::<2>(each));
        let four = _mm256_adds_epu16(two, _mm256_slli_si256::<4>(two));
        let eight = _mm256_adds_epu16(four, _mm256_slli_si256::<8>(four));
        // So far the upper eight exclude the lower ones.
        let lower = last_of_eight(_mm256_permute2x128_si256::<0x08>(eight, eight));
        _mm256_adds_epu16(eight, lower)
    }

    /// Replaces the lower eight with the last of them, and likewise the upper ones.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn last_of_eight(each: __m256i) -> __m256i {
        _mm256_shuffle_epi8(each, _mm256_set1_epi16(0x0f0e))
    }

    /// Which bytes are the second ones of runs. `look` marks the bytes that look like the first of
    /// two, which a second one may do as well. The one at `begins_inside`, if any, is a second byte
    /// whose first is not in the block. Returns whether the next block begins with a second byte.
    ///
    /// In a row of several, every other one is a first byte, starting with the first. Adding the
    /// beginning of a row of ones to the row carries past its end, so rows that begin at odd
    /// positions leave another mark than those at even ones, without examining any of them
    /// (Langdale and Lemire, "Parsing Gigabytes of JSON per Second", 2019, section 3.1.1, for
    /// backslashes).
    #[inline]
    fn second_bytes(look: u32, begins_inside: u32) -> (u32, bool) {
        const EVEN: u32 = 0x5555_5555;
        let look = look & !begins_inside;
        let behind = look << 1;
        let odd_rows = look & !behind & !EVEN;
        let (marked, ends_inside) = look.overflowing_add(odd_rows);
        (behind & (EVEN ^ marked << 1) | begins_inside, ends_inside)
    }

    /// A byte of ones for each bit that is set.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn spread(bits: u32) -> __m256i {
        let of_byte = _mm256_setr_epi64x(
            0,
            0x0101_0101_0101_0101,
            0x0202_0202_0202_0202,
            0x0303_0303_0303_0303,
        );
        let each = _mm256_set1_epi64x(0x8040_2010_0804_0201_u64.cast_signed());
        let bytes = _mm256_shuffle_epi8(_mm256_set1_epi32(bits.cast_signed()), of_byte);
        _mm256_cmpeq_epi8(_mm256_and_si256(bytes, each), each)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;

    /// From one position between runs to the next.
    fn next(runs: &[u8], from: Between) -> Between {
        let byte = runs[from.at];
        let (size, len) = match byte >> 6 {
            0 => (1, usize::from(byte)),
            1 => {
                let low = runs.get(from.at + 1).copied().unwrap_or(0);
                (2, usize::from(byte & 63) << 8 | usize::from(low))
            }
            _ => (1, usize::from(byte & 3)),
        };
        Between { at: from.at + size, registers: from.registers + len + 1 }
    }

    fn below(rng: &mut Rng, limit: usize) -> usize {
        rng.below(limit as u64) as usize
    }

    #[test]
    fn wide_search_agrees_with_run_by_run() {
        let mut rng = Rng::new(9);
        let (mut far, mut found) = (0, 0);
        for round in 0..4000 {
            let len = below(&mut rng, 200);
            // Random bytes, bytes that all look like the first of two, and bytes as in
            // HyperLogLogs.
            let runs: Vec<u8> = (0..len)
                .map(|at| match round % 4 {
                    0 => rng.below(256) as u8,
                    1 => 0x40 | rng.below(64) as u8,
                    2 => [0x40 | rng.below(3) as u8, rng.below(256) as u8, 0x80][at % 3],
                    _ => [rng.below(64) as u8, 0x80 | rng.below(128) as u8][at % 2],
                })
                .collect();
            let mut all = vec![Between::default()];
            while all[all.len() - 1].at < runs.len() {
                all.push(next(&runs, all[all.len() - 1]));
            }
            let end = all[all.len() - 1].registers;
            for index in (0..20).map(|_| below(&mut rng, end + 2)).chain([0, end, usize::MAX]) {
                let passed = match find(&runs, index) {
                    Way::Passed(passed) => passed,
                    Way::Found(Covering { begin, size, len, before }) => {
                        let nth = all.iter().position(|between| *between == begin);
                        let nth = nth.unwrap_or_else(|| panic!("{begin:?} is inside: {runs:?}"));
                        let end = Between { at: begin.at + size, registers: begin.registers + len };
                        assert_eq!((all[nth - 1], all[nth + 1]), (before, end));
                        assert!((begin.registers..end.registers).contains(&index));
                        found += 1;
                        continue;
                    }
                };
                far += usize::from(passed.to.at > 64);
                assert!(passed.to.registers <= index, "{index} of {runs:?}");
                let nth = all.iter().position(|between| *between == passed.to);
                let nth = nth.unwrap_or_else(|| panic!("{passed:?} is inside of a run: {runs:?}"));
                assert!(all.contains(&passed.before));
                assert!(passed.to.at == 0 || passed.before.at < passed.to.at);
                // At most a block is left to walk run by run.
                let left = all[nth..].iter().take_while(|between| between.registers <= index);
                let left = left.last().map_or(0, |last| last.at - passed.to.at);
                assert!(left <= 33 || !is_wide(), "{left} bytes left before {index} of {runs:?}");
            }
        }
        assert!(far > 1000 && found > 20_000 || !is_wide());
    }
}

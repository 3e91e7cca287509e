//! Runs of equal registers, as sparse HyperLogLogs have them: passed a block of bytes at a time.
//!
//! ```text
//!  00nnnnnn            n+1 registers     a run in one byte
//!  01nnnnnn nnnnnnnn   n+1 registers     in two
//!  1.....nn            n+1 registers     in one
//! ```
//!
//! Who looks for a register has to add up all runs in front of it. Run by run that is a chain of guesses, of which
//! half are wrong where the lengths are mixed. With AVX2 the registers of 32 bytes are added up without a guess.
//! Processors that do not have it pass nothing here: the caller goes from run to run anyway.
//!
//! `unsafe` is here for the instructions alone.

use crate::sixbit::is_wide;

/// A place between two runs: bytes in front of it, and registers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Between {
    pub at: usize,
    pub registers: usize,
}

/// What was passed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Passed {
    /// The run that covers the register begins here or later. It may be one byte behind the last one, where the second
    /// byte of a run is missing.
    pub to: Between,
    /// The last run in front of `to` begins here or later; the beginning, if nothing was passed.
    pub before: Between,
}

/// Passes runs in front of the one that covers the register at `index`, where that can be done quickly. A byte that
/// is missing at the end counts as zero. O(bytes).
#[inline]
pub fn pass(runs: &[u8], index: usize) -> Passed {
    #[cfg(target_arch = "x86_64")]
    if runs.len() >= wide::BLOCK && is_wide() && is_x86_feature_detected!("popcnt") {
        // SAFETY: the processor has POPCNT, and AVX2: `is_wide` has asked.
        return unsafe { wide::pass(runs, index) };
    }
    let _ = (runs, index);
    Passed::default()
}

/// Thirty-two bytes at a time.
#[cfg(target_arch = "x86_64")]
mod wide {
    use super::{Between, Passed};
    use std::arch::x86_64::*;

    pub const BLOCK: usize = 32;

    #[target_feature(enable = "avx2,popcnt")]
    pub fn pass(runs: &[u8], index: usize) -> Passed {
        let mut passed = Passed::default();
        // Of what is in front of the block, without the second byte of the last run if that is in the block.
        let mut registers = 0;
        let mut begins_inside = false;
        for (nth, block) in runs.as_chunks::<BLOCK>().0.iter().enumerate() {
            let (added, ends_inside) = add_up(block, begins_inside);
            registers += added;
            let end = (nth + 1) * BLOCK;
            let rest = if ends_inside { runs.get(end).copied().unwrap_or(0) } else { 0 };
            let to = Between {
                at: end + usize::from(ends_inside),
                registers: registers + usize::from(rest),
            };
            if to.registers > index {
                break;
            }
            passed = Passed { to, before: passed.to };
            begins_inside = ends_inside;
        }
        passed
    }

    /// The registers that these bytes mean, each byte for itself; and whether the last run has its second byte in the
    /// next block. `begins_inside`: the first byte is such a second one.
    #[target_feature(enable = "avx2,popcnt")]
    fn add_up(block: &[u8; BLOCK], begins_inside: bool) -> (usize, bool) {
        // SAFETY: the array has the 32 bytes that are read; there is no alignment to keep.
        let bytes = unsafe { _mm256_loadu_si256(block.as_ptr().cast()) };
        // As signed numbers, those that begin with 01 are above 63 and those that begin with 1 below 0.
        let like_two = _mm256_cmpgt_epi8(bytes, _mm256_set1_epi8(63));
        let looks = _mm256_movemask_epi8(like_two).cast_unsigned();
        let (seconds, ends_inside) = second_bytes(looks, begins_inside);
        let second = spread(seconds);
        let two = _mm256_andnot_si256(second, like_two);
        let value = _mm256_andnot_si256(second, _mm256_cmpgt_epi8(_mm256_setzero_si256(), bytes));
        // What counts once: two bits of values, six of few zeros, all of a second byte.
        let six = _mm256_andnot_si256(value, _mm256_set1_epi8(0x3f));
        let bits = _mm256_or_si256(six, _mm256_and_si256(value, _mm256_set1_epi8(3)));
        let bits = _mm256_or_si256(_mm256_andnot_si256(two, bits), second);
        let once = sums(_mm256_and_si256(bytes, bits));
        // What counts 256 times: six bits of the first of two.
        let often = sums(_mm256_and_si256(bytes, _mm256_and_si256(two, _mm256_set1_epi8(0x3f))));
        let both = _mm256_add_epi64(once, _mm256_slli_epi64::<8>(often));
        let halves =
            _mm_add_epi64(_mm256_castsi256_si128(both), _mm256_extracti128_si256::<1>(both));
        let sum = _mm_cvtsi128_si64(halves) + _mm_extract_epi64::<1>(halves);
        // And one for each run.
        let runs = BLOCK as u32 - seconds.count_ones();
        (sum.cast_unsigned() as usize + runs as usize, ends_inside)
    }

    /// Which bytes are the second ones of runs, if these `look` like the first of two, as a second one may itself.
    /// Whether the next block begins with one.
    ///
    /// Where several stand together every other one is a first byte, from the first on. Adding the beginning of a
    /// row of ones to the row carries to behind its end, so that rows that begin at odd places leave another mark
    /// than those at even ones, without a look at any of them (Langdale and Lemire, "Parsing Gigabytes of
    /// JSON per Second", 2019, section 3.1.1, of backslashes).
    fn second_bytes(look: u32, begins_inside: bool) -> (u32, bool) {
        const EVEN: u32 = 0x5555_5555;
        let look = look & !u32::from(begins_inside);
        let behind = look << 1 | u32::from(begins_inside);
        let odd_rows = look & !behind & !EVEN;
        let (marked, ends_inside) = look.overflowing_add(odd_rows);
        (behind & (EVEN ^ marked << 1), ends_inside)
    }

    /// A byte of ones for each bit that is set.
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

    /// The sums of each eight bytes.
    #[target_feature(enable = "avx2")]
    fn sums(bytes: __m256i) -> __m256i {
        _mm256_sad_epu8(bytes, _mm256_setzero_si256())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;

    /// From one place between runs to the next.
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
    fn what_is_passed_is_what_one_passes_run_by_run() {
        let mut rng = Rng::new(9);
        let mut far = 0;
        for round in 0..4000 {
            let len = below(&mut rng, 200);
            // Any bytes, bytes that all look like the first of two, and such as HyperLogLogs have.
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
                let passed = pass(&runs, index);
                far += usize::from(passed.to.at > 64);
                assert!(passed.to.registers <= index, "{index} of {runs:?}");
                let nth = all.iter().position(|between| *between == passed.to);
                let nth = nth.unwrap_or_else(|| panic!("{passed:?} is inside of a run: {runs:?}"));
                assert!(all.contains(&passed.before));
                assert!(passed.to.at == 0 || passed.before.at < passed.to.at);
                // No more than a block is left to pass run by run.
                let left = all[nth..].iter().take_while(|between| between.registers <= index);
                let left = left.last().map_or(0, |last| last.at - passed.to.at);
                assert!(left <= 33 || !is_wide(), "{left} bytes left before {index} of {runs:?}");
            }
        }
        assert!(far > 1000 || !is_wide());
    }
}

//! CRC-16/XMODEM (polynomial 0x1021, start 0, most significant bit first), and whether the bytes
//! contain a `{`.
//!
//! The bytes are a polynomial over GF(2), the first one highest, and the CRC is the remainder of it
//! times x^16, divided by P = x^16 + x^12 + x^5 + 1.
//!
//! * Processors with a carry-less multiplication (Gopal et al., "Fast CRC Computation for Generic
//!   Polynomials Using PCLMULQDQ Instruction", Intel, 2009): each eight bytes are multiplied by the
//!   remainder of x^k for their position, the products are added, and the sum of 79 bits is divided
//!   by P by two more multiplications (Barrett). The products are independent of each other. For
//!   keys of up to [`AT_ONCE`] bytes: nearly all.
//! * Others, and longer keys: slicing by eight (Kounavis and Berry, "A Systematic Approach to
//!   Building High Performance Software-based CRC Generators", 2005): eight tables of 256 entries,
//!   4 KiB, turn eight bytes into one step whose loads do not wait for each other.
//!
//! `unsafe` is only used for the instruction.

const POLYNOMIAL: u16 = 0x1021;

/// The CRC, and whether there is a `{`. O(bytes); a few nanoseconds for 16 of them.
#[inline]
pub fn crc16_and_brace(bytes: &[u8]) -> (u16, bool) {
    #[cfg(target_arch = "x86_64")]
    if bytes.len() <= AT_ONCE && is_x86_feature_detected!("pclmulqdq") {
        // SAFETY: the processor has PCLMULQDQ.
        return unsafe { wide::crc16_and_brace(bytes) };
    }
    narrow::crc16_and_brace(bytes)
}

/// The most bytes that are multiplied at once.
#[cfg(target_arch = "x86_64")]
const AT_ONCE: usize = 64;

/// Nonzero exactly if some byte of `word` is a `{`.
#[inline]
fn brace_bits(word: u64) -> u64 {
    const ONES: u64 = u64::from_ne_bytes([1; 8]);
    const HIGHS: u64 = ONES << 7;
    const BRACES: u64 = ONES * b'{' as u64;
    // A byte is zero where a brace was. The lowest zero byte always sets its high bit; bytes that
    // are not zero can only do so above one that is.
    let difference = word ^ BRACES;
    difference.wrapping_sub(ONES) & !difference & HIGHS
}

/// The remainder of x^`power`.
const fn remainder_of_power(power: usize) -> u16 {
    let (mut left, mut n) = (1_u16, 0);
    while n < power {
        left = times_x(left);
        n += 1;
    }
    left
}

const fn times_x(left: u16) -> u16 {
    if left & 0x8000 != 0 { left << 1 ^ POLYNOMIAL } else { left << 1 }
}

/// All words at once.
#[cfg(target_arch = "x86_64")]
mod wide {
    use super::{AT_ONCE, POLYNOMIAL, brace_bits, remainder_of_power};
    use std::arch::x86_64::*;

    const WORDS: usize = AT_ONCE / 8;

    /// The remainder of x^(64 n + 16), for the word followed by `n` words.
    static PLACES: [u64; WORDS + 1] = {
        let mut places = [0; WORDS + 1];
        let mut n = 0;
        while n <= WORDS {
            places[n] = remainder_of_power(64 * n + 16) as u64;
            n += 1;
        }
        places
    };

    /// The remainder of x^64.
    const OVER: i64 = remainder_of_power(64) as i64;

    /// The quotient of x^64 by P, which has 49 bits: without the first of them, and 16 positions
    /// higher.
    const QUOTIENT: i64 = (quotient_of_x64() << 16) as i64;

    /// Without its first bit, which stands for x^48.
    const fn quotient_of_x64() -> u64 {
        let (mut rest, mut quotient, mut n) = (1_u128 << 64, 0, 48);
        loop {
            if rest >> (n + 16) & 1 != 0 {
                rest ^= (1 << 16 | POLYNOMIAL as u128) << n;
                quotient |= 1 << n;
            }
            if n == 0 {
                return quotient ^ 1 << 48;
            }
            n -= 1;
        }
    }

    #[target_feature(enable = "pclmulqdq")]
    pub fn crc16_and_brace(bytes: &[u8]) -> (u16, bool) {
        let (head, words) = bytes.as_rchunks::<8>();
        let first = first_bytes(bytes, head);
        let mut braces = brace_bits(first);
        let mut sum = product(first, PLACES[words.len()]);
        for (word, place) in words.iter().rev().zip(&PLACES) {
            let word = u64::from_be_bytes(*word);
            braces |= brace_bits(word);
            sum = _mm_xor_si128(sum, product(word, *place));
        }
        (remainder_of_sum(sum), braces != 0)
    }

    /// Up to seven bytes at the beginning of `bytes`, as a number.
    #[inline]
    fn first_bytes(bytes: &[u8], head: &[u8]) -> u64 {
        if let Some(word) = bytes.first_chunk() {
            // Two shifts, since the shift may be 64.
            return u64::from_be_bytes(*word) >> 1 >> (63 - 8 * head.len());
        }
        if let (Some(front), Some(back)) = (head.first_chunk(), head.last_chunk()) {
            // They overlap in the middle.
            let (front, back) = (u32::from_be_bytes(*front), u32::from_be_bytes(*back));
            return u64::from(front) << (8 * (head.len() - 4)) | u64::from(back);
        }
        head.iter().fold(0, |number, byte| number << 8 | u64::from(*byte))
    }

    #[inline]
    #[target_feature(enable = "pclmulqdq")]
    fn product(word: u64, place: u64) -> __m128i {
        let (word, place) = (_mm_cvtsi64_si128(word as i64), _mm_cvtsi64_si128(place as i64));
        _mm_clmulepi64_si128::<0>(word, place)
    }

    /// The remainder of a polynomial of up to 80 bits, divided by P.
    #[inline]
    #[target_feature(enable = "pclmulqdq")]
    fn remainder_of_sum(sum: __m128i) -> u16 {
        // The bits above 64 become their remainder: 64 bits in all.
        let over = _mm_clmulepi64_si128::<0x01>(sum, _mm_cvtsi64_si128(OVER));
        let sum = _mm_xor_si128(sum, over);
        // The quotient of its upper 48 bits, of which only the integer part counts.
        let upper = _mm_srli_epi64::<16>(sum);
        let part = _mm_clmulepi64_si128::<0>(upper, _mm_cvtsi64_si128(QUOTIENT));
        let quotient = _mm_xor_si128(upper, _mm_unpackhi_epi64(part, part));
        let whole = _mm_clmulepi64_si128::<0>(quotient, _mm_cvtsi64_si128(POLYNOMIAL.into()));
        _mm_cvtsi128_si32(_mm_xor_si128(sum, whole)) as u16
    }
}

/// A word at a time, with tables.
mod narrow {
    use super::{brace_bits, remainder_of_power, times_x};

    /// `TABLES[n][b]` is the CRC of byte `b` followed by `n` zero bytes.
    static TABLES: [[u16; 256]; 8] = build_tables();

    const fn build_tables() -> [[u16; 256]; 8] {
        let mut tables = [[0; 256]; 8];
        let mut zeros = 0;
        while zeros < 8 {
            let mut one = remainder_of_power(8 * zeros + 16);
            let mut bit = 1;
            while bit < 256 {
                let mut below = 0;
                while below < bit {
                    tables[zeros][bit + below] = tables[zeros][below] ^ one;
                    below += 1;
                }
                one = times_x(one);
                bit *= 2;
            }
            zeros += 1;
        }
        tables
    }

    #[inline]
    pub fn crc16_and_brace(bytes: &[u8]) -> (u16, bool) {
        let mut crc = 0u16;
        let mut braces = 0u64;
        let (words, rest) = bytes.as_chunks::<8>();
        for word in words {
            let word = u64::from_be_bytes(*word);
            braces |= brace_bits(word);
            crc = fold(word ^ (u64::from(crc) << 48), 8);
        }
        // Typical keys are not multiples of eight long, so a step for half a word pays off.
        let (half, tail) = match rest.split_first_chunk::<4>() {
            Some((half, tail)) => (Some(u32::from_be_bytes(*half)), tail),
            None => (None, rest),
        };
        if let Some(half) = half {
            braces |= brace_bits(half.into());
            crc = fold((half ^ (u32::from(crc) << 16)).into(), 4);
        }
        let mut brace_in_tail = false;
        for &byte in tail {
            brace_in_tail |= byte == b'{';
            crc = (crc << 8) ^ TABLES[0][usize::from((crc >> 8) as u8 ^ byte)];
        }
        (crc, braces != 0 || brace_in_tail)
    }

    /// The CRC of the low `length` bytes of `bytes`, the earlier ones in higher places.
    #[inline]
    fn fold(bytes: u64, length: usize) -> u16 {
        TABLES[..length]
            .iter()
            .enumerate()
            .fold(0, |crc, (zeros, table)| crc ^ table[(bytes >> (8 * zeros)) as usize & 0xff])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;

    /// The definition, bit by bit.
    fn by_bits(bytes: &[u8]) -> (u16, bool) {
        let crc = bytes
            .iter()
            .fold(0, |crc, &byte| (0..8).fold(crc ^ u16::from(byte) << 8, |crc, _| times_x(crc)));
        (crc, bytes.contains(&b'{'))
    }

    #[test]
    fn published_check_value() {
        assert_eq!(crc16_and_brace(b"123456789"), (0x31c3, false));
        assert_eq!(narrow::crc16_and_brace(b"123456789"), (0x31c3, false));
        assert_eq!(crc16_and_brace(b""), (0, false));
    }

    #[test]
    fn both_equal_bit_by_bit() {
        let mut rng = Rng::new(1);
        for length in 0..200 {
            for _ in 0..50 {
                let bytes: Vec<u8> = (0..length).map(|_| rng.next_u64() as u8).collect();
                assert_eq!(crc16_and_brace(&bytes), by_bits(&bytes), "{bytes:?}");
                assert_eq!(narrow::crc16_and_brace(&bytes), by_bits(&bytes), "{bytes:?}");
            }
        }
    }

    /// Sums of bits are sums of CRCs: testing one bit each proves all.
    #[test]
    fn every_bit_at_every_position() {
        for length in 0..=80 {
            for bit in 0..8 * length {
                let mut bytes = vec![0; length];
                bytes[bit / 8] = 0x80 >> (bit % 8);
                assert_eq!(crc16_and_brace(&bytes), by_bits(&bytes), "bit {bit} of {length}");
            }
        }
    }

    #[test]
    fn finds_a_brace_at_every_position() {
        for length in 1..=80 {
            for at in 0..length {
                // A byte that differs from a brace in one bit is not a brace.
                for other in (0..8).map(|bit| b'{' ^ 1 << bit).chain([0, 0xff]) {
                    let mut bytes = vec![other; length];
                    assert_eq!(crc16_and_brace(&bytes), by_bits(&bytes));
                    bytes[at] = b'{';
                    assert_eq!(crc16_and_brace(&bytes), by_bits(&bytes), "{at} of {length}");
                    assert_eq!(narrow::crc16_and_brace(&bytes), by_bits(&bytes));
                }
            }
        }
    }
}

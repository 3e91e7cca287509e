//! Arrays of six-bit registers: packed four to three bytes, or a byte for each.
//!
//! ```text
//!  packed   byte 0    byte 1    byte 2      the first register in the lowest bits
//!           11000000  22221111  33333322
//!  open     00......  11......  22......  33......     one byte each, below 64
//! ```
//!
//! The dense form of a HyperLogLog is such an array. Merging and storing many of them opens and
//! packs 16384 registers each time, so both have two implementations with the same result: with
//! AVX2 32 registers at a time, if the processor has it, and eight at a time in a 64-bit word
//! everywhere. [`set_wide`] disables the wide one, so that a test can compare.
//!
//! `unsafe` is only used for the instructions. Every memory access goes through a slice of checked
//! length.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// The number of registers of an array.
pub const REGISTERS: usize = 1 << 14;

/// Bytes of a packed array.
pub const PACKED: usize = REGISTERS / 4 * 3;

/// A packed array.
pub type Packed = [u8; PACKED];

/// An array with a byte for each register.
pub type Open = [u8; REGISTERS];

/// Whether the wide instructions may be used if the processor has them.
static ALLOWED: AtomicBool = AtomicBool::new(true);

/// Whether the wide instructions are in use.
pub fn is_wide() -> bool {
    #[cfg(target_arch = "x86_64")]
    let there = is_x86_feature_detected!("avx2");
    #[cfg(not(target_arch = "x86_64"))]
    let there = false;
    there && ALLOWED.load(Relaxed)
}

/// Allows or forbids the wide instructions for the whole process. Results are the same.
pub fn set_wide(allowed: bool) {
    ALLOWED.store(allowed, Relaxed);
}

/// The register at `at`.
///
/// # Panics
///
/// If `at` is not below [`REGISTERS`].
#[inline]
pub fn get(packed: &Packed, at: usize) -> u8 {
    let (byte, shift) = (at / 4 * 3, at % 4 * 6);
    let three = u32::from_le_bytes([packed[byte], packed[byte + 1], packed[byte + 2], 0]);
    (three >> shift) as u8 & 63
}

/// Sets the register at `at` to the lower six bits of `value`.
///
/// # Panics
///
/// If `at` is not below [`REGISTERS`].
#[inline]
pub fn set(packed: &mut Packed, at: usize, value: u8) {
    let (byte, shift) = (at / 4 * 3, at % 4 * 6);
    let three = u32::from_le_bytes([packed[byte], packed[byte + 1], packed[byte + 2], 0]);
    let three = (three & !(63 << shift)) | u32::from(value & 63) << shift;
    packed[byte..byte + 3].copy_from_slice(&three.to_le_bytes()[..3]);
}

/// Raises each register of `open` to the maximum of those of `all`. O(arrays). Cheaper than one
/// call for each array, since `open` is written once.
pub fn raise(open: &mut Open, all: &[&Packed]) {
    #[cfg(target_arch = "x86_64")]
    if is_wide() {
        // SAFETY: `is_wide` has checked that the processor has AVX2.
        unsafe { wide::raise(open, all) };
        return;
    }
    narrow::raise(open, all);
}

/// Packs `open`, whose registers must be below 64.
pub fn pack(open: &Open, packed: &mut Packed) {
    #[cfg(target_arch = "x86_64")]
    if is_wide() {
        // SAFETY: `is_wide` has checked that the processor has AVX2.
        unsafe { wide::pack(open, packed) };
        return;
    }
    narrow::pack(open, packed);
}

/// Eight registers at a time, in a word.
mod narrow {
    use super::{Open, Packed};

    pub fn raise(open: &mut Open, all: &[&Packed]) {
        for packed in all {
            raise_parts(open, *packed);
        }
    }

    /// Like [`raise`], for parts of one array.
    pub fn raise_parts(open: &mut [u8], packed: &[u8]) {
        for (to, from) in open.chunks_exact_mut(8).zip(packed.chunks_exact(6)) {
            let mut word = [0; 8];
            word[..6].copy_from_slice(from);
            for (to, from) in to.iter_mut().zip(spread(u64::from_le_bytes(word)).to_le_bytes()) {
                *to = from.max(*to);
            }
        }
    }

    pub fn pack(open: &Open, packed: &mut Packed) {
        pack_parts(open, packed);
    }

    /// Like [`pack`], for parts of arrays.
    pub fn pack_parts(open: &[u8], packed: &mut [u8]) {
        for (from, to) in open.chunks_exact(8).zip(packed.chunks_exact_mut(6)) {
            let word = u64::from_le_bytes(from.try_into().expect("eight bytes"));
            to.copy_from_slice(&gather(word).to_le_bytes()[..6]);
        }
    }

    /// From 48 bits to a byte for every six: halves are moved apart, then quarters, then eighths.
    fn spread(x: u64) -> u64 {
        let x = (x & 0xff_ffff) | (x & 0xffff_ff00_0000) << 8;
        let x = (x & 0x0000_0fff_0000_0fff) | (x & 0x00ff_f000_00ff_f000) << 4;
        (x & 0x003f_003f_003f_003f) | (x & 0x0fc0_0fc0_0fc0_0fc0) << 2
    }

    /// The inverse of [`spread`].
    fn gather(x: u64) -> u64 {
        let x = (x & 0x003f_003f_003f_003f) | (x & 0x3f00_3f00_3f00_3f00) >> 2;
        let x = (x & 0x0000_0fff_0000_0fff) | (x & 0x0fff_0000_0fff_0000) >> 4;
        (x & 0xff_ffff) | (x & 0x00ff_ffff_0000_0000) >> 8
    }
}

/// Thirty-two registers at a time.
#[cfg(target_arch = "x86_64")]
mod wide {
    use super::{Open, PACKED, Packed, REGISTERS, narrow};
    use std::arch::x86_64::*;

    /// Registers of a step, and their packed bytes.
    const STEP: usize = 32;
    const BYTES: usize = STEP / 4 * 3;
    /// A half of a step is read and written as 16 bytes, of which 12 are used. The last step would
    /// exceed the end by four bytes and is left to the narrow code.
    const STEPS: usize = REGISTERS / STEP - 1;

    /// Steps that are raised together, so that the array is written less often.
    const GROUP: usize = 2;

    const _: () = assert!(STEPS * BYTES + 4 <= PACKED && PACKED.is_multiple_of(BYTES));
    const _: () = assert!(GROUP <= STEPS);

    #[target_feature(enable = "avx2")]
    fn load(from: &[u8]) -> __m128i {
        let from: &[u8; 16] = from.try_into().expect("sixteen bytes");
        // SAFETY: the array has the 16 bytes that are read. No alignment is required.
        unsafe { _mm_loadu_si128(from.as_ptr().cast()) }
    }

    #[target_feature(enable = "avx2")]
    fn store(to: &mut [u8], value: __m128i) {
        let to: &mut [u8; 16] = to.try_into().expect("sixteen bytes");
        // SAFETY: the array has the 16 bytes that are written. No alignment is required.
        unsafe { _mm_storeu_si128(to.as_mut_ptr().cast(), value) }
    }

    #[target_feature(enable = "avx2")]
    fn both(low: __m128i, high: __m128i) -> __m256i {
        _mm256_inserti128_si256::<1>(_mm256_castsi128_si256(low), high)
    }

    /// The maximum of each register is computed before they are spread to a byte each. A half of a
    /// lane of 32 bits holds two registers and a part of a third:
    ///
    /// ```text
    ///   33333322 2222....   high half, from the second and third byte
    ///   ....1111 11000000   low half, from the first and second byte
    /// ```
    ///
    /// With only the even ones, or only the odd ones, halves compare like the registers.
    #[target_feature(enable = "avx2")]
    pub fn raise(open: &mut Open, all: &[&Packed]) {
        let halves = _mm_setr_epi8(0, 1, 1, 2, 3, 4, 4, 5, 6, 7, 7, 8, 9, 10, 10, 11);
        let halves = both(halves, halves);
        let evens = _mm256_set1_epi32(0x03f0_003f);
        let odds = _mm256_set1_epi32(0xfc00_0fc0_u32.cast_signed());
        for group in 0..STEPS.div_ceil(GROUP) {
            // The last group begins early enough to be complete: raising twice is harmless.
            let first = (group * GROUP).min(STEPS - GROUP);
            let mut even = [_mm256_setzero_si256(); GROUP];
            let mut odd = even;
            for packed in all {
                let from = &packed[first * BYTES..][..GROUP * BYTES + 4];
                for n in 0..GROUP {
                    let at = n * BYTES;
                    let x = both(load(&from[at..at + 16]), load(&from[at + 12..at + 28]));
                    let x = _mm256_shuffle_epi8(x, halves);
                    even[n] = _mm256_max_epu16(even[n], _mm256_and_si256(x, evens));
                    odd[n] = _mm256_max_epu16(odd[n], _mm256_and_si256(x, odds));
                }
            }
            for n in 0..GROUP {
                let x = apart(even[n], odd[n]);
                let to = &mut open[(first + n) * STEP..][..STEP];
                let old = both(load(&to[..16]), load(&to[16..]));
                let new = _mm256_max_epu8(old, x);
                store(&mut to[..16], _mm256_castsi256_si128(new));
                store(&mut to[16..], _mm256_extracti128_si256::<1>(new));
            }
        }
        for packed in all {
            narrow::raise_parts(&mut open[STEPS * STEP..], &packed[STEPS * BYTES..]);
        }
    }

    /// A byte for each register: the first is at bit 0, the second at bit 6, the others at bits 20
    /// and 26.
    #[target_feature(enable = "avx2")]
    fn apart(even: __m256i, odd: __m256i) -> __m256i {
        let byte = |n: i32| _mm256_set1_epi32(63 << (8 * n));
        let a = _mm256_and_si256(even, byte(0));
        let b = _mm256_and_si256(_mm256_slli_epi32::<2>(odd), byte(1));
        let c = _mm256_and_si256(_mm256_srli_epi32::<4>(even), byte(2));
        let d = _mm256_and_si256(_mm256_srli_epi32::<2>(odd), byte(3));
        _mm256_or_si256(_mm256_or_si256(a, b), _mm256_or_si256(c, d))
    }

    #[target_feature(enable = "avx2")]
    pub fn pack(open: &Open, packed: &mut Packed) {
        // Three bytes from each lane of 32 bits.
        let close = _mm_setr_epi8(0, 1, 2, 4, 5, 6, 8, 9, 10, 12, 13, 14, -1, -1, -1, -1);
        let close = both(close, close);
        for step in 0..STEPS {
            let from = &open[step * STEP..][..STEP];
            let x = both(load(&from[..16]), load(&from[16..]));
            // Pairs of bytes to the first and 64 times the second, and pairs of those to the first
            // and 4096 times the second: six, twelve, twenty-four bits.
            let x = _mm256_maddubs_epi16(x, _mm256_set1_epi16(0x4001));
            let x = _mm256_madd_epi16(x, _mm256_set1_epi32(0x1000_0001));
            let x = _mm256_shuffle_epi8(x, close);
            // Each store writes four extra zeros, which the next one overwrites.
            let to = &mut packed[step * BYTES..][..BYTES + 4];
            store(&mut to[..16], _mm256_castsi256_si128(x));
            store(&mut to[12..28], _mm256_extracti128_si256::<1>(x));
        }
        narrow::pack_parts(&open[STEPS * STEP..], &mut packed[STEPS * BYTES..]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;

    fn random(rng: &mut Rng) -> Box<Open> {
        let mut open = Box::new([0; REGISTERS]);
        open.iter_mut().for_each(|register| *register = (rng.next_u64() % 64) as u8);
        open
    }

    #[test]
    fn single_registers() {
        let mut packed = Box::new([0; PACKED]);
        let open = random(&mut Rng::new(1));
        for (at, value) in open.iter().enumerate() {
            set(&mut packed, at, 63);
            set(&mut packed, at, *value);
        }
        for (at, value) in open.iter().enumerate() {
            assert_eq!(get(&packed, at), *value, "{at}");
        }
        let mut all = Box::new([0; PACKED]);
        pack(&open, &mut all);
        assert_eq!(packed, all);
    }

    /// Compares both implementations with the plain definition.
    #[test]
    fn wide_and_narrow_code_agree() {
        let mut rng = Rng::new(2);
        for _ in 0..20 {
            let (open, other) = (random(&mut rng), random(&mut rng));
            let mut packed = Box::new([0xff; PACKED]);
            narrow::pack(&open, &mut packed);
            for (at, value) in open.iter().enumerate() {
                assert_eq!(get(&packed, at), *value, "{at}");
            }
            let mut third = Box::new([0; PACKED]);
            for (at, register) in random(&mut rng).iter().enumerate() {
                set(&mut third, at, *register);
            }
            let all = [&*packed, &*third];
            let highest = |count: usize| -> Vec<u8> {
                let of = |at: usize| all[..count].iter().map(move |packed| get(packed, at)).max();
                (0..REGISTERS).map(|at| other[at].max(of(at).unwrap_or(0))).collect()
            };
            for count in 0..=all.len() {
                let mut raised = other.clone();
                narrow::raise(&mut raised, &all[..count]);
                assert_eq!(&raised[..], &highest(count)[..]);
            }
            #[cfg(target_arch = "x86_64")]
            if is_x86_feature_detected!("avx2") {
                for count in 0..=all.len() {
                    let mut raised = other.clone();
                    // SAFETY: the processor has AVX2.
                    unsafe { wide::raise(&mut raised, &all[..count]) };
                    assert_eq!(&raised[..], &highest(count)[..]);
                }
                let mut again = Box::new([0xff; PACKED]);
                // SAFETY: as above.
                unsafe { wide::pack(&open, &mut again) };
                assert_eq!(packed, again);
            }
        }
    }
}

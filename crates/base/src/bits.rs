//! Bits of long byte strings: the number of set bits, and the end of a run of equal bytes.
//!
//! BITCOUNT counts megabytes, so counting uses the widest instructions that the processor has,
//! detected at run time. All variants are one loop, compiled for different processors: the compiler
//! translates `count_ones` over words to the best instructions of each. Searching a byte only needs
//! instructions that every x86-64 and ARM processor has.

/// For fewer bytes, counting takes less time than querying the processor's features.
const SHORT: usize = 128;

/// The number of set bits of `bytes`. O(length).
#[inline]
pub fn count_ones(bytes: &[u8]) -> usize {
    if bytes.len() < SHORT {
        return portable(bytes);
    }
    widest(bytes)
}

#[cfg(target_arch = "x86_64")]
fn widest(bytes: &[u8]) -> usize {
    if is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512vpopcntdq") {
        // SAFETY: the check above found the features that the function is compiled for.
        return unsafe { with_avx512(bytes) };
    }
    if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("popcnt") {
        // SAFETY: as above.
        return unsafe { with_avx2(bytes) };
    }
    portable(bytes)
}

#[cfg(not(target_arch = "x86_64"))]
fn widest(bytes: &[u8]) -> usize {
    portable(bytes)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512vpopcntdq,avx512vl,popcnt")]
fn with_avx512(bytes: &[u8]) -> usize {
    count(bytes)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,popcnt")]
fn with_avx2(bytes: &[u8]) -> usize {
    count(bytes)
}

fn portable(bytes: &[u8]) -> usize {
    count(bytes)
}

/// The loop, inlined into functions that are compiled for different processors.
#[inline(always)]
fn count(bytes: &[u8]) -> usize {
    let (words, rest) = bytes.as_chunks::<{ size_of::<u64>() }>();
    // One plain sum: the compiler processes as many words at a time as the processor can. With
    // several sums written by hand it gathered the words one by one, at four times the cost.
    let of_words: u64 = words.iter().map(|w| u64::from(u64::from_ne_bytes(*w).count_ones())).sum();
    let of_rest: u32 = rest.iter().map(|byte| byte.count_ones()).sum();
    of_words as usize + of_rest as usize
}

/// The position of the first byte of `bytes` that is not `byte`. O(position).
pub fn first_other_than(bytes: &[u8], byte: u8) -> Option<usize> {
    const BLOCK: usize = 256;
    let (blocks, _) = bytes.as_chunks::<BLOCK>();
    let differs = |block: &[u8; BLOCK]| block.iter().fold(0, |seen, b| seen | (b ^ byte)) != 0;
    let skipped = blocks.iter().position(differs).unwrap_or(blocks.len()) * BLOCK;
    let found = bytes[skipped..].iter().position(|b| *b != byte)?;
    Some(skipped + found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;

    fn one_by_one(bytes: &[u8]) -> usize {
        (0..bytes.len() * 8).filter(|at| bytes[at / 8] >> (at % 8) & 1 == 1).count()
    }

    /// All paths that this processor can take, at lengths and offsets that fit no block.
    #[test]
    fn every_path_counts_the_same() {
        let mut rng = Rng::new(1);
        let bytes: Vec<u8> = (0..5000).map(|_| rng.next_u64() as u8).collect();
        for from in [0, 1, 7, 8, 63, 130] {
            for len in [0, 1, 7, 8, 9, 127, 128, 129, 255, 256, 1000, 4096, 4800] {
                let part = &bytes[from..from + len];
                let want = one_by_one(part);
                assert_eq!(count_ones(part), want, "{from} {len}");
                assert_eq!(portable(part), want, "{from} {len}");
                assert_eq!(widest(part), want, "{from} {len}");
                #[cfg(target_arch = "x86_64")]
                if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("popcnt") {
                    // SAFETY: the processor has the features that the function is compiled for.
                    assert_eq!(unsafe { with_avx2(part) }, want, "{from} {len}");
                }
            }
        }
        assert_eq!(count_ones(&vec![0xff; 100_000]), 800_000);
    }

    #[test]
    fn finds_another_byte_at_every_position() {
        for len in [0, 1, 8, 255, 256, 257, 1000] {
            let mut bytes = vec![0xff; len];
            assert_eq!(first_other_than(&bytes, 0xff), None, "{len}");
            for at in (0..len).rev() {
                bytes[at] = 0x7f;
                assert_eq!(first_other_than(&bytes, 0xff), Some(at), "{len}");
            }
        }
        assert_eq!(first_other_than(&[0, 0, 4], 0), Some(2));
    }
}

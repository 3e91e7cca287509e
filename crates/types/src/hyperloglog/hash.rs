//! Maps an element to a register and a rank.

/// Bits of the hash that select the register.
const INDEX_BITS: u32 = 14;

/// Remaining bits, which give the rank.
pub const RANK_BITS: u32 = 64 - INDEX_BITS;

/// Valkey's seed.
const SEED: u64 = 0xadc8_3b19;

/// A register and a rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Less than 16384.
    pub index: usize,
    /// 1 to 51.
    pub rank: u8,
}

impl Place {
    /// The register and rank of an element. O(length).
    #[inline]
    pub fn of(element: &[u8]) -> Place {
        let hash = murmur64a(element);
        // An extra bit after the last one bounds the rank.
        let ranked = hash >> INDEX_BITS | 1 << RANK_BITS;
        Place {
            index: (hash & ((1 << INDEX_BITS) - 1)) as usize,
            rank: ranked.trailing_zeros() as u8 + 1,
        }
    }
}

/// MurmurHash64A (Austin Appleby, public domain), with words read as little endian.
#[inline]
fn murmur64a(bytes: &[u8]) -> u64 {
    const FACTOR: u64 = 0xc6a4_a793_5bd1_e995;
    const SHIFT: u32 = 47;
    let mut hash = SEED ^ (bytes.len() as u64).wrapping_mul(FACTOR);
    let (words, rest) = bytes.as_chunks::<8>();
    for word in words {
        let mut word = u64::from_le_bytes(*word).wrapping_mul(FACTOR);
        word ^= word >> SHIFT;
        hash = (hash ^ word.wrapping_mul(FACTOR)).wrapping_mul(FACTOR);
    }
    if !rest.is_empty() {
        let last = match bytes.last_chunk::<8>() {
            // Includes bytes before the rest, which are shifted out.
            Some(last) => u64::from_le_bytes(*last) >> (64 - 8 * rest.len()),
            None => rest.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte)),
        };
        hash = (hash ^ last).wrapping_mul(FACTOR);
    }
    hash ^= hash >> SHIFT;
    hash = hash.wrapping_mul(FACTOR);
    hash ^ hash >> SHIFT
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As Valkey stores them: PFADD of the element alone, then PFDEBUG DECODE.
    #[test]
    fn places_match_valkey() {
        for (element, index, rank) in PROBED {
            assert_eq!(Place::of(element), Place { index: *index, rank: *rank }, "{element:?}");
        }
    }

    /// The last bytes of an element are read as one word if the element has at least eight bytes.
    #[test]
    fn hash_matches_byte_by_byte_version() {
        let text: Vec<u8> = (0..40).map(|n: u8| n.wrapping_mul(37) ^ 0x80).collect();
        for len in 0..text.len() {
            let bytes = &text[..len];
            let slowly = {
                const FACTOR: u64 = 0xc6a4_a793_5bd1_e995;
                let mut hash = SEED ^ (len as u64).wrapping_mul(FACTOR);
                for chunk in bytes.chunks(8) {
                    let word =
                        (0..chunk.len()).map(|n| u64::from(chunk[n]) << (8 * n)).sum::<u64>();
                    let mixed = word.wrapping_mul(FACTOR);
                    let mixed = (mixed ^ mixed >> 47).wrapping_mul(FACTOR);
                    let whole = chunk.len() == 8;
                    hash = (hash ^ if whole { mixed } else { word }).wrapping_mul(FACTOR);
                }
                hash ^= hash >> 47;
                hash = hash.wrapping_mul(FACTOR);
                hash ^ hash >> 47
            };
            assert_eq!(murmur64a(bytes), slowly, "{len}");
        }
    }

    const PROBED: &[(&[u8], usize, u8)] = &[(b"", 5938, 2), (b"a", 12711, 2)];
}

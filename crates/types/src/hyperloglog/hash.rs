//! Which register an element raises, and how far.

/// Bits of the hash that name the register.
const INDEX_BITS: u32 = 14;

/// Bits that are left for the rank.
pub const RANK_BITS: u32 = 64 - INDEX_BITS;

/// The seed of the reference.
const SEED: u64 = 0xadc8_3b19;

/// A register and a rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Below 16384.
    pub index: usize,
    /// 1 to 51.
    pub rank: u8,
}

impl Place {
    /// The place of an element. O(length).
    #[inline]
    pub fn of(element: &[u8]) -> Place {
        let hash = murmur64a(element);
        // A bit beyond the last ends the search for one.
        let ranked = hash >> INDEX_BITS | 1 << RANK_BITS;
        Place {
            index: (hash & ((1 << INDEX_BITS) - 1)) as usize,
            rank: ranked.trailing_zeros() as u8 + 1,
        }
    }
}

/// MurmurHash64A (Austin Appleby, in the public domain), words read as little endian.
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
        let last = rest.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte));
        hash = (hash ^ last).wrapping_mul(FACTOR);
    }
    hash ^= hash >> SHIFT;
    hash = hash.wrapping_mul(FACTOR);
    hash ^ hash >> SHIFT
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As the reference stores them: PFADD of the element alone, PFDEBUG DECODE.
    #[test]
    fn places_are_those_of_the_reference() {
        for (element, index, rank) in PROBED {
            assert_eq!(Place::of(element), Place { index: *index, rank: *rank }, "{element:?}");
        }
    }

    const PROBED: &[(&[u8], usize, u8)] = &[(b"", 5938, 2), (b"a", 12711, 2)];
}

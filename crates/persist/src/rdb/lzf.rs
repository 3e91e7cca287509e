//! LZF, the compression of strings (Marc Lehmann, LibLZF): a block without a header.
//!
//! ```text
//!  000lllll, then l + 1 bytes            literal bytes
//!  lllddddd dddddddd                     l + 2 bytes (l in 1..=6) from d + 1 bytes before
//!  111ddddd llllllll dddddddd            l + 9 bytes from d + 1 bytes before
//! ```

/// The longest run of literal bytes.
const LITERALS: usize = 32;
/// The maximum distance of a repetition, and its maximum length.
const FAR: usize = 1 << 13;
const LONGEST: usize = 264;
/// Maximum ratio of decompressed to compressed length: three bytes yield [`LONGEST`].
pub const FACTOR: usize = LONGEST / 3;

/// The last offset of each three bytes, by their hash, plus 1; 0 means none.
struct Seen {
    slots: Vec<u32>,
    shift: u32,
}

impl Seen {
    /// Returns a table for a text of `len` bytes. Most strings are short and need few slots.
    fn new(len: usize) -> Seen {
        let bits = (len.max(1).ilog2() + 1).clamp(6, 14);
        Seen { slots: vec![0; 1 << bits], shift: 32 - bits }
    }

    /// Records the three bytes at `at`. Returns the previous offset with the same hash.
    fn note(&mut self, bytes: &[u8], at: usize) -> Option<usize> {
        let three = u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], 0]);
        let slot = (three.wrapping_mul(0x9e37_79b1) >> self.shift) as usize;
        let before = std::mem::replace(&mut self.slots[slot], at as u32 + 1);
        (before as usize).checked_sub(1)
    }
}

/// Compresses `bytes` into `block`. Returns `false`, with useless content in `block`, if the result
/// would have `most` bytes or more. O(length), with a table of up to 64 KiB in addition to the
/// block.
#[must_use]
pub fn compress(bytes: &[u8], most: usize, block: &mut Vec<u8>) -> bool {
    block.clear();
    if u32::try_from(bytes.len()).is_err() {
        return false;
    }
    let mut seen = Seen::new(bytes.len());
    // Start of the literal bytes that are not written yet; they end at `at`.
    let (mut from, mut at) = (0, 0);
    while at + 2 < bytes.len() {
        let before = seen.note(bytes, at);
        let found = before.filter(|b| at - b <= FAR && bytes[*b..b + 3] == bytes[at..at + 3]);
        let Some(before) = found else {
            at += 1;
            // Stops early if the data doesn't compress.
            if at - from + block.len() >= most + LITERALS {
                return false;
            }
            continue;
        };
        put_literals(&bytes[from..at], block);
        let most_here = (bytes.len() - at).min(LONGEST);
        let len = 3 + (3..most_here).take_while(|n| bytes[before + n] == bytes[at + n]).count();
        put_repetition(at - before - 1, len, block);
        if block.len() >= most {
            return false;
        }
        // Bytes inside the repetition may be repeated later.
        for inner in [at + 1, at + len - 1] {
            if inner + 2 < bytes.len() {
                seen.note(bytes, inner);
            }
        }
        at += len;
        from = at;
    }
    put_literals(&bytes[from..], block);
    block.len() < most
}

fn put_literals(bytes: &[u8], block: &mut Vec<u8>) {
    for run in bytes.chunks(LITERALS) {
        block.push(run.len() as u8 - 1);
        block.extend_from_slice(run);
    }
}

fn put_repetition(distance: usize, len: usize, block: &mut Vec<u8>) {
    let (high, low) = ((distance >> 8) as u8, distance as u8);
    match len - 2 {
        short @ 1..=6 => block.push((short as u8) << 5 | high),
        long => block.extend([7 << 5 | high, (long - 7) as u8]),
    }
    block.push(low);
}

/// Decompresses `block` and appends the `len` bytes to `to`. `None` if the length differs, or the
/// block is invalid.
#[must_use]
pub fn decompress(block: &[u8], len: usize, to: &mut Vec<u8>) -> Option<()> {
    if len == 0 {
        // As in the reference, an empty result accepts any block.
        return Some(());
    }
    if len > block.len().saturating_mul(FACTOR) {
        return None;
    }
    to.reserve_exact(len);
    let start = to.len();
    let end = start + len;
    let mut rest = block;
    while let [head, tail @ ..] = rest {
        let head = usize::from(*head);
        if head < LITERALS {
            let (run, tail) = tail.split_at_checked(head + 1)?;
            if run.len() > end - to.len() {
                return None;
            }
            to.extend_from_slice(run);
            rest = tail;
            continue;
        }
        let (run, low, tail) = match (head >> 5, tail) {
            (7, [more, low, tail @ ..]) => (9 + usize::from(*more), *low, tail),
            (7, [_] | []) | (_, []) => return None,
            (short, [low, tail @ ..]) => (short + 2, *low, tail),
        };
        let distance = ((head & 0x1f) << 8 | usize::from(low)) + 1;
        let from = to.len().checked_sub(distance).filter(|from| *from >= start)?;
        if run > end - to.len() {
            return None;
        }
        repeat(to, from, run);
        rest = tail;
    }
    (to.len() == end).then_some(())
}

/// Appends `run` bytes from `from` on. The range may overlap the bytes being appended.
fn repeat(to: &mut Vec<u8>, from: usize, run: usize) {
    let distance = to.len() - from;
    let mut left = run;
    while left > 0 {
        let piece = left.min(distance);
        to.extend_from_within(from..from + piece);
        left -= piece;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn both_ways(bytes: &[u8]) -> Option<usize> {
        let mut block = Vec::new();
        compress(bytes, bytes.len(), &mut block).then(|| {
            let mut back = b"before".to_vec();
            decompress(&block, bytes.len(), &mut back).expect("a block of our own");
            assert_eq!(&back[6..], bytes);
            block.len()
        })
    }

    #[test]
    fn repetitions_are_compressed() {
        assert!(both_ways(&[b'a'; 100]).expect("it shrinks") < 20);
        assert!(both_ways(&b"abcdefgh".repeat(1000)).expect("it shrinks") < 200);
        assert!(both_ways(&[7; 1 << 20]).expect("it shrinks") < (1 << 20) / 80);
        assert_eq!(both_ways(b"abcdefghijklmnopqrstuvwxyz0123456789"), None);
        assert_eq!(both_ways(b""), None);
    }

    #[test]
    fn block_of_the_reference_is_decompressed() {
        let mut text = Vec::new();
        decompress(b"\x01aa\xe0W\x00\x01aa", 100, &mut text).expect("a block");
        assert_eq!(text, [b'a'; 100]);
    }

    #[test]
    fn invalid_blocks_are_refused() {
        let refused = |block: &[u8], len| decompress(block, len, &mut b"xyz".to_vec()).is_none();
        assert!(refused(b"\x05abc", 6), "it ends in a run");
        assert!(refused(b"\x20\x00", 3), "from before the beginning");
        assert!(refused(b"\x00a\x20\x01", 4), "from one before it");
        assert!(refused(b"\x00a\xe0\x01", 11), "it ends in a repetition");
        assert!(refused(b"\x00a\x20", 4));
        assert!(refused(b"\x00a\x20\x00", 3) && refused(b"\x00a\x20\x00", 5), "another length");
        assert!(refused(b"\x00a", usize::MAX), "nothing is that long");
        assert!(!refused(b"\x00a\x20\x00", 4));
    }

    proptest! {
        #[test]
        fn decompressing_restores_all_bytes(
            pieces in prop::collection::vec((prop::collection::vec(0u8..4, 1..40), 1usize..30), 0..40)
        ) {
            let bytes: Vec<u8> = pieces.iter().flat_map(|(piece, n)| piece.repeat(*n)).collect();
            both_ways(&bytes);
        }

        #[test]
        fn random_blocks_are_refused_or_have_the_given_length(
            block in prop::collection::vec(any::<u8>(), 0..200), len in 0usize..3000
        ) {
            let mut to = Vec::new();
            if decompress(&block, len, &mut to).is_some() {
                prop_assert_eq!(to.len(), len);
            }
            prop_assert!(to.capacity() <= block.len() * FACTOR);
        }
    }
}

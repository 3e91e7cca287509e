//! From a key to its hash slot.
//!
//! The slot of a key is `CRC16(key) mod 16384`, except that a key with a *hash tag*,
//! a non-empty `{...}`, is hashed by what stands between its first `{` and the first
//! `}` after it, so that clients can force keys together. The CRC is the XMODEM one:
//! polynomial 0x1021, start 0, most significant bit first.
//!
//! The shard of a key comes from its slot, so this runs for every key of every
//! command and is worth some care:
//!
//! * Slicing by eight (Kounavis and Berry, "A Systematic Approach to Building High
//!   Performance Software-based CRC Generators", 2005): eight tables of 256 entries,
//!   4 KiB, turn eight bytes into one step whose loads do not wait for each other.
//! * Whether there is any `{` at all is found in the same pass, eight bytes at a time
//!   with the classic has-zero-byte trick. Only the rare key with a brace is looked
//!   at again.

use crate::limits::SLOTS;
use memchr::memchr;

const POLYNOMIAL: u16 = 0x1021;

/// `TABLES[n][b]` is the CRC of byte `b` followed by `n` zero bytes.
static TABLES: [[u16; 256]; 8] = build_tables();

const fn build_tables() -> [[u16; 256]; 8] {
    let mut tables = [[0u16; 256]; 8];
    let mut byte = 0;
    while byte < 256 {
        let mut crc = (byte as u16) << 8;
        let mut bit = 0;
        while bit < 8 {
            let carry = crc & 0x8000 != 0;
            crc <<= 1;
            if carry {
                crc ^= POLYNOMIAL;
            }
            bit += 1;
        }
        tables[0][byte] = crc;
        byte += 1;
    }
    let mut zeros = 1;
    while zeros < 8 {
        let mut byte = 0;
        while byte < 256 {
            let crc = tables[zeros - 1][byte];
            tables[zeros][byte] = (crc << 8) ^ tables[0][(crc >> 8) as usize];
            byte += 1;
        }
        zeros += 1;
    }
    tables
}

/// The hash slot of `key`, below [`SLOTS`]. Linear in the key's length; a few
/// nanoseconds for 16 bytes.
#[inline]
pub fn key_slot(key: &[u8]) -> u16 {
    let (crc, may_have_brace) = crc16_and_brace(key);
    let crc = if may_have_brace { crc16(hash_tag(key)) } else { crc };
    crc % SLOTS as u16
}

/// CRC-16/XMODEM of `bytes`.
pub fn crc16(bytes: &[u8]) -> u16 {
    crc16_and_brace(bytes).0
}

/// The part of a key that decides its slot: its hash tag, or all of it.
pub fn hash_tag(key: &[u8]) -> &[u8] {
    let tag = memchr(b'{', key).map(|open| &key[open + 1..]);
    match tag.and_then(|rest| memchr(b'}', rest).map(|close| &rest[..close])) {
        Some(tag) if !tag.is_empty() => tag,
        Some(_) | None => key,
    }
}

/// The CRC, and whether a `{` was seen on the way.
#[inline]
fn crc16_and_brace(bytes: &[u8]) -> (u16, bool) {
    let mut crc = 0u16;
    let mut braces = 0u64;
    let (words, rest) = bytes.as_chunks::<8>();
    for word in words {
        let word = u64::from_be_bytes(*word);
        braces |= brace_bits(word);
        crc = fold(word ^ (u64::from(crc) << 48), 8);
    }
    // Typical keys are not multiples of eight long, so half a word is worth a step.
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

/// Not zero exactly if some byte of `word` is a `{`.
#[inline]
fn brace_bits(word: u64) -> u64 {
    const ONES: u64 = u64::from_ne_bytes([1; 8]);
    const HIGHS: u64 = ONES << 7;
    const BRACES: u64 = ONES * b'{' as u64;
    // A zero byte where a brace was. The lowest zero byte always shows its high bit;
    // bytes that are not zero can show theirs only above one that is.
    let difference = word ^ BRACES;
    difference.wrapping_sub(ONES) & !difference & HIGHS
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;

    /// The definition, bit by bit.
    fn crc16_by_bits(bytes: &[u8]) -> u16 {
        bytes.iter().fold(0, |crc, &byte| {
            (0..8).fold(crc ^ u16::from(byte) << 8, |crc, _| {
                if crc & 0x8000 != 0 { crc << 1 ^ POLYNOMIAL } else { crc << 1 }
            })
        })
    }

    #[test]
    fn published_check_value() {
        assert_eq!(crc16(b"123456789"), 0x31c3);
        assert_eq!(crc16(b""), 0);
    }

    #[test]
    fn sliced_equals_bit_by_bit() {
        let mut rng = Rng::new(1);
        for length in 0..200 {
            let bytes: Vec<u8> = (0..length).map(|_| rng.next_u64() as u8).collect();
            assert_eq!(crc16(&bytes), crc16_by_bits(&bytes), "{bytes:?}");
        }
    }

    #[test]
    fn slots_as_the_reference_server_gives_them() {
        for (key, slot) in [
            ("foo", 12_182),
            ("", 0),
            ("{user1000}.following", 3_443),
            ("{user1000}.followers", 3_443),
            ("user1000", 3_443),
            ("foo{}{bar}", 8_363),
            ("foo{{bar}}zap", 4_015),
            ("foo{bar}{zap}", 5_061),
        ] {
            assert_eq!(key_slot(key.as_bytes()), slot, "{key}");
        }
    }

    #[test]
    fn tags_wherever_they_stand() {
        for (key, tag) in [
            ("{a}", "a"),
            ("{}a", "{}a"),
            ("a{b", "a{b"),
            ("a}b{c}d", "c"),
            ("{{a}", "{a"),
            ("x{a}{b}", "a"),
            ("}{", "}{"),
        ] {
            assert_eq!(hash_tag(key.as_bytes()), tag.as_bytes(), "{key}");
        }
        // A brace is noticed at every offset of a word and of the tail.
        for offset in 0..24 {
            let key = format!("{}{{tag}}{}", "x".repeat(offset), "y".repeat(24 - offset));
            assert_eq!(key_slot(key.as_bytes()), key_slot(b"tag"), "offset {offset}");
        }
        // Bytes that differ from a brace only in the top bit are no braces.
        assert_eq!(key_slot(&[0xfb; 9]), crc16(&[0xfb; 9]) % 16_384);
    }
}

//! Maps a key to its hash slot.
//!
//! The slot of a key is `CRC16(key) mod 16384`, except that a key with a *hash tag*, a non-empty
//! `{...}`, is hashed by the bytes between its first `{` and the first `}` after it, so that
//! clients can force keys together. The CRC is the XMODEM one: polynomial 0x1021, start 0, most
//! significant bit first.
//!
//! A key's shard follows from its slot, so this runs for every key of every command. The same pass
//! computes the CRC and finds whether there is any `{`. Only the rare key with a brace needs a
//! second pass.

use crate::crc16::crc16_and_brace;
use crate::limits::SLOTS;
use memchr::memchr;
use std::sync::LazyLock;

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

/// The slot of all keys that match a glob pattern, if it has a hash tag before its first special character, or no special
/// character at all. `None`: they may be in several slots.
pub fn pattern_slot(pattern: &[u8]) -> Option<u16> {
    const SPECIAL: &[u8] = b"*?[\\";
    let literal = pattern.iter().position(|byte| SPECIAL.contains(byte)).unwrap_or(pattern.len());
    let before = &pattern[..literal];
    match literal == pattern.len() || hash_tag(before).len() < before.len() {
        true => Some(key_slot(before)),
        false => None,
    }
}

/// The hash tag of a slot: a key or a cursor with `{tag}` is in the slot. It is the shortest one, and of those the first in the
/// order of [`TAG_BYTES`]: so it is the one in Valkey's table.
///
/// # Panics
/// If there is no such slot.
pub fn slot_tag(slot: u16) -> &'static str {
    static TAGS: LazyLock<Box<[Tag]>> = LazyLock::new(make_tags);
    let (bytes, len) = &TAGS[usize::from(slot)];
    str::from_utf8(&bytes[..usize::from(*len)]).expect("tags are ASCII")
}

/// A tag and its length.
type Tag = ([u8; TAG_MAX], u8);

/// Three bytes suffice for all slots.
const TAG_MAX: usize = 3;
const TAG_BYTES: &[u8; 62] = b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";

fn make_tags() -> Box<[Tag]> {
    let mut tags = vec![([0; TAG_MAX], 0); SLOTS];
    for len in 1..=TAG_MAX {
        for n in 0..TAG_BYTES.len().pow(len as u32) {
            let mut tag = [0; TAG_MAX];
            let mut rest = n;
            for byte in tag[..len].iter_mut().rev() {
                *byte = TAG_BYTES[rest % TAG_BYTES.len()];
                rest /= TAG_BYTES.len();
            }
            let of_slot = &mut tags[usize::from(crc16(&tag[..len])) % SLOTS];
            if of_slot.1 == 0 {
                *of_slot = (tag, len as u8);
            }
        }
    }
    tags.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_slot_has_a_tag_and_tags_are_those_of_valkey() {
        for slot in 0..SLOTS as u16 {
            assert_eq!(key_slot(format!("0-{{{}}}-0", slot_tag(slot)).as_bytes()), slot);
        }
        let some = [(0, "06S"), (1, "Qi"), (80, "avs"), (456, "d5e"), (15_891, "t")];
        for (slot, tag) in some {
            assert_eq!(slot_tag(slot), tag);
        }
    }

    #[test]
    fn slots_match_valkey() {
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
    fn pattern_has_a_slot_if_its_tag_has_no_special_character() {
        for (pattern, slot) in [
            ("foo", Some(12_182)),
            ("{foo}*", Some(12_182)),
            ("a{foo}[b]", Some(12_182)),
            ("}{foo}?", Some(12_182)),
            ("{foo}*{bar}", Some(12_182)),
            ("*{foo}", None),
            ("foo*", None),
            ("{f*o}", None),
            ("{foo\\}", None),
            ("{}*{foo}", None),
            ("{}{foo}*", None),
            ("", Some(0)),
            ("*", None),
        ] {
            assert_eq!(pattern_slot(pattern.as_bytes()), slot, "{pattern}");
        }
    }

    #[test]
    fn finds_tags_at_every_position() {
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
        // A brace is found at every offset of a word and of the tail.
        for offset in 0..24 {
            let key = format!("{}{{tag}}{}", "x".repeat(offset), "y".repeat(24 - offset));
            assert_eq!(key_slot(key.as_bytes()), key_slot(b"tag"), "offset {offset}");
        }
        // Bytes that differ from a brace only in the top bit are not braces.
        assert_eq!(key_slot(&[0xfb; 9]), crc16(&[0xfb; 9]) % 16_384);
    }
}

//! Listpacks: entries as in [`weft_types::packed`], with backward lengths, in a frame.
//!
//! ```text
//!  bytes (u32 LE), entries (u16 LE; 65535: count them), entries, FF
//! ```
//!
//! An entry may have a longer encoding than it needs, as it may where they come from.

use crate::rdb::Fault;
use weft_types::packed::{TwoWay, Value, back_len};

const BROKEN: Fault = Fault::Corrupt("a broken listpack");
const HEAD: usize = 6;

/// Shows every entry, once it is known to be one.
pub fn each<'a>(
    bytes: &'a [u8],
    seen: &mut dyn FnMut(Value<'a>) -> Result<(), Fault>,
) -> Result<(), Fault> {
    let (Some([a, b, c, d, low, high]), [.., 0xff]) = (bytes.first_chunk::<HEAD>(), bytes) else {
        return Err(BROKEN);
    };
    let len = u32::from_le_bytes([*a, *b, *c, *d]) as usize;
    let claimed = u16::from_le_bytes([*low, *high]);
    if len != bytes.len() || len <= HEAD {
        return Err(BROKEN);
    }
    let mut rest = &bytes[HEAD..len - 1];
    let mut count = 0usize;
    while !rest.is_empty() {
        let (value, front) = entry(rest).ok_or(BROKEN)?;
        rest = behind(rest, front).ok_or(BROKEN)?;
        count += 1;
        seen(value)?;
    }
    match claimed == u16::MAX || usize::from(claimed) == count {
        true => Ok(()),
        false => Err(BROKEN),
    }
}

/// What is behind an entry with `front` bytes of head and data, if its backward length is right.
fn behind(bytes: &[u8], front: usize) -> Option<&[u8]> {
    let back = back_len::<TwoWay>(front);
    let (back, rest) = bytes.get(front..)?.split_at_checked(back)?;
    // Seven bits each, the lowest last; all but the first say that one more is in front of them.
    let right = back.iter().rev().enumerate().all(|(n, byte)| {
        let bits = (front >> (7 * n) & 0x7f) as u8;
        *byte == if n + 1 == back.len() { bits } else { bits | 0x80 }
    });
    right.then_some(rest)
}

/// The entry at the front, and the bytes of its head and its data.
fn entry(bytes: &[u8]) -> Option<(Value<'_>, usize)> {
    let (head, data) = bytes.split_first()?;
    let text = |from: usize, len: usize| {
        let text = data.get(from..)?.get(..len)?;
        Some((Value::Bytes(text), 1 + from + len))
    };
    let int = |n: i64, bytes: usize| Some((Value::Int(n), 1 + bytes));
    match head {
        0x00..=0x7f => int(i64::from(*head), 0),
        0x80..=0xbf => text(0, usize::from(head & 0x3f)),
        0xc0..=0xdf => {
            // Thirteen bits with a sign.
            let bits = u16::from(head & 0x1f) << 8 | u16::from(*data.first()?);
            int(i64::from((bits << 3) as i16 >> 3), 1)
        }
        0xe0..=0xef => text(1, usize::from(head & 0x0f) << 8 | usize::from(*data.first()?)),
        0xf0 => text(4, u32::from_le_bytes(*data.first_chunk()?) as usize),
        0xf1 => int(i64::from(i16::from_le_bytes(*data.first_chunk()?)), 2),
        0xf2 => {
            let [a, b, c] = *data.first_chunk()?;
            int(i64::from(i32::from_le_bytes([0, a, b, c]) >> 8), 3)
        }
        0xf3 => int(i64::from(i32::from_le_bytes(*data.first_chunk()?)), 4),
        0xf4 => int(i64::from_le_bytes(*data.first_chunk()?), 8),
        0xf5..=0xff => None,
    }
}

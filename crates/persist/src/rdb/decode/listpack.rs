//! Listpacks: entries as in [`weft_types::packed`], with backward lengths, in a frame.
//!
//! ```text
//!  bytes (u32 LE), entries (u16 LE; 65535: unknown), entries, FF
//! ```
//!
//! An entry may have a longer encoding than necessary, as Valkey accepts.

use crate::rdb::Fault;
use weft_types::packed::{TwoWay, Value, back_len};

const BROKEN: Fault = Fault::Corrupt("a broken listpack");
const HEAD: usize = 6;
/// Maximum size of a backward length in bytes.
const MOST_BACK: usize = 5;

/// Validates each entry, then passes it to `seen`.
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
    let entries = &bytes[..len - 1];
    let (mut at, mut count) = (HEAD, 0usize);
    while at < entries.len() {
        let (value, front) = entry(&entries[at..]).ok_or(BROKEN)?;
        at += front + back_len::<TwoWay>(front);
        let before = entries.get(..at).ok_or(BROKEN)?;
        if read_back(before) != Some(front) {
            return Err(BROKEN);
        }
        count += 1;
        seen(value)?;
    }
    match claimed == u16::MAX || usize::from(claimed) == count {
        true => Ok(()),
        false => Err(BROKEN),
    }
}

/// Decodes the backward length at the end of these bytes: seven bits each, the lowest last. The
/// highest bit says that another byte precedes. Valkey's backward reader accepts an overlong
/// length, even if its first bytes belong to the entry, and so does Weft.
fn read_back(bytes: &[u8]) -> Option<usize> {
    let mut all = 0;
    for (n, byte) in bytes.iter().rev().enumerate().take(MOST_BACK) {
        all |= usize::from(byte & 0x7f) << (7 * n);
        if byte & 0x80 == 0 {
            return Some(all);
        }
    }
    None
}

/// Decodes the first entry. Returns it and the length of its head and data in bytes.
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

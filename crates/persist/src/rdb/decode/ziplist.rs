//! Ziplists, the predecessors of listpacks.
//!
//! ```text
//!  bytes (u32 LE), offset of the last entry (u32 LE), entries (u16 LE; 65535: unknown),
//!  entries, FF
//!
//!  entry = length of the previous entry (1 byte, or FE and u32 LE), head, data
//!
//!  00xxxxxx, 01xxxxxx x, 10?????? u32 BE     text
//!  C0, D0, E0, F0, FE                        16, 32, 64, 24, 8-bit signed integers, LE
//!  F1 to FD                                  the integers 0 to 12
//! ```

use crate::rdb::Fault;
use weft_types::packed::Value;

const BROKEN: Fault = Fault::Corrupt("a broken ziplist");
const HEAD: usize = 10;

/// Validates each entry, then passes it to `seen`.
pub fn each<'a>(
    bytes: &'a [u8],
    seen: &mut dyn FnMut(Value<'a>) -> Result<(), Fault>,
) -> Result<(), Fault> {
    let (Some(head), [.., 0xff]) = (bytes.first_chunk::<HEAD>(), bytes) else {
        return Err(BROKEN);
    };
    let [a, b, c, d, e, f, g, h, low, high] = *head;
    let len = u32::from_le_bytes([a, b, c, d]) as usize;
    let tail = u32::from_le_bytes([e, f, g, h]) as usize;
    let claimed = u16::from_le_bytes([low, high]);
    if len != bytes.len() || len <= HEAD {
        return Err(BROKEN);
    }
    let end = len - 1;
    // Start of the current entry and of the previous one.
    let (mut at, mut last, mut count) = (HEAD, HEAD, 0usize);
    while at < end {
        let (before, from) = before(&bytes[at..end]).ok_or(BROKEN)?;
        let (value, taken) = entry(&bytes[at + from..end]).ok_or(BROKEN)?;
        if before != at - last {
            return Err(BROKEN);
        }
        last = at;
        at += from + taken;
        count += 1;
        seen(value)?;
    }
    let counted = claimed == u16::MAX || usize::from(claimed) == count;
    match counted && tail == last {
        true => Ok(()),
        false => Err(BROKEN),
    }
}

/// Decodes the length of the previous entry. Returns it and its size in bytes.
fn before(bytes: &[u8]) -> Option<(usize, usize)> {
    match bytes {
        [0xfe, rest @ ..] => Some((u32::from_le_bytes(*rest.first_chunk()?) as usize, 5)),
        [0xff, ..] | [] => None,
        [short, ..] => Some((usize::from(*short), 1)),
    }
}

/// Decodes the first value. Returns it and its size in bytes.
fn entry(bytes: &[u8]) -> Option<(Value<'_>, usize)> {
    let (head, data) = bytes.split_first()?;
    let text = |from: usize, len: usize| {
        let text = data.get(from..)?.get(..len)?;
        Some((Value::Bytes(text), 1 + from + len))
    };
    let int = |n: i64, bytes: usize| Some((Value::Int(n), 1 + bytes));
    match head {
        0x00..=0x3f => text(0, usize::from(*head)),
        0x40..=0x7f => text(1, usize::from(head & 0x3f) << 8 | usize::from(*data.first()?)),
        0x80..=0xbf => text(4, u32::from_be_bytes(*data.first_chunk()?) as usize),
        0xc0 => int(i64::from(i16::from_le_bytes(*data.first_chunk()?)), 2),
        0xd0 => int(i64::from(i32::from_le_bytes(*data.first_chunk()?)), 4),
        0xe0 => int(i64::from_le_bytes(*data.first_chunk()?), 8),
        0xf0 => {
            let [a, b, c] = *data.first_chunk()?;
            int(i64::from(i32::from_le_bytes([0, a, b, c]) >> 8), 3)
        }
        0xf1..=0xfd => int(i64::from(head & 0x0f) - 1, 0),
        0xfe => int(i64::from(i8::from_le_bytes(*data.first_chunk()?)), 1),
        _ => None,
    }
}

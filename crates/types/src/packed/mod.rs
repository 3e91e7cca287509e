//! Small collections and the chunks of large lists: contiguous entries in one piece of memory.
//!
//! ```text
//!  entry = head, data, in one of the two forms: length of the two read backwards
//!
//!  head        data                        holds
//!  0xxxxxxx    -                           integer 0..=127
//!  10xxxxxx    x bytes                     text of x bytes, up to 63
//!  110xxxxx    1 byte                      13-bit signed integer
//!  1110xxxx    1 byte, then text           text of up to 4095 bytes
//!  11110000    4 bytes LE, then text       text
//!  1111 0001 / 0010 / 0011 / 0100          16, 24, 32, 64-bit signed integers, LE
//! ```
//!
//! With backward lengths ([`TwoWay`]) this is the encoding of *listpack* entries in RDB files
//! (<https://github.com/antirez/listpack>), without the frame (length, count and end mark), which
//! the owner of the bytes knows. Hashes, sets, sorted sets and the shortest lists don't need
//! backward lengths, which are a tenth of the memory, so they omit them ([`OneWay`]). Heads and
//! data are the same in both forms: saving a small collection copies its bytes and adds the
//! backward lengths, and loading removes them, in one pass each ([`Entries::in_form`]).
//! `docs/design/packed-entries.md` says which collection uses which form, and why.
//!
//! Each text has exactly one encoding, the shortest, so two entries are equal if their bytes are:
//! [`Entries::find`] compares without decoding. Offsets are not checked by types: an offset that is
//! not at the beginning of an entry gives wrong values or a panic, never undefined behaviour. Bytes
//! from outside (RDB, RESTORE) go through `check` first.

mod check;
mod collect;
mod encode;
mod entries;
mod form;
pub(crate) mod record;
mod room;
#[cfg(test)]
mod tests;

pub use check::check;
pub use collect::Collected;
pub use encode::{Encoded, write_all};
pub use entries::{Entries, Iter};
pub use form::{Form, OneWay, TwoWay, back_len};
pub use record::COUNT_MAX;
pub use room::{EntryBuffer, replace};

use crate::string::{Digits, canonical_int};

/// The content of an entry: a text, or an integer that stands for its decimal form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value<'a> {
    Bytes(&'a [u8]),
    Int(i64),
}

impl<'a> Value<'a> {
    /// The text; an integer is formatted into `room`.
    #[inline]
    pub fn bytes<'b>(self, room: &'b mut Digits) -> &'b [u8]
    where
        'a: 'b,
    {
        match self {
            Value::Bytes(b) => b,
            Value::Int(n) => room.format(n).as_bytes(),
        }
    }

    /// Length of the text in bytes.
    pub fn len(self) -> usize {
        match self {
            Value::Bytes(b) => b.len(),
            Value::Int(n) => Digits::new().format(n).len(),
        }
    }

    pub fn is_empty(self) -> bool {
        self.len() == 0
    }

    /// The integer that the text represents, if the text is its canonical decimal form.
    pub fn int(self) -> Option<i64> {
        match self {
            Value::Bytes(b) => canonical_int(b),
            Value::Int(n) => Some(n),
        }
    }

    /// A copy of the text.
    pub fn to_vec(self) -> Vec<u8> {
        self.bytes(&mut Digits::new()).to_vec()
    }
}

/// Length of head and data of the entry at the beginning of `bytes`. `None` if it is truncated.
#[inline]
fn front_len(bytes: &[u8]) -> Option<usize> {
    let head = *bytes.first()?;
    Some(match head {
        0x00..=0x7f => 1,
        0x80..=0xbf => 1 + usize::from(head & 0x3f),
        0xc0..=0xdf => 2,
        0xe0..=0xef => 2 + (usize::from(head & 0x0f) << 8 | usize::from(*bytes.get(1)?)),
        0xf0 => {
            let len: [u8; 4] = bytes.get(1..5)?.try_into().ok()?;
            5 + u32::from_le_bytes(len) as usize
        }
        0xf1 => 3,
        0xf2 => 4,
        0xf3 => 5,
        0xf4 => 9,
        0xf5..=0xff => return None,
    })
}

/// The entry at `at`, of either form.
#[inline]
fn get(bytes: &[u8], at: usize) -> Value<'_> {
    let entry = &bytes[at..];
    let head = entry[0];
    let data = &entry[1..];
    match head {
        0x00..=0x7f => Value::Int(i64::from(head)),
        0x80..=0xbf => Value::Bytes(&data[..usize::from(head & 0x3f)]),
        0xc0..=0xdf => {
            let n = i64::from(head & 0x1f) << 8 | i64::from(data[0]);
            Value::Int(if n >= 1 << 12 { n - (1 << 13) } else { n })
        }
        0xe0..=0xef => {
            let len = usize::from(head & 0x0f) << 8 | usize::from(data[0]);
            Value::Bytes(&data[1..1 + len])
        }
        0xf0 => {
            let len = u32::from_le_bytes([data[0], data[1], data[2], data[3]]) as usize;
            Value::Bytes(&data[4..4 + len])
        }
        0xf1 => Value::Int(signed::<2>(data)),
        0xf2 => Value::Int(signed::<3>(data)),
        0xf3 => Value::Int(signed::<4>(data)),
        0xf4 => Value::Int(signed::<8>(data)),
        0xf5..=0xff => unreachable!("no entry starts with {head:#x}"),
    }
}

/// A little-endian two's complement integer of `N` bytes.
fn signed<const N: usize>(data: &[u8]) -> i64 {
    let mut wide = [0u8; 8];
    wide[8 - N..].copy_from_slice(&data[..N]);
    i64::from_le_bytes(wide) >> (64 - 8 * N)
}

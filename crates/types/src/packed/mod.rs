//! Small collections and the chunks of large lists: entries one behind the other in one piece
//! of memory.
//!
//! ```text
//!  entry = head, data, length of the two read backwards
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
//! This is the encoding that the entries of a *listpack* have in RDB files
//! (<https://github.com/antirez/listpack>), on purpose: a small collection is saved and loaded by
//! copying its bytes. The frame of a listpack (its length, count and end mark) is left out here,
//! the owner of the bytes knows those.
//!
//! Every text has exactly one encoding, the shortest, so entries are equal when their bytes are:
//! [`find`] compares without decoding. Reading is by offset and unchecked by types: an offset that
//! is not at the start of an entry gives nonsense or a panic, never undefined behaviour. Bytes
//! that come from outside (RDB, RESTORE) go through [`check`] first.

mod encode;
pub(crate) mod record;
mod room;

pub use encode::{Encoded, encoded_len, write_all};
pub use record::COUNT_MAX;
pub use room::{Room, insert, remove, replace};

use crate::string::{Digits, canonical_int};

/// What an entry holds: a text, or one that is the decimal form of an integer.
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

    /// The integer of which the text is the canonical decimal form.
    pub fn int(self) -> Option<i64> {
        match self {
            Value::Bytes(b) => canonical_int(b),
            Value::Int(n) => Some(n),
        }
    }

    /// The text as bytes of its own.
    pub fn to_vec(self) -> Vec<u8> {
        self.bytes(&mut Digits::new()).to_vec()
    }
}

/// Length of head and data of the entry at the front of `bytes`. `None` when cut off.
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

/// How many bytes the backward length of an entry of `front` bytes takes.
#[inline]
fn back_len(front: usize) -> usize {
    match front {
        0..=0x7f => 1,
        0x80..=0x3fff => 2,
        0x4000..=0x1f_ffff => 3,
        0x20_0000..=0xfff_ffff => 4,
        _ => 5,
    }
}

/// The offset behind the entry at `at`.
#[inline]
#[must_use]
pub fn after(bytes: &[u8], at: usize) -> usize {
    let front = front_len(&bytes[at..]).expect("an entry starts here");
    at + front + back_len(front)
}

/// The offset of the entry that ends at `end`, which must not be 0.
#[inline]
#[must_use]
pub fn before(bytes: &[u8], end: usize) -> usize {
    // The length is written in groups of 7 bits, the lowest last; bit 7 says that another group
    // stands before it.
    let mut front = 0;
    let mut shift = 0;
    let mut at = end;
    loop {
        at -= 1;
        let group = bytes[at];
        front |= usize::from(group & 0x7f) << shift;
        if group & 0x80 == 0 {
            return at - front;
        }
        shift += 7;
    }
}

/// The entry at `at`.
#[inline]
#[must_use]
pub fn get(bytes: &[u8], at: usize) -> Value<'_> {
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

/// The entries from one offset to another, from either end.
#[derive(Clone, Debug)]
pub struct Iter<'a> {
    bytes: &'a [u8],
    at: usize,
    end: usize,
}

/// All entries of `bytes`, with their offsets.
#[inline]
#[must_use]
pub fn iter(bytes: &[u8]) -> Iter<'_> {
    Iter { bytes, at: 0, end: bytes.len() }
}

impl<'a> Iterator for Iter<'a> {
    /// Offset and value.
    type Item = (usize, Value<'a>);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.at == self.end {
            return None;
        }
        let at = self.at;
        // Short entries, which most are, are decoded and passed over at once.
        let head = self.bytes[at];
        if head & 0x80 == 0 {
            self.at = at + 2;
            return Some((at, Value::Int(i64::from(head))));
        }
        if head & 0x40 == 0 {
            let end = at + 1 + usize::from(head & 0x3f);
            self.at = end + 1;
            return Some((at, Value::Bytes(&self.bytes[at + 1..end])));
        }
        self.at = after(self.bytes, at);
        Some((at, get(self.bytes, at)))
    }
}

impl DoubleEndedIterator for Iter<'_> {
    #[inline]
    fn next_back(&mut self) -> Option<Self::Item> {
        if self.at == self.end {
            return None;
        }
        self.end = before(self.bytes, self.end);
        Some((self.end, get(self.bytes, self.end)))
    }
}

/// The offset of the `n`-th entry (from 0), `None` when there are not so many. O(n).
#[must_use]
pub fn nth(bytes: &[u8], n: usize) -> Option<usize> {
    iter(bytes).nth(n).map(|(at, _)| at)
}

/// The offset of the `n`-th entry from the end (0 is the last). O(n).
#[must_use]
pub fn nth_back(bytes: &[u8], n: usize) -> Option<usize> {
    iter(bytes).rev().nth(n).map(|(at, _)| at)
}

/// The offset of the `n`-th of `count` entries, looked for from the nearer end; the end of `bytes`
/// for `n == count`. O(distance).
#[must_use]
pub fn offset_of(bytes: &[u8], count: usize, n: usize) -> usize {
    if n <= count / 2 {
        (0..n).fold(0, |at, _| after(bytes, at))
    } else {
        (n..count).fold(bytes.len(), |at, _| before(bytes, at))
    }
}

/// The offset behind the entry that has `back` entries behind it, of `count`.
#[must_use]
pub fn end_before(bytes: &[u8], count: usize, back: usize) -> usize {
    offset_of(bytes, count, count - back)
}

/// The entries from the `n`-th of `count` on; none if there are not so many.
#[must_use]
pub fn iter_after(bytes: &[u8], count: usize, n: usize) -> Iter<'_> {
    let at = offset_of(bytes, count, n.min(count));
    Iter { bytes, at, end: bytes.len() }
}

/// The offset of the first entry that equals `text`, of every `step`-th entry, the first one
/// included. O(n), a comparison of lengths for most entries.
#[inline]
#[must_use]
pub fn find(bytes: &[u8], text: &[u8], step: usize) -> Option<usize> {
    find_encoded(bytes, &Encoded::of(text), step)
}

/// As [`find`], for a text that is encoded already.
#[inline]
#[must_use]
pub fn find_encoded(bytes: &[u8], wanted: &Encoded<'_>, step: usize) -> Option<usize> {
    let mut at = 0;
    while at < bytes.len() {
        if wanted.is_at(bytes, at) {
            return Some(at);
        }
        for _ in 0..step {
            if at == bytes.len() {
                return None;
            }
            at = after_short(bytes, at);
        }
    }
    None
}

/// As [`after`], with a shorter way for the entries that most collections consist of.
#[inline]
pub(crate) fn after_short(bytes: &[u8], at: usize) -> usize {
    match bytes[at] {
        0x00..=0x7f => at + 2,
        head @ 0x80..=0xbf => at + 2 + usize::from(head & 0x3f),
        0xc0.. => after(bytes, at),
    }
}

/// How many entries `bytes` has, when it consists of well-formed entries in their shortest
/// encoding: the test for what comes from outside.
#[must_use]
pub fn check(bytes: &[u8]) -> Option<usize> {
    let mut at = 0;
    let mut n = 0;
    while at < bytes.len() {
        let front = front_len(&bytes[at..])?;
        let end = at.checked_add(front)?.checked_add(back_len(front))?;
        if end > bytes.len() || before_checked(bytes, end)? != at {
            return None;
        }
        let value = get(bytes, at);
        let mut room = Digits::new();
        let again = Encoded::of(value.bytes(&mut room));
        if !again.is_at(bytes, at) {
            return None;
        }
        at = end;
        n += 1;
    }
    Some(n)
}

/// [`before`] for bytes that may not be entries.
fn before_checked(bytes: &[u8], end: usize) -> Option<usize> {
    let mut front = 0usize;
    for (n, at) in (0..end).rev().enumerate().take(5) {
        front |= usize::from(bytes[at] & 0x7f) << (7 * n);
        if bytes[at] & 0x80 == 0 {
            return (back_len(front) == n + 1).then(|| at.checked_sub(front)).flatten();
        }
    }
    None
}

#[cfg(test)]
mod tests;

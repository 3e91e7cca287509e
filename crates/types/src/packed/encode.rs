//! Writes entries: chooses the encoding of a text and produces its bytes.

use super::form::{Form, back_len, write_back};
use crate::string::canonical_int;

/// A text with its encoding as an entry.
#[derive(Clone, Copy, Debug)]
pub struct Encoded<'a> {
    /// The head and all bytes before the text: for an integer, the whole entry.
    head: [u8; 9],
    head_len: u8,
    text: &'a [u8],
}

impl<'a> Encoded<'a> {
    /// The shortest encoding of `text`.
    ///
    /// # Panics
    ///
    /// If the text has 4 GiB or more. No request can hold one.
    #[inline]
    #[must_use]
    pub fn of(text: &'a [u8]) -> Self {
        // No canonical integer is longer.
        if text.len() <= 20
            && let Some(n) = canonical_int(text)
        {
            return Encoded::of_int(n);
        }
        let mut head = [0; 9];
        let head_len = match text.len() {
            len @ 0..=63 => {
                head[0] = 0x80 | len as u8;
                1
            }
            len @ 64..=4095 => {
                head[0] = 0xe0 | (len >> 8) as u8;
                head[1] = len as u8;
                2
            }
            len => {
                let len = u32::try_from(len).expect("a text of less than 4 GiB");
                head[0] = 0xf0;
                head[1..5].copy_from_slice(&len.to_le_bytes());
                5
            }
        };
        Encoded { head, head_len, text }
    }

    /// The encoding of the decimal form of `n`.
    #[must_use]
    pub fn of_int(n: i64) -> Self {
        let mut head = [0; 9];
        let le = n.to_le_bytes();
        let mut wide = |mark, bytes: usize| {
            head[0] = mark;
            head[1..=bytes].copy_from_slice(&le[..bytes]);
            1 + bytes as u8
        };
        let head_len = match n {
            0..=127 => {
                head[0] = n as u8;
                1
            }
            -4096..=4095 => {
                let bits = (n & 0x1fff) as u16;
                head[0] = 0xc0 | (bits >> 8) as u8;
                head[1] = bits as u8;
                2
            }
            -0x8000..=0x7fff => wide(0xf1, 2),
            -0x80_0000..=0x7f_ffff => wide(0xf2, 3),
            -0x8000_0000..=0x7fff_ffff => wide(0xf3, 4),
            _ => wide(0xf4, 8),
        };
        Encoded { head, head_len, text: &[] }
    }

    #[inline]
    fn head(&self) -> &[u8] {
        &self.head[..usize::from(self.head_len)]
    }

    #[inline]
    fn front(&self) -> usize {
        usize::from(self.head_len) + self.text.len()
    }

    /// Bytes of the whole entry in the form `F`.
    #[inline]
    #[must_use]
    #[allow(clippy::len_without_is_empty, reason = "an entry is never empty")]
    pub fn len<F: Form>(&self) -> usize {
        self.front() + back_len::<F>(self.front())
    }

    /// Whether the entry at `at` of `bytes` is this one.
    #[inline]
    pub(super) fn is_at(&self, bytes: &[u8], at: usize) -> bool {
        // The first byte differs for most entries. The head includes the length, so entries with
        // the same head and text are equal.
        if bytes[at] != self.head[0] {
            return false;
        }
        let text = at + usize::from(self.head_len);
        (self.head_len == 1 || bytes[at..].starts_with(self.head()))
            && bytes.get(text..text + self.text.len()).is_some_and(|own| same(own, self.text))
    }

    /// The entry in the form `F`.
    #[must_use]
    pub fn to_vec<F: Form>(&self) -> Vec<u8> {
        let front = self.front();
        let mut entry = Vec::with_capacity(self.len::<F>());
        entry.extend_from_slice(self.head());
        entry.extend_from_slice(self.text);
        entry.resize(self.len::<F>(), 0);
        write_back(front, &mut entry[front..]);
        entry
    }

    /// Appends the entry, without a backward length.
    #[inline]
    pub fn append(&self, to: &mut Vec<u8>) {
        to.extend_from_slice(self.head());
        to.extend_from_slice(self.text);
    }

    /// Writes the entry in the form `F` at the beginning of `to`. Returns the rest of `to`.
    pub fn write<'t, F: Form>(&self, to: &'t mut [u8]) -> &'t mut [u8] {
        let front = self.front();
        let (entry, rest) = to.split_at_mut(self.len::<F>());
        let (head, after) = entry.split_at_mut(usize::from(self.head_len));
        head.copy_from_slice(self.head());
        let (text, back) = after.split_at_mut(self.text.len());
        text.copy_from_slice(self.text);
        write_back(front, back);
        rest
    }
}

/// Writes entries of the form `F` one after the other.
///
/// # Panics
///
/// If `to` is too short for them.
pub fn write_all<'t, F: Form>(entries: &[Encoded<'_>], mut to: &'t mut [u8]) -> &'t mut [u8] {
    for entry in entries {
        to = entry.write::<F>(to);
    }
    to
}

/// Whether two texts of the same length are equal. Texts of one collection often have a common
/// prefix, so the ends are compared first.
#[inline]
fn same(a: &[u8], b: &[u8]) -> bool {
    match (a.last_chunk::<8>(), b.last_chunk::<8>()) {
        (Some(x), Some(y)) => x == y && a[..a.len() - 8] == b[..b.len() - 8],
        _ => match (a.last_chunk::<4>(), b.last_chunk::<4>()) {
            (Some(x), Some(y)) => x == y && a.first_chunk::<4>() == b.first_chunk::<4>(),
            _ => a.iter().eq(b),
        },
    }
}

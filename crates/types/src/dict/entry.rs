//! One entry as bytes.
//!
//! ```text
//!  near:  head | key length | value length | expiry | key | value
//!  far:   head | index (u32 LE) of a separate block with the near form
//!
//!  head   bits 0..=4  key length up to 30; 31: the rest of it follows as a varint
//!         bit  5      a value follows, its length is a varint; else the value is empty
//!         bit  6      an expiry follows, 8 bytes LE
//!         bit  7      far
//! ```
//!
//! Varints are LEB128. A short member of a set takes one byte more than the member; a field with
//! its value two. An entry knows its length, so entries are stored without gaps.

/// Key, value and expiry, stored or to be stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry<'a> {
    pub key: &'a [u8],
    /// Empty in a set.
    pub value: &'a [u8],
    /// Usually Unix milliseconds; this structure only stores it.
    pub expiry: Option<i64>,
}

const KEY: u8 = 0x1f;
const VALUE: u8 = 0x20;
const EXPIRY: u8 = 0x40;
const FAR: u8 = 0x80;

/// Bytes of a far entry.
pub(super) const FAR_LEN: usize = 5;

fn varint_len(n: usize) -> usize {
    (n | 1).ilog2() as usize / 7 + 1
}

/// Writes `n` at the beginning of `to`. Returns the number of bytes written.
fn put_varint(mut n: usize, to: &mut [u8]) -> usize {
    let mut at = 0;
    while n >= 0x80 {
        to[at] = n as u8 | 0x80;
        n >>= 7;
        at += 1;
    }
    to[at] = n as u8;
    at + 1
}

/// The varint at `at`, and the offset after it.
#[inline]
fn varint(bytes: &[u8], mut at: usize) -> (usize, usize) {
    let mut n = 0;
    let mut shift = 0;
    loop {
        let byte = bytes[at];
        n |= usize::from(byte & 0x7f) << shift;
        at += 1;
        if byte & 0x80 == 0 {
            return (n, at);
        }
        shift += 7;
    }
}

/// The offsets of the parts of a near entry.
struct Parts {
    /// Of the expiry, if there is one.
    expiry: usize,
    key: usize,
    value: usize,
    end: usize,
}

impl Parts {
    #[inline]
    fn of(bytes: &[u8]) -> Parts {
        let head = bytes[0];
        let mut at = 1;
        let mut key_len = usize::from(head & KEY);
        if key_len == usize::from(KEY) {
            let (more, end) = varint(bytes, at);
            key_len += more;
            at = end;
        }
        let mut value_len = 0;
        if head & VALUE != 0 {
            (value_len, at) = varint(bytes, at);
        }
        let expiry = at;
        let key = if head & EXPIRY == 0 { at } else { at + 8 };
        let value = key + key_len;
        Parts { expiry, key, value, end: value + value_len }
    }
}

/// The near entry at the beginning of `bytes`.
#[inline]
pub(super) fn read(bytes: &[u8]) -> Entry<'_> {
    let parts = Parts::of(bytes);
    let expiry = (bytes[0] & EXPIRY != 0).then(|| {
        let field = bytes[parts.expiry..parts.key].try_into().expect("eight bytes");
        i64::from_le_bytes(field)
    });
    Entry { key: &bytes[parts.key..parts.value], value: &bytes[parts.value..parts.end], expiry }
}

/// Bytes of the entry, near or far, at the beginning of `bytes`.
#[inline]
pub(super) fn stored_len(bytes: &[u8]) -> usize {
    if bytes[0] & FAR != 0 { FAR_LEN } else { Parts::of(bytes).end }
}

/// Whether the near entry at the beginning of `bytes` has this key.
#[inline]
pub(super) fn has_key(bytes: &[u8], key: &[u8]) -> bool {
    // Most comparisons find a short key, and the head alone contains its length.
    let short = usize::from(bytes[0] & KEY);
    if short != usize::from(KEY) && short != key.len() {
        return false;
    }
    let parts = Parts::of(bytes);
    bytes[parts.key..parts.value] == *key
}

/// The index of the block, if the entry at the beginning of `bytes` is far.
#[inline]
pub(super) fn far_index(bytes: &[u8]) -> Option<usize> {
    (bytes[0] & FAR != 0).then(|| {
        let index = bytes[1..FAR_LEN].try_into().expect("four bytes");
        u32::from_le_bytes(index) as usize
    })
}

/// Writes a far entry.
pub(super) fn write_far(index: usize, to: &mut [u8]) {
    let index = u32::try_from(index).expect("a segment has few entries");
    to[0] = FAR;
    to[1..FAR_LEN].copy_from_slice(&index.to_le_bytes());
}

/// Overwrites the expiry of a near entry that has one. Returns whether it has.
pub(super) fn patch_expiry(bytes: &mut [u8], expiry: i64) -> bool {
    let has = bytes[0] & EXPIRY != 0;
    if has {
        let parts = Parts::of(bytes);
        bytes[parts.expiry..parts.key].copy_from_slice(&expiry.to_le_bytes());
    }
    has
}

impl Entry<'_> {
    /// Bytes of the near form.
    #[inline]
    pub(super) fn near_len(&self) -> usize {
        let mut len = 1 + self.key.len() + self.value.len();
        if self.key.len() >= usize::from(KEY) {
            len += varint_len(self.key.len() - usize::from(KEY));
        }
        if !self.value.is_empty() {
            len += varint_len(self.value.len());
        }
        if self.expiry.is_some() {
            len += 8;
        }
        len
    }

    /// Writes the near form into `to`, which must have exactly its length.
    #[inline]
    pub(super) fn write(&self, to: &mut [u8]) {
        let mut head = 0;
        let mut at = 1;
        if self.key.len() < usize::from(KEY) {
            head |= self.key.len() as u8;
        } else {
            head |= KEY;
            at += put_varint(self.key.len() - usize::from(KEY), &mut to[at..]);
        }
        if !self.value.is_empty() {
            head |= VALUE;
            at += put_varint(self.value.len(), &mut to[at..]);
        }
        if let Some(expiry) = self.expiry {
            head |= EXPIRY;
            to[at..at + 8].copy_from_slice(&expiry.to_le_bytes());
            at += 8;
        }
        to[0] = head;
        let (key, value) = to[at..].split_at_mut(self.key.len());
        key.copy_from_slice(self.key);
        value.copy_from_slice(self.value);
    }

    /// The near form in a separate block.
    pub(super) fn to_block(self) -> Box<[u8]> {
        let mut block = vec![0; self.near_len()].into_boxed_slice();
        self.write(&mut block);
        block
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_round_trip_around_every_length_limit() {
        for key_len in [0, 1, 30, 31, 32, 157, 158, 159, 16_414, 16_415, 70_000] {
            for value_len in [0, 1, 127, 128, 16_383, 16_384, 70_000] {
                for expiry in [None, Some(0), Some(-1), Some(i64::MAX)] {
                    let (key, value) = (vec![b'k'; key_len], vec![b'v'; value_len]);
                    let entry = Entry { key: &key, value: &value, expiry };
                    let mut block = entry.to_block().into_vec();
                    assert_eq!(block.len(), entry.near_len());
                    block.push(0xff);
                    assert_eq!(read(&block), entry);
                    assert_eq!(stored_len(&block), entry.near_len());
                    assert!(has_key(&block, &key));
                    assert!(!has_key(&block, &[&key[..], b"k"].concat()));
                    assert_eq!(patch_expiry(&mut block, 77), expiry.is_some());
                    assert_eq!(read(&block).expiry, expiry.map(|_| 77));
                }
            }
        }
    }

    #[test]
    fn far_entry_stores_an_index() {
        let mut bytes = [0; FAR_LEN + 1];
        write_far(70_000, &mut bytes);
        assert_eq!((stored_len(&bytes), far_index(&bytes)), (FAR_LEN, Some(70_000)));
        assert_eq!(far_index(&Entry { key: b"k", value: b"", expiry: None }.to_block()), None);
    }
}

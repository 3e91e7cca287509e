//! Small sets of integers: sorted, all of one width, found by binary search.
//!
//! ```text
//!  payload = width in bytes (2, 4 or 8), integers (LE) in ascending order
//! ```
//!
//! The width is that of the widest integer ever added. Adding a wider one first widens all others.
//! A member of a set of small numbers takes two bytes.

use crate::{Kind, Record};
use std::cmp::Ordering;

/// Bytes before the integers.
const HEAD: usize = 1;

/// The bytes that `n` needs.
fn width_for(n: i64) -> usize {
    if i16::try_from(n).is_ok() {
        2
    } else if i32::try_from(n).is_ok() {
        4
    } else {
        8
    }
}

fn read(bytes: &[u8]) -> i64 {
    match *bytes {
        [a, b] => i64::from(i16::from_le_bytes([a, b])),
        [a, b, c, d] => i64::from(i32::from_le_bytes([a, b, c, d])),
        [a, b, c, d, e, f, g, h] => i64::from_le_bytes([a, b, c, d, e, f, g, h]),
        [..] => unreachable!("no integer has {} bytes", bytes.len()),
    }
}

fn write(n: i64, to: &mut [u8]) {
    let width = to.len();
    to.copy_from_slice(&n.to_le_bytes()[..width]);
}

/// The integers of a payload.
#[derive(Clone, Copy, Debug)]
pub struct Ints<'a> {
    width: usize,
    bytes: &'a [u8],
}

impl<'a> Ints<'a> {
    pub(super) fn of(payload: &'a [u8]) -> Self {
        Ints { width: usize::from(payload[0]), bytes: &payload[HEAD..] }
    }

    #[must_use]
    pub fn len(self) -> usize {
        self.bytes.len() / self.width
    }

    #[must_use]
    pub fn is_empty(self) -> bool {
        self.bytes.is_empty()
    }

    /// The `i`-th integer in ascending order. O(1).
    #[inline]
    #[must_use]
    pub fn get(self, i: usize) -> i64 {
        read(&self.bytes[i * self.width..(i + 1) * self.width])
    }

    /// Bytes of each integer: 2, 4 or 8.
    #[must_use]
    pub fn width(self) -> usize {
        self.width
    }

    /// All integers as stored: of one width, little-endian, in ascending order.
    #[must_use]
    pub fn bytes(self) -> &'a [u8] {
        self.bytes
    }

    /// All, in ascending order.
    pub fn iter(self) -> impl DoubleEndedIterator<Item = i64> + ExactSizeIterator + 'a {
        self.bytes.chunks_exact(self.width).map(read)
    }

    /// The index of `n`, or where it would be inserted. O(log n).
    #[inline]
    pub(super) fn search(self, n: i64) -> Result<usize, usize> {
        let (mut low, mut high) = (0, self.len());
        // Fast path: sets are often filled in ascending order.
        if high > 0 && self.get(high - 1) < n {
            return Err(high);
        }
        while low < high {
            let middle = low.midpoint(high);
            match self.get(middle).cmp(&n) {
                Ordering::Less => low = middle + 1,
                Ordering::Greater => high = middle,
                Ordering::Equal => return Ok(middle),
            }
        }
        Err(low)
    }

    /// O(log n).
    #[inline]
    #[must_use]
    pub fn contains(self, n: i64) -> bool {
        self.search(n).is_ok()
    }
}

/// A record of `key` with these integers, which must be in ascending order.
pub(super) fn record(key: &[u8], ints: &[i64], expiry: Option<i64>, clock: u32) -> Record {
    let ends = [ints.first(), ints.last()];
    let width = ends.into_iter().flatten().map(|n| width_for(*n)).max().unwrap_or(2);
    let len = HEAD + ints.len() * width;
    Record::new(key, expiry, Kind::SetInts as u8, clock, len, |payload| {
        payload[0] = width as u8;
        for (n, to) in ints.iter().zip(payload[HEAD..].chunks_exact_mut(width)) {
            write(*n, to);
        }
    })
}

/// Adds `n`. Returns whether it is new. O(n).
pub(super) fn add(mut record: Record, n: i64) -> (Record, bool) {
    if usize::from(record.payload()[0]) < width_for(n) {
        record = widen(record, width_for(n));
    }
    let ints = Ints::of(record.payload());
    let width = ints.width;
    let Err(at) = ints.search(n) else {
        return (record, false);
    };
    let len = record.payload().len();
    let at = HEAD + at * width;
    record = record.resize_payload(len + width);
    let payload = record.payload_mut();
    payload.copy_within(at..len, at + width);
    write(n, &mut payload[at..at + width]);
    (record, true)
}

/// Widens every integer to `width` bytes, which must be more than before.
fn widen(mut record: Record, width: usize) -> Record {
    let ints = Ints::of(record.payload());
    let (count, narrow) = (ints.len(), ints.width);
    record = record.resize_payload(HEAD + count * width);
    let payload = record.payload_mut();
    payload[0] = width as u8;
    // From the last one on, so that none is overwritten before it has moved.
    for i in (0..count).rev() {
        let n = read(&payload[HEAD + i * narrow..HEAD + (i + 1) * narrow]);
        write(n, &mut payload[HEAD + i * width..HEAD + (i + 1) * width]);
    }
    record
}

/// Removes the integer at `at`. O(n).
pub(super) fn remove_at(mut record: Record, at: usize) -> Record {
    let width = usize::from(record.payload()[0]);
    let len = record.payload().len();
    let from = HEAD + at * width;
    record.payload_mut().copy_within(from + width..len, from);
    record.resize_payload(len - width)
}

/// Removes the integers for which `keep` returns false. Calls `keep` for each in ascending order.
/// O(n).
pub(super) fn retain(mut record: Record, mut keep: impl FnMut(i64) -> bool) -> Record {
    let width = usize::from(record.payload()[0]);
    let len = record.payload().len();
    let payload = record.payload_mut();
    let mut end = HEAD;
    for at in (HEAD..len).step_by(width) {
        if keep(read(&payload[at..at + width])) {
            payload.copy_within(at..at + width, end);
            end += width;
        }
    }
    record.resize_payload(end)
}

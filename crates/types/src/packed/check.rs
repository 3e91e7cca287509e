//! Validates entries from outside.

use super::form::{TwoWay, back_len};
use super::{Encoded, front_len, get};
use crate::string::Digits;

/// The number of entries in `bytes`, or `None` unless all are well-formed entries with backward
/// lengths in their shortest encoding: those of a listpack in an RDB file.
#[must_use]
pub fn check(bytes: &[u8]) -> Option<usize> {
    let mut at = 0;
    let mut n = 0;
    while at < bytes.len() {
        let front = front_len(&bytes[at..])?;
        let end = at.checked_add(front)?.checked_add(back_len::<TwoWay>(front))?;
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

/// Like [`before`](super::form::before), for bytes that may not be entries.
fn before_checked(bytes: &[u8], end: usize) -> Option<usize> {
    let mut front = 0usize;
    for (n, at) in (0..end).rev().enumerate().take(5) {
        front |= usize::from(bytes[at] & 0x7f) << (7 * n);
        if bytes[at] & 0x80 == 0 {
            return (back_len::<TwoWay>(front) == n + 1).then(|| at.checked_sub(front)).flatten();
        }
    }
    None
}

//! Changing packed entries where they are: in a record's payload, a vector, a list's chunk.

use super::{Encoded, after, write_all};

/// Memory that holds packed entries and can be cut and joined.
pub trait Room {
    /// The entries.
    fn bytes(&self) -> &[u8];

    /// Replaces `old` bytes at `at` by `new` bytes of any content, which are returned for the
    /// caller to write. What is before and behind stays. O(bytes behind) as a rule.
    fn splice(&mut self, at: usize, old: usize, new: usize) -> &mut [u8];
}

impl Room for Vec<u8> {
    fn bytes(&self) -> &[u8] {
        self
    }

    fn splice(&mut self, at: usize, old: usize, new: usize) -> &mut [u8] {
        let tail = self.len() - at - old;
        if new > old {
            self.resize(at + new + tail, 0);
        }
        let moved = at + old..at + old + tail;
        self.copy_within(moved.start..moved.end, at + new);
        self.truncate(at + new + tail);
        &mut self[at..at + new]
    }
}

/// Inserts entries before the offset `at`.
pub fn insert(room: &mut impl Room, at: usize, entries: &[Encoded<'_>]) {
    let len = entries.iter().map(Encoded::len).sum();
    write_all(entries, room.splice(at, 0, len));
}

/// Puts `entries` in the place of the `count` entries from the offset `at` on.
pub fn replace(room: &mut impl Room, at: usize, count: usize, entries: &[Encoded<'_>]) {
    let end = (0..count).fold(at, |at, _| after(room.bytes(), at));
    let len = entries.iter().map(Encoded::len).sum();
    write_all(entries, room.splice(at, end - at, len));
}

/// Removes the `count` entries from the offset `at` on.
pub fn remove(room: &mut impl Room, at: usize, count: usize) {
    replace(room, at, count, &[]);
}

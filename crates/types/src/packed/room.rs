//! Changing packed entries where they are: in a record's payload, in a list's chunk.

use super::{Encoded, Entries, Form, write_all};

/// Memory that holds packed entries of one form and can be cut and joined.
pub trait Room {
    /// The form of the entries.
    type Form: Form;

    fn entries(&self) -> Entries<'_, Self::Form>;

    /// Replaces `old` bytes at `at` by `new` bytes of any content, which are returned for the
    /// caller to write. What is before and behind stays. O(bytes behind) as a rule.
    fn splice(&mut self, at: usize, old: usize, new: usize) -> &mut [u8];
}

/// Puts `new` in the place of the `count` entries from the offset `at` on.
pub fn replace<R: Room>(room: &mut R, at: usize, count: usize, new: &[Encoded<'_>]) {
    let entries = room.entries();
    let end = (0..count).fold(at, |at, _| entries.after(at));
    let len = new.iter().map(Encoded::len::<R::Form>).sum();
    write_all::<R::Form>(new, room.splice(at, end - at, len));
}

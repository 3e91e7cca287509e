//! Changes packed entries in place: in a record's payload or in a list's chunk.

use super::{Encoded, Entries, Form, write_all};

/// Memory that holds packed entries of one form and supports splicing.
pub trait EntryBuffer {
    /// The form of the entries.
    type Form: Form;

    fn entries(&self) -> Entries<'_, Self::Form>;

    /// Replaces `old` bytes at `at` by `new` bytes of unspecified content, and returns those for
    /// the caller to write. Bytes before and after keep their content. Usually O(bytes after).
    fn splice(&mut self, at: usize, old: usize, new: usize) -> &mut [u8];
}

/// Replaces the `count` entries from the offset `at` on with `new`.
pub fn replace<R: EntryBuffer>(room: &mut R, at: usize, count: usize, new: &[Encoded<'_>]) {
    let entries = room.entries();
    let end = (0..count).fold(at, |at, _| entries.after(at));
    let len = new.iter().map(Encoded::len::<R::Form>).sum();
    write_all::<R::Form>(new, room.splice(at, end - at, len));
}

//! A snapshot of a value, readable on any thread, while the value of its key keeps changing.
//!
//! Small values are copied. Large ones share their pieces with the record: blocks of hashes and
//! sets, chunks of lists, leaves of sorted sets, blocks of streams, and pages of pointers to them.
//! The first side that changes a shared piece copies it: see `docs/design/shared-values.md`, and
//! [`counted`](crate::counted) for the protocol.

use crate::packed::Value;
use crate::{Kind, Record, Type, counted, hash, list, set, stream, string, value, zset};
use std::ops::{ControlFlow, Deref};

/// A record with the key, expiry and value that another one had at one moment. It can be sent to
/// another thread and read there, element by element. It can't be changed or inserted into a table.
///
/// A large sorted set can only be walked, from either end. Looking up a member or a rank panics.
///
/// Dropping it frees the pieces that have no other holder, which may be all of them:
/// [`is_long_to_free`](crate::value::is_long_to_free) estimates the cost.
#[derive(Debug)]
pub struct Shared(Record);

impl Shared {
    /// Takes a snapshot of the value of `record`. O(1) for strings, O(bytes) for small collections,
    /// O(pages) for large ones, with one page for some 30,000 elements. For streams also O(groups).
    #[must_use]
    pub fn of(record: &Record) -> Shared {
        let (key, expiry, clock) = (record.key(), record.expiry(), record.clock());
        Shared(match Kind::of(record.kind()) {
            Kind::StrEmbedded | Kind::StrRaw | Kind::StrInt | Kind::StrBlob | Kind::StrPieces => {
                string::duplicate(record, key, expiry, clock)
            }
            Kind::ListPacked | Kind::ListTwoWay | Kind::ListChunks => {
                list::duplicate(record, key, expiry, clock)
            }
            Kind::SetInts | Kind::SetPacked | Kind::SetTable => {
                set::duplicate(record, key, expiry, clock)
            }
            Kind::ZsetPacked | Kind::ZsetTree => zset::share(record),
            Kind::HashPacked | Kind::HashTable => hash::share(record),
            Kind::Stream => stream::duplicate(record, key, expiry, clock),
        })
    }

    /// Passes the fields of a hash to `seen`, including expired ones, until `seen` breaks. Releases
    /// each page once it is passed, so a writer that changes it need not copy it for this snapshot.
    ///
    /// # Panics
    ///
    /// If the value is not a hash. The next two panic likewise.
    pub fn drain_fields<B>(
        mut self,
        seen: impl FnMut(hash::Pair<'_>) -> ControlFlow<B>,
    ) -> ControlFlow<B> {
        hash::pass(&mut self.0, seen)
    }

    /// Like [`Shared::drain_fields`], for the members of a set.
    pub fn drain_members<B>(
        mut self,
        seen: impl FnMut(Value<'_>) -> ControlFlow<B>,
    ) -> ControlFlow<B> {
        set::pass(&mut self.0, seen)
    }

    /// Like [`Shared::drain_fields`], for the nodes of a list.
    pub fn drain_nodes<B>(
        mut self,
        seen: impl FnMut(list::Node<'_>) -> ControlFlow<B>,
    ) -> ControlFlow<B> {
        list::pass(&mut self.0, seen)
    }

    /// Like [`Shared::drain_fields`], for the bytes of a string, in parts.
    pub fn drain_text<B>(mut self, seen: impl FnMut(&[u8]) -> ControlFlow<B>) -> ControlFlow<B> {
        string::pass(&mut self.0, seen)
    }

    /// Approximate work of [`Shared::of`] in steps of some ten nanoseconds, without copying the
    /// bytes of the record itself. O(1).
    #[must_use]
    pub fn work(record: &Record) -> usize {
        /// The usual least number of elements in a page.
        const PAGE: usize = 8 * 1024;
        match value::pieces(record, 1) {
            0 => 1,
            // The copied pieces (ends, or last page) and the pages.
            pieces => pieces.min(512) + value::elements(record) / PAGE,
        }
    }

    /// Approximate bytes that the snapshot takes in addition to the source record while that is
    /// unchanged. [`Shared::copied_bytes`] counts what later changes add. A string that is replaced
    /// as a whole counts as a whole. O(1).
    #[must_use]
    pub fn extra_memory(&self) -> usize {
        /// Estimated bytes for each end chunk or block and for each page.
        const EACH: usize = 40;
        match Kind::of(self.0.kind()).type_of() {
            Type::String => match string::is_shared_in_pieces(&self.0) {
                true => self.0.alloc_size() + string::clone_memory(&self.0),
                false => string::memory(&self.0),
            },
            Type::List | Type::Set | Type::Zset | Type::Hash | Type::Stream => {
                self.0.alloc_size() + Shared::work(&self.0) * EACH
            }
        }
    }

    /// Bytes of large values that writers copied because they were shared, since the process began.
    /// The increase since a snapshot bounds the memory that the snapshot costs. Freed copies are
    /// not subtracted.
    #[must_use]
    pub fn copied_bytes() -> u64 {
        counted::copied_bytes()
    }

    /// Counts the bytes of a string that its key no longer holds, if a snapshot does: from now on
    /// they are the snapshot's alone. Call it for each removed or replaced record. O(1).
    #[inline]
    pub fn note_removed(record: &Record) {
        if matches!(Kind::of(record.kind()), Kind::StrBlob | Kind::StrPieces) {
            string::note_removed(record);
        }
    }

    /// A record with the value of the snapshot, which can be changed. O(1), but O(elements) for a large
    /// sorted set.
    #[must_use]
    pub fn into_record(self) -> Record {
        match Kind::of(self.0.kind()) {
            Kind::ZsetTree => zset::restore(self.0),
            _ => self.0,
        }
    }

    /// The record, only for dropping it where that may take long.
    #[must_use]
    pub fn into_waste(self) -> Record {
        self.0
    }
}

impl Deref for Shared {
    type Target = Record;

    fn deref(&self) -> &Record {
        &self.0
    }
}

/// Other threads read and drop the objects that payloads point to.
const _: () = {
    const fn shareable<T: Send + Sync>() {}
    shareable::<list::Chunks>();
    shareable::<set::Table>();
    shareable::<hash::Table>();
    shareable::<zset::Tree>();
    shareable::<stream::Stream>();
    shareable::<string::Pieces>();
    shareable::<Shared>();
};

#[cfg(test)]
mod tests;

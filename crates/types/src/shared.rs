//! A value that is kept as it is, on any thread, while its key goes on changing.
//!
//! Small values are copied. Large ones share their pieces with the record: blocks of hashes and sets,
//! chunks of lists, leaves of sorted sets, blocks of streams, and pages of pointers to them. Who
//! changes such a piece first, copies it if somebody else holds it: see
//! `docs/design/shared-values.md`, and [`counted`](crate::counted) for how.

use crate::packed::Value;
use crate::{Kind, Record, Type, counted, hash, list, set, stream, string, value, zset};
use std::ops::{ControlFlow, Deref};

/// A record with the key, the expiry and the value that another one had at a moment. It can be sent
/// to another thread and be read there, element after element; it can't be changed, nor be put into
/// a table.
///
/// A large sorted set can be walked from either end, and nothing else: to look for one of its
/// members or ranks panics.
///
/// Dropping one costs what the pieces cost that nobody else holds any more, which may be all:
/// [`is_long_to_free`](crate::value::is_long_to_free) tells.
#[derive(Debug)]
pub struct Shared(Record);

impl Shared {
    /// The value of `record`, now. O(1) for strings, O(bytes) for small collections; O(pages) for
    /// large ones, of which there is one for some 30,000 elements, and of streams O(groups), too.
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

    /// Shows the fields of a hash, those included whose time is over, until `seen` breaks. What was
    /// shown is let go, page by page, so that whoever changes it need not copy it for this.
    ///
    /// # Panics
    ///
    /// If it is no hash; and so on for the next two.
    pub fn pass_fields<B>(
        mut self,
        seen: impl FnMut(hash::Pair<'_>) -> ControlFlow<B>,
    ) -> ControlFlow<B> {
        hash::pass(&mut self.0, seen)
    }

    /// The same for the members of a set.
    pub fn pass_members<B>(
        mut self,
        seen: impl FnMut(Value<'_>) -> ControlFlow<B>,
    ) -> ControlFlow<B> {
        set::pass(&mut self.0, seen)
    }

    /// The same for the nodes of a list.
    pub fn pass_nodes<B>(
        mut self,
        seen: impl FnMut(list::Node<'_>) -> ControlFlow<B>,
    ) -> ControlFlow<B> {
        list::pass(&mut self.0, seen)
    }

    /// The same for the bytes of a string, in parts.
    pub fn pass_text<B>(mut self, seen: impl FnMut(&[u8]) -> ControlFlow<B>) -> ControlFlow<B> {
        string::pass(&mut self.0, seen)
    }

    /// About how much work [`Shared::of`] is, in steps of some ten nanoseconds, beside the bytes of the
    /// record itself. O(1).
    #[must_use]
    pub fn work(record: &Record) -> usize {
        /// A page has at least so many elements, as a rule.
        const PAGE: usize = 8 * 1024;
        match value::pieces(record, 1) {
            0 => 1,
            // Its ends, or its last page, which are copied, and its pages.
            pieces => pieces.min(512) + value::elements(record) / PAGE,
        }
    }

    /// About how many bytes it takes that the record it was made of does not have, as long as nobody
    /// changes that; see [`Shared::copied_bytes`] for what comes then. A string that is changed as a
    /// whole counts as a whole. O(1).
    #[must_use]
    pub fn own_memory(&self) -> usize {
        /// What stands for a chunk or a block at the ends, and for a page.
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

    /// Bytes of large values that writers have copied since somebody else held them, since the
    /// process began. Who shares values can tell from what came since then how much memory that
    /// costs at most: what is let go is not subtracted.
    #[must_use]
    pub fn copied_bytes() -> u64 {
        counted::copied_bytes()
    }

    /// Counts the bytes of a string that a key does not hold any more, if somebody else does: from now
    /// on they are theirs alone. To be called for what is removed or replaced. O(1).
    #[inline]
    pub fn note_removed(record: &Record) {
        if matches!(Kind::of(record.kind()), Kind::StrBlob | Kind::StrPieces) {
            string::note_removed(record);
        }
    }

    /// The record, for who drops it where that may take its time. It is to be used for nothing else.
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

/// What payloads point to is read on other threads, and dropped there.
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

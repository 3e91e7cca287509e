//! Lists: a short one packed in its record, a long one as a row of chunks.
//!
//! ```text
//!  ListPacked   payload = count, entries                      few elements, see crate::packed
//!  ListTwoWay   payload = count, entries with backward lengths
//!  ListChunks   payload ──► Chunks ──► [chunk][chunk]...[chunk]
//!                                       each: slack | entries | slack
//! ```
//!
//! Finding the last elements of a ListPacked needs a walk from the first one, so it holds few
//! elements; `write` has the limits. Clients see `listpack` for both packed forms.
//!
//! To clients, a list is a `listpack` or a `quicklist`; see [`List::encoding_name`].
//!
//! A chunk holds as much as `list-max-listpack-size` allows, 8 KiB by default. Pushing and popping
//! happen at the ends of the row. The chunks there keep slack at their own ends, so both cost O(1)
//! and move nothing. An inner chunk has no slack, and `list-compress-depth` can compress it.
//! Positions are found by the counts of the chunks, from the nearer end. Based on Redis's quicklist
//! (Matt Stancliff, 2014), whose rules determine when OBJECT ENCODING changes and how nodes are
//! split and joined.
//!
//! This file reads lists; [`write`](self::write) changes them.

mod chunk;
mod chunks;
mod edit;
mod fill;
mod load;
mod nodes;
mod row;
mod shrink;
#[cfg(test)]
mod tests;
mod waste;
mod write;

use crate::packed::record::{count, entries};
use crate::packed::{Entries, Form, OneWay, TwoWay, Value};
use crate::{Kind, Record, boxed};
pub use chunks::Chunks;
use fill::Fill;
pub use load::Load;
pub use nodes::Node;
pub(crate) use nodes::pass;
pub use waste::Waste;
pub use write::{create, insert, make_room, pop, push, remove, rotate, set, trim};

/// Decompressed bytes that count as much work as replying with one element.
const DECOMPRESSED_UNIT: usize = 64;

/// Bytes copied into a reply that count as much work as replying with one short element.
const COPIED_UNIT: usize = 1024;

/// One end of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The head, where index 0 is.
    Left,
    /// The tail.
    Right,
}

/// A borrowed list.
#[derive(Clone, Copy, Debug)]
pub enum List<'a> {
    Packed { entries: Entries<'a, OneWay>, count: usize },
    TwoWay { entries: Entries<'a, TwoWay>, count: usize },
    Chunks(&'a Chunks),
}

impl<'a> List<'a> {
    /// The list of `record`, or `None` when it holds another type.
    #[inline]
    pub fn of(record: &'a Record) -> Option<List<'a>> {
        let payload = record.payload();
        match Kind::of(record.kind()) {
            Kind::ListPacked => {
                Some(List::Packed { entries: entries(payload), count: count(payload) })
            }
            Kind::ListTwoWay => {
                Some(List::TwoWay { entries: entries(payload), count: count(payload) })
            }
            // SAFETY: a ListChunks payload holds a box of Chunks, made by `write`.
            Kind::ListChunks => Some(List::Chunks(unsafe { boxed::view::<Chunks>(payload) })),
            Kind::StrEmbedded | Kind::StrRaw | Kind::StrInt => None,
            Kind::StrBlob | Kind::StrPieces => None,
            Kind::SetInts | Kind::SetPacked | Kind::SetTable => None,
            Kind::ZsetPacked | Kind::ZsetTree | Kind::HashPacked | Kind::HashTable => None,
            Kind::Stream => None,
        }
    }

    /// The number of elements. O(1).
    #[inline]
    pub fn len(self) -> usize {
        match self {
            List::Packed { count, .. } | List::TwoWay { count, .. } => count,
            List::Chunks(chunks) => chunks.len(),
        }
    }

    /// Whether there are no elements; a stored list always has some.
    pub fn is_empty(self) -> bool {
        self.len() == 0
    }

    /// The encoding that OBJECT ENCODING reports. In Valkey, a list that became short by a limit of
    /// elements is a listpack, whatever its bytes.
    pub fn encoding_name(self) -> &'static str {
        match self {
            List::Packed { .. } | List::TwoWay { .. } => "listpack",
            List::Chunks(chunks) if chunks.fill == Fill::Whole => "listpack",
            List::Chunks(_) => "quicklist",
        }
    }

    /// The work of examining `n` elements from an end, in replied elements: examining one element
    /// or reaching a chunk costs a tenth of a unit, and decompression costs more. O(1), or
    /// O(chunks) if chunks are compressed.
    pub fn search_work(self, n: usize) -> usize {
        let n = n.min(self.len());
        let chunks = match self {
            List::Packed { .. } | List::TwoWay { .. } => 0,
            List::Chunks(chunks) => {
                n.min(chunks.row.len()) + chunks.compressed_bytes() / DECOMPRESSED_UNIT
            }
        };
        n / 10 + chunks
    }

    /// The work of finding the element at `index`, in the units of [`List::search_work`]. O(1).
    pub fn distance_work(self, index: usize) -> usize {
        match self {
            List::Packed { .. } | List::TwoWay { .. } => 0,
            List::Chunks(chunks) => chunks.distance(index) / 10,
        }
    }

    /// The work of replying with `n` elements from `index` on, which must be less than the length,
    /// in the units of [`List::search_work`]: their number and their bytes. O(chunks).
    pub fn range_work(self, index: usize, n: usize) -> usize {
        match self {
            List::Packed { .. } | List::TwoWay { .. } => n,
            List::Chunks(chunks) => n + chunks.bytes_of(index, n) / COPIED_UNIT,
        }
    }

    /// Applies `show` to the element at `index`, if there is one. O(1) at the ends, O(chunks +
    /// elements of a chunk) in between.
    pub fn get<T>(self, index: usize, show: impl FnOnce(Value<'_>) -> T) -> Option<T> {
        let (mut show, mut shown) = (Some(show), None);
        self.each_from(index, |value| {
            shown = show.take().map(|show| show(value));
            false
        });
        shown
    }

    /// Passes the elements from `index` to the tail to `seen`, until it returns `false`.
    #[inline]
    pub fn each_from(self, index: usize, mut seen: impl FnMut(Value<'_>) -> bool) {
        match self {
            List::Packed { entries, count } => {
                skip_first(entries, count, index).iter().all(|(_, value)| seen(value));
            }
            List::TwoWay { entries, count } => {
                skip_first(entries, count, index).iter().all(|(_, value)| seen(value));
            }
            List::Chunks(chunks) => chunks.each_from(index, &mut seen),
        }
    }

    /// Passes the elements from the one `back` positions before the tail (0: the last) to the head
    /// to `seen`, until it returns `false`.
    pub fn each_back_from(self, back: usize, mut seen: impl FnMut(Value<'_>) -> bool) {
        match self {
            List::Packed { entries, count } => {
                skip_last(entries, count, back).back().all(|(_, value)| seen(value));
            }
            List::TwoWay { entries, count } => {
                skip_last(entries, count, back).back().all(|(_, value)| seen(value));
            }
            List::Chunks(chunks) => chunks.each_back_from(back, &mut seen),
        }
    }
}

/// The entries from the `n`-th of `count` on; empty if there are fewer.
fn skip_first<F: Form>(entries: Entries<'_, F>, count: usize, n: usize) -> Entries<'_, F> {
    entries.from(entries.offset_of(count, n.min(count)))
}

/// The entries without the last `n` of `count`; empty if there are fewer.
fn skip_last<F: Form>(entries: Entries<'_, F>, count: usize, n: usize) -> Entries<'_, F> {
    entries.until(entries.offset_of(count, count.saturating_sub(n)))
}

/// The number of elements of the list of `record`; 0 if it is not a list. O(1).
pub fn len(record: &Record) -> usize {
    List::of(record).map_or(0, List::len)
}

/// See [`List::encoding_name`].
pub fn encoding_name(record: &Record) -> &'static str {
    List::of(record).map_or(Kind::of(record.kind()).encoding_name(), List::encoding_name)
}

/// See [`crate::value::memory`]. Always exact: O(chunks).
pub fn memory(record: &Record, _samples: usize) -> usize {
    let outside = match List::of(record) {
        Some(List::Chunks(chunks)) => chunks.memory(),
        Some(List::Packed { .. } | List::TwoWay { .. }) | None => 0,
    };
    record.alloc_size() + outside
}

/// See [`crate::value::pieces`].
pub(crate) fn pieces(record: &Record) -> usize {
    match List::of(record) {
        Some(List::Chunks(chunks)) => chunks.pieces(),
        Some(List::Packed { .. } | List::TwoWay { .. }) | None => 0,
    }
}

/// See [`crate::value::duplicate`].
pub fn duplicate(record: &Record, key: &[u8], expiry: Option<i64>, clock: u32) -> Record {
    match List::of(record) {
        Some(List::Chunks(chunks)) => {
            let payload = boxed::store(Box::new(chunks.clone()));
            Record::from_bytes(key, expiry, Kind::ListChunks as u8, clock, &payload)
        }
        Some(List::Packed { .. } | List::TwoWay { .. }) | None => {
            Record::from_bytes(key, expiry, record.kind(), clock, record.payload())
        }
    }
}

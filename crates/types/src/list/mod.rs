//! Lists: a short one packed in its record, a long one as a row of chunks.
//!
//! ```text
//!  ListPacked   payload = count, entries                      few elements, see crate::packed
//!  ListTwoWay   payload = count, entries with backward lengths
//!  ListChunks   payload ──► Chunks ──► [chunk][chunk]...[chunk]
//!                                       each: slack | entries | slack
//! ```
//!
//! The last elements of a ListPacked are found from the first one on, so it has
//! few of them; `write` says how few. Clients see `listpack` for both packed forms.
//!
//! To clients, a list is a `listpack` or a `quicklist`; see [`List::encoding_name`].
//!
//! A chunk holds as much as `list-max-listpack-size` allows, 8 KiB by default. Pushing and popping
//! happen at the ends of the row, in chunks that keep some slack at their own ends, so that they
//! cost O(1) and move nothing; an inner chunk has no slack, and `list-compress-depth` can have it
//! compressed. Positions are found by the counts of
//! the chunks, from the nearer end. After Redis's quicklist (Matt Stancliff, 2014), from which the
//! rules come by which OBJECT ENCODING changes and chunks are split and joined.
//!
//! This file is about reading; [`write`](self::write) changes lists.

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

/// Bytes that are decompressed while one element is answered.
const PRESSED_UNIT: usize = 64;

/// Bytes that are copied into a reply while one element of few bytes is answered.
const COPIED_UNIT: usize = 1024;

/// One end of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The head, where index 0 is.
    Left,
    /// The tail.
    Right,
}

/// A list, to be read.
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

    /// How many elements. O(1).
    #[inline]
    pub fn len(self) -> usize {
        match self {
            List::Packed { count, .. } | List::TwoWay { count, .. } => count,
            List::Chunks(chunks) => chunks.len(),
        }
    }

    /// Whether there are none; a stored list always has some.
    pub fn is_empty(self) -> bool {
        self.len() == 0
    }

    /// What OBJECT ENCODING answers. The reference has a list that has become short by a limit of
    /// elements as a listpack, of however many bytes.
    pub fn encoding_name(self) -> &'static str {
        match self {
            List::Packed { .. } | List::TwoWay { .. } => "listpack",
            List::Chunks(chunks) if chunks.fill == Fill::Whole => "listpack",
            List::Chunks(_) => "quicklist",
        }
    }

    /// The work of looking at `n` elements from an end on, in elements that are answered: to look
    /// at one costs a tenth of that, to come to a chunk as much, and to decompress one more.
    /// O(1), or O(chunks) if chunks are compressed.
    pub fn search_work(self, n: usize) -> usize {
        let n = n.min(self.len());
        let chunks = match self {
            List::Packed { .. } | List::TwoWay { .. } => 0,
            List::Chunks(chunks) => n.min(chunks.row.len()) + chunks.pressed_bytes() / PRESSED_UNIT,
        };
        n / 10 + chunks
    }

    /// The work of finding the element at `index`, as [`List::search_work`]. O(1).
    pub fn distance_work(self, index: usize) -> usize {
        match self {
            List::Packed { .. } | List::TwoWay { .. } => 0,
            List::Chunks(chunks) => chunks.distance(index) / 10,
        }
    }

    /// The work of answering `n` elements from `index`, which must be below the length, on, as
    /// [`List::search_work`]: their number and their bytes. O(chunks).
    pub fn range_work(self, index: usize, n: usize) -> usize {
        match self {
            List::Packed { .. } | List::TwoWay { .. } => n,
            List::Chunks(chunks) => n + chunks.bytes_of(index, n) / COPIED_UNIT,
        }
    }

    /// What `show` makes of the element at `index`, if there is one. O(1) at the ends, O(chunks +
    /// elements of a chunk) within.
    pub fn get<T>(self, index: usize, show: impl FnOnce(Value<'_>) -> T) -> Option<T> {
        let (mut show, mut shown) = (Some(show), None);
        self.each_from(index, |value| {
            shown = show.take().map(|show| show(value));
            false
        });
        shown
    }

    /// Shows the elements from `index` to the tail to `seen`, until it says `false`.
    #[inline]
    pub fn each_from(self, index: usize, mut seen: impl FnMut(Value<'_>) -> bool) {
        match self {
            List::Packed { entries, count } => {
                behind(entries, count, index).iter().all(|(_, value)| seen(value));
            }
            List::TwoWay { entries, count } => {
                behind(entries, count, index).iter().all(|(_, value)| seen(value));
            }
            List::Chunks(chunks) => chunks.each_from(index, &mut seen),
        }
    }

    /// Shows the elements from the one `back` places before the tail (0: the last) to the head to
    /// `seen`, until it says `false`.
    pub fn each_back_from(self, back: usize, mut seen: impl FnMut(Value<'_>) -> bool) {
        match self {
            List::Packed { entries, count } => {
                in_front(entries, count, back).back().all(|(_, value)| seen(value));
            }
            List::TwoWay { entries, count } => {
                in_front(entries, count, back).back().all(|(_, value)| seen(value));
            }
            List::Chunks(chunks) => chunks.each_back_from(back, &mut seen),
        }
    }
}

/// The entries from the `n`-th of `count` on; none if there are not so many.
fn behind<F: Form>(entries: Entries<'_, F>, count: usize, n: usize) -> Entries<'_, F> {
    entries.from(entries.offset_of(count, n.min(count)))
}

/// The entries without the last `n` of `count`; none if there are not so many.
fn in_front<F: Form>(entries: Entries<'_, F>, count: usize, n: usize) -> Entries<'_, F> {
    entries.until(entries.offset_of(count, count.saturating_sub(n)))
}

/// Elements of the list of `record`, 0 if it is none. O(1).
pub fn len(record: &Record) -> usize {
    List::of(record).map_or(0, List::len)
}

/// See [`List::encoding_name`].
pub fn encoding_name(record: &Record) -> &'static str {
    List::of(record).map_or(Kind::of(record.kind()).encoding_name(), List::encoding_name)
}

/// See [`crate::value::memory`]. Exact whatever `samples` says: O(chunks).
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

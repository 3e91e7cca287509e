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
//! A chunk holds as much as `list-max-listpack-size` allows, 8 KiB by default. Pushing and popping
//! happen at the ends of the row, in chunks that keep some slack at their own ends, so that they
//! cost O(1) and move nothing; an inner chunk has no slack. Positions are found by the counts of
//! the chunks, from the nearer end. After Redis's quicklist (Matt Stancliff, 2014), from which the
//! rules come by which OBJECT ENCODING changes and chunks are split and joined.
//!
//! This file is about reading; [`write`](self::write) changes lists.

mod chunk;
mod chunks;
#[cfg(test)]
mod tests;
mod write;

use crate::packed::record::{count, entries};
use crate::packed::{self, Entries, Form, OneWay, TwoWay, Value};
use crate::{Kind, Record, boxed};
pub use chunks::Chunks;
pub use write::{create, insert, pop, push, remove, rotate, set, trim};

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
            Kind::StrEmbedded | Kind::StrRaw | Kind::StrInt | Kind::StrBlob => None,
            Kind::SetInts | Kind::SetPacked | Kind::SetTable => None,
            Kind::ZsetPacked | Kind::ZsetTree | Kind::HashPacked | Kind::HashTable => None,
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

    /// The element at `index`. O(1) at the ends, O(chunks + elements of a chunk) within.
    pub fn get(self, index: usize) -> Option<Value<'a>> {
        self.iter_from(index).next()
    }

    /// The elements from `index` to the tail.
    pub fn iter_from(self, index: usize) -> Iter<'a> {
        match self {
            List::Packed { entries, count } => {
                Iter { rest: None, run: Run::OneWay(behind(entries, count, index).iter()) }
            }
            List::TwoWay { entries, count } => {
                Iter { rest: None, run: Run::TwoWay(behind(entries, count, index).iter()) }
            }
            List::Chunks(chunks) => chunks.iter_from(index),
        }
    }

    /// The elements from the one `back` places before the tail (0: the last) to the head.
    pub fn iter_back_from(self, back: usize) -> IterBack<'a> {
        match self {
            List::Packed { entries, count } => {
                IterBack { rest: None, run: Run::OneWay(in_front(entries, count, back).back()) }
            }
            List::TwoWay { entries, count } => {
                IterBack { rest: None, run: Run::TwoWay(in_front(entries, count, back).back()) }
            }
            List::Chunks(chunks) => chunks.iter_back_from(back),
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

/// Entries of either form.
#[derive(Debug)]
enum Run<A, B> {
    OneWay(A),
    TwoWay(B),
}

impl<'a, A, B> Run<A, B>
where
    A: Iterator<Item = (usize, Value<'a>)>,
    B: Iterator<Item = (usize, Value<'a>)>,
{
    #[inline]
    fn next(&mut self) -> Option<Value<'a>> {
        let next = match self {
            Run::OneWay(entries) => entries.next(),
            Run::TwoWay(entries) => entries.next(),
        };
        next.map(|(_, value)| value)
    }
}

/// Elements towards the tail.
#[derive(Debug)]
pub struct Iter<'a> {
    /// The chunks behind the one that is being read.
    rest: Option<(&'a Chunks, usize)>,
    run: Run<packed::Iter<'a, OneWay>, packed::Iter<'a, TwoWay>>,
}

impl<'a> Iterator for Iter<'a> {
    type Item = Value<'a>;

    #[inline]
    fn next(&mut self) -> Option<Value<'a>> {
        loop {
            if let Some(value) = self.run.next() {
                return Some(value);
            }
            let (chunks, next) = self.rest?;
            self.run = Run::TwoWay(chunks.entries(next)?.iter());
            self.rest = Some((chunks, next + 1));
        }
    }
}

/// Elements towards the head.
#[derive(Debug)]
pub struct IterBack<'a> {
    /// How many chunks are left before the one that is being read.
    rest: Option<(&'a Chunks, usize)>,
    run: Run<<OneWay as Form>::Back<'a>, <TwoWay as Form>::Back<'a>>,
}

impl<'a> Iterator for IterBack<'a> {
    type Item = Value<'a>;

    #[inline]
    fn next(&mut self) -> Option<Value<'a>> {
        loop {
            if let Some(value) = self.run.next() {
                return Some(value);
            }
            let (chunks, left) = self.rest.filter(|(_, left)| *left > 0)?;
            self.run = Run::TwoWay(chunks.entries(left - 1)?.back());
            self.rest = Some((chunks, left - 1));
        }
    }
}

/// Elements of the list of `record`, 0 if it is none. O(1).
pub fn len(record: &Record) -> usize {
    List::of(record).map_or(0, List::len)
}

/// See [`crate::value::memory`]. Exact whatever `samples` says: O(chunks).
pub fn memory(record: &Record, _samples: usize) -> usize {
    let outside = match List::of(record) {
        Some(List::Chunks(chunks)) => chunks.memory(),
        Some(List::Packed { .. } | List::TwoWay { .. }) | None => 0,
    };
    record.alloc_size() + outside
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

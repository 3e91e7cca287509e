//! Makes lists and changes them.
//!
//! Every function takes the record and returns it. The caller must check for an empty list
//! ([`super::len`] is 0) and remove it. A list leaves its record, and returns to it, by Valkey's
//! rules: before an addition, the lengths of the texts decide; after a removal, the remaining
//! elements must be one node that is at most half full. With a limit of elements such a node can
//! have any number of bytes: if there are many, the list keeps its chunks and is a listpack by name
//! only ([`Fill::Whole`]).
//!
//! Removed chunks go to a [`Waste`], to be freed when no lock is held.
//!
//! Within the record, a list gets backward lengths when it exceeds [`ONE_WAY_ENTRIES`] or
//! [`ONE_WAY_BYTES`], and loses them at half of both: between two conversions at least as many
//! elements or bytes are added or removed as a conversion copies. `docs/design/packed-entries.md`
//! has the figures.

use super::chunks::{Chunks, Place};
use super::fill::{FRAME, Fill, framed};
use super::shrink::{Size, hits};
use super::{End, List, Waste};
use crate::packed::record::{Packed, PackedIn, payload};
use crate::packed::{
    COUNT_MAX, Encoded, Entries, EntryBuffer, Form, OneWay, TwoWay, Value, back_len,
};
use crate::{Kind, Limits, Record, boxed};
use std::borrow::Cow;

/// The most elements of a list without backward lengths.
pub(super) const ONE_WAY_ENTRIES: usize = 24;

/// The most bytes of entries of a list without backward lengths.
pub(super) const ONE_WAY_BYTES: usize = 512;

/// The most bytes before the text of an entry, for a text that could join a list without backward
/// lengths.
const HEAD_MOST: usize = 2;

/// A list of `key` with these elements, pushed one after the other at `end`. `clock` is as in
/// [`Record::clock`].
pub fn create(key: &[u8], clock: u32, end: End, values: &[&[u8]], limits: &Limits) -> Record {
    let record = Packed::new(key, None, Kind::ListPacked, clock, &[]).finish();
    push(record, end, values, limits)
}

/// The form of a stored list.
enum Shape {
    OneWay,
    TwoWay,
    Chunks,
}

impl Shape {
    /// The shape of a record, which must hold a list.
    #[inline]
    fn of(record: &Record) -> Shape {
        match Kind::of(record.kind()) {
            Kind::ListPacked => Shape::OneWay,
            Kind::ListTwoWay => Shape::TwoWay,
            Kind::ListChunks => Shape::Chunks,
            Kind::StrEmbedded | Kind::StrRaw | Kind::StrInt => not_a_list(),
            Kind::StrBlob | Kind::StrPieces => not_a_list(),
            Kind::SetInts | Kind::SetPacked | Kind::SetTable => not_a_list(),
            Kind::ZsetPacked | Kind::ZsetTree | Kind::HashPacked | Kind::HashTable => not_a_list(),
            Kind::Stream => not_a_list(),
        }
    }
}

#[cold]
fn not_a_list() -> ! {
    panic!("the record holds a list")
}

/// Pushes elements one after the other at `end`. Amortized O(1) each for a long list, O(bytes) for
/// a short one.
#[inline]
pub fn push(record: Record, end: End, values: &[&[u8]], limits: &Limits) -> Record {
    let mut record = before_growth(record, values, limits);
    match Shape::of(&record) {
        Shape::OneWay => push_packed::<OneWay>(record, end, values),
        Shape::TwoWay => push_packed::<TwoWay>(record, end, values),
        Shape::Chunks => {
            let chunks = chunks_mut(&mut record);
            values.iter().for_each(|text| chunks.push(end, text));
            record
        }
    }
}

fn push_packed<F: Form>(record: Record, end: End, values: &[&[u8]]) -> Record {
    let mut packed = PackedIn::<F>::of(record);
    let at = match end {
        End::Left => 0,
        End::Right => packed.entries().end(),
    };
    match values {
        [one] => packed.insert(at, &[Encoded::of(one)]),
        many => {
            let mut entries: Vec<Encoded<'_>> = many.iter().map(|t| Encoded::of(t)).collect();
            if end == End::Left {
                entries.reverse();
            }
            packed.insert(at, &entries);
        }
    }
    packed.finish()
}

/// Takes up to `n` elements from `end` and passes each to `seen`, in that order.
pub fn pop(
    record: Record,
    end: End,
    n: usize,
    limits: &Limits,
    waste: &mut Waste,
    mut seen: impl FnMut(Value<'_>),
) -> Record {
    let mut record = record;
    match Shape::of(&record) {
        Shape::OneWay => pop_packed::<OneWay>(record, end, n, seen),
        Shape::TwoWay => after_shrinking(pop_packed::<TwoWay>(record, end, n, seen), limits),
        Shape::Chunks => {
            chunks_mut(&mut record).pop(end, n, waste, &mut seen);
            after_shrinking(record, limits)
        }
    }
}

fn pop_packed<F: Form>(
    record: Record,
    end: End,
    n: usize,
    mut seen: impl FnMut(Value<'_>),
) -> Record {
    let mut packed = PackedIn::<F>::of(record);
    let (entries, count) = (packed.entries(), packed.count());
    let n = n.min(count);
    let from = match end {
        End::Left => {
            entries.iter().take(n).for_each(|(_, value)| seen(value));
            0
        }
        End::Right => {
            let from = entries.offset_of(count, count - n);
            match n {
                0 => {}
                // Fast path: a single element needs no reordering.
                1 => seen(entries.get(from)),
                _ => entries.from(from).back().for_each(|(_, value)| seen(value)),
            }
            from
        }
    };
    packed.remove(from, n);
    packed.finish()
}

/// Moves an element from one end to the other of the same list, without changing the encoding in
/// between. Returns the element.
pub fn rotate(record: Record, from: End, to: End, limits: &Limits) -> (Record, Vec<u8>) {
    let mut record = record;
    let mut moved = Vec::new();
    let take = |value: Value<'_>| moved = value.to_vec();
    let shrunk = match Shape::of(&record) {
        Shape::OneWay => pop_packed::<OneWay>(record, from, 1, take),
        Shape::TwoWay => pop_packed::<TwoWay>(record, from, 1, take),
        Shape::Chunks => {
            let (mut take, mut waste) = (take, Waste::default());
            // At most one chunk, whose element is copied anyway.
            chunks_mut(&mut record).pop(from, 1, &mut waste, &mut take);
            let record = push(record, to, &[&moved], limits);
            return (after_shrinking(record, limits), moved);
        }
    };
    (push(shrunk, to, &[&moved], limits), moved)
}

/// Converts a list to the shape that it needs for another element, as [`set`] and [`insert`] do
/// first. In Valkey, a list stays a quicklist even if the command then finds no position.
pub fn make_room(record: Record, text: &[u8], limits: &Limits) -> Record {
    before_growth(record, &[text], limits)
}

/// Replaces the element at `index`, which must be less than the length, with `text`.
pub fn set(
    record: Record,
    index: usize,
    text: &[u8],
    limits: &Limits,
    waste: &mut Waste,
) -> Record {
    let mut record = before_growth(record, &[text], limits);
    match Shape::of(&record) {
        Shape::OneWay => set_packed::<OneWay>(record, index, text),
        Shape::TwoWay => after_shrinking(set_packed::<TwoWay>(record, index, text), limits),
        Shape::Chunks => {
            let chunks = chunks_mut(&mut record);
            let place = chunks.find(index);
            chunks.set(place, text, waste);
            after_shrinking(record, limits)
        }
    }
}

fn set_packed<F: Form>(record: Record, index: usize, text: &[u8]) -> Record {
    let mut packed = PackedIn::<F>::of(record);
    let at = packed.entries().offset_of(packed.count(), index);
    packed.replace(at, 1, &[Encoded::of(text)]);
    packed.finish()
}

/// Inserts `text` before or after the first element that equals `pivot`. Returns whether there is
/// one.
pub fn insert(
    record: Record,
    pivot: &[u8],
    text: &[u8],
    after: bool,
    limits: &Limits,
) -> (Record, bool) {
    let mut record = before_growth(record, &[text], limits);
    match Shape::of(&record) {
        Shape::OneWay => insert_packed::<OneWay>(record, pivot, text, after),
        Shape::TwoWay => insert_packed::<TwoWay>(record, pivot, text, after),
        Shape::Chunks => {
            let chunks = chunks_mut(&mut record);
            let Some(place) = find_text(chunks, pivot) else { return (record, false) };
            chunks.insert(place, text, after);
            (record, true)
        }
    }
}

fn insert_packed<F: Form>(
    record: Record,
    pivot: &[u8],
    text: &[u8],
    after: bool,
) -> (Record, bool) {
    let mut packed = PackedIn::<F>::of(record);
    let entries = packed.entries();
    let found = entries.find(&Encoded::of(pivot), 1);
    if let Some(at) = found {
        let at = if after { entries.after(at) } else { at };
        packed.insert(at, &[Encoded::of(text)]);
    }
    (packed.finish(), found.is_some())
}

fn find_text(chunks: &Chunks, text: &[u8]) -> Option<Place> {
    let wanted = Encoded::of(text);
    chunks.texts().enumerate().find_map(|(chunk, text)| {
        let entries = Entries::<TwoWay>::new(&text);
        let mut offsets = entries.offsets().enumerate();
        let (nth, at) = offsets.find(|(_, at)| entries.holds(*at, &wanted))?;
        Some(Place { chunk, nth, at })
    })
}

/// Removes up to `most` elements that equal `text`, starting at `end`. Returns how many.
pub fn remove(
    record: Record,
    end: End,
    text: &[u8],
    most: usize,
    limits: &Limits,
    waste: &mut Waste,
) -> (Record, usize) {
    let mut record = record;
    let (record, removed) = match Shape::of(&record) {
        Shape::OneWay => return remove_packed::<OneWay>(record, end, text, most),
        Shape::TwoWay => remove_packed::<TwoWay>(record, end, text, most),
        Shape::Chunks => {
            let removed = chunks_mut(&mut record).remove(end, text, most, waste);
            (record, removed)
        }
    };
    (if removed > 0 { after_shrinking(record, limits) } else { record }, removed)
}

fn remove_packed<F: Form>(record: Record, end: End, text: &[u8], most: usize) -> (Record, usize) {
    let mut packed = PackedIn::<F>::of(record);
    let found = hits(packed.entries(), &Encoded::of(text), end, most);
    packed.remove_all(&found);
    (packed.finish(), found.len())
}

/// Keeps `count` elements, at least one, from `start` on. O(chunks + elements of the outermost
/// remaining chunks).
pub fn trim(
    record: Record,
    start: usize,
    count: usize,
    limits: &Limits,
    waste: &mut Waste,
) -> Record {
    let mut record = record;
    match Shape::of(&record) {
        Shape::OneWay => trim_packed::<OneWay>(record, start, count),
        Shape::TwoWay => after_shrinking(trim_packed::<TwoWay>(record, start, count), limits),
        Shape::Chunks => {
            chunks_mut(&mut record).trim(start, count, waste);
            after_shrinking(record, limits)
        }
    }
}

fn trim_packed<F: Form>(record: Record, start: usize, count: usize) -> Record {
    let mut packed = PackedIn::<F>::of(record);
    if start == 0 && count == packed.count() {
        return packed.finish();
    }
    packed.remove(0, start);
    let at = packed.entries().offset_of(packed.count(), count);
    packed.remove(at, packed.count() - count);
    packed.finish()
}

/// The chunks of a record of kind `ListChunks`.
pub(super) fn chunks_mut(record: &mut Record) -> &mut Chunks {
    debug_assert_eq!(Kind::of(record.kind()), Kind::ListChunks);
    // SAFETY: the caller has checked the kind: the payload holds a box of Chunks, made below.
    unsafe { boxed::view_mut(record.payload_mut()) }
}

/// Converts a packed list to the shape that it needs for these additions.
#[inline]
fn before_growth(record: Record, values: &[&[u8]], limits: &Limits) -> Record {
    match List::of(&record) {
        Some(List::Packed { entries, count }) => {
            let (fill, len) = (Fill::of(limits), count + values.len());
            let more: usize = values.iter().map(|t| t.len()).sum();
            // Most lists are so short that their exact length doesn't matter.
            let framed_most = FRAME + entries.end() + count * back_len::<TwoWay>(ONE_WAY_BYTES);
            if too_much(fill, framed_most + more, len)
                && too_much(fill, framed(entries) + more, len)
            {
                let entries = entries.in_form::<TwoWay>();
                let chunks = Chunks::of(Entries::new(&entries), count, limits);
                return to_chunks(record, chunks);
            }
            let bytes = entries.end() + more + HEAD_MOST * values.len();
            if len <= ONE_WAY_ENTRIES && bytes <= ONE_WAY_BYTES {
                return record;
            }
            let payload = payload(&entries.in_form::<TwoWay>(), count);
            record.replace_payload(Kind::ListTwoWay as u8, &payload)
        }
        Some(List::TwoWay { entries, count }) => {
            let (fill, len) = (Fill::of(limits), count + values.len());
            let more: usize = values.iter().map(|t| t.len()).sum();
            if !too_much(fill, framed(entries) + more, len) {
                return record;
            }
            let chunks = Chunks::of(entries, count, limits);
            to_chunks(record, chunks)
        }
        Some(List::Chunks(chunks)) if chunks.fill == Fill::Whole => {
            let mut record = record;
            let more = values.iter().map(|t| t.len()).sum();
            chunks_mut(&mut record).before_growth(more, values.len(), limits);
            record
        }
        Some(List::Chunks(_)) | None => record,
    }
}

/// Whether a list of this many bytes, including the frame, and this many elements leaves its
/// record.
fn too_much(fill: Fill, bytes: usize, elements: usize) -> bool {
    elements > COUNT_MAX || fill.exceeds(bytes, elements)
}

/// Converts a list that has become short enough to a shorter form.
#[inline]
fn after_shrinking(record: Record, limits: &Limits) -> Record {
    let (text, count) = match List::of(&record) {
        Some(List::TwoWay { entries, count }) if is_short(entries, count) => {
            (Cow::Borrowed(entries.bytes()), count)
        }
        Some(List::Chunks(chunks)) => match chunks.size(limits) {
            Size::Small(text, count) => (text, count),
            Size::Long => return record,
            Size::Whole => {
                let mut record = record;
                chunks_mut(&mut record).mark_whole();
                return record;
            }
        },
        Some(List::Packed { .. } | List::TwoWay { .. }) | None => return record,
    };
    let (kind, payload) = in_record(Entries::new(&text), count);
    record.replace_payload(kind as u8, &payload)
}

/// Kind and payload of a record with these elements.
pub(super) fn in_record(entries: Entries<'_, TwoWay>, count: usize) -> (Kind, Vec<u8>) {
    match is_short(entries, count) {
        true => (Kind::ListPacked, payload(&entries.in_form::<OneWay>(), count)),
        false => (Kind::ListTwoWay, payload(entries.bytes(), count)),
    }
}

/// Whether a list of these elements loses its backward lengths.
fn is_short(entries: Entries<'_, TwoWay>, count: usize) -> bool {
    count <= ONE_WAY_ENTRIES / 2 && entries.end() <= ONE_WAY_BYTES / 2
}

fn to_chunks(record: Record, chunks: Chunks) -> Record {
    let payload = boxed::store(Box::new(chunks));
    record.replace_payload(Kind::ListChunks as u8, &payload)
}

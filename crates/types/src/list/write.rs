//! Making lists and changing them.
//!
//! Every function takes the record and gives it back; an emptied list is for the caller to see
//! ([`super::len`] is 0) and to remove. When a list leaves its record, and when it returns there,
//! is decided as the reference does: before something is added, by the lengths of the texts;
//! after something was taken away, when what is left is one chunk that is half full at most.

use super::chunks::{Chunks, Fill, Place, framed, hits};
use super::{End, List};
use crate::packed::record::Packed;
use crate::packed::{self, Encoded, Room, Value};
use crate::{Kind, Limits, Record, boxed};

/// A list of `key` with these elements, pushed one after the other at `end`. `clock` as
/// [`Record::clock`].
pub fn create(key: &[u8], clock: u32, end: End, values: &[&[u8]], limits: &Limits) -> Record {
    let record = Packed::new(key, None, Kind::ListPacked, clock, &[]).finish();
    push(record, end, values, limits)
}

/// Pushes elements one after the other at `end`. Amortized O(1) each for a long list, O(bytes)
/// for a short one.
#[inline]
pub fn push(record: Record, end: End, values: &[&[u8]], limits: &Limits) -> Record {
    let mut record = before_growth(record, values, limits);
    if Kind::of(record.kind()) == Kind::ListChunks {
        let chunks = chunks_mut(&mut record);
        values.iter().for_each(|text| chunks.push(end, text));
        return record;
    }
    let mut packed = Packed::of(record);
    match values {
        [one] => {
            let at = at_end(packed.bytes(), end);
            packed.insert(at, &[Encoded::of(one)]);
        }
        many => {
            let mut entries: Vec<Encoded<'_>> = many.iter().map(|t| Encoded::of(t)).collect();
            if end == End::Left {
                entries.reverse();
            }
            let at = at_end(packed.bytes(), end);
            packed.insert(at, &entries);
        }
    }
    packed.finish()
}

fn at_end(entries: &[u8], end: End) -> usize {
    match end {
        End::Left => 0,
        End::Right => entries.len(),
    }
}

/// Takes up to `n` elements from `end`, shown to `seen` in the order of their going.
pub fn pop(
    record: Record,
    end: End,
    n: usize,
    limits: &Limits,
    mut seen: impl FnMut(Value<'_>),
) -> Record {
    let mut record = record;
    if Kind::of(record.kind()) == Kind::ListChunks {
        chunks_mut(&mut record).pop(end, n, &mut seen);
        return after_shrinking(record, limits);
    }
    let mut packed = Packed::of(record);
    let n = n.min(packed.count());
    let entries = packed.bytes();
    let mut at = at_end(entries, end);
    for _ in 0..n {
        match end {
            End::Left => {
                seen(packed::get(entries, at));
                at = packed::after(entries, at);
            }
            End::Right => {
                at = packed::before(entries, at);
                seen(packed::get(entries, at));
            }
        }
    }
    let from = if end == End::Left { 0 } else { at };
    packed.remove(from, n);
    packed.finish()
}

/// Moves an element from one end to another of the same list, which never is shorter meanwhile;
/// answers it.
pub fn rotate(record: Record, from: End, to: End, limits: &Limits) -> (Record, Vec<u8>) {
    let mut record = record;
    let mut moved = Vec::new();
    if Kind::of(record.kind()) == Kind::ListChunks {
        let chunks = chunks_mut(&mut record);
        chunks.pop(from, 1, &mut |value| moved = value.to_vec());
        chunks.push(to, &moved);
        return (after_shrinking(record, limits), moved);
    }
    let record = pop(record, from, 1, limits, |value| moved = value.to_vec());
    (push(record, to, &[&moved], limits), moved)
}

/// Puts `text` in the place of the element at `index`, which must be below the length.
pub fn set(record: Record, index: usize, text: &[u8], limits: &Limits) -> Record {
    let mut record = before_growth(record, &[text], limits);
    if Kind::of(record.kind()) == Kind::ListChunks {
        let chunks = chunks_mut(&mut record);
        let place = chunks.find(index);
        chunks.set(place, text);
        return after_shrinking(record, limits);
    }
    let mut packed = Packed::of(record);
    let at = packed::offset_of(packed.bytes(), packed.count(), index);
    packed.replace(at, 1, &[Encoded::of(text)]);
    packed.finish()
}

/// Inserts `text` before or after the first element that equals `pivot`; whether there is one.
pub fn insert(
    record: Record,
    pivot: &[u8],
    text: &[u8],
    after: bool,
    limits: &Limits,
) -> (Record, bool) {
    let mut record = before_growth(record, &[text], limits);
    if Kind::of(record.kind()) == Kind::ListChunks {
        let chunks = chunks_mut(&mut record);
        let Some(place) = find_text(chunks, pivot) else { return (record, false) };
        chunks.insert(place, text, after);
        return (record, true);
    }
    let Some(at) = packed::find(super::packed_record::entries(record.payload()), pivot, 1) else {
        return (record, false);
    };
    let mut packed = Packed::of(record);
    let at = if after { packed::after(packed.bytes(), at) } else { at };
    packed.insert(at, &[Encoded::of(text)]);
    (packed.finish(), true)
}

fn find_text(chunks: &Chunks, text: &[u8]) -> Option<Place> {
    let wanted = Encoded::of(text);
    let mut chunk = 0;
    while let Some(entries) = chunks.entries(chunk) {
        for (nth, (at, _)) in packed::iter(entries).enumerate() {
            if wanted.is_at(entries, at) {
                return Some(Place { chunk, nth, at });
            }
        }
        chunk += 1;
    }
    None
}

/// Removes up to `most` elements that equal `text`, looked for from `end` on; answers how many.
pub fn remove(
    record: Record,
    end: End,
    text: &[u8],
    most: usize,
    limits: &Limits,
) -> (Record, usize) {
    let mut record = record;
    if Kind::of(record.kind()) == Kind::ListChunks {
        let removed = chunks_mut(&mut record).remove(end, text, most);
        return (if removed > 0 { after_shrinking(record, limits) } else { record }, removed);
    }
    let mut packed = Packed::of(record);
    let found = hits(packed.bytes(), &Encoded::of(text), end, most);
    for at in &found {
        packed.remove(*at, 1);
    }
    (packed.finish(), found.len())
}

/// Keeps `count` elements from `start` on. O(chunks) beside the elements of the outermost ones.
pub fn trim(record: Record, start: usize, count: usize, limits: &Limits) -> Record {
    let mut record = record;
    let len = super::len(&record);
    let behind = len - start - count;
    if Kind::of(record.kind()) == Kind::ListChunks {
        let chunks = chunks_mut(&mut record);
        chunks.trim(End::Left, start);
        chunks.trim(End::Right, behind);
        return after_shrinking(record, limits);
    }
    let mut packed = Packed::of(record);
    packed.remove(0, start);
    let at = packed::end_before(packed.bytes(), packed.count(), behind);
    packed.remove(at, behind);
    packed.finish()
}

/// The chunks of a record that has some.
fn chunks_mut(record: &mut Record) -> &mut Chunks {
    debug_assert_eq!(Kind::of(record.kind()), Kind::ListChunks);
    // SAFETY: the caller has seen the kind: the payload holds a box of Chunks, made below.
    unsafe { boxed::view_mut(record.payload_mut()) }
}

/// Makes a packed list a long one if these additions are too much for it.
#[inline]
fn before_growth(record: Record, values: &[&[u8]], limits: &Limits) -> Record {
    let Some(List::Packed { entries, count }) = List::of(&record) else { return record };
    let more: usize = values.iter().map(|t| t.len()).sum();
    let fill = Fill::of(limits);
    let too_many = count + values.len() > packed::COUNT_MAX;
    if !too_many && !fill.exceeds(framed(entries) + more, count + values.len()) {
        return record;
    }
    let chunks = Chunks::of(entries, count, fill);
    let payload = boxed::store(Box::new(chunks));
    record.replace_payload(Kind::ListChunks as u8, &payload)
}

/// Makes a long list that has become short enough a packed one.
#[inline]
fn after_shrinking(record: Record, limits: &Limits) -> Record {
    let Some(List::Chunks(chunks)) = List::of(&record) else { return record };
    let Some((entries, count)) = chunks.as_small(Fill::of(limits)) else { return record };
    let mut payload = Vec::with_capacity(2 + entries.len());
    payload.extend_from_slice(&(count as u16).to_le_bytes());
    payload.extend_from_slice(entries);
    record.replace_payload(Kind::ListPacked as u8, &payload)
}

//! Making string records and changing them in place.
//!
//! A store goes from cheap to dear: [`overwrite`] writes over the old value when the new one
//! has its shape, which costs no allocation; otherwise [`replacement`] makes a new record and
//! the caller disposes of the old one, which may be of any type and size. [`edit_text`] is for
//! SETRANGE and SETBIT, [`append`] for APPEND, which keep most of a value: the record grows where
//! it is, and a long string is copied first only while a reply or a snapshot holds it too. A string of
//! more than [`PIECED_FROM`] bytes is neither copied nor moved, but changed in [pieces](super::pieces).
//!
//! A shorter one that grows gets the allocator's next [size class](size_class) and nothing beyond:
//! memory that the allocator would keep for it anyway. There are four classes to a doubling, so that
//! a string made of small parts is moved for every fifth part that it grows. [`edit_work`] answers in
//! advance what an edit costs.

use super::pieces::{PIECE, PIECED_FROM, Pieces};
use super::{Blob, Digits, Form, INLINE_MAX, Str, TextMut, blob, canonical_int, embeds, read_int};
use crate::{Kind, Record, RecordMut, boxed};
use std::ops::Range;
use weft_table::size_class;

/// A value that is to be stored: bytes to copy, or a long string to keep.
#[derive(Clone, Debug)]
pub enum New<'a> {
    Bytes(&'a [u8]),
    Blob(Blob),
}

impl New<'_> {
    /// The bytes to be stored.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        match self {
            New::Bytes(b) => b,
            New::Blob(b) => b,
        }
    }
}

/// The kind of a string of `len` bytes in the record, as it is first written.
#[inline]
fn inline_kind(key_len: usize, len: usize, expiring: bool) -> Kind {
    if embeds(key_len, len, expiring) { Kind::StrEmbedded } else { Kind::StrRaw }
}

/// A record of `key` with the string `value`, in the smallest encoding: what SET stores.
/// `expiry` in Unix milliseconds, `clock` as [`Record::clock`]. O(length), unless the value is
/// a long string to keep.
#[inline]
pub fn record(key: &[u8], value: New<'_>, expiry: Option<i64>, clock: u32) -> Record {
    match canonical_int(value.bytes()) {
        Some(n) => record_int(key, n, expiry, clock),
        None => text(key, value, expiry, expiry.is_some(), clock),
    }
}

/// A record of `key` with these bytes, not stored as an integer even if they look like one.
pub fn record_text(key: &[u8], bytes: &[u8], expiry: Option<i64>, clock: u32) -> Record {
    text(key, New::Bytes(bytes), expiry, expiry.is_some(), clock)
}

/// The record that takes the place of `old` when its key is set to `value`. Differs from
/// [`record`] in a detail that clients can see: an expiry that is taken away with the old value
/// still counts when the new one is called embedded or not.
#[inline]
pub fn replacement(old: &Record, value: New<'_>, expiry: Option<i64>, clock: u32) -> Record {
    match canonical_int(value.bytes()) {
        Some(n) => record_int(old.key(), n, expiry, clock),
        None => text(old.key(), value, expiry, expiry.is_some() || old.has_expiry(), clock),
    }
}

#[inline]
fn text(key: &[u8], value: New<'_>, expiry: Option<i64>, expiring: bool, clock: u32) -> Record {
    let bytes = value.bytes();
    if bytes.len() <= INLINE_MAX {
        let kind = inline_kind(key.len(), bytes.len(), expiring);
        return Record::from_bytes(key, expiry, kind as u8, clock, bytes);
    }
    let blob = match value {
        New::Bytes(b) => Blob::new(b.to_vec()),
        New::Blob(blob) => blob,
    };
    record_blob(key, blob, expiry, clock)
}

/// Writes `value` over the string of `old` if that needs no other allocation: both are bytes of
/// the same length, or both integers, and the expiry neither comes nor goes. Returns whether it
/// was written; if not, nothing has changed. The access clock stays.
#[inline]
#[must_use]
pub fn overwrite(old: &mut RecordMut<'_>, value: &New<'_>, expiry: Option<i64>) -> bool {
    if old.has_expiry() != expiry.is_some() {
        return false;
    }
    let bytes = value.bytes();
    match Form::of(old) {
        Some(Form::Inline) => {
            if old.payload().len() != bytes.len() || canonical_int(bytes).is_some() {
                return false;
            }
            old.payload_mut().copy_from_slice(bytes);
            let kind = inline_kind(old.key().len(), bytes.len(), expiry.is_some());
            old.set_kind(kind as u8);
        }
        Some(Form::Int) => {
            let Some(n) = canonical_int(bytes) else {
                return false;
            };
            old.payload_mut().copy_from_slice(&n.to_ne_bytes());
        }
        Some(Form::Blob | Form::Pieces) | None => return false,
    }
    if let Some(at) = expiry {
        old.set_expiry_in_place(at);
    }
    true
}

/// Writes `n` over an integer, whose expiry and clock stay; `false`, and nothing changed, when
/// `old` is not stored as one.
#[inline]
#[must_use]
pub fn overwrite_int(old: &mut RecordMut<'_>, n: i64) -> bool {
    let is_int = Kind::of(old.kind()) == Kind::StrInt;
    if is_int {
        old.payload_mut().copy_from_slice(&n.to_ne_bytes());
    }
    is_int
}

/// A record of `key` with the decimal form of `n`.
#[inline]
pub fn record_int(key: &[u8], n: i64, expiry: Option<i64>, clock: u32) -> Record {
    Record::from_bytes(key, expiry, Kind::StrInt as u8, clock, &n.to_ne_bytes())
}

/// A record of `key` that shares `blob`.
pub fn record_blob(key: &[u8], blob: Blob, expiry: Option<i64>, clock: u32) -> Record {
    Record::from_bytes(key, expiry, Kind::StrBlob as u8, clock, &blob::store(blob))
}

/// What `record` is seen as after its key or its expiry has changed: a string that was embedded
/// and has no room for that any more becomes `raw`, and stays it. Other records are untouched.
pub fn refit(mut record: Record) -> Record {
    if Kind::of(record.kind()) == Kind::StrEmbedded
        && !embeds(record.key().len(), record.payload().len(), record.has_expiry())
    {
        record.set_kind(Kind::StrRaw as u8);
    }
    record
}

/// As [`edit_text`], with all bytes in one place: for strings that are made, or that are short by
/// their nature. O(length) if the string is in pieces, or while someone else holds a long one.
pub fn edit(record: Record, len: usize, change: impl FnOnce(&mut [u8])) -> Record {
    let mut record = match Form::of(&record) {
        Some(Form::Inline) if len <= record.payload().len() => {
            let mut record = seen_as_edited(record);
            change(record.payload_mut());
            return record;
        }
        Some(Form::Int) => {
            let mut room = Digits::new();
            let text = room.format(read_int(record.payload())).as_bytes();
            record.replace_payload(Kind::StrRaw as u8, text)
        }
        Some(Form::Inline | Form::Blob) => record,
        Some(Form::Pieces) => gathered(record),
        None => unreachable!("the caller has seen a string"),
    };
    let len = len.max(Str::of(&record).map_or(0, Str::len));
    if Kind::of(record.kind()) != Kind::StrBlob && len > INLINE_MAX {
        let long = zero_extended(record.payload(), len);
        record = record.replace_payload(Kind::StrBlob as u8, &blob::store(Blob::new(long)));
    }
    if Kind::of(record.kind()) == Kind::StrBlob {
        // SAFETY: a StrBlob payload was made by blob::store and the record keeps it.
        unsafe {
            blob::edit(record.payload_mut(), size_class(len), |bytes| {
                if is_far(len, bytes.capacity()) {
                    *bytes = zero_extended(bytes, len);
                } else {
                    reserve(bytes, len);
                    bytes.resize(len, 0);
                }
                change(bytes);
            })
        }
        return record;
    }
    record = record.resize_payload(len);
    record.set_kind(Kind::StrRaw as u8);
    change(record.payload_mut());
    record
}

/// Edits the bytes of a string: grows it to `len` bytes with zeros (never shrinks it) and lets
/// `change` write into it. The encoding that clients see becomes `raw`. O(1) for each place that is
/// written, whoever else holds the string, and for growth: a large string is edited in
/// [pieces](super::pieces). Whoever holds it keeps the old bytes.
pub fn edit_text(record: Record, len: usize, change: impl FnOnce(TextMut<'_>)) -> Record {
    let mut record = match in_pieces(record, len) {
        Ok(record) => record,
        Err(record) => return edit(record, len, |bytes| change(TextMut::Whole(bytes))),
    };
    let pieces = pieces_mut(&mut record);
    pieces.grow(len);
    change(TextMut::Pieces(&mut *pieces));
    pieces.put_back();
    settled(record)
}

/// The record with its string in pieces, if it is to be edited so when it is made `len` bytes long;
/// else as it was.
fn in_pieces(record: Record, len: usize) -> Result<Record, Record> {
    let pieces = match Form::of(&record) {
        Some(Form::Pieces) => return Ok(record),
        Some(Form::Inline) if len > PIECED_FROM => Pieces::beginning_with(record.payload(), len),
        Some(Form::Int) if len > PIECED_FROM => {
            let mut room = Digits::new();
            Pieces::beginning_with(room.format(read_int(record.payload())).as_bytes(), len)
        }
        Some(Form::Blob) if is_pieced(&record, len) => {
            // SAFETY: a StrBlob payload was made by blob::store and the record keeps it. The
            // reference is taken over: the payload is exchanged, and not released, next.
            let base = unsafe { blob::take(record.payload()) };
            let payload = boxed::store(Box::new(Pieces::of_base(base)));
            return Ok(record.exchange_payload(Kind::StrPieces as u8, &payload));
        }
        Some(Form::Inline | Form::Int | Form::Blob) => return Err(record),
        None => unreachable!("the caller has seen a string"),
    };
    Ok(record.replace_payload(Kind::StrPieces as u8, &boxed::store(Box::new(pieces))))
}

/// Whether a long string in one place is edited in pieces when it is made `len` bytes long.
fn is_pieced(record: &Record, len: usize) -> bool {
    // SAFETY: a StrBlob payload was made by blob::store and the record keeps it.
    let bytes = unsafe { blob::view(record.payload()) };
    // SAFETY: as above.
    let is_shared = || unsafe { blob::is_shared(record.payload()) };
    bytes.len().max(len) > PIECED_FROM && (len > bytes.capacity() || is_shared())
}

pub(super) fn pieces_mut(record: &mut Record) -> &mut Pieces {
    debug_assert_eq!(Kind::of(record.kind()), Kind::StrPieces);
    // SAFETY: a StrPieces payload was made by boxed::store of that type and the record keeps it.
    unsafe { boxed::view_mut(record.payload_mut()) }
}

/// The record with its string in one place again, if all pieces are back there.
fn settled(mut record: Record) -> Record {
    match pieces_mut(&mut record).whole_base().cloned() {
        Some(base) => record.replace_payload(Kind::StrBlob as u8, &blob::store(base)),
        None => record,
    }
}

/// The record with its string in one place. O(length) if it is in pieces.
pub fn gathered(record: Record) -> Record {
    match Str::of(&record) {
        Some(Str::Pieces(pieces)) => {
            let whole = Blob::new(pieces.to_vec());
            record.replace_payload(Kind::StrBlob as u8, &blob::store(whole))
        }
        Some(Str::Bytes(_) | Str::Int(_) | Str::Blob(_)) | None => record,
    }
}

/// As [`edit`], of a string that has `len` bytes or more in its record: `None`, and nothing has changed,
/// with any other value. O(1) beside `change`.
#[inline]
pub fn edit_in_place<T>(
    record: &mut RecordMut<'_>,
    len: usize,
    change: impl FnOnce(&mut [u8]) -> T,
) -> Option<T> {
    if Form::of(record)? != Form::Inline || record.payload().len() < len {
        return None;
    }
    if Kind::of(record.kind()) != Kind::StrRaw {
        record.set_kind(Kind::StrRaw as u8);
    }
    Some(change(record.payload_mut()))
}

/// Adds `tail` to the end of a string. Otherwise as [`edit_text`].
pub fn append(mut record: Record, tail: &[u8]) -> Record {
    let end = Str::of(&record).map_or(0, Str::len);
    let is_whole =
        Kind::of(record.kind()) == Kind::StrBlob && !is_pieced(&record, end + tail.len());
    if !is_whole {
        return edit_text(record, end + tail.len(), |mut text| text.write(end, tail));
    }
    let room = size_class(end + tail.len());
    // SAFETY: a StrBlob payload was made by blob::store and the record keeps it.
    unsafe {
        blob::edit(record.payload_mut(), room, |bytes| {
            reserve(bytes, end + tail.len());
            bytes.extend_from_slice(tail);
        });
    }
    record
}

/// A record of `key` with these bytes that is seen as one that was edited.
pub fn record_edited(key: &[u8], bytes: &[u8], expiry: Option<i64>, clock: u32) -> Record {
    seen_as_edited(record_text(key, bytes, expiry, clock))
}

/// A record of `key` with a string of `len` zeros, to which `fill` gives what it is to be, seen as
/// one that was edited. O(length).
pub fn record_filled(key: &[u8], len: usize, clock: u32, fill: impl FnOnce(&mut [u8])) -> Record {
    if len <= INLINE_MAX {
        return Record::new(key, None, Kind::StrRaw as u8, clock, len, fill);
    }
    edit(record_text(key, b"", None, clock), len, fill)
}

/// `record` with the encoding that clients see of a string that was edited, though it has not been:
/// for commands that make a string their own before they know whether they will change it.
pub fn seen_as_edited(mut record: Record) -> Record {
    if Kind::of(record.kind()) == Kind::StrEmbedded {
        record.set_kind(Kind::StrRaw as u8);
    }
    record
}

/// Puts `bytes` in the place of those of a string; otherwise as [`edit`]. O(length).
pub fn rewrite(record: Record, bytes: &[u8]) -> Record {
    debug_assert!(Form::of(&record).is_some(), "the caller has seen a string");
    if Str::of(&record).is_some_and(|old| !matches!(old, Str::Int(_)) && old.len() == bytes.len()) {
        return edit(record, 0, |old| old.copy_from_slice(bytes));
    }
    if bytes.len() <= INLINE_MAX {
        return record.replace_payload(Kind::StrRaw as u8, bytes);
    }
    record.replace_payload(Kind::StrBlob as u8, &blob::store(Blob::new(bytes.to_vec())))
}

/// Puts `with` in the place of the bytes at `range` of a string that is no integer, and lets `change`
/// write into all that there is then; otherwise as [`edit`]. O(length), and where a record grows by
/// a few bytes mostly those behind the range.
///
/// # Panics
///
/// If the string ends before the range.
pub fn splice(
    mut record: Record,
    range: Range<usize>,
    with: &[u8],
    change: impl FnOnce(&mut [u8]),
) -> Record {
    debug_assert!(Form::of(&record).is_some_and(|form| form != Form::Int), "such a string");
    let old = Str::of(&record).map_or(0, Str::len);
    let (end, len) = (range.start + with.len(), old - range.len() + with.len());
    if Kind::of(record.kind()) == Kind::StrBlob || len > INLINE_MAX {
        let mut bytes =
            Str::of(&record).map_or(Vec::new(), |text| text.bytes(&mut Digits::new()).to_vec());
        drop(bytes.splice(range, with.iter().copied()));
        change(&mut bytes);
        return rewrite(record, &bytes);
    }
    if !record.splice_in_place(range.clone(), with) {
        if len > old {
            record = record.resize_payload(len);
        }
        let bytes = record.payload_mut();
        bytes.copy_within(range.end..old, end);
        bytes[range.start..end].copy_from_slice(with);
        if len < old {
            record = record.resize_payload(len);
        }
    }
    let mut record = seen_as_edited(record);
    change(record.payload_mut());
    record
}

/// As [`splice`], of a string in its record that has the room there: false, and nothing has changed, with any
/// other value. O(bytes behind the range).
///
/// # Panics
///
/// If such a string ends before the range.
#[inline]
pub fn splice_in_place(
    record: &mut RecordMut<'_>,
    range: Range<usize>,
    with: &[u8],
    change: impl FnOnce(&mut [u8]),
) -> bool {
    if Form::of(record) != Some(Form::Inline) {
        return false;
    }
    let len = record.payload().len() - range.len() + with.len();
    len <= INLINE_MAX
        && record.splice_in_place(range, with)
        && edit_in_place(record, 0, change).is_some()
}

/// About how many bytes [`edit_text`] and [`append`] copy or clear to make the string of `record` `len`
/// bytes long and to write at one place, beside what they are told to write: all that a short one
/// has, when it is moved, and a piece or three of a large one. O(1).
pub fn edit_work(record: &Record, len: usize) -> usize {
    match Str::of(record) {
        Some(Str::Bytes(_) | Str::Int(_)) | None => 0,
        Some(Str::Pieces(pieces)) => pieces.edit_work(len),
        Some(Str::Blob(_)) if is_pieced(record, len) => PIECE,
        Some(Str::Blob(_)) => {
            // SAFETY: a StrBlob payload was made by blob::store and the record keeps it.
            let bytes = unsafe { blob::view(record.payload()) };
            // SAFETY: as above.
            let shared = unsafe { blob::is_shared(record.payload()) };
            let copied = if shared || len > bytes.capacity() { bytes.len() } else { 0 };
            let far = is_far(len, bytes.capacity());
            copied + if far { 0 } else { len.saturating_sub(bytes.len()) }
        }
    }
}

/// About how many bytes [`edit_text`] copies for each place that it writes at after the first one. O(1).
pub fn place_work(record: &Record) -> usize {
    match Str::of(record) {
        Some(Str::Bytes(_) | Str::Int(_)) | None => 0,
        Some(Str::Pieces(_)) => PIECE,
        Some(Str::Blob(_)) if is_pieced(record, 0) => PIECE,
        Some(Str::Blob(_)) => 0,
    }
}

/// Whether a string with room for `capacity` bytes that is to have `len` had better be made of
/// fresh zeros.
fn is_far(len: usize, capacity: usize) -> bool {
    len > 2 * capacity
}

/// Makes room for `len` bytes in all, and for what the allocator gives with them.
fn reserve(bytes: &mut Vec<u8>, len: usize) {
    if len > bytes.capacity() {
        bytes.reserve_exact(size_class(len) - bytes.len());
    }
}

/// `bytes` and zeros up to `len`. The zeros of a large vector come from the operating system
/// page by page when they are touched, so that a far SETRANGE does not stop to write them.
fn zero_extended(bytes: &[u8], len: usize) -> Vec<u8> {
    let mut long = vec![0; size_class(len)];
    long[..bytes.len()].copy_from_slice(bytes);
    long.truncate(len);
    long
}

#[cfg(test)]
mod tests {
    use super::super::{memory, share};
    use super::*;

    fn seen(r: &Record) -> (&'static str, Vec<u8>) {
        let bytes = Str::of(r).unwrap().bytes(&mut Digits::new()).to_vec();
        (Kind::of(r.kind()).encoding_name(), bytes)
    }

    #[test]
    fn encodings() {
        for (value, encoding) in [
            (b"12".to_vec(), "int"),
            (b"-9223372036854775808".to_vec(), "int"),
            (b"9223372036854775808".to_vec(), "embstr"),
            (b"012".to_vec(), "embstr"),
            (b"-0".to_vec(), "embstr"),
            (vec![], "embstr"),
            (vec![b'x'; 112], "embstr"),
            (vec![b'x'; 113], "raw"),
            (vec![b'x'; INLINE_MAX], "raw"),
            (vec![b'x'; INLINE_MAX + 1], "raw"),
        ] {
            let r = record(b"k", New::Bytes(&value), None, 0);
            assert_eq!(seen(&r), (encoding, value.clone()));
            let kept = record(b"k", New::Blob(Blob::new(value.clone())), None, 0);
            assert_eq!(seen(&kept), (encoding, value));
        }
        assert_eq!(seen(&record_text(b"k", b"12", None, 0)), ("embstr", b"12".to_vec()));
    }

    #[test]
    fn rewritten_strings_are_seen_as_edited() {
        let long = vec![b'l'; INLINE_MAX + 1];
        let longer = vec![b'm'; INLINE_MAX + 9];
        for old in [b"12".to_vec(), b"abc".to_vec(), long.clone(), longer.clone()] {
            for new in
                [b"ab".to_vec(), b"34".to_vec(), b"xyz".to_vec(), long.clone(), longer.clone()]
            {
                let before = record(b"k", New::Bytes(&old), Some(5), 0);
                let held = share(&before);
                let r = rewrite(before, &new);
                assert_eq!((seen(&r), r.expiry()), (("raw", new), Some(5)));
                assert!(held.is_none_or(|held| *held == old), "who holds the old bytes keeps them");
            }
        }
        assert_eq!(seen(&seen_as_edited(record_text(b"k", b"a", None, 0))).0, "raw");
        assert_eq!(seen(&seen_as_edited(record_int(b"k", 1, None, 0))).0, "int");
        assert_eq!(seen(&record_edited(b"k", &long, None, 0)), ("raw", long));
    }

    #[test]
    fn an_expiry_takes_room() {
        let value = vec![b'v'; 110];
        let r = record(b"k", New::Bytes(&value), None, 0);
        assert_eq!(seen(&r).0, "embstr");
        let r = refit(r.with_expiry(Some(1)));
        assert_eq!(seen(&r).0, "raw");
        let r = refit(r.with_expiry(None));
        assert_eq!(seen(&r).0, "raw", "what was taken out stays out");
        let r = replacement(&r.with_expiry(Some(1)), New::Bytes(&value), None, 0);
        assert_eq!((seen(&r).0, r.expiry()), ("raw", None));
        let r = replacement(&r, New::Bytes(&value), None, 0);
        assert_eq!(seen(&r).0, "embstr");
    }

    fn overwritten(old: Record, value: &[u8], expiry: Option<i64>) -> (bool, Record) {
        in_table(old, |old| overwrite(old, &New::Bytes(value), expiry))
    }

    #[test]
    fn editing_in_place_is_editing_or_nothing() {
        let long = vec![b'x'; INLINE_MAX + 1];
        for (old, len, want) in [
            (&b"abc"[..], 3, true),
            (b"abc", 1, true),
            (b"abc", 4, false),
            (b"", 0, true),
            (b"123", 1, false),
            (&long, 1, false),
        ] {
            let change = |bytes: &mut [u8]| {
                bytes.iter_mut().last().into_iter().for_each(|last| *last = b'!');
                bytes.len()
            };
            let before = record(b"k", New::Bytes(old), Some(5), 7);
            let seen_before = seen(&before);
            let (done, r) = in_table(before, |old| edit_in_place(old, len, change));
            assert_eq!(done, want.then_some(old.len()), "{old:?} {len}");
            match want {
                true => assert_eq!(
                    seen(&r),
                    seen(&edit(record_text(b"k", old, None, 0), 0, |bytes| _ = change(bytes)))
                ),
                false => assert_eq!(seen(&r), seen_before),
            }
            assert_eq!((r.expiry(), r.clock()), (Some(5), 7));
        }
    }

    /// A table is the only place to get a [`RecordMut`] from.
    fn in_table<T>(old: Record, act: impl FnOnce(&mut RecordMut<'_>) -> T) -> (T, Record) {
        #[derive(Clone, Copy)]
        struct Zero;
        impl weft_table::KeyHasher for Zero {
            fn hash(&self, _key: &[u8]) -> u64 {
                0
            }
        }
        let key = old.key().to_vec();
        let mut table = weft_table::Table::<crate::Values, Zero>::new(Zero);
        let mut table = table.get_mut();
        table.insert(0, old);
        let mut slot = table.find_mut(0, &key).unwrap();
        let done = act(&mut slot.record_mut());
        (done, slot.remove())
    }

    #[test]
    fn overwriting_keeps_the_shape_or_refuses() {
        /// Old value and expiry, new value and expiry, whether it is written in place.
        type Case<'a> = (&'a [u8], Option<i64>, &'a [u8], Option<i64>, bool);
        let long = vec![b'x'; INLINE_MAX + 1];
        let cases: [Case<'_>; 11] = [
            (b"abc", None, b"xyz", None, true),
            (b"abc", None, b"wxyz", None, false),
            (b"abc", None, b"123", None, false),
            (b"abc", None, b"012", None, true),
            (b"abc", Some(5), b"xyz", Some(9), true),
            (b"abc", Some(5), b"xyz", None, false),
            (b"abc", None, b"xyz", Some(9), false),
            (b"5", None, b"-1234567", None, true),
            (b"5", None, b"x", None, false),
            (b"12345678", None, b"abcdefgh", None, false),
            (&long, None, &long, None, false),
        ];
        for (old, had, new, expiry, want) in cases {
            let (done, r) = overwritten(record(b"k", New::Bytes(old), had, 7), new, expiry);
            assert_eq!(done, want, "{old:?} {new:?}");
            let (value, at) = if want { (new, expiry) } else { (old, had) };
            assert_eq!((seen(&r).1, r.expiry(), r.clock()), (value.to_vec(), at, 7));
        }
    }

    #[test]
    fn overwriting_an_edited_value_embeds_it_again() {
        let edited = edit(record(b"k", New::Bytes(b"abc"), None, 0), 3, |_| {});
        assert_eq!(seen(&edited).0, "raw");
        assert_eq!(seen(&overwritten(edited, b"xyz", None).1).0, "embstr");
    }

    #[test]
    fn splicing_is_that_of_vectors() {
        let ends = [0, 1, 5, 14, 15, 16, 40, 4090, INLINE_MAX, INLINE_MAX + 1];
        let mut in_place = 0;
        for len in ends {
            let old: Vec<u8> = (0..len).map(|n| n as u8).collect();
            for (from, to) in [(0, 0), (0, 1), (3, 5), (len / 2, len), (len, len)] {
                for with in [0, 1, 2, 3, 10, 30, 5000] {
                    let (to, with) = (to.min(len), vec![b'w'; with]);
                    let range = from.min(to)..to;
                    let mut want = old.clone();
                    drop(want.splice(range.clone(), with.iter().copied()));
                    want.iter_mut().last().into_iter().for_each(|last| *last = b'!');
                    let mark_last = |bytes: &mut [u8]| {
                        bytes.iter_mut().last().into_iter().for_each(|last| *last = b'!');
                    };
                    let before = record_text(b"k", &old, Some(5), 3);
                    let held = share(&before);
                    let r = splice(before, range.clone(), &with, mark_last);
                    // Where the record is, the same or nothing.
                    let before = record_text(b"k", &old, Some(5), 3);
                    let seen_before = seen(&before);
                    let (done, there) =
                        in_table(before, |record| splice_in_place(record, range, &with, mark_last));
                    assert_eq!(seen(&there), if done { seen(&r) } else { seen_before });
                    in_place += usize::from(done);
                    assert_eq!((seen(&r), r.expiry(), r.clock()), (("raw", want), Some(5), 3));
                    assert!(held.is_none_or(|held| *held == old), "it must not change");
                }
            }
        }
        assert!(in_place > 50, "{in_place}");
    }

    #[test]
    fn records_that_are_filled() {
        for len in [0, 1, 126, INLINE_MAX, INLINE_MAX + 1, 1 << 20] {
            let r = record_filled(b"k", len, 7, |bytes| {
                assert!(bytes.len() == len && bytes.iter().all(|byte| *byte == 0));
                bytes.iter_mut().last().into_iter().for_each(|last| *last = b'!');
            });
            let mut want = vec![0; len.saturating_sub(1)];
            want.resize(len, b'!');
            assert_eq!((seen(&r), r.clock(), r.expiry()), (("raw", want), 7, None), "{len}");
        }
    }

    #[test]
    fn edits_cross_every_encoding() {
        let mut want = b"10".to_vec();
        let mut r = record(b"k", New::Bytes(&want), Some(5), 0);
        for step in [0usize, 1, 10, 100, 4000, 100, 5000, 100_000, 0, 1] {
            let (old, len) = (want.len(), want.len() + step);
            want.resize(len, b'a');
            let held = share(&r);
            r = edit(r, len, |b| b[old..].fill(b'a'));
            assert_eq!(seen(&r), ("raw", want.clone()));
            assert!(held.is_none_or(|h| h.len() == old), "a shared value must not change");
            assert_eq!(r.expiry(), Some(5));
            assert!(memory(&r) >= len);
        }
    }

    /// A string grows by the allocator's steps: what it holds beyond its length is what the
    /// allocator would hold for it, and moves are few.
    #[test]
    fn growth_takes_no_more_than_the_allocator_gives() {
        let room = |r: &Record| match Form::of(r) {
            // SAFETY: a StrBlob payload was made by blob::store and the record keeps it.
            Some(Form::Blob) => unsafe { blob::view(r.payload()).capacity() },
            _ => 0,
        };
        let mut r = record(b"k", New::Bytes(&[b'x'; 5000]), None, 0);
        r = append(r, b"y");
        assert_eq!(room(&r), 5120);
        let (mut moves, mut last, mut work) = (0, room(&r), 0);
        while Str::of(&r).unwrap().len() < 4 << 20 {
            let len = Str::of(&r).unwrap().len();
            work += edit_work(&r, len + 100);
            r = append(r, &[b'z'; 100]);
            moves += usize::from(room(&r) != last);
            last = room(&r);
            assert!(last <= (len + 100) * 5 / 4, "{last} for {len}");
            // Beyond that in pieces: the last one, which is not full, and what stands around them.
            assert!(memory(&r) <= (len + 100) * 5 / 4 + PIECE + 4000, "{} for {len}", memory(&r));
        }
        assert!(moves <= 41, "four to a doubling, and not {moves}");
        assert!(work < 8 * (4 << 20), "{work} bytes were moved or cleared");
        let text = Str::of(&r).unwrap().bytes(&mut Digits::new()).to_vec();
        assert!(text.starts_with(&[b'x'; 5000]) && text[5000] == b'y' && text.ends_with(b"zz"));

        // Far beyond its end, and one byte beyond.
        let r = edit(r, 40 << 20, |_| {});
        assert_eq!(room(&r), 40 << 20);
        let at = share(&r).unwrap().as_ptr();
        let r = append(r, b"x");
        let mut parts = Vec::new();
        let Some(Str::Pieces(pieces)) = Str::of(&r) else { panic!("in pieces") };
        pieces.share(|blob, part| parts.push((blob.as_ptr(), part)));
        assert_eq!(parts[0], (at, 0..40 << 20), "nothing is moved");
        assert!(parts.len() == 2 && memory(&r) <= (40 << 20) + PIECE + 4000);
    }

    #[test]
    fn a_shared_string_is_work() {
        let r = append(record(b"k", New::Bytes(&[b'x'; 5000]), None, 0), b"y");
        assert_eq!((edit_work(&r, 5001), edit_work(&r, 5002)), (0, 1));
        let held = share(&r).unwrap();
        assert_eq!((edit_work(&r, 5001), edit_work(&r, 5002)), (5001, 5002));
        let r = append(r, b"z");
        assert_eq!((held.len(), seen(&r).1.len(), edit_work(&r, 5003)), (5001, 5002, 1));
        drop(held);
        assert_eq!(edit_work(&r, 6000), 5002 + 998);
        assert_eq!(edit_work(&r, 60_000), 5002);
    }

    #[test]
    fn editing_never_shrinks_and_fills_with_zeros() {
        let r = edit(record(b"k", New::Bytes(b"abcdef"), None, 0), 2, |b| b[1] = b'X');
        assert_eq!(seen(&r).1, b"aXcdef");
        let r = edit(r, 8, |b| b[7] = b'!');
        assert_eq!(seen(&r).1, b"aXcdef\0!");
        let r = edit(r, 3 * INLINE_MAX, |_| {});
        assert!(seen(&r).1[8..].iter().all(|b| *b == 0));
    }
}

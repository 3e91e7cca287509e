//! Makes string records and changes them in place.
//!
//! A caller tries the cheapest way first. [`overwrite`] writes over the old value if the new one
//! has the same shape, which needs no allocation. Otherwise [`replacement`] makes a new record, and
//! the caller disposes of the old one, which may have any type and size. [`edit_text`] (SETRANGE,
//! SETBIT) and [`append`] keep most of a value: the record grows in place, and a long string is
//! copied first only while a reply or a snapshot shares it. A string of more than [`PIECED_FROM`]
//! bytes is neither copied nor moved, but changed in [pieces](super::pieces).
//!
//! A shorter string that grows gets the allocator's next [size class](size_class) and no more:
//! memory that the allocator would reserve for it anyway. A doubling has four classes, so a string
//! that grows in small parts is moved each time it has grown by about a fifth. [`edit_work`]
//! estimates the cost of an edit in advance.

use super::pieces::{PIECE, PIECED_FROM, Pieces};
use super::{Blob, Digits, Form, INLINE_MAX, Str, TextMut, blob, canonical_int, embeds, read_int};
use crate::{Kind, Record, RecordMut, boxed};
use std::ops::Range;
use weft_table::size_class;

/// A value to store: bytes to copy, or a long string to share.
#[derive(Clone, Debug)]
pub enum New<'a> {
    Bytes(&'a [u8]),
    Blob(Blob),
}

impl New<'_> {
    /// The bytes to store.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        match self {
            New::Bytes(b) => b,
            New::Blob(b) => b,
        }
    }
}

/// The kind of a newly written string of `len` bytes in the record.
#[inline]
fn inline_kind(key_len: usize, len: usize, expiring: bool) -> Kind {
    if embeds(key_len, len, expiring) { Kind::StrEmbedded } else { Kind::StrRaw }
}

/// A record of `key` with the string `value`, in the smallest encoding: the result of SET. `expiry`
/// is in Unix milliseconds; `clock` is as in [`Record::clock`]. O(length), or O(1) for a long
/// string that is shared.
#[inline]
pub fn record(key: &[u8], value: New<'_>, expiry: Option<i64>, clock: u32) -> Record {
    match canonical_int(value.bytes()) {
        Some(n) => record_int(key, n, expiry, clock),
        None => text(key, value, expiry, expiry.is_some(), clock),
    }
}

/// A record of `key` with these bytes, not stored as an integer even if they represent one.
pub fn record_text(key: &[u8], bytes: &[u8], expiry: Option<i64>, clock: u32) -> Record {
    text(key, New::Bytes(bytes), expiry, expiry.is_some(), clock)
}

/// The record that replaces `old` when its key is set to `value`. Differs from [`record`] in a
/// detail that clients can see: the expiry of the old value still counts when deciding whether the
/// new one is embedded, even if it is removed.
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

/// Writes `value` over the string of `old` if that needs no allocation: both are bytes of the same
/// length, or both are integers, and an expiry is neither added nor removed. Returns whether it was
/// written; if not, nothing has changed. The access clock stays.
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

/// Overwrites an integer with `n`; its expiry and clock stay. Returns `false` and changes nothing
/// if `old` is not stored as an integer.
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

/// Updates the encoding that clients see after the key or the expiry of `record` has changed. An
/// embedded string that no longer fits becomes `raw` and stays so. Other records are unchanged.
pub fn refit(mut record: Record) -> Record {
    if Kind::of(record.kind()) == Kind::StrEmbedded
        && !embeds(record.key().len(), record.payload().len(), record.has_expiry())
    {
        record.set_kind(Kind::StrRaw as u8);
    }
    record
}

/// Like [`edit_text`], but passes all bytes in one place: for strings that are new, or short by
/// nature. O(length) if the string is in pieces, or if it is long and shared.
pub fn edit(record: Record, len: usize, change: impl FnOnce(&mut [u8])) -> Record {
    let mut record = match Form::of(&record) {
        Some(Form::Inline) if len <= record.payload().len() => {
            let mut record = mark_edited(record);
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
        None => unreachable!("the caller checked that it is a string"),
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
                if needs_fresh_zeros(len, bytes.capacity()) {
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

/// Edits the bytes of a string: extends it to `len` bytes with zeros (never shrinks it) and lets
/// `change` write into it. Clients then see the encoding `raw`. A shared large string is edited in
/// [pieces](super::pieces), and its holders keep the old bytes. O(1) for growth and for each
/// written place, even if it is shared.
pub fn edit_text(record: Record, len: usize, change: impl FnOnce(TextMut<'_>)) -> Record {
    let mut record = match try_into_pieces(record, len) {
        Ok(record) => record,
        Err(record) => return edit(record, len, |bytes| change(TextMut::Whole(bytes))),
    };
    let pieces = pieces_mut(&mut record);
    pieces.grow(len);
    change(TextMut::Pieces(&mut *pieces));
    pieces.put_back();
    restore_blob(record)
}

/// Puts the string in pieces if an edit that makes it `len` bytes long needs that. Otherwise
/// returns the record unchanged as `Err`.
fn try_into_pieces(record: Record, len: usize) -> Result<Record, Record> {
    let pieces = match Form::of(&record) {
        Some(Form::Pieces) => return Ok(record),
        Some(Form::Inline) if len > PIECED_FROM => Pieces::beginning_with(record.payload(), len),
        Some(Form::Int) if len > PIECED_FROM => {
            let mut room = Digits::new();
            Pieces::beginning_with(room.format(read_int(record.payload())).as_bytes(), len)
        }
        Some(Form::Blob) if is_pieced(&record, len) => {
            // SAFETY: a StrBlob payload was made by blob::store and the record keeps it. The
            // reference moves to `base`: the payload is exchanged next, not released.
            let base = unsafe { blob::take(record.payload()) };
            let payload = boxed::store(Box::new(Pieces::of_base(base)));
            return Ok(record.exchange_payload(Kind::StrPieces as u8, &payload));
        }
        Some(Form::Inline | Form::Int | Form::Blob) => return Err(record),
        None => unreachable!("the caller checked that it is a string"),
    };
    Ok(record.replace_payload(Kind::StrPieces as u8, &boxed::store(Box::new(pieces))))
}

/// Whether a long string in one place is put in pieces when an edit makes it `len` bytes long.
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

/// The record, with its string in one place again if all pieces were put back.
fn restore_blob(mut record: Record) -> Record {
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

/// Like [`edit`], for a string in its record with at least `len` bytes. Returns `None` and changes
/// nothing for any other value. O(1) plus the cost of `change`.
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

/// Appends `tail` to a string. Otherwise like [`edit_text`].
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

/// A record of `key` with these bytes and the encoding of an edited string.
pub fn record_edited(key: &[u8], bytes: &[u8], expiry: Option<i64>, clock: u32) -> Record {
    mark_edited(record_text(key, bytes, expiry, clock))
}

/// A record of `key` with a string of `len` bytes that `fill` writes over zeros, with the encoding
/// of an edited string. O(length).
pub fn record_filled(key: &[u8], len: usize, clock: u32, fill: impl FnOnce(&mut [u8])) -> Record {
    if len <= INLINE_MAX {
        return Record::new(key, None, Kind::StrRaw as u8, clock, len, fill);
    }
    edit(record_text(key, b"", None, clock), len, fill)
}

/// Gives `record` the encoding of an edited string without an edit: for commands that, in Valkey,
/// unshare a string before they know whether they will change it.
pub fn mark_edited(mut record: Record) -> Record {
    if Kind::of(record.kind()) == Kind::StrEmbedded {
        record.set_kind(Kind::StrRaw as u8);
    }
    record
}

/// Replaces the bytes of a string with `bytes`. Otherwise like [`edit`]. O(length).
pub fn rewrite(record: Record, bytes: &[u8]) -> Record {
    debug_assert!(Form::of(&record).is_some(), "the caller checked that it is a string");
    if Str::of(&record).is_some_and(|old| !matches!(old, Str::Int(_)) && old.len() == bytes.len()) {
        return edit(record, 0, |old| old.copy_from_slice(bytes));
    }
    if bytes.len() <= INLINE_MAX {
        return record.replace_payload(Kind::StrRaw as u8, bytes);
    }
    record.replace_payload(Kind::StrBlob as u8, &blob::store(Blob::new(bytes.to_vec())))
}

/// Replaces the bytes at `range` of a string, which must not be an integer, with `with`, then lets
/// `change` write into the result. Otherwise like [`edit`]. O(length); if a record grows by a few
/// bytes, mostly O(bytes after the range).
///
/// # Panics
///
/// If the range is not in the string.
pub fn splice(
    mut record: Record,
    range: Range<usize>,
    with: &[u8],
    change: impl FnOnce(&mut [u8]),
) -> Record {
    debug_assert!(
        Form::of(&record).is_some_and(|form| form != Form::Int),
        "a string that is not an integer"
    );
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
    let mut record = mark_edited(record);
    change(record.payload_mut());
    record
}

/// Like [`splice`], for a string in its record that has enough room there. Returns false and
/// changes nothing for any other value. O(bytes after the range).
///
/// # Panics
///
/// If the value is such a string and the range is not in it.
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

/// Approximate bytes that [`edit_text`] and [`append`] copy or clear, in addition to the new bytes,
/// if they make the string of `record` `len` bytes long and write at one place. That is all bytes
/// of a short string that moves, and one to three pieces of a large one. O(1).
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
            let far = needs_fresh_zeros(len, bytes.capacity());
            copied + if far { 0 } else { len.saturating_sub(bytes.len()) }
        }
    }
}

/// Approximate bytes that [`edit_text`] copies for each written place after the first one. O(1).
pub fn place_work(record: &Record) -> usize {
    match Str::of(record) {
        Some(Str::Bytes(_) | Str::Int(_)) | None => 0,
        Some(Str::Pieces(_)) => PIECE,
        Some(Str::Blob(_)) if is_pieced(record, 0) => PIECE,
        Some(Str::Blob(_)) => 0,
    }
}

/// Whether extending a string with capacity for `capacity` bytes to `len` should allocate fresh
/// zeros instead.
fn needs_fresh_zeros(len: usize, capacity: usize) -> bool {
    len > 2 * capacity
}

/// Reserves room for `len` bytes in all, rounded up to the allocator's size class.
fn reserve(bytes: &mut Vec<u8>, len: usize) {
    if len > bytes.capacity() {
        bytes.reserve_exact(size_class(len) - bytes.len());
    }
}

/// `bytes` and zeros up to `len`. The operating system provides the zeros of a large vector page by
/// page on first access, so a far SETRANGE need not write them.
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
    fn new_strings_get_the_smallest_encoding() {
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
    fn rewritten_strings_are_raw() {
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
                assert!(held.is_none_or(|held| *held == old), "a holder keeps the old bytes");
            }
        }
        assert_eq!(seen(&mark_edited(record_text(b"k", b"a", None, 0))).0, "raw");
        assert_eq!(seen(&mark_edited(record_int(b"k", 1, None, 0))).0, "int");
        assert_eq!(seen(&record_edited(b"k", &long, None, 0)), ("raw", long));
    }

    #[test]
    fn expiry_counts_for_embedding() {
        let value = vec![b'v'; 110];
        let r = record(b"k", New::Bytes(&value), None, 0);
        assert_eq!(seen(&r).0, "embstr");
        let r = refit(r.with_expiry(Some(1)));
        assert_eq!(seen(&r).0, "raw");
        let r = refit(r.with_expiry(None));
        assert_eq!(seen(&r).0, "raw", "raw strings stay raw");
        let r = replacement(&r.with_expiry(Some(1)), New::Bytes(&value), None, 0);
        assert_eq!((seen(&r).0, r.expiry()), ("raw", None));
        let r = replacement(&r, New::Bytes(&value), None, 0);
        assert_eq!(seen(&r).0, "embstr");
    }

    fn overwritten(old: Record, value: &[u8], expiry: Option<i64>) -> (bool, Record) {
        in_table(old, |old| overwrite(old, &New::Bytes(value), expiry))
    }

    #[test]
    fn edit_in_place_matches_edit_or_changes_nothing() {
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

    /// Only a table gives out a [`RecordMut`].
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
    fn overwrite_requires_the_same_shape() {
        /// Old value and expiry, new value and expiry, whether `overwrite` succeeds.
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
    fn overwriting_edited_value_embeds_it() {
        let edited = edit(record(b"k", New::Bytes(b"abc"), None, 0), 3, |_| {});
        assert_eq!(seen(&edited).0, "raw");
        assert_eq!(seen(&overwritten(edited, b"xyz", None).1).0, "embstr");
    }

    #[test]
    fn splicing_matches_a_vector() {
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
                    // In place, the result is the same or the value is unchanged.
                    let before = record_text(b"k", &old, Some(5), 3);
                    let seen_before = seen(&before);
                    let (done, there) =
                        in_table(before, |record| splice_in_place(record, range, &with, mark_last));
                    assert_eq!(seen(&there), if done { seen(&r) } else { seen_before });
                    in_place += usize::from(done);
                    assert_eq!((seen(&r), r.expiry(), r.clock()), (("raw", want), Some(5), 3));
                    assert!(held.is_none_or(|held| *held == old), "a shared value must not change");
                }
            }
        }
        assert!(in_place > 50, "{in_place}");
    }

    #[test]
    fn record_filled_starts_from_zeros() {
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
    fn edits_move_through_every_encoding() {
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

    /// A string grows by size classes of the allocator: its spare capacity is no more than the
    /// allocator would round up to, and it moves rarely.
    #[test]
    fn growth_stays_within_the_size_class() {
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
            // Larger strings are in pieces: the last piece is not full, and pages need memory.
            assert!(memory(&r) <= (len + 100) * 5 / 4 + PIECE + 4000, "{} for {len}", memory(&r));
        }
        assert!(moves <= 41, "expected four per doubling: {moves}");
        assert!(work < 8 * (4 << 20), "{work} bytes were moved or cleared");
        let text = Str::of(&r).unwrap().bytes(&mut Digits::new()).to_vec();
        assert!(text.starts_with(&[b'x'; 5000]) && text[5000] == b'y' && text.ends_with(b"zz"));

        // Grow far beyond the end, then by one byte.
        let r = edit(r, 40 << 20, |_| {});
        assert_eq!(room(&r), 40 << 20);
        let at = share(&r).unwrap().as_ptr();
        let r = append(r, b"x");
        let mut parts = Vec::new();
        let Some(Str::Pieces(pieces)) = Str::of(&r) else { panic!("in pieces") };
        pieces.share(|blob, part| parts.push((blob.as_ptr(), part)));
        assert_eq!(parts[0], (at, 0..40 << 20), "the base must not move");
        assert!(parts.len() == 2 && memory(&r) <= (40 << 20) + PIECE + 4000);
    }

    #[test]
    fn edit_work_includes_copying_a_shared_string() {
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
    fn edit_never_shrinks_and_extends_with_zeros() {
        let r = edit(record(b"k", New::Bytes(b"abcdef"), None, 0), 2, |b| b[1] = b'X');
        assert_eq!(seen(&r).1, b"aXcdef");
        let r = edit(r, 8, |b| b[7] = b'!');
        assert_eq!(seen(&r).1, b"aXcdef\0!");
        let r = edit(r, 3 * INLINE_MAX, |_| {});
        assert!(seen(&r).1[8..].iter().all(|b| *b == 0));
    }
}

//! Strings: short ones in the record itself, integers as eight bytes, long ones shared.
//!
//! ```text
//!  stored as            when                                       seen by clients as
//!  bytes in the record  up to INLINE_MAX, as first written         embstr, or raw: see `embeds`
//!  bytes in the record  up to INLINE_MAX, edited since             raw
//!  eight bytes          the canonical decimal form of an i64       int
//!  pointer to a Blob    longer than INLINE_MAX                     raw
//!  pointer to Pieces    longer than PIECED_FROM, edited since      raw
//! ```
//!
//! Key, metadata and a short value are one allocation. A long value is a [`Blob`], so replies and
//! snapshots can hold it without a copy, and a value read from a socket never moves again. A string
//! that is a canonical integer takes eight bytes, whatever its decimal length. A large string that
//! is edited while it is shared, or beyond its buffer, is kept in [`Pieces`] from then on.
//!
//! This file reads strings; [`write`](self::write) makes and changes them.

pub(crate) mod blob;
mod duplicate;
pub mod pieces;
#[cfg(test)]
mod pieces_tests;
mod text;
mod write;

use crate::counted::note_copy;
use crate::{Kind, Record, Type, boxed};
pub use blob::Blob;
pub use duplicate::duplicate;
pub use pieces::{PIECED_FROM, Pieces};
use std::borrow::Cow;
use std::ops::ControlFlow;
pub use text::{Text, TextMut};
pub use write::{
    New, append, edit, edit_in_place, edit_text, edit_work, gathered, mark_edited, overwrite,
    overwrite_int, place_work, record, record_blob, record_edited, record_filled, record_int,
    record_text, refit, replacement, rewrite, splice, splice_in_place,
};

/// The longest string whose bytes are stored in the record (bytes).
pub const INLINE_MAX: usize = 4096;

/// A string value as stored.
#[derive(Clone, Copy, Debug)]
pub enum Str<'a> {
    Bytes(&'a [u8]),
    Int(i64),
    /// [`share`] returns a new reference.
    Blob(&'a [u8]),
    /// Longer than [`PIECED_FROM`].
    Pieces(&'a Pieces),
}

/// Room for the decimal form of any `i64`.
pub type Digits = itoa::Buffer;

/// How a string is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Inline,
    Int,
    Blob,
    Pieces,
}

impl Form {
    /// `None` for the kinds of other types.
    #[inline]
    fn of(record: &Record) -> Option<Form> {
        match Kind::of(record.kind()) {
            Kind::StrEmbedded | Kind::StrRaw => Some(Form::Inline),
            Kind::StrInt => Some(Form::Int),
            Kind::StrBlob => Some(Form::Blob),
            Kind::StrPieces => Some(Form::Pieces),
            Kind::ListPacked | Kind::ListTwoWay | Kind::ListChunks => None,
            Kind::SetInts | Kind::SetPacked | Kind::SetTable => None,
            Kind::ZsetPacked | Kind::ZsetTree | Kind::HashPacked | Kind::HashTable => None,
            Kind::Stream => None,
        }
    }
}

impl<'a> Str<'a> {
    /// The string of `record`, or `None` when it holds another type.
    #[inline]
    pub fn of(record: &'a Record) -> Option<Str<'a>> {
        let payload = record.payload();
        Some(match Form::of(record)? {
            Form::Inline => Str::Bytes(payload),
            Form::Int => Str::Int(read_int(payload)),
            // SAFETY: a StrBlob payload was made by blob::store and the record keeps it.
            Form::Blob => Str::Blob(unsafe { blob::view(payload) }),
            // SAFETY: a StrPieces payload was made by boxed::store of that type, and the record
            // keeps it.
            Form::Pieces => Str::Pieces(unsafe { boxed::view(payload) }),
        })
    }

    /// The bytes; an integer is formatted into `room`.
    #[inline]
    pub fn text<'b>(self, room: &'b mut Digits) -> Text<'b>
    where
        'a: 'b,
    {
        match self {
            Str::Bytes(b) | Str::Blob(b) => Text::Whole(b),
            Str::Int(n) => Text::Whole(room.format(n).as_bytes()),
            Str::Pieces(pieces) => Text::Pieces(pieces),
        }
    }

    /// The bytes in one place, copied if they are in several: see [`Text::to_whole`].
    pub fn bytes<'b>(self, room: &'b mut Digits) -> Cow<'b, [u8]>
    where
        'a: 'b,
    {
        self.text(room).to_whole()
    }

    /// The integer that the string represents, if the string is its canonical decimal form.
    #[inline]
    pub fn int(self) -> Option<i64> {
        match self {
            Str::Int(n) => Some(n),
            Str::Bytes(b) | Str::Blob(b) => canonical_int(b),
            // Longer than any integer.
            Str::Pieces(_) => None,
        }
    }

    /// Length in bytes.
    pub fn len(self) -> usize {
        match self {
            Str::Bytes(b) | Str::Blob(b) => b.len(),
            Str::Int(n) => Digits::new().format(n).len(),
            Str::Pieces(pieces) => pieces.len(),
        }
    }

    pub fn is_empty(self) -> bool {
        self.len() == 0
    }
}

/// Whether `record` holds a string.
pub fn is_string(record: &Record) -> bool {
    Kind::of(record.kind()).type_of() == Type::String
}

/// A new reference to the long string of `record` if it is in one place; `None` for other kinds.
pub fn share(record: &Record) -> Option<Blob> {
    match Form::of(record)? {
        // SAFETY: a StrBlob payload was made by blob::store and the record keeps it.
        Form::Blob => Some(unsafe { blob::share(record.payload()) }),
        Form::Inline | Form::Int | Form::Pieces => None,
    }
}

/// Approximate number of allocations of the string in pieces of `record`.
pub(crate) fn pieces_of(record: &Record) -> usize {
    match Str::of(record) {
        Some(Str::Pieces(pieces)) => pieces.pieces(),
        Some(Str::Bytes(_) | Str::Int(_) | Str::Blob(_)) | None => 0,
    }
}

/// Bytes that a clone of a large string takes immediately, in addition to its record.
pub(crate) fn clone_memory(record: &Record) -> usize {
    match Str::of(record) {
        Some(Str::Pieces(pieces)) => pieces.clone_memory(),
        Some(Str::Bytes(_) | Str::Int(_) | Str::Blob(_)) | None => 0,
    }
}

/// See [`Shared::note_removed`](crate::Shared::note_removed).
#[cold]
pub(crate) fn note_removed(record: &Record) {
    let held = held_memory(record);
    if held > 0 {
        note_copy(held);
    }
}

/// Bytes of the large string of `record` that are shared. O(pages).
fn held_memory(record: &Record) -> usize {
    match Str::of(record) {
        // SAFETY: a StrBlob payload was made by blob::store and the record keeps it.
        Some(Str::Blob(bytes)) if unsafe { blob::is_shared(record.payload()) } => {
            if bytes.len() > PIECED_FROM { bytes.len() } else { 0 }
        }
        Some(Str::Pieces(pieces)) => pieces.held_memory(),
        Some(Str::Bytes(_) | Str::Int(_) | Str::Blob(_)) | None => 0,
    }
}

/// Whether an edit of the string of `record` copies only a part of it, even if it is shared.
pub(crate) fn is_shared_in_pieces(record: &Record) -> bool {
    match Str::of(record) {
        Some(Str::Bytes(_) | Str::Int(_)) | None => false,
        Some(Str::Blob(bytes)) => bytes.len() > PIECED_FROM,
        Some(Str::Pieces(_)) => true,
    }
}

/// Passes the parts of the string of `record` to `seen` until `seen` breaks, and releases pieces
/// while doing so.
pub(crate) fn pass<B>(
    record: &mut Record,
    mut seen: impl FnMut(&[u8]) -> ControlFlow<B>,
) -> ControlFlow<B> {
    if Form::of(record) == Some(Form::Pieces) {
        return write::pieces_mut(record).pass(seen);
    }
    let text = Str::of(record).expect("the record holds a string");
    text.text(&mut Digits::new()).all().try_for_each(&mut seen)
}

fn read_int(payload: &[u8]) -> i64 {
    i64::from_ne_bytes(payload.try_into().expect("an integer payload is eight bytes"))
}

/// Whether OBJECT ENCODING reports `embstr` for a string of `len` bytes that was not edited. Its
/// key has `key_len` bytes and may have an expiry.
///
/// Clients and tests check this, so the rule is that of Valkey 9. It embeds a value next to its key
/// if two cache lines hold both together with a header of 8 bytes, an expiry of 8, the frame of the
/// key (3 bytes, 5 from 32 bytes on) and that of the value (4). Weft's layout differs.
pub fn embeds(key_len: usize, len: usize, expiring: bool) -> bool {
    const LINES: usize = 128;
    let key_frame = if key_len < 32 { 3 } else { 5 };
    let around = 8 + 8 * usize::from(expiring) + key_frame + 4;
    key_len.saturating_add(len).saturating_add(around) <= LINES
}

/// Bytes of memory of `record`, including a long string.
pub fn memory(record: &Record) -> usize {
    let outside = match Form::of(record) {
        None | Some(Form::Inline | Form::Int) => 0,
        Some(Form::Blob) => {
            // SAFETY: a StrBlob payload was made by blob::store and the record keeps it.
            let bytes = unsafe { blob::view(record.payload()) };
            // The allocation of an Arc begins with its two counters.
            bytes.capacity() + size_of_val(bytes) + 2 * size_of::<usize>()
        }
        // SAFETY: a StrPieces payload was made by boxed::store of that type, and the record keeps it.
        Some(Form::Pieces) => unsafe {
            size_of::<Pieces>() + boxed::view::<Pieces>(record.payload()).memory()
        },
    };
    record.alloc_size() + outside
}

/// The integer that `bytes` represent, if they are its canonical decimal form.
#[inline]
pub fn canonical_int(bytes: &[u8]) -> Option<i64> {
    let (negative, digits) = match bytes {
        [b'-', rest @ ..] => (true, rest),
        _ => (false, bytes),
    };
    match digits {
        [b'0'] if !negative => return Some(0),
        [b'1'..=b'9', ..] if digits.len() <= 19 => {}
        _ => return None,
    }
    let mut n = 0u64;
    for d in digits {
        let d = d.wrapping_sub(b'0');
        if d > 9 {
            return None;
        }
        n = n * 10 + u64::from(d);
    }
    match negative {
        false => i64::try_from(n).ok(),
        true if n <= 1 << 63 => Some((n as i64).wrapping_neg()),
        true => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_only_canonical_integers() {
        for n in [0, 7, -7, 10, i64::MAX, i64::MIN, i64::MAX - 1, i64::MIN + 1] {
            assert_eq!(canonical_int(n.to_string().as_bytes()), Some(n));
        }
        let no: [&[u8]; 12] = [
            b"",
            b"-",
            b"-0",
            b"00",
            b"01",
            b"+1",
            b" 1",
            b"1 ",
            b"1.0",
            b"9223372036854775808",
            b"-9223372036854775809",
            b"99999999999999999999",
        ];
        for text in no {
            assert_eq!(canonical_int(text), None, "{text:?}");
        }
    }

    #[test]
    fn embeds_up_to_the_lengths_of_valkey() {
        // Observed in Valkey: the longest embedded value by key length, without and with an expiry.
        for (key, plain, expiring) in
            [(1, 112, 104), (10, 103, 95), (31, 82, 74), (32, 79, 71), (60, 51, 43), (100, 11, 3)]
        {
            for (len, with) in [(plain, false), (expiring, true)] {
                assert!(embeds(key, len, with), "{key} {len}");
                assert!(!embeds(key, len + 1, with), "{key} {len}");
            }
        }
        assert!(!embeds(112, 0, false));
        assert!(!embeds(usize::MAX, usize::MAX, true));
    }
}

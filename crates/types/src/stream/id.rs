//! Ids of stream entries: a time and a number, ordered.

use std::fmt;
use weft_base::num::parse_u64_loose;

/// The id of an entry: `ms-seq` in its text form.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamId {
    /// Usually Unix time in milliseconds, but clients may choose any number.
    pub ms: u64,
    /// Distinguishes entries of the same millisecond.
    pub seq: u64,
}

/// Bytes of the longest formatted id.
const TEXT: usize = 41;

/// The longest text that may be an id, as in Valkey.
const LONGEST: usize = 127;

/// The text of an id.
#[derive(Clone, Copy)]
pub struct IdText {
    bytes: [u8; TEXT],
    len: u8,
}

/// An id argument of XADD.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// `*`: the current time, or the id after the last one.
    Any,
    /// `123-*`: this time, and its next number.
    Millis(u64),
    This(StreamId),
}

impl StreamId {
    /// The least id, which no entry has.
    pub const MIN: StreamId = StreamId { ms: 0, seq: 0 };
    pub const MAX: StreamId = StreamId { ms: u64::MAX, seq: u64::MAX };

    pub const fn new(ms: u64, seq: u64) -> Self {
        StreamId { ms, seq }
    }

    /// The next id; `None` for the greatest.
    #[inline]
    #[must_use]
    pub fn next(self) -> Option<StreamId> {
        match (self.seq.checked_add(1), self.ms.checked_add(1)) {
            (Some(seq), _) => Some(StreamId { seq, ..self }),
            (None, Some(ms)) => Some(StreamId { ms, seq: 0 }),
            (None, None) => None,
        }
    }

    /// The previous id; `None` for the least.
    #[inline]
    #[must_use]
    pub fn previous(self) -> Option<StreamId> {
        match (self.seq.checked_sub(1), self.ms.checked_sub(1)) {
            (Some(seq), _) => Some(StreamId { seq, ..self }),
            (None, Some(ms)) => Some(StreamId { ms, seq: u64::MAX }),
            (None, None) => None,
        }
    }

    /// Parses a full id, `ms-seq`, or `ms` alone, which means `ms-missing_seq`. Rejects the signs
    /// that [`StreamId::parse_end`] accepts.
    #[inline]
    #[must_use]
    pub fn parse(text: &[u8], missing_seq: u64) -> Option<StreamId> {
        let (ms, seq) = halves(text)?;
        let seq = match seq {
            Some(seq) => parse_u64_loose(seq)?,
            None => missing_seq,
        };
        Some(StreamId { ms: parse_u64_loose(ms)?, seq })
    }

    /// Like [`StreamId::parse`], but `-` is the least and `+` the greatest id.
    #[inline]
    #[must_use]
    pub fn parse_end(text: &[u8], missing_seq: u64) -> Option<StreamId> {
        match text {
            b"-" => Some(StreamId::MIN),
            b"+" => Some(StreamId::MAX),
            _ => StreamId::parse(text, missing_seq),
        }
    }

    /// The id as 16 bytes that sort like ids.
    #[must_use]
    pub fn to_bytes(self) -> [u8; 16] {
        ((u128::from(self.ms) << 64) | u128::from(self.seq)).to_be_bytes()
    }

    /// The text form.
    #[inline]
    #[must_use]
    pub fn text(self) -> IdText {
        let mut bytes = [0; TEXT];
        let mut digits = itoa::Buffer::new();
        let ms = digits.format(self.ms).as_bytes();
        let mut len = ms.len();
        bytes[..len].copy_from_slice(ms);
        bytes[len] = b'-';
        len += 1;
        let seq = digits.format(self.seq).as_bytes();
        bytes[len..len + seq.len()].copy_from_slice(seq);
        len += seq.len();
        IdText { bytes, len: len as u8 }
    }
}

/// Splits a text that may be an id at the first `-`. As in C, the text ends at the first NUL.
#[inline]
fn halves(text: &[u8]) -> Option<(&[u8], Option<&[u8]>)> {
    if text.len() > LONGEST {
        return None;
    }
    match text.iter().position(|b| matches!(b, b'-' | 0)) {
        Some(at) if text[at] == b'-' => Some((&text[..at], Some(&text[at + 1..]))),
        Some(at) => Some((&text[..at], None)),
        None => Some((text, None)),
    }
}

impl Wanted {
    /// Parses the id argument of XADD.
    #[inline]
    #[must_use]
    pub fn parse(text: &[u8]) -> Option<Wanted> {
        if text == b"*" {
            return Some(Wanted::Any);
        }
        match halves(text)? {
            (ms, Some([b'*'] | [b'*', 0, ..])) => parse_u64_loose(ms).map(Wanted::Millis),
            _ => StreamId::parse(text, 0).map(Wanted::This),
        }
    }

    /// The id of a new entry in a stream with the last id `last`, at `now_ms`. `None` if it would
    /// not be greater than `last`.
    #[inline]
    #[must_use]
    pub fn choose(self, last: StreamId, now_ms: u64) -> Option<StreamId> {
        let id = match self {
            Wanted::Any if now_ms > last.ms => StreamId::new(now_ms, 0),
            Wanted::Any => last.next()?,
            Wanted::Millis(ms) if ms == last.ms => StreamId::new(ms, last.seq.checked_add(1)?),
            Wanted::Millis(ms) => StreamId::new(ms, 0),
            Wanted::This(id) => id,
        };
        (id > last).then_some(id)
    }
}

impl IdText {
    #[inline]
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }
}

impl fmt::Debug for IdText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&String::from_utf8_lossy(self.as_bytes()), f)
    }
}

impl fmt::Display for StreamId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.ms, self.seq)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_and_formats_ids() {
        for id in [StreamId::MIN, StreamId::MAX, StreamId::new(1_700_000_000_000, 7)] {
            assert_eq!(StreamId::parse(id.text().as_bytes(), 9), Some(id));
            assert_eq!(id.text().as_bytes(), id.to_string().as_bytes());
        }
        assert_eq!(StreamId::parse(b"5", 9), Some(StreamId::new(5, 9)));
        assert_eq!(StreamId::parse(b"05- 7", 9), Some(StreamId::new(5, 7)));
        assert_eq!(StreamId::parse(b"5\0x", 9), Some(StreamId::new(5, 9)));
        for text in [&b""[..], b"-", b"+", b"-5", b"5-", b"5-x", b"5-1-1", b"5--1", &[b'0'; 128]] {
            assert_eq!(StreamId::parse(text, 0), None, "{text:?}");
        }
        assert!(StreamId::parse(&[b'0'; 127], 0).is_some());
        assert_eq!(StreamId::parse_end(b"-", 3), Some(StreamId::MIN));
        assert_eq!(StreamId::parse_end(b"+", 3), Some(StreamId::MAX));
    }

    #[test]
    fn next_and_previous_are_neighbours() {
        assert_eq!(StreamId::MAX.next(), None);
        assert_eq!(StreamId::MIN.previous(), None);
        let edge = StreamId::new(4, u64::MAX);
        assert_eq!(edge.next(), Some(StreamId::new(5, 0)));
        assert_eq!(StreamId::new(5, 0).previous(), Some(edge));
        assert!(StreamId::MIN.to_bytes() < edge.to_bytes());
    }

    #[test]
    fn xadd_chooses_ids() {
        let last = StreamId::new(50, 7);
        let choose = |text: &[u8]| Wanted::parse(text).and_then(|w| w.choose(last, 40));
        assert_eq!(choose(b"*"), Some(StreamId::new(50, 8)));
        assert_eq!(Wanted::Any.choose(last, 51), Some(StreamId::new(51, 0)));
        assert_eq!(choose(b"50-*"), Some(StreamId::new(50, 8)));
        assert_eq!(choose(b"60-*"), Some(StreamId::new(60, 0)));
        assert_eq!(choose(b"40-*"), None);
        assert_eq!(choose(b"50-7"), None);
        assert_eq!(choose(b"51"), Some(StreamId::new(51, 0)));
        let full = StreamId::new(50, u64::MAX);
        assert_eq!(Wanted::Millis(50).choose(full, 0), None);
        assert_eq!(Wanted::Any.choose(StreamId::MAX, 0), None);
        for text in [&b"*-1"[..], b"-*", b"x-*", b"5-**", b"-", b"+"] {
            assert_eq!(Wanted::parse(text), None, "{text:?}");
        }
    }
}

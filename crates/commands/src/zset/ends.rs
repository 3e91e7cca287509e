//! Parses the ends of ranges: `1.5`, `(1.5`, `-inf`; `[a`, `(a`, `-`, `+`; ranks.

use crate::error::Error;
use weft_base::num::parse_f64_bound;
use weft_types::zset::{LexEnd, Range, ScoreEnd};

const NOT_FLOATS: Error = Error::new("ERR min or max is not a float");
const NOT_STRINGS: Error = Error::new("ERR min or max not valid string range item");

fn score_end(text: &[u8]) -> Result<ScoreEnd, Error> {
    let (text, exclusive) = match text {
        [b'(', rest @ ..] => (rest, true),
        _ => (text, false),
    };
    let score = parse_f64_bound(text).ok_or(NOT_FLOATS)?;
    Ok(ScoreEnd { score, exclusive })
}

/// A range by score.
pub(super) fn scores<'a>(min: &[u8], max: &[u8]) -> Result<Range<'a>, Error> {
    Ok(Range::Score { min: score_end(min)?, max: score_end(max)? })
}

fn lex_end(text: &[u8]) -> Result<LexEnd<'_>, Error> {
    match text {
        // The reference ignores everything after a NUL byte here.
        [b'-'] | [b'-', 0, ..] => Ok(LexEnd::Lowest),
        [b'+'] | [b'+', 0, ..] => Ok(LexEnd::Highest),
        [b'(', member @ ..] => Ok(LexEnd::Member { member, exclusive: true }),
        [b'[', member @ ..] => Ok(LexEnd::Member { member, exclusive: false }),
        _ => Err(NOT_STRINGS),
    }
}

/// A range by member.
pub(super) fn members<'a>(min: &'a [u8], max: &'a [u8]) -> Result<Range<'a>, Error> {
    Ok(Range::Lex { min: lex_end(min)?, max: lex_end(max)? })
}

/// The ranks from `start` to `stop`, both inclusive, in a set of `len` elements. Negative ranks
/// count from the end.
pub(crate) fn ranks(start: i64, stop: i64, len: usize) -> std::ops::Range<usize> {
    let place = |rank: i64| match usize::try_from(rank) {
        Ok(rank) => Some(rank),
        Err(_) => len.checked_sub(usize::try_from(rank.unsigned_abs()).ok()?),
    };
    let start = place(start).unwrap_or(0);
    match place(stop) {
        Some(stop) if start <= stop && start < len => start..len.min(stop.saturating_add(1)),
        _ => 0..0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_count_from_both_ends() {
        for (start, stop, len, want) in [
            (0, -1, 5, 0..5),
            (1, 2, 5, 1..3),
            (-3, -2, 5, 2..4),
            (-99, 1, 5, 0..2),
            (3, 99, 5, 3..5),
            (5, 9, 5, 0..0),
            (3, 2, 5, 0..0),
            (0, -6, 5, 0..0),
            (0, -1, 0, 0..0),
            (i64::MIN, i64::MAX, 5, 0..5),
            (i64::MAX, i64::MIN, 5, 0..0),
        ] {
            assert_eq!(ranks(start, stop, len), want, "{start} {stop} {len}");
        }
    }

    #[test]
    fn ends_are_strict() {
        let end = |score, exclusive| Ok(ScoreEnd { score, exclusive });
        assert_eq!(score_end(b"(1.5"), end(1.5, true));
        assert_eq!(score_end(b"-inf"), end(f64::NEG_INFINITY, false));
        assert_eq!(score_end(b"((1"), Err(NOT_FLOATS));
        assert_eq!(score_end(b"nan"), Err(NOT_FLOATS));
        assert_eq!(lex_end(b"a"), Err(NOT_STRINGS));
        assert_eq!(lex_end(b""), Err(NOT_STRINGS));
        assert_eq!(lex_end(b"+a"), Err(NOT_STRINGS));
        assert_eq!(lex_end(b"["), Ok(LexEnd::Member { member: b"", exclusive: false }));
    }
}

//! Ranges of a sorted set: by score, or by member if all scores are equal.

use std::cmp::Ordering;

/// An end of a range by score.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ScoreEnd {
    /// Never NaN.
    pub score: f64,
    /// Whether the score itself is excluded.
    pub exclusive: bool,
}

/// An end of a range by member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LexEnd<'a> {
    /// Before all members.
    Lowest,
    /// After all members.
    Highest,
    Member {
        member: &'a [u8],
        /// Whether the member itself is excluded.
        exclusive: bool,
    },
}

/// The elements that a command selects.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Range<'a> {
    Score { min: ScoreEnd, max: ScoreEnd },
    Lex { min: LexEnd<'a>, max: LexEnd<'a> },
}

/// Whether a member is on that side of an end, or equals an inclusive end.
fn is_on_side(member: &[u8], end: LexEnd<'_>, side: Ordering) -> bool {
    match end {
        LexEnd::Lowest => side == Ordering::Greater,
        LexEnd::Highest => side == Ordering::Less,
        LexEnd::Member { member: other, exclusive } => match member.cmp(other) {
            Ordering::Equal => !exclusive,
            order => order == side,
        },
    }
}

impl Range<'_> {
    /// Whether an element is not too low. Calls `member` only if needed.
    #[inline]
    pub fn is_above_min<'m>(&self, score: f64, member: impl FnOnce() -> &'m [u8]) -> bool {
        match self {
            Range::Score { min, .. } if min.exclusive => score > min.score,
            Range::Score { min, .. } => score >= min.score,
            Range::Lex { min, .. } => is_on_side(member(), *min, Ordering::Greater),
        }
    }

    /// Whether an element is not too high. Calls `member` only if needed.
    #[inline]
    pub fn is_below_max<'m>(&self, score: f64, member: impl FnOnce() -> &'m [u8]) -> bool {
        match self {
            Range::Score { max, .. } if max.exclusive => score < max.score,
            Range::Score { max, .. } => score <= max.score,
            Range::Lex { max, .. } => is_on_side(member(), *max, Ordering::Less),
        }
    }

    /// Whether the range can contain no element.
    pub fn is_empty(&self) -> bool {
        match self {
            Range::Score { min, max } => {
                min.score > max.score
                    || (min.score == max.score && (min.exclusive || max.exclusive))
            }
            Range::Lex { min, max } => match (min, max) {
                (LexEnd::Highest, _) | (_, LexEnd::Lowest) => true,
                (LexEnd::Lowest, _) | (_, LexEnd::Highest) => false,
                (
                    LexEnd::Member { member: low, exclusive: a },
                    LexEnd::Member { member: high, exclusive: b },
                ) => match low.cmp(high) {
                    Ordering::Less => false,
                    Ordering::Equal => *a || *b,
                    Ordering::Greater => true,
                },
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn score_ends_are_inclusive_or_exclusive() {
        let range = |min, a, max, b| Range::Score {
            min: ScoreEnd { score: min, exclusive: a },
            max: ScoreEnd { score: max, exclusive: b },
        };
        let is_in = |range: Range<'_>, score| {
            range.is_above_min(score, || b"") && range.is_below_max(score, || b"")
        };
        assert!(
            is_in(range(1.0, false, 2.0, false), 1.0) && !is_in(range(1.0, true, 2.0, false), 1.0)
        );
        assert!(
            is_in(range(1.0, false, 2.0, false), 2.0) && !is_in(range(1.0, false, 2.0, true), 2.0)
        );
        assert!(is_in(range(0.0, false, 0.0, false), -0.0));
        assert!(
            range(1.0, true, 1.0, false).is_empty() && range(2.0, false, 1.0, false).is_empty()
        );
        assert!(!range(1.0, false, 1.0, false).is_empty());
    }

    #[test]
    fn member_ranges_may_be_open() {
        let open = LexEnd::Member { member: b"b", exclusive: true };
        let closed = LexEnd::Member { member: b"b", exclusive: false };
        for (min, max, want, void) in [
            (LexEnd::Lowest, LexEnd::Highest, [true, true, true], false),
            (closed, LexEnd::Highest, [false, true, true], false),
            (open, LexEnd::Highest, [false, false, true], false),
            (LexEnd::Lowest, closed, [true, true, false], false),
            (LexEnd::Lowest, open, [true, false, false], false),
            (closed, closed, [false, true, false], false),
            (open, closed, [false, false, false], true),
            (LexEnd::Highest, LexEnd::Lowest, [false, false, false], true),
            (LexEnd::Lowest, LexEnd::Lowest, [false, false, false], true),
            (LexEnd::Highest, LexEnd::Highest, [false, false, false], true),
        ] {
            let range = Range::Lex { min, max };
            let found = [&b"a"[..], b"b", b"c"]
                .map(|m| range.is_above_min(0.0, || m) && range.is_below_max(0.0, || m));
            assert_eq!((found, range.is_empty()), (want, void), "{range:?}");
        }
    }
}

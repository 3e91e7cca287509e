//! The packed form: member, score, member, score ... in the order of the set.
//!
//! All searches go through the entries one by one; there are few of them, in one piece of memory.

use super::range::Range;
use super::score;
use super::view::Span;
use crate::packed::{self, Encoded, Value, after_short, before, get};
use crate::string::Digits;
use std::cmp::Ordering;

/// The entries of a packed sorted set.
#[derive(Clone, Copy, Debug)]
pub struct Pairs<'a>(pub(super) &'a [u8]);

/// An element.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pair<'a> {
    /// Offset of its member.
    pub(super) at: usize,
    pub(super) member: Value<'a>,
    /// Where the entry of its score starts in `bytes`. It is decoded when it is wanted.
    score_at: usize,
    bytes: &'a [u8],
}

impl Pair<'_> {
    #[inline]
    pub(super) fn score(&self) -> f64 {
        score::read(get(self.bytes, self.score_at))
    }

    /// How the element compares to a member with a score, which `encoded` is the entry of.
    #[inline]
    fn cmp(&self, member: &[u8], score: f64, encoded: &Encoded<'_>) -> Ordering {
        // A score has one entry, so most equal ones are seen without being read.
        let same = encoded.is_at(self.bytes, self.score_at);
        let own = if same { score } else { self.score() };
        if own < score {
            Ordering::Less
        } else if own > score {
            Ordering::Greater
        } else {
            self.member.bytes(&mut Digits::new()).cmp(member)
        }
    }

    fn reaches(&self, range: &Range<'_>) -> bool {
        match range {
            Range::Score { .. } => range.reaches(self.score(), || b""),
            Range::Lex { .. } => {
                let mut room = Digits::new();
                let member = self.member.bytes(&mut room);
                range.reaches(0.0, || member)
            }
        }
    }

    fn allows(&self, range: &Range<'_>) -> bool {
        match range {
            Range::Score { .. } => range.allows(self.score(), || b""),
            Range::Lex { .. } => {
                let mut room = Digits::new();
                let member = self.member.bytes(&mut room);
                range.allows(0.0, || member)
            }
        }
    }
}

impl<'a> Pairs<'a> {
    /// The element whose member is at `at`.
    #[inline]
    fn pair(self, at: usize) -> Pair<'a> {
        Pair { at, member: get(self.0, at), score_at: after_short(self.0, at), bytes: self.0 }
    }

    pub(super) fn iter(self) -> impl DoubleEndedIterator<Item = Pair<'a>> {
        Iter { pairs: self, at: 0, end: self.0.len() }
    }

    /// The element of `member`, with its rank when `RANK`.
    pub(super) fn find(self, member: &[u8]) -> Option<Pair<'a>> {
        packed::find(self.0, member, 2).map(|at| self.pair(at))
    }

    pub(super) fn rank(self, member: &[u8]) -> Option<(usize, f64)> {
        let at = packed::find(self.0, member, 2)?;
        let rank = self.iter().take_while(|pair| pair.at < at).count();
        Some((rank, self.pair(at).score()))
    }

    /// Offset of the first element behind a member with a score, which is not in the set.
    /// `encoded` is the entry of the score.
    pub(super) fn place(self, member: &[u8], score: f64, encoded: &Encoded<'_>) -> usize {
        let end = self.0.len();
        let cmp = |pair: &Pair<'_>| pair.cmp(member, score, encoded);
        // Elements often come in order.
        if self.iter().next_back().is_none_or(|last| cmp(&last).is_lt()) {
            return end;
        }
        self.iter().find(|pair| cmp(pair).is_gt()).map_or(end, |pair| pair.at)
    }

    /// See [`View::select`](super::View::select). A range by member of a set with different
    /// scores makes no sense, but has an answer, which depends on the steps being these.
    pub(super) fn select(
        self,
        range: &Range<'_>,
        reverse: bool,
        offset: i64,
        limit: Option<usize>,
    ) -> Span {
        let mut ends = self.iter();
        let (first, last) = (ends.next(), ends.next_back());
        let touches = match (first, last.or(first)) {
            (Some(first), Some(last)) => last.reaches(range) && first.allows(range),
            _ => false,
        };
        let Ok(offset) = usize::try_from(offset) else {
            return Span::NOTHING;
        };
        if range.is_void() || !touches {
            return Span::NOTHING;
        }
        match reverse {
            false => cut(self.iter(), offset, limit, |p| p.reaches(range), |p| p.allows(range)),
            true => {
                cut(self.iter().rev(), offset, limit, |p| p.allows(range), |p| p.reaches(range))
            }
        }
    }
}

/// From the first element that has `come`, if that has not `passed` the range as well, `offset`
/// further, and as long as elements are `inside`.
fn cut<'a>(
    mut pairs: impl Iterator<Item = Pair<'a>>,
    offset: usize,
    limit: Option<usize>,
    come: impl Fn(&Pair<'a>) -> bool,
    inside: impl Fn(&Pair<'a>) -> bool,
) -> Span {
    let mut skip = 0;
    let first = pairs.find(|pair| {
        let found = come(pair);
        skip += usize::from(!found);
        found
    });
    let Some(first) = first.filter(|first| inside(first)) else {
        return Span::NOTHING;
    };
    let rest = std::iter::once(first).chain(pairs).skip(offset);
    let count = rest.take(limit.unwrap_or(usize::MAX)).take_while(inside).count();
    Span { skip: skip.saturating_add(offset), count }
}

struct Iter<'a> {
    pairs: Pairs<'a>,
    at: usize,
    end: usize,
}

impl<'a> Iterator for Iter<'a> {
    type Item = Pair<'a>;

    #[inline]
    fn next(&mut self) -> Option<Pair<'a>> {
        if self.at == self.end {
            return None;
        }
        let pair = self.pairs.pair(self.at);
        self.at = after_short(self.pairs.0, pair.score_at);
        Some(pair)
    }
}

impl DoubleEndedIterator for Iter<'_> {
    #[inline]
    fn next_back(&mut self) -> Option<Self::Item> {
        if self.at == self.end {
            return None;
        }
        let score = before(self.pairs.0, self.end);
        self.end = before(self.pairs.0, score);
        let member = get(self.pairs.0, self.end);
        Some(Pair { at: self.end, member, score_at: score, bytes: self.pairs.0 })
    }
}

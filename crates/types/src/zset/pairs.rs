//! The packed form: member, score, member, score ... in the order of the set.
//!
//! All searches walk the entries one by one: they are few and contiguous.

use super::range::Range;
use super::score;
use super::view::Span;
use crate::packed::{Encoded, Entries, OneWay, Value};
use crate::string::Digits;
use std::cmp::Ordering;

/// The entries of a packed sorted set.
#[derive(Clone, Copy, Debug)]
pub struct Pairs<'a>(pub(super) Entries<'a, OneWay>);

/// An element.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pair<'a> {
    /// The offset of its member.
    pub(super) at: usize,
    pub(super) member: Value<'a>,
    /// The offset of its score in `entries`. The score is decoded on demand.
    score_at: usize,
    entries: Entries<'a, OneWay>,
}

impl Pair<'_> {
    #[inline]
    pub(super) fn score(&self) -> f64 {
        score::read(self.entries.get(self.score_at))
    }

    /// Compares the element with a member with a score, whose entry is `encoded`.
    #[inline]
    pub(super) fn cmp(&self, member: &[u8], score: f64, encoded: &Encoded<'_>) -> Ordering {
        // Each score has one encoding, so most equal scores are found without decoding.
        let same = self.entries.holds(self.score_at, encoded);
        let own = if same { score } else { self.score() };
        if own < score {
            Ordering::Less
        } else if own > score {
            Ordering::Greater
        } else {
            self.member.bytes(&mut Digits::new()).cmp(member)
        }
    }

    fn is_above_min(&self, range: &Range<'_>) -> bool {
        match range {
            Range::Score { .. } => range.is_above_min(self.score(), || b""),
            Range::Lex { .. } => {
                let mut room = Digits::new();
                let member = self.member.bytes(&mut room);
                range.is_above_min(0.0, || member)
            }
        }
    }

    fn is_below_max(&self, range: &Range<'_>) -> bool {
        match range {
            Range::Score { .. } => range.is_below_max(self.score(), || b""),
            Range::Lex { .. } => {
                let mut room = Digits::new();
                let member = self.member.bytes(&mut room);
                range.is_below_max(0.0, || member)
            }
        }
    }
}

impl<'a> Pairs<'a> {
    /// The entries: member, score, member, ...
    #[must_use]
    pub fn entries(self) -> Entries<'a, OneWay> {
        self.0
    }

    /// The element whose member is at `at`.
    #[inline]
    fn pair(self, at: usize) -> Pair<'a> {
        let entries = self.0;
        Pair { at, member: entries.get(at), score_at: entries.after(at), entries }
    }

    /// All elements in order.
    #[inline]
    pub(super) fn iter(self) -> Forward<'a> {
        Forward { pairs: self, at: 0 }
    }

    /// All elements from the last to the first. Yields the first one after O(n).
    pub(super) fn back(self) -> impl Iterator<Item = Pair<'a>> {
        let (entries, mut back) = (self.0, self.0.back());
        std::iter::from_fn(move || {
            let (score_at, _) = back.next()?;
            let (at, member) = back.next().expect("a member before every score");
            Some(Pair { at, member, score_at, entries })
        })
    }

    /// The offset of the element with this rank among `len` elements.
    pub(super) fn offset_of(self, len: usize, rank: usize) -> usize {
        self.0.offset_of(2 * len, 2 * rank)
    }

    /// Passes the elements of `span`, of `len` in all, to `seen`, in order or in reverse. Returns
    /// the offset of the one with the lowest rank.
    pub(super) fn walk(
        self,
        len: usize,
        span: Span,
        reverse: bool,
        mut seen: impl FnMut(Value<'_>, f64),
    ) -> usize {
        let ranks = span.ranks(len, reverse);
        let at = self.offset_of(len, ranks.start);
        let pairs = Pairs(self.0.from(at));
        let show = |p: Pair<'_>| seen(p.member, p.score());
        // A single element needs no list for the reverse order.
        if reverse && ranks.len() > 1 {
            pairs.back().skip(len - ranks.end).take(ranks.len()).for_each(show);
        } else {
            pairs.iter().take(ranks.len()).for_each(show);
        }
        at
    }

    /// The element of `member`.
    #[inline]
    pub(super) fn find(self, member: &[u8]) -> Option<Pair<'a>> {
        self.0.find(&Encoded::of(member), 2).map(|at| self.pair(at))
    }

    /// The element of `wanted`. If there is none, the last one of the set, if any, as `Err`.
    #[inline]
    pub(super) fn find_or_last(self, wanted: &Encoded<'_>) -> Result<Pair<'a>, Option<Pair<'a>>> {
        let (mut at, mut last) = (0, None);
        while at < self.0.end() {
            if self.0.holds(at, wanted) {
                return Ok(self.pair(at));
            }
            last = Some(at);
            at = self.0.after(self.0.after(at));
        }
        Err(last.map(|at| self.pair(at)))
    }

    /// The rank and the score of `member`.
    pub(super) fn rank(self, member: &[u8]) -> Option<(usize, f64)> {
        let wanted = Encoded::of(member);
        self.iter()
            .enumerate()
            .find(|(_, pair)| self.0.holds(pair.at, &wanted))
            .map(|(rank, pair)| (rank, pair.score()))
    }

    /// The offset of the first element at or after `from` that sorts after a member with a score.
    /// `encoded` is the entry of the score.
    #[inline]
    pub(super) fn place(
        self,
        from: usize,
        member: &[u8],
        score: f64,
        encoded: &Encoded<'_>,
    ) -> usize {
        Forward { pairs: self, at: from }
            .find(|pair| pair.cmp(member, score, encoded).is_gt())
            .map_or(self.0.end(), |pair| pair.at)
    }

    /// See [`View::select`](super::View::select). A range by member of a set with different scores
    /// makes no sense, but has a result, which depends on exactly these steps.
    pub(super) fn select(
        self,
        range: &Range<'_>,
        reverse: bool,
        offset: i64,
        limit: Option<usize>,
    ) -> Span {
        let mut all = self.iter();
        let first = all.next();
        let touches = match (first, all.last().or(first)) {
            (Some(first), Some(last)) => last.is_above_min(range) && first.is_below_max(range),
            _ => false,
        };
        let Ok(offset) = usize::try_from(offset) else {
            return Span::NOTHING;
        };
        if range.is_empty() || !touches {
            return Span::NOTHING;
        }
        match reverse {
            false => cut(
                self.iter(),
                offset,
                limit,
                |p| p.is_above_min(range),
                |p| p.is_below_max(range),
            ),
            true => cut(
                self.back(),
                offset,
                limit,
                |p| p.is_below_max(range),
                |p| p.is_above_min(range),
            ),
        }
    }
}

/// The span that begins `offset` elements after the first one that `has_reached` the range, and
/// continues while elements are `inside`. Empty if that first one is not `inside`.
fn cut<'a>(
    mut pairs: impl Iterator<Item = Pair<'a>>,
    offset: usize,
    limit: Option<usize>,
    has_reached: impl Fn(&Pair<'a>) -> bool,
    inside: impl Fn(&Pair<'a>) -> bool,
) -> Span {
    let mut skip = 0;
    let first = pairs.find(|pair| {
        let found = has_reached(pair);
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

/// See [`Pairs::iter`].
pub(super) struct Forward<'a> {
    pairs: Pairs<'a>,
    at: usize,
}

impl<'a> Iterator for Forward<'a> {
    type Item = Pair<'a>;

    #[inline]
    fn next(&mut self) -> Option<Pair<'a>> {
        if self.at == self.pairs.0.end() {
            return None;
        }
        let pair = self.pairs.pair(self.at);
        self.at = self.pairs.0.after(pair.score_at);
        Some(pair)
    }
}

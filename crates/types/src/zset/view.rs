//! Reads a sorted set in either form.

use super::pairs::Pairs;
use super::range::Range;
use super::tree::Tree;
use crate::packed::Value;
use crate::packed::record::{count, entries};
use crate::{Kind, Record, boxed};
use std::ops::ControlFlow;

/// A sorted set as stored.
#[derive(Clone, Copy, Debug)]
pub enum View<'a> {
    Packed(Pairs<'a>, usize),
    Tree(&'a Tree),
}

/// Neighbouring elements, relative to the end where a walk begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// The number of elements before them.
    pub skip: usize,
    pub count: usize,
}

impl Span {
    pub const NOTHING: Span = Span { skip: 0, count: 0 };

    /// The ranks of the elements, of `len` in all, if the walk begins at the front, or with
    /// `reverse` at the back.
    pub(super) fn ranks(self, len: usize, reverse: bool) -> std::ops::Range<usize> {
        let skip = self.skip.min(len);
        let count = self.count.min(len - skip);
        let start = if reverse { len - skip - count } else { skip };
        start..start + count
    }
}

impl<'a> View<'a> {
    /// The sorted set of `record`, or `None` when it holds another type.
    #[inline]
    pub fn of(record: &'a Record) -> Option<View<'a>> {
        let payload = record.payload();
        match Kind::of(record.kind()) {
            Kind::ZsetPacked => Some(View::Packed(Pairs(entries(payload)), count(payload) / 2)),
            // SAFETY: a ZsetTree payload was made by `boxed::store` from a `Box<Tree>` in `Edit`,
            // and nothing else makes such records. The borrow is that of the record.
            Kind::ZsetTree => Some(View::Tree(unsafe { boxed::view::<Tree>(payload) })),
            Kind::StrEmbedded | Kind::StrRaw | Kind::StrInt => None,
            Kind::StrBlob | Kind::StrPieces => None,
            Kind::ListPacked | Kind::ListTwoWay | Kind::ListChunks => None,
            Kind::SetInts | Kind::SetPacked | Kind::SetTable => None,
            Kind::HashPacked | Kind::HashTable | Kind::Stream => None,
        }
    }

    /// The number of elements. O(1).
    #[inline]
    pub fn len(self) -> usize {
        match self {
            View::Packed(_, len) => len,
            View::Tree(tree) => tree.len(),
        }
    }

    pub fn is_empty(self) -> bool {
        self.len() == 0
    }

    /// The score of `member`. Expected O(1); O(n) for a small set, as all below.
    #[inline]
    pub fn score(self, member: &[u8]) -> Option<f64> {
        match self {
            View::Packed(pairs, _) => pairs.find(member).map(|pair| pair.score()),
            View::Tree(tree) => tree.find(member).map(|place| tree.score(place)),
        }
    }

    /// The rank and the score of `member`. O(log n).
    #[inline]
    pub fn rank(self, member: &[u8]) -> Option<(usize, f64)> {
        match self {
            View::Packed(pairs, _) => pairs.rank(member),
            View::Tree(tree) => {
                tree.find(member).map(|place| (tree.rank(place), tree.score(place)))
            }
        }
    }

    /// The elements in `range`, from its low end, or with `reverse` from its high end. Skips
    /// `offset` of them and selects at most `limit`. O(log n).
    ///
    /// As in Valkey, a negative offset selects nothing in a small set and counts from the other end
    /// of the range in a large one.
    pub fn select(
        self,
        range: &Range<'_>,
        reverse: bool,
        offset: i64,
        limit: Option<usize>,
    ) -> Span {
        match self {
            View::Packed(pairs, _) => pairs.select(range, reverse, offset, limit),
            View::Tree(tree) => select(tree, range, reverse, offset, limit),
        }
    }

    /// The number of elements in `range`. O(log n).
    pub fn count(self, range: &Range<'_>) -> usize {
        self.select(range, false, 0, None).count
    }

    /// Passes the elements of `span` to `seen`, in order or in reverse. O(log n + elements).
    #[inline]
    pub fn walk(self, span: Span, reverse: bool, mut seen: impl FnMut(Value<'_>, f64)) {
        let Span { skip, count } = span;
        match (self, reverse) {
            (View::Packed(pairs, len), reverse) => {
                pairs.walk(len, span, reverse, seen);
            }
            (View::Tree(tree), false) => {
                let elements = tree.forward(skip).take(count);
                elements.for_each(|(member, score)| seen(Value::Bytes(member), score));
            }
            (View::Tree(tree), true) => {
                let Some(from) = tree.len().checked_sub(skip + 1) else { return };
                let elements = tree.backward(from).take(count);
                elements.for_each(|(member, score)| seen(Value::Bytes(member), score));
            }
        }
    }

    /// Passes all elements to `seen` in order. O(n).
    pub fn for_each(self, seen: impl FnMut(Value<'_>, f64)) {
        self.walk(Span { skip: 0, count: self.len() }, false, seen);
    }

    /// A step of a scan from `cursor` on: passes at least `count` elements, or all that are left,
    /// to `seen`. Returns the next cursor, 0 at the end. A small set is passed in one step. For the
    /// guarantee see [`Tree::scan`].
    pub fn scan(self, cursor: u64, count: usize, mut seen: impl FnMut(Value<'_>, f64)) -> u64 {
        match self {
            View::Packed(..) => {
                self.for_each(seen);
                0
            }
            View::Tree(tree) => {
                let mut left = count;
                tree.scan(cursor, |member, score| {
                    seen(Value::Bytes(member), score);
                    left = left.saturating_sub(1);
                    if left == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
                })
            }
        }
    }
}

/// [`View::select`] for a large set.
fn select(
    tree: &Tree,
    range: &Range<'_>,
    reverse: bool,
    offset: i64,
    limit: Option<usize>,
) -> Span {
    let low = tree.count_before(|score, lazy| !range.is_above_min(score, || lazy.bytes()));
    let high = tree.count_before(|score, lazy| range.is_below_max(score, || lazy.bytes()));
    let inside = high.saturating_sub(low);
    if range.is_empty() {
        return Span::NOTHING;
    }
    // The position of the first element in the range, counted from the beginning of the walk.
    let into = match usize::try_from(offset) {
        Ok(offset) => Some(offset),
        Err(_) => usize::try_from(offset.unsigned_abs()).ok().and_then(|n| inside.checked_sub(n)),
    };
    let Some(into) = into.filter(|into| *into < inside) else {
        return Span::NOTHING;
    };
    let before = if reverse { tree.len() - high } else { low };
    Span { skip: before + into, count: (inside - into).min(limit.unwrap_or(usize::MAX)) }
}

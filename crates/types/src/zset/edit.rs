//! Changing a sorted set, whatever its form, and the conversion from small to large.
//!
//! A set is made small and becomes large when an element goes beyond a [limit](Limits), or when a
//! command announces as much; it never becomes small again by itself. [`build`] makes a set of
//! elements that are at hand, small if they fit: the results of set operations.

use super::pairs::Pairs;
use super::score::Score;
use super::tree::Tree;
use super::view::{Span, View};
use crate::limits::PACKED_MAX;
use crate::packed::record::Packed;
use crate::packed::{COUNT_MAX, Encoded, Room, Value};
use crate::{Kind, Limits, Record, boxed};

/// What has become of an element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Nothing.
    Same,
    Added,
    /// It has another score.
    Updated,
}

/// A sorted set that is being changed.
#[derive(Debug)]
pub struct Edit(Form);

#[derive(Debug)]
enum Form {
    Packed(Packed),
    /// A record of kind `ZsetTree`.
    Tree(Record),
    /// Only inside of [`Edit::enlarge`].
    Between,
}

/// Whether an element with a member of so many bytes may join `len` others, of so many bytes
/// together, in the packed form.
fn fits(len: usize, bytes: usize, member: usize, limits: &Limits) -> bool {
    len < limits.zset_entries.min(COUNT_MAX / 2)
        && member <= limits.zset_value
        && bytes + member <= PACKED_MAX
}

impl Edit {
    /// Of the set in `record`; `None` and the record back when it holds another type.
    #[inline]
    pub fn of(record: Record) -> Result<Edit, Record> {
        match Kind::of(record.kind()) {
            Kind::ZsetPacked => Ok(Edit(Form::Packed(Packed::of(record)))),
            Kind::ZsetTree => Ok(Edit(Form::Tree(record))),
            Kind::StrEmbedded | Kind::StrRaw | Kind::StrInt => Err(record),
            Kind::StrBlob | Kind::StrPieces => Err(record),
            Kind::ListPacked | Kind::ListTwoWay | Kind::ListChunks => Err(record),
            Kind::SetInts | Kind::SetPacked | Kind::SetTable => Err(record),
            Kind::HashPacked | Kind::HashTable | Kind::Stream => Err(record),
        }
    }

    /// Of an empty set under `key`; `expiry` in Unix milliseconds, `clock` as [`Record::clock`].
    pub fn new(key: &[u8], expiry: Option<i64>, clock: u32) -> Edit {
        Edit(Form::Packed(Packed::new(key, expiry, Kind::ZsetPacked, clock, &[])))
    }

    /// The record with the set, which may be empty: then the key must go.
    #[inline]
    pub fn finish(self) -> Record {
        match self.0 {
            Form::Packed(packed) => packed.finish(),
            Form::Tree(record) => record,
            Form::Between => unreachable!("enlarge puts a form in its place"),
        }
    }

    #[inline]
    pub fn len(&self) -> usize {
        self.view().len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The set as it is now.
    #[inline]
    pub fn view(&self) -> View<'_> {
        match &self.0 {
            Form::Packed(packed) => View::Packed(Pairs(packed.entries()), packed.count() / 2),
            Form::Tree(record) => View::of(record).expect("the record of a large set"),
            Form::Between => unreachable!("enlarge puts a form in its place"),
        }
    }

    /// The tree of a record of kind `ZsetTree`.
    #[inline]
    fn tree(record: &mut Record) -> &mut Tree {
        debug_assert_eq!(Kind::of(record.kind()), Kind::ZsetTree);
        // SAFETY: `Form::Tree` holds records of that kind only, whose payload was made by
        // `large` from a `Box<Tree>`; the borrow of the record is exclusive.
        unsafe { boxed::view_mut(record.payload_mut()) }
    }

    /// Announces so many elements, of which the longest member has so many bytes: a small set
    /// that they alone would not fit into becomes large at once, whether they are added or not.
    pub fn announce(&mut self, elements: usize, longest: usize, limits: &Limits) {
        if elements > limits.zset_entries || longest > limits.zset_value {
            self.enlarge();
        }
    }

    /// Makes a small set large. O(n), and n is small.
    fn enlarge(&mut self) {
        self.0 = match std::mem::replace(&mut self.0, Form::Between) {
            Form::Packed(packed) => {
                let mut tree = Tree::new();
                let bytes = Pairs(packed.entries());
                let mut room = crate::string::Digits::new();
                bytes.iter().for_each(|p| tree.push(p.member.bytes(&mut room), p.score()));
                Form::Tree(large(packed.finish(), tree))
            }
            other => other,
        };
    }

    /// Shows `decide` the score of `member`, if it is in the set, and gives it the score that it
    /// answers, if any. O(log n).
    #[inline]
    pub fn change(
        &mut self,
        member: &[u8],
        limits: &Limits,
        decide: impl FnOnce(Option<f64>) -> Option<f64>,
    ) -> Outcome {
        match &mut self.0 {
            Form::Tree(record) => change_tree(Edit::tree(record), member, decide),
            Form::Packed(packed) => {
                let entry = Encoded::of(member);
                let (found, last) = match Pairs(packed.entries()).find_or_last(&entry) {
                    Ok(pair) => (Some((pair.at, pair.score())), None),
                    Err(last) => (None, last),
                };
                let Some(score) = decide(found.map(|(_, score)| score)) else {
                    return Outcome::Same;
                };
                match found {
                    Some((_, old)) if old == score => Outcome::Same,
                    Some((at, old)) => {
                        move_packed(packed, at, old, member, score);
                        Outcome::Updated
                    }
                    None if fits(
                        packed.count() / 2,
                        packed.entries().end(),
                        member.len(),
                        limits,
                    ) =>
                    {
                        let text = Score::of(score);
                        let encoded = text.encoded();
                        let pairs = Pairs(packed.entries());
                        // Elements often come in order.
                        let at = match last.is_none_or(|p| p.cmp(member, score, &encoded).is_lt()) {
                            true => pairs.0.end(),
                            false => pairs.place(0, member, score, &encoded),
                        };
                        packed.insert(at, &[entry, encoded]);
                        Outcome::Added
                    }
                    None => {
                        self.enlarge();
                        self.add(member, score);
                        Outcome::Added
                    }
                }
            }
            Form::Between => unreachable!("enlarge puts a form in its place"),
        }
    }

    /// Adds an element to a large set that does not have it.
    fn add(&mut self, member: &[u8], score: f64) {
        if let Form::Tree(record) = &mut self.0 {
            Edit::tree(record).insert(member, score);
        }
    }

    /// Removes `member`; whether it was there. O(log n).
    pub fn remove(&mut self, member: &[u8]) -> bool {
        match &mut self.0 {
            Form::Tree(record) => {
                let tree = Edit::tree(record);
                let found = tree.find(member);
                found.map(|place| tree.remove(place)).is_some()
            }
            Form::Packed(packed) => {
                let found = Pairs(packed.entries()).find(member).map(|pair| pair.at);
                found.map(|at| packed.remove(at, 2)).is_some()
            }
            Form::Between => unreachable!("enlarge puts a form in its place"),
        }
    }

    /// Removes the elements of `span`, told from the front, or from the back with `reverse`.
    /// O(log n + elements).
    pub fn remove_span(&mut self, span: Span, reverse: bool) {
        let len = self.len();
        let ranks = span.ranks(len, reverse);
        if ranks.is_empty() {
            return;
        }
        match &mut self.0 {
            Form::Tree(record) => Edit::tree(record).remove_ranks(ranks),
            Form::Packed(packed) => {
                let at = Pairs(packed.entries()).offset_of(len, ranks.start);
                packed.remove(at, 2 * ranks.len());
            }
            Form::Between => unreachable!("enlarge puts a form in its place"),
        }
    }

    /// Shows the first `count` elements, or the last ones with `reverse`, and removes them.
    #[inline]
    pub fn pop(&mut self, count: usize, reverse: bool, seen: impl FnMut(Value<'_>, f64)) {
        let span = Span { skip: 0, count };
        match &mut self.0 {
            Form::Packed(packed) => {
                let len = packed.count() / 2;
                let at = Pairs(packed.entries()).walk(len, span, reverse, seen);
                packed.remove(at, 2 * span.ranks(len, reverse).len());
            }
            Form::Tree(_) | Form::Between => {
                self.view().walk(span, reverse, seen);
                self.remove_span(span, reverse);
            }
        }
    }
}

/// `record` with a tree in the place of its packed payload.
pub(super) fn large(record: Record, tree: Tree) -> Record {
    record.replace_payload(Kind::ZsetTree as u8, &boxed::store(Box::new(tree)))
}

fn change_tree(
    tree: &mut Tree,
    member: &[u8],
    decide: impl FnOnce(Option<f64>) -> Option<f64>,
) -> Outcome {
    let found = tree.find(member);
    match (found, decide(found.map(|place| tree.score(place)))) {
        (_, None) => Outcome::Same,
        (Some(place), Some(score)) if score == tree.score(place) => Outcome::Same,
        (Some(place), Some(score)) => {
            tree.set_score(place, member, score);
            Outcome::Updated
        }
        (None, Some(score)) => {
            tree.insert(member, score);
            Outcome::Added
        }
    }
}

/// Gives the element at `at`, which is `member` with the score `old`, another score.
fn move_packed(packed: &mut Packed, at: usize, old: f64, member: &[u8], score: f64) {
    let entries = packed.entries();
    let score_at = entries.after(at);
    let end = entries.after(score_at);
    // Where the element belongs among the others, itself counting as one with the old score: it
    // stays where it is when that is in front of it or behind it.
    let text = Score::of(score);
    let encoded = text.encoded();
    let from = if score > old { end } else { 0 };
    let to = Pairs(entries).place(from, member, score, &encoded);
    if to == at || to == end {
        packed.replace(score_at, 1, &[encoded]);
        return;
    }
    packed.remove(at, 2);
    let to = if to > at { to - (end - at) } else { to };
    packed.insert(to, &[Encoded::of(member), encoded]);
}

/// A record of `key` with these elements, which are in order and of which no two have the same
/// member; `expiry` and `clock` as in [`Edit::new`]. Small if they fit the limits and `large` does
/// not say otherwise. O(n).
pub fn build<M: AsRef<[u8]>>(
    key: &[u8],
    expiry: Option<i64>,
    clock: u32,
    elements: &[(M, f64)],
    limits: &Limits,
) -> Record {
    let longest = elements.iter().map(|(member, _)| member.as_ref().len()).max().unwrap_or(0);
    let bytes: usize = elements.iter().map(|(member, _)| member.as_ref().len()).sum();
    let small = elements.len() <= limits.zset_entries.min(COUNT_MAX / 2) && bytes <= PACKED_MAX;
    if small && longest <= limits.zset_value {
        let scores: Vec<Score> = elements.iter().map(|(_, score)| Score::of(*score)).collect();
        let entries: Vec<Encoded<'_>> = elements
            .iter()
            .zip(&scores)
            .flat_map(|((member, _), score)| [Encoded::of(member.as_ref()), score.encoded()])
            .collect();
        return Packed::new(key, expiry, Kind::ZsetPacked, clock, &entries).finish();
    }
    let mut tree = Tree::new();
    elements.iter().for_each(|(member, score)| tree.push(member.as_ref(), *score));
    large(Edit::new(key, expiry, clock).finish(), tree)
}

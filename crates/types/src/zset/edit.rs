//! Changes a sorted set in either form, and converts it from small to large.
//!
//! A set is small at first. It becomes large when an element exceeds a [limit](Limits), or when a
//! command announces that; it never becomes small again by itself. [`build`] makes a set of given
//! elements, small if they fit, for the results of set operations.

use super::pairs::Pairs;
use super::score::Score;
use super::tree::Tree;
use super::view::{Span, View};
use crate::limits::PACKED_MAX;
use crate::packed::record::Packed;
use crate::packed::{COUNT_MAX, Encoded, EntryBuffer, Value};
use crate::{Kind, Limits, Record, boxed};

/// The result of changing an element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Nothing changed.
    Same,
    Added,
    /// Its score changed.
    Updated,
}

/// A sorted set while it is changed.
#[derive(Debug)]
pub struct Edit(Form);

#[derive(Debug)]
enum Form {
    Packed(Packed),
    /// A record of kind `ZsetTree`.
    Tree(Record),
    /// Only inside [`Edit::enlarge`].
    Taken,
}

/// Whether an element with a member of `member` bytes may join `len` others of `bytes` bytes in the
/// packed form.
fn fits(len: usize, bytes: usize, member: usize, limits: &Limits) -> bool {
    len < limits.zset_entries.min(COUNT_MAX / 2)
        && member <= limits.zset_value
        && bytes + member <= PACKED_MAX
}

impl Edit {
    /// Edits the set in `record`. Returns the record as `Err` if it holds another type.
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

    /// Edits a new, empty set of `key`. `expiry` is in Unix milliseconds; `clock` is as in
    /// [`Record::clock`].
    pub fn new(key: &[u8], expiry: Option<i64>, clock: u32) -> Edit {
        Edit(Form::Packed(Packed::new(key, expiry, Kind::ZsetPacked, clock, &[])))
    }

    /// The record with the set. If it is empty, the caller must remove the key.
    #[inline]
    pub fn finish(self) -> Record {
        match self.0 {
            Form::Packed(packed) => packed.finish(),
            Form::Tree(record) => record,
            Form::Taken => unreachable!("enlarge replaces it"),
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
            Form::Taken => unreachable!("enlarge replaces it"),
        }
    }

    /// The tree of a record of kind `ZsetTree`.
    #[inline]
    fn tree(record: &mut Record) -> &mut Tree {
        debug_assert_eq!(Kind::of(record.kind()), Kind::ZsetTree);
        // SAFETY: `Form::Tree` only holds records of that kind, whose payload `large` made from a
        // `Box<Tree>`. The borrow of the record is exclusive.
        unsafe { boxed::view_mut(record.payload_mut()) }
    }

    /// Announces `elements` elements, whose longest member has `longest` bytes. A small set becomes
    /// large at once if they alone exceed its limits, even if they are never added.
    pub fn announce(&mut self, elements: usize, longest: usize, limits: &Limits) {
        if elements > limits.zset_entries || longest > limits.zset_value {
            self.enlarge();
        }
    }

    /// Converts a small set to a large one. O(n), and n is small.
    fn enlarge(&mut self) {
        self.0 = match std::mem::replace(&mut self.0, Form::Taken) {
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

    /// Passes the score of `member`, if it is in the set, to `decide`, and sets the score that it
    /// returns, if any. O(log n).
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
                        // Fast path: elements are often added in order.
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
            Form::Taken => unreachable!("enlarge replaces it"),
        }
    }

    /// Adds an element to a large set that does not contain it.
    fn add(&mut self, member: &[u8], score: f64) {
        if let Form::Tree(record) = &mut self.0 {
            Edit::tree(record).insert(member, score);
        }
    }

    /// Removes `member`. Returns whether it existed. O(log n).
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
            Form::Taken => unreachable!("enlarge replaces it"),
        }
    }

    /// Removes the elements of `span`, counted from the front, or from the back with `reverse`.
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
            Form::Taken => unreachable!("enlarge replaces it"),
        }
    }

    /// Passes the first `count` elements, or the last ones with `reverse`, to `seen`, and removes
    /// them.
    #[inline]
    pub fn pop(&mut self, count: usize, reverse: bool, seen: impl FnMut(Value<'_>, f64)) {
        let span = Span { skip: 0, count };
        match &mut self.0 {
            Form::Packed(packed) => {
                let len = packed.count() / 2;
                let at = Pairs(packed.entries()).walk(len, span, reverse, seen);
                packed.remove(at, 2 * span.ranks(len, reverse).len());
            }
            Form::Tree(_) | Form::Taken => {
                self.view().walk(span, reverse, seen);
                self.remove_span(span, reverse);
            }
        }
    }
}

/// Replaces the packed payload of `record` with a tree.
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

/// Sets the score of the element at `at`, which is `member` with the score `old`.
fn move_packed(packed: &mut Packed, at: usize, old: f64, member: &[u8], score: f64) {
    let entries = packed.entries();
    let score_at = entries.after(at);
    let end = entries.after(score_at);
    // Where the element belongs among the others, including itself with the old score. It stays
    // where it is if that is directly before or after it.
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

/// A record of `key` with these elements, which must be in order and have distinct members.
/// `expiry` and `clock` are as in [`Edit::new`]. Small if they are within the limits. O(n).
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

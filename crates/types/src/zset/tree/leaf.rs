//! A leaf: up to 64 neighbouring elements, with an array for each part of them.
//!
//! ```text
//!  scores   [ 1.5 | 2 | 2 | 7.25 ]                8 bytes each
//!  heads    [ tag, end | tag, end | ... ]         2 + 2 bytes: of the member's hash, and the
//!                                                 end of its text
//!  text     [ a l i c e b o b c a r o l d a v e ] members without gaps
//! ```
//!
//! A search by score reads only `scores`, a search for a member only the tags. The arrays grow in
//! the steps of the allocator's size classes, so a leaf that is not full needs little more than its
//! contents. A member longer than [`LONG`] is stored elsewhere, and the text holds its number in
//! the tree's list of long members. So moving elements never moves many bytes.

use super::arena::{Id, NONE};
use crate::counted::CopyOnWrite;

/// Elements of a full leaf. Low in tests, so that small trees are high.
pub(super) const FULL: usize = if cfg!(test) { 16 } else { 64 };
/// A leaf with more bytes of text is full, unless it has a single element.
pub(super) const FULL_TEXT: usize = 4096;
/// Members of up to this many bytes are in the leaf.
pub(super) const LONG: usize = 512;

/// Flag of a head: the text is the number of a long member.
const IS_LONG: u16 = 1 << 15;
const _: () = assert!(FULL_TEXT + LONG < IS_LONG as usize);

/// The tag, the end and the flag of an element.
#[derive(Clone, Copy, Debug)]
struct Head(u32);

impl Head {
    fn new(tag: u16, end: usize, long: bool) -> Self {
        let flag = if long { IS_LONG } else { 0 };
        Head(u32::from(tag) << 16 | u32::from(flag) | end as u32)
    }

    #[inline]
    fn tag(self) -> u16 {
        (self.0 >> 16) as u16
    }

    #[inline]
    fn end(self) -> usize {
        (self.0 as u16 & !IS_LONG) as usize
    }

    fn is_long(self) -> bool {
        self.0 as u16 & IS_LONG != 0
    }

    /// The same head with the end moved by `by`, which must stay within the bits for ends.
    #[inline]
    fn moved(self, by: isize) -> Self {
        Head(self.0.wrapping_add_signed(by as i32))
    }
}

/// The member of an element, as stored in a leaf.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Text<'a> {
    Here(&'a [u8]),
    /// The number of a long member.
    Elsewhere(Id),
}

#[derive(Clone, Debug)]
pub(super) struct Leaf {
    /// The branch above, and the previous and next leaf; [`NONE`] if there is none.
    pub(super) parent: Id,
    pub(super) previous: Id,
    pub(super) next: Id,
    scores: Vec<f64>,
    heads: Vec<Head>,
    text: Vec<u8>,
}

impl Default for Leaf {
    fn default() -> Self {
        Leaf {
            parent: NONE,
            previous: NONE,
            next: NONE,
            scores: Vec::new(),
            heads: Vec::new(),
            text: Vec::new(),
        }
    }
}

impl CopyOnWrite for Leaf {
    fn owned_memory(&self) -> usize {
        self.memory()
    }
}

/// The allocator's size class for `bytes`: four classes from one power of two to the next.
fn size_class(bytes: usize) -> usize {
    bytes.next_multiple_of((bytes.next_power_of_two() / 8).max(16))
}

/// Reserves room for `more` elements, up to the size class.
fn reserve<T>(vec: &mut Vec<T>, more: usize) {
    let wanted = vec.len() + more;
    if wanted > vec.capacity() {
        vec.reserve_exact(size_class(wanted * size_of::<T>()) / size_of::<T>() - vec.len());
    }
}

/// Frees memory when a third of it is unused.
fn trim<T>(vec: &mut Vec<T>) {
    let wanted = size_class(vec.len() * size_of::<T>()) / size_of::<T>();
    if vec.capacity() > wanted + wanted / 2 {
        vec.shrink_to(wanted);
    }
}

impl Leaf {
    #[inline]
    pub(super) fn len(&self) -> usize {
        self.scores.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.scores.is_empty()
    }

    #[inline]
    pub(super) fn score(&self, at: usize) -> f64 {
        self.scores[at]
    }

    #[inline]
    pub(super) fn scores(&self) -> &[f64] {
        &self.scores
    }

    /// Overwrites a score by one with the same position in the order.
    pub(super) fn set_score(&mut self, at: usize, score: f64) {
        self.scores[at] = score;
    }

    #[inline]
    fn start(&self, at: usize) -> usize {
        if at == 0 { 0 } else { self.heads[at - 1].end() }
    }

    #[inline]
    pub(super) fn text(&self, at: usize) -> Text<'_> {
        let head = self.heads[at];
        let text = &self.text[self.start(at)..head.end()];
        match head.is_long() {
            false => Text::Here(text),
            true => Text::Elsewhere(Id::from_le_bytes(text.try_into().expect("a number"))),
        }
    }

    /// The first element from `from` on with the tag `tag`.
    #[inline]
    pub(super) fn tagged(&self, tag: u16, from: usize) -> Option<usize> {
        let rest = self.heads.get(from..)?;
        rest.iter().position(|head| head.tag() == tag).map(|at| from + at)
    }

    /// Whether there is room for another element with a text of `len` bytes.
    #[inline]
    pub(super) fn has_room(&self, len: usize) -> bool {
        self.len() < FULL && (self.text.len() + len <= FULL_TEXT || self.is_empty())
    }

    /// Where to split a full leaf: in the middle of its elements, or of their text if the text
    /// fills it.
    pub(super) fn middle(&self) -> usize {
        if self.len() >= FULL {
            return self.len() / 2;
        }
        let at = self.heads.partition_point(|head| head.end() <= self.text.len() / 2);
        at.clamp(1, self.len() - 1)
    }

    /// Bytes of text.
    pub(super) fn text_len(&self) -> usize {
        self.text.len()
    }

    /// Inserts an element. The caller has checked [`Leaf::has_room`]. O(size of a leaf).
    pub(super) fn insert(&mut self, at: usize, score: f64, tag: u16, text: Text<'_>) {
        let number;
        let (bytes, long) = match text {
            Text::Here(bytes) => (bytes, false),
            Text::Elsewhere(id) => {
                number = id.to_le_bytes();
                (&number[..], true)
            }
        };
        let start = self.start(at);
        reserve(&mut self.scores, 1);
        self.scores.insert(at, score);
        reserve(&mut self.heads, 1);
        self.heads.insert(at, Head::new(tag, start + bytes.len(), long));
        for head in &mut self.heads[at + 1..] {
            *head = head.moved(bytes.len() as isize);
        }
        reserve(&mut self.text, bytes.len());
        let old = self.text.len();
        self.text.resize(old + bytes.len(), 0);
        self.text.copy_within(start..old, start + bytes.len());
        self.text[start..start + bytes.len()].copy_from_slice(bytes);
    }

    /// Removes the elements from `from` to `to`. O(size of a leaf).
    pub(super) fn remove(&mut self, from: usize, to: usize) {
        let (start, end) = (self.start(from), self.start(to));
        self.scores.drain(from..to);
        self.heads.drain(from..to);
        for head in &mut self.heads[from..] {
            *head = head.moved(start as isize - end as isize);
        }
        self.text.drain(start..end);
        trim(&mut self.scores);
        trim(&mut self.heads);
        trim(&mut self.text);
    }

    /// Moves the elements from `at` on to the end of `to`.
    pub(super) fn move_tail(&mut self, at: usize, to: &mut Leaf) {
        let start = self.start(at);
        let by = to.text.len() as isize - start as isize;
        reserve(&mut to.scores, self.len() - at);
        to.scores.extend_from_slice(&self.scores[at..]);
        reserve(&mut to.heads, self.len() - at);
        to.heads.extend(self.heads[at..].iter().map(|head| head.moved(by)));
        reserve(&mut to.text, self.text.len() - start);
        to.text.extend_from_slice(&self.text[start..]);
        self.scores.truncate(at);
        self.heads.truncate(at);
        self.text.truncate(start);
        trim(&mut self.scores);
        trim(&mut self.heads);
        trim(&mut self.text);
    }

    /// Bytes of memory of the arrays.
    pub(super) fn memory(&self) -> usize {
        self.scores.capacity() * 8 + self.heads.capacity() * 4 + self.text.capacity()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    type Element = (f64, u16, Vec<u8>);

    fn contents(leaf: &Leaf) -> Vec<Element> {
        let element = |at| match leaf.text(at) {
            Text::Here(text) => (leaf.score(at), leaf.heads[at].tag(), text.to_vec()),
            Text::Elsewhere(id) => (leaf.score(at), leaf.heads[at].tag(), vec![b'#'; id as usize]),
        };
        (0..leaf.len()).map(element).collect()
    }

    #[test]
    fn size_classes_are_close() {
        for bytes in 1..9000 {
            let class = size_class(bytes);
            assert!(class >= bytes && class - bytes < (bytes / 4).max(16), "{bytes}: {class}");
            assert_eq!(size_class(class), class);
        }
    }

    proptest! {
        #[test]
        fn edits_match_a_vector(
            steps in prop::collection::vec((0usize..70, 0usize..5, any::<u16>(), 0usize..40), 1..120),
        ) {
            let mut leaf = Leaf::default();
            let mut model: Vec<Element> = Vec::new();
            for (at, what, tag, len) in steps {
                let at = at.min(model.len());
                match what {
                    0..3 if leaf.has_room(len) => {
                        let text = vec![b'a' + (tag % 26) as u8; len];
                        leaf.insert(at, f64::from(tag), tag, Text::Here(&text));
                        model.insert(at, (f64::from(tag), tag, text));
                    }
                    0..3 => {
                        let mut tail = Leaf::default();
                        leaf.move_tail(at, &mut tail);
                        prop_assert_eq!(&contents(&tail), &model[at..]);
                        model.truncate(at);
                    }
                    3 if leaf.has_room(4) => {
                        leaf.insert(at, 0.5, tag, Text::Elsewhere(len as Id));
                        model.insert(at, (0.5, tag, vec![b'#'; len]));
                    }
                    _ => {
                        let to = (at + len / 4).min(model.len());
                        leaf.remove(at, to);
                        model.drain(at..to);
                    }
                }
                prop_assert_eq!(&contents(&leaf), &model);
                for (n, (_, tag, _)) in model.iter().enumerate() {
                    let first = model.iter().position(|m| m.1 == *tag);
                    prop_assert_eq!(leaf.tagged(*tag, 0), first);
                    prop_assert_eq!(leaf.tagged(*tag, n), Some(n));
                }
            }
        }
    }
}

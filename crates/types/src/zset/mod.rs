//! Sorted sets: members with scores, in the order of the scores and of the members' bytes.
//!
//! ```text
//!  stored as                          while                                seen by clients as
//!  packed entries in the record       within `zset-max-listpack-*`         listpack
//!    member, score, member, score ... in order
//!  pointer to a Tree                  once it has exceeded them            skiplist
//! ```
//!
//! | file | holds |
//! |---|---|
//! | `view` | reading in either form: scores, ranks, ranges, scans |
//! | [`edit`] | changing, and the conversion from small to large |
//! | [`range`] | ranges by score and by member |
//! | [`pairs`], [`score`] | the packed form |
//! | [`tree`] | the large form |

mod edit;
mod load;
mod pairs;
mod range;
mod score;
#[cfg(test)]
mod tests;
mod tree;
mod view;

use crate::{Kind, Record, boxed};
pub use edit::{Edit, Outcome, build};
pub use load::Load;
pub use range::{LexEnd, Range, ScoreEnd};
pub use tree::Tree;
pub use view::{Span, View};

/// The sorted set of a record, which must hold one.
fn view(record: &Record) -> View<'_> {
    View::of(record).expect("a sorted set")
}

/// The number of elements of the value of `record`. O(1).
pub fn len(record: &Record) -> usize {
    view(record).len()
}

/// See [`crate::value::memory`].
pub fn memory(record: &Record, samples: usize) -> usize {
    let outside = match view(record) {
        View::Packed(..) => 0,
        View::Tree(tree) => tree.memory(samples),
    };
    record.alloc_size() + outside
}

/// See [`crate::value::pieces`].
pub(crate) fn pieces(record: &Record) -> usize {
    match view(record) {
        View::Packed(..) => 0,
        View::Tree(tree) => tree.pieces(),
    }
}

/// See [`crate::value::duplicate`].
pub fn duplicate(record: &Record, key: &[u8], expiry: Option<i64>, clock: u32) -> Record {
    match view(record) {
        View::Packed(..) => Record::from_bytes(key, expiry, record.kind(), clock, record.payload()),
        View::Tree(tree) => {
            let payload = boxed::store(Box::new(tree.clone()));
            Record::from_bytes(key, expiry, Kind::ZsetTree as u8, clock, &payload)
        }
    }
}

/// A record like `record`, whose set can only be walked if it is large: see [`Tree::share`].
pub(crate) fn share(record: &Record) -> Record {
    let (key, expiry, clock) = (record.key(), record.expiry(), record.clock());
    match view(record) {
        View::Packed(..) => duplicate(record, key, expiry, clock),
        View::Tree(tree) => {
            let payload = boxed::store(Box::new(tree.share()));
            Record::from_bytes(key, expiry, Kind::ZsetTree as u8, clock, &payload)
        }
    }
}

/// The record that [`share`] has copied. O(elements) for a large set.
pub(crate) fn restore(shared: Record) -> Record {
    let (key, expiry, clock) = (shared.key(), shared.expiry(), shared.clock());
    let View::Tree(tree) = view(&shared) else { return shared };
    let mut restored = Tree::new();
    tree.forward(0).for_each(|(member, score)| restored.push(member, score));
    let payload = boxed::store(Box::new(restored));
    Record::from_bytes(key, expiry, Kind::ZsetTree as u8, clock, &payload)
}

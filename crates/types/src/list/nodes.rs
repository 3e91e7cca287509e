//! A list as the nodes that it is saved in.

use super::chunk::Chunk;
use super::{List, write};
use crate::Record;
use crate::packed::{Entries, TwoWay, Value};
use std::ops::ControlFlow;

/// A node, or a part of a large one.
#[derive(Clone, Copy, Debug)]
pub enum Node<'a> {
    /// An element that has its node to itself.
    Alone(Value<'a>),
    /// Several, or one that others may join.
    Packed { entries: Entries<'a, TwoWay>, count: usize },
}

impl List<'_> {
    /// How many nodes [`List::try_each_node`] shows. O(1).
    #[must_use]
    pub fn nodes(self) -> usize {
        match self {
            List::Packed { .. } | List::TwoWay { .. } => 1,
            List::Chunks(chunks) => chunks.row.len(),
        }
    }

    /// Shows the nodes from the head to the tail until `seen` breaks. O(bytes); the memory of one
    /// node beside the list.
    pub fn try_each_node<B>(
        self,
        mut seen: impl FnMut(Node<'_>) -> ControlFlow<B>,
    ) -> ControlFlow<B> {
        match self {
            List::Packed { entries, count } => {
                let bytes = entries.in_form::<TwoWay>();
                seen(Node::Packed { entries: Entries::new(&bytes), count })
            }
            List::TwoWay { entries, count } => seen(Node::Packed { entries, count }),
            List::Chunks(chunks) => chunks.row.iter().try_for_each(|chunk| show(chunk, &mut seen)),
        }
    }
}

fn show<B>(chunk: &Chunk, seen: &mut impl FnMut(Node<'_>) -> ControlFlow<B>) -> ControlFlow<B> {
    let text = chunk.text();
    let entries = Entries::<TwoWay>::new(&text);
    match chunk.is_alone() {
        true => seen(Node::Alone(entries.get(0))),
        false => seen(Node::Packed { entries, count: chunk.count() }),
    }
}

/// As [`List::try_each_node`] for the list of `record`. Lets go of what was shown, node by node, if
/// the list is a long one: it is empty behind it.
pub(crate) fn pass<B>(
    record: &mut Record,
    mut seen: impl FnMut(Node<'_>) -> ControlFlow<B>,
) -> ControlFlow<B> {
    match List::of(record) {
        Some(List::Chunks(_)) => {
            let chunks = write::chunks_mut(record);
            chunks.len = 0;
            let row = std::mem::take(&mut chunks.row);
            row.into_chunks().try_for_each(|chunk| show(&chunk, &mut seen))
        }
        Some(short) => short.try_each_node(seen),
        None => panic!("the record holds a list"),
    }
}

//! A list as the nodes that a snapshot saves.

use super::chunk::Chunk;
use super::{List, write};
use crate::Record;
use crate::packed::{Entries, TwoWay, Value};
use std::ops::ControlFlow;

/// A node, or a part of a large one.
#[derive(Clone, Copy, Debug)]
pub enum Node<'a> {
    /// An element that never shares its node.
    Alone(Value<'a>),
    /// Several elements, or one that others may join.
    Packed { entries: Entries<'a, TwoWay>, count: usize },
}

impl List<'_> {
    /// The number of nodes that [`List::try_each_node`] passes. O(1).
    #[must_use]
    pub fn nodes(self) -> usize {
        match self {
            List::Packed { .. } | List::TwoWay { .. } => 1,
            List::Chunks(chunks) => chunks.row.len(),
        }
    }

    /// Passes the nodes from the head to the tail to `seen` until it breaks. O(bytes). Uses extra
    /// memory for one node.
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

/// Like [`List::try_each_node`] for the list of `record`. A long list is left empty, and each node
/// is released once it is passed.
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

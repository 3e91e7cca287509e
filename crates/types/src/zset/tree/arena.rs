//! Nodes with numbers, which replace pointers between nodes: safe code and four bytes each.
//!
//! ```text
//!  chunks: [ 64 nodes ][ 64 nodes ][ no memory ][ 64 nodes, the last one growing ]
//!  used:     1101...1    1111...1    0000...0     0111
//! ```
//!
//! A node's number is its position and never changes while the arena grows. A full vector of nodes
//! would be copied as a whole; a chunk never is. A chunk without nodes frees its memory. A removed
//! node leaves `T::default()`, which should own nothing.

/// Nodes of a chunk: one for each bit of a word.
const CHUNK: usize = u64::BITS as usize;

/// The number of a node.
pub(super) type Id = u32;

/// No node.
pub(super) const NONE: Id = Id::MAX;

#[derive(Clone, Debug)]
struct Chunk<T> {
    /// Up to [`CHUNK`] nodes; unused ones are defaults.
    nodes: Vec<T>,
    /// Bit `n` is set if node `n` is in use.
    used: u64,
    /// Whether `Arena::partial` contains this chunk.
    listed: bool,
}

/// Nodes of one type.
#[derive(Clone, Debug)]
pub(super) struct Arena<T> {
    chunks: Vec<Chunk<T>>,
    /// The chunks with free nodes.
    partial: Vec<u32>,
}

impl<T: Default> Arena<T> {
    pub(super) fn new() -> Self {
        Arena { chunks: Vec::new(), partial: Vec::new() }
    }

    /// Stores `node`. Returns its number. O(1); grows by one chunk at a time.
    ///
    /// # Panics
    ///
    /// With 2^32 - 64 nodes, which is more than memory holds.
    pub(super) fn insert(&mut self, node: T) -> Id {
        if self.partial.is_empty() {
            self.partial.push(self.chunks.len() as u32);
            self.chunks.push(Chunk { nodes: Vec::new(), used: 0, listed: true });
        }
        let at = self.partial[self.partial.len() - 1];
        let chunk = &mut self.chunks[at as usize];
        let slot = chunk.used.trailing_ones() as usize;
        if slot == chunk.nodes.len() {
            chunk.nodes.push(node);
        } else {
            chunk.nodes[slot] = node;
        }
        chunk.used |= 1 << slot;
        if chunk.used == u64::MAX {
            chunk.listed = false;
            self.partial.pop();
        }
        assert!(at < NONE / CHUNK as u32, "too many nodes");
        at * CHUNK as u32 + slot as u32
    }

    /// Removes a node. Its number may be reused.
    pub(super) fn remove(&mut self, id: Id) -> T {
        let at = id as usize / CHUNK;
        let slot = id as usize % CHUNK;
        let chunk = &mut self.chunks[at];
        debug_assert!(chunk.used & 1 << slot != 0, "node {id} is not in use");
        let node = std::mem::take(&mut chunk.nodes[slot]);
        chunk.used &= !(1 << slot);
        if chunk.used == 0 {
            chunk.nodes = Vec::new();
        }
        if !chunk.listed {
            chunk.listed = true;
            self.partial.push(at as u32);
        }
        node
    }

    /// Bytes of memory of the nodes, without the memory that they own.
    pub(super) fn memory(&self) -> usize {
        let nodes: usize = self.chunks.iter().map(|c| c.nodes.capacity() * size_of::<T>()).sum();
        nodes + self.chunks.capacity() * size_of::<Chunk<T>>() + self.partial.capacity() * 4
    }

    /// The nodes in use.
    pub(super) fn iter(&self) -> impl Iterator<Item = &T> {
        self.chunks.iter().flat_map(|c| {
            c.nodes.iter().enumerate().filter(|(n, _)| c.used & 1 << n != 0).map(|(_, node)| node)
        })
    }
}

impl<T> std::ops::Index<Id> for Arena<T> {
    type Output = T;

    #[inline]
    fn index(&self, id: Id) -> &T {
        &self.chunks[id as usize / CHUNK].nodes[id as usize % CHUNK]
    }
}

impl<T> std::ops::IndexMut<Id> for Arena<T> {
    #[inline]
    fn index_mut(&mut self, id: Id) -> &mut T {
        &mut self.chunks[id as usize / CHUNK].nodes[id as usize % CHUNK]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn nodes_keep_their_numbers_and_empty_chunks_are_freed() {
        let mut arena = Arena::new();
        let mut model = BTreeMap::new();
        for n in 0..1000u64 {
            let id = arena.insert(vec![n]);
            assert!(model.insert(id, n).is_none(), "number {id} is in use");
            // Remove two of three again, in an order that empties chunks.
            if n % 3 == 2 {
                for _ in 0..2 {
                    let (id, n) = model.pop_last().unwrap();
                    assert_eq!(arena.remove(id), [n]);
                }
            }
        }
        assert!(model.iter().all(|(id, n)| arena[*id] == [*n]));
        assert_eq!(arena.iter().count(), model.len());
        let full = arena.memory();
        for id in model.keys() {
            arena.remove(*id);
        }
        assert_eq!(arena.iter().count(), 0);
        assert!(arena.memory() < full / 4, "{} of {full}", arena.memory());
        assert!(arena.insert(vec![7]) < 1000);
    }
}

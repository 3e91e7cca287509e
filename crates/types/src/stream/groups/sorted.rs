//! An ordered map from ids to small values: compact with millions of entries, small with a few.
//!
//! ```text
//!  up to 128 entries:   one block, nothing else
//!  more:                blocks by the least id that belongs to each, in pages
//!                         [ 0-0 ─► block ][ 17-3 ─► block ][ 90-0 ─► block ] ...
//! ```
//!
//! Ids are mostly inserted and removed in ascending order. New ones fill the last block and start
//! another, so blocks are full, and an entry takes little more than its id and its value. Every
//! operation is O(log n) with steps of bounded size, at any position.
//!
//! An empty block is removed if there are others, so every block that a walk visits has an entry.
//!
//! A clone copies one block or the list of pages, and shares the rest until it is changed: see
//! [`blocks`](super::blocks).

use super::Timed;
use super::block::{Block, FEW, FULL};
use super::blocks::{Blocks, Place};
use crate::stream::StreamId;

/// See the module documentation.
#[derive(Clone, Debug)]
pub(super) struct Sorted<V> {
    shape: Shape<V>,
    len: usize,
}

#[derive(Clone, Debug)]
enum Shape<V> {
    One(Block<V>),
    /// Usually two blocks or more. The least id of each is not greater than its first entry, and
    /// greater than the last entry of the previous block.
    Many(Blocks<V>),
}

impl<V: Timed> Default for Sorted<V> {
    fn default() -> Self {
        Sorted { shape: Shape::One(Block::new()), len: 0 }
    }
}

impl<V: Timed> Sorted<V> {
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// The blocks in order.
    fn blocks(&self) -> impl Iterator<Item = &Block<V>> {
        let (one, many) = match &self.shape {
            Shape::One(block) => (Some(block), None),
            Shape::Many(blocks) => (None, Some(blocks.iter())),
        };
        one.into_iter().chain(many.into_iter().flatten())
    }

    /// The block to which `id` belongs, with its position if there are several blocks.
    #[inline]
    fn block(&self, id: StreamId) -> Option<(Option<Place>, &Block<V>)> {
        match &self.shape {
            Shape::One(block) => Some((None, block)),
            Shape::Many(blocks) => blocks.find(id).map(|at| (Some(at), blocks.get(at))),
        }
    }

    /// Like `block`, mutable.
    #[inline]
    fn block_mut(&mut self, id: StreamId) -> Option<&mut Block<V>> {
        match &mut self.shape {
            Shape::One(block) => Some(block),
            Shape::Many(blocks) => blocks.find(id).map(|at| blocks.get_mut(at)),
        }
    }

    /// The value of `id`. O(log n).
    #[inline]
    pub(super) fn get(&self, id: StreamId) -> Option<V> {
        let (_, block) = self.block(id)?;
        block.find(id).ok().map(|at| block.values()[at])
    }

    /// Sets the value of `id`. Returns the previous one. O(log n).
    #[inline]
    pub(super) fn insert(&mut self, id: StreamId, value: V) -> Option<V> {
        if self.push(id, value) {
            return None;
        }
        if let Shape::Many(blocks) = &mut self.shape
            && blocks.first().is_some_and(|first| id < blocks.least(first))
        {
            blocks.lower_first(id);
        }
        let block = self.block_mut(id)?;
        let at = match block.find(id) {
            Ok(at) => {
                block.note(value.time_ms());
                return Some(std::mem::replace(block.value_mut(at), value));
            }
            Err(at) => at,
        };
        let after = if block.is_full() { block.make_room() } else { None };
        match after {
            None => block.insert(at, id, value),
            Some(mut after) => {
                match at.checked_sub(block.len()) {
                    Some(at) if at > 0 => after.insert(at, id, value),
                    Some(_) | None => block.insert(at, id, value),
                }
                self.add_block(after);
            }
        }
        self.len += 1;
        None
    }

    /// Appends an entry if its id is greater than all others. Returns whether it did.
    #[inline]
    fn push(&mut self, id: StreamId, value: V) -> bool {
        if self.last().is_some_and(|last| id <= last) {
            return false;
        }
        let last = match &mut self.shape {
            Shape::One(block) => Some(block),
            Shape::Many(blocks) => blocks.last().map(|at| blocks.get_mut(at)),
        };
        let Some(block) = last else { return false };
        self.len += 1;
        if block.is_empty() {
            *block = Block::with(id, value);
        } else if !block.is_full() {
            block.push(id, value);
        } else if block.len() < FULL / 2 {
            block.compact();
            block.push(id, value);
        } else {
            self.add_block(Block::with(id, value));
        }
        true
    }

    /// Adds a block, which must have entries, at its position.
    #[cold]
    fn add_block(&mut self, block: Block<V>) {
        if let Shape::One(first) = &mut self.shape {
            let first = std::mem::replace(first, Block::new());
            self.shape = Shape::Many(Blocks::of(first));
        }
        if let (Shape::Many(blocks), Some(least)) = (&mut self.shape, block.ids().first().copied())
        {
            blocks.insert(least, block);
        }
    }

    /// Removes `id`. Returns its value. O(log n).
    #[inline]
    pub(super) fn remove(&mut self, id: StreamId) -> Option<V> {
        let (place, block) = self.block(id)?;
        let at = block.find(id).ok()?;
        let block = match (&mut self.shape, place) {
            (Shape::Many(blocks), Some(place)) => blocks.get_mut(place),
            (Shape::One(block), _) => block,
            (Shape::Many(_), None) => unreachable!("a block of many has a position"),
        };
        let value = block.remove(at);
        let left = block.len();
        self.len -= 1;
        match place {
            Some(place) if left <= FEW => self.shrink(place, left),
            Some(_) => {}
            None if left == 0 => self.shape = Shape::One(Block::new()),
            None => {}
        }
        Some(value)
    }

    /// Removes or joins the block at `place`, which has become small.
    #[cold]
    fn shrink(&mut self, place: Place, left: usize) {
        let Shape::Many(blocks) = &mut self.shape else { return };
        let fits = |other: &Place| left + blocks.get(*other).len() <= FULL / 2;
        if left == 0 {
            blocks.remove(place);
        } else if let Some(after) = blocks.next(place).filter(fits) {
            join(blocks, place, after);
        } else if let Some(before) = blocks.before(place).filter(fits) {
            join(blocks, before, place);
        }
        if blocks.len() <= 1 {
            let mut last = match blocks.first() {
                Some(place) => blocks.remove(place),
                None => Block::new(),
            };
            last.compact();
            self.shape = Shape::One(last);
        }
    }

    /// Changes the value of `id`. Returns false if there is none. O(log n).
    #[inline]
    pub(super) fn change(&mut self, id: StreamId, change: impl FnOnce(&mut V)) -> bool {
        if self.get(id).is_none() {
            return false;
        }
        let Some(block) = self.block_mut(id) else { return false };
        let Ok(at) = block.find(id) else { return false };
        change(block.value_mut(at));
        let time_ms = block.values()[at].time_ms();
        block.note(time_ms);
        true
    }

    /// The entries from `from` on, in order. The first takes O(log n).
    pub(super) fn iter_from(&self, from: StreamId) -> Walk<'_, V> {
        self.iter_old_from(from, i64::MAX, usize::MAX)
    }

    /// The entries from `from` on whose time is not after `until_ms`. Blocks with only younger
    /// entries are skipped in O(1). The walk ends when it has examined more than `enough` entries
    /// and blocks, even if it has returned none.
    pub(super) fn iter_old_from(
        &self,
        from: StreamId,
        until_ms: i64,
        enough: usize,
    ) -> Walk<'_, V> {
        let (block, rest) = match &self.shape {
            Shape::One(block) => (Some(block), None),
            Shape::Many(blocks) => {
                // The first entries of the block to which `from` belongs may precede it.
                let place = blocks.find(from).or_else(|| blocks.first());
                (place.map(|at| blocks.get(at)), place.map(|at| (blocks, at)))
            }
        };
        let at = block.map_or(0, |block| block.find(from).unwrap_or_else(|at| at));
        Walk { block, at, rest, until_ms, enough, looked_at: 0 }
    }

    /// The least id.
    pub(super) fn first(&self) -> Option<StreamId> {
        self.blocks().next().and_then(|block| block.ids().first().copied())
    }

    /// The greatest id.
    pub(super) fn last(&self) -> Option<StreamId> {
        match &self.shape {
            Shape::One(block) => block.last(),
            Shape::Many(blocks) => blocks.last().and_then(|at| blocks.get(at).last()),
        }
    }

    /// The number of blocks.
    pub(super) fn pieces(&self) -> usize {
        match &self.shape {
            Shape::One(_) => 1,
            Shape::Many(blocks) => blocks.len(),
        }
    }

    /// Bytes of memory that a clone does not share, without the map itself.
    pub(super) fn own(&self) -> usize {
        match &self.shape {
            Shape::One(block) => block.memory(),
            Shape::Many(blocks) => blocks.own(),
        }
    }

    /// Bytes of memory without the map itself: exact up to 256 blocks, else estimated from the
    /// first 256.
    pub(super) fn memory(&self) -> usize {
        const SAMPLES: usize = 256;
        let blocks = self.pieces();
        let sampled: usize = self.blocks().take(SAMPLES).map(Block::memory).sum();
        let outside = match &self.shape {
            Shape::One(_) => 0,
            Shape::Many(_) => blocks * Blocks::<V>::memory_each(),
        };
        sampled * blocks / blocks.clamp(1, SAMPLES) + outside
    }

    /// Panics unless the invariants of the module documentation hold.
    #[cfg(test)]
    pub(super) fn check(&self) {
        let mut len = 0;
        let mut before: Option<StreamId> = None;
        for block in self.blocks() {
            for (id, value) in block.ids().iter().zip(block.values()) {
                assert!(before.is_none_or(|before| before < *id), "in order");
                assert!(block.oldest_ms <= value.time_ms(), "oldest_ms is a lower bound");
                before = Some(*id);
                len += 1;
            }
            assert!(block.ids().len() <= FULL && block.ids().len() == block.values().len());
        }
        assert_eq!(len, self.len);
        if let Shape::Many(blocks) = &self.shape {
            blocks.check();
            assert!(blocks.len() > 1 && blocks.iter().all(|block| !block.is_empty()));
            let mut place = blocks.first();
            while let Some(at) = place {
                let (least, block) = (blocks.least(at), blocks.get(at));
                place = blocks.next(at);
                assert!(block.ids().iter().all(|id| *id >= least));
                assert!(
                    place.is_none_or(|at| { block.ids().iter().all(|id| *id < blocks.least(at)) })
                );
            }
        }
    }
}

/// Joins the block at `behind` to the previous one, at `before`.
fn join<V: Timed>(blocks: &mut Blocks<V>, before: Place, after: Place) {
    let after = blocks.remove(after);
    blocks.get_mut(before).join(after);
}

/// An iterator over entries: see [`Sorted::iter_from`].
#[derive(Clone, Debug)]
pub(super) struct Walk<'a, V> {
    block: Option<&'a Block<V>>,
    at: usize,
    /// The block's position, if there are several blocks.
    rest: Option<(&'a Blocks<V>, Place)>,
    until_ms: i64,
    enough: usize,
    /// The number of entries and blocks examined so far: the work done.
    pub(super) looked_at: usize,
}

impl<'a, V: Timed> Iterator for Walk<'a, V> {
    type Item = (StreamId, V);

    #[inline]
    fn next(&mut self) -> Option<(StreamId, V)> {
        loop {
            let block = self.block?;
            let all_younger = block.oldest_ms > self.until_ms;
            while !all_younger && self.at < block.len() {
                if self.looked_at > self.enough {
                    return None;
                }
                let at = self.at;
                self.at += 1;
                self.looked_at += 1;
                let value = block.values()[at];
                if value.time_ms() <= self.until_ms {
                    return Some((block.ids()[at], value));
                }
            }
            self.at = 0;
            self.looked_at += 1;
            if self.looked_at > self.enough {
                return None;
            }
            self.rest = self.rest.and_then(|(all, at)| all.next(at).map(|next| (all, next)));
            self.block = self.rest.map(|(all, at)| all.get(at));
        }
    }
}

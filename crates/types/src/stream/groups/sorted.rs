//! A map from ids to small values, in order: compact with millions of entries, small with a few.
//!
//! ```text
//!  up to 128 entries:   one block, nothing else
//!  more:                B tree of blocks by the least id that belongs into each
//!                         [ 0-0 ─► block ][ 17-3 ─► block ][ 90-0 ─► block ] ...
//! ```
//!
//! Ids come in ascending order, and most go in that order: new ones fill the last block and start
//! another, so blocks are full and an entry costs its id and its value and nearly nothing more. Every
//! operation is O(log n) with steps of bounded size, wherever it happens.
//!
//! An empty block is never kept beside others, so every block that a walk meets has an entry.

use super::Dated;
use super::block::{Block, FEW, FULL};
use crate::stream::StreamId;
use std::collections::BTreeMap;
use std::ops::Bound::{Excluded, Unbounded};

/// See the module's description.
#[derive(Clone, Debug)]
pub(super) struct Sorted<V> {
    shape: Shape<V>,
    len: usize,
}

#[derive(Clone, Debug)]
enum Shape<V> {
    One(Block<V>),
    /// Two blocks or more, as a rule; each under an id that is not above its first entry, and above
    /// the last entry of the one before.
    Many(BTreeMap<StreamId, Block<V>>),
}

impl<V: Dated> Default for Sorted<V> {
    fn default() -> Self {
        Sorted { shape: Shape::One(Block::new()), len: 0 }
    }
}

impl<V: Dated> Sorted<V> {
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// The blocks in order.
    fn blocks(&self) -> impl Iterator<Item = &Block<V>> {
        let (one, many) = match &self.shape {
            Shape::One(block) => (Some(block), None),
            Shape::Many(blocks) => (None, Some(blocks.values())),
        };
        one.into_iter().chain(many.into_iter().flatten())
    }

    /// The block into which `id` belongs.
    #[inline]
    fn block(&self, id: StreamId) -> Option<&Block<V>> {
        match &self.shape {
            Shape::One(block) => Some(block),
            Shape::Many(blocks) => blocks.range(..=id).next_back().map(|(_, block)| block),
        }
    }

    /// The same with the id under which it stands, if it stands under one.
    #[inline]
    fn block_mut(&mut self, id: StreamId) -> Option<(Option<StreamId>, &mut Block<V>)> {
        match &mut self.shape {
            Shape::One(block) => Some((None, block)),
            Shape::Many(blocks) => {
                blocks.range_mut(..=id).next_back().map(|(at, block)| (Some(*at), block))
            }
        }
    }

    /// The value of `id`. O(log n).
    #[inline]
    pub(super) fn get(&self, id: StreamId) -> Option<V> {
        let block = self.block(id)?;
        block.find(id).ok().map(|at| block.values()[at])
    }

    /// Gives `id` a value; the one that it had. O(log n).
    #[inline]
    pub(super) fn insert(&mut self, id: StreamId, value: V) -> Option<V> {
        if self.push(id, value) {
            return None;
        }
        if let Shape::Many(blocks) = &mut self.shape
            && blocks.first_key_value().is_some_and(|(least, _)| id < *least)
            && let Some((_, block)) = blocks.pop_first()
        {
            blocks.insert(id, block);
        }
        let (_, block) = self.block_mut(id)?;
        let at = match block.find(id) {
            Ok(at) => {
                block.note(value.time_ms());
                return Some(std::mem::replace(block.value_mut(at), value));
            }
            Err(at) => at,
        };
        let behind = if block.is_full() { block.make_room() } else { None };
        match behind {
            None => block.insert(at, id, value),
            Some(mut behind) => {
                match at.checked_sub(block.len()) {
                    Some(at) if at > 0 => behind.insert(at, id, value),
                    Some(_) | None => block.insert(at, id, value),
                }
                self.add_block(behind);
            }
        }
        self.len += 1;
        None
    }

    /// Adds an entry that comes behind all others; whether it does.
    #[inline]
    fn push(&mut self, id: StreamId, value: V) -> bool {
        let last = match &mut self.shape {
            Shape::One(block) => Some(block),
            Shape::Many(blocks) => blocks.last_entry().map(|entry| entry.into_mut()),
        };
        let Some(block) = last else { return false };
        if block.last().is_some_and(|last| id <= last) {
            return false;
        }
        self.len += 1;
        if block.is_empty() {
            *block = Block::with(id, value);
        } else if !block.is_full() {
            block.push(id, value);
        } else if block.len() < FULL / 2 {
            block.tidy();
            block.push(id, value);
        } else {
            self.add_block(Block::with(id, value));
        }
        true
    }

    /// Adds a block with entries, in its place.
    #[cold]
    fn add_block(&mut self, block: Block<V>) {
        if let Shape::One(first) = &mut self.shape {
            let first = std::mem::replace(first, Block::new());
            self.shape = Shape::Many(BTreeMap::from([(StreamId::MIN, first)]));
        }
        if let (Shape::Many(blocks), Some(least)) = (&mut self.shape, block.ids().first().copied())
        {
            blocks.insert(least, block);
        }
    }

    /// Takes `id` out; its value. O(log n).
    #[inline]
    pub(super) fn remove(&mut self, id: StreamId) -> Option<V> {
        let (key, block) = self.block_mut(id)?;
        let at = block.find(id).ok()?;
        let value = block.remove(at);
        let left = block.len();
        self.len -= 1;
        match key {
            Some(key) if left <= FEW => self.shrink(key, left),
            Some(_) => {}
            None if left == 0 => self.shape = Shape::One(Block::new()),
            None => {}
        }
        Some(value)
    }

    /// The block under `key` has become small.
    #[cold]
    fn shrink(&mut self, key: StreamId, left: usize) {
        let Shape::Many(blocks) = &mut self.shape else { return };
        let fits = |found: Option<(&StreamId, &Block<V>)>| {
            found.filter(|(_, block)| left + block.len() <= FULL / 2).map(|(at, _)| *at)
        };
        if left == 0 {
            blocks.remove(&key);
        } else if let Some(behind) = fits(blocks.range((Excluded(key), Unbounded)).next()) {
            join(blocks, key, behind);
        } else if let Some(before) = fits(blocks.range(..key).next_back()) {
            join(blocks, before, key);
        }
        if blocks.len() <= 1 {
            let mut last = blocks.pop_first().map_or_else(Block::new, |(_, block)| block);
            last.tidy();
            self.shape = Shape::One(last);
        }
    }

    /// Changes the value of `id`, if it is there. O(log n).
    #[inline]
    pub(super) fn change(&mut self, id: StreamId, change: impl FnOnce(&mut V)) -> bool {
        let Some((_, block)) = self.block_mut(id) else { return false };
        let Ok(at) = block.find(id) else { return false };
        change(block.value_mut(at));
        let time_ms = block.values()[at].time_ms();
        block.note(time_ms);
        true
    }

    /// The entries from `from` on, in order. The first in O(log n).
    pub(super) fn onward(&self, from: StreamId) -> Walk<'_, V> {
        self.onward_old(from, i64::MAX, usize::MAX)
    }

    /// Those of the entries from `from` on whose time is not after `until_ms`. Blocks in which all
    /// are younger are passed over in O(1). The walk ends when it has looked at more than `enough`
    /// entries and blocks, of which it may have shown none.
    pub(super) fn onward_old(&self, from: StreamId, until_ms: i64, enough: usize) -> Walk<'_, V> {
        let (block, rest) = match &self.shape {
            Shape::One(block) => (Some(block), None),
            Shape::Many(blocks) => {
                // The first entries of the block into which `from` belongs may come before it.
                let here = blocks.range(..=from).next_back();
                let mut rest = blocks.range((Excluded(from), Unbounded));
                let block = here.or_else(|| rest.next()).map(|(_, block)| block);
                (block, Some(rest))
            }
        };
        let at = block.map_or(0, |block| block.find(from).unwrap_or_else(|at| at));
        Walk { block, at, rest, until_ms, enough, looked_at: 0 }
    }

    /// The entry with the least id.
    pub(super) fn first(&self) -> Option<StreamId> {
        self.blocks().next().and_then(|block| block.ids().first().copied())
    }

    /// The entry with the greatest id.
    pub(super) fn last(&self) -> Option<StreamId> {
        match &self.shape {
            Shape::One(block) => block.last(),
            Shape::Many(blocks) => blocks.last_key_value().and_then(|(_, block)| block.last()),
        }
    }

    /// How many blocks there are.
    pub(super) fn pieces(&self) -> usize {
        match &self.shape {
            Shape::One(_) => 1,
            Shape::Many(blocks) => blocks.len(),
        }
    }

    /// Bytes of memory beside the map itself, exactly with up to 256 blocks, else from the first 256.
    pub(super) fn memory(&self) -> usize {
        const SAMPLES: usize = 256;
        /// A node of the tree is about two thirds full.
        const SLOT: usize = (size_of::<StreamId>() + size_of::<usize>()) * 3 / 2;
        let blocks = self.pieces();
        let sampled: usize = self.blocks().take(SAMPLES).map(Block::memory).sum();
        let outside = match &self.shape {
            Shape::One(_) => 0,
            Shape::Many(_) => blocks * (SLOT + size_of::<Block<V>>() * 3 / 2),
        };
        sampled * blocks / blocks.clamp(1, SAMPLES) + outside
    }

    /// Panics unless everything is as the module says.
    #[cfg(test)]
    pub(super) fn check(&self) {
        let mut len = 0;
        let mut before: Option<StreamId> = None;
        for block in self.blocks() {
            for (id, value) in block.ids().iter().zip(block.values()) {
                assert!(before.is_none_or(|before| before < *id), "in order");
                assert!(block.oldest_ms <= value.time_ms(), "no value is older than is noted");
                before = Some(*id);
                len += 1;
            }
            assert!(block.ids().len() <= FULL && block.ids().len() == block.values().len());
        }
        assert_eq!(len, self.len);
        if let Shape::Many(blocks) = &self.shape {
            assert!(blocks.len() > 1 && blocks.values().all(|block| !block.is_empty()));
            for (least, block) in blocks {
                let next = blocks.range((Excluded(*least), Unbounded)).next();
                assert!(block.ids().iter().all(|id| id >= least));
                assert!(next.is_none_or(|(next, _)| block.ids().iter().all(|id| id < next)));
            }
        }
    }
}

/// Joins the block under `behind` to the one before it.
fn join<V: Dated>(blocks: &mut BTreeMap<StreamId, Block<V>>, before: StreamId, behind: StreamId) {
    if let Some(behind) = blocks.remove(&behind)
        && let Some(block) = blocks.get_mut(&before)
    {
        block.join(behind);
    }
}

/// A walk over entries: see [`Sorted::onward`].
#[derive(Clone, Debug)]
pub(super) struct Walk<'a, V> {
    block: Option<&'a Block<V>>,
    at: usize,
    rest: Option<std::collections::btree_map::Range<'a, StreamId, Block<V>>>,
    until_ms: i64,
    enough: usize,
    /// Entries and blocks that were looked at so far: how much work it was.
    pub(super) looked_at: usize,
}

impl<'a, V: Dated> Iterator for Walk<'a, V> {
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
            self.block = self.rest.as_mut().and_then(|rest| rest.next()).map(|(_, block)| block);
        }
    }
}

//! The entries of a stream, and counts and ids that outlive deleted ones.

use super::StreamId;
use super::block::{Block, NODE_MAX, Offsets};
use super::entry::Entry;
use super::index::{Blocks, Place};
use super::trim::{Keep, Trim, Waste};
use crate::Limits;

/// The most fields of an entry.
const FIELDS_MAX: usize = 1 << 25;

/// The entry is longer than a block may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooLarge;

/// The entries of a stream, with the ids and counts that XSETID sets.
#[derive(Clone, Debug, Default)]
pub struct Log {
    pub(super) blocks: Blocks,
    pub(super) len: u64,
    /// 0-0 if there is no entry.
    pub(super) first_id: StreamId,
    /// The id of the last entry ever added, or the one set by XSETID.
    pub last_id: StreamId,
    /// The greatest id that XDEL has deleted, or the one set by XSETID.
    pub max_deleted_id: StreamId,
    /// The number of entries ever added, or the one set by XSETID.
    pub entries_added: u64,
}

impl Log {
    /// The number of entries. O(1), as all below unless stated otherwise.
    #[inline]
    pub fn len(&self) -> u64 {
        self.len
    }

    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The id of the first entry; 0-0 if there is none.
    #[inline]
    pub fn first_id(&self) -> StreamId {
        self.first_id
    }

    /// The id of the last entry; `None` if there is none. O(1) unless the last one was deleted.
    #[inline]
    pub fn last_entry_id(&self) -> Option<StreamId> {
        let mut place = self.blocks.last();
        while let Some(at) = place {
            if let Some(id) = self.blocks.get(at).last_live() {
                return Some(id);
            }
            place = self.blocks.before(at);
        }
        None
    }

    /// Appends an entry, whose id must be greater than the last one. `pairs` alternates fields and
    /// values and has at least one pair. Amortized O(bytes of it).
    ///
    /// # Errors
    ///
    /// [`TooLarge`]; nothing has changed.
    pub fn append(
        &mut self,
        id: StreamId,
        pairs: &[&[u8]],
        limits: &Limits,
    ) -> Result<(), TooLarge> {
        debug_assert!(id > self.last_id, "ids must ascend");
        let text: usize = pairs.iter().map(|text| text.len()).sum();
        if text > NODE_MAX || pairs.len() > 2 * FIELDS_MAX {
            return Err(TooLarge);
        }
        match self.blocks.last_mut() {
            Some(block) if !block.is_full(text, limits) => block.append(id, pairs),
            full => {
                if let Some(full) = full {
                    full.close();
                }
                let mut block = Block::new(id, pairs);
                block.append(id, pairs);
                self.blocks.push(block);
            }
        }
        self.len += 1;
        self.entries_added = self.entries_added.wrapping_add(1);
        self.last_id = id;
        if self.len == 1 {
            self.first_id = id;
        }
        Ok(())
    }

    /// The entries of each block, in order. A block may have none.
    pub fn runs(&self) -> impl Iterator<Item = Range<'_>> + Clone {
        let mut place = self.blocks.first();
        std::iter::from_fn(move || {
            let at = place?;
            let block = self.blocks.get(at);
            place = self.blocks.next(at);
            let (offset, to) = (block.start(), block.last);
            Some(Range { blocks: &self.blocks, place: Some(at), offset, to })
        })
    }

    /// The position where a forward walk from `id` begins. O(log n).
    fn place(&self, id: StreamId) -> Option<Place> {
        self.blocks.find(id).or_else(|| self.blocks.first())
    }

    /// The entries from `from` to `to` inclusive, in order. The first takes O(log n + block).
    #[inline]
    pub fn range(&self, from: StreamId, to: StreamId) -> Range<'_> {
        let place = if from <= to { self.place(from) } else { None };
        let offset = place.map_or(0, |place| self.blocks.get(place).seek(from));
        Range { blocks: &self.blocks, place, offset, to }
    }

    /// Like [`Log::range`], from the last to the first.
    pub fn range_back(&self, from: StreamId, to: StreamId) -> Back<'_> {
        let place = if from <= to { self.blocks.find(to) } else { None };
        let offsets = place.map_or_else(Offsets::new, |at| self.blocks.get(at).offsets(to));
        Back { blocks: &self.blocks, place, offsets, from }
    }

    /// The entry with this id. O(log n + block).
    pub fn get(&self, id: StreamId) -> Option<Entry<'_>> {
        self.range(id, id).next()
    }

    /// Whether there is an entry with this id. O(log n + block).
    pub fn contains(&self, id: StreamId) -> bool {
        self.place(id).is_some_and(|place| self.blocks.get(place).has(id))
    }

    /// Deletes the entry with this id. Returns whether there was one. Doesn't change
    /// [`Log::max_deleted_id`]. O(log n + bytes of a block).
    pub fn delete(&mut self, id: StreamId) -> bool {
        let Some(place) = self.place(id) else { return false };
        let block = self.blocks.get_mut(place);
        if !block.delete(id) {
            return false;
        }
        if block.len() == 0 {
            self.blocks.remove(place);
        }
        self.len -= 1;
        if id == self.first_id {
            self.find_first();
        }
        true
    }

    /// Updates the id of the first entry.
    fn find_first(&mut self) {
        self.first_id =
            self.range(StreamId::MIN, StreamId::MAX).next().map_or(StreamId::MIN, |e| e.id);
    }

    /// Deletes entries from the front according to `trim`. Returns how many. Moves removed blocks
    /// to `waste`. O(blocks removed + entries removed from the last one).
    pub fn trim(&mut self, trim: &Trim, waste: &mut Waste) -> u64 {
        let mut deleted = 0;
        while let Some(place) = self.blocks.first() {
            let block = self.blocks.get(place);
            let entries = block.len() as u64;
            let whole = match trim.keep {
                Keep::Newest(most) if self.len <= most => break,
                Keep::Newest(most) => self.len - entries >= most,
                Keep::From(id) => block.last < id,
            };
            if trim.limit.is_some_and(|limit| deleted + entries > limit) {
                break;
            }
            if whole {
                waste.add(self.blocks.remove(place));
                self.len -= entries;
                deleted += entries;
                continue;
            }
            if !trim.approximate {
                let (most, until) = match trim.keep {
                    Keep::Newest(most) => (self.len - most, StreamId::MAX),
                    Keep::From(id) => (u64::MAX, id),
                };
                let most = usize::try_from(most).unwrap_or(usize::MAX);
                let gone = self.blocks.get_mut(place).delete_front(most, until) as u64;
                self.len -= gone;
                deleted += gone;
            }
            break;
        }
        if deleted > 0 {
            self.find_first();
        }
        deleted
    }

    /// Approximate work of [`Log::trim`] in elements: the examined ones, and a few for each block.
    /// O(log n + pages).
    pub fn trim_work(&self, trim: &Trim) -> usize {
        /// The work of freeing a block, with its cache misses.
        const BLOCK: usize = 8;
        let blocks = match trim.keep {
            Keep::Newest(most) => {
                let gone = self.len.saturating_sub(most);
                let per_block = self.len / (self.blocks.len().max(1) as u64);
                usize::try_from(gone / per_block.max(1)).unwrap_or(usize::MAX)
            }
            Keep::From(id) => self.blocks.find(id).map_or(0, |place| self.blocks.rank(place)),
        };
        let limited = trim.limit.map_or(usize::MAX, |n| usize::try_from(n).unwrap_or(usize::MAX));
        let first = self.blocks.first().map_or(0, |place| self.blocks.get(place).text());
        blocks.min(limited).saturating_mul(BLOCK) + first / 1024
    }

    /// Approximate work of replying with up to `count` entries from `from` to `to`, forward or
    /// backward: their fields and values, and their bytes. Stops estimating beyond `enough`. O(log
    /// n + enough).
    pub fn range_work(
        &self,
        from: StreamId,
        to: StreamId,
        count: u64,
        backward: bool,
        enough: usize,
    ) -> usize {
        let mut place = if backward { self.blocks.find(to) } else { self.place(from) };
        let count = usize::try_from(count).unwrap_or(usize::MAX);
        let (mut entries, mut bytes, mut each, mut front) = (0, 0, 0, 0);
        while let Some(at) = place {
            let block = self.blocks.get(at);
            let outside = if backward { block.last < from } else { block.master > to };
            if outside || entries * each > enough || entries >= count.saturating_add(front) {
                break;
            }
            if front == 0 {
                // The walk may begin anywhere in the first one.
                front = block.len();
            }
            each = each.max(1 + block.most_fields(enough));
            entries += block.len();
            bytes += block.text();
            place = if backward { self.blocks.before(at) } else { self.blocks.next(at) };
        }
        let answered = entries.min(count);
        answered * each + bytes / entries.max(1) * answered / 1024 + bytes / (64 * 1024)
    }

    /// Approximate work of replying with the entries with these ids, if they exist, in the units of
    /// [`Log::range_work`]. Excludes looking them up. Stops estimating beyond `enough`. O(ids * log
    /// n) if entries are not longer than an ordinary block.
    pub fn reply_work(&self, ids: impl Iterator<Item = StreamId>, enough: usize) -> usize {
        let mut work = 0;
        for id in ids {
            work += 1;
            let block = self.blocks.find(id).map(|place| self.blocks.get(place));
            if let Some(block) = block.filter(|block| block.is_heavy()) {
                let bytes = block.text() / block.len().max(1);
                work += block.most_fields(enough) + bytes / 1024;
            }
            if work > enough {
                break;
            }
        }
        work
    }

    /// The work of looking up or deleting one entry, in elements. It depends on the size of blocks,
    /// which `stream-node-max-bytes` allows to be large.
    pub fn look_up_work(&self) -> usize {
        let last = self.blocks.last().map_or(0, |place| self.blocks.get(place).text());
        let first = self.blocks.first().map_or(0, |place| self.blocks.get(place).text());
        2 + last.max(first) / 4096
    }

    /// The number of nodes that Valkey would have for these entries: XINFO's `radix-tree-keys`.
    /// O(pages).
    pub fn blocks(&self) -> usize {
        self.blocks.len()
    }

    /// The number of nodes of Valkey's tree over them: XINFO's `radix-tree-nodes`.
    /// [`Log::tree_work`] returns the cost.
    pub fn tree_nodes(&self) -> usize {
        self.blocks.tree_nodes()
    }

    /// The work of [`Log::tree_nodes`], in elements: 0 unless a block was added or removed.
    pub fn tree_work(&self) -> usize {
        if self.blocks.knows_tree() { 0 } else { self.blocks.len() / 10 }
    }

    /// Bytes of memory without the log itself, estimated from up to `samples` blocks; 0: all.
    /// O(samples).
    pub(super) fn memory(&self, samples: usize) -> usize {
        let blocks = self.blocks.len();
        let samples = if samples == 0 { blocks } else { samples.min(blocks) };
        let sampled: usize = self.blocks.iter().take(samples).map(Block::memory).sum();
        let all = if samples == blocks { sampled } else { sampled / samples * blocks };
        all + self.blocks.memory()
    }

    /// Panics unless all invariants hold.
    #[cfg(test)]
    pub(super) fn check(&self) {
        self.blocks.check();
        let ids: Vec<u128> =
            self.blocks.iter().map(|b| u128::from_be_bytes(b.master.to_bytes())).collect();
        assert_eq!(self.tree_nodes(), super::nodes::count(&ids));
        let ids: Vec<StreamId> = self.range(StreamId::MIN, StreamId::MAX).map(|e| e.id).collect();
        assert_eq!(ids.len() as u64, self.len);
        assert_eq!(self.blocks.iter().map(Block::len).sum::<usize>() as u64, self.len);
        assert!(ids.is_sorted());
        assert_eq!(ids.first().copied().unwrap_or_default(), self.first_id);
        assert_eq!(ids.last().copied(), self.last_entry_id());
        let back: Vec<StreamId> =
            self.range_back(StreamId::MIN, StreamId::MAX).map(|e| e.id).collect();
        assert!(back.iter().rev().eq(&ids));
    }
}

/// Iterator over entries in order: see [`Log::range`].
#[derive(Clone, Debug)]
pub struct Range<'a> {
    blocks: &'a Blocks,
    /// The block of the next entry, or one before it.
    place: Option<Place>,
    offset: usize,
    to: StreamId,
}

impl<'a> Iterator for Range<'a> {
    type Item = Entry<'a>;

    #[inline]
    fn next(&mut self) -> Option<Entry<'a>> {
        loop {
            let place = self.place?;
            let block = self.blocks.get(place);
            if self.offset < block.end() {
                let (entry, next) = block.entry(self.offset);
                if entry.id > self.to {
                    self.place = None;
                    return None;
                }
                self.offset = next;
                return Some(entry);
            }
            self.place = self.blocks.next(place);
            self.offset = self.place.map_or(0, |place| self.blocks.get(place).start());
        }
    }
}

/// Iterator over entries from the last to the first: see [`Log::range_back`].
#[derive(Clone, Debug)]
pub struct Back<'a> {
    blocks: &'a Blocks,
    place: Option<Place>,
    /// The offsets of the entries in this block that were not returned yet.
    offsets: Offsets,
    from: StreamId,
}

impl<'a> Iterator for Back<'a> {
    type Item = Entry<'a>;

    #[inline]
    fn next(&mut self) -> Option<Entry<'a>> {
        loop {
            let place = self.place?;
            let block = self.blocks.get(place);
            if let Some(at) = self.offsets.pop() {
                let (entry, _) = block.entry(at as usize);
                if entry.id < self.from {
                    self.place = None;
                    return None;
                }
                return Some(entry);
            }
            self.place = self.blocks.before(place);
            if let Some(place) = self.place {
                self.offsets = self.blocks.get(place).offsets(StreamId::MAX);
            }
        }
    }
}

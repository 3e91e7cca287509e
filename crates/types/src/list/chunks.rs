//! A long list, as a row of chunks.
//!
//! To Valkey such a list is a row of *nodes*, and the elements of each node determine when OBJECT
//! ENCODING changes. A node grows without bound when longer texts replace short ones, and then
//! every change would move all of it. So a node is one or several chunks that follow each other
//! ([`Chunk::follows`]), the *parts* of the node. A part has at most twice the bytes of a full node
//! ([`Fill::most_bytes`]), unless it is one element.
//!
//! Any two neighbours in a node have more bytes than that together; otherwise they are joined. So a
//! node of several parts is always full: nothing is pushed to it or joined with it, and nearly all
//! rules need only look at one chunk.
//!
//! `docs/design/list-nodes.md` gives the reasons.
//!
//! | file | content |
//! |---|---|
//! | `row` | the chunks in a row, whose pages clones share |
//! | `chunks` | the list's ends, positions |
//! | `edit` | changes at a position: set and insert elements, split and join nodes |
//! | `shrink` | removes ranges and equal elements, converts a list that is short again |

use super::End;
use super::chunk::Chunk;
use super::fill::Fill;
use super::row::Row;
use super::waste::Waste;
use crate::Limits;
use crate::packed::{Encoded, Entries, TwoWay, Value};
use std::borrow::Cow;
use std::ops::Range;

/// See the module documentation. A clone shares all chunks but copies the page of them at either
/// end: see [`Row`].
#[derive(Clone, Debug)]
pub struct Chunks {
    pub(super) row: Row,
    pub(super) len: usize,
    pub(super) fill: Fill,
    /// `list-compress-depth`: chunks at either end that are never compressed, while all others are;
    /// 0: none is. Like `fill`, as it was when the list became long.
    pub(super) depth: usize,
}

/// The position of an element: chunk, index in it, offset of its entry.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    pub chunk: usize,
    pub nth: usize,
    pub at: usize,
}

impl Chunks {
    /// The list of these packed entries, as a single node.
    pub(super) fn of(entries: Entries<'_, TwoWay>, count: usize, limits: &Limits) -> Self {
        let (fill, depth) = (Fill::of(limits), limits.list_compress);
        let mut chunks = Chunks { row: Row::default(), len: count, fill, depth };
        if count > 0 {
            chunks.row.push_back(Chunk::of(entries, count));
            let added = chunks.divide(0);
            chunks.update_compression(0..chunks.row.len(), added);
        }
        chunks
    }

    /// A list only for freeing these chunks. O(chunks).
    pub(super) fn of_waste(row: Row) -> Self {
        let len = row.iter().map(Chunk::count).sum();
        Chunks { row, len, fill: Fill::Whole, depth: 0 }
    }

    /// The number of elements. O(1).
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The number of allocations. O(1).
    pub fn pieces(&self) -> usize {
        2 + self.row.len()
    }

    /// Bytes of memory, this value included. O(chunks).
    pub fn memory(&self) -> usize {
        size_of::<Chunks>() + self.row.memory() + self.row.iter().map(Chunk::memory).sum::<usize>()
    }

    /// The bytes of the entries of each chunk.
    pub(super) fn texts(&self) -> impl Iterator<Item = Cow<'_, [u8]>> {
        self.row.iter().map(Chunk::text)
    }

    /// The most chunks passed on the way to the element at `index`. O(1).
    pub(super) fn distance(&self, index: usize) -> usize {
        index.min(self.len.saturating_sub(index)).min(self.row.len() / 2)
    }

    /// Bytes of the entries of the chunks that hold `n` elements from `index` on, which must be
    /// less than the length. O(chunks).
    pub(super) fn bytes_of(&self, index: usize, n: usize) -> usize {
        let (first, nth) = self.locate(index);
        let (mut bytes, mut left) = (0, nth + n);
        for chunk in self.row.iter().skip(first) {
            bytes += chunk.bytes();
            left = left.saturating_sub(chunk.count());
            if left == 0 {
                break;
            }
        }
        bytes
    }

    /// Bytes of compressed entries, which reading every element would decompress. O(chunks) if
    /// chunks are compressed at all, else O(1).
    pub(super) fn compressed_bytes(&self) -> usize {
        match self.depth {
            0 => 0,
            _ => self.row.iter().filter(|c| c.is_compressed()).map(Chunk::bytes).sum(),
        }
    }

    /// Whether a node begins at the chunk `at`, or the row ends before it.
    #[inline]
    pub(super) fn starts(&self, at: usize) -> bool {
        self.row.get(at).is_none_or(|chunk| !chunk.follows)
    }

    /// Whether there is a chunk at `at` and its node has room for a text of this length.
    #[inline]
    pub(super) fn takes(&self, at: usize, text: usize) -> bool {
        let Some(chunk) = self.row.get(at) else { return false };
        self.node_takes(chunk, !chunk.follows && self.starts(at + 1), text)
    }

    /// Whether the node of `chunk` has room for the text. `one` says whether it is a node on its
    /// own.
    #[inline]
    fn node_takes(&self, chunk: &Chunk, one: bool, text: usize) -> bool {
        match self.fill {
            Fill::Whole => true,
            fill @ (Fill::Bytes(_) | Fill::Elements(_)) => {
                one && !chunk.is_alone() && fill.takes(chunk.bytes(), chunk.count(), text)
            }
        }
    }

    /// Whether exactly the right chunks are compressed.
    #[cfg(test)]
    pub(super) fn has_right_compression(&self) -> bool {
        let inner = self.depth..self.row.len().saturating_sub(self.depth);
        self.row.iter().enumerate().all(|(at, chunk)| {
            let mut wanted = chunk.clone();
            match self.depth > 0 && inner.contains(&at) {
                true => wanted.compress(),
                false => wanted.decompress(),
            }
            chunk.is_compressed() == wanted.is_compressed()
        })
    }

    /// Adds an element at one end. Amortized O(1).
    #[inline]
    pub(super) fn push(&mut self, end: End, text: &[u8]) {
        let entry = Encoded::of(text);
        let most = self.fill.most_bytes();
        self.len += 1;
        if !self.end_takes(end, text.len()) {
            return self.push_new_node(end, &entry, text.len());
        }
        let chunk = self.row.end_mut(end).expect("an end that takes the text");
        match end {
            End::Left => chunk.push_left(&entry, most),
            End::Right => chunk.push_right(&entry, most),
        }
        if self.fill == Fill::Whole {
            let last = match end {
                End::Left => 0,
                End::Right => self.row.len() - 1,
            };
            let added = self.divide(last);
            self.update_compression(0..0, added);
        }
    }

    /// [`Chunks::takes`] for the chunk at one end of the row.
    #[inline]
    fn end_takes(&self, end: End, text: usize) -> bool {
        let (last, one) = match end {
            End::Left => (self.row.front(), self.starts(1)),
            End::Right => (self.row.back(), true),
        };
        last.is_some_and(|chunk| self.node_takes(chunk, one && !chunk.follows, text))
    }

    /// Adds an element in a new node.
    #[cold]
    fn push_new_node(&mut self, end: End, entry: &Encoded<'_>, len: usize) {
        // The previous end chunk becomes an inner one, unless it is the only chunk.
        if self.row.len() > 1
            && let Some(chunk) = self.row.end_mut(end)
        {
            chunk.drop_slack();
        }
        let most = self.fill.most_bytes();
        let chunk = match self.fill.is_large(len) {
            true => Chunk::of_one(entry, true),
            false => {
                let mut chunk = Chunk::default();
                match end {
                    End::Left => chunk.push_left(entry, most),
                    End::Right => chunk.push_right(entry, most),
                }
                chunk
            }
        };
        match end {
            End::Left => self.row.push_front(chunk),
            End::Right => self.row.push_back(chunk),
        }
        self.update_compression(0..0, 1);
    }

    /// Compresses and decompresses chunks according to `list-compress-depth`. Call it after `added`
    /// chunks were added, or any number removed, at one position of the row, or after those in
    /// `touched` changed. O(depth), in addition to the compression itself.
    #[inline]
    pub(super) fn update_compression(&mut self, touched: Range<usize>, added: usize) {
        if self.depth > 0 {
            self.compress_inner(touched, added.max(1));
        }
    }

    fn compress_inner(&mut self, touched: Range<usize>, added: usize) {
        let (depth, end) = (self.depth, self.row.len());
        let compressed = |(at, chunk): (usize, &Chunk)| chunk.is_compressed().then_some(at);
        let outer: Vec<usize> = {
            let left = self.row.iter().enumerate().take(depth).filter_map(compressed);
            let right = self.row.iter().rev().enumerate().take(depth).filter_map(compressed);
            left.chain(right.map(|at| end - 1 - at)).collect()
        };
        outer.into_iter().for_each(|at| self.row[at].decompress());
        let inner = depth..end.saturating_sub(depth);
        let within = |range: Range<usize>| range.start.max(inner.start)..range.end.min(inner.end);
        // Chunks added at the ends have moved others inwards.
        let left = within(inner.start..inner.start.saturating_add(added));
        let right = within(inner.end.saturating_sub(added)..inner.end);
        for at in left.chain(right).chain(within(touched)) {
            self.row[at].compress();
        }
    }

    /// Takes up to `n` elements from one end and passes each to `seen`, in that order.
    pub(super) fn pop(
        &mut self,
        end: End,
        mut n: usize,
        waste: &mut Waste,
        seen: &mut impl FnMut(Value<'_>),
    ) {
        while n > 0 {
            let Some(chunk) = self.row.end_mut(end) else { return };
            let taken = n.min(chunk.count());
            let bytes = show(Entries::new(&chunk.text()), end, taken, seen);
            self.len -= taken;
            n -= taken;
            if taken == chunk.count() {
                self.row.pop(end).into_iter().for_each(|chunk| waste.add(chunk));
                self.after_cut();
                continue;
            }
            match end {
                End::Left => chunk.drop_left(taken, bytes),
                End::Right => chunk.drop_right(taken, bytes),
            }
            self.rejoin_end(end);
        }
    }

    /// Restores the row's invariants after chunks were removed from its ends.
    pub(super) fn after_cut(&mut self) {
        if let Some(first) = self.row.front_mut() {
            first.follows = false;
        }
        self.row.shrink();
        self.update_compression(0..0, 0);
    }

    /// The chunk of the element at `index`, which must be less than the length, and its index in
    /// the chunk. Searches from the nearer end.
    pub(super) fn locate(&self, index: usize) -> (usize, usize) {
        if index < self.len / 2 {
            let mut before = 0;
            let found = self.row.iter().position(|chunk| {
                let here = index < before + chunk.count();
                before += if here { 0 } else { chunk.count() };
                here
            });
            (found.expect("less than the length"), index - before)
        } else {
            let mut after = self.len;
            let found = self.row.iter().rev().position(|chunk| {
                after -= chunk.count();
                index >= after
            });
            (self.row.len() - 1 - found.expect("less than the length"), index - after)
        }
    }

    /// Finds the element at `index`, which must be less than the length.
    pub(super) fn find(&self, index: usize) -> Place {
        let (chunk, nth) = self.locate(index);
        let chunk_of = &self.row[chunk];
        let at = Entries::<TwoWay>::new(&chunk_of.text()).offset_of(chunk_of.count(), nth);
        Place { chunk, nth, at }
    }

    /// Passes the elements from `index` to the tail to `seen`, until it returns `false`.
    pub(super) fn each_from(&self, index: usize, seen: &mut impl FnMut(Value<'_>) -> bool) {
        if index >= self.len {
            return;
        }
        let (first, nth) = self.locate(index);
        let mut skip = nth;
        for chunk in self.row.iter().skip(first) {
            let text = chunk.text();
            let entries = Entries::<TwoWay>::new(&text);
            let entries = match std::mem::take(&mut skip) {
                0 => entries,
                nth => entries.from(entries.offset_of(chunk.count(), nth)),
            };
            if !entries.iter().all(|(_, value)| seen(value)) {
                return;
            }
        }
    }

    /// Passes the elements from the one `back` positions before the tail to the head to `seen`,
    /// until it returns `false`.
    pub(super) fn each_back_from(&self, back: usize, seen: &mut impl FnMut(Value<'_>) -> bool) {
        if back >= self.len {
            return;
        }
        let (last, nth) = self.locate(self.len - 1 - back);
        let mut keep = Some(nth + 1);
        for chunk in self.row.iter().rev().skip(self.row.len() - 1 - last) {
            let text = chunk.text();
            let entries = Entries::<TwoWay>::new(&text);
            let entries = match keep.take() {
                Some(n) => entries.until(entries.offset_of(chunk.count(), n)),
                None => entries,
            };
            if !entries.back().all(|(_, value)| seen(value)) {
                return;
            }
        }
    }
}

/// Passes `n` entries from one end to `seen`. Returns their length in bytes.
fn show(
    entries: Entries<'_, TwoWay>,
    end: End,
    n: usize,
    seen: &mut impl FnMut(Value<'_>),
) -> usize {
    match end {
        End::Left => {
            let mut at = 0;
            for _ in 0..n {
                seen(entries.get(at));
                at = entries.after(at);
            }
            at
        }
        End::Right => {
            let mut from = entries.end();
            for (at, value) in entries.back().take(n) {
                seen(value);
                from = at;
            }
            entries.end() - from
        }
    }
}

//! Changes at a position of a long list: elements are set and inserted, nodes are split and joined
//! by Valkey's rules, and the parts of nodes are kept within their size.

use super::End;
use super::chunk::Chunk;
use super::chunks::{Chunks, Place};
use super::fill::FRAME;
use super::waste::Waste;
use crate::packed::{Encoded, Entries, TwoWay};
use std::ops::Range;

impl Chunks {
    /// Replaces the element at `place` with `text`.
    pub(super) fn set(&mut self, place: Place, text: &[u8], waste: &mut Waste) {
        let (at, before) = (place.chunk, self.row.len());
        let entry = Encoded::of(text);
        match (self.row[at].is_alone(), self.fill.is_large(text.len())) {
            (true, true) => {
                let new = Chunk::of_one(&entry, true);
                waste.add(std::mem::replace(&mut self.row[at], new));
            }
            (true, false) => {
                self.insert_at(place, text, true);
                self.row.remove(at).into_iter().for_each(|chunk| waste.add(chunk));
            }
            (false, true) => self.set_large(place, &entry),
            (false, false) => {
                self.row[at].replace(place.at, 1, &[entry]);
                self.keep_size(at);
            }
        }
        self.update_compression_around(at, before);
    }

    /// Replaces an element that shares a node with others by a large one: splits the node there and
    /// puts the new element between the parts.
    fn set_large(&mut self, place: Place, entry: &Encoded<'_>) {
        let Place { chunk, nth, at } = place;
        let first = nth == 0 && self.starts(chunk);
        let after = Entries::<TwoWay>::new(&self.row[chunk].text()).after(at);
        self.cut(chunk, nth + 1, after);
        let new = Chunk::of_one(entry, true);
        let mut center = chunk + 1;
        if nth == 0 {
            self.row[chunk] = new;
            center = chunk;
        } else {
            self.row[chunk].drop_right(1, after - at);
            self.row[chunk].tighten();
            self.row.insert(center, new);
        }
        self.rejoin(center + 1);
        if center > 0 {
            center = self.rejoin(center - 1) + 1;
        }
        // Where a node consisted of the element alone, Valkey joins nothing.
        if !first {
            self.join_around(center);
        }
    }

    /// Inserts `text` before or after the element at `place`. If the node is full, an insertion at
    /// its edge goes to its neighbour; otherwise the node is split, and the parts are joined with
    /// their neighbours where they fit.
    pub(super) fn insert(&mut self, place: Place, text: &[u8], after: bool) {
        let before = self.row.len();
        self.len += 1;
        self.row[place.chunk].decompress();
        self.insert_at(place, text, after);
        self.update_compression_around(place.chunk, before);
    }

    /// Like [`Chunks::insert`], but leaves `len` for the caller to update.
    fn insert_at(&mut self, place: Place, text: &[u8], after: bool) {
        let Place { chunk, nth, at } = place;
        let (len, entry) = (text.len(), Encoded::of(text));
        let at = match after {
            true => Entries::<TwoWay>::new(&self.row[chunk].text()).after(at),
            false => at,
        };
        if self.takes(chunk, len) {
            self.row[chunk].replace(at, 0, &[entry]);
            self.keep_size(chunk);
            return;
        }
        let large = self.fill.is_large(len);
        let last = nth + 1 == self.row[chunk].count() && self.starts(chunk + 1);
        if after && last {
            match self.takes(chunk + 1, len) {
                true => self.row[chunk + 1].replace(0, 0, &[entry]),
                false => self.row.insert(chunk + 1, Chunk::of_one(&entry, large)),
            }
        } else if !after && nth == 0 && self.starts(chunk) {
            match chunk.checked_sub(1).filter(|previous| self.takes(*previous, len)) {
                Some(previous) => {
                    let end = self.row[previous].bytes();
                    self.row[previous].replace(end, 0, &[entry]);
                }
                None => self.row.insert(chunk, Chunk::of_one(&entry, large)),
            }
        } else {
            let right = self.cut(chunk, nth + usize::from(after), at);
            self.insert_between(right, &entry, large, after);
        }
    }

    /// Inserts an entry where a node was just split before the chunk `right`: `after` the element
    /// at which it was split, or before it.
    fn insert_between(&mut self, right: usize, entry: &Encoded<'_>, large: bool, after: bool) {
        if large {
            self.row.insert(right, Chunk::of_one(entry, true));
            self.rejoin(right + 1);
            self.rejoin(right - 1);
            return;
        }
        let (mut right, entry) = (right, std::slice::from_ref(entry));
        if after {
            self.row[right].replace(0, 0, entry);
            self.divide(right);
        } else {
            let end = self.row[right - 1].bytes();
            self.row[right - 1].replace(end, 0, entry);
            right += self.divide(right - 1);
        }
        self.rejoin(right);
        let left = self.rejoin(right - 1);
        // Around the part that did not receive the new element.
        self.join_around(if after { left } else { left + 1 });
    }

    /// Ends a node after the first `count` entries of a chunk, which have `at` bytes. Returns the
    /// index of the first chunk of the next node, which may be the end of the row.
    fn cut(&mut self, chunk: usize, count: usize, at: usize) -> usize {
        let right = chunk + usize::from(count > 0);
        let after = self.row[chunk].count() - count;
        if count > 0 && after > 0 {
            let cut_off = self.row[chunk].split_off(at, after);
            self.row.insert(right, cut_off);
        }
        if let Some(first) = self.row.get_mut(right) {
            first.follows = false;
        }
        right
    }

    /// The chunks of the node to which the chunk at `at` belongs. O(parts).
    fn node(&self, at: usize) -> Range<usize> {
        let (mut start, mut end) = (at, at + 1);
        while !self.starts(start) {
            start -= 1;
        }
        while !self.starts(end) {
            end += 1;
        }
        start..end
    }

    /// Joins the neighbours of the node to which the chunk at `center` belongs with each other and
    /// with it, where they fit.
    fn join_around(&mut self, center: usize) {
        let Range { mut start, mut end } = self.node(center);
        if start >= 2 && self.join(start - 2) {
            (start, end) = (start - 1, end - 1);
        }
        if end + 1 < self.row.len() {
            self.join(end);
        }
        if start >= 1 && self.join(start - 1) {
            end -= 1;
        }
        if end < self.row.len() {
            self.join(end - 1);
        }
    }

    /// Joins the node at `left` with the next one, if each is a single chunk and they fit into one.
    /// Returns whether they did.
    fn join(&mut self, left: usize) -> bool {
        let (a, b) = (&self.row[left], &self.row[left + 1]);
        let parts = a.follows || b.follows || !self.starts(left + 2);
        let (bytes, count) = (a.bytes() + b.bytes() + FRAME, a.count() + b.count());
        if parts || a.is_alone() || b.is_alone() || self.fill.exceeds(bytes, count) {
            return false;
        }
        self.join_next(left);
        true
    }

    fn join_next(&mut self, left: usize) {
        if let Some(right) = self.row.remove(left + 1) {
            self.row[left].join(&right);
        }
    }

    /// Joins the chunk at `at`, which was changed, with its neighbours in its node as long as two
    /// have no more bytes than a full node. Returns its new index. Does nothing if it is the only
    /// chunk of its node or beyond the row.
    #[inline]
    pub(super) fn rejoin(&mut self, at: usize) -> usize {
        match self.starts(at) && self.starts(at + 1) {
            true => at,
            false => self.rejoin_parts(at),
        }
    }

    #[cold]
    fn rejoin_parts(&mut self, at: usize) -> usize {
        let (mut at, before) = (at, self.row.len());
        let most = self.fill.most_bytes();
        let fits = |a: &Chunk, b: &Chunk| a.bytes() + b.bytes() <= most;
        while !self.starts(at) && fits(&self.row[at - 1], &self.row[at]) {
            self.join_next(at - 1);
            at -= 1;
        }
        while !self.starts(at + 1) && fits(&self.row[at], &self.row[at + 1]) {
            self.join_next(at);
        }
        if self.row.len() < before {
            self.update_compression(at..at + 1, 0);
        }
        at
    }

    /// [`Chunks::rejoin`] for the chunk at one end of the row.
    #[inline]
    pub(super) fn rejoin_end(&mut self, end: End) {
        match end {
            End::Left if !self.starts(1) => {
                self.rejoin_parts(0);
            }
            End::Right if self.row.back().is_some_and(|last| last.follows) => {
                self.rejoin_parts(self.row.len() - 1);
            }
            End::Left | End::Right => {}
        }
    }

    /// Divides a chunk that has become too large into parts. Returns how many chunks were added.
    #[inline]
    pub(super) fn divide(&mut self, at: usize) -> usize {
        let chunk = &self.row[at];
        match chunk.bytes() > 2 * self.fill.most_bytes() && chunk.count() > 1 {
            true => self.divide_large(at),
            false => 0,
        }
    }

    #[cold]
    fn divide_large(&mut self, at: usize) -> usize {
        let before = self.row.len();
        let parts = self.row[at].divide(self.fill.most_bytes());
        let last = at + parts.len() - 1;
        for (n, part) in parts.into_iter().enumerate() {
            match n {
                0 => self.row[at] = part,
                n => self.row.insert(at + n, part),
            }
        }
        // The last part may be small, and so may the chunk after it.
        self.rejoin(last);
        self.row.len() - before
    }

    /// Restores the size of a chunk whose entries were changed: divides it if it is too large,
    /// joins it with its neighbours in its node if possible, and frees excess slack.
    fn keep_size(&mut self, at: usize) {
        if self.divide(at) == 0 {
            let at = self.rejoin(at);
            if at > 0 && at + 1 < self.row.len() {
                self.row[at].tighten();
            }
        }
    }

    /// Compresses the right chunks after a change around the chunk at `at`, when the row had
    /// `before` chunks: a change splits it and joins each part with two neighbours at most.
    fn update_compression_around(&mut self, at: usize, before: usize) {
        let added = self.row.len().saturating_sub(before);
        self.update_compression(at.saturating_sub(3)..at + added + 4, added);
    }
}

//! Removes many elements of a long list at once: ranges and equal elements. Converts a list that is
//! short again.

use super::End;
use super::chunks::Chunks;
use super::fill::{FRAME, Fill};
use super::row::Row;
use super::waste::Waste;
use crate::Limits;
use crate::packed::{COUNT_MAX, Encoded, Entries, Form, TwoWay};
use std::borrow::Cow;
use std::cell::Cell;

/// A row with capacity for at most this many chunks is shrunk to its length by each trim.
const SHORT_ROW: usize = 8;

/// The encoding that Valkey would use for a list after a removal.
#[derive(Debug)]
pub(super) enum Size<'a> {
    /// A row of nodes, as before.
    Long,
    /// A listpack that is too large for a record.
    Whole,
    /// A listpack of these entries and this many elements.
    Small(Cow<'a, [u8]>, usize),
}

impl Chunks {
    /// Keeps `count` elements, at least one, from `start` on. O(chunks + elements of the outermost
    /// remaining chunks).
    pub(super) fn trim(&mut self, start: usize, count: usize, waste: &mut Waste) {
        let (first, skip) = self.locate(start);
        let (last, nth) = self.locate(start + count - 1);
        let surplus = self.row[last].count() - 1 - nth;
        waste.add_row(self.row.split_off(last + 1));
        let kept = self.row.split_off(first);
        waste.add_row(std::mem::replace(&mut self.row, kept));
        self.len = count;
        self.after_cut();
        self.shorten(End::Right, surplus);
        self.shorten(End::Left, skip);
        self.row.fit(SHORT_ROW);
    }

    /// Drops `n` elements of the chunk at one end, which must have more.
    fn shorten(&mut self, end: End, n: usize) {
        let Some(chunk) = self.row.end_mut(end).filter(|_| n > 0) else { return };
        let kept = match end {
            End::Left => n,
            End::Right => chunk.count() - n,
        };
        let bytes = chunk.bytes();
        let at = Entries::<TwoWay>::new(&chunk.text()).offset_of(chunk.count(), kept);
        let gone = match end {
            End::Left => at,
            End::Right => bytes - at,
        };
        match end {
            End::Left => chunk.drop_left(n, gone),
            End::Right => chunk.drop_right(n, gone),
        }
        self.rejoin_end(end);
    }

    /// Removes up to `most` elements that equal `text`, starting at one end. Returns how many.
    /// O(n); each chunk is moved once at most.
    pub(super) fn remove(
        &mut self,
        end: End,
        text: &[u8],
        most: usize,
        waste: &mut Waste,
    ) -> usize {
        let wanted = Encoded::of(text);
        let removed = Cell::new(0);
        let mut gone = false;
        self.row.change_matching(
            end,
            |chunk| {
                let text = chunk.text();
                let entries = Entries::<TwoWay>::new(&text);
                Some(hits(entries, &wanted, end, most - removed.get())).filter(|h| !h.is_empty())
            },
            |chunk, hits| {
                removed.set(removed.get() + hits.len());
                match hits.len() == chunk.count() {
                    true => chunk.gone = true,
                    false => chunk.remove(&hits),
                }
                gone |= chunk.gone;
                removed.get() < most
            },
        );
        let removed = removed.get();
        if removed > 0 {
            self.len -= removed;
            self.remove_gone(gone, waste);
        }
        removed
    }

    /// Removes chunks marked as gone, if any, and joins the parts of nodes, in one pass.
    fn remove_gone(&mut self, gone: bool, waste: &mut Waste) {
        if gone || self.row.iter().any(|chunk| chunk.follows) {
            let most = self.fill.most_bytes();
            let mut row = Row::default();
            // Whether the first part of the current node was removed.
            let mut lost_first = false;
            for mut chunk in std::mem::take(&mut self.row).into_chunks() {
                if chunk.gone {
                    lost_first |= !chunk.follows;
                    waste.add(chunk);
                    continue;
                }
                chunk.follows &= !std::mem::take(&mut lost_first);
                match row.back_mut() {
                    Some(last) if chunk.follows && last.bytes() + chunk.bytes() <= most => {
                        last.join(&chunk);
                    }
                    _ => row.push_back(chunk),
                }
            }
            self.row = row;
        }
        self.after_cut();
        self.update_compression(0..self.row.len(), 0);
    }

    /// The encoding that Valkey would use after the removal. Usually O(1).
    #[inline]
    pub(super) fn size(&self, limits: &Limits) -> Size<'_> {
        match self.row.get(1).is_some_and(|second| !second.follows) {
            true => Size::Long,
            false => self.size_of_node(limits),
        }
    }

    /// Like [`Chunks::size`], for a list that may be one node.
    #[cold]
    fn size_of_node(&self, limits: &Limits) -> Size<'_> {
        if self.len == 0 {
            return Size::Long;
        }
        let fill = Fill::of(limits);
        let one = self.row.front().is_some_and(|first| !first.is_alone())
            && self.row.iter().skip(1).all(|chunk| chunk.follows);
        let bytes = |most| self.framed_up_to(most);
        let listpack = match self.fill {
            Fill::Whole => true,
            Fill::Bytes(_) | Fill::Elements(_) => {
                one && fill.fits_half(bytes(2 * fill.most_bytes()), self.len)
            }
        };
        if !listpack {
            return Size::Long;
        }
        if self.len > COUNT_MAX || !fill.fits_record(bytes(fill.most_bytes())) {
            return Size::Whole;
        }
        let mut texts = self.texts();
        let entries = match (self.row.len(), texts.next()) {
            (1, Some(text)) => text,
            (_, first) => Cow::Owned(first.into_iter().chain(texts).collect::<Vec<_>>().concat()),
        };
        Size::Small(entries, self.len)
    }

    /// Bytes of entries, including the frame; any number greater than `most` when there are more.
    /// O(chunks) up to that point.
    fn framed_up_to(&self, most: usize) -> usize {
        let mut bytes = FRAME;
        for chunk in self.row.iter() {
            bytes += chunk.bytes();
            if bytes > most {
                break;
            }
        }
        bytes
    }

    /// Marks the list as one listpack in Valkey's view, whatever is pushed.
    pub(super) fn mark_whole(&mut self) {
        self.change_fill(Fill::Whole);
    }

    /// Sets the fill and adjusts the sizes of all parts. O(1) unless the bytes of a full node
    /// change, after CONFIG SET.
    fn change_fill(&mut self, fill: Fill) {
        let most = self.fill.most_bytes();
        self.fill = fill;
        if fill.most_bytes() == most {
            return;
        }
        let mut at = 0;
        while at < self.row.len() {
            at = self.rejoin(at);
            at += 1 + self.divide(at);
        }
        self.update_compression(0..self.row.len(), 0);
    }

    /// Turns a list that is a listpack in Valkey's view into a row of nodes, starting with itself,
    /// if `bytes` and `elements` more would exceed a listpack.
    pub(super) fn before_growth(&mut self, bytes: usize, elements: usize, limits: &Limits) {
        let fill = Fill::of(limits);
        let framed = self.framed_up_to(fill.most_bytes()) + bytes;
        if self.fill != Fill::Whole || !fill.exceeds(framed, self.len + elements) {
            return;
        }
        self.change_fill(fill);
        if self.depth != limits.list_compress {
            self.depth = limits.list_compress;
            self.row.change_matching(
                End::Left,
                |chunk| chunk.is_compressed().then_some(()),
                |chunk, ()| {
                    chunk.decompress();
                    true
                },
            );
            self.update_compression(0..self.row.len(), 0);
        }
    }
}

/// Offsets of up to `most` entries that equal `wanted`, searched from one end, in descending order.
pub(super) fn hits<F: Form>(
    entries: Entries<'_, F>,
    wanted: &Encoded<'_>,
    end: End,
    most: usize,
) -> Vec<usize> {
    let matches = |at: &usize| entries.holds(*at, wanted);
    match end {
        End::Left => {
            let mut found: Vec<usize> = entries.offsets().filter(matches).take(most).collect();
            found.reverse();
            found
        }
        End::Right => entries.back().map(|(at, _)| at).filter(matches).take(most).collect(),
    }
}

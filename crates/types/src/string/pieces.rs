//! Very large strings: pieces that are shared and copied individually.
//!
//! ```text
//!  len                                        bytes of the string
//!  base   ──► Blob [ 0 ............ end ]     as it was received, or absent
//!  pages  ──► [ page | none | page | ... ]    each counted
//!               └─► [ own | none | own ... ]  128 slots, a slot for each 16 KiB of the string
//! ```
//!
//! A slot that holds a blob is the piece. If the slot is empty, the piece is in the base, at its
//! own offset. After the end of the base it is zeros, which take no memory. A clone copies the list
//! of pages and shares the base and every piece with the original.
//!
//! An edit of a piece in the base changes the base in place while the base is not shared. Otherwise
//! the edit copies this one piece out. Once the base is no longer shared, each edit puts a few
//! pieces back into it. When every piece of the base has been copied out, the base is released. So
//! a string takes twice its size only while a reader holds the old one. Bytes appended after the
//! end become pieces, and existing bytes don't move.
//!
//! A string gets this form when it is edited beyond [`PIECED_FROM`] while it is shared, or when it
//! outgrows its buffer then. `docs/design/shared-values.md` has the figures.

use super::{Blob, Text};
use crate::counted::{CopyOnWrite, Counted, copy_bytes, note_copy};
use std::ops::{ControlFlow, Range};
use std::sync::{Arc, OnceLock};

/// Bytes of a piece: a size class of the allocator, and long enough to be sent from where it is
/// stored. Short, since each edit at a random place copies one while a snapshot exists.
pub const PIECE: usize = 16 << 10;

/// The longest string that always stays in one buffer (bytes). Copying it takes some tens of
/// microseconds.
pub const PIECED_FROM: usize = 16 * PIECE;

/// Slots of a page.
const PAGE: usize = 128;

/// The most pieces that an edit puts back into the base.
const PUT_BACK: usize = 4;

/// The most slots that an edit examines for pieces to put back.
const LOOK_AT: usize = 256;

/// A base that was copied out is freed at once up to this size (bytes). Freeing a larger one takes
/// long, see [`is_long_to_free`](crate::value::is_long_to_free).
const FREED_AT_ONCE: usize = 4 << 20;

const _: () = assert!(PIECE.is_power_of_two() && PIECED_FROM.is_multiple_of(PIECE));

/// The content of pieces that were never written.
fn zeros() -> &'static Blob {
    static ZEROS: OnceLock<Blob> = OnceLock::new();
    ZEROS.get_or_init(|| Blob::new(vec![0; 16 * PIECE]))
}

#[derive(Clone)]
struct Page {
    slots: [Option<Blob>; PAGE],
    /// The number of slots that hold a blob.
    own: usize,
}

impl CopyOnWrite for Page {
    fn owned_memory(&self) -> usize {
        0
    }
}

/// See the module documentation.
#[derive(Clone)]
pub struct Pieces {
    len: usize,
    /// Never longer than the string. A piece whose slot is empty is either entirely in the base or
    /// not at all.
    base: Option<Blob>,
    /// Own pieces of [`PIECE`] bytes each; bytes after the end of the string are zeros.
    pages: Vec<Option<Counted<Page>>>,
    own: usize,
    /// The number of own pieces that have a place in the base.
    own_in_base: usize,
    /// The slot where the next edit starts to search pieces to put back.
    cursor: usize,
}

impl std::fmt::Debug for Pieces {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let base = self.base.as_ref().map(|base| base.len());
        f.debug_struct("Pieces")
            .field("len", &self.len)
            .field("base", &base)
            .finish_non_exhaustive()
    }
}

impl Pieces {
    /// A string of `len` bytes: `head`, then zeros. `head` must be short.
    pub(crate) fn beginning_with(head: &[u8], len: usize) -> Pieces {
        let mut pieces =
            Pieces { len: 0, base: None, pages: Vec::new(), own: 0, own_in_base: 0, cursor: 0 };
        pieces.grow(len.max(head.len()));
        pieces.write(0, head);
        pieces
    }

    /// The string in `base`. O(pages).
    pub(crate) fn of_base(base: Blob) -> Pieces {
        let mut pieces = Pieces::beginning_with(&[], 0);
        let len = base.len();
        pieces.base = Some(base);
        pieces.grow(len);
        pieces
    }

    /// Bytes of the string.
    pub fn len(&self) -> usize {
        self.len
    }

    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The offsets in the string where piece `i` begins and ends.
    fn bounds(&self, i: usize) -> (usize, usize) {
        (i * PIECE, ((i + 1) * PIECE).min(self.len))
    }

    fn own(&self, i: usize) -> Option<&Blob> {
        self.pages.get(i / PAGE)?.as_ref()?.slots[i % PAGE].as_ref()
    }

    fn base_len(&self) -> usize {
        self.base.as_ref().map_or(0, |base| base.len())
    }

    /// The number of pieces that have a place in the base.
    fn base_pieces(&self) -> usize {
        self.base_len().div_ceil(PIECE)
    }

    /// The contiguous bytes from `at` on; empty at the end of the string.
    #[inline]
    pub fn slice_from(&self, at: usize) -> &[u8] {
        if at >= self.len {
            return &[];
        }
        let (start, end) = self.bounds(at / PIECE);
        match (self.own(at / PIECE), &self.base) {
            (Some(own), _) => &own[at - start..end - start],
            (None, Some(base)) if at < base.len() => &base[at..end],
            (None, _) => &zeros()[..end - at],
        }
    }

    /// The parts of `range`, which must be in the string, in order.
    pub fn slices(&self, range: Range<usize>) -> impl Iterator<Item = &[u8]> {
        Text::Pieces(self).slices(range)
    }

    /// Copies the bytes at `at` into `to`. Returns how many it copied.
    pub fn read(&self, at: usize, to: &mut [u8]) -> usize {
        let mut done = 0;
        for slice in self.slices(at..at.saturating_add(to.len()).min(self.len)) {
            to[done..done + slice.len()].copy_from_slice(slice);
            done += slice.len();
        }
        done
    }

    /// All bytes in one vector. O(length).
    pub fn to_vec(&self) -> Vec<u8> {
        let mut all = Vec::with_capacity(self.len);
        self.slices(0..self.len).for_each(|slice| all.extend_from_slice(slice));
        all
    }

    /// Passes the whole string to `seen` as parts of blobs, in order, each as long as possible. A
    /// caller that keeps the blobs keeps the string as it is now.
    pub fn share(&self, mut seen: impl FnMut(&Blob, Range<usize>)) {
        let mut at = 0;
        while at < self.len {
            let (start, mut end) = self.bounds(at / PIECE);
            if let Some(own) = self.own(at / PIECE) {
                seen(own, 0..end - start);
                at = end;
                continue;
            }
            let (blob, most) = match &self.base {
                Some(base) if at < base.len() => (base, base.len()),
                _ => (zeros(), self.len.min(start + zeros().len())),
            };
            while end < most && self.own(end / PIECE).is_none() {
                end = self.bounds(end / PIECE).1;
            }
            let end = end.min(most);
            let from = if at < self.base_len() { start } else { 0 };
            seen(blob, from..from + end - start);
            at = end;
        }
    }

    /// Passes all slices to `seen` until `seen` breaks, and releases own pieces page by page.
    pub(crate) fn pass<B>(
        &mut self,
        mut seen: impl FnMut(&[u8]) -> ControlFlow<B>,
    ) -> ControlFlow<B> {
        for page in 0..self.pages.len() {
            let range = page * PAGE * PIECE..((page + 1) * PAGE * PIECE).min(self.len);
            self.slices(range).try_for_each(&mut seen)?;
            self.pages[page] = None;
        }
        ControlFlow::Continue(())
    }

    /// Extends the string with zeros. O(pages), and the copy of a piece.
    pub(crate) fn grow(&mut self, len: usize) {
        if len <= self.len {
            return;
        }
        let last = self.len / PIECE;
        let in_base = self.base_len() == self.len && !self.len.is_multiple_of(PIECE);
        if in_base && self.own(last).is_none() {
            // Its piece continues after the end of the base.
            let tail = self.base.as_ref().map(|base| fresh(&base[last * PIECE..]));
            self.put(last, tail.expect("the base is the whole string"));
        }
        self.len = len;
        self.pages.resize_with(len.div_ceil(PAGE * PIECE), || None);
    }

    /// Makes `blob` piece `i`.
    fn put(&mut self, i: usize, blob: Blob) {
        let page = self.pages[i / PAGE]
            .get_or_insert_with(|| Counted::new(Page { slots: [const { None }; PAGE], own: 0 }));
        let page = &mut **page;
        if page.slots[i % PAGE].replace(blob).is_some() {
            return;
        }
        page.own += 1;
        self.own += 1;
        if i < self.base_pieces() {
            self.own_in_base += 1;
            if self.own_in_base == self.base_pieces() {
                self.release_base();
            }
        }
    }

    /// No piece is read from the base any more. Releases a shared base. A long one without other
    /// holders is kept, since freeing it would take long: edits put the pieces back.
    fn release_base(&mut self) {
        match self.base.take().and_then(Arc::into_inner) {
            Some(base) if base.len() > FREED_AT_ONCE => self.base = Some(Arc::new(base)),
            Some(_) | None => self.own_in_base = 0,
        }
    }

    /// Piece `i`, mutable.
    fn piece_mut(&mut self, i: usize) -> &mut [u8] {
        let (start, end) = self.bounds(i);
        if self.own(i).is_none() {
            let new = match &mut self.base {
                Some(base) if start < base.len() => match Arc::get_mut(base).is_none() {
                    true => {
                        note_copy(PIECE);
                        Some(fresh(&base[start..end]))
                    }
                    false => None,
                },
                Some(_) | None => Some(fresh(&[])),
            };
            let Some(new) = new else {
                let base = self.base.as_mut().and_then(Arc::get_mut);
                return &mut base.expect("the base is not shared")[start..end];
            };
            self.put(i, new);
        }
        let page = self.pages[i / PAGE].as_mut().expect("a page for the piece");
        let own = page.slots[i % PAGE].as_mut().expect("the slot holds the piece");
        if Arc::get_mut(own).is_none() {
            note_copy(PIECE);
            *own = Arc::new(copy_bytes(own));
        }
        &mut Arc::get_mut(own).expect("the piece is not shared")[..end - start]
    }

    /// Overwrites the bytes at `at` with `bytes`.
    ///
    /// # Panics
    ///
    /// If `bytes` don't fit into the string.
    pub fn write(&mut self, mut at: usize, mut bytes: &[u8]) {
        assert!(bytes.is_empty() || at + bytes.len() <= self.len, "writes within the string");
        while !bytes.is_empty() {
            let (start, end) = self.bounds(at / PIECE);
            let (part, rest) = bytes.split_at(bytes.len().min(end - at));
            if part.len() == PIECE && !self.is_alone(at / PIECE) {
                // All bytes of the piece are replaced.
                if self.own(at / PIECE).is_some() || start < self.base_len() {
                    note_copy(PIECE);
                }
                self.put(at / PIECE, fresh(part));
            } else {
                self.piece_mut(at / PIECE)[at - start..][..part.len()].copy_from_slice(part);
            }
            (at, bytes) = (at + part.len(), rest);
        }
    }

    /// Whether piece `i` can be changed in place.
    fn is_alone(&self, i: usize) -> bool {
        match (self.own(i), &self.base) {
            (Some(own), _) => Arc::strong_count(own) == 1,
            (None, Some(base)) if i * PIECE < base.len() => Arc::strong_count(base) == 1,
            (None, _) => false,
        }
    }

    /// The number of own pieces that can be put back into the base: not the one that extends beyond
    /// the end of the base.
    fn pieces_to_put_back(&self) -> usize {
        let goes_on = self.len > self.base_len() && !self.base_len().is_multiple_of(PIECE);
        self.own_in_base - usize::from(goes_on)
    }

    /// Puts at most [`PUT_BACK`] own pieces back into the base, unless the base is shared.
    pub(crate) fn put_back(&mut self) {
        if self.pieces_to_put_back() == 0 {
            return;
        }
        let (len, count) = (self.len, self.base_pieces());
        let Some(base) = self.base.as_mut().and_then(Arc::get_mut) else { return };
        let (mut left, mut looked) = (PUT_BACK, 0);
        while left > 0 && looked < LOOK_AT {
            let i = self.cursor;
            let is_there = self.pages[i / PAGE].as_ref().map(|page| page.slots[i % PAGE].is_some());
            // Skip a page without own pieces at once.
            let step = if is_there.is_none() { PAGE - i % PAGE } else { 1 };
            self.cursor = if i + step >= count { 0 } else { i + step };
            looked += 1;
            let (start, end) = (i * PIECE, ((i + 1) * PIECE).min(len));
            if is_there != Some(true) || end > base.len() {
                continue;
            }
            let page = self.pages[i / PAGE].as_mut().expect("the page exists");
            let Some(own) = page.slots[i % PAGE].take() else { continue };
            base[start..end].copy_from_slice(&own[..end - start]);
            page.own -= 1;
            if page.own == 0 {
                self.pages[i / PAGE] = None;
            }
            self.own -= 1;
            self.own_in_base -= 1;
            left -= 1;
        }
    }

    /// The base, if it is the whole string.
    pub(crate) fn whole_base(&self) -> Option<&Blob> {
        self.base.as_ref().filter(|base| self.own == 0 && base.len() == self.len)
    }

    /// Approximate bytes that an edit at one place copies or clears, in addition to its own bytes,
    /// if the string is `len` bytes long afterwards. O(1).
    pub(crate) fn edit_work(&self, len: usize) -> usize {
        let base_is_shared = self.base.as_ref().is_some_and(|base| Arc::strong_count(base) > 1);
        // A holder of the string shares all pages except those edited since, so the ends show it.
        let ends = [self.pages.first(), self.pages.last()].into_iter().flatten().flatten();
        let copied = base_is_shared || ends.into_iter().any(Counted::is_shared);
        let put_back = if base_is_shared { 0 } else { self.pieces_to_put_back().min(PUT_BACK) };
        let cleared = len.div_ceil(PIECE).saturating_sub(self.len.div_ceil(PIECE)).min(1);
        PIECE * (usize::from(copied) + put_back + cleared)
    }

    /// Approximate number of allocations.
    pub(crate) fn pieces(&self) -> usize {
        const EACH: usize = 2;
        EACH * (self.own + 1) + self.pages.len()
    }

    /// Bytes of memory, without this struct. O(1).
    pub(crate) fn memory(&self) -> usize {
        // The allocation of an Arc begins with its two counters.
        let around = size_of::<Vec<u8>>() + 2 * size_of::<usize>();
        let base = self.base.as_ref().map_or(0, |base| base.capacity() + around);
        self.pages.capacity() * size_of::<Option<Counted<Page>>>()
            + self.own.div_ceil(PAGE) * size_of::<Page>()
            + self.own * (PIECE + around)
            + base
    }

    /// Bytes that stay allocated if this is dropped: those of a shared base and shared pages.
    /// O(pages).
    pub(crate) fn held_memory(&self) -> usize {
        let is_held = |base: &&Blob| Arc::strong_count(base) > 1;
        let base = self.base.as_ref().filter(is_held).map_or(0, |base| base.len());
        let pages = self.pages.iter().flatten().filter(|page| page.is_shared());
        base + pages.map(|page| page.own * PIECE).sum::<usize>()
    }

    /// Bytes that a clone takes immediately.
    pub(crate) fn clone_memory(&self) -> usize {
        size_of::<Pieces>() + self.pages.len() * size_of::<Option<Counted<Page>>>()
    }
}

/// A piece that begins with `bytes`.
fn fresh(bytes: &[u8]) -> Blob {
    let mut piece = Vec::with_capacity(PIECE);
    piece.extend_from_slice(bytes);
    piece.resize(PIECE, 0);
    Blob::new(piece)
}

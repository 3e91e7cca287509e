//! One chunk of a long list: packed entries with slack at either end.
//!
//! ```text
//!  ┌───────┬──────────────────────────┬───────┐
//!  │ slack │ entries                  │ slack │
//!  └───────┴──────────────────────────┴───────┘
//!  0     start                       end    buf.len()
//! ```
//!
//! An entry that is pushed at an end goes into that end's slack. When the slack is used up, the
//! buffer is made half as large again, with all of the new slack at the end that wants it, up to
//! what a chunk may hold; so a push moves bytes rarely, and a chunk that grows at both ends alike
//! is no worse.

use crate::packed::{self, Encoded, Entries, Room, TwoWay};

/// The smallest buffer of a chunk that grows (bytes).
const SMALLEST: usize = 128;

/// See the module's description.
#[derive(Clone, Debug, Default)]
pub(super) struct Chunk {
    buf: Vec<u8>,
    start: usize,
    end: usize,
    count: usize,
}

impl Chunk {
    /// A chunk of these entries, without slack.
    pub(super) fn of(entries: Entries<'_, TwoWay>, count: usize) -> Self {
        Chunk::new(entries.bytes().to_vec(), count)
    }

    /// A chunk of the entries that `buf` consists of, with backward lengths.
    fn new(buf: Vec<u8>, count: usize) -> Self {
        Chunk { start: 0, end: buf.len(), buf, count }
    }

    #[inline]
    pub(super) fn entries(&self) -> Entries<'_, TwoWay> {
        Entries::new(&self.buf[self.start..self.end])
    }

    /// Elements.
    #[inline]
    pub(super) fn count(&self) -> usize {
        self.count
    }

    /// Bytes of entries.
    #[inline]
    pub(super) fn bytes(&self) -> usize {
        self.end - self.start
    }

    /// Bytes of memory.
    pub(super) fn memory(&self) -> usize {
        self.buf.capacity()
    }

    #[inline]
    pub(super) fn push_right(&mut self, entry: &Encoded<'_>, most: usize) {
        let len = entry.len::<TwoWay>();
        if self.buf.len() - self.end < len {
            self.grow(len, 0, most);
        }
        entry.write::<TwoWay>(&mut self.buf[self.end..self.end + len]);
        self.end += len;
        self.count += 1;
    }

    #[inline]
    pub(super) fn push_left(&mut self, entry: &Encoded<'_>, most: usize) {
        let len = entry.len::<TwoWay>();
        if self.start < len {
            self.grow(0, len, most);
        }
        entry.write::<TwoWay>(&mut self.buf[self.start - len..self.start]);
        self.start -= len;
        self.count += 1;
    }

    /// Makes room for so many bytes at one of the ends. `most` is what the entries of a chunk may
    /// take, beyond which no slack is kept.
    #[cold]
    fn grow(&mut self, right: usize, left: usize, most: usize) {
        let used = self.bytes();
        let need = used + right + left;
        let size = (need + need / 2).max(SMALLEST).min(most.max(need));
        let start = if left > 0 { size - used } else { 0 };
        let mut buf = vec![0; size];
        buf[start..start + used].copy_from_slice(self.entries().bytes());
        *self = Chunk { buf, start, end: start + used, count: self.count };
    }

    /// Gives the slack back: nothing will be pushed here for now.
    pub(super) fn settle(&mut self) {
        if self.buf.len() > self.bytes() {
            *self = Chunk::of(self.entries(), self.count);
        }
    }

    /// Drops `count` entries, `bytes` long, from the left. O(1).
    pub(super) fn drop_left(&mut self, count: usize, bytes: usize) {
        self.start += bytes;
        self.count -= count;
    }

    /// Drops `count` entries, `bytes` long, from the right. O(1).
    pub(super) fn drop_right(&mut self, count: usize, bytes: usize) {
        self.end -= bytes;
        self.count -= count;
    }

    /// Puts `new` in the place of the `old` entries from the offset `at` on.
    pub(super) fn replace(&mut self, at: usize, old: usize, new: &[Encoded<'_>]) {
        packed::replace(self, at, old, new);
        self.count = self.count + new.len() - old;
    }

    /// Cuts the entries from the offset `at` on, `count` in number, off into another chunk.
    pub(super) fn split_off(&mut self, at: usize, count: usize) -> Chunk {
        let right = Chunk::of(self.entries().from(at), count);
        let bytes = self.bytes() - at;
        self.drop_right(count, bytes);
        self.settle();
        right
    }

    /// Appends the entries of `other`.
    pub(super) fn join(&mut self, other: &Chunk) {
        let entries = [self.entries().bytes(), other.entries().bytes()].concat();
        *self = Chunk::new(entries, self.count + other.count);
    }
}

impl Room for Chunk {
    type Form = TwoWay;

    fn entries(&self) -> Entries<'_, TwoWay> {
        self.entries()
    }

    fn splice(&mut self, at: usize, old: usize, new: usize) -> &mut [u8] {
        let len = self.bytes();
        if self.buf.len() - self.end < new.saturating_sub(old) {
            let mut buf = Vec::with_capacity(len + new - old);
            buf.extend_from_slice(self.entries().bytes());
            buf.resize(len + new - old, 0);
            *self = Chunk { buf, start: 0, end: len, count: self.count };
        }
        let from = self.start + at;
        self.buf.copy_within(from + old..self.end, from + new);
        self.end = self.end + new - old;
        &mut self.buf[from..from + new]
    }
}

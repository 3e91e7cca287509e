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
//!
//! An inner chunk may be *pressed*: its entries are compressed (LZ4, for its speed: what a chunk
//! costs is paid whenever something in it is wanted). Whoever reads it gets a copy of the entries,
//! whoever changes it has it plain again; which chunks are pressed is decided in `chunks`.

use crate::packed::{self, Encoded, Entries, Room, TwoWay};
use std::borrow::Cow;

/// The smallest buffer of a chunk that grows (bytes).
const SMALLEST: usize = 128;

/// The fewest bytes of entries that are compressed, and the fewest that must be won by it; as in
/// the reference.
const PRESS_MIN: usize = 48;
const PRESS_WIN: usize = 8;

/// See the module's description.
#[derive(Clone, Debug)]
pub(super) struct Chunk {
    body: Body,
    count: usize,
}

#[derive(Clone, Debug)]
enum Body {
    Plain(Plain),
    Pressed {
        block: Box<[u8]>,
        /// Bytes of entries.
        len: usize,
    },
}

/// Entries with slack at either end.
#[derive(Clone, Debug, Default)]
struct Plain {
    buf: Vec<u8>,
    start: usize,
    end: usize,
}

impl Plain {
    #[inline]
    fn entries(&self) -> Entries<'_, TwoWay> {
        Entries::new(&self.buf[self.start..self.end])
    }

    #[inline]
    fn len(&self) -> usize {
        self.end - self.start
    }

    /// Makes room for so many bytes at one of the ends. `most` is what the entries of a chunk may
    /// take, beyond which no slack is kept.
    #[cold]
    fn grow(&mut self, right: usize, left: usize, most: usize) {
        let used = self.len();
        let need = used + right + left;
        let size = (need + need / 2).max(SMALLEST).min(most.max(need));
        let start = if left > 0 { size - used } else { 0 };
        let mut buf = vec![0; size];
        buf[start..start + used].copy_from_slice(self.entries().bytes());
        *self = Plain { buf, start, end: start + used };
    }
}

impl Default for Chunk {
    fn default() -> Self {
        Chunk { body: Body::Plain(Plain::default()), count: 0 }
    }
}

impl Chunk {
    /// A chunk of these entries, without slack.
    pub(super) fn of(entries: Entries<'_, TwoWay>, count: usize) -> Self {
        Chunk::new(entries.bytes().to_vec(), count)
    }

    /// A chunk of the entries that `buf` consists of, with backward lengths.
    fn new(buf: Vec<u8>, count: usize) -> Self {
        let plain = Plain { start: 0, end: buf.len(), buf };
        Chunk { body: Body::Plain(plain), count }
    }

    /// The bytes of the entries; decompressed, O(bytes), when the chunk is pressed.
    #[inline]
    pub(super) fn text(&self) -> Cow<'_, [u8]> {
        match &self.body {
            Body::Plain(plain) => Cow::Borrowed(plain.entries().bytes()),
            Body::Pressed { block, len } => Cow::Owned(unpressed(block, *len)),
        }
    }

    /// The entries of a chunk that isn't pressed.
    pub(super) fn plain_entries(&self) -> Option<Entries<'_, TwoWay>> {
        match &self.body {
            Body::Plain(plain) => Some(plain.entries()),
            Body::Pressed { .. } => None,
        }
    }

    /// Elements.
    #[inline]
    pub(super) fn count(&self) -> usize {
        self.count
    }

    /// Bytes of entries.
    #[inline]
    pub(super) fn bytes(&self) -> usize {
        match &self.body {
            Body::Plain(plain) => plain.len(),
            Body::Pressed { len, .. } => *len,
        }
    }

    /// Bytes of memory.
    pub(super) fn memory(&self) -> usize {
        match &self.body {
            Body::Plain(plain) => plain.buf.capacity(),
            Body::Pressed { block, .. } => block.len(),
        }
    }

    /// The buffer, for a change.
    #[inline]
    fn plain(&mut self) -> &mut Plain {
        if let Body::Pressed { .. } = self.body {
            self.unpress();
        }
        match &mut self.body {
            Body::Plain(plain) => plain,
            Body::Pressed { .. } => unreachable!("it was decompressed"),
        }
    }

    /// Compresses the entries if that is worth it.
    pub(super) fn press(&mut self) {
        let Body::Plain(plain) = &self.body else { return };
        let entries = plain.entries();
        let len = entries.end();
        if len < PRESS_MIN {
            return;
        }
        let block = lz4_flex::block::compress(entries.bytes());
        if block.len() + PRESS_WIN <= len {
            self.body = Body::Pressed { block: block.into_boxed_slice(), len };
        }
    }

    /// Decompresses the entries if they are pressed.
    pub(super) fn unpress(&mut self) {
        if let Body::Pressed { block, len } = &self.body {
            let plain = Plain { buf: unpressed(block, *len), start: 0, end: *len };
            self.body = Body::Plain(plain);
        }
    }

    #[cfg(test)]
    pub(super) fn is_pressed(&self) -> bool {
        matches!(self.body, Body::Pressed { .. })
    }

    #[inline]
    pub(super) fn push_right(&mut self, entry: &Encoded<'_>, most: usize) {
        let len = entry.len::<TwoWay>();
        let plain = self.plain();
        if plain.buf.len() - plain.end < len {
            plain.grow(len, 0, most);
        }
        entry.write::<TwoWay>(&mut plain.buf[plain.end..plain.end + len]);
        plain.end += len;
        self.count += 1;
    }

    #[inline]
    pub(super) fn push_left(&mut self, entry: &Encoded<'_>, most: usize) {
        let len = entry.len::<TwoWay>();
        let plain = self.plain();
        if plain.start < len {
            plain.grow(0, len, most);
        }
        entry.write::<TwoWay>(&mut plain.buf[plain.start - len..plain.start]);
        plain.start -= len;
        self.count += 1;
    }

    /// Gives the slack back: nothing will be pushed here for now.
    pub(super) fn settle(&mut self) {
        if let Body::Plain(plain) = &self.body
            && plain.buf.len() > plain.len()
        {
            *self = Chunk::of(plain.entries(), self.count);
        }
    }

    /// Drops `count` entries, `bytes` long, from the left. O(1) unless pressed.
    pub(super) fn drop_left(&mut self, count: usize, bytes: usize) {
        self.plain().start += bytes;
        self.count -= count;
    }

    /// Drops `count` entries, `bytes` long, from the right. O(1) unless pressed.
    pub(super) fn drop_right(&mut self, count: usize, bytes: usize) {
        self.plain().end -= bytes;
        self.count -= count;
    }

    /// Puts `new` in the place of the `old` entries from the offset `at` on.
    pub(super) fn replace(&mut self, at: usize, old: usize, new: &[Encoded<'_>]) {
        packed::replace(self.plain(), at, old, new);
        self.count = self.count + new.len() - old;
    }

    /// Cuts the entries from the offset `at` on, `count` in number, off into another chunk.
    pub(super) fn split_off(&mut self, at: usize, count: usize) -> Chunk {
        let right = Chunk::of(self.plain().entries().from(at), count);
        let bytes = self.bytes() - at;
        self.drop_right(count, bytes);
        self.settle();
        right
    }

    /// Appends the entries of `other`.
    pub(super) fn join(&mut self, other: &Chunk) {
        let entries = [self.text(), other.text()].concat();
        *self = Chunk::new(entries, self.count + other.count);
    }
}

/// What was compressed into `block`. The blocks are our own and never leave the process.
fn unpressed(block: &[u8], len: usize) -> Vec<u8> {
    lz4_flex::block::decompress(block, len).expect("a block that was compressed here")
}

impl Room for Plain {
    type Form = TwoWay;

    fn entries(&self) -> Entries<'_, TwoWay> {
        self.entries()
    }

    fn splice(&mut self, at: usize, old: usize, new: usize) -> &mut [u8] {
        let len = self.len();
        if self.buf.len() - self.end < new.saturating_sub(old) {
            let mut buf = Vec::with_capacity(len + new - old);
            buf.extend_from_slice(self.entries().bytes());
            buf.resize(len + new - old, 0);
            *self = Plain { buf, start: 0, end: len };
        }
        let from = self.start + at;
        self.buf.copy_within(from + old..self.end, from + new);
        self.end = self.end + new - old;
        &mut self.buf[from..from + new]
    }
}

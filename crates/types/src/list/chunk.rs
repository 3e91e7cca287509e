//! One chunk of a long list: packed entries with slack at either end.
//!
//! ```text
//!  ┌───────┬──────────────────────────┬───────┐
//!  │ slack │ entries                  │ slack │
//!  └───────┴──────────────────────────┴───────┘
//!  0     start                       end    buf.len()
//! ```
//!
//! A pushed entry goes into the slack of its end. When that is used up, the buffer grows by half,
//! up to the limit of a chunk, with all new slack at that end. So a push rarely moves bytes, even
//! in a chunk that grows at both ends equally.
//!
//! Removing entries leaves slack too. It is freed when it is nearly as large as the remaining
//! entries, so that popping stays amortized O(1). After a change that costs O(bytes) anyway, it is
//! freed when it exceeds an eighth of the entries.
//!
//! An element that is large by the list's [`Fill`](super::fill::Fill) is *alone* in its chunk,
//! which never takes another one. A chunk that *follows* belongs to the same node of Valkey's
//! quicklist as the chunk before it; see `chunks`.
//!
//! An inner chunk may be *compressed* (with LZ4 for its speed, since each access to the chunk pays
//! for it). Reading makes a decompressed copy; changing decompresses the chunk. `chunks` decides
//! which chunks are compressed.
//!
//! Buffers are reference-counted: a clone shares them with its original until either is changed.

use crate::counted::{CountedRow, HEADER};
use crate::packed::{self, Encoded, Entries, EntryBuffer, TwoWay};
use std::borrow::Cow;

/// The smallest buffer of a chunk that grows (bytes).
const SMALLEST: usize = 128 - HEADER;

/// The least bytes of entries that are compressed, and the least bytes that compression must save;
/// as in Valkey.
const COMPRESS_MIN: usize = 48;
const COMPRESS_SAVING: usize = 8;

/// See the module documentation.
#[derive(Clone, Debug)]
pub(super) struct Chunk {
    body: Body,
    count: u32,
    alone: bool,
    /// Whether this chunk belongs to the same node as the chunk before it.
    pub(super) follows: bool,
    /// Whether the chunk will be removed with all its elements.
    pub(super) gone: bool,
}

#[derive(Clone, Debug)]
enum Body {
    Plain(Plain),
    Compressed {
        block: CountedRow<u8>,
        /// Bytes of entries.
        len: usize,
    },
}

/// Entries with slack at either end.
#[derive(Clone, Debug, Default)]
struct Plain {
    buf: CountedRow<u8>,
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

    /// Makes room for `right` and `left` bytes at the ends. `most` limits the entries of a chunk
    /// with slack.
    #[cold]
    fn grow(&mut self, right: usize, left: usize, most: usize) {
        let used = self.len();
        let need = used + right + left;
        let size = (need + need / 2).max(SMALLEST).min((most - HEADER).max(need));
        let entries = self.entries().bytes();
        let (start, buf) = match left > 0 {
            true => (size - used, CountedRow::from_ends(size, &[], entries)),
            false => (0, CountedRow::from_ends(size, entries, &[])),
        };
        *self = Plain { buf, start, end: start + used };
    }

    #[inline]
    fn slack(&self) -> usize {
        self.buf.len() - self.len()
    }

    /// Moves the entries into a buffer with `slack` bytes after them.
    #[cold]
    fn fit(&mut self, slack: usize) {
        let buf = CountedRow::from_ends(self.len() + slack, self.entries().bytes(), &[]);
        *self = Plain { start: 0, end: self.len(), buf };
    }

    /// Frees most of the slack when there is much. It copies less than twice the bytes that were
    /// removed since the last time.
    #[inline]
    fn shrink(&mut self) {
        if self.slack() > self.len() / 4 * 3 + 2 * SMALLEST {
            self.fit(self.len() / 8);
        }
    }

    /// Calls [`Plain::shrink`] after `count` entries of `bytes` bytes were removed at once. After a
    /// large removal, frees slack as after a change that costs O(bytes).
    #[inline]
    fn shrink_after(&mut self, count: usize, bytes: usize) {
        match count > 1 && bytes >= self.len() / 4 {
            true => self.tighten(),
            false => self.shrink(),
        }
    }

    /// Frees slack that exceeds an eighth of the entries.
    fn tighten(&mut self) {
        if self.slack() > self.len() / 8 + SMALLEST / 4 {
            self.fit(0);
        }
    }
}

impl Default for Chunk {
    fn default() -> Self {
        Chunk::new(CountedRow::new(), 0)
    }
}

impl Chunk {
    /// A chunk of these entries, without slack.
    pub(super) fn of(entries: Entries<'_, TwoWay>, count: usize) -> Self {
        Chunk::new(entries.bytes().into(), count)
    }

    /// A chunk of the entries in `buf`, which must have backward lengths.
    pub(super) fn new(buf: CountedRow<u8>, count: usize) -> Self {
        let plain = Plain { start: 0, end: buf.len(), buf };
        let count = u32::try_from(count).expect("no more entries than a record or a node holds");
        Chunk { body: Body::Plain(plain), count, alone: false, follows: false, gone: false }
    }

    /// A chunk of one entry: `alone`, or with room for others by Valkey's rules.
    pub(super) fn of_one(entry: &Encoded<'_>, alone: bool) -> Self {
        let mut buf = CountedRow::zeros(entry.len::<TwoWay>());
        entry.write::<TwoWay>(&mut buf);
        Chunk { alone, ..Chunk::new(buf, 1) }
    }

    /// Whether the chunk's one element never shares it.
    #[inline]
    pub(super) fn is_alone(&self) -> bool {
        self.alone
    }

    /// The bytes of the entries; decompressed, O(bytes), if the chunk is compressed.
    #[inline]
    pub(super) fn text(&self) -> Cow<'_, [u8]> {
        match &self.body {
            Body::Plain(plain) => Cow::Borrowed(plain.entries().bytes()),
            Body::Compressed { block, len } => Cow::Owned(decompressed(block, *len)),
        }
    }

    /// The number of elements.
    #[inline]
    pub(super) fn count(&self) -> usize {
        self.count as usize
    }

    /// Bytes of entries.
    #[inline]
    pub(super) fn bytes(&self) -> usize {
        match &self.body {
            Body::Plain(plain) => plain.len(),
            Body::Compressed { len, .. } => *len,
        }
    }

    /// Bytes of memory.
    pub(super) fn memory(&self) -> usize {
        match &self.body {
            Body::Plain(plain) => plain.buf.memory(),
            Body::Compressed { block, .. } => block.memory(),
        }
    }

    /// The buffer, decompressed if necessary, for a change.
    #[inline]
    fn plain(&mut self) -> &mut Plain {
        if let Body::Compressed { .. } = self.body {
            self.decompress();
        }
        match &mut self.body {
            Body::Plain(plain) => plain,
            Body::Compressed { .. } => unreachable!("decompress leaves it plain"),
        }
    }

    /// Compresses the entries if that saves enough.
    pub(super) fn compress(&mut self) {
        let Body::Plain(plain) = &self.body else { return };
        let entries = plain.entries();
        let len = entries.end();
        if len < COMPRESS_MIN {
            return;
        }
        let block = lz4_flex::block::compress(entries.bytes());
        if block.len() + COMPRESS_SAVING <= len {
            self.body = Body::Compressed { block: block.into(), len };
        }
    }

    /// Decompresses the entries if they are compressed.
    pub(super) fn decompress(&mut self) {
        if let Body::Compressed { block, len } = &self.body {
            let plain = Plain { buf: decompressed(block, *len).into(), start: 0, end: *len };
            self.body = Body::Plain(plain);
        }
    }

    pub(super) fn is_compressed(&self) -> bool {
        matches!(self.body, Body::Compressed { .. })
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

    /// Frees all slack: no pushes are expected for now.
    pub(super) fn drop_slack(&mut self) {
        if let Body::Plain(plain) = &mut self.body
            && plain.slack() > 0
        {
            plain.fit(0);
        }
    }

    /// Frees slack that exceeds an eighth of the entries, for a chunk in which each change costs
    /// O(bytes) anyway.
    pub(super) fn tighten(&mut self) {
        if let Body::Plain(plain) = &mut self.body {
            plain.tighten();
        }
    }

    /// Drops `count` entries of `bytes` bytes from the left. Amortized O(1) for each byte unless
    /// compressed.
    #[inline]
    pub(super) fn drop_left(&mut self, count: usize, bytes: usize) {
        let plain = self.plain();
        plain.start += bytes;
        plain.shrink_after(count, bytes);
        self.count -= count as u32;
    }

    /// Drops `count` entries of `bytes` bytes from the right. Amortized O(1) for each byte unless
    /// compressed.
    #[inline]
    pub(super) fn drop_right(&mut self, count: usize, bytes: usize) {
        let plain = self.plain();
        plain.end -= bytes;
        plain.shrink_after(count, bytes);
        self.count -= count as u32;
    }

    /// Replaces the `old` entries from the offset `at` on with `new`.
    pub(super) fn replace(&mut self, at: usize, old: usize, new: &[Encoded<'_>]) {
        let plain = self.plain();
        packed::replace(plain, at, old, new);
        plain.shrink();
        self.count = self.count + new.len() as u32 - old as u32;
    }

    /// Removes the entries at these offsets, which must be in descending order. O(bytes).
    pub(super) fn remove(&mut self, hits: &[usize]) {
        let entries = self.plain().entries();
        let gone: usize = hits.iter().map(|at| entries.after(*at) - at).sum();
        let mut buf = Vec::with_capacity(entries.end() - gone);
        let mut from = 0;
        for at in hits.iter().rev() {
            buf.extend_from_slice(entries.until(*at).from(from).bytes());
            from = entries.after(*at);
        }
        buf.extend_from_slice(entries.from(from).bytes());
        *self.plain() = Plain { start: 0, end: buf.len(), buf: buf.into() };
        self.count -= hits.len() as u32;
    }

    /// Moves the `count` entries from the offset `at` on to a new chunk, which does not follow this
    /// one.
    pub(super) fn split_off(&mut self, at: usize, count: usize) -> Chunk {
        let right = Chunk::of(self.plain().entries().from(at), count);
        let plain = self.plain();
        plain.end = plain.start + at;
        self.count -= count as u32;
        self.drop_slack();
        right
    }

    /// Appends the entries of `other`.
    pub(super) fn join(&mut self, other: &Chunk) {
        let (left, right) = (self.text(), other.text());
        let entries = CountedRow::from_ends(left.len() + right.len(), &left, &right);
        let joined = Chunk::new(entries, self.count() + other.count());
        *self = Chunk { follows: self.follows, ..joined };
    }

    /// Divides the entries into chunks that follow one another, of `most` bytes or slightly more
    /// each. A chunk of several entries never has more than twice that; only the last one may be
    /// smaller. O(bytes).
    pub(super) fn divide(&self, most: usize) -> Vec<Chunk> {
        let text = self.text();
        let entries = Entries::<TwoWay>::new(&text);
        let mut parts = Vec::new();
        let (mut from, mut count) = (0, 0);
        for at in entries.offsets() {
            let full = at - from >= most || entries.after(at) - from > 2 * most;
            if count > 0 && full {
                parts.push(Chunk::of(entries.until(at).from(from), count));
                (from, count) = (at, 0);
            }
            count += 1;
        }
        parts.push(Chunk::of(entries.from(from), count));
        for (n, part) in parts.iter_mut().enumerate() {
            part.follows = n > 0 || self.follows;
        }
        parts
    }
}

/// Decompresses `block`. Blocks are made here and never leave the process.
fn decompressed(block: &[u8], len: usize) -> Vec<u8> {
    lz4_flex::block::decompress(block, len).expect("a block that was compressed here")
}

impl EntryBuffer for Plain {
    type Form = TwoWay;

    fn entries(&self) -> Entries<'_, TwoWay> {
        self.entries()
    }

    fn splice(&mut self, at: usize, old: usize, new: usize) -> &mut [u8] {
        let len = self.len();
        if self.buf.len() - self.end < new.saturating_sub(old) {
            let buf = CountedRow::from_ends(len + new - old, self.entries().bytes(), &[]);
            *self = Plain { buf, start: 0, end: len };
        }
        let from = self.start + at;
        let buf = &mut *self.buf;
        buf.copy_within(from + old..self.end, from + new);
        self.end = self.end + new - old;
        &mut buf[from..from + new]
    }
}

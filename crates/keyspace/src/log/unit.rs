//! The content of the log: units, their entries, and the blocks that transport them.
//!
//! A block consists of four vectors that one thread fills and the reader empties. Each entry and
//! unit stores its end position in the vector below. So a unit of one small command costs three
//! appends and no allocation.
//!
//! ```text
//!  units    │ 17, 1000 ms ─┐ │ 20, 1000 ms ──────────────┐
//!  entries  │ db 0, both ─┐│ │ db 0, both ─┐ db 1, both ─┐│
//!  bytes    │ *3 SET k v  ││ │ *2 DEL a    ││ *3 SET b ...│
//!  shared                                             └─ a large value, in the middle of the bytes
//! ```

use std::ops::Range;
use weft_types::string::Blob;

/// The receivers of an entry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Target(u8);

impl Target {
    /// Files that are replayed.
    pub const AOF: Target = Target(1);
    /// Replicas.
    pub const REPLICAS: Target = Target(2);
    /// Both; the usual case.
    pub const ALL: Target = Target(3);

    /// The chosen ones; maybe none.
    pub(super) const fn of(aof: bool, replicas: bool) -> Target {
        Target(aof as u8 | (replicas as u8) << 1)
    }

    /// The receivers that are not in `withheld`, unless none is left.
    #[inline]
    pub(super) const fn without(self, withheld: Target) -> Option<Target> {
        match self.0 & !withheld.0 {
            0 => None,
            left => Some(Target(left)),
        }
    }

    /// The bits as a number.
    pub(super) fn bits(self) -> u64 {
        u64::from(self.0)
    }

    /// Whether the two have a bit in common.
    #[inline]
    pub const fn has(self, other: Target) -> bool {
        self.0 & other.0 != 0
    }
}

/// Arguments of at least this length are shared with the dataset and not copied into the log.
pub const SHARE_FROM: usize = 16 * 1024;

/// Units of one thread, in order of their numbers.
#[derive(Debug, Default)]
pub(crate) struct Block {
    bytes: Vec<u8>,
    /// Large values, each with the index of the byte that it precedes.
    shared: Vec<(usize, Blob)>,
    entries: Vec<EntryEnd>,
    pub(super) units: Vec<UnitEnd>,
}

/// An entry and its end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EntryEnd {
    db: u32,
    target: Target,
    bytes: usize,
    shared: usize,
}

/// A unit and its end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct UnitEnd {
    pub(super) number: u64,
    ms: i64,
    entries: usize,
}

impl EntryEnd {
    /// The same, moved by that many bytes and shared values.
    fn shifted(self, bytes: usize, shared: usize) -> EntryEnd {
        EntryEnd { bytes: self.bytes + bytes, shared: self.shared + shared, ..self }
    }
}

/// The memory that an emptied block keeps for the next units: what a thread logs in the
/// millisecond for which the file writer lets units collect. With less, each block would be
/// allocated, grown and paged in anew.
const KEPT_BYTES: usize = 256 << 10;

/// A block with this many bytes of commands takes no units of other blocks.
const FULL_BYTES: usize = 64 << 10;

/// Blocks up to this size are copied for several readers. A copy takes less than a microsecond;
/// sharing would cost an allocation and leave a reader with many small blocks.
const COPIED_BYTES: usize = 4 << 10;

impl Block {
    /// Appends one entry: a command with these arguments in RESP.
    pub(super) fn push(&mut self, db: usize, target: Target, args: &mut Args<'_, '_>) {
        put_head(&mut self.bytes, b'*', args.len());
        for arg in args {
            put_head(&mut self.bytes, b'$', arg.len());
            match arg {
                Arg::Bytes(bytes) => self.bytes.extend_from_slice(bytes),
                Arg::Shared(blob) => self.shared.push((self.bytes.len(), blob.clone())),
            }
            self.bytes.extend_from_slice(b"\r\n");
        }
        self.end_entry(db, target);
    }

    /// As [`Block::push`], for words that are all copied: the usual case.
    pub(super) fn push_words(&mut self, db: usize, target: Target, words: &[&[u8]]) {
        let size: usize = words.iter().map(|word| word.len() + WORD_OVERHEAD).sum();
        self.bytes.reserve(size + WORD_OVERHEAD);
        put_head(&mut self.bytes, b'*', words.len());
        for word in words {
            put_head(&mut self.bytes, b'$', word.len());
            self.bytes.extend_from_slice(word);
            self.bytes.extend_from_slice(b"\r\n");
        }
        self.end_entry(db, target);
    }

    #[inline]
    fn end_entry(&mut self, db: usize, target: Target) {
        let db = u32::try_from(db).expect("databases are numbered in 32 bits");
        let (bytes, shared) = (self.bytes.len(), self.shared.len());
        self.entries.push(EntryEnd { db, target, bytes, shared });
    }

    /// Appends the entries of `other`, which belong to no unit yet, and empties it. Returns the
    /// bytes of their commands.
    pub(super) fn append(&mut self, other: &mut Block) -> usize {
        let (bytes, shared) = (self.bytes.len(), self.shared.len());
        let mut size = other.bytes.len();
        self.bytes.extend_from_slice(&other.bytes);
        if !other.shared.is_empty() {
            size += other.shared.iter().map(|(_, blob)| blob.len()).sum::<usize>();
            self.shared.extend(other.shared.drain(..).map(|(at, blob)| (at + bytes, blob)));
        }
        match other.entries[..] {
            [entry] => self.entries.push(entry.shifted(bytes, shared)),
            [..] => self.entries.extend(other.entries.iter().map(|e| e.shifted(bytes, shared))),
        }
        // A large unit must not keep its memory for the small ones after it.
        other.clear();
        size
    }

    /// Appends the units of `other`. O(bytes of `other`).
    pub(super) fn copy(&mut self, other: &Block) {
        let (bytes, shared) = (self.bytes.len(), self.shared.len());
        let entries = self.entries.len();
        self.bytes.extend_from_slice(&other.bytes);
        self.shared.extend(other.shared.iter().map(|(at, blob)| (at + bytes, blob.clone())));
        self.entries.extend(other.entries.iter().map(|e| e.shifted(bytes, shared)));
        let units = other.units.iter();
        self.units.extend(units.map(|u| UnitEnd { entries: u.entries + entries, ..*u }));
    }

    /// Whether a copy is cheaper than sharing. Large values are shared either way.
    pub(super) fn is_small(&self) -> bool {
        self.bytes.len() <= COPIED_BYTES
    }

    /// Whether the units of other blocks may be added to it.
    pub(super) fn has_room(&self) -> bool {
        self.bytes.len() < FULL_BYTES
    }

    /// Makes all entries after the last unit a unit with this number and time.
    pub(super) fn end_unit(&mut self, number: u64, ms: i64) {
        self.units.push(UnitEnd { number, ms, entries: self.entries.len() });
    }

    /// Whether it has no entries.
    pub(super) fn has_no_entries(&self) -> bool {
        self.entries.is_empty()
    }

    /// Its memory without the bytes of its commands.
    pub(super) fn overhead(&self) -> usize {
        self.room() - self.bytes.len()
    }

    /// Removes everything and keeps up to [`KEPT_BYTES`] of capacity.
    #[inline]
    pub(super) fn clear(&mut self) {
        self.bytes.clear();
        self.entries.clear();
        self.units.clear();
        if !self.shared.is_empty() {
            self.shared.clear();
        }
        if self.room() > KEPT_BYTES {
            self.shrink();
        }
    }

    /// The capacity of its vectors in bytes.
    #[inline]
    fn room(&self) -> usize {
        self.bytes.capacity()
            + self.shared.capacity() * size_of::<(usize, Blob)>()
            + self.entries.capacity() * size_of::<EntryEnd>()
            + self.units.capacity() * size_of::<UnitEnd>()
    }

    /// Releases capacity that the next units are not likely to need. The block must be empty.
    #[cold]
    fn shrink(&mut self) {
        self.bytes.shrink_to(KEPT_BYTES / 4);
        self.shared.shrink_to(KEPT_BYTES / 4 / size_of::<(usize, Blob)>());
        self.entries.shrink_to(KEPT_BYTES / 4 / size_of::<EntryEnd>());
        self.units.shrink_to(KEPT_BYTES / 4 / size_of::<UnitEnd>());
    }

    /// The unit at index `nth`.
    pub(super) fn unit(&self, nth: usize) -> Unit<'_> {
        Unit { block: self, nth }
    }

    /// The start of the entry at index `nth`, in bytes and shared values.
    #[inline]
    fn begin_of_entry(&self, nth: usize) -> (usize, usize) {
        match nth.checked_sub(1).and_then(|before| self.entries.get(before)) {
            Some(before) => (before.bytes, before.shared),
            None => (0, 0),
        }
    }
}

/// Maximum bytes of a word's encoding without the word: `$`, 20 digits, two line ends.
const WORD_OVERHEAD: usize = 1 + 20 + 4;

/// Appends `*3\r\n` or the like.
#[inline(always)]
fn put_head(bytes: &mut Vec<u8>, kind: u8, count: usize) {
    match count {
        0..10 => bytes.extend_from_slice(&[kind, b'0' + count as u8, b'\r', b'\n']),
        10..100 => {
            let (tens, ones) = (count as u8 / 10, count as u8 % 10);
            bytes.extend_from_slice(&[kind, b'0' + tens, b'0' + ones, b'\r', b'\n']);
        }
        100.. => put_long_head(bytes, kind, count),
    }
}

#[cold]
fn put_long_head(bytes: &mut Vec<u8>, kind: u8, count: usize) {
    let mut digits = itoa::Buffer::new();
    bytes.push(kind);
    bytes.extend_from_slice(digits.format(count).as_bytes());
    bytes.extend_from_slice(b"\r\n");
}

/// An argument of a logged command.
#[derive(Clone, Copy, Debug)]
pub enum Arg<'a> {
    /// Copied into the log.
    Bytes(&'a [u8]),
    /// Shared with the log.
    Shared(&'a Blob),
}

/// The words of a logged command.
pub type Args<'i, 'a> = dyn ExactSizeIterator<Item = Arg<'a>> + 'i;

impl Arg<'_> {
    fn len(&self) -> usize {
        match self {
            Arg::Bytes(bytes) => bytes.len(),
            Arg::Shared(blob) => blob.len(),
        }
    }
}

/// All effects of one commit group: a command with the blocked clients that it served, a
/// transaction, a step of expiry or eviction. It must be repeated as a whole or not at all: a
/// writer puts MULTI and EXEC around several entries.
#[derive(Clone, Copy, Debug)]
pub struct Unit<'a> {
    block: &'a Block,
    nth: usize,
}

impl<'a> Unit<'a> {
    fn end(&self) -> UnitEnd {
        self.block.units[self.nth]
    }

    /// Its number: one more than that of the unit before.
    pub fn number(&self) -> u64 {
        self.end().number
    }

    /// The time of the group, in Unix milliseconds. It never goes back along a shard or a thread.
    /// It may go back from one unit to the next, by up to the duration of a batch: threads read
    /// the clock once per batch.
    pub fn ms(&self) -> i64 {
        self.end().ms
    }

    /// The indexes of its entries.
    #[inline]
    fn range(&self) -> Range<usize> {
        let units = &self.block.units;
        let from = self.nth.checked_sub(1).map_or(0, |before| units[before].entries);
        from..units[self.nth].entries
    }

    /// Its commands in order; at least one.
    pub fn entries(&self) -> impl ExactSizeIterator<Item = Entry<'a>> + use<'a> {
        let block = self.block;
        self.range().map(move |nth| Entry { block, nth })
    }

    /// Its command, if it has exactly one, as almost every unit has.
    #[inline]
    pub fn only_entry(&self) -> Option<Entry<'a>> {
        let range = self.range();
        (range.len() == 1).then_some(Entry { block: self.block, nth: range.start })
    }

    /// Bytes of its commands. O(large values).
    #[inline]
    pub fn len(&self) -> usize {
        let range = self.range();
        let (bytes, shared) = self.block.begin_of_entry(range.start);
        let (bytes_end, shared_end) = self.block.begin_of_entry(range.end);
        let large = self.block.shared[shared..shared_end].iter().map(|(_, blob)| blob.len());
        bytes_end - bytes + large.sum::<usize>()
    }

    /// A unit is never empty.
    pub fn is_empty(&self) -> bool {
        false
    }
}

/// A part of the encoding of a command.
#[derive(Clone, Copy, Debug)]
pub enum Piece<'a> {
    Bytes(&'a [u8]),
    /// A large value, which the dataset may hold, too. While this reference exists, a writer that
    /// changes the value in place copies it first.
    Shared(&'a Blob),
}

/// One command to repeat.
#[derive(Clone, Copy, Debug)]
pub struct Entry<'a> {
    block: &'a Block,
    nth: usize,
}

impl<'a> Entry<'a> {
    fn end(&self) -> EntryEnd {
        self.block.entries[self.nth]
    }

    /// The database to select.
    pub fn db(&self) -> usize {
        self.end().db as usize
    }

    /// The receivers.
    pub fn target(&self) -> Target {
        self.end().target
    }

    /// Bytes of its encoding. O(large values).
    pub fn len(&self) -> usize {
        let (bytes, shared) = self.block.begin_of_entry(self.nth);
        let end = self.end();
        let large = self.block.shared[shared..end.shared].iter().map(|(_, blob)| blob.len());
        end.bytes - bytes + large.sum::<usize>()
    }

    /// An entry is never empty.
    pub fn is_empty(&self) -> bool {
        false
    }

    /// Its encoding (a RESP array of bulk strings) in pieces, in order.
    pub fn pieces(&self) -> impl Iterator<Item = Piece<'a>> + use<'a> {
        let (block, end) = (self.block, self.end());
        let (mut at, shared) = block.begin_of_entry(self.nth);
        let mut large = block.shared[shared..end.shared].iter();
        let mut next_large = large.next();
        std::iter::from_fn(move || {
            let until = next_large.map_or(end.bytes, |(before, _)| *before);
            if at < until {
                let piece = Piece::Bytes(&block.bytes[at..until]);
                at = until;
                return Some(piece);
            }
            let (_, blob) = next_large?;
            next_large = large.next();
            Some(Piece::Shared(blob))
        })
    }

    /// Appends its encoding to `out`.
    #[inline]
    pub fn append_to(&self, out: &mut Vec<u8>) {
        let (bytes, shared) = self.block.begin_of_entry(self.nth);
        let end = self.end();
        if end.shared == shared {
            out.extend_from_slice(&self.block.bytes[bytes..end.bytes]);
        } else {
            self.append_pieces_to(out);
        }
    }

    fn append_pieces_to(&self, out: &mut Vec<u8>) {
        for piece in self.pieces() {
            match piece {
                Piece::Bytes(bytes) => out.extend_from_slice(bytes),
                Piece::Shared(blob) => out.extend_from_slice(blob),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    fn push(block: &mut Block, db: usize, args: &[&[u8]]) {
        block.push(db, Target::ALL, &mut args.iter().map(|arg| Arg::Bytes(arg)));
    }

    fn text(entry: &Entry<'_>) -> String {
        let mut out = Vec::new();
        entry.append_to(&mut out);
        assert_eq!(out.len(), entry.len());
        String::from_utf8(out).expect("the tests write text")
    }

    #[test]
    fn a_copy_has_the_same_units() {
        let (mut block, mut draft, mut copy) =
            (Block::default(), Block::default(), Block::default());
        let texts = |block: &Block| -> Vec<(u64, String)> {
            let units = (0..block.units.len()).map(|nth| block.unit(nth));
            units.map(|u| (u.number(), u.entries().map(|e| text(&e)).collect())).collect()
        };
        let mut all = Vec::new();
        for number in 1..=3 {
            block.clear();
            for word in [&b"one"[..], b"two"] {
                push(&mut draft, 1, &[word]);
                let blob = Arc::new(format!("large {number}").into_bytes());
                draft.push(2, Target::AOF, &mut [Arg::Bytes(word), Arg::Shared(&blob)].into_iter());
                block.append(&mut draft);
                block.end_unit(2 * number + u64::from(word == b"two"), 1000);
            }
            assert!(copy.has_room() && block.is_small());
            copy.copy(&block);
            all.extend(texts(&block));
            assert_eq!(texts(&copy), all);
        }
        assert_eq!(all.len(), 6);
        let long = vec![b'x'; FULL_BYTES];
        push(&mut draft, 0, &[&long]);
        assert!(!draft.is_small() && !draft.has_room());
    }

    #[test]
    fn pushed_entries_are_read_back() {
        let (mut block, mut draft) = (Block::default(), Block::default());
        for (number, large) in [(7, false), (9, true)] {
            push(&mut draft, 3, &[b"DEL", b"a"]);
            if large {
                let blob = Arc::new(b"large".to_vec());
                let args = [Arg::Bytes(b"SET"), Arg::Bytes(b""), Arg::Shared(&blob)];
                draft.push(4, Target::AOF, &mut args.into_iter());
                push(&mut draft, 5, &[b"X"]);
            }
            let size = block.append(&mut draft);
            assert!(draft.has_no_entries());
            block.end_unit(number, 1000);
            let unit = block.unit(block.units.len() - 1);
            assert_eq!((unit.number(), unit.ms(), unit.len()), (number, 1000, size));
        }
        let entries: Vec<_> = block.unit(1).entries().collect();
        assert_eq!(block.unit(0).entries().len(), 1);
        assert_eq!(entries.iter().map(Entry::db).collect::<Vec<_>>(), [3, 4, 5]);
        assert_eq!(text(&entries[0]), "*2\r\n$3\r\nDEL\r\n$1\r\na\r\n");
        assert_eq!(text(&entries[1]), "*3\r\n$3\r\nSET\r\n$0\r\n\r\n$5\r\nlarge\r\n");
        assert_eq!(text(&entries[2]), "*1\r\n$1\r\nX\r\n");
        assert_eq!(entries[1].pieces().count(), 3);
        assert!(entries[1].target().has(Target::AOF) && !entries[1].target().has(Target::REPLICAS));
    }
}

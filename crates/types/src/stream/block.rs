//! A run of neighbouring entries in one piece of memory. A stream consists of such blocks.
//!
//! ```text
//!  bytes = number of fields, fields, entry, entry ...      the fields are those of the first entry
//!
//!  entry = length of the rest, head, [seq,] values                      with the block's fields
//!        | length of the rest, head, [seq,] number, field, value ...    with fields of its own
//!
//!  head  = a number: bit 0 says whether the entry has its own fields, bit 1 whether a seq follows;
//!          the other bits are the ms after the block's first entry
//!  seq   = if ms is 0, the difference to the first entry's seq; else the seq. Omitted when it is 0
//! ```
//!
//! Fields and values are [packed](crate::packed) without backward lengths. Numbers are [`varint`]s,
//! but the head's first byte also holds the two flags. Entries of a block that have the same
//! fields, at about the same time, thus need three or four bytes in addition to their values. Based
//! on the listpacks in the nodes of Redis's streams (Salvatore Sanfilippo, 2017).
//!
//! Deleting an entry frees its bytes. Valkey would keep a mark of it, and this code counts the
//! mark: it decides when a block is full, and clients see that in what `XTRIM ~` leaves. So a block
//! stores how many entries were deleted, the id of the last entry it ever had, and how many bytes
//! Valkey's node would have. An empty block is removed, unless trimming by id emptied it, since
//! Valkey keeps such a node.

use super::entry::Entry;
use super::{StreamId, varint};
use crate::Limits;
use crate::counted::{Counted, HEADER};
use crate::packed::{Encoded, Entries, OneWay, TwoWay};
use smallvec::SmallVec;

/// Flag in an entry's head: the entry has its own fields.
const OWN_FIELDS: u8 = 1;
/// Flag in an entry's head: a seq follows.
const SEQ: u8 = 2;
/// Bits of the time in the head's first byte, after the flags.
const HEAD_BITS: u32 = 5;

/// Bytes of a listpack without entries.
const LISTPACK: usize = 7;

/// The most bytes of a node, whatever `stream-node-max-bytes` says.
pub(super) const NODE_MAX: usize = 1 << 30;

/// See the module documentation. A clone shares the bytes until either is changed.
#[derive(Clone, Debug)]
pub(super) struct Block {
    /// The id of the first entry that was here. The ids of the others are stored as differences to
    /// it.
    pub(super) master: StreamId,
    /// The id of the last entry that was here.
    pub(super) last: StreamId,
    bytes: Counted<Vec<u8>>,
    /// The offset of the first entry. Deleted entries before it may still have their bytes.
    first: u32,
    /// The number of entries.
    live: u32,
    /// The number of deleted entries.
    deleted: u32,
    /// Bytes of Valkey's node, without the two counts at its beginning.
    reference: u32,
    /// Whether the entry `last` was deleted.
    last_gone: bool,
}

/// The offsets of entries of a block.
pub(super) type Offsets = SmallVec<[u32; 128]>;

/// Bytes of `n` in a listpack.
#[inline]
fn listpack_int(n: i64) -> usize {
    match n {
        0..=127 => 2,
        _ => Encoded::of_int(n).len::<TwoWay>(),
    }
}

/// The part of an entry before its values.
#[derive(Clone, Copy, Debug)]
struct Head {
    id: StreamId,
    own_fields: bool,
    /// The offset after the head, and that of the next entry.
    body: usize,
    end: usize,
}

impl Block {
    /// A block without entries for a first entry with this id and these fields. `pairs` alternates
    /// fields and values.
    pub(super) fn new(id: StreamId, pairs: &[&[u8]]) -> Block {
        let mut bytes = Vec::new();
        let count = pairs.len() / 2;
        let fields = || pairs.iter().step_by(2);
        // Room for the fields and for the first entry.
        let all: usize = pairs.iter().map(|text| text.len() + 2).sum();
        let head: usize = fields().map(|text| text.len() + 2).sum();
        bytes.reserve_exact((head + all + 5 * varint::MOST).next_multiple_of(16));
        varint::put(count as u64, &mut bytes);
        let mut reference = LISTPACK + listpack_int(count as i64) + listpack_int(0);
        for field in fields() {
            let field = Encoded::of(field);
            field.append(&mut bytes);
            reference += field.len::<TwoWay>();
        }
        Block {
            master: id,
            last: id,
            first: bytes.len() as u32,
            bytes: Counted::new(bytes),
            live: 0,
            deleted: 0,
            reference: reference as u32,
            last_gone: false,
        }
    }

    /// The number of entries. O(1), as all below unless stated otherwise.
    #[inline]
    pub(super) fn len(&self) -> usize {
        self.live as usize
    }

    /// Approximate bytes of the entries.
    #[inline]
    pub(super) fn text(&self) -> usize {
        self.bytes.len()
    }

    /// The number of fields of most entries.
    #[inline]
    pub(super) fn fields(&self) -> usize {
        varint::get(&self.bytes, 0).0 as usize
    }

    /// Whether the block has more bytes than usual: a few long entries, or many.
    #[inline]
    pub(super) fn is_heavy(&self) -> bool {
        const BYTES: usize = 8 << 10;
        self.text() > BYTES
    }

    /// The approximate maximum number of fields of an entry. In most blocks this is the number of
    /// the first entry, since others differ little if all are short. Looks at no more than `enough`
    /// entries.
    #[inline]
    pub(super) fn most_fields(&self, enough: usize) -> usize {
        if self.is_heavy() { self.longest(enough) } else { self.fields() }
    }

    #[cold]
    fn longest(&self, enough: usize) -> usize {
        let (mut at, mut most) = (self.start(), 0);
        for _ in 0..enough {
            if at >= self.end() {
                break;
            }
            let (entry, next) = self.entry(at);
            (at, most) = (next, most.max(entry.len()));
        }
        most
    }

    /// Bytes of memory, without the block itself.
    pub(super) fn memory(&self) -> usize {
        HEADER + size_of::<Vec<u8>>() + self.bytes.capacity()
    }

    /// Whether an entry with `text` bytes of fields and values must begin another block.
    #[inline]
    pub(super) fn is_full(&self, text: usize, limits: &Limits) -> bool {
        let most = match limits.stream_node_bytes {
            0 => NODE_MAX,
            bytes => bytes.min(NODE_MAX),
        };
        let (live, deleted) = (self.live as usize, self.deleted as usize);
        let node = self.reference as usize
            + listpack_int(i64::from(self.live))
            + listpack_int(i64::from(self.deleted));
        node + text >= most
            || (limits.stream_node_entries != 0 && live + deleted >= limits.stream_node_entries)
    }

    /// Frees the memory reserved for more entries.
    pub(super) fn close(&mut self) {
        self.bytes.shrink_to_fit();
    }

    /// Appends an entry. `pairs` alternates fields and values. O(bytes of it).
    #[inline]
    pub(super) fn append(&mut self, id: StreamId, pairs: &[&[u8]]) {
        let count = pairs.len() / 2;
        let own_fields = !self.has_fields(pairs);
        let ms = id.ms.wrapping_sub(self.master.ms);
        let seq_delta = id.seq.wrapping_sub(self.master.seq);
        let seq = if ms == 0 { seq_delta } else { id.seq };

        let texts: usize = pairs.iter().map(|text| text.len() + 2).sum();
        let room = texts + 4 * varint::MOST;
        let bytes: &mut Vec<u8> = &mut self.bytes;
        if bytes.capacity() - bytes.len() < room {
            // Most blocks have a few kilobytes at most, and a small stream has one block.
            let grown = (bytes.len() / 2).max(room).next_multiple_of(32);
            bytes.reserve_exact(grown);
        }
        let at = bytes.len();
        // Placeholder for a length of one byte.
        bytes.push(0);
        write_head(own_fields, seq != 0, ms, bytes);
        if seq != 0 {
            varint::put(seq, bytes);
        }
        let mut reference =
            listpack_int(0) + listpack_int(ms as i64) + listpack_int(seq_delta as i64);
        let step = if own_fields {
            varint::put(count as u64, bytes);
            reference += listpack_int(count as i64) + listpack_int(2 * count as i64 + 4);
            1
        } else {
            reference += listpack_int(count as i64 + 3);
            2
        };
        for text in pairs.iter().skip(step - 1).step_by(step) {
            let text = Encoded::of(text);
            text.append(bytes);
            reference += text.len::<TwoWay>();
        }
        let rest = bytes.len() - at - 1;
        if rest <= 0x7f {
            bytes[at] = rest as u8;
        } else {
            let mut length = Vec::with_capacity(varint::MOST);
            varint::put(rest as u64, &mut length);
            drop(bytes.splice(at..=at, length));
        }
        self.last = id;
        self.last_gone = false;
        self.live += 1;
        self.reference += reference as u32;
    }

    /// Whether these pairs have the block's fields, in the same order.
    #[inline]
    fn has_fields(&self, pairs: &[&[u8]]) -> bool {
        let (count, mut at) = varint::get(&self.bytes, 0);
        if count != (pairs.len() / 2) as u64 {
            return false;
        }
        let entries = Entries::<OneWay>::new(&self.bytes);
        pairs.iter().step_by(2).all(|field| {
            let same = entries.holds(at, &Encoded::of(field));
            at = entries.after(at);
            same
        })
    }

    /// The offset of the first entry, or of the end if there is none.
    #[inline]
    pub(super) fn start(&self) -> usize {
        self.first as usize
    }

    #[inline]
    pub(super) fn end(&self) -> usize {
        self.bytes.len()
    }

    /// The offset of the entry after the one at `at`.
    #[inline]
    fn after(&self, at: usize) -> usize {
        let (rest, body) = varint::get(&self.bytes, at);
        body + rest as usize
    }

    #[inline]
    fn head(&self, at: usize) -> Head {
        let (rest, from) = varint::get(&self.bytes, at);
        let first = self.bytes[from];
        let mut body = from + 1;
        let mut ms = u64::from((first & 0x7f) >> 2);
        if first & 0x80 != 0 {
            let high;
            (high, body) = varint::get(&self.bytes, body);
            ms |= high << HEAD_BITS;
        }
        let mut seq = 0;
        if first & SEQ != 0 {
            (seq, body) = varint::get(&self.bytes, body);
        }
        if ms == 0 {
            seq = seq.wrapping_add(self.master.seq);
        }
        let id = StreamId { ms: self.master.ms.wrapping_add(ms), seq };
        Head { id, own_fields: first & OWN_FIELDS != 0, body, end: from + rest as usize }
    }

    /// The id of the entry at `at`.
    #[inline]
    pub(super) fn id_at(&self, at: usize) -> StreamId {
        self.head(at).id
    }

    /// The entry at `at`, and the offset of the next one.
    #[inline]
    pub(super) fn entry(&self, at: usize) -> (Entry<'_>, usize) {
        let head = self.head(at);
        let body = &self.bytes[head.body..head.end];
        let entry = if head.own_fields {
            let (count, from) = varint::get(body, 0);
            Entry::with_fields(head.id, count as usize, &body[from..])
        } else {
            let (count, from) = varint::get(&self.bytes, 0);
            Entry::with_values(head.id, count as usize, &self.bytes[from..], body)
        };
        (entry, head.end)
    }

    /// The offset of the first entry with an id of `id` or more, or of the end. O(n), a few
    /// instructions for each entry.
    pub(super) fn seek(&self, id: StreamId) -> usize {
        let mut at = self.start();
        if id > self.last {
            return self.end();
        }
        while at < self.end() {
            let head = self.head(at);
            if head.id >= id {
                break;
            }
            at = head.end;
        }
        at
    }

    /// The offsets of all entries with ids up to `until`. O(n).
    pub(super) fn offsets(&self, until: StreamId) -> Offsets {
        let mut offsets = Offsets::new();
        let mut at = self.start();
        if until >= self.last {
            while at < self.end() {
                offsets.push(at as u32);
                at = self.after(at);
            }
        } else {
            while at < self.end() {
                let head = self.head(at);
                if head.id > until {
                    break;
                }
                offsets.push(at as u32);
                at = head.end;
            }
        }
        offsets
    }

    /// The id of the last entry that was not deleted. O(n) if a later one was deleted.
    pub(super) fn last_live(&self) -> Option<StreamId> {
        if self.live == 0 {
            return None;
        }
        if !self.last_gone {
            return Some(self.last);
        }
        self.offsets(StreamId::MAX).last().map(|at| self.id_at(*at as usize))
    }

    /// Whether there is an entry with this id. O(n).
    pub(super) fn has(&self, id: StreamId) -> bool {
        let at = self.seek(id);
        at < self.end() && self.id_at(at) == id
    }

    /// Deletes the entry with this id. Returns whether there was one. O(bytes).
    pub(super) fn delete(&mut self, id: StreamId) -> bool {
        let at = self.seek(id);
        if at >= self.end() || self.id_at(at) != id {
            return false;
        }
        let next = self.after(at);
        if at == self.start() {
            self.first = next as u32;
            self.compact();
        } else {
            self.bytes.drain(at..next);
            self.shrink();
        }
        self.last_gone |= id == self.last;
        self.live -= 1;
        self.deleted += 1;
        true
    }

    /// Deletes up to `most` entries from the front with ids less than `until`. Returns how many.
    /// Amortized O(entries deleted).
    pub(super) fn delete_front(&mut self, most: usize, until: StreamId) -> usize {
        let (mut at, mut gone) = (self.start(), 0);
        while at < self.end() && gone < most {
            let head = self.head(at);
            if head.id >= until {
                break;
            }
            self.last_gone |= head.id == self.last;
            at = head.end;
            gone += 1;
        }
        self.first = at as u32;
        self.live -= gone as u32;
        self.deleted += gone as u32;
        self.compact();
        gone
    }

    /// Frees the bytes of entries deleted from the front once they exceed those of the remaining
    /// entries.
    fn compact(&mut self) {
        let header = self.header();
        let (gone, left) = (self.start() - header, self.end() - self.start());
        if gone > left {
            self.bytes.drain(header..self.first as usize);
            self.first = header as u32;
            self.shrink();
        }
    }

    /// Frees memory if less than half of it is used.
    fn shrink(&mut self) {
        if self.bytes.capacity() > 64 && self.bytes.len() < self.bytes.capacity() / 2 {
            self.bytes.shrink_to_fit();
        }
    }

    /// Bytes of the fields before all entries.
    fn header(&self) -> usize {
        let (count, at) = varint::get(&self.bytes, 0);
        let entries = Entries::<OneWay>::new(&self.bytes);
        (0..count).fold(at, |at, _| entries.after(at))
    }
}

/// Writes an entry's head; see the module documentation.
#[inline]
fn write_head(own_fields: bool, seq: bool, ms: u64, to: &mut Vec<u8>) {
    let low = (ms as u8) & ((1 << HEAD_BITS) - 1);
    let mut first = low << 2;
    if own_fields {
        first |= OWN_FIELDS;
    }
    if seq {
        first |= SEQ;
    }
    let high = ms >> HEAD_BITS;
    if high == 0 {
        to.push(first);
    } else {
        to.push(first | 0x80);
        varint::put(high, to);
    }
}

//! A run of neighbouring entries in one piece of memory: what a stream is made of.
//!
//! ```text
//!  bytes = number of fields, fields, entry, entry ...      the fields are those of the first entry
//!
//!  entry = length of what follows, head, [seq,] values                  with the block's fields
//!        | length of what follows, head, [seq,] number, field, value ...    with fields of its own
//!
//!  head  = a number whose lowest bit says whether the fields are its own, and the next one
//!          whether a seq follows; the rest is how many ms the entry came after the block's first
//!  seq   = how far behind the first one's, in the same ms; else as it is. Left out when it is 0
//! ```
//!
//! Fields and values are [packed](crate::packed) without backward lengths; numbers are
//! [`varint`]s, though the head has its two flags in its first byte.
//! Entries of a block that have the same fields, at about the same time, thus cost three or four
//! bytes beside their values. After the listpacks in the nodes of Redis's streams (Salvatore
//! Sanfilippo, 2017).
//!
//! An entry that is deleted gives its bytes back. What the reference would keep of it there, a mark,
//! counts all the same: it decides when a block is full, and clients see that in what `XTRIM ~`
//! leaves. So a block knows how many entries it lost, the id of the last one that it ever had, and
//! how many bytes the node of the reference would have. A block in which nothing is left goes, but
//! for one that trimming by id has emptied and the reference keeps.

use super::entry::Entry;
use super::{StreamId, varint};
use crate::Limits;
use crate::counted::{Counted, HEADER};
use crate::packed::{Encoded, Entries, OneWay, TwoWay};
use smallvec::SmallVec;

/// In an entry's head: it has fields of its own.
const OWN_FIELDS: u8 = 1;
/// In an entry's head: a seq follows.
const SEQ: u8 = 2;
/// Bits of the time in the head's first byte, behind the flags.
const HEAD_BITS: u32 = 5;

/// Bytes of a listpack without entries.
const LISTPACK: usize = 7;

/// The most bytes of a node, whatever `stream-node-max-bytes` says.
pub(super) const NODE_MAX: usize = 1 << 30;

/// See the module's description. A clone shares the bytes until either is changed.
#[derive(Clone, Debug)]
pub(super) struct Block {
    /// The id of the first entry that was here; the others are told apart from it.
    pub(super) master: StreamId,
    /// The id of the last entry that was here.
    pub(super) last: StreamId,
    bytes: Counted<Vec<u8>>,
    /// The offset of the first entry. What was deleted in front of it may still be there.
    first: u32,
    /// Entries that are here.
    live: u32,
    /// Entries that were deleted.
    deleted: u32,
    /// Bytes of the reference's node, without the two counts at its front.
    reference: u32,
    /// The entry `last` was deleted.
    last_gone: bool,
}

/// The offsets of entries of a block.
pub(super) type Offsets = SmallVec<[u32; 128]>;

/// Bytes that a listpack takes for `n`.
#[inline]
fn listpack_int(n: i64) -> usize {
    match n {
        0..=127 => 2,
        _ => Encoded::of_int(n).len::<TwoWay>(),
    }
}

/// What stands in front of an entry's values.
#[derive(Clone, Copy, Debug)]
struct Head {
    id: StreamId,
    own_fields: bool,
    /// The offset behind it, and that of the next entry.
    body: usize,
    end: usize,
}

impl Block {
    /// A block without entries, whose first one will have this id and these fields; `pairs` are
    /// fields and values by turns.
    pub(super) fn new(id: StreamId, pairs: &[&[u8]]) -> Block {
        let mut bytes = Vec::new();
        let count = pairs.len() / 2;
        let fields = || pairs.iter().step_by(2);
        // For the fields, and for the first entry.
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

    /// Entries that are here. O(1), as all below unless they say otherwise.
    #[inline]
    pub(super) fn len(&self) -> usize {
        self.live as usize
    }

    /// Bytes of the entries, about.
    #[inline]
    pub(super) fn text(&self) -> usize {
        self.bytes.len()
    }

    /// How many fields most entries have, about.
    #[inline]
    pub(super) fn fields(&self) -> usize {
        varint::get(&self.bytes, 0).0 as usize
    }

    /// Whether it has more bytes than blocks have, as a rule: a few long entries, or many.
    #[inline]
    pub(super) fn is_heavy(&self) -> bool {
        const BYTES: usize = 8 << 10;
        self.text() > BYTES
    }

    /// How many fields an entry has at most, about: those of the first entry in most blocks, since
    /// others differ little as long as all are short. Not looked for further than `enough` entries.
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

    /// Bytes of memory, beside the block itself.
    pub(super) fn memory(&self) -> usize {
        HEADER + size_of::<Vec<u8>>() + self.bytes.capacity()
    }

    /// Whether an entry with texts of so many bytes must begin another block.
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

    /// Gives back the memory that more entries would need.
    pub(super) fn close(&mut self) {
        self.bytes.shrink_to_fit();
    }

    /// Adds an entry behind all others; `pairs` are fields and values by turns. O(bytes of it).
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
            // A block has a few kilobytes at most, as a rule, and a small stream has one block.
            let grown = (bytes.len() / 2).max(room).next_multiple_of(32);
            bytes.reserve_exact(grown);
        }
        let at = bytes.len();
        // The place of the length, for one of a single byte.
        bytes.push(0);
        put_head(own_fields, seq != 0, ms, bytes);
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

    /// Whether these pairs have the block's fields, in its order.
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

    /// The offset of the first entry, of the end of all if there is none.
    #[inline]
    pub(super) fn start(&self) -> usize {
        self.first as usize
    }

    #[inline]
    pub(super) fn end(&self) -> usize {
        self.bytes.len()
    }

    /// The offset of the entry behind the one at `at`.
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

    /// The offset of the first entry whose id is `id` or more; of the end if there is none. O(n), a
    /// few instructions for each entry.
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

    /// The offsets of all entries up to the one with `id`. O(n).
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

    /// The id of the last entry that is here. O(n) if one behind it was deleted.
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

    /// Deletes the entry with this id; whether there was one. O(bytes).
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
            self.ease();
        }
        self.last_gone |= id == self.last;
        self.live -= 1;
        self.deleted += 1;
        true
    }

    /// Deletes entries from the front: at most `most`, and only such below `until`; how many.
    /// O(entries deleted), amortized.
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

    /// Gives back what was deleted at the front, once it is as much as what is left.
    fn compact(&mut self) {
        let header = self.header();
        let (gone, left) = (self.start() - header, self.end() - self.start());
        if gone > left {
            self.bytes.drain(header..self.first as usize);
            self.first = header as u32;
            self.ease();
        }
    }

    /// Gives back memory of which half is not used.
    fn ease(&mut self) {
        if self.bytes.capacity() > 64 && self.bytes.len() < self.bytes.capacity() / 2 {
            self.bytes.shrink_to_fit();
        }
    }

    /// Bytes of the fields in front of all entries.
    fn header(&self) -> usize {
        let (count, at) = varint::get(&self.bytes, 0);
        let entries = Entries::<OneWay>::new(&self.bytes);
        (0..count).fold(at, |at, _| entries.after(at))
    }
}

/// Writes an entry's head; see the module's description.
#[inline]
fn put_head(own_fields: bool, seq: bool, ms: u64, to: &mut Vec<u8>) {
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

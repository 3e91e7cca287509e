//! Streams: nodes of entries, the stream's counters, groups with their pending entries.
//!
//! ```text
//!  nodes, each: first id (16 bytes BE), listpack
//!  entries, last id; since version 10: first id, greatest deleted id, entries ever added
//!  groups, each: name, last id; since version 10: entries read (all bits set: unknown)
//!    pending: id (16 bytes BE), time in ms (i64 LE), deliveries
//!    consumers: name, seen (i64 LE); since version 11: active (i64 LE; -1: never); its pending ids
//!
//!  listpack = entries, deleted entries, fields, field ..., 0, entry ...
//!  entry    = flags, ms and number beyond those of the first id, [fields, field, value ... | value ...],
//!             number of elements before this one
//! ```
//!
//! Entries marked as deleted in a node are dropped. Nodes stay separate.

use super::{DUPLICATE, Decoder, Target, listpack};
use crate::rdb::{Code, Fault, Source, read};
use std::collections::BTreeMap;
use weft_types::packed::Value;
use weft_types::stream::groups::{Counts, Group, Groups, Pending};
use weft_types::stream::{Log, Stream, StreamId};
use weft_types::string::Digits;
use weft_types::{Limits, Record};

const NODE: Fault = Fault::Corrupt("a broken node of a stream");
const LOG: Fault = Fault::Corrupt("a stream that contradicts itself");
const PENDING: Fault = Fault::Corrupt("a pending entry without exactly one consumer");

/// Maximum size of a block in bytes, whatever the size of a node: each lookup scans a block.
const NODE_BYTES: usize = 1 << 20;

/// Flags of an entry.
const DELETED: i64 = 1;
const SAME_FIELDS: i64 = 2;

impl<S: Source> Decoder<'_, S> {
    pub(super) fn stream(mut self, code: Code) -> Result<Record, Fault> {
        let (mut log, limits) = (Log::default(), self.target.limits);
        for _ in 0..read::count(self.from)? {
            let master = <[u8; 16]>::try_from(self.element()?).map_err(|_| NODE)?;
            add_node(&mut log, id_of(master), self.element()?, limits)?;
        }
        let length = read::len(self.from)?;
        let last_id = self.id()?;
        if length != log.len() || last_id < log.last_id {
            return Err(LOG);
        }
        (log.last_id, log.entries_added) = (last_id, length);
        if code != Code::Stream {
            let _first = self.id()?;
            log.max_deleted_id = self.id()?;
            log.entries_added = read::len(self.from)?;
        }
        let mut groups = Groups::default();
        for _ in 0..read::count(self.from)? {
            let name = self.element()?.to_vec();
            let group = self.group(code, &log)?;
            if !groups.create(&name, group) {
                return Err(DUPLICATE);
            }
        }
        let Target { key, expiry, clock, .. } = *self.target;
        let groups = (!groups.is_empty()).then(|| Box::new(groups));
        Ok(Stream { log, groups }.into_record(key, expiry, clock))
    }

    fn id(&mut self) -> Result<StreamId, Fault> {
        let (ms, seq) = (read::len(self.from)?, read::len(self.from)?);
        Ok(StreamId { ms, seq })
    }

    fn group(&mut self, code: Code, log: &Log) -> Result<Group, Fault> {
        let last_id = self.id()?;
        let read = match code {
            Code::Stream => Counts::of(log).distance_from_first(last_id),
            _ => Some(read::len(self.from)? as i64).filter(|read| *read != -1),
        };
        let mut group = Group::new(last_id, read);
        let mut pending = BTreeMap::new();
        for _ in 0..read::count(self.from)? {
            let id = id_of(self.from.array()?);
            let delivered_ms = read::signed(self.from)?;
            let deliveries = read::len(self.from)? as i64;
            if pending.insert(id, (delivered_ms, deliveries)).is_some() {
                return Err(DUPLICATE);
            }
        }
        for _ in 0..read::count(self.from)? {
            let name = self.element()?.to_vec();
            let seen_ms = read::signed(self.from)?;
            let active_ms = match code {
                Code::Stream3 => Some(read::signed(self.from)?).filter(|ms| *ms != -1),
                _ => Some(seen_ms),
            };
            let (owner, true) = group.create_consumer(&name, seen_ms) else {
                return Err(DUPLICATE);
            };
            group.consumer_mut(owner).active_ms = active_ms;
            for _ in 0..read::count(self.from)? {
                let id = id_of(self.from.array()?);
                let (delivered_ms, deliveries) = pending.remove(&id).ok_or(PENDING)?;
                group.give(id, Pending { owner, delivered_ms, deliveries });
            }
        }
        if pending.is_empty() { Ok(group) } else { Err(PENDING) }
    }
}

fn id_of(bytes: [u8; 16]) -> StreamId {
    let id = u128::from_be_bytes(bytes);
    StreamId { ms: (id >> 64) as u64, seq: id as u64 }
}

/// The elements of a node's listpack, in order.
struct Elements<'a>(std::vec::IntoIter<Value<'a>>);

impl<'a> Elements<'a> {
    fn value(&mut self) -> Result<Value<'a>, Fault> {
        self.0.next().ok_or(NODE)
    }

    fn int(&mut self) -> Result<i64, Fault> {
        match self.value()? {
            Value::Int(n) => Ok(n),
            Value::Bytes(_) => Err(NODE),
        }
    }

    /// Reads a count of items and checks that `each` elements per item are left.
    fn count(&mut self, each: usize) -> Result<usize, Fault> {
        let n = usize::try_from(self.int()?).map_err(|_| NODE)?;
        let there = n.checked_mul(each).is_some_and(|all| all <= self.0.len());
        if there { Ok(n) } else { Err(NODE) }
    }
}

/// Concatenated texts, with slices available after the last one.
#[derive(Default)]
struct Texts {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Texts {
    fn push(&mut self, value: Value<'_>) {
        self.bytes.extend_from_slice(value.bytes(&mut Digits::new()));
        self.ends.push(self.bytes.len());
    }

    fn slices(&self) -> Vec<&[u8]> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        starts.zip(&self.ends).map(|(start, end)| &self.bytes[start..*end]).collect()
    }
}

/// Appends the entries of a node to `log`, as a separate block.
fn add_node(log: &mut Log, master: StreamId, node: &[u8], limits: &Limits) -> Result<(), Fault> {
    let mut all = Vec::new();
    listpack::each(node, &mut |value| {
        all.push(value);
        Ok(())
    })?;
    let mut all = Elements(all.into_iter());
    let (live, deleted) = (all.int()?, all.int()?);
    let count = all.count(1)?;
    let mut fields = Vec::with_capacity(count);
    for _ in 0..count {
        fields.push(all.value()?);
    }
    if all.int()? != 0 {
        return Err(NODE);
    }
    // The first entry begins a block, the others stay in it.
    let mut limits = Limits { stream_node_entries: 1, ..*limits };
    let (mut found, mut gone) = (0i64, 0i64);
    while all.0.len() > 0 {
        let flags = all.int()?;
        if !(0..=(DELETED | SAME_FIELDS)).contains(&flags) {
            return Err(NODE);
        }
        let (ms, seq) = (all.int()?, all.int()?);
        let id = StreamId {
            ms: master.ms.wrapping_add(ms as u64),
            seq: master.seq.wrapping_add(seq as u64),
        };
        let mut texts = Texts::default();
        let own = flags & SAME_FIELDS == 0;
        let count = if own { all.count(2)? } else { fields.len() };
        let mut known = fields.iter();
        for _ in 0..count {
            texts.push(match known.next() {
                Some(field) if !own => *field,
                Some(_) | None => all.value()?,
            });
            texts.push(all.value()?);
        }
        let elements = if own { 2 * count + 4 } else { count + 3 };
        if all.int()? != elements as i64 || count == 0 {
            return Err(NODE);
        }
        if flags & DELETED != 0 {
            gone += 1;
            continue;
        }
        if id <= log.last_id {
            return Err(LOG);
        }
        log.append(id, &texts.slices(), &limits).map_err(|_| NODE)?;
        limits = Limits { stream_node_entries: 0, stream_node_bytes: NODE_BYTES, ..limits };
        found += 1;
    }
    if (live, deleted) == (found, gone) { Ok(()) } else { Err(NODE) }
}

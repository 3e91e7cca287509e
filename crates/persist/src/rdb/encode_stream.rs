//! Encodes a stream. `decode/stream.rs` describes the format.

use super::{Code, encode::listpack, write::Writer};
use std::io::{self, Write};
use weft_types::Record;
use weft_types::packed::{Collected, TwoWay, Value};
use weft_types::stream::groups::Group;
use weft_types::stream::{Entry, Stream, StreamId};

/// Flag of an entry that has the fields of the node.
const SAME_FIELDS: i64 = 2;

/// The oldest form that preserves all of `stream`: only entries, with deleted and read counts, or
/// with the times at which consumers were active.
fn oldest(stream: &Stream) -> Code {
    let log = &stream.log;
    match &stream.groups {
        None if log.entries_added == log.len() && log.max_deleted_id == StreamId::MIN => {
            Code::Stream
        }
        None => Code::Stream2,
        Some(_) => Code::Stream3,
    }
}

/// The code for a reader of this version. O(1).
pub(super) fn code_of(record: &Record, version: u16) -> Code {
    let oldest = oldest(Stream::of(record).expect("the kind is one of a stream"));
    let newest = match version {
        11.. => Code::Stream3,
        10 => Code::Stream2,
        ..10 => Code::Stream,
    };
    if newest.version() > oldest.version() { newest } else { oldest }
}

pub(super) fn stream<W: Write>(
    record: &Record,
    code: Code,
    out: &mut Writer<'_, W>,
) -> io::Result<()> {
    let stream = Stream::of(record).expect("the kind is one of a stream");
    let log = &stream.log;
    let nodes = || log.runs().filter_map(|run| run.clone().next().map(|first| (first, run)));
    out.len(nodes().count())?;
    for (first, run) in nodes() {
        out.plain(&first.id.to_bytes())?;
        node(&first, run, out)?;
    }
    out.number(log.len())?;
    id(log.last_id, out)?;
    if code != Code::Stream {
        id(log.first_id(), out)?;
        id(log.max_deleted_id, out)?;
        out.number(log.entries_added)?;
    }
    let groups = stream.groups.as_deref();
    out.len(groups.map_or(0, |groups| groups.len()))?;
    for (name, group) in groups.into_iter().flat_map(|groups| groups.iter()) {
        out.string(name)?;
        self::group(group, code, out)?;
    }
    Ok(())
}

fn id<W: Write>(id: StreamId, out: &mut Writer<'_, W>) -> io::Result<()> {
    out.number(id.ms)?;
    out.number(id.seq)
}

fn node<'e, W: Write>(
    first: &Entry<'_>,
    entries: impl Iterator<Item = Entry<'e>> + Clone,
    out: &mut Writer<'_, W>,
) -> io::Result<()> {
    let mut all = Collected::<TwoWay>::default();
    let int = |all: &mut Collected<TwoWay>, n: usize| all.push(Value::Int(n as i64));
    int(&mut all, entries.clone().count());
    int(&mut all, 0);
    int(&mut all, first.len());
    first.pairs().for_each(|(field, _)| all.push(field));
    int(&mut all, 0);
    for entry in entries {
        let same =
            entry.len() == first.len() && entry.pairs().zip(first.pairs()).all(|(a, b)| a.0 == b.0);
        all.push(Value::Int(if same { SAME_FIELDS } else { 0 }));
        all.push(Value::Int(entry.id.ms.wrapping_sub(first.id.ms) as i64));
        all.push(Value::Int(entry.id.seq.wrapping_sub(first.id.seq) as i64));
        if !same {
            int(&mut all, entry.len());
        }
        for (field, value) in entry.pairs() {
            if !same {
                all.push(field);
            }
            all.push(value);
        }
        int(&mut all, if same { entry.len() + 3 } else { 2 * entry.len() + 4 });
    }
    listpack(all.entries().bytes(), all.count(), out)
}

fn group<W: Write>(group: &Group, code: Code, out: &mut Writer<'_, W>) -> io::Result<()> {
    id(group.last_id, out)?;
    if code != Code::Stream {
        out.number(group.entries_read.unwrap_or(-1) as u64)?;
    }
    out.len(group.pending_len())?;
    for (id, pending) in group.pending_from(StreamId::MIN) {
        out.raw(&id.to_bytes())?;
        out.raw(&pending.delivered_ms.to_le_bytes())?;
        out.number(pending.deliveries as u64)?;
    }
    out.len(group.consumers_len())?;
    for (owner, consumer) in group.consumers() {
        out.string(consumer.name())?;
        out.raw(&consumer.seen_ms.to_le_bytes())?;
        if code == Code::Stream3 {
            out.raw(&consumer.active_ms.unwrap_or(-1).to_le_bytes())?;
        }
        out.len(consumer.pending_len())?;
        for (id, _) in group.pending_of(owner, StreamId::MIN) {
            out.raw(&id.to_bytes())?;
        }
    }
    Ok(())
}

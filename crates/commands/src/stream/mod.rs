//! Streams: append-only entries with ids.
//!
//! | file | commands |
//! |---|---|
//! | [`add`] | XADD |
//! | [`range`] | XLEN, XRANGE, XREVRANGE |
//! | [`remove`] | XDEL, XTRIM |
//! | [`set_id`] | XSETID |
//! | [`read`] | XREAD |
//! | [`info`] | XINFO |
//! | [`groups`] | XGROUP, XREADGROUP, XACK, XPENDING, XCLAIM, XAUTOCLAIM |
//! | [`options`] | the options of XADD and XTRIM |
//! | `work` | the work of stream commands, for EXEC |
//!
//! A stream stays when its last entry is removed: it keeps its last id.

mod add;
pub mod groups;
mod info;
mod log;
mod options;
mod range;
mod read;
mod remove;
mod set_id;
#[cfg(test)]
mod tests;
mod work;

use crate::ctx::Ctx;
use crate::error::{CmdResult, Error, WRONG_TYPE};
use crate::lock::Lock;
use crate::registry::Command;
use weft_command_spec::Spec;
use weft_resp::Reply;
use weft_types::Record;
use weft_types::packed::Value;
use weft_types::stream::{Entry, Stream, StreamId};
use weft_types::string::Digits;
pub use work::work;

pub const COMMANDS: &[&Command] = &[
    &add::XADD,
    &remove::XDEL,
    &info::XINFO,
    &range::XLEN,
    &range::XRANGE,
    &read::XREAD,
    &range::XREVRANGE,
    &set_id::XSETID,
    &remove::XTRIM,
];

const INVALID_ID: Error = Error::new("ERR Invalid stream ID specified as stream command argument");

/// A subcommand of XINFO or XGROUP.
const fn subcommand(spec: Spec, run: fn(&mut Ctx<'_>) -> CmdResult) -> Command {
    Command { spec, lock: Lock::Keys, run, subcommands: &[] }
}

/// The stream of `record`, or the error for another type.
#[inline]
fn stream(record: &Record) -> Result<&Stream, Error> {
    Stream::of(record).ok_or(WRONG_TYPE)
}

/// A complete id, or a time alone, which means the first id of that time.
#[inline]
fn id(text: &[u8]) -> Result<StreamId, Error> {
    StreamId::parse(text, 0).ok_or(INVALID_ID)
}

/// Writes an id.
#[inline]
fn write_id(reply: &mut Reply, id: StreamId) {
    reply.bulk(id.text().as_bytes());
}

/// Writes an entry: its id, then its fields and values in turn.
#[inline]
fn write_entry(reply: &mut Reply, entry: &Entry<'_>) {
    reply.array(2);
    write_id(reply, entry.id);
    reply.array(2 * entry.len());
    for (field, value) in entry.pairs() {
        write_text(reply, field);
        write_text(reply, value);
    }
}

#[inline]
fn write_text(reply: &mut Reply, value: Value<'_>) {
    match value {
        Value::Bytes(bytes) => reply.bulk(bytes),
        Value::Int(n) => reply.bulk(Digits::new().format(n).as_bytes()),
    }
}

/// Writes up to `most` entries as an array. Returns their number.
fn write_entries<'a>(
    reply: &mut Reply,
    entries: impl Iterator<Item = Entry<'a>>,
    most: usize,
) -> usize {
    let array = reply.array_deferred();
    let mut n = 0;
    for entry in entries.take(most) {
        write_entry(reply, &entry);
        n += 1;
    }
    reply.finish(array, n);
    n
}

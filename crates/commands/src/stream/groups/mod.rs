//! The commands of consumer groups.
//!
//! | file | commands |
//! |---|---|
//! | [`manage`] | XGROUP |
//! | [`read`] | XREADGROUP |
//! | [`ack`] | XACK |
//! | [`pending`] | XPENDING |
//! | [`claim`] | XCLAIM |
//! | [`autoclaim`] | XAUTOCLAIM |
//!
//! Changes to a group (its position, its pending entries) change the stream's value, but do not
//! touch WATCH: see [`edit`].

mod ack;
mod autoclaim;
mod claim;
mod log;
mod manage;
mod pending;
mod read;
#[cfg(test)]
mod tests;

use super::{stream, write_entry, write_id};
use crate::ctx::Ctx;
use crate::error::{Error, WRONG_TYPE};
use crate::registry::Command;
use weft_keyspace::db::Rework;
use weft_keyspace::{Classes, Db, Key};
use weft_resp::Reply;
use weft_types::stream::groups::{Counts, Group, Owner};
use weft_types::stream::{Log, Stream, StreamId};

/// The commands of consumer groups.
pub const COMMANDS: &[&Command] = &[
    &ack::XACK,
    &autoclaim::XAUTOCLAIM,
    &claim::XCLAIM,
    &manage::XGROUP,
    &pending::XPENDING,
    &read::XREADGROUP,
];

/// The group of that name, if the stream has one.
pub(super) fn group<'a>(stream: &'a Stream, name: &[u8]) -> Option<&'a Group> {
    stream.groups.as_ref()?.get(name)
}

/// Lets `work` change the groups of the stream at `key`, or passes `None` if the key does not
/// exist. Reports no change of the key: in the reference, changes to groups do not touch watched
/// keys.
fn edit<T>(
    db: &mut Db<'_>,
    key: &Key<'_>,
    work: impl FnOnce(Option<&mut Stream>) -> Result<T, Error>,
) -> Result<T, Error> {
    db.rework(key, |record, _| {
        let Some(mut record) = record else { return (Rework::Absent, work(None)) };
        let done = match Stream::of_mut(&mut record) {
            Some(stream) => work(Some(stream)),
            None => Err(WRONG_TYPE),
        };
        (Rework::Same(record), done)
    })
}

/// The log of a stream, and its group of that name for changes.
fn parts<'a>(stream: Option<&'a mut Stream>, name: &[u8]) -> Option<(&'a Log, &'a mut Group)> {
    let Stream { log, groups } = stream?;
    Some((log, groups.as_mut()?.get_mut(name)?))
}

/// The consumer of that name, with its last attempt set to now. Creates it if it does not exist.
/// Also returns whether it is new: the caller must then call [`notify_new_consumer`].
fn consumer(group: &mut Group, name: &[u8], now_ms: i64) -> (Owner, bool) {
    let (owner, is_new) = group.create_consumer(name, now_ms);
    group.consumer_mut(owner).seen_ms = now_ms;
    (owner, is_new)
}

/// Sends the event for a new consumer.
fn notify_new_consumer(db: &mut Db<'_>, key: &Key<'_>) {
    db.notify(Classes::STREAM, "xgroup-createconsumer", key);
}

/// A text as in the reference's messages, which end it at the first NUL.
fn shown(text: &[u8]) -> &[u8] {
    text.split(|b| *b == 0).next().unwrap_or_default()
}

/// The error for a missing key or group.
#[cold]
fn no_group(args: &[&[u8]]) -> Error {
    let (key, group) = (shown(args[1]), shown(args[2]));
    Error::owned([b"NOGROUP No such key '", key, b"' or consumer group '", group, b"'"].concat())
}

/// The error for a missing group of an existing stream.
#[cold]
pub(super) fn no_group_of_key(args: &[&[u8]]) -> Error {
    let (key, group) = (shown(args[2]), shown(args[3]));
    Error::owned(
        [b"NOGROUP No such consumer group '", group, b"' for key name '", key, b"'"].concat(),
    )
}

/// The error for a subcommand with invalid arguments.
#[cold]
pub(super) fn wrong_subcommand(args: &[&[u8]], container: &str) -> Error {
    let mut text = b"ERR unknown subcommand or wrong number of arguments for '".to_vec();
    text.extend(args[1].iter().take(128).take_while(|b| **b != 0));
    text.extend_from_slice(format!("'. Try {container} HELP.").as_bytes());
    Error::owned(text)
}

/// Writes the lines of a container's HELP.
pub(super) fn help(ctx: &mut Ctx<'_>, lines: &[&str]) {
    ctx.reply.array(lines.len());
    lines.iter().for_each(|line| ctx.reply.simple(line));
}

/// Writes the entry with this id. Returns whether it exists.
fn write_entry_by_id(reply: &mut Reply, log: &Log, id: StreamId) -> bool {
    let found = log.get(id);
    found.inspect(|entry| write_entry(reply, entry)).is_some()
}

/// The counts from which lags are computed.
pub(super) fn counts(log: &Log) -> Counts {
    Counts::of(log)
}

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
//! What a group does (who has read what) changes a stream's value, but not for those who WATCH it:
//! see [`edit`].

mod ack;
mod autoclaim;
mod claim;
mod log;
mod manage;
mod pending;
mod read;
#[cfg(test)]
mod tests;

use super::{answer_entry, answer_id, stream};
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

/// Lets `work` change the groups of the stream at `key`, which is shown as absent if there is none.
/// Nobody is told that the key has changed: the reference does not count what groups do as a change
/// for those who watch the key.
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

/// The log of a stream, and the group of that name to be changed.
fn parts<'a>(stream: Option<&'a mut Stream>, name: &[u8]) -> Option<(&'a Log, &'a mut Group)> {
    let Stream { log, groups } = stream?;
    Some((log, groups.as_mut()?.get_mut(name)?))
}

/// The consumer of that name, which is made if there is none, and has tried something just now;
/// whether it is new, which is to be told ([`tell_consumer`]).
fn consumer(group: &mut Group, name: &[u8], now_ms: i64) -> (Owner, bool) {
    let (owner, is_new) = group.create_consumer(name, now_ms);
    group.consumer_mut(owner).seen_ms = now_ms;
    (owner, is_new)
}

/// Tells of a new consumer.
fn tell_consumer(db: &mut Db<'_>, key: &Key<'_>) {
    db.notify(Classes::STREAM, "xgroup-createconsumer", key);
}

/// What a text is in the reference's messages: up to the first NUL.
fn shown(text: &[u8]) -> &[u8] {
    text.split(|b| *b == 0).next().unwrap_or_default()
}

/// For a key that is not there, or a group.
#[cold]
fn no_group(args: &[&[u8]]) -> Error {
    let (key, group) = (shown(args[1]), shown(args[2]));
    Error::owned([b"NOGROUP No such key '", key, b"' or consumer group '", group, b"'"].concat())
}

/// For a group that is not there, of a stream that is.
#[cold]
pub(super) fn no_group_of_key(args: &[&[u8]]) -> Error {
    let (key, group) = (shown(args[2]), shown(args[3]));
    Error::owned(
        [b"NOGROUP No such consumer group '", group, b"' for key name '", key, b"'"].concat(),
    )
}

/// For a subcommand with arguments that it does not take.
#[cold]
pub(super) fn wrong_subcommand(args: &[&[u8]], container: &str) -> Error {
    let mut text = b"ERR unknown subcommand or wrong number of arguments for '".to_vec();
    text.extend(args[1].iter().take(128).take_while(|b| **b != 0));
    text.extend_from_slice(format!("'. Try {container} HELP.").as_bytes());
    Error::owned(text)
}

/// Answers the lines of a container's HELP.
pub(super) fn help(ctx: &mut Ctx<'_>, lines: &[&str]) {
    ctx.reply.array(lines.len());
    lines.iter().for_each(|line| ctx.reply.simple(line));
}

/// Answers the entry with this id; whether there is one.
fn answer_found(reply: &mut Reply, log: &Log, id: StreamId) -> bool {
    let found = log.get(id);
    found.inspect(|entry| answer_entry(reply, entry)).is_some()
}

/// What lags are counted from.
pub(super) fn counts(log: &Log) -> Counts {
    Counts::of(log)
}

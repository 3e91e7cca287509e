//! XINFO: describes a stream, its groups and their consumers.

use super::groups::{counts, group, help, no_group_of_key, wrong_subcommand};
use super::{stream, subcommand, write_entries, write_entry, write_id};
use crate::ctx::{Ctx, FAST_WORK};
use crate::error::{CmdResult, Error, NO_SUCH_KEY};
use crate::lock::Lock;
use crate::registry::Command;
use weft_command_spec::{Flags, Group as CommandGroup, KeySpec, Spec, Special, keys};
use weft_keyspace::RecordRef;
use weft_resp::Reply;
use weft_types::stream::groups::{Consumer, Group, Owner};
use weft_types::stream::{Log, Stream, StreamId};

const KEY: &[KeySpec] = &keys::at(2, &["RO", "ACCESS"]);

/// The reply of XINFO HELP. Clients see these lines.
const HELP: &[&str] = &[
    "XINFO <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
    "CONSUMERS <key> <groupname>",
    "    Show consumers of <groupname>.",
    "GROUPS <key>",
    "    Show the stream consumer groups.",
    "STREAM <key> [FULL [COUNT <count>]",
    "    Show information about the stream.",
    "HELP",
    "    Print this help.",
];

const GROUPS: Spec = Spec {
    name: "groups",
    arity: 3,
    flags: Flags::READONLY,
    keys: KEY,
    acl: &[],
    group: CommandGroup::Stream,
    since: "5.0.0",
    summary: "Lists the consumer groups of a stream.",
    complexity: "O(N) for N groups.",
    syntax: "key",
    history: &[("7.0.0", "The fields `entries-read` and `lag`.")],
    tips: &[],
    special: Special::NONE,
};

pub const XINFO: Command = Command {
    spec: Spec {
        name: "xinfo",
        arity: -2,
        flags: Flags::NONE,
        keys: &[],
        summary: "A container for commands that describe streams.",
        complexity: "Depends on the subcommand.",
        syntax: "",
        history: &[],
        special: Special::NONE,
        ..GROUPS
    },
    lock: Lock::Keys,
    run: reply_help,
    subcommands: &[
        subcommand(
            Spec {
                name: "consumers",
                arity: 4,
                summary: "Lists the consumers of a group.",
                complexity: "O(N) for N consumers.",
                syntax: "key group",
                history: &[("7.2.0", "The field `inactive`; a new meaning of `idle`.")],
                tips: &["nondeterministic_output"],
                special: Special::NONE,
                ..GROUPS
            },
            consumers,
        ),
        subcommand(GROUPS, groups),
        subcommand(
            Spec {
                name: "help",
                arity: 2,
                flags: Flags::LOADING.or(Flags::STALE),
                keys: &[],
                summary: "Describes the subcommands.",
                complexity: "O(1)",
                syntax: "",
                history: &[],
                special: Special::NONE,
                ..GROUPS
            },
            reply_help,
        ),
        subcommand(
            Spec {
                name: "stream",
                arity: -3,
                summary: "Returns information about a stream.",
                complexity: "O(N) for N entries, pending entries and consumers returned.",
                syntax: "key [full-block=(full=FULL [COUNT count:integer])]",
                history: &[
                    ("6.0.0", "The argument `FULL`."),
                    (
                        "7.0.0",
                        "The fields `max-deleted-entry-id`, `entries-added`, \
                         `recorded-first-entry-id`, `entries-read` and `lag`.",
                    ),
                    ("7.2.0", "The field `active-time`; a new meaning of `seen-time`."),
                ],
                special: Special::NONE,
                ..GROUPS
            },
            xinfo_stream,
        ),
    ],
};

fn reply_help(ctx: &mut Ctx<'_>) -> CmdResult {
    help(ctx, HELP);
    Ok(())
}

/// The stream in the record that the command names.
fn requested_stream<'a>(record: &'a Option<RecordRef<'_>>) -> Result<&'a Stream, Error> {
    stream(record.as_deref().ok_or(NO_SUCH_KEY)?)
}

fn groups(ctx: &mut Ctx<'_>) -> CmdResult {
    let key = ctx.key(2);
    let record = ctx.db.read(&key);
    let Stream { log, groups } = requested_stream(&record)?;
    let Some(groups) = groups else {
        ctx.reply.array(0);
        return Ok(());
    };
    ctx.lane.weigh(groups.len(), &mut ctx.pause)?;
    let reply = &mut *ctx.reply;
    reply.array(groups.len());
    for (name, group) in groups.iter() {
        reply.map(6);
        text_field(reply, "name", name);
        int_field(reply, "consumers", group.consumers_len() as i64);
        int_field(reply, "pending", group.pending_len() as i64);
        id_field(reply, "last-delivered-id", group.last_id);
        write_progress(reply, log, group);
    }
    Ok(())
}

fn consumers(ctx: &mut Ctx<'_>) -> CmdResult {
    let key = ctx.key(2);
    let (args, now_ms) = (ctx.args, ctx.now_ms());
    let record = ctx.db.read(&key);
    let found = group(requested_stream(&record)?, args[3]);
    let group = found.ok_or_else(|| no_group_of_key(args))?;
    ctx.lane.weigh(group.consumers_len(), &mut ctx.pause)?;
    let reply = &mut *ctx.reply;
    reply.array(group.consumers_len());
    let since = |time_ms: i64| now_ms.saturating_sub(time_ms).max(0);
    for (_, consumer) in group.consumers() {
        reply.map(4);
        text_field(reply, "name", consumer.name());
        int_field(reply, "pending", consumer.pending_len() as i64);
        int_field(reply, "idle", since(consumer.seen_ms));
        int_field(reply, "inactive", consumer.active_ms.map_or(-1, since));
    }
    Ok(())
}

/// The maximum number of entries, of pending entries per group and so on that FULL returns without
/// COUNT.
const DEFAULT_COUNT: usize = 10;

/// Parses the options of XINFO STREAM: `None` for the short form, or the maximum number of items
/// per list.
fn full(ctx: &Ctx<'_>) -> Result<Option<usize>, Error> {
    let count = match ctx.args.len() {
        3 => return Ok(None),
        4 if ctx.is(3, "full") => DEFAULT_COUNT,
        6 if ctx.is(3, "full") && ctx.is(4, "count") => {
            usize::try_from(ctx.int(5)?).unwrap_or(DEFAULT_COUNT)
        }
        _ => return Err(wrong_subcommand(ctx.args, "XINFO")),
    };
    Ok(Some(if count == 0 { usize::MAX } else { count }))
}

fn xinfo_stream(ctx: &mut Ctx<'_>) -> CmdResult {
    let key = ctx.key(2);
    let full = full(ctx);
    let record = ctx.db.read(&key);
    let stream = requested_stream(&record)?;
    let full = full?;
    let work = match full {
        None => {
            let last = stream.log.last_entry_id();
            stream.log.reply_work([stream.log.first_id()].into_iter().chain(last), FAST_WORK)
        }
        Some(most) => full_work(stream, most),
    };
    ctx.lane.weigh(work.saturating_add(stream.log.tree_work()), &mut ctx.pause)?;
    let reply = &mut *ctx.reply;
    reply.map(if full.is_some() { 9 } else { 10 });
    write_common_fields(reply, &stream.log);
    match full {
        None => write_short_form(reply, stream),
        Some(most) => write_full_form(reply, stream, most),
    }
    Ok(())
}

/// The work of returning up to `most` items of each list, in elements.
fn full_work(stream: &Stream, most: usize) -> usize {
    let count = most.min(usize::MAX / 2) as u64;
    let mut work = stream.log.range_work(StreamId::MIN, StreamId::MAX, count, false, FAST_WORK);
    let groups = stream.groups.as_ref();
    work += groups.map_or(0, |groups| groups.len());
    for (_, group) in groups.into_iter().flat_map(|groups| groups.iter()) {
        if work > FAST_WORK {
            break;
        }
        let pending = group.pending_len();
        // Each pending entry is also listed under its consumer.
        work += pending.min(most)
            + group.consumers_len()
            + pending.min(group.consumers_len().saturating_mul(most));
    }
    work
}

/// Writes the fields of both forms.
fn write_common_fields(reply: &mut Reply, log: &Log) {
    int_field(reply, "length", log.len() as i64);
    int_field(reply, "radix-tree-keys", log.blocks() as i64);
    int_field(reply, "radix-tree-nodes", log.tree_nodes() as i64);
    id_field(reply, "last-generated-id", log.last_id);
    id_field(reply, "max-deleted-entry-id", log.max_deleted_id);
    int_field(reply, "entries-added", log.entries_added as i64);
    id_field(reply, "recorded-first-entry-id", log.first_id());
}

/// Writes the other fields of the short form.
fn write_short_form(reply: &mut Reply, stream: &Stream) {
    let Stream { log, groups } = stream;
    int_field(reply, "groups", groups.as_ref().map_or(0, |groups| groups.len()) as i64);
    let first = log.range(StreamId::MIN, StreamId::MAX).next();
    let last = log.range_back(StreamId::MIN, StreamId::MAX).next();
    for (name, found) in [("first-entry", first), ("last-entry", last)] {
        reply.bulk(name.as_bytes());
        match found {
            Some(found) => write_entry(reply, &found),
            None => reply.null(),
        }
    }
}

/// Writes the other fields of FULL.
fn write_full_form(reply: &mut Reply, stream: &Stream, most: usize) {
    let Stream { log, groups } = stream;
    reply.bulk(b"entries");
    write_entries(reply, log.range(StreamId::MIN, StreamId::MAX), most);
    reply.bulk(b"groups");
    reply.array(groups.as_ref().map_or(0, |groups| groups.len()));
    for (name, group) in groups.iter().flat_map(|groups| groups.iter()) {
        reply.map(7);
        text_field(reply, "name", name);
        id_field(reply, "last-delivered-id", group.last_id);
        write_progress(reply, log, group);
        int_field(reply, "pel-count", group.pending_len() as i64);
        reply.bulk(b"pending");
        reply.array(group.pending_len().min(most));
        for (id, pending) in group.pending_from(StreamId::MIN).take(most) {
            reply.array(4);
            write_id(reply, id);
            reply.bulk(group.consumer(pending.owner).name());
            reply.int(pending.delivered_ms);
            reply.int(pending.deliveries);
        }
        reply.bulk(b"consumers");
        reply.array(group.consumers_len());
        for (owner, consumer) in group.consumers() {
            write_consumer(reply, group, owner, consumer, most);
        }
    }
}

fn write_consumer(
    reply: &mut Reply,
    group: &Group,
    owner: Owner,
    consumer: &Consumer,
    most: usize,
) {
    reply.map(5);
    text_field(reply, "name", consumer.name());
    int_field(reply, "seen-time", consumer.seen_ms);
    int_field(reply, "active-time", consumer.active_ms.unwrap_or(-1));
    int_field(reply, "pel-count", consumer.pending_len() as i64);
    reply.bulk(b"pending");
    reply.array(consumer.pending_len().min(most));
    for (id, pending) in group.pending_of(owner, StreamId::MIN).take(most) {
        reply.array(3);
        write_id(reply, id);
        reply.int(pending.delivered_ms);
        reply.int(pending.deliveries);
    }
}

/// Writes the read position and the lag of a group.
fn write_progress(reply: &mut Reply, log: &Log, group: &Group) {
    for (name, n) in [("entries-read", group.entries_read), ("lag", group.lag(&counts(log)))] {
        reply.bulk(name.as_bytes());
        match n {
            Some(n) => reply.int(n),
            None => reply.null(),
        }
    }
}

fn text_field(reply: &mut Reply, name: &str, value: &[u8]) {
    reply.bulk(name.as_bytes());
    reply.bulk(value);
}

fn int_field(reply: &mut Reply, name: &str, value: i64) {
    reply.bulk(name.as_bytes());
    reply.int(value);
}

fn id_field(reply: &mut Reply, name: &str, value: StreamId) {
    reply.bulk(name.as_bytes());
    write_id(reply, value);
}

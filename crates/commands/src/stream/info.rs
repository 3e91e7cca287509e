//! XINFO: what is known of a stream besides its entries.

use super::{answer_entries, answer_entry, answer_id, stream};
use crate::ctx::{Ctx, FAST_WORK};
use crate::error::{CmdResult, Error, NO_SUCH_KEY};
use crate::registry::Command;
use crate::spec::{Flags, Group, KeySpec, Lock, Spec, keys};
use weft_types::stream::{Stream, StreamId};

const KEY: &[KeySpec] = &keys::at(2, &["RO", "ACCESS"]);

/// The answer of XINFO HELP, which clients see line by line.
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

const STREAM: Spec = Spec {
    name: "stream",
    arity: -3,
    flags: Flags::READONLY,
    keys: KEY,
    acl: &[],
    group: Group::Stream,
    since: "5.0.0",
    summary: "Tells what is known of a stream.",
    complexity: "O(1), and O(N) for N entries and pending ones that are answered.",
    syntax: "key [full-block=(full=FULL [COUNT count:integer])]",
    history: &[
        ("6.0.0", "FULL."),
        (
            "7.0.0",
            "max-deleted-entry-id, entries-added, recorded-first-entry-id, entries-read and lag.",
        ),
        ("7.2.0", "active-time; seen-time means something else."),
    ],
    tips: &[],
};

const HELP_SPEC: Spec = Spec {
    name: "help",
    arity: 2,
    flags: Flags::LOADING.or(Flags::STALE),
    keys: &[],
    summary: "Lists the subcommands.",
    complexity: "O(1)",
    syntax: "",
    history: &[],
    ..STREAM
};

pub const XINFO: Command = Command {
    spec: Spec {
        name: "xinfo",
        arity: -2,
        flags: Flags::NONE,
        summary: "Holds the commands that look into streams.",
        complexity: "Depends on the subcommand.",
        ..HELP_SPEC
    },
    lock: Lock::Keys,
    run: help,
    subcommands: &[subcommand(HELP_SPEC, help), subcommand(STREAM, info_stream)],
};

const fn subcommand(spec: Spec, run: fn(&mut Ctx<'_>) -> CmdResult) -> Command {
    Command { spec, lock: Lock::Keys, run, subcommands: &[] }
}

/// Entries that FULL answers when no COUNT is given.
const DEFAULT_COUNT: u64 = 10;

fn help(ctx: &mut Ctx<'_>) -> CmdResult {
    ctx.reply.array(HELP.len());
    HELP.iter().for_each(|line| ctx.reply.simple(line));
    Ok(())
}

/// What FULL is to answer: up to so many entries, 0: all. `None`: not in full.
fn full(ctx: &Ctx<'_>) -> Result<Option<u64>, Error> {
    match ctx.args.len() {
        3 => Ok(None),
        4 if ctx.is(3, "full") => Ok(Some(DEFAULT_COUNT)),
        6 if ctx.is(3, "full") && ctx.is(4, "count") => {
            Ok(Some(u64::try_from(ctx.int(5)?).unwrap_or(DEFAULT_COUNT)))
        }
        _ => Err(usage(ctx)),
    }
}

/// The error names the subcommand as the client wrote it.
fn usage(ctx: &Ctx<'_>) -> Error {
    Error::owned(
        [
            &b"ERR unknown subcommand or wrong number of arguments for '"[..],
            ctx.args[1],
            b"'. Try XINFO HELP.",
        ]
        .concat(),
    )
}

fn info_stream(ctx: &mut Ctx<'_>) -> CmdResult {
    let key = ctx.key(2);
    let work = match ctx.db.read(&key) {
        Some(record) => {
            let log = &stream(&record)?.log;
            log.blocks() / 10
        }
        None => return Err(NO_SUCH_KEY),
    };
    let full = full(ctx)?;
    let record = ctx.db.peek(&key).ok_or(NO_SUCH_KEY)?;
    let stream = stream(&record)?;
    let log = &stream.log;
    let (first, last) = (StreamId::MIN, StreamId::MAX);
    let most = match full {
        Some(0) => u64::MAX,
        Some(count) => count,
        None => 0,
    };
    let entries = log.range_work(first, last, most, false, FAST_WORK);
    ctx.lane.weigh(work + entries, &mut ctx.pause)?;
    let reply = &mut *ctx.reply;
    reply.map(if full.is_some() { 9 } else { 10 });
    let numbers = [
        ("length", log.len()),
        ("radix-tree-keys", log.blocks() as u64),
        ("radix-tree-nodes", log.tree_nodes() as u64),
    ];
    for (name, n) in numbers {
        reply.bulk(name.as_bytes());
        reply.int(n as i64);
    }
    reply.bulk(b"last-generated-id");
    answer_id(reply, log.last_id);
    reply.bulk(b"max-deleted-entry-id");
    answer_id(reply, log.max_deleted_id);
    reply.bulk(b"entries-added");
    reply.int(log.entries_added as i64);
    reply.bulk(b"recorded-first-entry-id");
    answer_id(reply, log.first_id());
    if full.is_some() {
        reply.bulk(b"entries");
        let most = usize::try_from(most).unwrap_or(usize::MAX);
        answer_entries(reply, log.range(first, last), most);
        reply.bulk(b"groups");
        reply.array(groups(stream));
        return Ok(());
    }
    reply.bulk(b"groups");
    reply.int(groups(stream) as i64);
    let ends = [
        ("first-entry", log.range(first, last).next()),
        ("last-entry", log.range_back(first, last).next()),
    ];
    for (name, entry) in ends {
        reply.bulk(name.as_bytes());
        match entry {
            Some(entry) => answer_entry(reply, &entry),
            None => reply.null(),
        }
    }
    Ok(())
}

/// How many consumer groups there are.
fn groups(_stream: &Stream) -> usize {
    0
}

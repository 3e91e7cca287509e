//! OBJECT: metadata of a value.
//!
//! No subcommand counts as an access: reading the clock must not update it.

use crate::ctx::Ctx;
use crate::error::{CmdResult, Error};
use crate::lock::Lock;
use crate::registry::Command;
use weft_command_spec::{Flags, Group, KeySpec, Spec, Special, keys};
use weft_keyspace::RecordRef;
use weft_types::value;

const KEY: &[KeySpec] = &keys::at(2, &["RO"]);

const NO_LFU: Error = Error::new(
    "ERR An LFU maxmemory policy is not selected, access frequency not tracked. Please note \
     that when switching between policies at runtime LRU and LFU data will take some time to \
     adjust.",
);
const NO_LRU: Error = Error::new(
    "ERR An LFU maxmemory policy is selected, idle time not tracked. Please note that when \
     switching between policies at runtime LRU and LFU data will take some time to adjust.",
);

/// The reply of OBJECT HELP. Clients see these lines.
const HELP: &[&str] = &[
    "OBJECT <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
    "ENCODING <key>",
    "    Return the kind of internal representation used in order to store the value",
    "    associated with a <key>.",
    "FREQ <key>",
    "    Return the access frequency index of the <key>. The returned integer is",
    "    proportional to the logarithm of the recent access frequency of the key.",
    "IDLETIME <key>",
    "    Return the idle time of the <key>, that is the approximated number of",
    "    seconds elapsed since the last access to the key.",
    "REFCOUNT <key>",
    "    Return the number of references of the value associated with the specified",
    "    <key>.",
    "HELP",
    "    Print this help.",
];

pub const OBJECT: Command = Command {
    spec: Spec {
        name: "object",
        arity: -2,
        flags: Flags::NONE,
        keys: &[],
        acl: &[],
        group: Group::Generic,
        since: "2.2.3",
        summary: "A container for commands that report how a value is stored.",
        complexity: "Depends on the subcommand.",
        syntax: "",
        history: &[],
        tips: &[],
        special: Special::NONE,
    },
    lock: Lock::Keys,
    run: help,
    subcommands: &[
        subcommand("encoding", "2.2.3", "Returns the encoding of a value in memory.", encoding),
        subcommand("freq", "4.0.0", "Returns the logarithmic access frequency of a key.", freq),
        Command {
            spec: Spec {
                name: "help",
                arity: 2,
                flags: Flags::LOADING.or(Flags::STALE),
                keys: &[],
                acl: &[],
                group: Group::Generic,
                since: "6.2.0",
                summary: "Describes the subcommands.",
                complexity: "O(1)",
                syntax: "",
                history: &[],
                tips: &[],
                special: Special::NONE,
            },
            lock: Lock::Keys,
            run: help,
            subcommands: &[],
        },
        subcommand(
            "idletime",
            "2.2.3",
            "Returns the time since the last access to a key.",
            idletime,
        ),
        subcommand("refcount", "2.2.3", "Returns the reference count of a value.", refcount),
    ],
};

/// A subcommand on the key at argument 2.
const fn subcommand(
    name: &'static str,
    since: &'static str,
    summary: &'static str,
    run: fn(&mut Ctx<'_>) -> CmdResult,
) -> Command {
    let spec = Spec {
        name,
        arity: 3,
        flags: Flags::READONLY,
        keys: KEY,
        acl: &[],
        group: Group::Generic,
        since,
        summary,
        complexity: "O(1)",
        syntax: "key",
        history: &[],
        tips: &["nondeterministic_output"],
        special: Special::NONE,
    };
    Command { spec, lock: Lock::Keys, run, subcommands: &[] }
}

fn help(ctx: &mut Ctx<'_>) -> CmdResult {
    ctx.reply.array(HELP.len());
    for line in HELP {
        ctx.reply.simple(line);
    }
    Ok(())
}

/// The record that the command asks about. If the key does not exist, the reply is null for every
/// subcommand.
fn requested_record<'c>(ctx: &'c mut Ctx<'_>) -> Option<RecordRef<'c>> {
    let key = ctx.key(2);
    let record = ctx.db.examine(&key);
    if record.is_none() {
        ctx.reply.null();
    }
    record
}

fn encoding(ctx: &mut Ctx<'_>) -> CmdResult {
    if let Some(record) = requested_record(ctx) {
        let name = value::encoding_name(&record);
        ctx.reply.bulk(name.as_bytes());
    }
    Ok(())
}

fn freq(ctx: &mut Ctx<'_>) -> CmdResult {
    if let Some(record) = requested_record(ctx) {
        let clock = record.clock();
        if !ctx.settings.lfu {
            return Err(NO_LFU);
        }
        let count = ctx.db.context.access.frequency(clock);
        ctx.reply.int(i64::from(count));
    }
    Ok(())
}

fn idletime(ctx: &mut Ctx<'_>) -> CmdResult {
    if let Some(record) = requested_record(ctx) {
        let clock = record.clock();
        if ctx.settings.lfu {
            return Err(NO_LRU);
        }
        let seconds = ctx.db.context.access.idle_seconds(clock);
        ctx.reply.int(i64::from(seconds));
    }
    Ok(())
}

/// Always 1: a value belongs to one key. Internal sharing of a long string, with replies being sent
/// or with copies, does not show.
fn refcount(ctx: &mut Ctx<'_>) -> CmdResult {
    if requested_record(ctx).is_some() {
        ctx.reply.int(1);
    }
    Ok(())
}

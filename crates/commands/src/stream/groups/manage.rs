//! XGROUP: creates, changes and removes groups and their consumers.

use super::{edit, group, help, no_group_of_key, notify_new_consumer, stream, wrong_subcommand};
use crate::ctx::Ctx;
use crate::error::{CmdResult, Error, WRONG_TYPE};
use crate::lock::Lock;
use crate::registry::Command;
use crate::stream::{INVALID_ID, id, subcommand};
use weft_command_spec::{Flags, Group as CommandGroup, KeySpec, QueuedWork, Spec, Special, keys};
use weft_keyspace::Classes;
use weft_keyspace::db::Rework;
use weft_types::stream::groups::Group;
use weft_types::stream::{Stream, StreamId};

const INSERT: &[KeySpec] = &keys::at(2, &["RW", "INSERT"]);
const DELETE: &[KeySpec] = &keys::at(2, &["RW", "DELETE"]);

const NO_KEY: Error = Error::new(
    "ERR The XGROUP subcommand requires the key to exist. Note that for CREATE you may want to use \
     the MKSTREAM option to create an empty stream automatically.",
);
const BUSY_GROUP: Error = Error::new("BUSYGROUP Consumer Group name already exists");
const ENTRIES_READ: Error = Error::new("ERR value for ENTRIESREAD must be positive or -1");

/// The reply of XGROUP HELP. Clients see these lines.
const HELP: &[&str] = &[
    "XGROUP <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
    "CREATE <key> <groupname> <id|$> [option]",
    "    Create a new consumer group. Options are:",
    "    * MKSTREAM",
    "      Create the empty stream if it does not exist.",
    "    * ENTRIESREAD entries_read",
    "      Set the group's entries_read counter (internal use).",
    "CREATECONSUMER <key> <groupname> <consumer>",
    "    Create a new consumer in the specified group.",
    "DELCONSUMER <key> <groupname> <consumer>",
    "    Remove the specified consumer.",
    "DESTROY <key> <groupname>",
    "    Remove the specified group.",
    "SETID <key> <groupname> <id|$> [ENTRIESREAD entries_read]",
    "    Set the current group ID and entries_read counter.",
    "HELP",
    "    Print this help.",
];

const CREATE: Spec = Spec {
    name: "create",
    arity: -5,
    flags: Flags::WRITE.or(Flags::DENYOOM),
    keys: INSERT,
    acl: &[],
    group: CommandGroup::Stream,
    since: "5.0.0",
    summary: "Creates a consumer group.",
    complexity: "O(1)",
    syntax: "key group id-selector=(id|new-id=$) [mkstream=MKSTREAM] \
             [ENTRIESREAD entriesread:integer<entries-read>]",
    history: &[("7.0.0", "The argument `ENTRIESREAD`.")],
    tips: &[],
    special: Special::queued_work(QueuedWork::Constant),
};

pub const XGROUP: Command = Command {
    spec: Spec {
        name: "xgroup",
        arity: -2,
        flags: Flags::NONE,
        keys: &[],
        summary: "A container for commands that manage consumer groups.",
        complexity: "Depends on the subcommand.",
        syntax: "",
        history: &[],
        special: Special::NONE,
        ..CREATE
    },
    lock: Lock::Keys,
    run: reply_help,
    subcommands: &[
        Command { spec: CREATE, lock: Lock::Keys, run: create, subcommands: &[] },
        subcommand(
            Spec {
                name: "createconsumer",
                arity: 5,
                since: "6.2.0",
                summary: "Creates a consumer in a group.",
                syntax: "key group consumer",
                history: &[],
                special: Special::queued_work(QueuedWork::Constant),
                ..CREATE
            },
            create_consumer,
        ),
        subcommand(
            Spec {
                name: "delconsumer",
                arity: 5,
                flags: Flags::WRITE,
                keys: DELETE,
                summary: "Deletes a consumer and its pending entries from a group.",
                complexity: "O(N) for N pending entries of the consumer.",
                syntax: "key group consumer",
                history: &[],
                special: Special::NONE,
                ..CREATE
            },
            delete_consumer,
        ),
        subcommand(
            Spec {
                name: "destroy",
                arity: 4,
                flags: Flags::WRITE,
                keys: DELETE,
                summary: "Deletes a consumer group.",
                complexity: "O(N) for N pending entries of the group.",
                syntax: "key group",
                history: &[],
                special: Special::queued_work(QueuedWork::Constant),
                ..CREATE
            },
            destroy,
        ),
        subcommand(
            Spec {
                name: "help",
                arity: 2,
                flags: Flags::LOADING.or(Flags::STALE),
                keys: &[],
                summary: "Describes the subcommands.",
                syntax: "",
                history: &[],
                special: Special::NONE,
                ..CREATE
            },
            reply_help,
        ),
        subcommand(
            Spec {
                name: "setid",
                flags: Flags::WRITE,
                keys: &keys::at(2, &["RW", "UPDATE"]),
                summary: "Sets the last delivered id of a group.",
                syntax: "key group id-selector=(id|new-id=$) \
                         [ENTRIESREAD entriesread:integer<entries-read>]",
                history: &[("7.0.0", "The argument `ENTRIESREAD`.")],
                special: Special::queued_work(QueuedWork::Constant),
                ..CREATE
            },
            set_id,
        ),
    ],
};

fn reply_help(ctx: &mut Ctx<'_>) -> CmdResult {
    help(ctx, HELP);
    Ok(())
}

/// The options of CREATE and SETID.
struct Options {
    make_stream: bool,
    entries_read: Option<i64>,
}

impl Options {
    /// Parses the options; `creates` selects those of CREATE.
    fn parse(ctx: &Ctx<'_>, creates: bool) -> Result<Options, Error> {
        let mut options = Options { make_stream: false, entries_read: None };
        let mut i = 5;
        while i < ctx.args.len() {
            if creates && ctx.is(i, "mkstream") {
                options.make_stream = true;
                i += 1;
            } else if ctx.is(i, "entriesread") && i + 1 < ctx.args.len() {
                options.entries_read = match ctx.int(i + 1)? {
                    -1 => None,
                    n @ 0.. => Some(n),
                    _ => return Err(ENTRIES_READ),
                };
                i += 2;
            } else {
                return Err(wrong_subcommand(ctx.args, "XGROUP"));
            }
        }
        Ok(options)
    }
}

/// The id at argument 4. `$` is the stream's last id. With `ends` (SETID), `-` and `+` are the
/// smallest and the largest id.
fn id_or_last(ctx: &Ctx<'_>, last_id: StreamId, ends: bool) -> Result<StreamId, Error> {
    match ctx.args[4] {
        b"$" => Ok(last_id),
        text if ends => StreamId::parse_end(text, 0).ok_or(INVALID_ID),
        text => id(text),
    }
}

fn create(ctx: &mut Ctx<'_>) -> CmdResult {
    let options = Options::parse(ctx, true)?;
    let key = ctx.key(2);
    let last_id = match ctx.db.for_write(&key) {
        Some(record) => Some(stream(&record)?.log.last_id),
        None if options.make_stream => None,
        None => return Err(NO_KEY),
    };
    if ctx.args.len() > 8 {
        return Err(wrong_subcommand(ctx.args, "XGROUP"));
    }
    let group =
        Group::new(id_or_last(ctx, last_id.unwrap_or_default(), false)?, options.entries_read);
    let name = ctx.args[3];
    let is_new = ctx.db.rework(&key, |record, clock| match record {
        Some(mut record) => {
            let made = Stream::of_mut(&mut record).ok_or(WRONG_TYPE);
            let made = made.map(|stream| stream.groups.get_or_insert_default().create(name, group));
            (Rework::Same(record), made)
        }
        None => {
            let mut stream = Stream::default();
            stream.groups.get_or_insert_default().create(name, group);
            (Rework::Changed(stream.into_record(key.bytes, None, clock)), Ok(true))
        }
    })?;
    if !is_new {
        return Err(BUSY_GROUP);
    }
    ctx.notify(Classes::STREAM, "xgroup-create", &key);
    ctx.db.log_anyway();
    ctx.dirty();
    ctx.reply.ok();
    Ok(())
}

/// Checks that the stream exists and, with `needs_group`, the group. Returns the stream's last id.
fn require_stream(ctx: &mut Ctx<'_>, needs_group: bool) -> Result<StreamId, Error> {
    let key = ctx.key(2);
    let name = ctx.args[3];
    let record = ctx.db.for_write(&key).ok_or(NO_KEY)?;
    let stream = stream(&record)?;
    let (last_id, has_group) = (stream.log.last_id, group(stream, name).is_some());
    match needs_group && !has_group {
        true => Err(no_group_of_key(ctx.args)),
        false => Ok(last_id),
    }
}

/// Lets `work` change the group, which must exist.
fn change_group<T>(ctx: &mut Ctx<'_>, work: impl FnOnce(&mut Group) -> T) -> Result<T, Error> {
    let key = ctx.key(2);
    let name = ctx.args[3];
    edit(&mut ctx.db, &key, |stream| {
        let (_, group) = super::parts(stream, name).ok_or(NO_KEY)?;
        Ok(work(group))
    })
}

fn set_id(ctx: &mut Ctx<'_>) -> CmdResult {
    let options = Options::parse(ctx, false)?;
    let last_id = require_stream(ctx, true)?;
    if !matches!(ctx.args.len(), 5 | 7) {
        return Err(wrong_subcommand(ctx.args, "XGROUP"));
    }
    let id = id_or_last(ctx, last_id, true)?;
    change_group(ctx, |group| {
        group.last_id = id;
        group.entries_read = options.entries_read;
    })?;
    let key = ctx.key(2);
    ctx.notify(Classes::STREAM, "xgroup-setid", &key);
    ctx.db.log_anyway();
    ctx.dirty();
    ctx.reply.ok();
    Ok(())
}

fn create_consumer(ctx: &mut Ctx<'_>) -> CmdResult {
    require_stream(ctx, true)?;
    let (name, now_ms) = (ctx.args[4], ctx.now_ms());
    let (_, is_new) = change_group(ctx, |group| group.create_consumer(name, now_ms))?;
    if is_new {
        let key = ctx.key(2);
        notify_new_consumer(&mut ctx.db, &key);
        ctx.db.log_anyway();
        ctx.dirty();
    }
    ctx.reply.int(i64::from(is_new));
    Ok(())
}

fn delete_consumer(ctx: &mut Ctx<'_>) -> CmdResult {
    require_stream(ctx, true)?;
    let name = ctx.args[4];
    let found = change_group(ctx, |group| {
        let owner = group.find_consumer(name)?;
        Some(group.consumer(owner).pending_len())
    })?;
    if let Some(pending) = found {
        ctx.weigh(pending)?;
        change_group(ctx, |group| group.delete_consumer(name))?;
        let key = ctx.key(2);
        ctx.notify(Classes::STREAM, "xgroup-delconsumer", &key);
        ctx.db.log_anyway();
        ctx.dirty();
    }
    ctx.reply.int(found.unwrap_or(0) as i64);
    Ok(())
}

fn destroy(ctx: &mut Ctx<'_>) -> CmdResult {
    require_stream(ctx, false)?;
    let key = ctx.key(2);
    let name = ctx.args[3];
    let group = edit(&mut ctx.db, &key, |stream| {
        let groups = stream.and_then(|stream| stream.groups.as_mut());
        Ok(groups.and_then(|groups| groups.remove(name)))
    })?;
    ctx.reply.int(i64::from(group.is_some()));
    if let Some(group) = group {
        ctx.db.context.discard(group.into_waste());
        // Wake clients that are blocked on this group: their read now fails.
        ctx.db.wake_followers(&key);
        ctx.notify(Classes::STREAM, "xgroup-destroy", &key);
        ctx.db.log_anyway();
        ctx.dirty();
    }
    Ok(())
}

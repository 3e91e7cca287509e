//! FLUSHALL and FLUSHDB: remove all keys of all databases, or of one.
//!
//! While the world is stopped, the tables are only detached, each in constant time. The server
//! frees their contents after the world runs again: on a background thread for ASYNC, on the
//! executing thread for SYNC. So with SYNC the memory is available when the client reads the reply.
//! Without an option, `lazyfree-lazy-user-flush` decides.

use crate::ctx::Ctx;
use crate::error::{CmdResult, Error, SYNTAX};
use crate::lock::Lock;
use crate::registry::Command;
use weft_command_spec::{Databases, Flags, Group, Spec, Special};
use weft_keyspace::context::Free;

const fn command(
    name: &'static str,
    summary: &'static str,
    complexity: &'static str,
    databases: Databases,
    run: fn(&mut Ctx<'_>) -> CmdResult,
) -> Command {
    let spec = Spec {
        name,
        arity: -1,
        flags: Flags::WRITE,
        keys: &[],
        acl: &["@keyspace", "@dangerous"],
        group: Group::Server,
        since: "1.0.0",
        summary,
        complexity,
        syntax: "[flush-type=(async=ASYNC@4.0.0|sync=SYNC@6.2.0)]",
        history: &[("4.0.0", "The option ASYNC."), ("6.2.0", "The option SYNC.")],
        tips: &["request_policy:all_shards", "response_policy:all_succeeded"],
        special: Special::databases(databases),
    };
    Command { spec, lock: Lock::World, run, subcommands: &[] }
}

pub const FLUSHALL: Command = command(
    "flushall",
    "Removes all keys of all databases.",
    "O(N) for N keys in all databases, in the background with ASYNC.",
    Databases::All,
    |ctx| {
        let free = free_mode(ctx)?;
        for db in 0..ctx.db.keyspace().databases() {
            flush(ctx, db, free);
        }
        ctx.db.context.tally.flushes += 1;
        ctx.db.log_anyway();
        ctx.db.notify_emptied();
        ctx.reply.ok();
        Ok(())
    },
);

pub const FLUSHDB: Command = command(
    "flushdb",
    "Removes all keys of the database.",
    "O(N) for N keys in the database, in the background with ASYNC.",
    Databases::Current,
    |ctx| {
        let free = free_mode(ctx)?;
        flush(ctx, ctx.db.index(), free);
        ctx.db.log_anyway();
        ctx.db.notify_emptied();
        ctx.reply.ok();
        Ok(())
    },
);

fn free_mode(ctx: &Ctx<'_>) -> Result<Free, Error> {
    match ctx.args.len() {
        1 if ctx.settings.lazy_user_flush => Ok(Free::Background),
        1 => Ok(Free::Here),
        2 if ctx.is(1, "async") => Ok(Free::Background),
        2 if ctx.is(1, "sync") => Ok(Free::Here),
        _ => Err(SYNTAX),
    }
}

/// Empties a database. Every key counts as a change.
fn flush(ctx: &mut Ctx<'_>, db: usize, free: Free) {
    let mut db = ctx.db.other(db);
    let taken = db.take_all();
    db.context.tally.dirty += taken.keys;
    db.context.discard_all(taken.contents, free);
}

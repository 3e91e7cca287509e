//! MOVE: moves a key to another logical database.
//!
//! A shard holds the keys of its slots for every database, so one lock covers both databases. The
//! record itself moves from one table to the other.

use super::{SAME_OBJECT, database};
use crate::ctx::Ctx;
use crate::error::CmdResult;
use crate::lock::Lock;
use crate::registry::Command;
use weft_command_spec::{Databases, Flags, Group, Spec, Special, keys};
use weft_keyspace::Classes;

pub const MOVE: Command = Command {
    spec: Spec {
        name: "move",
        arity: 3,
        flags: Flags::WRITE.or(Flags::FAST),
        keys: &keys::one(&["RW", "ACCESS", "UPDATE"]),
        acl: &[],
        group: Group::Generic,
        since: "1.0.0",
        summary: "Moves a key to another database unless it exists there.",
        complexity: "O(1)",
        syntax: "key db:integer",
        history: &[],
        tips: &[],
        special: Special::databases(Databases::At(&[2])),
    },
    lock: Lock::Keys,
    run: move_to,
    subcommands: &[],
};

fn move_to(ctx: &mut Ctx<'_>) -> CmdResult {
    let target = database(ctx, 2)?;
    if target == ctx.db.index() {
        return Err(SAME_OBJECT);
    }
    let key = ctx.key(1);
    let moved = ctx.db.for_write(&key).is_some()
        && ctx.db.other(target).for_write(&key).is_none()
        && ctx.db.remove(&key).map(|record| ctx.db.other(target).set(&key, record)).is_some();
    if moved {
        ctx.notify(Classes::GENERIC, "move_from", &key);
        ctx.db.other(target).notify(Classes::GENERIC, "move_to", &key);
        ctx.dirty();
    }
    ctx.reply.int(i64::from(moved));
    Ok(())
}

//! LPUSH, RPUSH, LPUSHX, RPUSHX: add elements at an end.

use super::{list, push_event};
use crate::ctx::Ctx;
use crate::error::CmdResult;
use crate::lock::Lock;
use crate::registry::Command;
use weft_command_spec::{Flags, Group, Spec, Special, keys};
use weft_keyspace::Classes;
use weft_keyspace::db::Rework;
use weft_types::list::{self, End};

pub const LPUSH: Command = Command {
    spec: Spec {
        name: "lpush",
        arity: -3,
        flags: Flags::WRITE.or(Flags::DENYOOM).or(Flags::FAST),
        keys: &keys::one(&["RW", "INSERT"]),
        acl: &[],
        group: Group::List,
        since: "1.0.0",
        summary: "Adds elements at the head of a list. Creates the list if the key does not exist.",
        complexity: "O(1) for each element.",
        syntax: "key element...",
        history: &[("2.4.0", "Accepts several elements.")],
        tips: &[],
        special: Special::NONE,
    },
    lock: Lock::Keys,
    run: |ctx| push(ctx, End::Left, true),
    subcommands: &[],
};

pub const RPUSH: Command = Command {
    spec: Spec {
        name: "rpush",
        flags: LPUSH.spec.flags,
        summary: "Adds elements at the tail of a list. Creates the list if the key does not exist.",
        special: Special::NONE,
        ..LPUSH.spec
    },
    run: |ctx| push(ctx, End::Right, true),
    ..LPUSH
};

pub const LPUSHX: Command = Command {
    spec: Spec {
        name: "lpushx",
        flags: LPUSH.spec.flags,
        since: "2.2.0",
        summary: "Adds elements at the head of a list if the list exists.",
        history: &[("4.0.0", "Accepts several elements.")],
        special: Special::NONE,
        ..LPUSH.spec
    },
    run: |ctx| push(ctx, End::Left, false),
    ..LPUSH
};

pub const RPUSHX: Command = Command {
    spec: Spec {
        name: "rpushx",
        flags: LPUSHX.spec.flags,
        summary: "Adds elements at the tail of a list if the list exists.",
        special: Special::NONE,
        ..LPUSHX.spec
    },
    run: |ctx| push(ctx, End::Right, false),
    ..LPUSH
};

fn push(ctx: &mut Ctx<'_>, end: End, create: bool) -> CmdResult {
    let key = ctx.key(1);
    let (values, limits) = (&ctx.args[2..], &ctx.settings.limits);
    let len = ctx.db.rework(&key, |record, clock| match record {
        Some(record) => match list(&record).map(|_| ()) {
            Ok(()) => {
                let record = list::push(record, end, values, limits);
                let len = list::len(&record);
                (Rework::Changed(record), Ok(len))
            }
            Err(e) => (Rework::Same(record), Err(e)),
        },
        None if create => {
            let record = list::create(key.bytes, clock, end, values, limits);
            (Rework::Changed(record), Ok(values.len()))
        }
        None => (Rework::Absent, Ok(0)),
    })?;
    if len > 0 {
        ctx.notify(Classes::LIST, push_event(end), &key);
        ctx.db.context.tally.dirty += values.len() as u64;
    }
    ctx.reply.int(len as i64);
    Ok(())
}

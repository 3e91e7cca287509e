//! LMOVE, RPOPLPUSH: move an element from one list to another.

use super::{discard, end, list, pop_event, push_event};
use crate::ctx::Ctx;
use crate::error::{CmdResult, Error};
use crate::lock::Lock;
use crate::registry::Command;
use weft_command_spec::{Begin, Find, Flags, Group, KeySpec, Spec, Special};
use weft_keyspace::db::Rework;
use weft_keyspace::{Classes, Key};
use weft_types::list::{self, End, Waste};

const fn at(index: u16, flags: &'static [&'static str]) -> KeySpec {
    let find = Find::Range { last: 0, step: 1, limit: 0 };
    KeySpec { flags, begin: Begin::Index(index), find, notes: "" }
}

pub const LMOVE: Command = Command {
    spec: Spec {
        name: "lmove",
        arity: 5,
        flags: Flags::WRITE.or(Flags::DENYOOM),
        keys: &[at(1, &["RW", "ACCESS", "DELETE"]), at(2, &["RW", "INSERT"])],
        acl: &[],
        group: Group::List,
        since: "6.2.0",
        summary: "Moves an element from an end of one list to an end of another.",
        complexity: "O(1)",
        syntax: "source:key destination:key wherefrom=(left=LEFT|right=RIGHT) \
                 whereto=(left=LEFT|right=RIGHT)",
        history: &[],
        tips: &[],
        special: Special::NONE,
    },
    lock: Lock::Keys,
    run: lmove,
    subcommands: &[],
};

pub const RPOPLPUSH: Command = Command {
    spec: Spec {
        name: "rpoplpush",
        arity: 3,
        flags: LMOVE.spec.flags,
        since: "1.2.0",
        summary: "Moves the last element of one list to the head of another.",
        syntax: "source:key destination:key",
        special: Special::NONE,
        ..LMOVE.spec
    },
    run: |ctx| reply_moved(ctx, End::Right, End::Left),
    ..LMOVE
};

fn lmove(ctx: &mut Ctx<'_>) -> CmdResult {
    let (from, to) = (end(ctx, 3)?, end(ctx, 4)?);
    reply_moved(ctx, from, to)
}

fn reply_moved(ctx: &mut Ctx<'_>, from: End, to: End) -> CmdResult {
    if !transfer(ctx, from, to)? {
        ctx.reply.null();
    }
    Ok(())
}

/// Moves an element from the list at argument 1 to the list at argument 2 and writes it to the
/// reply. Returns whether there was one. Changes nothing if the destination has another type.
pub fn transfer(ctx: &mut Ctx<'_>, from: End, to: End) -> Result<bool, Error> {
    let (source, target) = (ctx.key(1), ctx.key(2));
    match ctx.db.for_write(&source) {
        None => return Ok(false),
        Some(record) => list(&record).map(|_| ())?,
    }
    if let Some(record) = ctx.db.peek(&target) {
        list(&record)?;
    }
    let (value, emptied) = if source.bytes == target.bytes {
        (rotate(ctx, &source, from, to), false)
    } else {
        let (value, emptied) = take(ctx, &source, from);
        put(ctx, &target, to, &value);
        (value, emptied)
    };
    ctx.notify(Classes::LIST, push_event(to), &target);
    ctx.notify(Classes::LIST, pop_event(from), &source);
    if emptied {
        ctx.notify(Classes::GENERIC, "del", &source);
    }
    ctx.dirty();
    ctx.reply.bulk(&value);
    Ok(true)
}

fn rotate(ctx: &mut Ctx<'_>, key: &Key<'_>, from: End, to: End) -> Vec<u8> {
    let limits = &ctx.settings.limits;
    ctx.db.rework(key, |record, _| {
        let Some(record) = record else { return (Rework::Absent, Vec::new()) };
        let (record, value) = list::rotate(record, from, to, limits);
        (Rework::Changed(record), value)
    })
}

/// Removes an element. Also returns whether it was the last one.
fn take(ctx: &mut Ctx<'_>, key: &Key<'_>, from: End) -> (Vec<u8>, bool) {
    let limits = &ctx.settings.limits;
    let mut waste = Waste::default();
    let taken = ctx.db.rework(key, |record, _| {
        let Some(record) = record else { return (Rework::Absent, (Vec::new(), false)) };
        let mut value = Vec::new();
        let record = list::pop(record, from, 1, limits, &mut waste, |v| value = v.to_vec());
        match list::len(&record) {
            0 => (Rework::Emptied(record), (value, true)),
            _ => (Rework::Changed(record), (value, false)),
        }
    });
    discard(ctx, waste);
    taken
}

fn put(ctx: &mut Ctx<'_>, key: &Key<'_>, to: End, value: &[u8]) {
    let limits = &ctx.settings.limits;
    ctx.db.rework(key, |record, clock| {
        let record = match record {
            Some(record) => list::push(record, to, &[value], limits),
            None => list::create(key.bytes, clock, to, &[value], limits),
        };
        (Rework::Changed(record), ())
    });
}

//! SADD, SREM, SMOVE: add, remove and move members.

use super::set;
use crate::ctx::Ctx;
use crate::error::{CmdResult, Error, WRONG_TYPE};
use crate::lock::Lock;
use crate::registry::Command;
use weft_command_spec::{Begin, Find, Flags, Group, KeySpec, Spec, Special, keys};
use weft_keyspace::db::Rework;
use weft_keyspace::{Classes, Key};
use weft_types::packed::Value;
use weft_types::set::{add, announce, create, is_set, len, remove};

pub const SADD: Command = Command {
    spec: Spec {
        name: "sadd",
        arity: -3,
        flags: Flags::WRITE.or(Flags::DENYOOM).or(Flags::FAST),
        keys: &keys::one(&["RW", "INSERT"]),
        acl: &[],
        group: Group::Set,
        since: "1.0.0",
        summary: "Adds members to a set. Creates the set if the key does not exist.",
        complexity: "O(N) where N is the number of members given.",
        syntax: "key member...",
        history: &[("2.4.0", "Accepts several members.")],
        tips: &[],
        special: Special::NONE,
    },
    lock: Lock::Keys,
    run: sadd,
    subcommands: &[],
};

pub const SREM: Command = Command {
    spec: Spec {
        name: "srem",
        flags: Flags::WRITE.or(Flags::FAST),
        keys: &keys::one(&["RW", "DELETE"]),
        summary: "Removes members from a set. Removes the key with the last member.",
        special: Special::NONE,
        ..SADD.spec
    },
    run: srem,
    ..SADD
};

const fn key(index: u16, flags: &'static [&'static str]) -> KeySpec {
    let find = Find::Range { last: 0, step: 1, limit: 0 };
    KeySpec { flags, begin: Begin::Index(index), find, notes: "" }
}

pub const SMOVE: Command = Command {
    spec: Spec {
        name: "smove",
        arity: 4,
        flags: SREM.spec.flags,
        keys: &[key(1, &["RW", "ACCESS", "DELETE"]), key(2, &["RW", "INSERT"])],
        summary: "Moves a member from one set to another.",
        complexity: "O(1)",
        syntax: "source:key destination:key member",
        history: &[],
        special: Special::NONE,
        ..SREM.spec
    },
    run: smove,
    ..SADD
};

fn sadd(ctx: &mut Ctx<'_>) -> CmdResult {
    ctx.weigh_args()?;
    let key = ctx.key(1);
    let members = &ctx.args[2..];
    let added = add_all(ctx, &key, members, members.len())?;
    ctx.db.context.tally.dirty += added as u64;
    ctx.reply.int(added as i64);
    Ok(())
}

/// Adds `members` (at least one) to the set at `key`. Returns how many were new. An existing set
/// first gets the encoding for `announced` more members.
fn add_all(
    ctx: &mut Ctx<'_>,
    key: &Key<'_>,
    members: &[&[u8]],
    announced: usize,
) -> Result<usize, Error> {
    let limits = &ctx.settings.limits;
    let added = ctx.db.rework(key, |record, clock| {
        let (mut record, mut added) = match record {
            None => (create(key.bytes, members[0], members.len(), None, clock, limits), 1),
            Some(record) if !is_set(&record) => return (Rework::Same(record), Err(WRONG_TYPE)),
            Some(record) => (announce(record, announced, limits), 0),
        };
        for member in &members[added..] {
            let new;
            (record, new) = add(record, Value::Bytes(member), limits);
            added += usize::from(new);
        }
        let rework = if added > 0 { Rework::Changed(record) } else { Rework::Same(record) };
        (rework, Ok(added))
    })?;
    if added > 0 {
        ctx.notify(Classes::SET, "sadd", key);
    }
    Ok(added)
}

fn srem(ctx: &mut Ctx<'_>) -> CmdResult {
    ctx.weigh_args()?;
    let key = ctx.key(1);
    let removed = remove_all(ctx, &key, &ctx.args[2..])?;
    ctx.db.context.tally.dirty += removed as u64;
    ctx.reply.int(removed as i64);
    Ok(())
}

/// Removes `members` from the set at `key`. Returns how many existed.
fn remove_all(ctx: &mut Ctx<'_>, key: &Key<'_>, members: &[&[u8]]) -> Result<usize, Error> {
    let mut emptied = false;
    let removed = ctx.db.rework(key, |record, _| {
        let mut record = match record {
            None => return (Rework::Absent, Ok(0)),
            Some(record) if !is_set(&record) => return (Rework::Same(record), Err(WRONG_TYPE)),
            Some(record) => record,
        };
        let mut removed = 0;
        for member in members {
            let was_there;
            (record, was_there) = remove(record, Value::Bytes(member));
            removed += usize::from(was_there);
            if was_there && len(&record) == 0 {
                emptied = true;
                return (Rework::Emptied(record), Ok(removed));
            }
        }
        let rework = if removed > 0 { Rework::Changed(record) } else { Rework::Same(record) };
        (rework, Ok(removed))
    })?;
    if removed > 0 {
        ctx.notify(Classes::SET, "srem", key);
    }
    if emptied {
        ctx.notify(Classes::GENERIC, "del", key);
    }
    Ok(removed)
}

fn smove(ctx: &mut Ctx<'_>) -> CmdResult {
    let (source, destination) = (ctx.key(1), ctx.key(2));
    let member = ctx.args[3];
    let Some(from_set) = ctx.db.for_write(&source).map(|record| is_set(&record)) else {
        ctx.reply.int(0);
        return Ok(());
    };
    let to_set = ctx.db.for_write(&destination).is_none_or(|record| is_set(&record));
    if !from_set || !to_set {
        return Err(WRONG_TYPE);
    }
    let moved = if source.bytes == destination.bytes {
        // Nothing to do, but the reply is as if the member had moved.
        let record = ctx.db.for_write(&source);
        record.is_some_and(|r| set(&r).is_ok_and(|set| set.contains(Value::Bytes(member))))
    } else {
        let removed = remove_all(ctx, &source, &[member])? == 1;
        if removed {
            ctx.dirty();
            // SMOVE announces no members: only a new member changes the encoding.
            if add_all(ctx, &destination, &[member], 0)? == 1 {
                ctx.dirty();
            }
        }
        removed
    };
    ctx.reply.int(i64::from(moved));
    Ok(())
}

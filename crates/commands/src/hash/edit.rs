//! HSET, HMSET, HSETNX and HDEL: set and remove fields.

use super::log::ChangedFields;
use super::{hash, notify_set};
use crate::ctx::Ctx;
use crate::error::{CmdResult, Error, WRONG_TYPE, wrong_arity};
use crate::lock::Lock;
use crate::registry::Command;
use weft_command_spec::{Flags, Group, Spec, Special, keys};
use weft_keyspace::Classes;
use weft_keyspace::db::Rework;
use weft_types::hash::{self, Old, announce, create, is_hash, len};

pub const HSET: Command = Command {
    spec: Spec {
        name: "hset",
        arity: -4,
        flags: Flags::WRITE.or(Flags::DENYOOM).or(Flags::FAST),
        keys: &keys::one(&["RW", "UPDATE"]),
        acl: &[],
        group: Group::Hash,
        since: "2.0.0",
        summary: "Sets fields of a hash. Creates the hash if the key does not exist.",
        complexity: "O(N) where N is the number of fields given.",
        syntax: "key data=(field value)...",
        history: &[("4.0.0", "Accepts several fields.")],
        tips: &[],
        special: Special::NONE,
    },
    lock: Lock::Keys,
    run: hset,
    subcommands: &[],
};

pub const HMSET: Command = Command {
    spec: Spec {
        name: "hmset",
        flags: HSET.spec.flags,
        summary: "Sets fields of a hash, as HSET does, and returns OK.",
        history: &[],
        special: Special::NONE,
        ..HSET.spec
    },
    run: hmset,
    ..HSET
};

pub const HSETNX: Command = Command {
    spec: Spec {
        name: "hsetnx",
        arity: 4,
        flags: HSET.spec.flags,
        keys: &keys::one(&["RW", "INSERT"]),
        summary: "Sets a field of a hash unless the field exists.",
        complexity: "O(1)",
        syntax: "key field value",
        history: &[],
        special: Special::NONE,
        ..HSET.spec
    },
    run: hsetnx,
    ..HSET
};

pub const HDEL: Command = Command {
    spec: Spec {
        name: "hdel",
        arity: -3,
        flags: Flags::WRITE.or(Flags::FAST),
        keys: &keys::one(&["RW", "DELETE"]),
        summary: "Removes fields from a hash. Removes the key with the last field.",
        complexity: "O(N) where N is the number of fields given.",
        syntax: "key field...",
        history: &[("2.4.0", "Accepts several fields.")],
        special: Special::NONE,
        ..HSET.spec
    },
    run: hdel,
    ..HSET
};

fn hset(ctx: &mut Ctx<'_>) -> CmdResult {
    let new = set_all(ctx, "hset")?;
    ctx.reply.int(new as i64);
    Ok(())
}

fn hmset(ctx: &mut Ctx<'_>) -> CmdResult {
    set_all(ctx, "hmset")?;
    ctx.reply.ok();
    Ok(())
}

/// Sets the fields from argument 2 on, each followed by its value. Returns how many were new.
#[inline]
fn set_all(ctx: &mut Ctx<'_>, name: &str) -> Result<usize, Error> {
    let data = &ctx.args[2..];
    if !data.len().is_multiple_of(2) {
        return Err(wrong_arity(name));
    }
    ctx.weigh_args()?;
    let (key, now) = (ctx.key(1), ctx.over_ms());
    let limits = &ctx.settings.limits;
    let mut expired = 0;
    let new = ctx.db.rework(&key, |record, clock| {
        let mut record = match record {
            None => create(key.bytes, data, clock, limits),
            Some(record) if !is_hash(&record) => return (Rework::Same(record), Err(WRONG_TYPE)),
            Some(record) => announce(record, data, limits),
        };
        let mut new = 0;
        for pair in data.chunks_exact(2) {
            let old;
            (record, old) = hash::set(record, pair[0], pair[1], None, now, limits);
            new += usize::from(old.is_new());
            expired += u64::from(old == Old::Expired);
        }
        (Rework::Changed(record), Ok(new))
    })?;
    notify_set(ctx, &key, "hset", expired);
    ctx.db.context.tally.dirty += data.len() as u64 / 2;
    Ok(new)
}

fn hsetnx(ctx: &mut Ctx<'_>) -> CmdResult {
    let (key, now) = (ctx.key(1), ctx.over_ms());
    let data = &ctx.args[2..];
    let limits = &ctx.settings.limits;
    let mut expired = false;
    let is_set = ctx.db.rework(&key, |record, clock| {
        let record = match record {
            None => create(key.bytes, data, clock, limits),
            Some(record) => match hash(&record, now).map(|hash| hash.get(data[0]).is_some()) {
                Err(error) => return (Rework::Same(record), Err(error)),
                Ok(true) => return (Rework::Same(record), Ok(false)),
                Ok(false) => announce(record, data, limits),
            },
        };
        let (record, old) = hash::set(record, data[0], data[1], None, now, limits);
        expired = old == Old::Expired;
        (Rework::Changed(record), Ok(true))
    })?;
    if is_set {
        notify_set(ctx, &key, "hset", u64::from(expired));
        if expired {
            ctx.log(&[b"HSET", key.bytes, data[0], data[1]]);
        }
        ctx.dirty();
    }
    ctx.reply.int(i64::from(is_set));
    Ok(())
}

fn hdel(ctx: &mut Ctx<'_>) -> CmdResult {
    ctx.weigh_args()?;
    let (key, now) = (ctx.key(1), ctx.over_ms());
    let fields = &ctx.args[2..];
    let mut emptied = false;
    let mut removed_fields = ChangedFields::new(ctx);
    let removed = ctx.db.rework(&key, |record, _| {
        let mut record = match record {
            None => return (Rework::Absent, Ok(0)),
            Some(record) if !is_hash(&record) => return (Rework::Same(record), Err(WRONG_TYPE)),
            Some(record) => record,
        };
        let mut removed = 0;
        for field in fields {
            let old;
            (record, old) = hash::remove(record, field, now);
            match old {
                Old::Live => removed_fields.push(field),
                Old::Expired => removed_fields.note_missing(&record, field),
                Old::Absent => {}
            }
            removed += usize::from(old == Old::Live);
            if len(&record) == 0 {
                emptied = true;
                return (Rework::Emptied(record), Ok(removed));
            }
        }
        let rework = if removed > 0 { Rework::Changed(record) } else { Rework::Same(record) };
        (rework, Ok(removed))
    })?;
    if removed > 0 {
        ctx.notify(Classes::HASH, "hdel", &key);
    }
    if removed_fields.stale {
        removed_fields.log_removed(ctx, &key);
    }
    if emptied {
        ctx.notify(Classes::GENERIC, "del", &key);
    }
    ctx.db.context.tally.dirty += removed as u64;
    ctx.reply.int(removed as i64);
    Ok(())
}

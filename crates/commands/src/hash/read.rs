//! HGET, HMGET, HEXISTS, HSTRLEN, HLEN, HGETALL, HKEYS, HVALS: read one hash.

use super::{bulk, bulk_or_null, hash};
use crate::ctx::Ctx;
use crate::error::CmdResult;
use crate::lock::Lock;
use crate::registry::Command;
use weft_command_spec::{Flags, Group, Spec, Special, keys};
use weft_types::packed::Value;

pub const HGET: Command = Command {
    spec: Spec {
        name: "hget",
        arity: 3,
        flags: Flags::READONLY.or(Flags::FAST),
        keys: &keys::one(&["RO", "ACCESS"]),
        acl: &[],
        group: Group::Hash,
        since: "2.0.0",
        summary: "Returns the value of a field.",
        complexity: "O(1)",
        syntax: "key field",
        history: &[],
        tips: &[],
        special: Special::NONE,
    },
    lock: Lock::Keys,
    run: hget,
    subcommands: &[],
};

pub const HMGET: Command = Command {
    spec: Spec {
        name: "hmget",
        arity: -3,
        flags: HGET.spec.flags,
        summary: "Returns the values of several fields, null for each missing field.",
        complexity: "O(N) where N is the number of fields given.",
        syntax: "key field...",
        special: Special::NONE,
        ..HGET.spec
    },
    run: hmget,
    ..HGET
};

pub const HEXISTS: Command = Command {
    spec: Spec {
        name: "hexists",
        flags: HGET.spec.flags,
        keys: &keys::one(&["RO"]),
        summary: "Checks whether a hash has a field.",
        special: Special::NONE,
        ..HGET.spec
    },
    run: hexists,
    ..HGET
};

pub const HSTRLEN: Command = Command {
    spec: Spec {
        name: "hstrlen",
        flags: HGET.spec.flags,
        keys: &keys::one(&["RO"]),
        since: "3.2.0",
        summary: "Returns the length of a field's value in bytes, 0 if the field is missing.",
        special: Special::NONE,
        ..HGET.spec
    },
    run: hstrlen,
    ..HGET
};

pub const HLEN: Command = Command {
    spec: Spec {
        name: "hlen",
        arity: 2,
        flags: HGET.spec.flags,
        keys: &keys::one(&["RO"]),
        summary: "Returns the number of fields of a hash.",
        syntax: "key",
        special: Special::NONE,
        ..HGET.spec
    },
    run: hlen,
    ..HGET
};

pub const HGETALL: Command = Command {
    spec: Spec {
        name: "hgetall",
        arity: 2,
        flags: Flags::READONLY,
        summary: "Returns all fields of a hash with their values.",
        complexity: "O(N) where N is the number of fields.",
        syntax: "key",
        tips: &["nondeterministic_output_order"],
        special: Special::NONE,
        ..HGET.spec
    },
    run: |ctx| all(ctx, Parts::Both),
    ..HGET
};

pub const HKEYS: Command = Command {
    spec: Spec {
        name: "hkeys",
        flags: HGETALL.spec.flags,
        summary: "Returns all fields of a hash.",
        special: Special::NONE,
        ..HGETALL.spec
    },
    run: |ctx| all(ctx, Parts::Fields),
    ..HGET
};

pub const HVALS: Command = Command {
    spec: Spec {
        name: "hvals",
        flags: HGETALL.spec.flags,
        summary: "Returns all values of a hash.",
        special: Special::NONE,
        ..HGETALL.spec
    },
    run: |ctx| all(ctx, Parts::Values),
    ..HGET
};

fn hget(ctx: &mut Ctx<'_>) -> CmdResult {
    let (key, now) = (ctx.key(1), ctx.over_ms());
    let record = ctx.db.read(&key);
    let hash = record.as_deref().map(|record| hash(record, now)).transpose()?;
    bulk_or_null(ctx.reply, hash.and_then(|hash| hash.get(ctx.args[2])));
    Ok(())
}

fn hmget(ctx: &mut Ctx<'_>) -> CmdResult {
    ctx.weigh_args()?;
    let (key, now) = (ctx.key(1), ctx.over_ms());
    let record = ctx.db.read(&key);
    let hash = record.as_deref().map(|record| hash(record, now)).transpose()?;
    let fields = &ctx.args[2..];
    ctx.reply.array(fields.len());
    for field in fields {
        bulk_or_null(ctx.reply, hash.and_then(|hash| hash.get(field)));
    }
    Ok(())
}

/// Replies with `number` of the value of the field at argument 2, or 0 if the field is missing.
fn reply_number(ctx: &mut Ctx<'_>, number: impl FnOnce(Value<'_>) -> usize) -> CmdResult {
    let (key, now) = (ctx.key(1), ctx.over_ms());
    let value = match ctx.db.read(&key) {
        Some(record) => hash(&record, now)?.get(ctx.args[2]).map(number),
        None => None,
    };
    ctx.reply.int(value.unwrap_or(0) as i64);
    Ok(())
}

fn hexists(ctx: &mut Ctx<'_>) -> CmdResult {
    reply_number(ctx, |_| 1)
}

fn hstrlen(ctx: &mut Ctx<'_>) -> CmdResult {
    reply_number(ctx, |value| value.len())
}

fn hlen(ctx: &mut Ctx<'_>) -> CmdResult {
    let (key, now) = (ctx.key(1), ctx.over_ms());
    let len = match ctx.db.read(&key) {
        Some(record) => hash(&record, now)?.len(),
        None => 0,
    };
    ctx.reply.int(len as i64);
    Ok(())
}

/// The part of every field to return.
#[derive(Clone, Copy)]
enum Parts {
    Fields,
    Values,
    Both,
}

fn all(ctx: &mut Ctx<'_>, parts: Parts) -> CmdResult {
    let (key, now) = (ctx.key(1), ctx.over_ms());
    let record = ctx.db.read(&key);
    let hash = record.as_deref().map(|record| hash(record, now)).transpose()?;
    if let Some(hash) = hash {
        ctx.lane.weigh(hash.len(), &mut ctx.pause)?;
    }
    let live = hash.map_or(0, |hash| hash.live());
    match parts {
        Parts::Both => ctx.reply.map(live),
        Parts::Fields | Parts::Values => ctx.reply.array(live),
    }
    let Some(hash) = hash else {
        return Ok(());
    };
    let reply = &mut *ctx.reply;
    match parts {
        Parts::Fields => hash.each(|pair| bulk(reply, pair.field)),
        Parts::Values => hash.each(|pair| bulk(reply, pair.value)),
        Parts::Both => hash.each(|pair| {
            bulk(reply, pair.field);
            bulk(reply, pair.value);
        }),
    }
    Ok(())
}

//! SCARD, SISMEMBER, SMISMEMBER, SMEMBERS: read one set.

use super::{bulk, set};
use crate::ctx::Ctx;
use crate::error::CmdResult;
use crate::lock::Lock;
use crate::registry::Command;
use weft_command_spec::{Flags, Group, Spec, Special, keys};
use weft_types::packed::Value;

pub const SCARD: Command = Command {
    spec: Spec {
        name: "scard",
        arity: 2,
        flags: Flags::READONLY.or(Flags::FAST),
        keys: &keys::one(&["RO"]),
        acl: &[],
        group: Group::Set,
        since: "1.0.0",
        summary: "Returns the number of members of a set.",
        complexity: "O(1)",
        syntax: "key",
        history: &[],
        tips: &[],
        special: Special::NONE,
    },
    lock: Lock::Keys,
    run: scard,
    subcommands: &[],
};

pub const SISMEMBER: Command = Command {
    spec: Spec {
        name: "sismember",
        arity: 3,
        flags: SCARD.spec.flags,
        summary: "Checks whether a value is a member of a set.",
        syntax: "key member",
        special: Special::NONE,
        ..SCARD.spec
    },
    run: sismember,
    ..SCARD
};

pub const SMISMEMBER: Command = Command {
    spec: Spec {
        name: "smismember",
        arity: -3,
        flags: SCARD.spec.flags,
        keys: &keys::one(&["RO", "ACCESS"]),
        since: "6.2.0",
        summary: "Checks for several values whether they are members of a set.",
        complexity: "O(N) where N is the number of values given.",
        syntax: "key member...",
        special: Special::NONE,
        ..SCARD.spec
    },
    run: smismember,
    ..SCARD
};

pub const SMEMBERS: Command = Command {
    spec: Spec {
        name: "smembers",
        flags: Flags::READONLY,
        keys: &keys::one(&["RO", "ACCESS"]),
        summary: "Returns all members of a set.",
        complexity: "O(N) where N is the number of members.",
        tips: &["nondeterministic_output_order"],
        special: Special::NONE,
        ..SCARD.spec
    },
    run: smembers,
    ..SCARD
};

fn scard(ctx: &mut Ctx<'_>) -> CmdResult {
    let key = ctx.key(1);
    let len = match ctx.db.read(&key) {
        Some(record) => set(&record)?.len(),
        None => 0,
    };
    ctx.reply.int(len as i64);
    Ok(())
}

fn sismember(ctx: &mut Ctx<'_>) -> CmdResult {
    let key = ctx.key(1);
    let is_member = match ctx.db.read(&key) {
        Some(record) => set(&record)?.contains(Value::Bytes(ctx.args[2])),
        None => false,
    };
    ctx.reply.int(i64::from(is_member));
    Ok(())
}

fn smismember(ctx: &mut Ctx<'_>) -> CmdResult {
    ctx.weigh_args()?;
    let key = ctx.key(1);
    let members = &ctx.args[2..];
    let record = ctx.db.read(&key);
    let set = record.as_deref().map(set).transpose()?;
    ctx.reply.array(members.len());
    for member in members {
        let is_member = set.is_some_and(|set| set.contains(Value::Bytes(member)));
        ctx.reply.int(i64::from(is_member));
    }
    Ok(())
}

fn smembers(ctx: &mut Ctx<'_>) -> CmdResult {
    let key = ctx.key(1);
    let Some(record) = ctx.db.read(&key) else {
        ctx.reply.set(0);
        return Ok(());
    };
    let set = set(&record)?;
    ctx.lane.weigh(set.len(), &mut ctx.pause)?;
    ctx.reply.set(set.len());
    set.each(|member| bulk(ctx.reply, member));
    Ok(())
}

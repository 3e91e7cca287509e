//! HTTL, HPTTL, HEXPIRETIME, HPEXPIRETIME: report the expiry of fields.
//!
//! The reply has one number for each field: -2 the field does not exist, -1 it has no expiry,
//! otherwise the time. Seconds are rounded to the nearest.

use super::fields::fields_after_key;
use super::hash;
use crate::ctx::Ctx;
use crate::error::{CmdResult, SYNTAX};
use crate::lock::Lock;
use crate::registry::Command;
use weft_command_spec::{Flags, Group, Spec, Special, keys};

pub const HTTL: Command = Command {
    spec: Spec {
        name: "httl",
        arity: -5,
        flags: Flags::READONLY.or(Flags::FAST),
        keys: &keys::one(&["RO", "ACCESS"]),
        acl: &[],
        group: Group::Hash,
        since: "9.0.0",
        summary: "Returns the remaining time to live of fields of a hash in seconds.",
        complexity: "O(N) where N is the number of fields given.",
        syntax: "key FIELDS fields=(numfields:integer# field...)",
        history: &[],
        tips: &[],
        special: Special::NONE,
    },
    lock: Lock::Keys,
    run: |ctx| {
        let now = ctx.now_ms();
        times(ctx, |at| seconds(at - now))
    },
    subcommands: &[],
};

pub const HPTTL: Command = Command {
    spec: Spec {
        name: "hpttl",
        flags: HTTL.spec.flags,
        summary: "Returns the remaining time to live of fields of a hash in milliseconds.",
        special: Special::NONE,
        ..HTTL.spec
    },
    run: |ctx| {
        let now = ctx.now_ms();
        times(ctx, |at| at - now)
    },
    ..HTTL
};

pub const HEXPIRETIME: Command = Command {
    spec: Spec {
        name: "hexpiretime",
        flags: HTTL.spec.flags,
        summary: "Returns the Unix times in seconds at which fields of a hash expire.",
        special: Special::NONE,
        ..HTTL.spec
    },
    run: |ctx| times(ctx, seconds),
    ..HTTL
};

pub const HPEXPIRETIME: Command = Command {
    spec: Spec {
        name: "hpexpiretime",
        flags: HTTL.spec.flags,
        summary: "Returns the Unix times in milliseconds at which fields of a hash expire.",
        special: Special::NONE,
        ..HTTL.spec
    },
    run: |ctx| times(ctx, |at| at),
    ..HTTL
};

/// Non-negative milliseconds in seconds, rounded to the nearest.
fn seconds(ms: i64) -> i64 {
    ms / 1000 + i64::from(ms % 1000 >= 500)
}

fn times(ctx: &mut Ctx<'_>, time: impl Fn(i64) -> i64) -> CmdResult {
    fields_after_key(ctx, &SYNTAX)?;
    ctx.weigh_args()?;
    let (key, now) = (ctx.key(1), ctx.over_ms());
    let record = ctx.db.read(&key);
    let hash = record.as_deref().map(|record| hash(record, now)).transpose()?;
    let fields = &ctx.args[4..];
    ctx.reply.array(fields.len());
    for field in fields {
        ctx.reply.int(match hash.and_then(|hash| hash.find(field)).map(|pair| pair.expiry) {
            None => -2,
            Some(None) => -1,
            Some(Some(at)) => time(at),
        });
    }
    Ok(())
}

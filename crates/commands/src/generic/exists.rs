//! EXISTS and TOUCH: how many of the keys exist.
//!
//! TOUCH is EXISTS that counts as an access: it updates the clock that LRU and LFU use. That is its
//! only purpose, so it also does this for a client that has set CLIENT NO-TOUCH.

use crate::ctx::Ctx;
use crate::error::CmdResult;
use crate::lock::Lock;
use crate::registry::Command;
use weft_command_spec::{Flags, Group, Spec, Special, keys};

pub const EXISTS: Command = Command {
    spec: Spec {
        name: "exists",
        arity: -2,
        flags: Flags::READONLY.or(Flags::FAST),
        keys: &keys::all(1, &["RO"]),
        acl: &[],
        group: Group::Generic,
        since: "1.0.0",
        summary: "Counts how many of the given keys exist.",
        complexity: "O(N) for N keys.",
        syntax: "key...",
        history: &[("3.0.3", "Accepts several keys.")],
        tips: &["request_policy:multi_shard", "response_policy:agg_sum"],
        special: Special::NONE,
    },
    lock: Lock::Keys,
    run: exists,
    subcommands: &[],
};

pub const TOUCH: Command = Command {
    spec: Spec {
        name: "touch",
        arity: -2,
        flags: Flags::READONLY.or(Flags::FAST),
        keys: &keys::all(1, &["RO"]),
        acl: &[],
        group: Group::Generic,
        since: "3.2.1",
        summary: "Counts how many of the given keys exist and updates their access times.",
        complexity: "O(N) for N keys.",
        syntax: "key...",
        history: &[],
        tips: &["request_policy:multi_shard", "response_policy:agg_sum"],
        special: Special::NONE,
    },
    lock: Lock::Keys,
    run: touch,
    subcommands: &[],
};

fn exists(ctx: &mut Ctx<'_>) -> CmdResult {
    ctx.weigh_args()?;
    let mut found = 0;
    for i in 1..ctx.args.len() {
        let key = ctx.key(i);
        found += i64::from(ctx.db.inspect(&key).is_some());
    }
    ctx.reply.int(found);
    Ok(())
}

fn touch(ctx: &mut Ctx<'_>) -> CmdResult {
    ctx.weigh_args()?;
    let no_touch = std::mem::replace(&mut ctx.db.context.no_touch, false);
    let mut found = 0;
    for i in 1..ctx.args.len() {
        let key = ctx.key(i);
        found += i64::from(ctx.db.read(&key).is_some());
    }
    ctx.db.context.no_touch = no_touch;
    ctx.reply.int(found);
    Ok(())
}

//! TTL, PTTL, EXPIRETIME, PEXPIRETIME: report a key's expiry.
//!
//! The reply is the remaining time or the Unix time, in seconds or milliseconds. Seconds are
//! rounded to the nearest, not down: a key that just got ten seconds still reports 10 a few
//! milliseconds later.

use crate::ctx::Ctx;
use crate::error::CmdResult;
use crate::lock::Lock;
use crate::registry::Command;
use weft_command_spec::{Flags, Group, KeySpec, Spec, Special, keys};

const KEY: &[KeySpec] = &keys::one(&["RO", "ACCESS"]);
/// The reply for a key without expiry.
const PERSISTENT: i64 = -1;
/// The reply for a missing key.
const ABSENT: i64 = -2;

const fn command(
    name: &'static str,
    since: &'static str,
    summary: &'static str,
    history: &'static [(&'static str, &'static str)],
    tips: &'static [&'static str],
    run: fn(&mut Ctx<'_>) -> CmdResult,
) -> Command {
    let spec = Spec {
        name,
        arity: 2,
        flags: Flags::READONLY.or(Flags::FAST),
        keys: KEY,
        acl: &[],
        group: Group::Generic,
        since,
        summary,
        complexity: "O(1)",
        syntax: "key",
        history,
        tips,
        special: Special::NONE,
    };
    Command { spec, lock: Lock::Keys, run, subcommands: &[] }
}

pub const TTL: Command = command(
    "ttl",
    "1.0.0",
    "Returns the remaining time to live of a key in seconds.",
    &[("2.8.0", "Returns -2 for a missing key and -1 for one that does not expire.")],
    &["nondeterministic_output"],
    |ctx| reply_time(ctx, |at, now| round_to_seconds(time_left(at, now))),
);

pub const PTTL: Command = command(
    "pttl",
    "2.6.0",
    "Returns the remaining time to live of a key in milliseconds.",
    &[("2.8.0", "Returns -2 for a missing key and -1 for one that does not expire.")],
    &["nondeterministic_output"],
    |ctx| reply_time(ctx, time_left),
);

pub const EXPIRETIME: Command = command(
    "expiretime",
    "7.0.0",
    "Returns the Unix time in seconds at which a key expires.",
    &[],
    &[],
    |ctx| reply_time(ctx, |at, _| round_to_seconds(at)),
);

pub const PEXPIRETIME: Command = command(
    "pexpiretime",
    "7.0.0",
    "Returns the Unix time in milliseconds at which a key expires.",
    &[],
    &[],
    |ctx| reply_time(ctx, |at, _| at),
);

/// Replies with `form` of the expiry and the current time, both in Unix milliseconds.
fn reply_time(ctx: &mut Ctx<'_>, form: impl Fn(i64, i64) -> i64) -> CmdResult {
    let key = ctx.key(1);
    let now = ctx.now_ms();
    let time = match ctx.db.inspect(&key) {
        None => ABSENT,
        Some(record) => record.expiry().map_or(PERSISTENT, |at| form(at, now)),
    };
    ctx.reply.int(time);
    Ok(())
}

fn time_left(at: i64, now: i64) -> i64 {
    at.saturating_sub(now).max(0)
}

/// Rounds a non-negative time.
fn round_to_seconds(ms: i64) -> i64 {
    ms / 1000 + i64::from(ms % 1000 >= 500)
}

//! EXPIRE, PEXPIRE, EXPIREAT, PEXPIREAT: set a key's expiry.
//!
//! The four differ in the unit of their argument and in its base. All store a Unix time in
//! milliseconds. A time in the past removes the key at once.

use crate::ctx::Ctx;
use crate::error::{CmdResult, Error};
use crate::lock::Lock;
use crate::registry::Command;
use weft_command_spec::{Flags, Group, KeySpec, Spec, Special, keys};
use weft_keyspace::Classes;

const KEY: &[KeySpec] = &keys::one(&["RW", "UPDATE"]);
const HISTORY: &[(&str, &str)] = &[("7.0.0", "The conditions NX, XX, GT and LT.")];

const NX_IS_ALONE: Error =
    Error::new("ERR NX and XX, GT or LT options at the same time are not compatible");
const GT_OR_LT: Error = Error::new("ERR GT and LT options at the same time are not compatible");

const fn command(
    name: &'static str,
    since: &'static str,
    summary: &'static str,
    syntax: &'static str,
    run: fn(&mut Ctx<'_>) -> CmdResult,
) -> Command {
    let spec = Spec {
        name,
        arity: -3,
        flags: Flags::WRITE.or(Flags::FAST),
        keys: KEY,
        acl: &[],
        group: Group::Generic,
        since,
        summary,
        complexity: "O(1)",
        syntax,
        history: HISTORY,
        tips: &[],
        special: Special::NONE,
    };
    Command { spec, lock: Lock::Keys, run, subcommands: &[] }
}

pub const EXPIRE: Command = command(
    "expire",
    "1.0.0",
    "Sets a key's expiry in seconds from now.",
    "key seconds:integer [condition=(nx=NX|xx=XX|gt=GT|lt=LT)]@7.0.0",
    |ctx| expire(ctx, "expire", Unit::Seconds, Base::Now),
);

pub const PEXPIRE: Command = command(
    "pexpire",
    "2.6.0",
    "Sets a key's expiry in milliseconds from now.",
    "key milliseconds:integer [condition=(nx=NX|xx=XX|gt=GT|lt=LT)]@7.0.0",
    |ctx| expire(ctx, "pexpire", Unit::Milliseconds, Base::Now),
);

pub const EXPIREAT: Command = command(
    "expireat",
    "1.2.0",
    "Sets a key's expiry to a Unix time in seconds.",
    "key unix-time-seconds:unix-time [condition=(nx=NX|xx=XX|gt=GT|lt=LT)]@7.0.0",
    |ctx| expire(ctx, "expireat", Unit::Seconds, Base::Epoch),
);

pub const PEXPIREAT: Command = command(
    "pexpireat",
    "2.6.0",
    "Sets a key's expiry to a Unix time in milliseconds.",
    "key unix-time-milliseconds:unix-time [condition=(nx=NX|xx=XX|gt=GT|lt=LT)]@7.0.0",
    |ctx| expire(ctx, "pexpireat", Unit::Milliseconds, Base::Epoch),
);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unit {
    Seconds,
    Milliseconds,
}

/// The base of the argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Base {
    Now,
    Epoch,
}

fn expire(ctx: &mut Ctx<'_>, name: &str, unit: Unit, base: Base) -> CmdResult {
    let condition = Condition::parse(&ctx.args[3..])?;
    let at = unix_time_ms(ctx.int(2)?, unit, base, ctx.now_ms())
        .ok_or_else(|| Error::owned(format!("ERR invalid expire time in '{name}' command")))?;
    let key = ctx.key(1);
    let Some(record) = ctx.db.for_write(&key) else {
        ctx.reply.int(0);
        return Ok(());
    };
    if !condition.allows(record.expiry(), at) {
        ctx.reply.int(0);
        return Ok(());
    }
    if at <= ctx.past_ms() {
        ctx.db.delete(&key);
        ctx.notify(Classes::EXPIRED, "expired", &key);
        ctx.log_expired(&key);
        ctx.db.context.tally.expired += 1;
    } else {
        ctx.db.set_expiry(&key, Some(at));
        ctx.notify(Classes::GENERIC, "expire", &key);
        if ctx.is_logged() {
            let at = at.to_string();
            let mut words = vec![&b"PEXPIREAT"[..], key.bytes, at.as_bytes()];
            words.extend_from_slice(&ctx.args[3..]);
            ctx.log(&words);
        }
    }
    ctx.dirty();
    ctx.reply.int(1);
    Ok(())
}

/// The Unix time in milliseconds that an argument means; `None` on overflow.
pub(crate) fn unix_time_ms(argument: i64, unit: Unit, base: Base, now: i64) -> Option<i64> {
    let ms = match unit {
        Unit::Seconds => argument.checked_mul(1000)?,
        Unit::Milliseconds => argument,
    };
    match base {
        Base::Now => ms.checked_add(now),
        Base::Epoch => Some(ms),
    }
}

/// The condition for setting an expiry: NX, XX, GT, LT. A missing expiry counts as infinite.
#[derive(Default)]
pub(crate) struct Condition {
    nx: bool,
    xx: bool,
    gt: bool,
    lt: bool,
}

impl Condition {
    /// Parses the arguments after the time. A word may be repeated. Unknown words are reported
    /// before incompatible ones.
    pub(crate) fn parse(words: &[&[u8]]) -> Result<Condition, Error> {
        let mut condition = Condition::default();
        for word in words {
            match word.to_ascii_lowercase().as_slice() {
                b"nx" => condition.nx = true,
                b"xx" => condition.xx = true,
                b"gt" => condition.gt = true,
                b"lt" => condition.lt = true,
                _ => return Err(Error::owned([b"ERR Unsupported option ", *word].concat())),
            }
        }
        let Condition { nx, xx, gt, lt } = condition;
        if nx && (xx || gt || lt) {
            return Err(NX_IS_ALONE);
        }
        if gt && lt {
            return Err(GT_OR_LT);
        }
        Ok(condition)
    }

    pub(crate) fn allows(&self, old: Option<i64>, new: i64) -> bool {
        !(self.nx && old.is_some()
            || self.xx && old.is_none()
            || self.gt && old.is_none_or(|old| new <= old)
            || self.lt && old.is_some_and(|old| new >= old))
    }
}

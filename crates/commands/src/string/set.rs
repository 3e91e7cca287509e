//! SET and the older SETNX, SETEX, PSETEX, GETSET.
//!
//! All of them use one function, [`store`]. It takes one lookup, and no allocation if the new value
//! has the same size.

use super::options::{Condition, Lifetime, Options, OptionsFor, Unit, expiry};
use super::{string, write_string};
use crate::ctx::Ctx;
use crate::error::{CmdResult, Error};
use crate::lock::Lock;
use crate::registry::Command;
use weft_command_spec::{Begin, Find, Flags, GetKeys, Group, KeySpec, Spec, Special, keys};
use weft_keyspace::db::Change;
use weft_keyspace::log::unit::Arg;
use weft_keyspace::{Classes, Key, Record};
use weft_types::RecordMut;
use weft_types::string::{Digits, New, overwrite, record, replacement};

pub const SET: Command = Command {
    spec: Spec {
        name: "set",
        arity: -3,
        flags: Flags::WRITE.or(Flags::DENYOOM),
        keys: &[KeySpec {
            flags: &["RW", "ACCESS", "UPDATE", "VARIABLE_FLAGS"],
            begin: Begin::Index(1),
            find: Find::Range { last: 0, step: 1, limit: 0 },
            notes: "RW and ACCESS because `GET` reads the old value",
        }],
        acl: &[],
        group: Group::String,
        since: "1.0.0",
        summary: "Sets the string value of a key, whatever its old type.",
        complexity: "O(1)",
        syntax: "key value [condition=(nx=NX@2.6.12|xx=XX@2.6.12|IFEQ comparison-value@8.1.0)] \
                 [get=GET]@6.2.0 [expiration=(EX seconds:integer@2.6.12|\
                 PX milliseconds:integer@2.6.12|EXAT unix-time-seconds:unix-time@6.2.0|\
                 PXAT unix-time-milliseconds:unix-time@6.2.0|keepttl=KEEPTTL@6.0.0)]",
        history: &[
            ("2.6.12", "Options `EX`, `PX`, `NX` and `XX`."),
            ("6.0.0", "Option `KEEPTTL`."),
            ("6.2.0", "Options `GET`, `EXAT` and `PXAT`."),
            ("7.0.0", "`NX` and `GET` can be combined."),
            ("8.1.0", "Option `IFEQ`."),
        ],
        tips: &[],
        special: Special::get_keys(GetKeys::Set),
    },
    lock: Lock::Keys,
    run: set,
    subcommands: &[],
};

pub const SETNX: Command = Command {
    spec: Spec {
        name: "setnx",
        arity: 3,
        flags: Flags::WRITE.or(Flags::DENYOOM).or(Flags::FAST),
        keys: &keys::one(&["OW", "INSERT"]),
        summary: "Sets the string value of a key unless the key exists.",
        syntax: "key value",
        history: &[],
        special: Special::NONE,
        ..SET.spec
    },
    run: setnx,
    ..SET
};

pub const SETEX: Command = Command {
    spec: Spec {
        name: "setex",
        arity: 4,
        flags: SET.spec.flags,
        keys: &keys::one(&["OW", "UPDATE"]),
        since: "2.0.0",
        summary: "Sets the string value of a key and its time to live in seconds.",
        syntax: "key seconds:integer value",
        history: &[],
        special: Special::NONE,
        ..SET.spec
    },
    run: setex,
    ..SET
};

pub const PSETEX: Command = Command {
    spec: Spec {
        name: "psetex",
        flags: SETEX.spec.flags,
        since: "2.6.0",
        summary: "Sets the string value of a key and its time to live in milliseconds.",
        syntax: "key milliseconds:integer value",
        special: Special::NONE,
        ..SETEX.spec
    },
    run: psetex,
    ..SET
};

pub const GETSET: Command = Command {
    spec: Spec {
        name: "getset",
        arity: 3,
        flags: Flags::WRITE.or(Flags::DENYOOM).or(Flags::FAST),
        keys: &keys::one(&["RW", "ACCESS", "UPDATE"]),
        summary: "Sets the string value of a key and returns the old value.",
        syntax: "key value",
        history: &[],
        special: Special::NONE,
        ..SET.spec
    },
    run: getset,
    ..SET
};

fn set(ctx: &mut Ctx<'_>) -> CmdResult {
    let options = match ctx.args {
        [_, _, _] => Options::default(),
        args => Options::parse(&args[3..], OptionsFor::Set, ctx.now_ms())?,
    };
    let stored = store(ctx, 2, options)?;
    match (options.get, stored) {
        (true, _) => {}
        (false, true) => ctx.reply.ok(),
        (false, false) => ctx.reply.null(),
    }
    Ok(())
}

fn setnx(ctx: &mut Ctx<'_>) -> CmdResult {
    let options = Options { condition: Condition::Absent, ..Options::default() };
    let stored = store(ctx, 2, options)?;
    ctx.reply.int(i64::from(stored));
    Ok(())
}

fn setex(ctx: &mut Ctx<'_>) -> CmdResult {
    set_until(ctx, Unit::Seconds, "setex")
}

fn psetex(ctx: &mut Ctx<'_>) -> CmdResult {
    set_until(ctx, Unit::Millis, "psetex")
}

fn set_until(ctx: &mut Ctx<'_>, unit: Unit, name: &str) -> CmdResult {
    let at = expiry(ctx.args[2], unit, ctx.now_ms(), name)?;
    store(ctx, 3, Options { lifetime: Lifetime::Until(at), ..Options::default() })?;
    ctx.reply.ok();
    Ok(())
}

fn getset(ctx: &mut Ctx<'_>) -> CmdResult {
    store(ctx, 2, Options { get: true, ..Options::default() })?;
    Ok(())
}

/// Sets the key at argument 1 to the value at argument `at` if the condition holds. Returns whether
/// it did. With `get`, writes the old value or null as the reply.
#[inline]
fn store(ctx: &mut Ctx<'_>, at: usize, options: Options<'_>) -> Result<bool, Error> {
    let key = ctx.key(1);
    let value = ctx.value(at);
    // The new value would expire at once, so SET only removes the old value.
    let expired_at_once = matches!(options.lifetime, Lifetime::Until(at) if at <= ctx.past_ms());
    if options.get && ctx.db.context.effects.wants(Classes::MISS) && !ctx.db.contains(&key) {
        ctx.notify(Classes::MISS, "keymiss", &key);
    }
    let reply = &mut *ctx.reply;
    let mut result = Ok(false);
    let mut found = false;
    ctx.db.alter(&key, |old, clock| {
        found = old.is_some();
        if options.get {
            match &old {
                Some(old) => result = write_string(reply, old).map(|()| false),
                None => reply.null(),
            }
        }
        if result.is_ok() {
            result = condition_holds(options.condition, old.as_deref());
        }
        match result {
            Ok(true) if expired_at_once => Change::Remove,
            Ok(true) => write(&key, value, options.lifetime, old, clock),
            Ok(false) | Err(_) => Change::Nothing,
        }
    });
    if let Ok(true) = result {
        if !ctx.db.context.effects.wanted().is_none() {
            notify_effects(ctx, &key, options.lifetime, expired_at_once, found);
        }
        let until = matches!(options.lifetime, Lifetime::Until(_));
        if (options.get || until) && (found || !expired_at_once) && ctx.is_logged() {
            log(ctx, &key, at, options.lifetime, expired_at_once);
        }
    }
    let tally = &mut ctx.db.context.tally;
    if options.get {
        tally.hits += u64::from(found);
        tally.misses += u64::from(!found);
    }
    if let Ok(true) = result {
        tally.expired += u64::from(expired_at_once && found);
        tally.dirty += u64::from(!expired_at_once || found);
    }
    result
}

/// Sends the notifications for a key that was set. With `expired_at_once`, the new value expired at
/// once, and the only effect is the removal of the old value, if one was `found`.
#[cold]
fn notify_effects(
    ctx: &mut Ctx<'_>,
    key: &Key<'_>,
    lifetime: Lifetime,
    expired_at_once: bool,
    found: bool,
) {
    if !expired_at_once {
        ctx.notify(Classes::STRING, "set", key);
        if let Lifetime::Until(_) = lifetime {
            ctx.notify(Classes::GENERIC, "expire", key);
        }
    } else if found {
        ctx.notify(Classes::EXPIRED, "expired", key);
    }
}

/// Logs a SET of the value at argument `value`, with an absolute time and without GET.
#[cold]
fn log(ctx: &mut Ctx<'_>, key: &Key<'_>, value: usize, lifetime: Lifetime, expired_at_once: bool) {
    if expired_at_once {
        return ctx.log_expired(key);
    }
    let name = if ctx.is(0, "set") { ctx.arg(0) } else { Arg::Bytes(b"SET") };
    let mut words = vec![name, ctx.arg(1), ctx.arg(value)];
    let text;
    match lifetime {
        Lifetime::Until(at) => {
            text = at.to_string();
            words.extend([Arg::Bytes(b"PXAT"), Arg::Bytes(text.as_bytes())]);
        }
        Lifetime::Unspecified | Lifetime::Keep | Lifetime::Persist => {
            let mut options = (3..ctx.args.len()).filter(|i| *i != value);
            while let Some(i) = options.next() {
                if !ctx.is(i, "get") {
                    words.push(ctx.arg(i));
                }
                if ctx.is(i, "ifeq") {
                    words.extend(options.next().map(|i| ctx.arg(i)));
                }
            }
        }
    }
    ctx.log_args(&words);
}

#[inline]
fn condition_holds(condition: Condition<'_>, old: Option<&Record>) -> Result<bool, Error> {
    Ok(match (condition, old) {
        (Condition::Always, _) => true,
        (Condition::Absent, old) => old.is_none(),
        (Condition::Present, old) => old.is_some(),
        (Condition::Equals(_), None) => false,
        (Condition::Equals(wanted), Some(old)) => {
            string(old)?.text(&mut Digits::new()).equals(wanted)
        }
    })
}

/// Sets `key` to `value`; `old` is its current record.
#[inline]
pub(super) fn write(
    key: &Key<'_>,
    value: New<'_>,
    lifetime: Lifetime,
    old: Option<RecordMut<'_>>,
    clock: u32,
) -> Change {
    let expiry = match lifetime {
        Lifetime::Until(at) => Some(at),
        Lifetime::Keep => old.as_ref().and_then(|old| old.expiry()),
        Lifetime::Unspecified | Lifetime::Persist => None,
    };
    let Some(mut old) = old else {
        return Change::Store(record(key.bytes, value, expiry, clock));
    };
    if overwrite(&mut old, &value, expiry) {
        Change::InPlace
    } else {
        Change::Store(replacement(&old, value, expiry, clock))
    }
}

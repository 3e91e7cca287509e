//! HGETEX and HGETDEL: read fields and change or remove them.

use super::fields::{
    NUMFIELDS, TimeOption, changed, fields_after, fields_after_key, fields_position,
};
use super::log::ChangedFields;
use super::{bulk, hash};
use crate::ctx::Ctx;
use crate::error::{CmdResult, Error, SYNTAX, WRONG_TYPE};
use crate::lock::Lock;
use crate::registry::Command;
use weft_command_spec::{Flags, Group, Spec, Special, keys};
use weft_keyspace::Classes;
use weft_keyspace::db::Rework;
use weft_types::Record;
use weft_types::hash::{self, Pair, is_hash};

pub const HGETEX: Command = Command {
    spec: Spec {
        name: "hgetex",
        arity: -5,
        flags: Flags::WRITE.or(Flags::FAST),
        keys: &keys::one(&["RW", "ACCESS", "UPDATE"]),
        acl: &[],
        group: Group::Hash,
        since: "9.0.0",
        summary: "Returns the values of fields and optionally changes their expiry.",
        complexity: "O(N) where N is the number of fields given.",
        syntax: "key [expiration=(EX seconds:integer|PX milliseconds:integer|\
                 EXAT unix-time-seconds:unix-time|PXAT unix-time-milliseconds:unix-time|\
                 persist=PERSIST)] FIELDS fields=(numfields:integer# field...)",
        history: &[],
        tips: &[],
        special: Special::NONE,
    },
    lock: Lock::Keys,
    run: hgetex,
    subcommands: &[],
};

pub const HGETDEL: Command = Command {
    spec: Spec {
        name: "hgetdel",
        flags: HGETEX.spec.flags,
        keys: &keys::one(&["RW", "ACCESS", "DELETE"]),
        since: "9.1.0",
        summary: "Returns the values of fields and removes them. Removes the key with the last field.",
        syntax: "key FIELDS fields=(numfields:integer# field...)",
        special: Special::NONE,
        ..HGETEX.spec
    },
    run: hgetdel,
    ..HGETEX
};

/// The change of expiry that HGETEX makes.
#[derive(Clone, Copy)]
enum ExpiryChange<'a> {
    Nothing,
    Expire(TimeOption<'a>),
    Persist,
}

/// The option of HGETEX in these arguments. A repeated option is not an error.
fn parse<'a>(mut options: &[&'a [u8]]) -> Result<ExpiryChange<'a>, Error> {
    let mut change_of_expiry = ExpiryChange::Nothing;
    loop {
        let option;
        (option, options) = match options {
            [] => return Ok(change_of_expiry),
            [word, rest @ ..] if word.eq_ignore_ascii_case(b"persist") => {
                (ExpiryChange::Persist, rest)
            }
            [word, text, rest @ ..] => {
                (TimeOption::option(word, text).map(ExpiryChange::Expire).ok_or(SYNTAX)?, rest)
            }
            [_] => return Err(SYNTAX),
        };
        change_of_expiry = match (change_of_expiry, option) {
            (ExpiryChange::Nothing | ExpiryChange::Persist, ExpiryChange::Persist) => {
                ExpiryChange::Persist
            }
            (ExpiryChange::Nothing, ExpiryChange::Expire(when)) => ExpiryChange::Expire(when),
            (ExpiryChange::Expire(old), ExpiryChange::Expire(new)) if old.same_option_as(new) => {
                ExpiryChange::Expire(new)
            }
            (ExpiryChange::Nothing | ExpiryChange::Expire(_) | ExpiryChange::Persist, _) => {
                return Err(SYNTAX);
            }
        };
    }
}

fn hgetex(ctx: &mut Ctx<'_>) -> CmdResult {
    let fields = fields_position(ctx.args, 2)?;
    let change_of_expiry = parse(&ctx.args[2..fields])?;
    fields_after(ctx, fields, 1)?;
    ctx.weigh_args()?;
    let (key, now, past) = (ctx.key(1), ctx.over_ms(), ctx.past_ms());
    // HGETEX is a read that may write: it counts as a read.
    if ctx.db.inspect(&key).is_some_and(|record| !is_hash(&record)) {
        return Err(WRONG_TYPE);
    }
    let expiry = match change_of_expiry {
        ExpiryChange::Nothing => {
            return each(ctx, fields + 2, "", |_| false, |record, _| record).map(|_| ());
        }
        ExpiryChange::Expire(when) => Some(when.at(ctx.now_ms(), "hgetex")?),
        ExpiryChange::Persist => None,
    };
    let event = match expiry {
        None => "hpersist",
        Some(at) if at <= past => "hexpired",
        Some(_) => "hexpire",
    };
    let (done, changes) = each(
        ctx,
        fields + 2,
        event,
        |pair| expiry.is_some() || pair.expiry.is_some(),
        |record, field| match expiry {
            Some(at) if at <= past => hash::remove(record, field, now).0,
            Some(_) | None => hash::expire(record, field, expiry),
        },
    )?;
    if expiry.is_some_and(|at| at <= past) {
        ctx.db.context.tally.expired_fields += changes;
    }
    if ctx.is_changed_for_log() {
        match expiry {
            None => done.log(ctx, &[b"HPERSIST", key.bytes]),
            Some(at) if at <= past => done.log_removed(ctx, &key),
            Some(at) => done.log(ctx, &[b"HPEXPIREAT", key.bytes, at.to_string().as_bytes()]),
        }
    }
    Ok(())
}

fn hgetdel(ctx: &mut Ctx<'_>) -> CmdResult {
    fields_after_key(ctx, &NUMFIELDS)?;
    ctx.weigh_args()?;
    let now = ctx.over_ms();
    let (removed_fields, _) =
        each(ctx, 4, "hdel", |_| true, |record, field| hash::remove(record, field, now).0)?;
    if removed_fields.stale {
        removed_fields.log_removed(ctx, &ctx.key(1));
    }
    Ok(())
}

/// Replies with the value of every field from argument `first` on, and applies `change` to the
/// fields for which `wants` is true. Notifies of `event` if any field changed. Returns the changed
/// fields, for the log, and their number.
fn each<'a>(
    ctx: &mut Ctx<'a>,
    first: usize,
    event: &'static str,
    wants: impl Fn(Pair<'_>) -> bool,
    change: impl Fn(Record, &[u8]) -> Record,
) -> Result<(ChangedFields<'a>, u64), Error> {
    let (key, now) = (ctx.key(1), ctx.over_ms());
    let fields: &'a [&'a [u8]] = &ctx.args[first..];
    let mut done = ChangedFields::new(ctx);
    let reply = &mut *ctx.reply;
    let mut emptied = false;
    let changes = ctx.db.rework(&key, |record, _| {
        let mut record = match record {
            None => {
                reply.array(fields.len());
                fields.iter().for_each(|_| reply.null());
                return (Rework::Absent, Ok(0));
            }
            Some(record) if !is_hash(&record) => return (Rework::Same(record), Err(WRONG_TYPE)),
            Some(record) => record,
        };
        reply.array(fields.len());
        let mut changes = 0;
        for field in fields {
            let Some(pair) = hash(&record, now).ok().and_then(|hash| hash.find(field)) else {
                reply.null();
                done.note_missing(&record, field);
                continue;
            };
            bulk(reply, pair.value);
            if wants(pair) {
                record = change(record, field);
                done.push(field);
                changes += 1;
            }
        }
        emptied = hash::len(&record) == 0;
        (changed(record, changes), Ok(changes))
    })?;
    if changes > 0 {
        ctx.notify(Classes::HASH, event, &key);
    }
    if emptied {
        ctx.notify(Classes::GENERIC, "del", &key);
    }
    ctx.db.context.tally.dirty += changes;
    Ok((done, changes))
}

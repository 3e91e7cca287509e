//! HEXPIRE and its variants set the expiry of fields; HPERSIST removes it.
//!
//! The reply has one number for each field: -2 the field does not exist, -1 it has no expiry, 0 the
//! condition is not met, 1 done, 2 the time has passed and the field was removed.

use super::fields::{
    NUMFIELDS, TimeOption, changed, fields_after, fields_after_key, fields_position,
};
use super::hash;
use super::log::ChangedFields;
use crate::ctx::Ctx;
use crate::error::{CmdResult, Error, WRONG_TYPE};
use crate::generic::expire::{Base, Condition, Unit};
use crate::lock::Lock;
use crate::registry::Command;
use weft_command_spec::{Flags, Group, KeySpec, Spec, Special, keys};
use weft_keyspace::Classes;
use weft_keyspace::db::Rework;
use weft_types::Record;
use weft_types::hash::{self, is_hash};

const KEY: &[KeySpec] = &keys::one(&["RW", "UPDATE"]);

const fn command(
    name: &'static str,
    summary: &'static str,
    syntax: &'static str,
    run: fn(&mut Ctx<'_>) -> CmdResult,
) -> Command {
    let spec = Spec {
        name,
        arity: -6,
        flags: Flags::WRITE.or(Flags::FAST),
        keys: KEY,
        acl: &[],
        group: Group::Hash,
        since: "9.0.0",
        summary,
        complexity: "O(N) where N is the number of fields given.",
        syntax,
        history: &[],
        tips: &[],
        special: Special::NONE,
    };
    Command { spec, lock: Lock::Keys, run, subcommands: &[] }
}

pub const HEXPIRE: Command = command(
    "hexpire",
    "Sets the expiry of fields of a hash in seconds from now.",
    "key seconds:integer [condition=(nx=NX|xx=XX|gt=GT|lt=LT)] \
     FIELDS fields=(numfields:integer field...)",
    |ctx| expire(ctx, "hexpire", Unit::Seconds, Base::Now),
);

pub const HPEXPIRE: Command = command(
    "hpexpire",
    "Sets the expiry of fields of a hash in milliseconds from now.",
    "key milliseconds:integer [condition=(nx=NX|xx=XX|gt=GT|lt=LT)]@9.0.0 \
     FIELDS fields=(numfields:integer# field...)",
    |ctx| expire(ctx, "hpexpire", Unit::Milliseconds, Base::Now),
);

pub const HEXPIREAT: Command = command(
    "hexpireat",
    "Sets the expiry of fields of a hash to a Unix time in seconds.",
    "key unix-time-seconds:integer [condition=(nx=NX|xx=XX|gt=GT|lt=LT)]@9.0.0 \
     FIELDS fields=(numfields:integer# field...)",
    |ctx| expire(ctx, "hexpireat", Unit::Seconds, Base::Epoch),
);

pub const HPEXPIREAT: Command = command(
    "hpexpireat",
    "Sets the expiry of fields of a hash to a Unix time in milliseconds.",
    "key unix-time-milliseconds:integer [condition=(nx=NX|xx=XX|gt=GT|lt=LT)]@9.0.0 \
     FIELDS fields=(numfields:integer# field...)",
    |ctx| expire(ctx, "hpexpireat", Unit::Milliseconds, Base::Epoch),
);

pub const HPERSIST: Command = Command {
    spec: Spec {
        name: "hpersist",
        arity: -5,
        flags: HEXPIRE.spec.flags,
        summary: "Removes the expiry of fields of a hash.",
        syntax: "key FIELDS fields=(numfields:integer# field...)",
        special: Special::NONE,
        ..HEXPIRE.spec
    },
    run: hpersist,
    ..HEXPIRE
};

const NO_FIELD: i64 = -2;
const NO_EXPIRY: i64 = -1;
const NOT_MET: i64 = 0;
const DONE: i64 = 1;
const REMOVED: i64 = 2;

fn expire(ctx: &mut Ctx<'_>, name: &str, unit: Unit, base: Base) -> CmdResult {
    let fields = fields_position(ctx.args, 3)?;
    let condition = Condition::parse(&ctx.args[3..fields])?;
    fields_after(ctx, fields, 1)?;
    ctx.weigh_args()?;
    let (now, past) = (ctx.over_ms(), ctx.past_ms());
    let at = TimeOption { text: ctx.args[2], unit, base }.at(ctx.now_ms(), name)?;
    let event = if at <= past { "hexpired" } else { "hexpire" };
    let done = each(ctx, fields + 2, event, |record, field| {
        let Some(found) = hash(&record, now).ok().and_then(|hash| hash.find(field)) else {
            return (record, NO_FIELD);
        };
        if !condition.allows(found.expiry, at) {
            return (record, NOT_MET);
        }
        if at <= past {
            return (hash::remove(record, field, now).0, REMOVED);
        }
        (hash::expire(record, field, Some(at)), DONE)
    })?;
    if ctx.is_changed_for_log() {
        log(ctx, &done, at);
    }
    Ok(())
}

/// Logs that the fields in `done` expire at this time.
#[cold]
fn log(ctx: &mut Ctx<'_>, done: &ChangedFields<'_>, at: i64) {
    let (key, text) = (ctx.key(1), at.to_string());
    let words = [b"HPEXPIREAT", key.bytes, text.as_bytes()];
    if at <= ctx.past_ms() {
        done.log_removed(ctx, &key);
    } else if done.stale {
        done.log(ctx, &words);
    } else {
        ctx.log(&[&words, &ctx.args[3..]].concat());
    }
}

fn hpersist(ctx: &mut Ctx<'_>) -> CmdResult {
    fields_after_key(ctx, &NUMFIELDS)?;
    ctx.weigh_args()?;
    let now = ctx.over_ms();
    let done = each(ctx, 4, "hpersist", |record, field| {
        let found = hash(&record, now).ok().and_then(|hash| hash.find(field));
        match found.map(|pair| pair.expiry) {
            None => (record, NO_FIELD),
            Some(None) => (record, NO_EXPIRY),
            Some(Some(_)) => (hash::expire(record, field, None), DONE),
        }
    })?;
    if done.stale {
        done.log(ctx, &[b"HPERSIST", ctx.args[1]]);
    }
    Ok(())
}

/// Applies `one` to every field from argument `first` on and replies with its codes. Notifies of
/// `event` if any field changed. Returns the changed fields, for the log.
fn each<'a>(
    ctx: &mut Ctx<'a>,
    first: usize,
    event: &'static str,
    mut one: impl FnMut(Record, &[u8]) -> (Record, i64),
) -> Result<ChangedFields<'a>, Error> {
    let key = ctx.key(1);
    let fields: &'a [&'a [u8]] = &ctx.args[first..];
    let mut done = ChangedFields::new(ctx);
    let reply = &mut *ctx.reply;
    let (mut removed, mut emptied) = (0, false);
    let changes = ctx.db.rework(&key, |record, _| {
        let mut record = match record {
            None => {
                reply.array(fields.len());
                fields.iter().for_each(|_| reply.int(NO_FIELD));
                return (Rework::Absent, Ok(0));
            }
            Some(record) if !is_hash(&record) => return (Rework::Same(record), Err(WRONG_TYPE)),
            Some(record) => record,
        };
        reply.array(fields.len());
        let mut changes = 0;
        for field in fields {
            let code;
            (record, code) = one(record, field);
            reply.int(code);
            match code {
                DONE | REMOVED => {
                    changes += 1;
                    removed += u64::from(code == REMOVED);
                    done.push(field);
                }
                NO_FIELD => done.note_missing(&record, field),
                _ => {}
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
    ctx.db.context.tally.expired_fields += removed;
    Ok(done)
}

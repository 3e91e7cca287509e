//! HSETEX: sets fields together with their expiry.

use super::fields::{TimeOption, changed, fields_after, fields_position};
use super::log::{ChangedFields, fields_present};
use super::{hash, notify_set};
use crate::ctx::Ctx;
use crate::error::{CmdResult, Error, SYNTAX, WRONG_TYPE};
use crate::lock::Lock;
use crate::registry::Command;
use weft_command_spec::{Flags, Group, Spec, Special, keys};
use weft_keyspace::db::Rework;
use weft_keyspace::{Classes, Key};
use weft_types::Limits;
use weft_types::Record;
use weft_types::hash::{self, Old, create, is_hash, len};

pub const HSETEX: Command = Command {
    spec: Spec {
        name: "hsetex",
        arity: -6,
        flags: Flags::WRITE.or(Flags::DENYOOM).or(Flags::FAST),
        keys: &keys::one(&["RW", "INSERT"]),
        acl: &[],
        group: Group::Hash,
        since: "9.0.0",
        summary: "Sets fields of a hash and their expiry, optionally under conditions.",
        complexity: "O(N) where N is the number of fields given.",
        syntax: "key [key-condition=(nx=NX|xx=XX)] [fields-condition=(fnx=FNX|fxx=FXX)] \
                 [expiration=(EX seconds:integer|PX milliseconds:integer|\
                 EXAT unix-time-seconds:unix-time|PXAT unix-time-milliseconds:unix-time|\
                 keepttl=KEEPTTL)] FIELDS fields=(numfields:integer# data=(field value)...)",
        history: &[],
        tips: &[],
        special: Special::NONE,
    },
    lock: Lock::Keys,
    run: hsetex,
    subcommands: &[],
};

/// The expiry of the fields to set.
#[derive(Clone, Copy)]
enum Expiry<T> {
    Never,
    /// Keep the previous expiry.
    Keep,
    At(T),
}

#[derive(Clone, Copy)]
struct Options<'a> {
    /// Whether the key must exist (`true`) or must not.
    key: Option<bool>,
    /// Whether all fields must exist (`true`) or none may.
    fields: Option<bool>,
    expiry: Expiry<TimeOption<'a>>,
}

/// Sets a condition; the opposite condition must not be set already.
fn set_condition(condition: &mut Option<bool>, wanted: bool) -> CmdResult {
    if condition.is_some_and(|old| old != wanted) {
        return Err(SYNTAX);
    }
    *condition = Some(wanted);
    Ok(())
}

impl<'a> Options<'a> {
    /// Parses these arguments. A repeated option is not an error.
    fn parse(mut words: &[&'a [u8]]) -> Result<Options<'a>, Error> {
        let mut options = Options { key: None, fields: None, expiry: Expiry::Never };
        while let [word, rest @ ..] = words {
            words = rest;
            match word.to_ascii_lowercase().as_slice() {
                b"nx" => set_condition(&mut options.key, false)?,
                b"xx" => set_condition(&mut options.key, true)?,
                b"fnx" => set_condition(&mut options.fields, false)?,
                b"fxx" => set_condition(&mut options.fields, true)?,
                b"keepttl" => match options.expiry {
                    Expiry::Never | Expiry::Keep => options.expiry = Expiry::Keep,
                    Expiry::At(_) => return Err(SYNTAX),
                },
                _ => {
                    let (text, rest) = rest.split_first().ok_or(SYNTAX)?;
                    let new = TimeOption::option(word, text).ok_or(SYNTAX)?;
                    match options.expiry {
                        Expiry::Never => {}
                        Expiry::At(old) if old.same_option_as(new) => {}
                        Expiry::At(_) | Expiry::Keep => return Err(SYNTAX),
                    }
                    options.expiry = Expiry::At(new);
                    words = rest;
                }
            }
        }
        Ok(options)
    }
}

fn hsetex(ctx: &mut Ctx<'_>) -> CmdResult {
    let at = fields_position(ctx.args, 2)?;
    let options = Options::parse(&ctx.args[2..at])?;
    fields_after(ctx, at, 2)?;
    ctx.weigh_args()?;
    let data = &ctx.args[at + 2..];
    let (key, now) = (ctx.key(1), ctx.over_ms());
    let past = ctx.past_ms();
    let key_exists = match ctx.db.peek(&key) {
        Some(record) if !is_hash(&record) => return Err(WRONG_TYPE),
        Some(_) => true,
        None => false,
    };
    if options.key.is_some_and(|wanted| wanted != key_exists) {
        // It counts as an access nevertheless.
        let _ = ctx.db.for_write(&key);
        ctx.reply.int(0);
        return Ok(());
    }
    let expiry = match options.expiry {
        Expiry::Never => Expiry::Never,
        Expiry::Keep => Expiry::Keep,
        Expiry::At(when) => Expiry::At(when.at(ctx.now_ms(), "hsetex")?),
    };
    let expired_at_once = matches!(expiry, Expiry::At(at) if at <= past);
    // For the log: the fields that this command removes, or the expired ones, whose expiry KEEPTTL
    // must not keep.
    let before = match expiry {
        Expiry::Keep => fields_present(ctx, &key, data.iter().step_by(2).copied(), true),
        Expiry::At(_) if expired_at_once => {
            fields_present(ctx, &key, data.iter().step_by(2).copied(), false)
        }
        Expiry::At(_) | Expiry::Never => ChangedFields::default(),
    };
    let limits = &ctx.settings.limits;
    let (mut expired, mut emptied) = (0, false);
    let changes = ctx.db.rework(&key, |record, clock| {
        let has = |field| {
            let hash = record.as_ref().and_then(|record| hash(record, now).ok());
            hash.is_some_and(|hash| hash.get(field).is_some())
        };
        if options.fields.is_some_and(|all| data.chunks(2).any(|pair| has(pair[0]) != all)) {
            return (record.map_or(Rework::Absent, Rework::Same), None);
        }
        match (record, expiry) {
            // A hash whose new fields expire at once is not created first.
            (None, Expiry::At(at)) if at <= past => {
                emptied = true;
                (Rework::Absent, Some(0))
            }
            (record, _) => {
                let mut record = record.unwrap_or_else(|| create(key.bytes, &[], clock, limits));
                let changes;
                (record, changes, expired) = set_all(record, data, expiry, [now, past], limits);
                emptied = len(&record) == 0;
                (changed(record, changes), Some(changes))
            }
        }
    });
    if changes.is_some() {
        notify_effects(ctx, &key, expiry, expired, [!key_exists, emptied]);
        if expired_at_once {
            // Each field counts as expired, even one that did not exist.
            ctx.db.context.tally.expired_fields += data.len() as u64 / 2;
        }
    }
    if ctx.is_changed_for_log() {
        log(ctx, expiry, &before, at);
    }
    ctx.db.context.tally.dirty += changes.unwrap_or(0);
    ctx.reply.int(i64::from(changes.is_some()));
    Ok(())
}

/// Logs the changes of the fields from argument `at` on, without the conditions.
#[cold]
fn log(ctx: &mut Ctx<'_>, expiry: Expiry<i64>, before: &ChangedFields<'_>, at: usize) {
    let key = ctx.key(1);
    let data = &ctx.args[at..];
    match expiry {
        Expiry::At(time) if time <= ctx.past_ms() => before.log_removed(ctx, &key),
        Expiry::At(time) => {
            let time = time.to_string();
            ctx.log(&[&[b"HSETEX", key.bytes, b"PXAT", time.as_bytes()], data].concat());
        }
        Expiry::Never => ctx.log(&[&[b"HSETEX", key.bytes], data].concat()),
        Expiry::Keep => {
            before.log(ctx, &[b"HPERSIST", key.bytes]);
            ctx.log(&[&[b"HSETEX", key.bytes, b"KEEPTTL"], data].concat());
        }
    }
}

/// Sends the notifications for the fields that were set. With an expiry in the past, the events are
/// those of a key that is created and then emptied.
fn notify_effects(
    ctx: &mut Ctx<'_>,
    key: &Key<'_>,
    expiry: Expiry<i64>,
    expired: u64,
    [new, emptied]: [bool; 2],
) {
    let expired_at_once = matches!(expiry, Expiry::At(at) if at <= ctx.past_ms());
    if expired_at_once && new {
        ctx.notify(Classes::NEW, "new", key);
    }
    notify_set(ctx, key, "hset", expired);
    if let Expiry::At(_) = expiry {
        ctx.notify(Classes::HASH, "hexpire", key);
    }
    if expired_at_once {
        ctx.notify(Classes::HASH, "hexpired", key);
    }
    if emptied {
        ctx.notify(Classes::GENERIC, "del", key);
    }
}

/// Sets the fields in `data`, or removes them if the expiry is in the past. Returns how many
/// changed, and how many of the fields that were set had expired.
fn set_all(
    mut record: Record,
    data: &[&[u8]],
    expiry: Expiry<i64>,
    [now_ms, past_ms]: [i64; 2],
    limits: &Limits,
) -> (Record, u64, u64) {
    let (mut changes, mut expired) = (0, 0);
    for pair in data.chunks_exact(2) {
        let (field, value) = (pair[0], pair[1]);
        if let Expiry::At(at) = expiry
            && at <= past_ms
        {
            let old;
            (record, old) = hash::remove(record, field, now_ms);
            changes += u64::from(old == Old::Live);
            continue;
        }
        let expiry = match expiry {
            Expiry::Never => None,
            Expiry::At(at) => Some(at),
            Expiry::Keep => {
                let old = hash(&record, now_ms).ok().and_then(|hash| hash.find(field));
                old.and_then(|pair| pair.expiry)
            }
        };
        let old;
        (record, old) = hash::set(record, field, value, expiry, now_ms, limits);
        expired += u64::from(old == Old::Expired);
        changes += 1;
    }
    (record, changes, expired)
}

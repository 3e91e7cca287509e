//! HINCRBY and HINCRBYFLOAT: fields that hold numbers. A field keeps its expiry.

use super::{hash, notify_set};
use crate::ctx::Ctx;
use crate::error::{CmdResult, Error, NOT_A_FLOAT};
use crate::lock::Lock;
use crate::registry::Command;
use weft_base::long_double::LongDouble;
use weft_command_spec::{Flags, Group, Spec, Special, keys};
use weft_keyspace::db::Rework;
use weft_types::hash::{self, Old, create};
use weft_types::packed::Value;
use weft_types::string::Digits;

pub const HINCRBY: Command = Command {
    spec: Spec {
        name: "hincrby",
        arity: 4,
        flags: Flags::WRITE.or(Flags::DENYOOM).or(Flags::FAST),
        keys: &keys::one(&["RW", "ACCESS", "UPDATE"]),
        acl: &[],
        group: Group::Hash,
        since: "2.0.0",
        summary: "Adds a number to the integer value of a field; a missing field counts as 0.",
        complexity: "O(1)",
        syntax: "key field increment:integer",
        history: &[],
        tips: &[],
        special: Special::NONE,
    },
    lock: Lock::Keys,
    run: hincrby,
    subcommands: &[],
};

pub const HINCRBYFLOAT: Command = Command {
    spec: Spec {
        name: "hincrbyfloat",
        flags: HINCRBY.spec.flags,
        since: "2.6.0",
        summary: "Adds a number to the decimal value of a field; a missing field counts as 0.",
        syntax: "key field increment:double",
        special: Special::NONE,
        ..HINCRBY.spec
    },
    run: hincrbyfloat,
    ..HINCRBY
};

const NOT_AN_INTEGER: Error = Error::new("ERR hash value is not an integer");
const OVERFLOW: Error = Error::new("ERR increment or decrement would overflow");
const VALUE_NOT_A_FLOAT: Error = Error::new("ERR hash value is not a float");
const NOT_FINITE: Error = Error::new("ERR value is NaN or Infinity");
const SUM_NOT_FINITE: Error = Error::new("ERR increment would produce NaN or Infinity");

fn hincrby(ctx: &mut Ctx<'_>) -> CmdResult {
    let increment = ctx.int(3)?;
    let sum = replace(ctx, "hincrby", false, |old| {
        let old = old.map_or(Some(0), Value::int).ok_or(NOT_AN_INTEGER)?;
        let sum = old.checked_add(increment).ok_or(OVERFLOW)?;
        Ok((sum, Digits::new().format(sum).as_bytes().to_vec()))
    })?;
    ctx.reply.int(sum);
    Ok(())
}

fn hincrbyfloat(ctx: &mut Ctx<'_>) -> CmdResult {
    let increment = LongDouble::parse(ctx.args[3]).ok_or(NOT_A_FLOAT)?;
    if !increment.is_finite() {
        return Err(NOT_FINITE);
    }
    let sum = replace(ctx, "hincrbyfloat", true, |old| {
        let old = old.unwrap_or(Value::Int(0));
        let old = LongDouble::parse(old.bytes(&mut Digits::new())).ok_or(VALUE_NOT_A_FLOAT)?;
        let sum = old.add(increment).format().ok_or(SUM_NOT_FINITE)?;
        Ok((sum.clone(), sum))
    })?;
    ctx.reply.bulk(&sum);
    Ok(())
}

/// Replaces the value of the field at argument 2 by the text that `change` returns, and returns the
/// other result of `change`. Notifies of `event`. Logs the result if `log_result` is set or fields
/// of the hash can expire.
#[inline]
fn replace<T>(
    ctx: &mut Ctx<'_>,
    event: &'static str,
    log_result: bool,
    change: impl FnOnce(Option<Value<'_>>) -> Result<(T, Vec<u8>), Error>,
) -> Result<T, Error> {
    let (key, now) = (ctx.key(1), ctx.over_ms());
    let field = ctx.args[2];
    let limits = &ctx.settings.limits;
    let mut expired = false;
    let mut result = ctx.is_logged().then(|| (Vec::new(), None));
    let answer = ctx.db.rework(&key, |record, clock| {
        let old = match &record {
            Some(record) => hash(record, now).map(|hash| hash.find(field)),
            None => Ok(None),
        };
        let changed = old.and_then(|old| {
            let (answer, text) = change(old.map(|pair| pair.value))?;
            Ok((answer, text, old.and_then(|pair| pair.expiry)))
        });
        match (changed, record) {
            (Err(error), None) => (Rework::Absent, Err(error)),
            (Err(error), Some(record)) => (Rework::Same(record), Err(error)),
            (Ok((answer, text, expiry)), record) => {
                let record = record.unwrap_or_else(|| create(key.bytes, &[], clock, limits));
                let (record, old) = hash::set(record, field, &text, expiry, now, limits);
                expired = old == Old::Expired;
                match &mut result {
                    Some(result) if log_result || expired || hash::has_expiring_fields(&record) => {
                        *result = (text, expiry);
                    }
                    Some(_) | None => result = None,
                }
                (Rework::Changed(record), Ok(answer))
            }
        }
    })?;
    notify_set(ctx, &key, event, u64::from(expired));
    match result {
        None => {}
        // A field that expired here may still exist where the log is replayed, and arithmetic may
        // differ there.
        Some((text, None)) => ctx.log(&[b"HSET", key.bytes, field, &text]),
        Some((text, Some(at))) => {
            let at = at.to_string();
            let when = [b"HSETEX", key.bytes, b"PXAT", at.as_bytes()];
            ctx.log(&[&when[..], &[b"FIELDS", b"1", field, &text]].concat());
        }
    }
    ctx.dirty();
    Ok(answer)
}

//! INCR, DECR, INCRBY, DECRBY and INCRBYFLOAT: values that hold numbers.
//!
//! An integer is stored as eight bytes and updated in place. INCRBYFLOAT computes in the 80-bit
//! format of x86 C compilers, as Redis does, but in software (see [`weft_base::long_double`]). So
//! every machine stores the same digits.

use super::string;
use crate::ctx::Ctx;
use crate::error::{CmdResult, Error, NOT_AN_INTEGER};
use crate::lock::Lock;
use crate::registry::Command;
use weft_base::long_double::add_and_format_long_double;
use weft_command_spec::{Flags, Group, Spec, Special, keys};
use weft_keyspace::db::Change;
use weft_keyspace::{Classes, Record};
use weft_types::string::{Digits, overwrite_int, record_int, record_text};

pub const INCR: Command = Command {
    spec: Spec {
        name: "incr",
        arity: 2,
        flags: Flags::WRITE.or(Flags::DENYOOM).or(Flags::FAST),
        keys: &keys::one(&["RW", "ACCESS", "UPDATE"]),
        acl: &[],
        group: Group::String,
        since: "1.0.0",
        summary: "Adds one to the integer value of a key; a missing key counts as 0.",
        complexity: "O(1)",
        syntax: "key",
        history: &[],
        tips: &[],
        special: Special::NONE,
    },
    lock: Lock::Keys,
    run: |ctx| add(ctx, 1),
    subcommands: &[],
};

pub const DECR: Command = Command {
    spec: Spec {
        name: "decr",
        flags: INCR.spec.flags,
        summary: "Subtracts one from the integer value of a key; a missing key counts as 0.",
        special: Special::NONE,
        ..INCR.spec
    },
    run: |ctx| add(ctx, -1),
    ..INCR
};

pub const INCRBY: Command = Command {
    spec: Spec {
        name: "incrby",
        arity: 3,
        flags: INCR.spec.flags,
        summary: "Adds a number to the integer value of a key; a missing key counts as 0.",
        syntax: "key increment:integer",
        special: Special::NONE,
        ..INCR.spec
    },
    run: incrby,
    ..INCR
};

pub const DECRBY: Command = Command {
    spec: Spec {
        name: "decrby",
        flags: INCRBY.spec.flags,
        summary: "Subtracts a number from the integer value of a key; a missing key counts as 0.",
        syntax: "key decrement:integer",
        special: Special::NONE,
        ..INCRBY.spec
    },
    run: decrby,
    ..INCR
};

pub const INCRBYFLOAT: Command = Command {
    spec: Spec {
        name: "incrbyfloat",
        flags: INCRBY.spec.flags,
        since: "2.6.0",
        summary: "Adds a number to the decimal value of a key; a missing key counts as 0.",
        syntax: "key increment:double",
        special: Special::NONE,
        ..INCRBY.spec
    },
    run: incrbyfloat,
    ..INCR
};

const OVERFLOW: Error = Error::new("ERR increment or decrement would overflow");
const NEGATION_OVERFLOW: Error = Error::new("ERR decrement would overflow");

fn incrby(ctx: &mut Ctx<'_>) -> CmdResult {
    let n = ctx.int(2)?;
    add(ctx, n)
}

fn decrby(ctx: &mut Ctx<'_>) -> CmdResult {
    let n = ctx.int(2)?.checked_neg().ok_or(NEGATION_OVERFLOW)?;
    add(ctx, n)
}

/// Adds `n` to the integer at argument 1.
#[inline]
fn add(ctx: &mut Ctx<'_>, n: i64) -> CmdResult {
    let key = ctx.key(1);
    let mut result = Ok(n);
    ctx.db.alter(&key, |old, clock| {
        let Some(mut old) = old else {
            return Change::Store(record_int(key.bytes, n, None, clock));
        };
        result = plus(&old, n);
        match result {
            Ok(sum) if overwrite_int(&mut old, sum) => Change::InPlace,
            Ok(sum) => Change::Store(record_int(key.bytes, sum, old.expiry(), clock)),
            Err(_) => Change::Nothing,
        }
    });
    let sum = result?;
    ctx.notify(Classes::STRING, "incrby", &key);
    ctx.dirty();
    ctx.reply.int(sum);
    Ok(())
}

#[inline]
fn plus(old: &Record, n: i64) -> Result<i64, Error> {
    string(old)?.int().ok_or(NOT_AN_INTEGER)?.checked_add(n).ok_or(OVERFLOW)
}

fn incrbyfloat(ctx: &mut Ctx<'_>) -> CmdResult {
    let key = ctx.key(1);
    let increment = ctx.args[2];
    let mut result = Ok(Vec::new());
    ctx.db.alter(&key, |old, clock| {
        let expiry = old.as_ref().and_then(|old| old.expiry());
        result = match &old {
            Some(old) => plus_float(old, increment),
            None => sum_of(b"0", increment),
        };
        match &result {
            // Stored as text even if the sum is an integer: clients see `embstr`.
            Ok(sum) => Change::Store(record_text(key.bytes, sum, expiry, clock)),
            Err(_) => Change::Nothing,
        }
    });
    let sum = result?;
    ctx.notify(Classes::STRING, "incrbyfloat", &key);
    // Log the result: a replica must not recompute it, since its arithmetic may differ.
    ctx.log(&[b"SET", key.bytes, &sum, b"KEEPTTL"]);
    ctx.dirty();
    ctx.reply.bulk(&sum);
    Ok(())
}

fn plus_float(old: &Record, increment: &[u8]) -> Result<Vec<u8>, Error> {
    // Every valid number fits into the first piece.
    sum_of(string(old)?.text(&mut Digits::new()).slice_from(0), increment)
}

fn sum_of(a: &[u8], b: &[u8]) -> Result<Vec<u8>, Error> {
    add_and_format_long_double(a, b).map_err(|e| Error::owned(format!("ERR {e}")))
}

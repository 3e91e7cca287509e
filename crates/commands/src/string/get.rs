//! GET, the reads that also change the key (GETDEL, GETEX), and DELIFEQ.

use super::options::{Lifetime, Options, OptionsFor};
use super::{string, write_string};
use crate::ctx::Ctx;
use crate::error::CmdResult;
use crate::lock::Lock;
use crate::registry::Command;
use weft_command_spec::{Begin, Find, Flags, Group, KeySpec, Spec, Special, keys};
use weft_keyspace::Classes;
use weft_types::string::Digits;

pub const GET: Command = Command {
    spec: Spec {
        name: "get",
        arity: 2,
        flags: Flags::READONLY.or(Flags::FAST),
        keys: &keys::one(&["RO", "ACCESS"]),
        acl: &[],
        group: Group::String,
        since: "1.0.0",
        summary: "Returns the string value of a key.",
        complexity: "O(1)",
        syntax: "key",
        history: &[],
        tips: &[],
        special: Special::NONE,
    },
    lock: Lock::Keys,
    run: get,
    subcommands: &[],
};

pub const GETDEL: Command = Command {
    spec: Spec {
        name: "getdel",
        flags: Flags::WRITE.or(Flags::FAST),
        keys: &keys::one(&["RW", "ACCESS", "DELETE"]),
        since: "6.2.0",
        summary: "Returns the string value of a key and removes the key.",
        special: Special::NONE,
        ..GET.spec
    },
    run: getdel,
    ..GET
};

pub const GETEX: Command = Command {
    spec: Spec {
        name: "getex",
        arity: -2,
        flags: Flags::WRITE.or(Flags::FAST),
        keys: &[KeySpec {
            flags: &["RW", "ACCESS", "UPDATE"],
            begin: Begin::Index(1),
            find: Find::Range { last: 0, step: 1, limit: 0 },
            notes: "RW and UPDATE because the time to live may change",
        }],
        since: "6.2.0",
        summary: "Returns the string value of a key and sets or removes its expiry.",
        syntax: "key [expiration=(EX seconds:integer|PX milliseconds:integer|\
                 EXAT unix-time-seconds:unix-time|PXAT unix-time-milliseconds:unix-time|\
                 persist=PERSIST)]",
        special: Special::NONE,
        ..GET.spec
    },
    run: getex,
    ..GET
};

pub const DELIFEQ: Command = Command {
    spec: Spec {
        name: "delifeq",
        arity: 3,
        flags: Flags::WRITE.or(Flags::FAST),
        keys: &keys::one(&["RM", "DELETE"]),
        since: "9.0.0",
        summary: "Removes a key if its value equals the given string.",
        syntax: "key value",
        special: Special::NONE,
        ..GET.spec
    },
    run: delifeq,
    ..GET
};

fn get(ctx: &mut Ctx<'_>) -> CmdResult {
    let key = ctx.key(1);
    match ctx.db.read(&key) {
        Some(record) => write_string(ctx.reply, &record),
        None => {
            ctx.reply.null();
            Ok(())
        }
    }
}

fn getdel(ctx: &mut Ctx<'_>) -> CmdResult {
    let key = ctx.key(1);
    let Some(record) = ctx.db.read(&key) else {
        ctx.reply.null();
        return Ok(());
    };
    write_string(ctx.reply, &record)?;
    ctx.db.delete(&key);
    ctx.notify(Classes::GENERIC, "del", &key);
    ctx.log(&[b"DEL", key.bytes]);
    ctx.dirty();
    Ok(())
}

fn getex(ctx: &mut Ctx<'_>) -> CmdResult {
    let key = ctx.key(1);
    let past = ctx.past_ms();
    let options = Options::parse(&ctx.args[2..], OptionsFor::GetEx, ctx.now_ms())?;
    let Some(record) = ctx.db.read(&key) else {
        ctx.reply.null();
        return Ok(());
    };
    write_string(ctx.reply, &record)?;
    let expires = record.has_expiry();
    match options.lifetime {
        Lifetime::Unspecified | Lifetime::Keep => return Ok(()),
        Lifetime::Persist if !expires => return Ok(()),
        Lifetime::Persist => {
            ctx.db.set_expiry(&key, None);
            ctx.notify(Classes::GENERIC, "persist", &key);
            ctx.log(&[b"PERSIST", key.bytes]);
        }
        Lifetime::Until(at) if at <= past => {
            ctx.db.delete(&key);
            ctx.notify(Classes::EXPIRED, "expired", &key);
            ctx.log_expired(&key);
            ctx.db.context.tally.expired += 1;
        }
        Lifetime::Until(at) => {
            ctx.db.set_expiry(&key, Some(at));
            ctx.notify(Classes::GENERIC, "expire", &key);
            if ctx.is_logged() {
                ctx.log(&[b"PEXPIREAT", key.bytes, at.to_string().as_bytes()]);
            }
        }
    }
    ctx.dirty();
    Ok(())
}

fn delifeq(ctx: &mut Ctx<'_>) -> CmdResult {
    let key = ctx.key(1);
    let equal = match ctx.db.for_write(&key) {
        Some(record) => string(&record)?.text(&mut Digits::new()).equals(ctx.args[2]),
        None => false,
    };
    if equal {
        ctx.db.delete(&key);
        ctx.notify(Classes::GENERIC, "del", &key);
        ctx.log(&[b"DEL", key.bytes]);
        ctx.dirty();
    }
    ctx.reply.int(i64::from(equal));
    Ok(())
}

//! MGET, MSET, MSETNX, MSETEX: several keys in one request.
//!
//! The server prefetches only the first key of a request. The others are prefetched here, a block
//! at a time, before the first key of the block is used. So a command with a hundred keys waits for
//! memory a few times instead of a hundred times. MGET and MSET hash each key once; the commands
//! with a condition go through their keys twice.

use super::options::{Condition, Lifetime, Options, OptionsFor, Unit};
use super::set::write;
use super::{string, write_string};
use crate::ctx::Ctx;
use crate::error::{CmdResult, Error, SYNTAX, wrong_arity};
use crate::lock::Lock;
use crate::registry::Command;
use smallvec::SmallVec;
use weft_base::num;
use weft_command_spec::{Begin, Find, Flags, Group, KeySpec, Spec, Special, keys};
use weft_keyspace::log::unit::Arg;
use weft_keyspace::{Classes, Key};

pub const MGET: Command = Command {
    spec: Spec {
        name: "mget",
        arity: -2,
        flags: Flags::READONLY.or(Flags::FAST),
        keys: &keys::all(1, &["RO", "ACCESS"]),
        acl: &[],
        group: Group::String,
        since: "1.0.0",
        summary: "Returns the string values of several keys atomically.",
        complexity: "O(N) where N is the number of keys.",
        syntax: "key...",
        history: &[],
        tips: &["request_policy:multi_shard"],
        special: Special::NONE,
    },
    lock: Lock::Keys,
    run: mget,
    subcommands: &[],
};

pub const MSET: Command = Command {
    spec: Spec {
        name: "mset",
        arity: -3,
        flags: Flags::WRITE.or(Flags::DENYOOM),
        keys: &keys::all(2, &["OW", "UPDATE"]),
        since: "1.0.1",
        summary: "Sets the string values of several keys atomically.",
        syntax: "data=(key value)...",
        tips: &["request_policy:multi_shard", "response_policy:all_succeeded"],
        special: Special::NONE,
        ..MGET.spec
    },
    run: mset,
    ..MGET
};

pub const MSETNX: Command = Command {
    spec: Spec {
        name: "msetnx",
        flags: MSET.spec.flags,
        keys: &keys::all(2, &["OW", "INSERT"]),
        summary: "Sets the string values of several keys atomically, unless one of the keys exists.",
        tips: &[],
        special: Special::NONE,
        ..MSET.spec
    },
    run: msetnx,
    ..MGET
};

pub const MSETEX: Command = Command {
    spec: Spec {
        name: "msetex",
        arity: -4,
        flags: Flags::WRITE.or(Flags::DENYOOM).or(Flags::MOVABLE_KEYS),
        keys: &[KeySpec {
            flags: &["OW", "UPDATE"],
            begin: Begin::Index(1),
            find: Find::KeyNum { num: 0, first: 1, step: 2 },
            notes: "",
        }],
        since: "9.1.0",
        summary: "Sets the string values of several keys and optionally their expiry, atomically.",
        syntax: "numkeys:integer data=(key value)... [condition=(nx=NX|xx=XX)] \
                 [expiration=(EX seconds:integer|PX milliseconds:integer|\
                 EXAT unix-time-seconds:unix-time|PXAT unix-time-milliseconds:unix-time|\
                 keepttl=KEEPTTL)]",
        special: Special::NONE,
        ..MSET.spec
    },
    run: msetex,
    ..MGET
};

const BAD_NUMKEYS: Error = Error::new("ERR invalid numkeys value or out of range");

/// The number of keys prefetched at the same time.
const BLOCK: usize = 16;

/// Calls `each` with the argument position and the key for all keys at `places`, in order.
fn for_each_key<'a>(
    ctx: &mut Ctx<'a>,
    mut places: impl Iterator<Item = usize>,
    mut each: impl FnMut(&mut Ctx<'a>, usize, &Key<'a>),
) {
    loop {
        let block: SmallVec<[(usize, Key<'a>); BLOCK]> =
            places.by_ref().take(BLOCK).map(|i| (i, ctx.key(i))).collect();
        if block.len() > 1 {
            ctx.db.prefetch(block.iter().map(|(_, key)| key));
        }
        for (i, key) in &block {
            each(ctx, *i, key);
        }
        if block.len() < BLOCK {
            return;
        }
    }
}

fn mget(ctx: &mut Ctx<'_>) -> CmdResult {
    ctx.weigh_args()?;
    let argc = ctx.args.len();
    ctx.reply.array(argc - 1);
    for_each_key(ctx, 1..argc, |ctx, _, key| match ctx.db.read(key) {
        Some(record) if string(&record).is_ok() => {
            write_string(ctx.reply, &record).expect("the record is a string");
        }
        Some(_) | None => ctx.reply.null(),
    });
    Ok(())
}

fn mset(ctx: &mut Ctx<'_>) -> CmdResult {
    let argc = ctx.args.len();
    if argc.is_multiple_of(2) {
        return Err(wrong_arity("mset"));
    }
    ctx.weigh_args()?;
    set_all(ctx, (1..argc).step_by(2), Lifetime::Unspecified);
    ctx.reply.ok();
    Ok(())
}

fn msetnx(ctx: &mut Ctx<'_>) -> CmdResult {
    let argc = ctx.args.len();
    if argc.is_multiple_of(2) {
        return Err(wrong_arity("msetnx"));
    }
    ctx.weigh_args()?;
    let pairs = (1..argc).step_by(2);
    let free = all_meet(ctx, pairs.clone(), Condition::Absent);
    if free {
        set_all(ctx, pairs, Lifetime::Unspecified);
    }
    ctx.reply.int(i64::from(free));
    Ok(())
}

fn msetex(ctx: &mut Ctx<'_>) -> CmdResult {
    let count = num::parse_i64(ctx.args[1]).and_then(|n| i32::try_from(n).ok());
    let count =
        count.and_then(|n| usize::try_from(n).ok()).filter(|n| *n > 0).ok_or(BAD_NUMKEYS)?;
    // The name and the count precede the pairs, and the options follow them.
    let options = 2 + 2 * count;
    let words = ctx.args.get(options..).ok_or(SYNTAX)?;
    let options_given = Options::parse(words, OptionsFor::MSetEx, ctx.now_ms())?;
    ctx.weigh_args()?;
    let pairs = (2..options).step_by(2);
    let met = all_meet(ctx, pairs.clone(), options_given.condition);
    if met {
        set_all(ctx, pairs, options_given.lifetime);
        if let Lifetime::Until(at) = options_given.lifetime
            && ctx.is_logged()
        {
            log_with_deadline(ctx, options, at);
        }
    }
    ctx.reply.int(i64::from(met));
    Ok(())
}

/// Logs MSETEX with an absolute time in the options, which are at argument `options` and later.
#[cold]
fn log_with_deadline(ctx: &mut Ctx<'_>, options: usize, at: i64) {
    let at = at.to_string();
    let mut words: Vec<Arg<'_>> = (0..ctx.args.len()).map(|i| ctx.arg(i)).collect();
    for i in options..ctx.args.len() {
        if Unit::of(ctx.args[i]).is_some() {
            words[i] = Arg::Bytes(b"PXAT");
            words[i + 1] = Arg::Bytes(at.as_bytes());
        }
    }
    ctx.log_args(&words);
}

/// Whether every key meets `condition`. Looks up no more keys after the first that does not.
fn all_meet(
    ctx: &mut Ctx<'_>,
    places: impl Iterator<Item = usize>,
    condition: Condition<'_>,
) -> bool {
    let wanted = match condition {
        Condition::Always | Condition::Equals(_) => return true,
        Condition::Present => true,
        Condition::Absent => false,
    };
    let mut all_met = true;
    for_each_key(ctx, places, |ctx, _, key| {
        all_met = all_met && ctx.db.for_write(key).is_some() == wanted;
    });
    all_met
}

/// Sets the keys at `places` to the values in the following arguments; for repeated keys the last
/// value wins. Unlike SET, an expiry in the past is stored, and the next access finds the key
/// expired.
fn set_all(ctx: &mut Ctx<'_>, places: impl Iterator<Item = usize>, lifetime: Lifetime) {
    for_each_key(ctx, places, |ctx, i, key| {
        let value = ctx.value(i + 1);
        ctx.db.alter(key, |old, clock| write(key, value, lifetime, old, clock));
        ctx.notify(Classes::STRING, "set", key);
        if let Lifetime::Until(_) = lifetime {
            ctx.notify(Classes::GENERIC, "expire", key);
        }
        ctx.dirty();
    });
}

//! BLPOP, BRPOP, BLMPOP, BLMOVE, BRPOPLPUSH: pops and moves that block if there is no element.

use super::pop::{MultiPop, counted_keys, pop_command, take};
use super::transfer::transfer;
use super::{end, list, pop, transfer as moving};
use crate::blocking::timeout;
use crate::ctx::{Ctx, Lane};
use crate::error::CmdResult;
use crate::registry::Command;
use weft_command_spec::{Begin, Find, Flags, KeySpec, Spec, Special};
use weft_types::list::End;

/// The word for this end in LMOVE.
fn side(end: End) -> &'static [u8] {
    match end {
        End::Left => b"LEFT",
        End::Right => b"RIGHT",
    }
}

/// All arguments but the last.
const KEYS: &[KeySpec] = &[KeySpec {
    flags: &["RW", "ACCESS", "DELETE"],
    begin: Begin::Index(1),
    find: Find::Range { last: -2, step: 1, limit: 0 },
    notes: "",
}];

const HISTORY: &[(&str, &str)] = &[("6.0.0", "The timeout can have fractions of a second.")];

pub const BLPOP: Command = Command {
    spec: Spec {
        name: "blpop",
        arity: -3,
        flags: Flags::WRITE.or(Flags::BLOCKING),
        keys: KEYS,
        since: "2.0.0",
        summary: "Removes and returns the first element of the first non-empty list. Blocks until there is one.",
        complexity: "O(N) for N keys.",
        syntax: "key... timeout:double",
        history: HISTORY,
        special: Special::NONE,
        ..pop::LPOP.spec
    },
    run: |ctx| pop_or_block(ctx, End::Left),
    ..pop::LPOP
};

pub const BRPOP: Command = Command {
    spec: Spec {
        name: "brpop",
        flags: BLPOP.spec.flags,
        summary: "Removes and returns the last element of the first non-empty list. Blocks until there is one.",
        special: Special::NONE,
        ..BLPOP.spec
    },
    run: |ctx| pop_or_block(ctx, End::Right),
    ..pop::LPOP
};

pub const BLMPOP: Command = Command {
    spec: Spec {
        name: "blmpop",
        arity: -5,
        flags: Flags::WRITE.or(Flags::BLOCKING).or(Flags::MOVABLE_KEYS),
        keys: &[counted_keys(2)],
        summary: "Removes and returns elements of the first non-empty list. Blocks until there is one.",
        syntax: "timeout:double numkeys:integer key... where=(left=LEFT|right=RIGHT) \
                 [COUNT count:integer]",
        special: Special::NONE,
        ..pop::LMPOP.spec
    },
    run: blmpop,
    ..pop::LPOP
};

pub const BLMOVE: Command = Command {
    spec: Spec {
        name: "blmove",
        arity: 6,
        flags: Flags::WRITE.or(Flags::DENYOOM).or(Flags::BLOCKING),
        summary: "Moves an element from one list to another. Blocks until there is one.",
        syntax: "source:key destination:key wherefrom=(left=LEFT|right=RIGHT) \
                 whereto=(left=LEFT|right=RIGHT) timeout:double",
        special: Special::NONE,
        ..moving::LMOVE.spec
    },
    run: blmove,
    ..pop::LPOP
};

pub const BRPOPLPUSH: Command = Command {
    spec: Spec {
        name: "brpoplpush",
        arity: 4,
        flags: BLMOVE.spec.flags,
        since: "2.2.0",
        summary: "Moves the last element of one list to the head of another. Blocks until there is one.",
        syntax: "source:key destination:key timeout:double",
        history: HISTORY,
        special: Special::NONE,
        ..BLMOVE.spec
    },
    run: |ctx| {
        let wait = timeout(ctx, 3)?;
        move_or_block(ctx, End::Right, End::Left, wait)
    },
    ..pop::LPOP
};

fn pop_or_block(ctx: &mut Ctx<'_>, from: End) -> CmdResult {
    let last = ctx.args.len() - 1;
    let wait = timeout(ctx, last)?;
    ctx.weigh_args()?;
    for i in 1..last {
        let key = ctx.key(i);
        if !ctx.holds(&key) {
            continue;
        }
        let Some(found) = ctx.db.peek(&key).map(|record| list(&record).map(|_| ())) else {
            continue;
        };
        found?;
        ctx.reply.array(2);
        ctx.reply.bulk(key.bytes);
        take(ctx, &key, from, 1)?;
        ctx.log(&[pop_command(from), key.bytes]);
        return Ok(());
    }
    ctx.reply.null_array();
    ctx.block((1..last).collect(), wait)
}

fn blmpop(ctx: &mut Ctx<'_>) -> CmdResult {
    let multi_pop = MultiPop::parse(ctx, 2)?;
    let wait = timeout(ctx, 1)?;
    ctx.weigh_args()?;
    if multi_pop.take(ctx)? {
        return Ok(());
    }
    ctx.reply.null_array();
    ctx.block(multi_pop.keys.collect(), wait)
}

fn blmove(ctx: &mut Ctx<'_>) -> CmdResult {
    let (from, to) = (end(ctx, 3)?, end(ctx, 4)?);
    let wait = timeout(ctx, 5)?;
    move_or_block(ctx, from, to, wait)
}

fn move_or_block(ctx: &mut Ctx<'_>, from: End, to: End, wait: Option<u64>) -> CmdResult {
    if transfer(ctx, from, to)? {
        let (source, target) = (ctx.args[1], ctx.args[2]);
        match ctx.args.len() {
            // BRPOPLPUSH
            4 => ctx.log(&[b"RPOPLPUSH", source, target]),
            _ => ctx.log(&[b"LMOVE", source, target, side(from), side(to)]),
        }
        return Ok(());
    }
    // The reply when the source is empty or the timeout expires.
    match ctx.lane {
        Lane::Transaction | Lane::Script => ctx.reply.null(),
        Lane::Fast | Lane::Slow | Lane::Served => ctx.reply.null_array(),
    }
    ctx.block(vec![1], wait)
}

//! PFCOUNT: of one key, whose estimate is kept in it, or of the union of several.

use super::{CORRUPTED, WORK, view};
use crate::ctx::Ctx;
use crate::error::{CmdResult, Error};
use crate::registry::Command;
use crate::spec::{Begin, Find, Flags, Group, KeySpec, Lock, Spec};
use smallvec::SmallVec;
use weft_keyspace::Key;
use weft_keyspace::db::Rework;
use weft_types::Kind;
use weft_types::hyperloglog::{Registers, View, cache, cached, count};
use weft_types::string::{edit, seen_as_edited};

pub const PFCOUNT: Command = Command {
    spec: Spec {
        name: "pfcount",
        arity: -2,
        flags: Flags::READONLY,
        keys: &[KeySpec {
            flags: &["RW", "ACCESS"],
            begin: Begin::Index(1),
            find: Find::Range { last: -1, step: 1, limit: 0 },
            notes: "RW, since the estimate is kept in the value, and copied with it.",
        }],
        acl: &[],
        group: Group::HyperLogLog,
        since: "2.8.9",
        summary: "Estimates how many different elements HyperLogLogs have seen together.",
        complexity: "O(1) for one key, O(N) with a large constant where N is the number of keys.",
        syntax: "key...",
        history: &[],
        tips: &[],
    },
    lock: Lock::Keys,
    run: pfcount,
    subcommands: &[],
};

/// Keys that are fetched from memory at the same time.
const BLOCK: usize = 16;

fn pfcount(ctx: &mut Ctx<'_>) -> CmdResult {
    let estimate = if ctx.args.len() == 2 { count_one(ctx)? } else { count_all(ctx)? };
    ctx.reply.int(estimate as i64);
    Ok(())
}

fn count_one(ctx: &mut Ctx<'_>) -> Result<u64, Error> {
    let key = ctx.key(1);
    let Some(record) = ctx.db.read(&key) else { return Ok(0) };
    let embedded = Kind::of(record.kind()) == Kind::StrEmbedded;
    let (bytes, registers) = view(&record)?;
    let (known, counted) = match cached(bytes) {
        Some(estimate) => (true, Ok(estimate)),
        None => (false, count(registers).map_err(|_| CORRUPTED)),
    };
    match counted {
        Ok(estimate) if !known => {
            ctx.db.update(&key, |record| edit(record, 0, |bytes| cache(bytes, estimate)));
            ctx.dirty();
        }
        Ok(_) | Err(_) if embedded => ctx.db.rework(&key, |record, _| {
            let record = record.map(seen_as_edited);
            (record.map_or(Rework::Absent, Rework::Same), ())
        }),
        Ok(_) | Err(_) => {}
    }
    counted
}

fn count_all(ctx: &mut Ctx<'_>) -> Result<u64, Error> {
    ctx.weigh(WORK * (ctx.args.len() - 1))?;
    let mut union = Registers::new();
    raise_all(ctx, &mut union)?;
    Ok(union.count())
}

/// Takes the registers of all keys, from argument 1 on, in order; whether one of them is dense.
pub fn raise_all(ctx: &mut Ctx<'_>, union: &mut Registers) -> Result<bool, Error> {
    let mut any_dense = false;
    for from in (1..ctx.args.len()).step_by(BLOCK) {
        let block = from..ctx.args.len().min(from + BLOCK);
        let keys: SmallVec<[Key<'_>; BLOCK]> = block.map(|i| ctx.key(i)).collect();
        ctx.db.prefetch(keys.iter());
        for key in &keys {
            let Some(record) = ctx.db.read(key) else { continue };
            let registers = view(&record)?.1;
            any_dense |= matches!(registers, View::Dense(_));
            union.raise(registers).map_err(|_| CORRUPTED)?;
        }
    }
    Ok(any_dense)
}

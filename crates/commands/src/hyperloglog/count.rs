//! PFCOUNT: the estimate of one key, which is cached in the value, or of the union of several.

use super::{CORRUPTED, WORK, view};
use crate::ctx::Ctx;
use crate::error::{CmdResult, Error};
use crate::lock::Lock;
use crate::registry::Command;
use smallvec::SmallVec;
use weft_base::sixbit::Packed;
use weft_command_spec::{Begin, Find, Flags, Group, KeySpec, Spec, Special};
use weft_keyspace::Key;
use weft_keyspace::db::Rework;
use weft_types::Kind;
use weft_types::hyperloglog::{Registers, View, cache, cached, count};
use weft_types::string::{edit, mark_edited};

pub const PFCOUNT: Command = Command {
    spec: Spec {
        name: "pfcount",
        arity: -2,
        // The estimate that it caches in the value is replicated.
        flags: Flags::READONLY.or(Flags::REPLICATES_UNFLAGGED),
        keys: &[KeySpec {
            flags: &["RW", "ACCESS"],
            begin: Begin::Index(1),
            find: Find::Range { last: -1, step: 1, limit: 0 },
            notes: "RW because the estimate is cached in the value, and copied with it.",
        }],
        acl: &[],
        group: Group::HyperLogLog,
        since: "2.8.9",
        summary: "Estimates the number of distinct elements in the union of HyperLogLogs.",
        complexity: "O(1) for one key, O(N) with a large constant where N is the number of keys.",
        syntax: "key...",
        history: &[],
        tips: &[],
        special: Special::NONE,
    },
    lock: Lock::Keys,
    run: pfcount,
    subcommands: &[],
};

/// The number of keys up to which nothing is allocated.
const FEW: usize = 16;

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
            let record = record.map(mark_edited);
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

/// Merges the registers of all keys, from argument 1 on, in order. Returns whether any of them is
/// dense.
pub fn raise_all(ctx: &mut Ctx<'_>, union: &mut Registers) -> Result<bool, Error> {
    let keys: SmallVec<[Key<'_>; FEW]> = (1..ctx.args.len()).map(|i| ctx.key(i)).collect();
    let mut raised = Ok(());
    let found = ctx.db.read_all(&keys, |record| {
        raised = match view(record) {
            Ok((_, View::Sparse(runs))) => union.raise_sparse(runs).map_err(|_| CORRUPTED),
            // All dense ones are merged together below.
            Ok((_, View::Dense(_))) => Ok(()),
            Err(error) => Err(error),
        };
        raised.is_ok()
    });
    raised?;
    let mut dense: SmallVec<[&Packed; FEW]> = SmallVec::new();
    for record in found.iter().flatten() {
        if let (_, View::Dense(packed)) = view(record)? {
            dense.push(packed);
        }
    }
    union.raise_dense(&dense);
    Ok(!dense.is_empty())
}

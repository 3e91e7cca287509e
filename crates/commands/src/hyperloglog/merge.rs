//! PFMERGE: merges HyperLogLogs into one.
//!
//! If one of the sources is dense, so is the result. Otherwise the result is built register by
//! register. So its bytes equal those of a sparse HyperLogLog to which the same registers were
//! added in that order, and it becomes dense at the same point.

use super::count::raise_all;
use super::{CORRUPTED, WORK, view};
use crate::ctx::Ctx;
use crate::error::{CmdResult, Error};
use crate::lock::Lock;
use crate::registry::Command;
use weft_command_spec::{Begin, Find, Flags, Group, KeySpec, Spec, Special};
use weft_keyspace::db::Rework;
use weft_keyspace::{Classes, Record};
use weft_types::hyperloglog::{Added, EMPTY, Registers, SparseBuilder, View, invalidate_cache};
use weft_types::string::{edit, record_edited, rewrite};

pub const PFMERGE: Command = Command {
    spec: Spec {
        name: "pfmerge",
        arity: -2,
        flags: Flags::WRITE.or(Flags::DENYOOM),
        keys: &[
            KeySpec {
                flags: &["RW", "ACCESS", "INSERT"],
                begin: Begin::Index(1),
                find: Find::Range { last: 0, step: 1, limit: 0 },
                notes: "",
            },
            KeySpec {
                flags: &["RO", "ACCESS"],
                begin: Begin::Index(2),
                find: Find::Range { last: -1, step: 1, limit: 0 },
                notes: "",
            },
        ],
        acl: &[],
        group: Group::HyperLogLog,
        since: "2.8.9",
        summary: "Merges HyperLogLogs into one.",
        complexity: "O(N) with a large constant where N is the number of keys.",
        syntax: "destkey:key [sourcekey:key...]",
        history: &[],
        tips: &[],
        special: Special::NONE,
    },
    lock: Lock::Keys,
    run: pfmerge,
    subcommands: &[],
};

fn pfmerge(ctx: &mut Ctx<'_>) -> CmdResult {
    ctx.weigh(WORK * (ctx.args.len() - 1))?;
    let mut union = Registers::new();
    let is_dense = raise_all(ctx, &mut union)?;
    let key = ctx.key(1);
    let limit = ctx.settings.limits.hyperloglog_sparse;
    ctx.db.rework(&key, |record, clock| match record {
        Some(record) => match merged(record, &union, is_dense, limit) {
            Ok(record) => (Rework::Changed(record), Ok(())),
            Err((record, error)) => (Rework::Same(record), Err(error)),
        },
        None => match merged_bytes(EMPTY, &union, is_dense, limit) {
            Ok(bytes) => {
                let bytes = bytes.as_deref().unwrap_or(EMPTY);
                (Rework::Changed(record_edited(key.bytes, bytes, None, clock)), Ok(()))
            }
            Err(error) => (Rework::Absent, Err(error)),
        },
    })?;
    // The reference sends this event whatever was merged.
    ctx.notify(Classes::STRING, "pfadd", &key);
    ctx.dirty();
    ctx.reply.ok();
    Ok(())
}

/// `record` with all registers of `union`, which includes its own.
fn merged(
    record: Record,
    union: &Registers,
    is_dense: bool,
    limit: usize,
) -> Result<Record, (Record, Error)> {
    let merged_bytes = match view(&record) {
        Ok((_, View::Dense(_))) => {
            return Ok(edit(record, 0, |bytes| {
                union.write(bytes);
                invalidate_cache(bytes);
            }));
        }
        Ok((bytes, View::Sparse(_))) => merged_bytes(bytes, union, is_dense, limit),
        Err(error) => Err(error),
    };
    match merged_bytes {
        Ok(Some(bytes)) => Ok(rewrite(record, &bytes)),
        Ok(None) => Ok(edit(record, 0, invalidate_cache)),
        Err(error) => Err((record, error)),
    }
}

/// The HyperLogLog in `bytes` with the registers of `union`, if that changes it.
fn merged_bytes(
    bytes: &[u8],
    union: &Registers,
    is_dense: bool,
    limit: usize,
) -> Result<Option<Vec<u8>>, Error> {
    let dense_bytes = || {
        let mut bytes = union.under(bytes);
        invalidate_cache(&mut bytes);
        Ok(Some(bytes))
    };
    if is_dense {
        return dense_bytes();
    }
    let mut growing = SparseBuilder::new(bytes);
    for place in union.places() {
        match growing.add(place, limit).map_err(|_| CORRUPTED)? {
            Added::Nothing | Added::Raised => {}
            Added::TooMuch => return dense_bytes(),
        }
    }
    let mut changed = growing.into_changed();
    if let Some(bytes) = &mut changed {
        invalidate_cache(bytes);
    }
    Ok(changed)
}

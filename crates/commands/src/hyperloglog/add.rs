//! PFADD.

use super::{CORRUPTED, view};
use crate::ctx::Ctx;
use crate::error::{CmdResult, Error};
use crate::registry::Command;
use crate::spec::{Flags, Group, Lock, Spec, keys};
use weft_keyspace::db::Rework;
use weft_keyspace::{Classes, Record};
use weft_types::hyperloglog::{
    Added, EMPTY, Growing, Place, View, add_dense, is_higher, outdate, to_dense,
};
use weft_types::string::{edit, record_edited, rewrite, seen_as_edited};

pub const PFADD: Command = Command {
    spec: Spec {
        name: "pfadd",
        arity: -2,
        flags: Flags::WRITE.or(Flags::DENYOOM).or(Flags::FAST),
        keys: &keys::one(&["RW", "INSERT"]),
        acl: &[],
        group: Group::HyperLogLog,
        since: "2.8.9",
        summary: "Adds elements to a HyperLogLog, which is made if the key is missing.",
        complexity: "O(N) where N is the number of elements given.",
        syntax: "key [element...]",
        history: &[],
        tips: &[],
    },
    lock: Lock::Keys,
    run: pfadd,
    subcommands: &[],
};

fn pfadd(ctx: &mut Ctx<'_>) -> CmdResult {
    let key = ctx.key(1);
    let elements = &ctx.args[2..];
    let limit = ctx.settings.limits.hyperloglog_sparse;
    let (lane, pause) = (ctx.lane, &mut ctx.pause);
    let raised = ctx.db.rework(&key, |record, clock| {
        let len =
            record.as_ref().map_or(EMPTY.len(), |record| view(record).map_or(0, |v| v.0.len()));
        if let Err(too_long) = lane.weigh(work(len, elements.len(), limit), pause) {
            return (record.map_or(Rework::Absent, Rework::Same), Err(too_long));
        }
        match record {
            Some(record) => add(record, elements, limit),
            None => {
                let (bytes, raised) = add_sparse(EMPTY, elements, limit);
                let bytes = bytes.as_deref().unwrap_or(EMPTY);
                let record = record_edited(key.bytes, bytes, None, clock);
                (Rework::Changed(record), raised.map(|raised| raised + 1))
            }
        }
    })?;
    if raised > 0 {
        ctx.notify(Classes::STRING, "pfadd", &key);
    }
    ctx.db.turn.tally.dirty += raised;
    ctx.reply.int(i64::from(raised > 0));
    Ok(())
}

/// What adding to one of `len` bytes costs: each element is looked for among the runs of a sparse
/// one, unless that has become dense.
fn work(len: usize, elements: usize, limit: usize) -> usize {
    /// Bytes of runs that are passed in the time in which one element of a collection is looked at.
    const PASSED: usize = 128;
    /// What a sparse one grows by for each element.
    const GROWTH: usize = 3;
    let longest = (len + GROWTH * elements).min(limit.max(len));
    elements + elements * longest / PASSED
}

/// Adds to the HyperLogLog of `record`; how many registers were raised. When it turns out to be
/// corrupted, what was added before stays.
fn add(record: Record, elements: &[&[u8]], limit: usize) -> (Rework, Result<u64, Error>) {
    let (bytes, registers) = match view(&record) {
        Ok(found) => found,
        Err(error) => return (Rework::Same(record), Err(error)),
    };
    match registers {
        View::Dense(packed) => {
            let raises = |element: &&[u8]| is_higher(packed, Place::of(element));
            let Some(first) = elements.iter().position(raises) else {
                return (Rework::Same(seen_as_edited(record)), Ok(0));
            };
            let mut raised = 0;
            let record = edit(record, 0, |bytes| {
                raised = add_all_dense(bytes, &elements[first..]);
                outdate(bytes);
            });
            (Rework::Changed(record), Ok(raised))
        }
        View::Sparse(_) => match add_sparse(bytes, elements, limit) {
            (None, raised) => (Rework::Same(seen_as_edited(record)), raised),
            (Some(bytes), raised) => (Rework::Changed(rewrite(record, &bytes)), raised),
        },
    }
}

fn add_all_dense(bytes: &mut [u8], elements: &[&[u8]]) -> u64 {
    elements.iter().map(|element| u64::from(add_dense(bytes, Place::of(element)))).sum()
}

/// Adds to a sparse one: what it is then, if that is something else, and how many registers were
/// raised.
fn add_sparse(
    bytes: &[u8],
    elements: &[&[u8]],
    limit: usize,
) -> (Option<Vec<u8>>, Result<u64, Error>) {
    let mut growing = Growing::new(bytes);
    let mut raised = Ok(0);
    for (at, element) in elements.iter().enumerate() {
        match growing.add(Place::of(element), limit) {
            Ok(Added::Nothing) => {}
            Ok(Added::Raised) => raised = raised.map(|n| n + 1),
            Ok(Added::TooMuch) => match to_dense(growing.bytes()) {
                Ok(mut dense) => {
                    let more = add_all_dense(&mut dense, &elements[at..]);
                    outdate(&mut dense);
                    return (Some(dense), raised.map(|n| n + more));
                }
                Err(_) => raised = Err(CORRUPTED),
            },
            Err(_) => raised = Err(CORRUPTED),
        }
        if raised.is_err() {
            break;
        }
    }
    let mut changed = growing.into_changed();
    if let Some(bytes) = &mut changed {
        outdate(bytes);
    }
    (changed, raised)
}

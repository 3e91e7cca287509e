//! PFADD: adds elements to a HyperLogLog.

use super::{CORRUPTED, view};
use crate::ctx::Ctx;
use crate::error::CmdResult;
use crate::lock::Lock;
use crate::registry::Command;
use crate::string::range::BYTES_PER_ELEMENT;
use std::cell::Cell;
use weft_command_spec::{Flags, Group, Spec, Special, keys};
use weft_keyspace::db::Rework;
use weft_keyspace::{Classes, Record};
use weft_types::RecordMut;
use weft_types::hyperloglog::{
    EMPTY, Patch, Place, Step, View, add_dense, invalidate_cache, is_higher, step, to_dense,
};
use weft_types::string::{
    Str, edit, edit_in_place, gathered, mark_edited, record_edited, rewrite, splice,
    splice_in_place,
};

pub const PFADD: Command = Command {
    spec: Spec {
        name: "pfadd",
        arity: -2,
        flags: Flags::WRITE.or(Flags::DENYOOM).or(Flags::FAST),
        keys: &keys::one(&["RW", "INSERT"]),
        acl: &[],
        group: Group::HyperLogLog,
        since: "2.8.9",
        summary: "Adds elements to a HyperLogLog. Creates it if the key does not exist.",
        complexity: "O(N) where N is the number of elements given.",
        syntax: "key [element...]",
        history: &[],
        tips: &[],
        special: Special::NONE,
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
    let mut status = Ok(());
    // Elements added before the one that failed.
    let mut added = 0;
    // Hashed before the record is looked up, so that the two memory accesses overlap.
    let first = elements.first().map(|element| Place::of(element));
    // A change that was computed but does not fit in place.
    let patch_found = Cell::new(None);
    let amend = |record: &mut RecordMut<'_>| match elements {
        [_] => add_in_place(record, first?, limit, &patch_found),
        _ => None,
    };
    let raised = ctx.db.amend(&key, amend, |record, clock| {
        let Some(record) = record else {
            if let Err(too_long) = lane.weigh(work(EMPTY.len(), elements.len(), limit), pause) {
                status = Err(too_long);
                return (Rework::Absent, 0);
            }
            let record = record_edited(key.bytes, EMPTY, None, clock);
            let (record, sparse) = add_sparse(record, elements, first, limit, &mut status);
            return (Rework::Changed(record), sparse.raised + 1);
        };
        if let Some(patch) = patch_found.take() {
            return (Rework::Changed(apply(record, &patch)), 1);
        }
        // A record in pieces is gathered first. Such a HyperLogLog is always corrupted, but the
        // corruption may be detected only after the changed position.
        let is_one = view(&record).map(|_| string_len(&record));
        let weighed = is_one.and_then(|len| {
            lane.weigh(work(len, elements.len(), limit).max(len / BYTES_PER_ELEMENT), pause)
        });
        let record = if weighed.is_ok() { gathered(record) } else { record };
        let weighed = weighed.and_then(|()| view(&record).map(|(_, view)| view));
        match weighed {
            Err(error) => {
                status = Err(error);
                (Rework::Same(record), 0)
            }
            Ok(View::Dense(packed)) => {
                let raises = |element: &&[u8]| is_higher(packed, Place::of(element));
                match elements.iter().position(raises) {
                    Some(first) => add_to_dense(record, &elements[first..]),
                    None => (Rework::Same(mark_edited(record)), 0),
                }
            }
            Ok(View::Sparse(_)) => {
                let (record, Sparse { changed, raised, added_before }) =
                    add_sparse(record, elements, first, limit, &mut status);
                added = added_before;
                let rework = if changed { Rework::Changed(record) } else { Rework::Same(record) };
                (rework, raised)
            }
        }
    });
    if status.is_err() && raised > 0 {
        // Log only the elements that took effect. With the failed element, a replica would also
        // return the error, and take it for a sign of diverged data.
        let words =
            [b"PFADD".as_slice(), key.bytes].into_iter().chain(elements[..added].iter().copied());
        ctx.log(&words.collect::<Vec<_>>());
    }
    status?;
    if raised > 0 {
        ctx.notify(Classes::STRING, "pfadd", &key);
    }
    ctx.db.context.tally.dirty += raised;
    ctx.reply.int(i64::from(raised > 0));
    Ok(())
}

fn string_len(record: &Record) -> usize {
    Str::of(record).map_or(0, Str::len)
}

/// The work of adding to a HyperLogLog of `len` bytes. Each element is searched for in the runs of
/// a sparse one, until it becomes dense.
fn work(len: usize, elements: usize, limit: usize) -> usize {
    /// Bytes of runs searched in the time of one element of a collection.
    const RUN_BYTES_PER_ELEMENT: usize = 128;
    /// Bytes by which a sparse one grows for each element.
    const GROWTH: usize = 3;
    let longest = (len + GROWTH * elements).min(limit.max(len));
    elements + elements * longest / RUN_BYTES_PER_ELEMENT
}

/// Adds one element to a sparse HyperLogLog of a few KB, if the result fits in place. Returns
/// whether the record changed, and the number of raised registers. `None` if nothing was done;
/// `patch_found` then has the change, if it was computed.
#[inline]
fn add_in_place(
    record: &mut RecordMut<'_>,
    place: Place,
    limit: usize,
    patch_found: &Cell<Option<Patch>>,
) -> Option<(bool, u64)> {
    let Some(Str::Bytes(bytes)) = Str::of(record) else { return None };
    let Some(View::Sparse(_)) = View::of(bytes) else { return None };
    match step(bytes, place, limit).ok()? {
        Step::Nothing => edit_in_place(record, 0, |_| (false, 0)),
        Step::Raise(patch) => {
            if splice_in_place(record, patch.range.clone(), patch.bytes(), invalidate_cache) {
                return Some((true, 1));
            }
            patch_found.set(Some(patch));
            None
        }
        Step::TooMuch => None,
    }
}

/// Applies a computed change to a sparse HyperLogLog.
fn apply(record: Record, patch: &Patch) -> Record {
    splice(record, patch.range.clone(), patch.bytes(), invalidate_cache)
}

/// Adds to the dense HyperLogLog of `record`. Also returns the number of raised registers.
fn add_to_dense(record: Record, elements: &[&[u8]]) -> (Rework, u64) {
    let mut raised = 0;
    let record = edit(record, 0, |bytes| {
        raised = add_all_dense(bytes, elements);
        invalidate_cache(bytes);
    });
    (Rework::Changed(record), raised)
}

fn add_all_dense(bytes: &mut [u8], elements: &[&[u8]]) -> u64 {
    elements.iter().map(|element| u64::from(add_dense(bytes, Place::of(element)))).sum()
}

/// The result of adding to a sparse HyperLogLog.
#[derive(Default)]
struct Sparse {
    changed: bool,
    /// Registers raised.
    raised: u64,
    /// The number of elements before the one that failed, if one did.
    added_before: usize,
}

/// Adds to a sparse HyperLogLog, which may become dense. `first` is the place of the first element.
/// If corruption is found, the elements added before it stay.
#[inline]
fn add_sparse(
    record: Record,
    elements: &[&[u8]],
    first: Option<Place>,
    limit: usize,
    status: &mut CmdResult,
) -> (Record, Sparse) {
    let mut record = mark_edited(record);
    let mut done = Sparse::default();
    for (at, element) in elements.iter().enumerate() {
        let Some(Str::Bytes(bytes) | Str::Blob(bytes)) = Str::of(&record) else { break };
        let place = first.filter(|_| at == 0).unwrap_or_else(|| Place::of(element));
        match step(bytes, place, limit) {
            Ok(Step::Nothing) => {}
            Ok(Step::Raise(patch)) => {
                record = apply(record, &patch);
                done = Sparse { changed: true, raised: done.raised + 1, ..done };
            }
            Ok(Step::TooMuch) => match to_dense(bytes) {
                Ok(mut dense) => {
                    let raised = done.raised + add_all_dense(&mut dense, &elements[at..]);
                    invalidate_cache(&mut dense);
                    return (rewrite(record, &dense), Sparse { changed: true, raised, ..done });
                }
                Err(_) => *status = Err(CORRUPTED),
            },
            Err(_) => *status = Err(CORRUPTED),
        }
        if status.is_err() {
            done.added_before = at;
            break;
        }
    }
    (record, done)
}

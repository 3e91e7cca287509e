//! PFADD.

use super::{CORRUPTED, view};
use crate::ctx::Ctx;
use crate::error::CmdResult;
use crate::registry::Command;
use crate::spec::{Flags, Group, Lock, Spec, keys};
use crate::string::range::BYTES_PER_ELEMENT;
use std::cell::Cell;
use weft_keyspace::db::Rework;
use weft_keyspace::{Classes, Record};
use weft_types::RecordMut;
use weft_types::hyperloglog::{
    EMPTY, Patch, Place, Step, View, add_dense, is_higher, outdate, step, to_dense,
};
use weft_types::string::{
    Str, edit, edit_in_place, gathered, record_edited, rewrite, seen_as_edited, splice,
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
    let mut refused = Ok(());
    // Elements that were added before one was refused.
    let mut added = 0;
    // Found before the record is looked for: neither waits for the other.
    let first = elements.first().map(|element| Place::of(element));
    // What was found to be done, but not where the record is.
    let found = Cell::new(None);
    let amend = |record: &mut RecordMut<'_>| match elements {
        [_] => add_in_place(record, first?, limit, &found),
        _ => None,
    };
    let raised = ctx.db.amend(&key, amend, |record, clock| {
        let Some(record) = record else {
            if let Err(too_long) = lane.weigh(work(EMPTY.len(), elements.len(), limit), pause) {
                refused = Err(too_long);
                return (Rework::Absent, 0);
            }
            let record = record_edited(key.bytes, EMPTY, None, clock);
            let (record, sparse) = add_sparse(record, elements, first, limit, &mut refused);
            return (Rework::Changed(record), sparse.raised + 1);
        };
        if let Some(patch) = found.take() {
            return (Rework::Changed(apply(record, &patch)), 1);
        }
        // It is put together first if it is one in pieces: such a one is corrupted, but that may be
        // noticed behind what is changed.
        let is_one = view(&record).map(|_| string_len(&record));
        let weighed = is_one.and_then(|len| {
            lane.weigh(work(len, elements.len(), limit).max(len / BYTES_PER_ELEMENT), pause)
        });
        let record = if weighed.is_ok() { gathered(record) } else { record };
        let weighed = weighed.and_then(|()| view(&record).map(|(_, view)| view));
        match weighed {
            Err(error) => {
                refused = Err(error);
                (Rework::Same(record), 0)
            }
            Ok(View::Dense(packed)) => {
                let raises = |element: &&[u8]| is_higher(packed, Place::of(element));
                match elements.iter().position(raises) {
                    Some(first) => add_to_dense(record, &elements[first..]),
                    None => (Rework::Same(seen_as_edited(record)), 0),
                }
            }
            Ok(View::Sparse(_)) => {
                let (record, Sparse { changed, raised, before }) =
                    add_sparse(record, elements, first, limit, &mut refused);
                added = before;
                let rework = if changed { Rework::Changed(record) } else { Rework::Same(record) };
                (rework, raised)
            }
        }
    });
    if refused.is_err() && raised > 0 {
        // What stays is told. With the element that was refused, whoever repeats this would meet the
        // error, too, and take it for a sign that his data differ.
        let words =
            [b"PFADD".as_slice(), key.bytes].into_iter().chain(elements[..added].iter().copied());
        ctx.log(&words.collect::<Vec<_>>());
    }
    refused?;
    if raised > 0 {
        ctx.notify(Classes::STRING, "pfadd", &key);
    }
    ctx.db.turn.tally.dirty += raised;
    ctx.reply.int(i64::from(raised > 0));
    Ok(())
}

fn string_len(record: &Record) -> usize {
    Str::of(record).map_or(0, Str::len)
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

/// Adds one element to a sparse one of a few KB, if it fits where the record is: whether it has changed, and how many
/// registers were raised. `None` if nothing was done; what there is to do is in `found` if that is known.
#[inline]
fn add_in_place(
    record: &mut RecordMut<'_>,
    place: Place,
    limit: usize,
    found: &Cell<Option<Patch>>,
) -> Option<(bool, u64)> {
    let Some(Str::Bytes(bytes)) = Str::of(record) else { return None };
    let Some(View::Sparse(_)) = View::of(bytes) else { return None };
    match step(bytes, place, limit).ok()? {
        Step::Nothing => edit_in_place(record, 0, |_| (false, 0)),
        Step::Raise(patch) => {
            if splice_in_place(record, patch.range.clone(), patch.bytes(), outdate) {
                return Some((true, 1));
            }
            found.set(Some(patch));
            None
        }
        Step::TooMuch => None,
    }
}

/// Does to a sparse one what was found to be done.
fn apply(record: Record, patch: &Patch) -> Record {
    splice(record, patch.range.clone(), patch.bytes(), outdate)
}

/// Adds to the dense one of `record`; how many registers were raised.
fn add_to_dense(record: Record, elements: &[&[u8]]) -> (Rework, u64) {
    let mut raised = 0;
    let record = edit(record, 0, |bytes| {
        raised = add_all_dense(bytes, elements);
        outdate(bytes);
    });
    (Rework::Changed(record), raised)
}

fn add_all_dense(bytes: &mut [u8], elements: &[&[u8]]) -> u64 {
    elements.iter().map(|element| u64::from(add_dense(bytes, Place::of(element)))).sum()
}

/// What was done to a sparse one.
#[derive(Default)]
struct Sparse {
    changed: bool,
    /// Registers.
    raised: u64,
    /// How many elements stand before the one that was refused, if one was.
    before: usize,
}

/// Adds to a sparse one, which may be dense then; `first` is the place of the first element. When it
/// turns out to be corrupted, what was added before stays.
#[inline]
fn add_sparse(
    record: Record,
    elements: &[&[u8]],
    first: Option<Place>,
    limit: usize,
    refused: &mut CmdResult,
) -> (Record, Sparse) {
    let mut record = seen_as_edited(record);
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
                    outdate(&mut dense);
                    return (rewrite(record, &dense), Sparse { changed: true, raised, ..done });
                }
                Err(_) => *refused = Err(CORRUPTED),
            },
            Err(_) => *refused = Err(CORRUPTED),
        }
        if refused.is_err() {
            done.before = at;
            break;
        }
    }
    (record, done)
}

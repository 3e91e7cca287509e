//! LCS: the longest common subsequence of two values.
//!
//! The reply is the subsequence, its length (LEN), or the positions of its runs (IDX). The
//! algorithm and its memory use are described in [`super::subsequence`]. The visible limit is that
//! of the reference: a table with a 32-bit number for each pair of bytes must not exceed
//! `proto-max-bulk-len`. The actual memory and time are far below that.

use super::range::BYTES_PER_ELEMENT;
use super::subsequence::{Run, length, runs};
use crate::ctx::Ctx;
use crate::error::{CmdResult, Error, SYNTAX};
use crate::lock::Lock;
use crate::registry::Command;
use std::collections::TryReserveError;
use weft_command_spec::{Begin, Find, Flags, Group, KeySpec, QueuedWork, Spec, Special};
use weft_keyspace::Record;
use weft_resp::Reply;
use weft_types::Shared;
use weft_types::string::{Blob, Digits, Str, share};

pub const LCS: Command = Command {
    spec: Spec {
        name: "lcs",
        arity: -3,
        flags: Flags::READONLY,
        keys: &[KeySpec {
            flags: &["RO", "ACCESS"],
            begin: Begin::Index(1),
            find: Find::Range { last: 1, step: 1, limit: 0 },
            notes: "",
        }],
        acl: &[],
        group: Group::String,
        since: "7.0.0",
        summary: "Returns the longest common subsequence of the values of two keys.",
        complexity: "O(N*M) where N and M are the lengths of the values.",
        syntax: "key1:key key2:key [len=LEN] [idx=IDX] [MINMATCHLEN min-match-len:integer] \
                 [withmatchlen=WITHMATCHLEN]",
        history: &[],
        tips: &[],
        special: Special::queued_work(QueuedWork::CompareStrings),
    },
    lock: Lock::Keys,
    run: lcs,
    subcommands: &[],
};

const NOT_STRINGS: Error = Error::new("ERR The specified keys must contain string values");
const LEN_AND_IDX: Error =
    Error::new("ERR If you want both the length and indexes, please just use IDX.");
const TOO_LONG: Error = Error::new("ERR String too long for LCS");
const TOO_LARGE: Error =
    Error::new("ERR Insufficient memory, transient memory for LCS exceeds proto-max-bulk-len");
const NO_MEMORY: Error =
    Error::new("ERR Insufficient memory, failed allocating transient memory for LCS");

/// The requested reply.
#[derive(Clone, Copy, Debug, Default)]
struct Wanted {
    len: bool,
    idx: bool,
    with_match_len: bool,
    /// The minimum length of runs that IDX lists.
    min_match_len: usize,
}

fn lcs(ctx: &mut Ctx<'_>) -> CmdResult {
    // Both keys are looked up before an error of either is returned.
    let (a, b) = (value(ctx, 1), value(ctx, 2));
    let (a, b) = (a?, b?);
    let wanted = options(ctx)?;
    let cells = (a.len() as u128 + 1) * (b.len() as u128 + 1);
    if a.len().max(b.len()) >= u32::MAX as usize - 1 {
        return Err(TOO_LONG);
    }
    if cells * size_of::<u32>() as u128 > ctx.settings.max_string as u128 {
        return Err(TOO_LARGE);
    }
    let copied = (a.bytes_to_copy() + b.bytes_to_copy()) / BYTES_PER_ELEMENT;
    ctx.weigh(cells_to_elements(cells).saturating_add(copied))?;
    let (a, b) = (a.into_bytes(), b.into_bytes());
    let done = if wanted.idx {
        reply_runs(ctx.reply, &a, &b, wanted)
    } else if wanted.len {
        length(&a, &b).map(|n| ctx.reply.int(n as i64))
    } else {
        reply_text(ctx.reply, &a, &b)
    };
    done.map_err(|_| NO_MEMORY)
}

/// The work of computing this many cells, 64 at a time, for [`Ctx::weigh`].
fn cells_to_elements(cells: u128) -> usize {
    usize::try_from(cells / 1024).unwrap_or(usize::MAX)
}

/// The work for two strings as long as that of `record`, for [`Ctx::weigh`]. O(1).
pub fn work(record: &Record) -> usize {
    let len = Str::of(record).map_or(0, |text| text.len()) as u128;
    cells_to_elements(len * len)
}

/// The string at argument `i`, owned, so that the other key can be looked up. A missing key has an
/// empty value.
fn value(ctx: &mut Ctx<'_>, i: usize) -> Result<OwnedText, Error> {
    let key = ctx.key(i);
    let Some(record) = ctx.db.read(&key) else {
        return Ok(OwnedText::Whole(Blob::default()));
    };
    match Str::of(&record) {
        None => Err(NOT_STRINGS),
        Some(Str::Pieces(_)) => Ok(OwnedText::Pieces(Shared::of(&record))),
        Some(text @ (Str::Bytes(_) | Str::Int(_) | Str::Blob(_))) => {
            let copy = || Blob::new(text.bytes(&mut Digits::new()).to_vec());
            Ok(OwnedText::Whole(share(&record).unwrap_or_else(copy)))
        }
    }
}

/// The value of one of the two keys.
enum OwnedText {
    Whole(Blob),
    /// Must be copied into one buffer, which is weighed.
    Pieces(Shared),
}

impl OwnedText {
    fn len(&self) -> usize {
        match self {
            OwnedText::Whole(blob) => blob.len(),
            OwnedText::Pieces(shared) => Str::of(shared).map_or(0, Str::len),
        }
    }

    fn bytes_to_copy(&self) -> usize {
        match self {
            OwnedText::Whole(_) => 0,
            OwnedText::Pieces(_) => self.len(),
        }
    }

    fn into_bytes(self) -> Blob {
        match self {
            OwnedText::Whole(blob) => blob,
            OwnedText::Pieces(shared) => {
                let text = Str::of(&shared).map(|text| text.bytes(&mut Digits::new()).into_owned());
                Blob::new(text.unwrap_or_default())
            }
        }
    }
}

fn options(ctx: &Ctx<'_>) -> Result<Wanted, Error> {
    let mut wanted = Wanted::default();
    let mut i = 3;
    while i < ctx.args.len() {
        if ctx.is(i, "LEN") {
            wanted.len = true;
        } else if ctx.is(i, "IDX") {
            wanted.idx = true;
        } else if ctx.is(i, "WITHMATCHLEN") {
            wanted.with_match_len = true;
        } else if ctx.is(i, "MINMATCHLEN") && i + 1 < ctx.args.len() {
            i += 1;
            wanted.min_match_len = usize::try_from(ctx.int(i)?).unwrap_or(0);
        } else {
            return Err(SYNTAX);
        }
        i += 1;
    }
    if wanted.len && wanted.idx { Err(LEN_AND_IDX) } else { Ok(wanted) }
}

fn reply_text(reply: &mut Reply, a: &[u8], b: &[u8]) -> Result<(), TryReserveError> {
    let mut backwards = Vec::new();
    runs(a, b, |run| backwards.extend(a[run.a..run.a + run.len].iter().rev()))?;
    backwards.reverse();
    reply.bulk(&backwards);
    Ok(())
}

fn reply_runs(
    reply: &mut Reply,
    a: &[u8],
    b: &[u8],
    wanted: Wanted,
) -> Result<(), TryReserveError> {
    let start = reply.mark();
    reply.map(2);
    reply.bulk(b"matches");
    let list = reply.array_deferred();
    let mut listed = 0;
    let total = runs(a, b, |run: Run| {
        if run.len < wanted.min_match_len {
            return;
        }
        listed += 1;
        reply.array(2 + usize::from(wanted.with_match_len));
        for first in [run.a, run.b] {
            reply.array(2);
            reply.int(first as i64);
            reply.int((first + run.len - 1) as i64);
        }
        if wanted.with_match_len {
            reply.int(run.len as i64);
        }
    });
    match total {
        Ok(total) => {
            reply.finish(list, listed);
            reply.bulk(b"len");
            reply.int(total as i64);
            Ok(())
        }
        Err(e) => {
            reply.truncate(start);
            Err(e)
        }
    }
}

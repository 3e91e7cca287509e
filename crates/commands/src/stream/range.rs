//! XLEN, XRANGE, XREVRANGE: read a stream.

use super::{INVALID_ID, stream, write_entries};
use crate::ctx::{Ctx, FAST_WORK};
use crate::error::{CmdResult, Error, SYNTAX};
use crate::lock::Lock;
use crate::registry::Command;
use weft_command_spec::{Flags, Group, QueuedWork, Spec, Special, keys};
use weft_types::stream::StreamId;

pub const XRANGE: Command = Command {
    spec: Spec {
        name: "xrange",
        arity: -4,
        flags: Flags::READONLY,
        keys: &keys::one(&["RO", "ACCESS"]),
        acl: &[],
        group: Group::Stream,
        since: "5.0.0",
        summary: "Returns the entries of a stream between two ids.",
        complexity: "O(log(M)+N) for N of M entries returned.",
        syntax: "key start end [COUNT count:integer]",
        history: &[("6.2.0", "Exclusive ends.")],
        tips: &[],
        special: Special::NONE,
    },
    lock: Lock::Keys,
    run: |ctx| xrange(ctx, false),
    subcommands: &[],
};

pub const XREVRANGE: Command = Command {
    spec: Spec {
        name: "xrevrange",
        flags: XRANGE.spec.flags,
        summary: "Returns the entries of a stream between two ids in reverse order.",
        syntax: "key end start [COUNT count:integer]",
        special: Special::NONE,
        ..XRANGE.spec
    },
    run: |ctx| xrange(ctx, true),
    ..XRANGE
};

pub const XLEN: Command = Command {
    spec: Spec {
        name: "xlen",
        arity: 2,
        flags: Flags::READONLY.or(Flags::FAST),
        keys: &keys::one(&["RO"]),
        summary: "Returns the number of entries of a stream.",
        complexity: "O(1)",
        syntax: "key",
        history: &[],
        special: Special::queued_work(QueuedWork::Constant),
        ..XRANGE.spec
    },
    run: xlen,
    ..XRANGE
};

fn xlen(ctx: &mut Ctx<'_>) -> CmdResult {
    let key = ctx.key(1);
    let len = match ctx.db.read(&key) {
        Some(record) => stream(&record)?.log.len(),
        None => 0,
    };
    ctx.reply.int(len as i64);
    Ok(())
}

const NO_START: Error = Error::new("ERR invalid start ID for the interval");
const NO_END: Error = Error::new("ERR invalid end ID for the interval");

/// An end of a range, and whether a leading `(` excludes it.
fn end(text: &[u8], missing_seq: u64) -> Result<(StreamId, bool), Error> {
    let (id, excluded) = match text {
        [b'(', text @ ..] if !text.is_empty() => (StreamId::parse(text, missing_seq), true),
        _ => (StreamId::parse_end(text, missing_seq), false),
    };
    Ok((id.ok_or(INVALID_ID)?, excluded))
}

/// The first and the last id of a range, both inclusive.
pub(super) fn ends(start: &[u8], stop: &[u8]) -> Result<(StreamId, StreamId), Error> {
    let (mut from, excluded) = end(start, 0)?;
    if excluded {
        from = from.next().ok_or(NO_START)?;
    }
    let (mut to, excluded) = end(stop, u64::MAX)?;
    if excluded {
        to = to.previous().ok_or(NO_END)?;
    }
    Ok((from, to))
}

fn xrange(ctx: &mut Ctx<'_>, backward: bool) -> CmdResult {
    let (start, stop) = if backward { (3, 2) } else { (2, 3) };
    let (from, to) = ends(ctx.args[start], ctx.args[stop])?;
    let mut count = None;
    let mut i = 4;
    while i < ctx.args.len() {
        if !ctx.is(i, "count") || i + 1 == ctx.args.len() {
            return Err(SYNTAX);
        }
        count = Some(u64::try_from(ctx.int(i + 1)?).unwrap_or(0));
        i += 2;
    }
    let key = ctx.key(1);
    let Some(record) = ctx.db.read(&key) else {
        ctx.reply.array(0);
        return Ok(());
    };
    let log = &stream(&record)?.log;
    let most = match count {
        Some(0) => {
            ctx.reply.null_array();
            return Ok(());
        }
        Some(n) => n,
        None => u64::MAX,
    };
    let work = log.range_work(from, to, most, backward, FAST_WORK);
    ctx.lane.weigh(work, &mut ctx.pause)?;
    let most = usize::try_from(most).unwrap_or(usize::MAX);
    match backward {
        false => write_entries(ctx.reply, log.range(from, to), most),
        true => write_entries(ctx.reply, log.range_back(from, to), most),
    };
    Ok(())
}

//! XREAD: entries after the last id that the client knows, or the next ones to arrive.
//!
//! A blocked client's command runs again after every new entry and every other change of its
//! streams ([`weft_keyspace::commit`]). Every client that is blocked on a stream gets the entries.
//! `$` means the last id at the time of the call, so the blocked command has that id instead.

use super::{id, stream, write_entries};
use crate::blocking::timeout_ms;
use crate::ctx::{Ctx, Lane};
use crate::error::{CmdResult, Error, SYNTAX};
use crate::lock::Lock;
use crate::registry::Command;
use smallvec::SmallVec;
use weft_command_spec::{Begin, Find, Flags, Group, KeySpec, Spec, Special};
use weft_keyspace::Key;
use weft_types::stream::{Log, StreamId};

pub const XREAD: Command = Command {
    spec: Spec {
        name: "xread",
        arity: -4,
        flags: Flags::READONLY.or(Flags::BLOCKING).or(Flags::MOVABLE_KEYS),
        keys: &[KeySpec {
            flags: &["RO", "ACCESS"],
            begin: Begin::Keyword { word: "STREAMS", start: 1 },
            find: Find::Range { last: -1, step: 1, limit: 2 },
            notes: "",
        }],
        acl: &[],
        group: Group::Stream,
        since: "5.0.0",
        summary: "Returns the entries of streams after the given ids. With BLOCK, waits for new ones.",
        // The reference has no text here.
        complexity: "",
        syntax: "[COUNT count:integer] [BLOCK milliseconds:integer] \
                 STREAMS streams=(key... id...)",
        history: &[],
        tips: &[],
        special: Special::NONE,
    },
    lock: Lock::Keys,
    run: xread,
    subcommands: &[],
};

const NO_GROUP: Error =
    Error::new("ERR The GROUP option is only supported by XREADGROUP. You called XREAD instead.");
const NO_NOACK: Error =
    Error::new("ERR The NOACK option is only supported by XREADGROUP. You called XREAD instead.");
const NO_NEWS: Error = Error::new(
    "ERR The > ID can be specified only when calling XREADGROUP using the GROUP <group> \
     <consumer> option.",
);

struct Request {
    /// The maximum number of entries of each stream.
    count: u64,
    /// With BLOCK: the maximum time to wait.
    block: Option<Option<u64>>,
    /// The position of the first key, and the number of keys. As many ids follow.
    at: usize,
    streams: usize,
}

impl Request {
    fn parse(ctx: &Ctx<'_>) -> Result<Request, Error> {
        let mut request = Request { count: u64::MAX, block: None, at: 0, streams: 0 };
        let last = ctx.args.len() - 1;
        let mut i = 1;
        while i <= last {
            if i < last && ctx.is(i, "block") {
                request.block = Some(timeout_ms(ctx, i + 1)?);
                i += 2;
            } else if i < last && ctx.is(i, "count") {
                // Zero and negative counts mean all.
                let count = u64::try_from(ctx.int(i + 1)?).unwrap_or(0);
                request.count = if count == 0 { u64::MAX } else { count };
                i += 2;
            } else if i < last && ctx.is(i, "streams") {
                let words = last - i;
                if words % 2 == 1 {
                    return Err(unbalanced_error("xread", '$'));
                }
                (request.at, request.streams) = (i + 1, words / 2);
                return Ok(request);
            } else if i + 1 < last && ctx.is(i, "group") {
                return Err(NO_GROUP);
            } else if ctx.is(i, "noack") {
                return Err(NO_NOACK);
            } else {
                break;
            }
        }
        Err(SYNTAX)
    }
}

/// The error for a list of streams with a different number of ids.
fn unbalanced_error(name: &str, sign: char) -> Error {
    Error::owned(format!(
        "ERR Unbalanced '{name}' list of streams: for each stream key an ID or '{sign}' must be \
         specified."
    ))
}

/// Passes the stream at `key` to `look`, unless the key is missing or in a shard that is not held.
/// A thread that adds to such a stream will serve the client itself.
fn with_log<T>(
    ctx: &mut Ctx<'_>,
    key: &Key<'_>,
    look: impl FnOnce(&Log) -> T,
) -> Result<Option<T>, Error> {
    // A serving thread holds only some shards. Its lookups must not cause keymiss events.
    if ctx.lane == Lane::Served && !(ctx.holds(key) && ctx.db.contains(key)) {
        return Ok(None);
    }
    match ctx.db.read(key) {
        Some(record) => Ok(Some(look(&stream(&record)?.log))),
        None => Ok(None),
    }
}

/// The part of one stream to return.
struct StreamRead {
    /// The last id that the client has.
    id: StreamId,
    /// Whether there are later entries.
    has_entries: bool,
}

fn xread(ctx: &mut Ctx<'_>) -> CmdResult {
    let request = Request::parse(ctx)?;
    ctx.weigh_args()?;
    let Request { count, at, streams, .. } = request;
    let mut wanted = SmallVec::<[StreamRead; 8]>::new();
    let mut work = 0;
    let mut other_type = None;
    for n in at..at + streams {
        let key = ctx.key(n);
        let text = ctx.args[n + streams];
        let work_limit = ctx.lane.work_limit();
        let found = match with_log(ctx, &key, |log| {
            let id = match text {
                b"$" => log.last_id,
                b"+" => log.last_id.previous().unwrap_or(StreamId::MAX),
                b">" => return Err(NO_NEWS),
                _ => id(text)?,
            };
            let has_entries = log.last_entry_id().is_some_and(|last| last > id);
            let work = match (has_entries, id.next()) {
                (true, Some(from)) => log.range_work(from, StreamId::MAX, count, false, work_limit),
                (true, None) | (false, _) => 0,
            };
            Ok((StreamRead { id, has_entries }, work))
        }) {
            // A blocked client gets the error for another type only when one of its streams has
            // entries.
            Err(e) if ctx.lane == Lane::Served => {
                other_type = Some(e);
                None
            }
            found => found?,
        };
        let missing = |id| (StreamRead { id, has_entries: false }, 0);
        let (stream_read, stream_work) = match (found, text) {
            (Some(found), _) => found?,
            (None, b"$" | b"+") => missing(StreamId::MIN),
            (None, b">") => return Err(NO_NEWS),
            (None, text) => missing(id(text)?),
        };
        work += stream_work;
        wanted.push(stream_read);
    }
    ctx.weigh(work)?;
    // The reference reads every stream twice: it counts each read, and sends two keymiss events.
    // The streams with entries are read again below.
    if ctx.lane != Lane::Served {
        for (n, _) in wanted.iter().enumerate().filter(|(_, stream_read)| !stream_read.has_entries)
        {
            let _ = ctx.db.read(&ctx.key(at + n));
        }
    }
    let served = wanted.iter().filter(|stream_read| stream_read.has_entries).count();
    if let Some(e) = other_type.filter(|_| served > 0) {
        return Err(e);
    }
    if served > 0 {
        return reply_streams(ctx, &request, &wanted, served);
    }
    ctx.reply.null_array();
    match request.block {
        Some(timeout) => {
            let ids = wanted
                .iter()
                .enumerate()
                .map(|(n, stream_read)| (at + streams + n, stream_read.id));
            let last = ids.filter(|(at, _)| ctx.args[*at] == b"$");
            let replacement_args =
                last.map(|(at, id)| (at, id.text().as_bytes().to_vec())).collect();
            ctx.block_with((at..at + streams).collect(), timeout, replacement_args)
        }
        None => Ok(()),
    }
}

/// Replies with the streams that have entries.
fn reply_streams(
    ctx: &mut Ctx<'_>,
    request: &Request,
    wanted: &[StreamRead],
    served: usize,
) -> CmdResult {
    if ctx.reply.is_resp3() {
        ctx.reply.map(served);
    } else {
        ctx.reply.array(served);
    }
    let most = usize::try_from(request.count).unwrap_or(usize::MAX);
    for (n, stream_read) in
        wanted.iter().enumerate().filter(|(_, stream_read)| stream_read.has_entries)
    {
        if !ctx.reply.is_resp3() {
            ctx.reply.array(2);
        }
        let name = ctx.args[request.at + n];
        ctx.reply.bulk(name);
        let key = ctx.key(request.at + n);
        let from = stream_read.id.next().unwrap_or(StreamId::MAX);
        match ctx.db.read(&key) {
            Some(record) => {
                let entries = stream(&record)?.log.range(from, StreamId::MAX);
                write_entries(ctx.reply, entries, most);
            }
            // It existed a moment ago.
            None => ctx.reply.array(0),
        }
    }
    Ok(())
}

//! XREADGROUP: reads new entries, or the unacknowledged ones of a consumer.
//!
//! A client that finds no new entries may block. Its command runs again after each change of its
//! keys. If its group was destroyed meanwhile, the command returns the same error as for a new
//! call, so that case needs no code here.

use super::log::Deliveries;
use super::{consumer, counts, edit, group, notify_new_consumer, parts, shown, stream, write_id};
use crate::blocking::timeout_ms;
use crate::ctx::{Ctx, Lane};
use crate::error::{CmdResult, Error, SYNTAX};
use crate::lock::Lock;
use crate::registry::Command;
use crate::stream::{id, write_entry};
use smallvec::SmallVec;
use weft_command_spec::{Begin, Find, Flags, Group as CommandGroup, KeySpec, Spec, Special};
use weft_resp::Reply;
use weft_types::stream::groups::{Group, Owner, Pending};
use weft_types::stream::{Log, StreamId};

pub const XREADGROUP: Command = Command {
    spec: Spec {
        name: "xreadgroup",
        arity: -7,
        flags: Flags::WRITE.or(Flags::BLOCKING).or(Flags::MOVABLE_KEYS).or(Flags::READS_GROUP),
        keys: &[KeySpec {
            flags: &["RO", "ACCESS"],
            begin: Begin::Keyword { word: "STREAMS", start: 4 },
            find: Find::Range { last: -1, step: 1, limit: 2 },
            notes: "",
        }],
        acl: &[],
        group: CommandGroup::Stream,
        since: "5.0.0",
        summary: "Reads entries as a consumer of a group. With BLOCK, waits for new ones.",
        complexity: "O(N) for N entries returned.",
        syntax: "GROUP group-block=(group consumer) [COUNT count:integer] \
                 [BLOCK milliseconds:integer] [noack=NOACK] STREAMS streams=(key... id...)",
        history: &[],
        tips: &[],
        special: Special::NONE,
    },
    lock: Lock::Keys,
    run: xreadgroup,
    subcommands: &[],
};

const UNBALANCED: Error = Error::new(
    "ERR Unbalanced 'xreadgroup' list of streams: for each stream key an ID or '>' must be \
     specified.",
);
const NO_GROUP_OPTION: Error = Error::new("ERR Missing GROUP option for XREADGROUP");
const LAST_ID: Error = Error::new(
    "ERR The $ ID is meaningless in the context of XREADGROUP: you want to read the history of \
     this consumer by specifying a proper ID, or use the > ID to get new messages. The $ ID would \
     just return an empty result set.",
);
const LAST_ENTRY: Error = Error::new(
    "ERR The + ID is meaningless in the context of XREADGROUP: you want to read the history of \
     this consumer by specifying a proper ID, or use the > ID to get new messages. The + ID would \
     just return an empty result set.",
);

/// The arguments.
struct Options<'a> {
    group: &'a [u8],
    consumer: &'a [u8],
    /// The maximum number of entries of each stream; 0: all.
    count: usize,
    /// `Some` with BLOCK: the timeout in milliseconds, or `None` for no timeout.
    block: Option<Option<u64>>,
    no_ack: bool,
    /// The position of the first key, and the number of keys.
    keys_at: usize,
    keys: usize,
}

/// The entries requested from one stream.
#[derive(Clone, Copy)]
enum ReadFrom {
    /// Entries not yet delivered to the group.
    New,
    /// Unacknowledged entries of this consumer after this id.
    History(StreamId),
}

impl<'a> Options<'a> {
    fn parse(ctx: &Ctx<'a>) -> Result<Options<'a>, Error> {
        let args = ctx.args;
        let mut names = None;
        let (mut count, mut block, mut no_ack, mut keys_at) = (0, None, false, None);
        let mut i = 1;
        while i < args.len() {
            let more = args.len() - i - 1;
            if ctx.is(i, "block") && more > 0 {
                i += 1;
                block = Some(timeout_ms(ctx, i)?);
            } else if ctx.is(i, "count") && more > 0 {
                i += 1;
                count = usize::try_from(ctx.int(i)?).unwrap_or(0);
            } else if ctx.is(i, "streams") && more > 0 {
                keys_at = Some(i + 1);
                break;
            } else if ctx.is(i, "group") && more >= 2 {
                names = Some((args[i + 1], args[i + 2]));
                i += 2;
            } else if ctx.is(i, "noack") {
                no_ack = true;
            } else {
                return Err(SYNTAX);
            }
            i += 1;
        }
        let keys_at = keys_at.ok_or(SYNTAX)?;
        let words_left = args.len() - keys_at;
        if !words_left.is_multiple_of(2) {
            return Err(UNBALANCED);
        }
        let (group, consumer) = names.ok_or(NO_GROUP_OPTION)?;
        Ok(Options { group, consumer, count, block, no_ack, keys_at, keys: words_left / 2 })
    }
}

/// The request that the id `text` means.
fn parse_read_from(text: &[u8]) -> Result<ReadFrom, Error> {
    match text {
        b"$" => Err(LAST_ID),
        b"+" => Err(LAST_ENTRY),
        b">" => Ok(ReadFrom::New),
        // The reference treats the largest id like `>`.
        _ => Ok(match id(text)? {
            StreamId::MAX => ReadFrom::New,
            id => ReadFrom::History(id),
        }),
    }
}

#[cold]
fn no_group(key: &[u8], group: &[u8]) -> Error {
    let (key, group) = (shown(key), shown(group));
    let text = [b"NOGROUP No such key '", key, b"' or consumer group '", group];
    Error::owned([&text.concat()[..], b"' in XREADGROUP with GROUP option"].concat())
}

fn xreadgroup(ctx: &mut Ctx<'_>) -> CmdResult {
    let options = Options::parse(ctx)?;
    ctx.weigh_args()?;
    let asked = check_streams(ctx, &options)?;
    let array = match asked.len() {
        1 => None,
        _ => Some(match ctx.reply.is_resp3() {
            true => ctx.reply.map_deferred(),
            false => ctx.reply.array_deferred(),
        }),
    };
    let mut served = 0;
    for (i, what) in asked {
        served += usize::from(read_stream(ctx, &options, i, what, array.is_none())?);
    }
    match array {
        Some(array) if served > 0 => ctx.reply.finish(array, served),
        Some(_) | None if served > 0 => {}
        Some(_) | None => {
            ctx.reply.null_array();
            if let Some(timeout_ms) = options.block {
                return ctx.block(
                    (options.keys_at..options.keys_at + options.keys).collect(),
                    timeout_ms,
                );
            }
        }
    }
    Ok(())
}

/// Checks all streams before any change. Returns the argument positions of the keys to read, and
/// the request for each.
fn check_streams(
    ctx: &mut Ctx<'_>,
    options: &Options<'_>,
) -> Result<SmallVec<[(usize, ReadFrom); 4]>, Error> {
    let mut all = SmallVec::new();
    let mut work = 0;
    for i in options.keys_at..options.keys_at + options.keys {
        let key = ctx.key(i);
        // A thread that serves a blocked client may not hold all its keys.
        if ctx.lane == Lane::Served && !ctx.holds(&key) {
            continue;
        }
        let record = ctx.db.read(&key);
        let stream = record.as_deref().map(stream).transpose()?;
        let found = stream.and_then(|stream| Some((&stream.log, group(stream, options.group)?)));
        let (log, group) = found.ok_or_else(|| no_group(key.bytes, options.group))?;
        let from = parse_read_from(ctx.args[i + options.keys])?;
        work += read_work(log, group, options, from, ctx.lane.work_limit());
        all.push((i, from));
    }
    ctx.weigh(work)?;
    Ok(all)
}

/// The work of one request, in elements. Stops counting beyond `work_limit`.
fn read_work(
    log: &Log,
    group: &Group,
    options: &Options<'_>,
    asked: ReadFrom,
    work_limit: usize,
) -> usize {
    let most = if options.count == 0 { usize::MAX } else { options.count };
    match asked {
        ReadFrom::New => match group.last_id.next() {
            Some(first) if log.last_id >= first => {
                log.range_work(first, StreamId::MAX, most as u64, false, work_limit)
            }
            Some(_) | None => 0,
        },
        ReadFrom::History(after) => {
            let (Some(owner), Some(from)) = (group.find_consumer(options.consumer), after.next())
            else {
                return 0;
            };
            let pending = group.consumer(owner).pending_len().min(most);
            let look_up = pending.saturating_mul(log.look_up_work());
            if look_up > work_limit {
                return look_up;
            }
            let ids = group.ids_of(owner, from).take(most);
            look_up.max(log.reply_work(ids, work_limit))
        }
    }
}

/// Writes the requested entries of the stream at argument `i`, if there are any. Returns whether
/// there were.
fn read_stream(
    ctx: &mut Ctx<'_>,
    options: &Options<'_>,
    i: usize,
    asked: ReadFrom,
    alone: bool,
) -> Result<bool, Error> {
    let key = ctx.key(i);
    let now_ms = ctx.now_ms();
    // The reference reads the key a second time and counts that.
    ctx.db.context.tally.hits += 1;
    let mut done = Deliveries::new(ctx);
    let Ctx { db, reply, .. } = ctx;
    let mut new_consumer = false;
    let served = edit(db, &key, |stream| {
        let Some((log, group)) = parts(stream, options.group) else {
            return Err(no_group(key.bytes, options.group));
        };
        let (owner, is_new) = consumer(group, options.consumer, now_ms);
        new_consumer = is_new;
        if is_new {
            done.note_consumer(options.consumer);
        }
        let has_entries = match asked {
            ReadFrom::New => log.last_entry_id().is_some_and(|last| last > group.last_id),
            ReadFrom::History(_) => true,
        };
        if !has_entries {
            return Ok(false);
        }
        match (alone, reply.is_resp3()) {
            (true, true) => reply.map(1),
            (true, false) => {
                reply.array(1);
                reply.array(2);
            }
            (false, true) => {}
            (false, false) => reply.array(2),
        }
        reply.bulk(key.bytes);
        match asked {
            ReadFrom::New => deliver(reply, log, group, owner, options, now_ms, &mut done),
            ReadFrom::History(after) => {
                deliver_pending(reply, log, group, owner, after, options, now_ms, &mut done)
            }
        }
        Ok(true)
    })?;
    if new_consumer {
        notify_new_consumer(db, &key);
    }
    done.log(ctx, &key, options.group);
    if served {
        ctx.dirty();
    }
    Ok(served)
}

/// Writes the entries not yet delivered to the group, and makes them pending for `owner`.
fn deliver(
    reply: &mut Reply,
    log: &Log,
    group: &mut Group,
    owner: Owner,
    options: &Options<'_>,
    now_ms: i64,
    done: &mut Deliveries,
) {
    let stream = counts(log);
    let entries = reply.array_deferred();
    let mut n = 0;
    let Some(first) = group.last_id.next() else { return reply.finish(entries, 0) };
    for found in log.range(first, StreamId::MAX) {
        group.advance(found.id, &stream);
        write_entry(reply, &found);
        if !options.no_ack {
            group.give(found.id, Pending { owner, delivered_ms: now_ms, deliveries: 1 });
            done.note(group, found.id);
        }
        n += 1;
        if n == options.count {
            break;
        }
    }
    if !options.no_ack {
        group.consumer_mut(owner).active_ms = Some(now_ms);
    }
    done.note_position(group);
    reply.finish(entries, n);
}

/// Writes the pending entries of `owner` after the id `after`, with null for deleted ones.
#[allow(clippy::too_many_arguments, reason = "the parts of one delivery")]
fn deliver_pending(
    reply: &mut Reply,
    log: &Log,
    group: &mut Group,
    owner: Owner,
    after: StreamId,
    options: &Options<'_>,
    now_ms: i64,
    done: &mut Deliveries,
) {
    let most = if options.count == 0 { usize::MAX } else { options.count };
    let ids: Vec<StreamId> = match after.next() {
        Some(from) => group.ids_of(owner, from).take(most).collect(),
        None => Vec::new(),
    };
    reply.array(ids.len());
    for id in ids {
        match log.get(id) {
            Some(found) => {
                write_entry(reply, &found);
                group.delivered_again(id, now_ms);
                done.note(group, id);
            }
            None => {
                reply.array(2);
                write_id(reply, id);
                reply.null_array();
            }
        }
    }
}

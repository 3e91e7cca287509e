//! XADD: appends an entry and optionally trims the stream.

use super::options;
use crate::ctx::Ctx;
use crate::error::{CmdResult, Error, WRONG_TYPE, wrong_arity};
use crate::lock::Lock;
use crate::registry::Command;
use weft_command_spec::{Begin, Find, Flags, Group, KeySpec, QueuedWork, Spec, Special};
use weft_keyspace::Classes;
use weft_keyspace::db::Rework;
use weft_types::Limits;
use weft_types::stream::{Log, Stream, StreamId, Waste};

pub const XADD: Command = Command {
    spec: Spec {
        name: "xadd",
        arity: -5,
        flags: Flags::WRITE.or(Flags::DENYOOM).or(Flags::FAST),
        keys: &[KeySpec {
            flags: &["RW", "UPDATE"],
            begin: Begin::Index(1),
            find: Find::Range { last: 0, step: 1, limit: 0 },
            notes: "UPDATE because trimming may remove entries.",
        }],
        acl: &[],
        group: Group::Stream,
        since: "5.0.0",
        summary: "Appends an entry to a stream. Creates the stream if the key does not exist.",
        complexity: "O(1), plus O(N) for N trimmed entries.",
        syntax: "key [nomkstream=NOMKSTREAM]@6.2.0 \
                 [trim=(strategy=(maxlen=MAXLEN|minid=MINID@6.2.0) \
                 [operator=(equal==|approximately=~)] threshold \
                 [LIMIT count:integer]@6.2.0)] \
                 id-selector=(auto-id=*|id) data=(field value)...",
        history: &[
            ("6.2.0", "NOMKSTREAM, MINID and LIMIT."),
            ("7.0.0", "Ids of the form `<ms>-*`."),
        ],
        tips: &["nondeterministic_output"],
        special: Special::queued_work(QueuedWork::StreamTrim),
    },
    lock: Lock::Keys,
    run: xadd,
    subcommands: &[],
};

const ZERO: Error = Error::new("ERR The ID specified in XADD must be greater than 0-0");
const NOT_ABOVE: Error =
    Error::new("ERR The ID specified in XADD is equal or smaller than the target stream top item");
const EXHAUSTED: Error =
    Error::new("ERR The stream has exhausted the last possible ID, unable to add more items");
const TOO_LARGE: Error = Error::new("ERR Elements are too large to be stored");

fn xadd(ctx: &mut Ctx<'_>) -> CmdResult {
    let options = options::add(ctx)?;
    let pairs = ctx.args.get(options.at + 1..).unwrap_or_default();
    if pairs.len() < 2 || pairs.len() % 2 == 1 {
        return Err(wrong_arity("xadd"));
    }
    if options.id == weft_types::stream::Wanted::This(StreamId::MIN) {
        return Err(ZERO);
    }
    ctx.weigh_args()?;
    let key = ctx.key(1);
    let now_ms = u64::try_from(ctx.now_ms()).unwrap_or(0);
    let (lane, limits, pause) = (ctx.lane, &ctx.settings.limits, &mut ctx.pause);
    let mut waste = Waste::default();
    let mut trimmed = 0;
    let mut add = |log: &mut Log, limits: &Limits| {
        if let Some(trim) = &options.trim {
            lane.weigh(log.trim_work(trim), pause)?;
        }
        if log.last_id == StreamId::MAX {
            return Err(EXHAUSTED);
        }
        let id = options.id.choose(log.last_id, now_ms).ok_or(NOT_ABOVE)?;
        log.append(id, pairs, limits).map_err(|_| TOO_LARGE)?;
        if let Some(trim) = &options.trim {
            trimmed = log.trim(trim, &mut waste);
        }
        Ok(id)
    };
    let added = ctx.db.rework(&key, |record, clock| match record {
        Some(mut record) => {
            let added = match Stream::of_mut(&mut record) {
                Some(stream) => add(&mut stream.log, limits),
                None => Err(WRONG_TYPE),
            };
            match added {
                Ok(id) => (Rework::Changed(record), Ok(Some(id))),
                Err(e) => (Rework::Same(record), Err(e)),
            }
        }
        None if options.create => {
            let mut stream = Stream::default();
            match add(&mut stream.log, limits) {
                Ok(id) => {
                    (Rework::Changed(stream.into_record(key.bytes, None, clock)), Ok(Some(id)))
                }
                Err(e) => (Rework::Absent, Err(e)),
            }
        }
        None => (Rework::Absent, Ok(None)),
    })?;
    if let Some(record) = waste.into_record() {
        ctx.db.context.discard(record);
    }
    match added {
        Some(id) => {
            ctx.notify(Classes::STREAM, "xadd", &key);
            if trimmed > 0 {
                ctx.notify(Classes::STREAM, "xtrim", &key);
            }
            let id_given = matches!(options.id, weft_types::stream::Wanted::This(_));
            let is_exact = options.trim.is_none_or(|trim| !trim.approximate);
            if ctx.is_logged() && !(id_given && is_exact) {
                super::log::log(ctx, &key, options.at, (!id_given).then_some(id));
            }
            ctx.dirty();
            super::write_id(ctx.reply, id);
        }
        None => ctx.reply.null(),
    }
    Ok(())
}

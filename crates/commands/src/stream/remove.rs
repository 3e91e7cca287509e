//! XDEL and XTRIM: remove entries by id or from the front.

use super::{id, options, stream};
use crate::ctx::Ctx;
use crate::error::{CmdResult, Error, WRONG_TYPE};
use crate::lock::Lock;
use crate::registry::Command;
use weft_command_spec::{Flags, Group, QueuedWork, Spec, Special, keys};
use weft_keyspace::db::Rework;
use weft_keyspace::{Classes, Key};
use weft_types::stream::{Log, Stream, StreamId, Waste};

pub const XDEL: Command = Command {
    spec: Spec {
        name: "xdel",
        arity: -3,
        flags: Flags::WRITE.or(Flags::FAST),
        keys: &keys::one(&["RW", "DELETE"]),
        acl: &[],
        group: Group::Stream,
        since: "5.0.0",
        summary: "Deletes entries of a stream by their ids. Returns the number deleted.",
        complexity: "O(log(N)) for each id.",
        syntax: "key id...",
        history: &[],
        tips: &[],
        special: Special::queued_work(QueuedWork::StreamIds),
    },
    lock: Lock::Keys,
    run: xdel,
    subcommands: &[],
};

pub const XTRIM: Command = Command {
    spec: Spec {
        name: "xtrim",
        arity: -4,
        flags: Flags::WRITE,
        summary: "Deletes entries from the front of a stream. Returns the number deleted.",
        complexity: "O(N) for N deleted entries, with very small constants: whole blocks are freed.",
        syntax: "key trim=(strategy=(maxlen=MAXLEN|minid=MINID@6.2.0) \
                 [operator=(equal==|approximately=~)] threshold \
                 [LIMIT count:integer]@6.2.0)",
        history: &[("6.2.0", "MINID and LIMIT.")],
        tips: &["nondeterministic_output"],
        special: Special::queued_work(QueuedWork::StreamTrim),
        ..XDEL.spec
    },
    run: xtrim,
    ..XDEL
};

/// Lets `change` delete entries of the stream at `key`, which must exist. Returns their number and
/// sends `event` if there were any.
fn change(
    ctx: &mut Ctx<'_>,
    key: &Key<'_>,
    event: &'static str,
    change: impl FnOnce(&mut Log) -> u64,
) -> Result<u64, Error> {
    let deleted = ctx.db.rework(key, |record, _| match record {
        Some(mut record) => {
            let deleted = match Stream::of_mut(&mut record) {
                Some(stream) => Ok(change(&mut stream.log)),
                None => Err(WRONG_TYPE),
            };
            match deleted {
                Ok(1..) => (Rework::Changed(record), deleted),
                Ok(0) | Err(_) => (Rework::Same(record), deleted),
            }
        }
        None => (Rework::Absent, Ok(0)),
    })?;
    if deleted > 0 {
        ctx.notify(Classes::STREAM, event, key);
    }
    ctx.db.context.tally.dirty += deleted;
    Ok(deleted)
}

fn xdel(ctx: &mut Ctx<'_>) -> CmdResult {
    ctx.weigh_args()?;
    let key = ctx.key(1);
    let work = match ctx.db.for_write(&key) {
        Some(record) => stream(&record)?.log.look_up_work(),
        None => {
            ctx.reply.int(0);
            return Ok(());
        }
    };
    let words = &ctx.args[2..];
    // An invalid id prevents all deletions.
    let mut ids = smallvec::SmallVec::<[StreamId; 16]>::new();
    for word in words {
        ids.push(id(word)?);
    }
    ctx.weigh(words.len().saturating_mul(work))?;
    let deleted = change(ctx, &key, "xdel", |log| {
        let mut deleted = 0;
        for id in ids {
            if log.delete(id) {
                log.max_deleted_id = log.max_deleted_id.max(id);
                deleted += 1;
            }
        }
        deleted
    })?;
    ctx.reply.int(deleted as i64);
    Ok(())
}

fn xtrim(ctx: &mut Ctx<'_>) -> CmdResult {
    let trim = options::trim(ctx)?;
    let key = ctx.key(1);
    let work = match ctx.db.for_write(&key) {
        Some(record) => stream(&record)?.log.trim_work(&trim),
        None => {
            ctx.reply.int(0);
            return Ok(());
        }
    };
    ctx.weigh(work)?;
    let mut waste = Waste::default();
    let deleted = change(ctx, &key, "xtrim", |log| log.trim(&trim, &mut waste))?;
    if let Some(record) = waste.into_record() {
        ctx.db.context.discard(record);
    }
    if trim.approximate && ctx.is_changed_for_log() {
        super::log::log(ctx, &key, ctx.args.len(), None);
    }
    ctx.reply.int(deleted as i64);
    Ok(())
}

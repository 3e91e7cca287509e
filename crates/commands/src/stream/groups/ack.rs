//! XACK: removes acknowledged entries from the pending list.

use super::{edit, parts};
use crate::ctx::Ctx;
use crate::error::CmdResult;
use crate::lock::Lock;
use crate::registry::Command;
use crate::stream::id;
use smallvec::SmallVec;
use weft_command_spec::{Flags, Group, QueuedWork, Spec, Special, keys};
use weft_keyspace::Classes;
use weft_types::stream::StreamId;

pub const XACK: Command = Command {
    spec: Spec {
        name: "xack",
        arity: -4,
        flags: Flags::WRITE.or(Flags::FAST),
        keys: &keys::one(&["RW", "UPDATE"]),
        acl: &[],
        group: Group::Stream,
        since: "5.0.0",
        summary: "Acknowledges entries delivered to a group, which are then no longer pending.",
        complexity: "O(log P) for each entry, with P pending entries.",
        syntax: "key group id...",
        history: &[],
        tips: &[],
        special: Special::queued_work(QueuedWork::Constant),
    },
    lock: Lock::Keys,
    run: xack,
    subcommands: &[],
};

fn xack(ctx: &mut Ctx<'_>) -> CmdResult {
    ctx.weigh_args()?;
    let key = ctx.key(1);
    let args = ctx.args;
    let mut is_there = true;
    let done = edit(&mut ctx.db, &key, |stream| {
        is_there = stream.is_some();
        let Some((_, group)) = parts(stream, args[2]) else { return Ok(0) };
        // All ids are parsed before the first is acknowledged.
        let ids = args[3..]
            .iter()
            .map(|text| id(text))
            .collect::<Result<SmallVec<[StreamId; 8]>, _>>()?;
        Ok(ids.into_iter().filter(|id| group.acknowledge(*id)).count())
    });
    match is_there {
        true => ctx.db.context.tally.hits += 1,
        false => {
            ctx.db.context.tally.misses += 1;
            ctx.notify(Classes::MISS, "keymiss", &key);
        }
    }
    let done = done?;
    ctx.db.context.tally.dirty += done as u64;
    if done > 0 {
        ctx.db.log_anyway();
    }
    ctx.reply.int(done as i64);
    Ok(())
}

//! XPENDING: entries that were delivered to a group and not acknowledged.

use super::{group, no_group, stream, write_id};
use crate::ctx::{Ctx, FAST_WORK, Lane};
use crate::error::{CmdResult, Error, SYNTAX};
use crate::lock::Lock;
use crate::registry::Command;
use crate::stream::range::ends;
use weft_command_spec::{Flags, Group as CommandGroup, Spec, Special, keys};
use weft_resp::Reply;
use weft_types::stream::StreamId;
use weft_types::stream::groups::{Group, Pending};

pub const XPENDING: Command = Command {
    spec: Spec {
        name: "xpending",
        arity: -3,
        flags: Flags::READONLY,
        keys: &keys::one(&["RO", "ACCESS"]),
        acl: &[],
        group: CommandGroup::Stream,
        since: "5.0.0",
        summary: "Returns the pending entries of a consumer group, or a summary of them.",
        complexity: "O(N) for N entries returned or, with IDLE, examined; O(C) for C \
                     consumers without a range.",
        syntax: "key group [filters=([IDLE min-idle-time:integer]@6.2.0 start end count:integer \
                 [consumer])]",
        history: &[("6.2.0", "The argument `IDLE` and exclusive ends.")],
        tips: &["nondeterministic_output"],
        special: Special::NONE,
    },
    lock: Lock::Keys,
    run: xpending,
    subcommands: &[],
};

/// The requested pending entries.
struct Filter<'a> {
    from: StreamId,
    to: StreamId,
    count: usize,
    /// The latest delivery time (Unix milliseconds).
    until_ms: i64,
    consumer: Option<&'a [u8]>,
}

impl<'a> Filter<'a> {
    fn parse(ctx: &Ctx<'a>) -> Result<Filter<'a>, Error> {
        let args = ctx.args;
        let mut at = 3;
        let mut until_ms = i64::MAX;
        if ctx.is(3, "idle") {
            let idle_ms = ctx.int(4)?;
            if args.len() < 8 {
                return Err(SYNTAX);
            }
            if idle_ms != 0 {
                until_ms = ctx.now_ms().saturating_sub(idle_ms);
            }
            at = 5;
        }
        let count = usize::try_from(ctx.int(at + 2)?).unwrap_or(0);
        let (from, to) = ends(args[at], args[at + 1])?;
        Ok(Filter { from, to, count, until_ms, consumer: args.get(at + 3).copied() })
    }
}

fn xpending(ctx: &mut Ctx<'_>) -> CmdResult {
    let filter = match ctx.args.len() {
        3 => None,
        6..=9 => Some(Filter::parse(ctx)?),
        _ => return Err(SYNTAX),
    };
    let args = ctx.args;
    let key = ctx.key(1);
    let now_ms = ctx.now_ms();
    let record = ctx.db.read(&key);
    let found = record.as_deref().map(stream).transpose()?;
    let group = found.and_then(|stream| group(stream, args[2])).ok_or_else(|| no_group(args))?;
    let work = match &filter {
        Some(filter) => filter.count.min(group.pending_len()),
        // All consumers are examined, though few may have pending entries.
        None if group.pending_len() > 0 => group.consumers_len(),
        None => 0,
    };
    ctx.lane.weigh(work, &mut ctx.pause)?;
    let Some(filter) = filter else {
        write_summary(ctx.reply, group);
        return Ok(());
    };
    // With IDLE the command may examine many entries and return few.
    let work_limit = match ctx.lane {
        Lane::Fast | Lane::Script => FAST_WORK,
        Lane::Slow | Lane::Transaction | Lane::Served => usize::MAX,
    };
    match write_range(ctx.reply, group, &filter, now_ms, work_limit) {
        true => Ok(()),
        false => ctx.lane.weigh(usize::MAX, &mut ctx.pause),
    }
}

/// Writes the number of pending entries, the first and last id, and the number per consumer.
fn write_summary(reply: &mut Reply, group: &Group) {
    reply.array(4);
    reply.int(group.pending_len() as i64);
    let Some((first, last)) = group.pending_ends() else {
        reply.null();
        reply.null();
        return reply.null_array();
    };
    write_id(reply, first);
    write_id(reply, last);
    let consumers = reply.array_deferred();
    let mut n = 0;
    for (_, consumer) in group.consumers().filter(|(_, consumer)| consumer.pending_len() > 0) {
        reply.array(2);
        reply.bulk(consumer.name());
        reply.bulk_int(consumer.pending_len() as i64);
        n += 1;
    }
    reply.finish(consumers, n);
}

/// Writes the requested entries. Returns `false` if it stopped after it had examined `work_limit`
/// entries.
fn write_range(
    reply: &mut Reply,
    group: &Group,
    filter: &Filter<'_>,
    now_ms: i64,
    work_limit: usize,
) -> bool {
    let entries = reply.array_deferred();
    let mut n = 0;
    let mut write_one = |(id, pending): (StreamId, Pending)| {
        reply.array(4);
        write_id(reply, id);
        reply.bulk(group.consumer(pending.owner).name());
        reply.int(now_ms.saturating_sub(pending.delivered_ms).max(0));
        reply.int(pending.deliveries);
        n += 1;
    };
    let is_wanted = |id: StreamId| id <= filter.to;
    let ended = match filter.consumer.map(|name| group.find_consumer(name)) {
        _ if filter.count == 0 => true,
        // A consumer that does not exist has no pending entries.
        Some(None) => true,
        Some(Some(owner)) => {
            let all = group.pending_of(owner, filter.from).take_while(|(id, _)| is_wanted(*id));
            let mut examined = 0;
            let within = all.take_while(|_| {
                examined += 1;
                examined <= work_limit
            });
            let old = within.filter(|(_, pending)| pending.delivered_ms <= filter.until_ms);
            old.take(filter.count).for_each(&mut write_one);
            examined <= work_limit
        }
        None => {
            let mut old = group.old_pending_from(filter.from, filter.until_ms, work_limit);
            let mut left = filter.count;
            while left > 0
                && let Some((id, pending)) = old.next().filter(|(id, _)| is_wanted(*id))
            {
                write_one((id, pending));
                left -= 1;
            }
            old.work() <= work_limit
        }
    };
    reply.finish(entries, n);
    ended
}

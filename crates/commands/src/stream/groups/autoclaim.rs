//! XAUTOCLAIM: gives entries that have been pending for long to a consumer, step by step.

use super::log::Deliveries;
use super::{consumer, edit, no_group, notify_new_consumer, parts, write_entry_by_id, write_id};
use crate::ctx::{Ctx, FAST_WORK, Lane, Meter};
use crate::error::{CmdResult, Error, SYNTAX};
use crate::lock::Lock;
use crate::registry::Command;
use crate::stream::range::ends;
use weft_base::num;
use weft_command_spec::{Flags, Group as CommandGroup, QueuedWork, Spec, Special, keys};
use weft_types::stream::groups::{Group, Pending};
use weft_types::stream::{Log, StreamId};

pub const XAUTOCLAIM: Command = Command {
    spec: Spec {
        name: "xautoclaim",
        arity: -6,
        flags: Flags::WRITE.or(Flags::FAST),
        keys: &keys::one(&["RW", "DELETE"]),
        acl: &[],
        group: CommandGroup::Stream,
        since: "6.2.0",
        summary: "Gives entries that have been pending for long to another consumer of their group.",
        complexity: "O(N) for N entries examined, at most ten times the count.",
        syntax: "key group consumer min-idle-time start [COUNT count:integer] [justid=JUSTID]",
        history: &[("7.0.0", "A third element of the reply: deleted entries.")],
        tips: &["nondeterministic_output"],
        special: Special::queued_work(QueuedWork::StreamAutoclaim),
    },
    lock: Lock::Keys,
    run: xautoclaim,
    subcommands: &[],
};

const MIN_IDLE: Error = Error::new("ERR Invalid min-idle-time argument for XAUTOCLAIM");
const COUNT: Error = Error::new("ERR COUNT must be > 0");

/// The default of COUNT.
const DEFAULT_COUNT: usize = 100;
/// Entries examined for each one that may be returned.
const EXAMINED_PER_ENTRY: usize = 10;
/// The maximum count: the reference allocates room for as many ids.
const MAX_COUNT: usize = i64::MAX as usize / size_of::<StreamId>();

/// The arguments.
struct Request {
    min_idle_ms: i64,
    from: StreamId,
    count: usize,
    just_ids: bool,
}

/// The result of one step.
#[derive(Default)]
struct Found {
    claimed: Vec<(StreamId, Pending)>,
    /// Pending entries that are no longer in the stream.
    deleted: Vec<StreamId>,
    /// The start of the next step; 0-0 at the end.
    next: StreamId,
}

impl Request {
    fn parse(ctx: &Ctx<'_>) -> Result<Request, Error> {
        let args = ctx.args;
        let min_idle_ms = num::parse_i64(args[4]).ok_or(MIN_IDLE)?.max(0);
        let (from, _) = ends(args[5], b"+")?;
        let mut request = Request { min_idle_ms, from, count: DEFAULT_COUNT, just_ids: false };
        let mut i = 6;
        while i < args.len() {
            if ctx.is(i, "count") && i + 1 < args.len() {
                i += 1;
                let count = num::parse_i64(args[i]).and_then(|n| usize::try_from(n).ok());
                request.count = count.filter(|n| (1..=MAX_COUNT).contains(n)).ok_or(COUNT)?;
            } else if ctx.is(i, "justid") {
                request.just_ids = true;
            } else {
                return Err(SYNTAX);
            }
            i += 1;
        }
        Ok(request)
    }

    /// The meter for the entries that a sweep examines. The sweep ends early when it has found
    /// enough.
    fn meter(&self, lane: Lane, log: &Log, group: &Group) -> Meter {
        let most = self.count.saturating_mul(EXAMINED_PER_ENTRY).min(group.pending_len());
        lane.meter(most, most.saturating_mul(log.look_up_work()))
    }

    fn is_old(&self, pending: &Pending, now_ms: i64) -> bool {
        let idle_ms = now_ms.saturating_sub(pending.delivered_ms);
        idle_ms >= self.min_idle_ms || self.min_idle_ms == 0
    }

    /// Finds the entries to claim, until `meter` runs out. Changes nothing.
    fn find_entries(&self, log: &Log, group: &Group, now_ms: i64, meter: &mut Meter) -> Found {
        let mut found = Found::default();
        let mut attempts = self.count.saturating_mul(EXAMINED_PER_ENTRY);
        for (id, pending) in group.pending_from(self.from) {
            if attempts == 0 || found.claimed.len() + found.deleted.len() == self.count {
                found.next = id;
                break;
            }
            attempts -= 1;
            if !meter.step() {
                break;
            }
            if !log.contains(id) {
                found.deleted.push(id);
            } else if self.is_old(&pending, now_ms) {
                found.claimed.push((id, pending));
            }
        }
        found
    }
}

fn xautoclaim(ctx: &mut Ctx<'_>) -> CmdResult {
    let request = Request::parse(ctx);
    let args = ctx.args;
    let key = ctx.key(1);
    let (name, consumer_name, now_ms) = (args[2], args[3], ctx.now_ms());
    // The reference sends the keymiss event before it checks the other arguments.
    let record = ctx.db.read(&key);
    let request = request?;
    let stream = record.as_deref().map(super::stream).transpose()?;
    let found = stream.and_then(|stream| Some((&stream.log, super::group(stream, name)?)));
    let (log, group) = found.ok_or_else(|| no_group(args))?;
    let mut meter = request.meter(ctx.lane, log, group);
    let found = request.find_entries(log, group, now_ms, &mut meter);
    meter.check(&mut ctx.pause)?;
    if !request.just_ids {
        let claimed = found.claimed.iter().map(|(id, _)| *id);
        ctx.lane.weigh(log.reply_work(claimed, FAST_WORK), &mut ctx.pause)?;
    }

    let mut done = Deliveries::new(ctx);
    let Ctx { db, reply, .. } = ctx;
    let mut new_consumer = false;
    let changed = edit(db, &key, |stream| {
        let Some((log, group)) = parts(stream, name) else { return Ok(0) };
        let (owner, is_new) = consumer(group, consumer_name, now_ms);
        new_consumer = is_new;
        if is_new {
            done.note_consumer(consumer_name);
        }
        for id in &found.deleted {
            done.note(group, *id);
            group.acknowledge(*id);
        }
        reply.array(3);
        write_id(reply, found.next);
        reply.array(found.claimed.len());
        for (id, before) in &found.claimed {
            let deliveries = before.deliveries.wrapping_add(i64::from(!request.just_ids));
            group.give(*id, Pending { owner, delivered_ms: now_ms, deliveries });
            done.note(group, *id);
            match request.just_ids {
                true => write_id(reply, *id),
                false => assert!(write_entry_by_id(reply, log, *id), "the entry exists"),
            }
        }
        if !found.claimed.is_empty() {
            group.consumer_mut(owner).active_ms = Some(now_ms);
        }
        reply.array(found.deleted.len());
        found.deleted.iter().for_each(|id| write_id(reply, *id));
        Ok(found.claimed.len() + found.deleted.len())
    })?;
    if new_consumer {
        notify_new_consumer(db, &key);
    }
    done.log(ctx, &key, name);
    ctx.db.context.tally.dirty += changed as u64;
    Ok(())
}

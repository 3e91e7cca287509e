//! XCLAIM: gives the named entries to another consumer.

use super::log::Deliveries;
use super::{consumer, edit, no_group, notify_new_consumer, parts, write_entry_by_id, write_id};
use crate::ctx::{Ctx, FAST_WORK};
use crate::error::{CmdResult, Error};
use crate::lock::Lock;
use crate::registry::Command;
use crate::stream::id;
use weft_base::num;
use weft_command_spec::{Flags, Group as CommandGroup, QueuedWork, Spec, Special, keys};
use weft_resp::Reply;
use weft_types::stream::groups::{Group, Owner, Pending};
use weft_types::stream::{Log, Stream, StreamId};

pub const XCLAIM: Command = Command {
    spec: Spec {
        name: "xclaim",
        arity: -6,
        flags: Flags::WRITE.or(Flags::FAST),
        keys: &keys::one(&["RW", "UPDATE"]),
        acl: &[],
        group: CommandGroup::Stream,
        since: "5.0.0",
        summary: "Gives pending entries to another consumer of their group.",
        complexity: "O(log P) for each entry, with P pending entries.",
        syntax: "key group consumer min-idle-time id... [IDLE ms:integer] \
                 [TIME unix-time-milliseconds:unix-time] [RETRYCOUNT count:integer] [force=FORCE] \
                 [justid=JUSTID] [LASTID lastid]",
        history: &[],
        tips: &["nondeterministic_output"],
        special: Special::queued_work(QueuedWork::StreamIds),
    },
    lock: Lock::Keys,
    run: xclaim,
    subcommands: &[],
};

const MIN_IDLE: Error = Error::new("ERR Invalid min-idle-time argument for XCLAIM");
const IDLE: Error = Error::new("ERR Invalid IDLE option argument for XCLAIM");
const TIME: Error = Error::new("ERR Invalid TIME option argument for XCLAIM");
const RETRY_COUNT: Error = Error::new("ERR Invalid RETRYCOUNT option argument for XCLAIM");

/// The arguments after the consumer.
struct Claim {
    min_idle_ms: i64,
    ids: Vec<StreamId>,
    now_ms: i64,
    /// The delivery time to set (Unix milliseconds).
    delivered_ms: i64,
    /// `None`: increment the count.
    deliveries: Option<i64>,
    force: bool,
    just_ids: bool,
    last_id: StreamId,
}

impl Claim {
    fn parse(ctx: &Ctx<'_>) -> Result<Claim, Error> {
        let args = ctx.args;
        let number = |i: usize, error: Error| num::parse_i64(args[i]).ok_or(error);
        let now_ms = ctx.now_ms();
        let min_idle_ms = number(4, MIN_IDLE)?.max(0);
        // The first argument that is not an id begins the options.
        let ids: Vec<StreamId> = args[5..].iter().map_while(|text| id(text).ok()).collect();
        let mut i = 5 + ids.len();
        let mut delivered_ms = None;
        let mut claim = Claim {
            min_idle_ms,
            ids,
            now_ms,
            delivered_ms: now_ms,
            deliveries: None,
            force: false,
            just_ids: false,
            last_id: StreamId::MIN,
        };
        while i < args.len() {
            let more = i + 1 < args.len();
            if ctx.is(i, "force") {
                claim.force = true;
            } else if ctx.is(i, "justid") {
                claim.just_ids = true;
            } else if ctx.is(i, "idle") && more {
                i += 1;
                delivered_ms = Some(now_ms.wrapping_sub(number(i, IDLE)?));
            } else if ctx.is(i, "time") && more {
                i += 1;
                delivered_ms = Some(number(i, TIME)?);
            } else if ctx.is(i, "retrycount") && more {
                i += 1;
                claim.deliveries = Some(number(i, RETRY_COUNT)?).filter(|n| *n >= 0);
            } else if ctx.is(i, "lastid") && more {
                i += 1;
                claim.last_id = id(args[i])?;
            } else {
                let text = [b"ERR Unrecognized XCLAIM option '", super::shown(args[i]), b"'"];
                return Err(Error::owned(text.concat()));
            }
            i += 1;
        }
        // Ignore times before 1970 or in the future: a client's clock may be slightly wrong.
        if let Some(time) = delivered_ms.filter(|time| (0..=now_ms).contains(time)) {
            claim.delivered_ms = time;
        }
        Ok(claim)
    }

    /// The maximum work, in elements.
    fn work(&self, log: &Log) -> usize {
        let look_up = self.ids.len().saturating_mul(log.look_up_work());
        match self.just_ids {
            true => look_up,
            false => look_up.max(log.reply_work(self.ids.iter().copied(), FAST_WORK)),
        }
    }

    /// Gives `id` to `owner` if it may be claimed. Returns whether it was.
    fn take(
        &self,
        log: &Log,
        group: &mut Group,
        owner: Owner,
        id: StreamId,
        done: &mut Deliveries,
    ) -> bool {
        if !log.contains(id) {
            done.note(group, id);
            // No consumer can process a deleted entry.
            group.acknowledge(id);
            return false;
        }
        let before = match group.pending(id) {
            Some(pending) => {
                let idle_ms = self.now_ms.saturating_sub(pending.delivered_ms);
                if self.min_idle_ms > 0 && idle_ms < self.min_idle_ms {
                    return false;
                }
                pending.deliveries
            }
            None if self.force => 1,
            None => return false,
        };
        let deliveries = match self.deliveries {
            Some(n) => n,
            None => before.wrapping_add(i64::from(!self.just_ids)),
        };
        group.give(id, Pending { owner, delivered_ms: self.delivered_ms, deliveries });
        done.note(group, id);
        true
    }

    /// Runs the claim and writes the claimed entries. Returns their number, and whether the
    /// consumer is new.
    fn run(
        &self,
        reply: &mut Reply,
        log: &Log,
        group: &mut Group,
        name: &[u8],
        done: &mut Deliveries,
    ) -> (usize, bool) {
        let is_further = self.last_id > group.last_id;
        group.last_id = group.last_id.max(self.last_id);
        let (owner, is_new) = consumer(group, name, self.now_ms);
        if is_new {
            done.note_consumer(name);
        }
        let entries = reply.array_deferred();
        let mut n = 0;
        for id in &self.ids {
            if !self.take(log, group, owner, *id, done) {
                continue;
            }
            match self.just_ids {
                true => write_id(reply, *id),
                false => assert!(write_entry_by_id(reply, log, *id), "the entry exists"),
            }
            n += 1;
        }
        if n > 0 {
            group.consumer_mut(owner).active_ms = Some(self.now_ms);
        }
        // Each logged claim also sets the position.
        if is_further && !done.has_claims() {
            done.note_position(group);
        }
        reply.finish(entries, n);
        (n, is_new)
    }
}

fn xclaim(ctx: &mut Ctx<'_>) -> CmdResult {
    ctx.weigh_args()?;
    let args = ctx.args;
    let key = ctx.key(1);
    let (name, consumer) = (args[2], args[3]);
    let record = ctx.db.read(&key);
    let found = record.as_deref().map(super::stream).transpose()?;
    let found = found.filter(|stream| super::group(stream, name).is_some());
    found.ok_or_else(|| no_group(args))?;
    let claim = Claim::parse(ctx)?;
    let record = ctx.db.peek(&key);
    let work = record.as_deref().and_then(Stream::of).map_or(0, |stream| claim.work(&stream.log));
    ctx.lane.weigh(work, &mut ctx.pause)?;
    let mut done = Deliveries::new(ctx);
    let Ctx { db, reply, .. } = ctx;
    let (claimed, is_new) = edit(db, &key, |stream| {
        let found = parts(stream, name);
        Ok(found
            .map_or((0, false), |(log, group)| claim.run(reply, log, group, consumer, &mut done)))
    })?;
    if is_new {
        notify_new_consumer(db, &key);
    }
    done.log(ctx, &key, name);
    ctx.db.context.tally.dirty += claimed as u64;
    Ok(())
}

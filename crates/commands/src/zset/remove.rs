//! ZREM, ZREMRANGEBYRANK, ZREMRANGEBYSCORE and ZREMRANGEBYLEX: remove elements.

use super::{ends, zset};
use crate::ctx::Ctx;
use crate::error::{CmdResult, WRONG_TYPE};
use crate::lock::Lock;
use crate::registry::Command;
use weft_command_spec::{Flags, Group, Spec, Special, keys};
use weft_keyspace::db::Rework;
use weft_keyspace::{Classes, Key};
use weft_types::zset::{Edit, Range, Span};

pub const ZREM: Command = Command {
    spec: Spec {
        name: "zrem",
        arity: -3,
        flags: Flags::WRITE.or(Flags::FAST),
        keys: &keys::one(&["RW", "DELETE"]),
        acl: &[],
        group: Group::SortedSet,
        since: "1.2.0",
        summary: "Removes members from a sorted set.",
        complexity: "O(M*log(N)) for M of N members.",
        syntax: "key member...",
        history: &[("2.4.0", "Accepts several members.")],
        tips: &[],
        special: Special::NONE,
    },
    lock: Lock::Keys,
    run: zrem,
    subcommands: &[],
};

pub const ZREMRANGEBYRANK: Command = Command {
    spec: Spec {
        name: "zremrangebyrank",
        arity: 4,
        flags: Flags::WRITE,
        since: "2.0.0",
        summary: "Removes the members of a sorted set between two ranks.",
        complexity: "O(log(N)+M) to remove M of N members.",
        syntax: "key start:integer stop:integer",
        history: &[],
        special: Special::NONE,
        ..ZREM.spec
    },
    run: by_rank,
    ..ZREM
};

pub const ZREMRANGEBYSCORE: Command = Command {
    spec: Spec {
        name: "zremrangebyscore",
        flags: ZREMRANGEBYRANK.spec.flags,
        since: "1.2.0",
        summary: "Removes the members of a sorted set with scores in a range.",
        syntax: "key min:double max:double",
        special: Special::NONE,
        ..ZREMRANGEBYRANK.spec
    },
    run: |ctx| {
        let range = ends::scores(ctx.args[2], ctx.args[3])?;
        by_range(ctx, &range, "zremrangebyscore")
    },
    ..ZREM
};

pub const ZREMRANGEBYLEX: Command = Command {
    spec: Spec {
        name: "zremrangebylex",
        flags: ZREMRANGEBYRANK.spec.flags,
        since: "2.8.9",
        summary: "Removes the members between two strings from a sorted set with equal scores.",
        syntax: "key min max",
        special: Special::NONE,
        ..ZREMRANGEBYRANK.spec
    },
    run: |ctx| {
        let range = ends::members(ctx.args[2], ctx.args[3])?;
        by_range(ctx, &range, "zremrangebylex")
    },
    ..ZREM
};

fn zrem(ctx: &mut Ctx<'_>) -> CmdResult {
    ctx.weigh(ctx.args.len() - 2)?;
    let key = ctx.key(1);
    let members = &ctx.args[2..];
    let mut emptied = false;
    let removed = ctx.db.rework(&key, |record, _| {
        let mut edit = match record.map(Edit::of) {
            None => return (Rework::Absent, Ok(0)),
            Some(Err(other)) => return (Rework::Same(other), Err(WRONG_TYPE)),
            Some(Ok(edit)) => edit,
        };
        let removed = members.iter().filter(|member| edit.remove(member)).count();
        emptied = edit.is_empty();
        (changed(edit, removed), Ok(removed))
    })?;
    if removed > 0 {
        notify_removed(ctx, &key, "zrem", emptied);
    }
    ctx.db.context.tally.dirty += removed as u64;
    ctx.reply.int(removed as i64);
    Ok(())
}

/// Notifies of `event` for removed elements; `emptied`: they were the last ones.
pub(super) fn notify_removed(ctx: &mut Ctx<'_>, key: &Key<'_>, event: &'static str, emptied: bool) {
    ctx.notify(Classes::ZSET, event, key);
    if emptied {
        ctx.notify(Classes::GENERIC, "del", key);
    }
}

/// The result for a set after elements were removed.
pub(super) fn changed(edit: Edit, removed: usize) -> Rework {
    let empty = edit.is_empty();
    let record = edit.finish();
    match removed {
        _ if empty => Rework::Emptied(record),
        0 => Rework::Same(record),
        _ => Rework::Changed(record),
    }
}

fn by_rank(ctx: &mut Ctx<'_>) -> CmdResult {
    let (start, stop) = (ctx.int(2)?, ctx.int(3)?);
    let key = ctx.key(1);
    let ranks = match ctx.db.for_write(&key) {
        Some(record) => ends::ranks(start, stop, zset(&record)?.len()),
        None => 0..0,
    };
    let span = Span { skip: ranks.start, count: ranks.len() };
    remove(ctx, &key, span, "zremrangebyrank")
}

fn by_range(ctx: &mut Ctx<'_>, range: &Range<'_>, event: &'static str) -> CmdResult {
    let key = ctx.key(1);
    let span = match ctx.db.for_write(&key) {
        Some(record) => zset(&record)?.select(range, false, 0, None),
        None => Span::NOTHING,
    };
    remove(ctx, &key, span, event)
}

/// Removes the elements of `span` from the sorted set of `key` and notifies of `event`, unless the
/// span is empty.
fn remove(ctx: &mut Ctx<'_>, key: &Key<'_>, span: Span, event: &'static str) -> CmdResult {
    if span.count > 0 {
        let whole = ctx
            .db
            .peek(key)
            .is_some_and(|record| zset(&record).is_ok_and(|set| set.len() == span.count));
        if whole {
            // The record is freed as a whole, outside of this thread.
            ctx.db.delete(key);
        } else {
            ctx.weigh(span.count)?;
            ctx.db.rework(key, |record, _| match record.map(Edit::of) {
                Some(Ok(mut edit)) => {
                    edit.remove_span(span, false);
                    (changed(edit, span.count), ())
                }
                Some(Err(other)) => (Rework::Same(other), ()),
                None => (Rework::Absent, ()),
            });
        }
        notify_removed(ctx, key, event, whole);
        ctx.db.context.tally.dirty += span.count as u64;
    }
    ctx.reply.int(span.count as i64);
    Ok(())
}

//! LPOP, RPOP, LMPOP: remove elements from an end.

use super::{discard, end, list, pop_event, write_element};
use crate::ctx::Ctx;
use crate::error::{CmdResult, Error, SYNTAX};
use crate::lock::Lock;
use crate::registry::Command;
use weft_command_spec::{Begin, Find, Flags, Group, KeySpec, QueuedWork, Spec, Special, keys};
use weft_keyspace::db::Rework;
use weft_keyspace::{Classes, Key};
use weft_types::list::{self, End, List, Waste};

pub const LPOP: Command = Command {
    spec: Spec {
        name: "lpop",
        arity: -2,
        flags: Flags::WRITE.or(Flags::FAST),
        keys: &keys::one(&["RW", "ACCESS", "DELETE"]),
        acl: &[],
        group: Group::List,
        since: "1.0.0",
        summary: "Removes and returns elements at the head of a list.",
        complexity: "O(N) for N elements removed.",
        syntax: "key [count:integer]@6.2.0",
        history: &[("6.2.0", "The argument `count`.")],
        tips: &[],
        special: Special::queued_work(QueuedWork::Counted),
    },
    lock: Lock::Keys,
    run: |ctx| pop(ctx, End::Left),
    subcommands: &[],
};

pub const RPOP: Command = Command {
    spec: Spec {
        name: "rpop",
        flags: LPOP.spec.flags,
        summary: "Removes and returns elements at the tail of a list.",
        special: Special::queued_work(QueuedWork::Counted),
        ..LPOP.spec
    },
    run: |ctx| pop(ctx, End::Right),
    ..LPOP
};

pub const LMPOP: Command = Command {
    spec: Spec {
        name: "lmpop",
        arity: -4,
        flags: Flags::WRITE.or(Flags::MOVABLE_KEYS),
        keys: &[counted_keys(1)],
        since: "7.0.0",
        summary: "Removes and returns elements of the first non-empty list.",
        complexity: "O(N+M) for N keys and M elements removed.",
        syntax: "numkeys:integer key... where=(left=LEFT|right=RIGHT) [COUNT count:integer]",
        history: &[],
        special: Special::NONE,
        ..LPOP.spec
    },
    run: lmpop,
    ..LPOP
};

/// The number of keys at argument `at`, followed by the keys.
pub const fn counted_keys(at: u16) -> KeySpec {
    KeySpec {
        flags: &["RW", "ACCESS", "DELETE"],
        begin: Begin::Index(at),
        find: Find::KeyNum { num: 0, first: 1, step: 1 },
        notes: "",
    }
}

const OUT_OF_RANGE: Error = Error::new("ERR value is out of range, must be positive");
const NUMKEYS: Error = Error::new("ERR numkeys should be greater than 0");
const COUNT: Error = Error::new("ERR count should be greater than 0");

fn pop(ctx: &mut Ctx<'_>, from: End) -> CmdResult {
    if ctx.args.len() > 3 {
        return Err(crate::error::wrong_arity(if from == End::Left { "lpop" } else { "rpop" }));
    }
    let key = ctx.key(1);
    if ctx.args.len() == 2 {
        return pop_one(ctx, &key, from);
    }
    let count = ctx.int(2).ok().and_then(|n| usize::try_from(n).ok()).ok_or(OUT_OF_RANGE)?;
    let (taken, work) = match ctx.db.peek(&key) {
        None => {
            ctx.reply.null_array();
            return Ok(());
        }
        Some(record) => work(list(&record)?, from, count),
    };
    if count == 0 {
        ctx.reply.array(0);
        return Ok(());
    }
    ctx.weigh(work)?;
    ctx.reply.array(taken);
    take(ctx, &key, from, count)
}

/// How many elements a pop of `count` removes, and its work.
fn work(list: List<'_>, from: End, count: usize) -> (usize, usize) {
    let n = count.min(list.len());
    let first = match from {
        End::Left => 0,
        End::Right => list.len() - n,
    };
    (n, if n == 0 { 0 } else { list.range_work(first, n) })
}

fn pop_one(ctx: &mut Ctx<'_>, key: &Key<'_>, from: End) -> CmdResult {
    let before = ctx.reply.mark();
    take(ctx, key, from, 1)?;
    if ctx.reply.len_since(before) == 0 {
        ctx.reply.null();
    }
    Ok(())
}

/// Removes up to `count` elements from the list at `key`, if it exists, and writes each to the
/// reply.
pub fn take(ctx: &mut Ctx<'_>, key: &Key<'_>, from: End, count: usize) -> CmdResult {
    let (reply, limits) = (&mut *ctx.reply, &ctx.settings.limits);
    let mut waste = Waste::default();
    let mut emptied = false;
    let taken = ctx.db.rework(key, |record, _| {
        let Some(record) = record else { return (Rework::Absent, Ok(0)) };
        let len = match list(&record) {
            Ok(list) => list.len(),
            Err(e) => return (Rework::Same(record), Err(e)),
        };
        let record =
            list::pop(record, from, count, limits, &mut waste, |v| write_element(reply, v));
        emptied = list::len(&record) == 0;
        let rework = if emptied { Rework::Emptied(record) } else { Rework::Changed(record) };
        (rework, Ok(count.min(len)))
    })?;
    discard(ctx, waste);
    if taken > 0 {
        ctx.notify(Classes::LIST, pop_event(from), key);
    }
    if emptied {
        ctx.notify(Classes::GENERIC, "del", key);
    }
    ctx.db.context.tally.dirty += taken as u64;
    Ok(())
}

/// The command that pops from this end.
pub fn pop_command(from: End) -> &'static [u8] {
    match from {
        End::Left => b"LPOP",
        End::Right => b"RPOP",
    }
}

/// The arguments of LMPOP and BLMPOP, from the number of keys at `at` on.
pub struct MultiPop {
    /// Positions of the keys.
    pub keys: std::ops::Range<usize>,
    pub from: End,
    pub count: usize,
}

impl MultiPop {
    pub fn parse(ctx: &Ctx<'_>, at: usize) -> Result<MultiPop, Error> {
        let numkeys = ctx
            .int(at)
            .ok()
            .and_then(|n| usize::try_from(n).ok())
            .filter(|n| *n > 0)
            .ok_or(NUMKEYS)?;
        let where_at = numkeys.checked_add(at + 1).filter(|i| *i < ctx.args.len()).ok_or(SYNTAX)?;
        let from = end(ctx, where_at)?;
        let mut count = None;
        let mut i = where_at + 1;
        while i < ctx.args.len() {
            if count.is_some() || !ctx.is(i, "count") || i + 1 == ctx.args.len() {
                return Err(SYNTAX);
            }
            let n = ctx.int(i + 1).ok().and_then(|n| usize::try_from(n).ok());
            count = Some(n.filter(|n| *n > 0).ok_or(COUNT)?);
            i += 2;
        }
        Ok(MultiPop { keys: at + 1..where_at, from, count: count.unwrap_or(1) })
    }

    /// Pops from the first list that exists and writes the reply. Returns whether there was one.
    pub fn take(&self, ctx: &mut Ctx<'_>) -> Result<bool, Error> {
        for i in self.keys.clone() {
            let key = ctx.key(i);
            if !ctx.holds(&key) {
                continue;
            }
            let (n, work) = match ctx.db.peek(&key) {
                None => continue,
                Some(record) => work(list(&record)?, self.from, self.count),
            };
            ctx.weigh(work)?;
            ctx.reply.array(2);
            ctx.reply.bulk(key.bytes);
            ctx.reply.array(n);
            take(ctx, &key, self.from, self.count)?;
            if ctx.is_logged() {
                ctx.log(&[pop_command(self.from), key.bytes, n.to_string().as_bytes()]);
            }
            return Ok(true);
        }
        Ok(false)
    }
}

fn lmpop(ctx: &mut Ctx<'_>) -> CmdResult {
    let multi_pop = MultiPop::parse(ctx, 1)?;
    ctx.weigh_args()?;
    if !multi_pop.take(ctx)? {
        ctx.reply.null_array();
    }
    Ok(())
}

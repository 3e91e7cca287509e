//! LSET, LINSERT, LREM, LTRIM: change elements within a list.

use super::{discard, list, range};
use crate::ctx::{Ctx, Lane, Pause};
use crate::error::{CmdResult, NO_SUCH_KEY, OUT_OF_RANGE, SYNTAX};
use crate::lock::Lock;
use crate::registry::Command;
use weft_command_spec::{Flags, Group, QueuedWork, Spec, Special, keys};
use weft_keyspace::db::Rework;
use weft_keyspace::{Classes, Key, Record};
use weft_types::list::{self, End, List, Waste};
use weft_types::packed::Value;
use weft_types::string::Digits;

pub const LSET: Command = Command {
    spec: Spec {
        name: "lset",
        arity: 4,
        flags: Flags::WRITE.or(Flags::DENYOOM),
        keys: &keys::one(&["RW", "UPDATE"]),
        acl: &[],
        group: Group::List,
        since: "1.0.0",
        summary: "Sets the element at an index of a list.",
        complexity: "O(S) for a distance of S, counted in chunks, from the nearer end.",
        syntax: "key index:integer element",
        history: &[],
        tips: &[],
        special: Special::queued_work(QueuedWork::ListIndex),
    },
    lock: Lock::Keys,
    run: lset,
    subcommands: &[],
};

pub const LINSERT: Command = Command {
    spec: Spec {
        name: "linsert",
        arity: 5,
        flags: LSET.spec.flags,
        keys: &keys::one(&["RW", "INSERT"]),
        since: "2.2.0",
        summary: "Inserts an element before or after another element.",
        complexity: "O(N) for N elements before the other element.",
        syntax: "key where=(before=BEFORE|after=AFTER) pivot:string element",
        special: Special::NONE,
        ..LSET.spec
    },
    run: linsert,
    ..LSET
};

pub const LREM: Command = Command {
    spec: Spec {
        name: "lrem",
        flags: Flags::WRITE,
        keys: &keys::one(&["RW", "DELETE"]),
        summary: "Removes elements equal to a value from a list.",
        complexity: "O(N) for N elements.",
        syntax: "key count:integer element",
        special: Special::NONE,
        ..LSET.spec
    },
    run: lrem,
    ..LSET
};

pub const LTRIM: Command = Command {
    spec: Spec {
        name: "ltrim",
        flags: LREM.spec.flags,
        summary: "Removes all elements of a list outside of a range.",
        complexity: "O(S) for distances of S, counted in chunks, from the nearer ends.",
        syntax: "key start:integer stop:integer",
        special: Special::NONE,
        ..LREM.spec
    },
    run: ltrim,
    ..LSET
};

fn lset(ctx: &mut Ctx<'_>) -> CmdResult {
    let key = ctx.key(1);
    let len = match ctx.db.peek(&key) {
        None => return Err(NO_SUCH_KEY),
        Some(record) => list(&record)?.len() as i64,
    };
    let index = ctx.int(2)?;
    let index = if index < 0 { index.saturating_add(len) } else { index };
    let (text, limits) = (ctx.args[3], &ctx.settings.limits);
    if !(0..len).contains(&index) {
        ctx.db.rework(&key, |record, _| match record {
            Some(record) => (Rework::Same(list::make_room(record, text, limits)), ()),
            None => (Rework::Absent, ()),
        });
        return Err(OUT_OF_RANGE);
    }
    let index = index as usize;
    weigh_distance(ctx, &key, &[index])?;
    let mut waste = Waste::default();
    ctx.db.rework(&key, |record, _| match record {
        Some(record) => {
            let record = list::set(record, index, text, limits, &mut waste);
            (Rework::Changed(record), ())
        }
        None => (Rework::Absent, ()),
    });
    discard(ctx, waste);
    ctx.notify(Classes::LIST, "lset", &key);
    ctx.dirty();
    ctx.reply.ok();
    Ok(())
}

/// Weighs the work of reaching the elements at these indexes of the list at `key`.
fn weigh_distance(ctx: &mut Ctx<'_>, key: &Key<'_>, places: &[usize]) -> CmdResult {
    let Some(record) = ctx.db.peek(key) else { return Ok(()) };
    let list = list(&record)?;
    let work = places.iter().map(|place| list.distance_work(*place)).sum();
    ctx.weigh(work)
}

/// Searches a long list for the first `most` elements equal to `text`, to check whether the command
/// finds them within its allowance. The command then searches again, since it can't stop once it
/// has begun to change the list.
fn check_search_work(
    list: List<'_>,
    text: &[u8],
    from: End,
    most: usize,
    lane: Lane,
    pause: &mut Option<Pause>,
) -> CmdResult {
    let work = list.search_work(usize::MAX);
    if most > list.len() {
        return lane.weigh(work, pause);
    }
    if lane.allows_work(work) {
        return Ok(());
    }
    let (mut meter, mut left) = (lane.meter(list.len(), work), most);
    let mut room = Digits::new();
    let look = |value: Value<'_>| {
        left -= usize::from(value.bytes(&mut room) == text);
        left > 0 && meter.step()
    };
    match from {
        End::Left => list.each_from(0, look),
        End::Right => list.each_back_from(0, look),
    }
    meter.check(pause)
}

fn linsert(ctx: &mut Ctx<'_>) -> CmdResult {
    let after = match (ctx.is(2, "before"), ctx.is(2, "after")) {
        (true, _) => false,
        (_, true) => true,
        (false, false) => return Err(SYNTAX),
    };
    let key = ctx.key(1);
    match ctx.db.peek(&key) {
        None => {
            ctx.reply.int(0);
            return Ok(());
        }
        Some(record) => {
            check_search_work(list(&record)?, ctx.args[3], End::Left, 1, ctx.lane, &mut ctx.pause)?
        }
    }
    let (pivot, text, limits) = (ctx.args[3], ctx.args[4], &ctx.settings.limits);
    let len = ctx.db.rework(&key, |record, _| {
        let Some(record) = record else { return (Rework::Absent, 0) };
        let (record, found) = list::insert(record, pivot, text, after, limits);
        let len = list::len(&record) as i64;
        match found {
            true => (Rework::Changed(record), len),
            false => (Rework::Same(record), -1),
        }
    });
    if len > 0 {
        ctx.notify(Classes::LIST, "linsert", &key);
        ctx.dirty();
    }
    ctx.reply.int(len);
    Ok(())
}

/// The result for a list after elements were removed.
fn rework_of(record: Record, changed: bool) -> Rework {
    match (list::len(&record), changed) {
        (0, _) => Rework::Emptied(record),
        (_, true) => Rework::Changed(record),
        (_, false) => Rework::Same(record),
    }
}

fn lrem(ctx: &mut Ctx<'_>) -> CmdResult {
    let count = ctx.int(2)?;
    if count == i64::MIN {
        return Err(super::NOT_NEGATABLE);
    }
    let key = ctx.key(1);
    let from = if count < 0 { End::Right } else { End::Left };
    let most = if count == 0 { usize::MAX } else { count.unsigned_abs() as usize };
    match ctx.db.peek(&key) {
        None => {
            ctx.reply.int(0);
            return Ok(());
        }
        Some(record) => {
            check_search_work(list(&record)?, ctx.args[3], from, most, ctx.lane, &mut ctx.pause)?
        }
    }
    let (text, limits) = (ctx.args[3], &ctx.settings.limits);
    let mut waste = Waste::default();
    let mut emptied = false;
    let removed = ctx.db.rework(&key, |record, _| {
        let Some(record) = record else { return (Rework::Absent, 0) };
        let (record, removed) = list::remove(record, from, text, most, limits, &mut waste);
        emptied = list::len(&record) == 0;
        (rework_of(record, removed > 0), removed)
    });
    discard(ctx, waste);
    if removed > 0 {
        ctx.notify(Classes::LIST, "lrem", &key);
    }
    if emptied {
        ctx.notify(Classes::GENERIC, "del", &key);
    }
    ctx.db.context.tally.dirty += removed as u64;
    ctx.reply.int(removed as i64);
    Ok(())
}

fn ltrim(ctx: &mut Ctx<'_>) -> CmdResult {
    let (start, stop) = (ctx.int(2)?, ctx.int(3)?);
    let key = ctx.key(1);
    let len = match ctx.db.peek(&key) {
        None => {
            ctx.reply.ok();
            return Ok(());
        }
        Some(record) => list(&record)?.len(),
    };
    let kept = range(start, stop, len);
    let Some((start, count)) = kept else {
        // The whole list is removed; a background thread frees it.
        ctx.db.delete(&key);
        ctx.notify(Classes::LIST, "ltrim", &key);
        ctx.notify(Classes::GENERIC, "del", &key);
        ctx.db.context.tally.dirty += len as u64;
        ctx.reply.ok();
        return Ok(());
    };
    weigh_distance(ctx, &key, &[start, start + count - 1])?;
    let limits = &ctx.settings.limits;
    let mut waste = Waste::default();
    // Also runs if nothing is removed. In the reference, LTRIM converts a list that is short by the
    // current directives to a listpack, without counting a change of the key.
    ctx.db.rework(&key, |record, _| match record {
        Some(record) => {
            (rework_of(list::trim(record, start, count, limits, &mut waste), count < len), ())
        }
        None => (Rework::Absent, ()),
    });
    discard(ctx, waste);
    ctx.notify(Classes::LIST, "ltrim", &key);
    ctx.db.context.tally.dirty += (len - count) as u64;
    ctx.reply.ok();
    Ok(())
}

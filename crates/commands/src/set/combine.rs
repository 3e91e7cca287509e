//! Union, intersection and difference of several sets, returned, counted or stored.
//!
//! The sets are borrowed together under the command's guard. A stored result is built as the
//! destination's record, and stored after the borrows end: the destination may be one of the
//! sources.
//!
//! The encoding of a stored result is visible to clients. It depends on the algorithm, not only on
//! the members. So stores use the algorithms of the reference. An intersection starts in the
//! encoding of its smallest set, and a union or difference as integers. A difference of many or
//! large sets adds the whole first set and then removes members, which may leave it in a larger
//! encoding. Results that are only returned use the cheapest algorithm.

use super::{bulk, set};
use crate::ctx::{Ctx, Lane, Meter};
use crate::error::{CmdResult, Error, SYNTAX};
use crate::lock::Lock;
use crate::registry::Command;
use std::ops::ControlFlow;
use weft_base::num;
use weft_command_spec::{Begin, Find, Flags, Group, KeySpec, Spec, Special, keys};
use weft_keyspace::{Classes, Key, Record, RecordRef};
use weft_types::Limits;
use weft_types::packed::Value;
use weft_types::set::{Builder, Set, Start, Table, convert_to_ints, len};
use weft_types::string::Digits;

pub const SUNION: Command = Command {
    spec: Spec {
        name: "sunion",
        arity: -2,
        flags: Flags::READONLY,
        keys: &keys::all(1, &["RO", "ACCESS"]),
        acl: &[],
        group: Group::Set,
        since: "1.0.0",
        summary: "Returns the union of sets.",
        complexity: "O(N) where N is the number of members of all sets.",
        syntax: "key...",
        history: &[],
        tips: &["nondeterministic_output_order"],
        special: Special::NONE,
    },
    lock: Lock::Keys,
    run: sunion,
    subcommands: &[],
};

pub const SDIFF: Command = Command {
    spec: Spec {
        name: "sdiff",
        flags: SUNION.spec.flags,
        summary: "Returns the members of the first set that are in none of the others.",
        special: Special::NONE,
        ..SUNION.spec
    },
    run: sdiff,
    ..SUNION
};

pub const SINTER: Command = Command {
    spec: Spec {
        name: "sinter",
        flags: SUNION.spec.flags,
        summary: "Returns the intersection of sets.",
        complexity: "O(N*M) at worst where N is the size of the smallest of M sets.",
        special: Special::NONE,
        ..SUNION.spec
    },
    run: sinter,
    ..SUNION
};

pub const SINTERCARD: Command = Command {
    spec: Spec {
        name: "sintercard",
        arity: -3,
        flags: Flags::READONLY.or(Flags::MOVABLE_KEYS),
        keys: &[KeySpec {
            flags: &["RO", "ACCESS"],
            begin: Begin::Index(1),
            find: Find::KeyNum { num: 0, first: 1, step: 1 },
            notes: "",
        }],
        since: "7.0.0",
        summary: "Counts the members of the intersection of sets.",
        syntax: "numkeys:integer key... [LIMIT limit:integer]",
        tips: &[],
        special: Special::NONE,
        ..SINTER.spec
    },
    run: sintercard,
    ..SUNION
};

const STORED: [KeySpec; 2] = [
    KeySpec {
        flags: &["OW", "UPDATE"],
        begin: Begin::Index(1),
        find: Find::Range { last: 0, step: 1, limit: 0 },
        notes: "",
    },
    KeySpec {
        flags: &["RO", "ACCESS"],
        begin: Begin::Index(2),
        find: Find::Range { last: -1, step: 1, limit: 0 },
        notes: "",
    },
];

pub const SUNIONSTORE: Command = Command {
    spec: Spec {
        name: "sunionstore",
        arity: -3,
        flags: Flags::WRITE.or(Flags::DENYOOM),
        keys: &STORED,
        summary: "Stores the union of sets in a key.",
        syntax: "destination:key key...",
        tips: &[],
        special: Special::NONE,
        ..SUNION.spec
    },
    run: |ctx| store(ctx, "sunionstore", |from| total(from.sets), store_union),
    ..SUNION
};

pub const SDIFFSTORE: Command = Command {
    spec: Spec {
        name: "sdiffstore",
        flags: SUNIONSTORE.spec.flags,
        summary: "Stores in a key the members of the first set that are in none of the others.",
        special: Special::NONE,
        ..SUNIONSTORE.spec
    },
    run: |ctx| store(ctx, "sdiffstore", difference_work, store_difference),
    ..SUNION
};

pub const SINTERSTORE: Command = Command {
    spec: Spec {
        name: "sinterstore",
        flags: SUNIONSTORE.spec.flags,
        summary: "Stores the intersection of sets in a key.",
        complexity: SINTER.spec.complexity,
        special: Special::NONE,
        ..SUNIONSTORE.spec
    },
    run: |ctx| store(ctx, "sinterstore", intersection_work, store_intersection),
    ..SUNION
};

const NO_NUMKEYS: Error = Error::new("ERR numkeys should be greater than 0");
const MANY_NUMKEYS: Error = Error::new("ERR Number of keys can't be greater than number of args");
const NEGATIVE_LIMIT: Error = Error::new("ERR LIMIT can't be negative");

fn key_list<'a>(ctx: &Ctx<'a>, places: std::ops::Range<usize>) -> Vec<Key<'a>> {
    places.map(|i| ctx.key(i)).collect()
}

/// The sets of the records, `None` for a missing key, or the error for another type.
fn sets<'r>(records: &'r [Option<RecordRef<'_>>]) -> Result<Vec<Option<Set<'r>>>, Error> {
    records.iter().map(|record| record.as_ref().map(|r| set(r)).transpose()).collect()
}

/// The number of members of all sets.
fn total(sets: &[Option<Set<'_>>]) -> usize {
    sets.iter().flatten().map(|set| set.len()).sum()
}

fn sunion(ctx: &mut Ctx<'_>) -> CmdResult {
    ctx.weigh_args()?;
    let keys = key_list(ctx, 1..ctx.args.len());
    let records = ctx.db.read_all(&keys, |record| set(record).is_ok());
    let sets = sets(&records)?;
    ctx.lane.weigh(total(&sets), &mut ctx.pause)?;
    let reply = &mut *ctx.reply;
    let answer = reply.set_deferred();
    let mut count = 0;
    for_each_in_union(&sets, |member| {
        bulk(reply, member);
        count += 1;
    });
    reply.finish(answer, count);
    Ok(())
}

/// Passes every member of the union to `seen` once.
fn for_each_in_union(sets: &[Option<Set<'_>>], mut seen: impl FnMut(Value<'_>)) {
    let present: Vec<Set<'_>> = sets.iter().flatten().copied().collect();
    match *present {
        [] => {}
        [only] => only.each(seen),
        [a, b] => {
            a.each(&mut seen);
            b.each(|member| {
                if !a.contains(member) {
                    seen(member);
                }
            });
        }
        [..] => {
            let mut met = Table::new();
            for set in present {
                set.each(|member| {
                    if met.insert(member.bytes(&mut Digits::new()), b"", None) {
                        seen(member);
                    }
                });
            }
        }
    }
}

fn sdiff(ctx: &mut Ctx<'_>) -> CmdResult {
    ctx.weigh_args()?;
    let keys = key_list(ctx, 1..ctx.args.len());
    let records = ctx.db.read_all(&keys, |record| set(record).is_ok());
    let sets = sets(&records)?;
    let reply = &mut *ctx.reply;
    let answer = reply.set_deferred();
    let mut count = 0;
    if let Some(from) = minuend(&keys, &sets) {
        ctx.lane.weigh(from.len(), &mut ctx.pause)?;
        let others: Vec<Set<'_>> = sets[1..].iter().flatten().copied().collect();
        let mut meter = meter(ctx.lane, from, others.len());
        for_each_in_difference(from, others, &mut meter, |member| {
            bulk(reply, member);
            count += 1;
        });
        meter.check(&mut ctx.pause)?;
    }
    reply.finish(answer, count);
    Ok(())
}

/// A meter that counts the members of `from` and each lookup of a member in another set.
fn meter(lane: Lane, from: Set<'_>, others: usize) -> Meter {
    let most = from.len().saturating_mul(1 + others);
    lane.meter(most, most)
}

/// The set to subtract from, or `None` if the result is certainly empty.
fn minuend<'r>(keys: &[Key<'_>], sets: &[Option<Set<'r>>]) -> Option<Set<'r>> {
    let itself = keys[1..].iter().any(|key| key.bytes == keys[0].bytes);
    sets[0].filter(|_| !itself)
}

/// Passes each member of `from` that is in none of the others to `seen`, until `meter` runs out.
/// Looks in the largest sets first.
fn for_each_in_difference(
    from: Set<'_>,
    mut others: Vec<Set<'_>>,
    meter: &mut Meter,
    mut seen: impl FnMut(Value<'_>),
) {
    others.sort_by_key(|set| std::cmp::Reverse(set.len()));
    let _ = from.try_each(|member| {
        if meter.step() && !others.iter().any(|set| !meter.step() || set.contains(member)) {
            seen(member);
        }
        if meter.is_exhausted() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
}

fn sinter(ctx: &mut Ctx<'_>) -> CmdResult {
    ctx.weigh_args()?;
    let keys = key_list(ctx, 1..ctx.args.len());
    let records = ctx.db.read_all(&keys, |record| set(record).is_ok());
    let Some(sets) = by_size(sets(&records)?) else {
        ctx.reply.set(0);
        return Ok(());
    };
    ctx.lane.weigh(sets[0].len(), &mut ctx.pause)?;
    let mut meter = meter(ctx.lane, sets[0], sets.len() - 1);
    let reply = &mut *ctx.reply;
    let answer = reply.set_deferred();
    let mut count = 0;
    for_each_in_intersection(&sets, &mut meter, |member| {
        bulk(reply, member);
        count += 1;
        ControlFlow::Continue(())
    });
    meter.check(&mut ctx.pause)?;
    reply.finish(answer, count);
    Ok(())
}

/// The sets by ascending size; `None` if a key is missing, since the intersection is then empty.
fn by_size(sets: Vec<Option<Set<'_>>>) -> Option<Vec<Set<'_>>> {
    let mut sets: Vec<_> = sets.into_iter().collect::<Option<_>>()?;
    sets.sort_by_key(|set| set.len());
    Some(sets)
}

/// Passes each member of the intersection to `seen`, until `seen` breaks or `meter` runs out. The
/// first set must be the smallest.
fn for_each_in_intersection(
    sets: &[Set<'_>],
    meter: &mut Meter,
    mut seen: impl FnMut(Value<'_>) -> ControlFlow<()>,
) {
    let _ = sets[0].try_each(|member| {
        if meter.step() && sets[1..].iter().all(|set| meter.step() && set.contains(member)) {
            seen(member)
        } else if meter.is_exhausted() {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    });
}

fn sintercard(ctx: &mut Ctx<'_>) -> CmdResult {
    let numkeys = num::parse_i64(ctx.args[1]).and_then(|n| usize::try_from(n).ok());
    let numkeys = numkeys.filter(|n| *n > 0).ok_or(NO_NUMKEYS)?;
    if numkeys > ctx.args.len() - 2 {
        return Err(MANY_NUMKEYS);
    }
    let limit = limit(&ctx.args[2 + numkeys..])?;
    ctx.weigh_args()?;
    let keys = key_list(ctx, 2..2 + numkeys);
    let records = ctx.db.read_all(&keys, |record| set(record).is_ok());
    let mut count = 0;
    if let Some(sets) = by_size(sets(&records)?) {
        let mut meter = meter(ctx.lane, sets[0], sets.len() - 1);
        for_each_in_intersection(&sets, &mut meter, |_| {
            count += 1;
            if count == limit { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        meter.check(&mut ctx.pause)?;
    }
    ctx.reply.int(count as i64);
    Ok(())
}

/// The value of the last LIMIT among the options; 0 (no limit) without one.
fn limit(mut options: &[&[u8]]) -> Result<usize, Error> {
    let mut limit = 0;
    loop {
        options = match options {
            [] => return Ok(limit),
            [word, value, rest @ ..] if word.eq_ignore_ascii_case(b"limit") => {
                let value = num::parse_i64(value).ok_or(NEGATIVE_LIMIT)?;
                limit = usize::try_from(value).map_err(|_| NEGATIVE_LIMIT)?;
                rest
            }
            [..] => return Err(SYNTAX),
        };
    }
}

/// The inputs of a result that is stored.
struct Sources<'s, 'r> {
    destination: Key<'s>,
    keys: &'s [Key<'s>],
    sets: &'s [Option<Set<'r>>],
    /// The access clock of the result's record.
    clock: u32,
    limits: &'s Limits,
}

impl<'s> Sources<'s, '_> {
    fn start(&self, form: Start) -> Builder<'s> {
        Builder::new(self.destination.bytes, form, None, self.clock, self.limits)
    }
}

/// Computes a result from the sets of all keys but the first, and stores it at the first. Notifies
/// of `event`.
fn store(
    ctx: &mut Ctx<'_>,
    event: &'static str,
    work: fn(&Sources<'_, '_>) -> usize,
    compute: fn(&Sources<'_, '_>) -> Option<Record>,
) -> CmdResult {
    ctx.weigh_args()?;
    let destination = ctx.key(1);
    let clock = ctx.db.context.access.fresh();
    let keys = key_list(ctx, 2..ctx.args.len());
    let records = ctx.db.read_all(&keys, |record| set(record).is_ok());
    let sets = sets(&records)?;
    let limits = &ctx.settings.limits;
    let sources = Sources { destination, keys: &keys, sets: &sets, clock, limits };
    ctx.lane.weigh(work(&sources), &mut ctx.pause)?;
    let result = compute(&sources);
    let stored = result.as_ref().map_or(0, len);
    match result {
        Some(record) if stored > 0 => {
            ctx.db.set(&destination, record);
            ctx.notify(Classes::SET, event, &destination);
            ctx.dirty();
        }
        empty => {
            // The record may be large: it may have had many members before they were removed.
            empty.into_iter().for_each(|record| ctx.db.context.discard(record));
            if ctx.db.clear(&destination) {
                ctx.notify(Classes::GENERIC, "del", &destination);
                ctx.dirty();
            }
        }
    }
    ctx.reply.int(stored as i64);
    Ok(())
}

fn store_union(from: &Sources<'_, '_>) -> Option<Record> {
    let mut result = from.start(Start::Ints);
    for set in from.sets.iter().flatten() {
        set.each(|member| result.add(member));
    }
    Some(result.finish())
}

/// The lookups for a difference that checks each member of `first` in the `others`, if that
/// algorithm is chosen. A lookup counts as half the cost of an addition or a removal.
fn difference_lookups(first: Set<'_>, others: usize, total: usize) -> Option<usize> {
    let looks = first.len().saturating_mul(1 + others);
    (looks / 2 <= total).then_some(looks)
}

fn difference_work(from: &Sources<'_, '_>) -> usize {
    let Some(first) = minuend(from.keys, from.sets) else { return 0 };
    let total = total(from.sets);
    difference_lookups(first, from.sets[1..].iter().flatten().count(), total).unwrap_or(total)
}

fn store_difference(from: &Sources<'_, '_>) -> Option<Record> {
    let first = minuend(from.keys, from.sets)?;
    let others: Vec<Set<'_>> = from.sets[1..].iter().flatten().copied().collect();
    let mut result = from.start(Start::Ints);
    if difference_lookups(first, others.len(), total(from.sets)).is_some() {
        for_each_in_difference(first, others, &mut Meter::unlimited(), |member| result.add(member));
        return Some(result.finish());
    }
    first.each(|member| result.add(member));
    for set in others {
        if result.is_empty() {
            break;
        }
        set.each(|member| result.remove(member));
    }
    Some(result.finish())
}

fn intersection_work(from: &Sources<'_, '_>) -> usize {
    match by_size(from.sets.to_vec()) {
        Some(sets) => sets[0].len().saturating_mul(sets.len()),
        None => 0,
    }
}

fn store_intersection(from: &Sources<'_, '_>) -> Option<Record> {
    let sets = by_size(from.sets.to_vec())?;
    let mut result = from.start(match sets[0] {
        Set::Ints(_) => Start::Ints,
        Set::Packed { .. } | Set::Table(_) => Start::Packed,
    });
    let mut only_ints = true;
    for_each_in_intersection(&sets, &mut Meter::unlimited(), |member| {
        only_ints = only_ints && member.int().is_some();
        result.add(member);
        ControlFlow::Continue(())
    });
    let record = result.finish();
    Some(if only_ints { convert_to_ints(record, from.limits) } else { record })
}

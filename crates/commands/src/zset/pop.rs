//! ZPOPMIN, ZPOPMAX, ZMPOP and the blocking BZPOPMIN, BZPOPMAX, BZMPOP: remove elements from an
//! end.

use super::remove::{changed, notify_removed};
use super::{bulk, double, element, header};
use crate::blocking::timeout;
use crate::ctx::{Ctx, Lane};
use crate::error::{CmdResult, Error, SYNTAX, WRONG_TYPE};
use crate::lock::Lock;
use crate::registry::Command;
use weft_base::num::parse_i64;
use weft_command_spec::{Begin, Find, Flags, Group, KeySpec, QueuedWork, Spec, Special, keys};
use weft_keyspace::Key;
use weft_keyspace::db::Rework;
use weft_resp::Reply;
use weft_types::zset::{Edit, View};

pub const ZPOPMIN: Command = Command {
    spec: Spec {
        name: "zpopmin",
        arity: -2,
        flags: Flags::WRITE.or(Flags::FAST),
        keys: &keys::one(&["RW", "ACCESS", "DELETE"]),
        acl: &[],
        group: Group::SortedSet,
        since: "5.0.0",
        summary: "Removes and returns the members of a sorted set with the lowest scores.",
        complexity: "O(log(N)*M) for M of N members.",
        syntax: "key [count:integer]",
        history: &[],
        tips: &[],
        special: Special::queued_work(QueuedWork::Counted),
    },
    lock: Lock::Keys,
    run: |ctx| zpop(ctx, false),
    subcommands: &[],
};

pub const ZPOPMAX: Command = Command {
    spec: Spec {
        name: "zpopmax",
        flags: ZPOPMIN.spec.flags,
        summary: "Removes and returns the members of a sorted set with the highest scores.",
        special: Special::queued_work(QueuedWork::Counted),
        ..ZPOPMIN.spec
    },
    run: |ctx| zpop(ctx, true),
    ..ZPOPMIN
};

const NUMBERED: KeySpec = KeySpec {
    flags: &["RW", "ACCESS", "DELETE"],
    begin: Begin::Index(1),
    find: Find::KeyNum { num: 0, first: 1, step: 1 },
    notes: "",
};

pub const ZMPOP: Command = Command {
    spec: Spec {
        name: "zmpop",
        arity: -4,
        flags: Flags::WRITE.or(Flags::MOVABLE_KEYS),
        keys: &[NUMBERED],
        since: "7.0.0",
        summary: "Removes and returns members from an end of the first non-empty sorted set.",
        complexity: "O(K) + O(M*log(N)) for K keys and M of N members.",
        syntax: "numkeys:integer key... where=(min=MIN|max=MAX) [COUNT count:integer]",
        special: Special::NONE,
        ..ZPOPMIN.spec
    },
    run: zmpop,
    ..ZPOPMIN
};

pub const BZMPOP: Command = Command {
    spec: Spec {
        name: "bzmpop",
        arity: -5,
        flags: Flags::WRITE.or(Flags::BLOCKING).or(Flags::MOVABLE_KEYS),
        keys: &[KeySpec { begin: Begin::Index(2), ..NUMBERED }],
        summary: "Removes and returns members from an end of the first non-empty sorted set. Blocks until there is one.",
        syntax: "timeout:double numkeys:integer key... where=(min=MIN|max=MAX) \
                 [COUNT count:integer]",
        special: Special::NONE,
        ..ZMPOP.spec
    },
    run: bzmpop,
    ..ZPOPMIN
};

pub const BZPOPMIN: Command = Command {
    spec: Spec {
        name: "bzpopmin",
        arity: -3,
        flags: Flags::WRITE.or(Flags::BLOCKING).or(Flags::FAST),
        keys: &[KeySpec { find: Find::Range { last: -2, step: 1, limit: 0 }, ..NUMBERED }],
        summary: "Removes and returns the lowest member of the first non-empty sorted set. Blocks until there is one.",
        complexity: "O(log(N)) in a set of N members.",
        syntax: "key... timeout:double",
        history: &[("6.0.0", "The timeout can have a fraction.")],
        special: Special::NONE,
        ..ZPOPMIN.spec
    },
    run: |ctx| bzpop(ctx, false),
    ..ZPOPMIN
};

pub const BZPOPMAX: Command = Command {
    spec: Spec {
        name: "bzpopmax",
        flags: BZPOPMIN.spec.flags,
        summary: "Removes and returns the highest member of the first non-empty sorted set. Blocks until there is one.",
        special: Special::NONE,
        ..BZPOPMIN.spec
    },
    run: |ctx| bzpop(ctx, true),
    ..ZPOPMIN
};

const NOT_POSITIVE: Error = Error::new("ERR value is out of range, must be positive");
const NO_NUMKEYS: Error = Error::new("ERR numkeys should be greater than 0");
const NO_COUNT: Error = Error::new("ERR count should be greater than 0");

/// The form of the reply.
#[derive(Clone, Copy)]
enum ReplyForm {
    /// Members and scores in one flat array.
    Flat,
    /// Like the elements of a range.
    Elements,
    /// The key, then members and scores, in one flat array.
    Keyed,
    /// The key, then an array of pairs.
    Nested,
}

fn zpop(ctx: &mut Ctx<'_>, max: bool) -> CmdResult {
    let (count, shape) = match ctx.args {
        [_, _] => (1, ReplyForm::Flat),
        [_, _, count] => {
            let count = parse_i64(count).and_then(|count| usize::try_from(count).ok());
            (count.ok_or(NOT_POSITIVE)?, ReplyForm::Elements)
        }
        [..] => return Err(SYNTAX),
    };
    let key = ctx.key(1);
    if !pop(ctx, &key, max, count, shape)? {
        ctx.reply.array(0);
    }
    Ok(())
}

/// Pops up to `count` elements of `key` and writes them. Returns `false` without a reply if the key
/// does not exist.
#[inline]
fn pop(
    ctx: &mut Ctx<'_>,
    key: &Key<'_>,
    max: bool,
    count: usize,
    shape: ReplyForm,
) -> Result<bool, Error> {
    if count > 1 {
        let len = match ctx.db.peek(key) {
            Some(record) => View::of(&record).ok_or(WRONG_TYPE)?.len(),
            None => 0,
        };
        ctx.weigh(count.min(len))?;
    }
    let reply = &mut *ctx.reply;
    let mut emptied = false;
    let popped = ctx.db.rework(key, |record, _| {
        let mut edit = match record.map(Edit::of) {
            None => return (Rework::Absent, Ok(None)),
            Some(Err(other)) => return (Rework::Same(other), Err(WRONG_TYPE)),
            Some(Ok(edit)) => edit,
        };
        let count = count.min(edit.len());
        take(&mut edit, reply, key.bytes, max, count, shape);
        emptied = edit.is_empty();
        (changed(edit, count), Ok(Some(count)))
    })?;
    if let Some(count) = popped.filter(|count| *count > 0) {
        notify_removed(ctx, key, if max { "zpopmax" } else { "zpopmin" }, emptied);
        if ctx.is_changed_for_log() {
            log(ctx, key, max, count, shape);
        }
    }
    ctx.db.context.tally.dirty += popped.unwrap_or(0) as u64;
    Ok(popped.is_some())
}

/// Logs that `count` elements were popped from `key`.
#[cold]
fn log(ctx: &mut Ctx<'_>, key: &Key<'_>, max: bool, count: usize, shape: ReplyForm) {
    let word: &[u8] = if max { b"ZPOPMAX" } else { b"ZPOPMIN" };
    match shape {
        // ZPOPMIN and ZPOPMAX are logged in the client's words.
        ReplyForm::Flat | ReplyForm::Elements => {}
        ReplyForm::Keyed => ctx.log(&[word, key.bytes]),
        ReplyForm::Nested => ctx.log(&[word, key.bytes, count.to_string().as_bytes()]),
    }
}

/// Pops `count` elements, which must exist, and writes them.
#[inline]
fn take(edit: &mut Edit, reply: &mut Reply, key: &[u8], max: bool, count: usize, shape: ReplyForm) {
    match shape {
        ReplyForm::Flat => reply.array(2 * count),
        ReplyForm::Elements => header(reply, count, true),
        ReplyForm::Keyed => {
            reply.array(2 * count + 1);
            reply.bulk(key);
        }
        ReplyForm::Nested => {
            reply.array(2);
            reply.bulk(key);
            reply.array(count);
        }
    }
    edit.pop(count, max, |member, score| match shape {
        ReplyForm::Elements => element(reply, member, score, true),
        ReplyForm::Flat | ReplyForm::Keyed => {
            bulk(reply, member);
            double(reply, score);
        }
        ReplyForm::Nested => {
            reply.array(2);
            bulk(reply, member);
            double(reply, score);
        }
    });
}

/// The arguments of ZMPOP.
struct MultiPop {
    /// The positions of the keys.
    keys: std::ops::Range<usize>,
    max: bool,
    count: usize,
}

impl MultiPop {
    /// Parses the arguments from the number of keys at `at` to the end.
    fn parse(args: &[&[u8]], at: usize) -> Result<MultiPop, Error> {
        let positive =
            |text| parse_i64(text).and_then(|n| usize::try_from(n).ok()).filter(|n| *n > 0);
        let keys = positive(args[at]).ok_or(NO_NUMKEYS)?;
        let end = (at + 1).saturating_add(keys);
        let (end_word, mut options) = match args.get(end..) {
            Some([word, options @ ..]) => (word, options),
            Some([]) | None => return Err(SYNTAX),
        };
        let max = match () {
            () if end_word.eq_ignore_ascii_case(b"min") => false,
            () if end_word.eq_ignore_ascii_case(b"max") => true,
            () => return Err(SYNTAX),
        };
        let mut count = None;
        loop {
            options = match options {
                [] => break,
                [word, value, rest @ ..]
                    if count.is_none() && word.eq_ignore_ascii_case(b"count") =>
                {
                    count = Some(positive(value).ok_or(NO_COUNT)?);
                    rest
                }
                [..] => return Err(SYNTAX),
            };
        }
        Ok(MultiPop { keys: at + 1..end, max, count: count.unwrap_or(1) })
    }
}

fn zmpop(ctx: &mut Ctx<'_>) -> CmdResult {
    let MultiPop { keys, max, count } = MultiPop::parse(ctx.args, 1)?;
    ctx.weigh_args()?;
    for i in keys {
        let key = ctx.key(i);
        if pop(ctx, &key, max, count, ReplyForm::Nested)? {
            return Ok(());
        }
    }
    ctx.reply.null_array();
    Ok(())
}

fn bzmpop(ctx: &mut Ctx<'_>) -> CmdResult {
    let MultiPop { keys, max, count } = MultiPop::parse(ctx.args, 2)?;
    let timeout = timeout(ctx, 1)?;
    pop_or_block(ctx, keys, timeout, |ctx, key| pop(ctx, key, max, count, ReplyForm::Nested))
}

fn bzpop(ctx: &mut Ctx<'_>, max: bool) -> CmdResult {
    let last = ctx.args.len() - 1;
    let timeout = timeout(ctx, last)?;
    pop_or_block(ctx, 1..last, timeout, |ctx, key| pop(ctx, key, max, 1, ReplyForm::Keyed))
}

/// Pops from the first existing key among those at `keys`, or blocks on them.
fn pop_or_block(
    ctx: &mut Ctx<'_>,
    keys: std::ops::Range<usize>,
    timeout: Option<u64>,
    pop: impl Fn(&mut Ctx<'_>, &Key<'_>) -> Result<bool, Error>,
) -> CmdResult {
    ctx.weigh_args()?;
    for i in keys.clone() {
        let key = ctx.key(i);
        if !ctx.holds(&key) {
            continue;
        }
        match pop(ctx, &key) {
            Ok(true) => return Ok(()),
            Ok(false) => {}
            // A key of another type was created. Clients blocked on it keep waiting.
            Err(error) if error == WRONG_TYPE && !is_type_error(ctx, keys.clone()) => {}
            Err(error) => return Err(error),
        }
    }
    ctx.reply.null_array();
    ctx.block(keys.collect(), timeout)
}

/// Whether a key of the wrong type is an error. Not for a blocked client, unless one of its keys is
/// a sorted set.
fn is_type_error(ctx: &mut Ctx<'_>, mut keys: std::ops::Range<usize>) -> bool {
    match ctx.lane {
        Lane::Fast | Lane::Slow | Lane::Transaction | Lane::Script => true,
        Lane::Served => keys.any(|i| {
            let key = ctx.key(i);
            ctx.holds(&key) && ctx.db.peek(&key).is_some_and(|r| View::of(&r).is_some())
        }),
    }
}

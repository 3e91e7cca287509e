//! SPOP and SRANDMEMBER: remove or return random members.
//!
//! Every member is equally likely, and so is every set of distinct members.

use super::{bulk, set};
use crate::ctx::Ctx;
use crate::error::{CmdResult, Error, NOT_AN_INTEGER, SYNTAX, WRONG_TYPE};
use crate::lock::Lock;
use crate::registry::Command;
use weft_base::num;
use weft_command_spec::{Flags, Group, QueuedWork, Spec, Special, keys};
use weft_keyspace::db::Rework;
use weft_keyspace::{Classes, Key, Rng};
use weft_resp::Reply;
use weft_types::packed::Value;
use weft_types::set::{Set, is_set, len, pop, pop_many, split_most};

pub const SPOP: Command = Command {
    spec: Spec {
        name: "spop",
        arity: -2,
        flags: Flags::WRITE.or(Flags::FAST),
        keys: &keys::one(&["RW", "ACCESS", "DELETE"]),
        acl: &[],
        group: Group::Set,
        since: "1.0.0",
        summary: "Removes and returns random members of a set. Removes the key with the last \
                  member.",
        complexity: "O(1) for one member, O(N) for a count of N.",
        syntax: "key [count:integer]@3.2.0",
        history: &[("3.2.0", "The argument `count`.")],
        tips: &["nondeterministic_output"],
        special: Special::queued_work(QueuedWork::Counted),
    },
    lock: Lock::Keys,
    run: spop,
    subcommands: &[],
};

pub const SRANDMEMBER: Command = Command {
    spec: Spec {
        name: "srandmember",
        flags: Flags::READONLY,
        keys: &keys::one(&["RO", "ACCESS"]),
        summary: "Returns random members of a set.",
        complexity: "O(1) for one member, O(N) for a count whose absolute value is N.",
        syntax: "key [count:integer]@2.6.0",
        history: &[("2.6.0", "The argument `count`.")],
        special: Special::queued_work(QueuedWork::Counted),
        ..SPOP.spec
    },
    run: srandmember,
    ..SPOP
};

const NOT_POSITIVE: Error = Error::new("ERR value is out of range, must be positive");
const OUT_OF_RANGE: Error = Error::new(
    "ERR value is out of range, value must between -9223372036854775807 and 9223372036854775807",
);

/// From this ratio of popped to remaining members on, the remaining ones are copied to a new set:
/// that also replaces the table by a smaller one or a packed set.
const COPY_RATIO: usize = 5;

fn spop(ctx: &mut Ctx<'_>) -> CmdResult {
    match ctx.args {
        [_, _] => spop_one(ctx),
        [_, _, count] => {
            let count = num::parse_i64(count).ok_or(NOT_POSITIVE)?;
            spop_many(ctx, usize::try_from(count).map_err(|_| NOT_POSITIVE)?)
        }
        [..] => Err(SYNTAX),
    }
}

fn spop_one(ctx: &mut Ctx<'_>) -> CmdResult {
    let key = ctx.key(1);
    let mut rng = Rng::new(ctx.db.context.random());
    let mut taken = PoppedMembers::new(ctx);
    let reply = &mut *ctx.reply;
    let mut emptied = false;
    let popped = ctx.db.rework(&key, |record, _| match record {
        None => {
            reply.null();
            (Rework::Absent, Ok(false))
        }
        Some(record) if !is_set(&record) => (Rework::Same(record), Err(WRONG_TYPE)),
        Some(record) => {
            let record =
                pop(record, &mut || rng.next(), |member| taken.write_member(reply, member));
            emptied = len(&record) == 0;
            (if emptied { Rework::Emptied(record) } else { Rework::Changed(record) }, Ok(true))
        }
    })?;
    if popped {
        notify_popped(ctx, &key, emptied);
        taken.log(ctx, &key);
        ctx.dirty();
    }
    Ok(())
}

/// The members that SPOP has removed, if that is logged: a replay would draw others.
struct PoppedMembers(Option<Vec<Vec<u8>>>);

/// Members per logged command: enough to make the cost of a command negligible, few enough that a
/// replica or replay is not busy for long with one.
const MEMBERS_PER_LOGGED_COMMAND: usize = 1024;

impl PoppedMembers {
    fn new(ctx: &Ctx<'_>) -> PoppedMembers {
        PoppedMembers(ctx.is_logged().then(Vec::new))
    }

    /// Writes `member` to the reply.
    #[inline]
    fn write_member(&mut self, reply: &mut Reply, member: Value<'_>) {
        bulk(reply, member);
        if let Some(taken) = &mut self.0 {
            taken.push(match member {
                Value::Bytes(text) => text.to_vec(),
                Value::Int(n) => n.to_string().into_bytes(),
            });
        }
    }

    /// Logs their removal from `key`.
    fn log(self, ctx: &mut Ctx<'_>, key: &Key<'_>) {
        for some in self.0.iter().flat_map(|taken| taken.chunks(MEMBERS_PER_LOGGED_COMMAND)) {
            let mut words = vec![&b"SREM"[..], key.bytes];
            words.extend(some.iter().map(Vec::as_slice));
            ctx.log(&words);
        }
    }
}

/// Notifies that members were popped. `emptied`: they were the last ones.
fn notify_popped(ctx: &mut Ctx<'_>, key: &Key<'_>, emptied: bool) {
    ctx.notify(Classes::SET, "spop", key);
    if emptied {
        ctx.notify(Classes::GENERIC, "del", key);
    }
}

fn spop_many(ctx: &mut Ctx<'_>, count: usize) -> CmdResult {
    let key = ctx.key(1);
    let Some(record) = ctx.db.for_write(&key) else {
        ctx.reply.set(0);
        return Ok(());
    };
    let members = set(&record)?;
    let size = members.len();
    if count == 0 {
        ctx.reply.set(0);
        return Ok(());
    }
    let is_table = matches!(members, Set::Table(_));
    let kept = size.saturating_sub(count);
    let few = kept * COPY_RATIO > count;
    ctx.weigh(if is_table && few { count } else { size })?;
    ctx.db.context.tally.dirty += count.min(size) as u64;
    ctx.reply.set(count.min(size));
    if kept == 0 {
        pop_all(ctx, &key);
        let word = ctx.db.context.deletions.server.word();
        ctx.log(&[word, key.bytes]);
    } else if is_table && !few {
        pop_most(ctx, &key, kept);
    } else {
        pop_some(ctx, &key, count);
    }
    notify_popped(ctx, &key, kept == 0);
    Ok(())
}

/// Replies with all members and removes the key.
fn pop_all(ctx: &mut Ctx<'_>, key: &Key<'_>) {
    if let Some(record) = ctx.db.remove(key) {
        if let Some(set) = Set::of(&record) {
            set.each(|member| bulk(ctx.reply, member));
        }
        ctx.db.context.discard(record);
    }
}

/// Replies with all but `kept` members of a table, and replaces it by a new set of the others.
fn pop_most(ctx: &mut Ctx<'_>, key: &Key<'_>, kept: usize) {
    let mut rng = Rng::new(ctx.db.context.random());
    let limits = &ctx.settings.limits;
    let mut taken = PoppedMembers::new(ctx);
    let reply = &mut *ctx.reply;
    let rest = ctx.db.peek(key).map(|record| {
        let answer = |member: Value<'_>| taken.write_member(reply, member);
        split_most(&record, kept, limits, &mut || rng.next(), answer)
    });
    if let Some(rest) = rest {
        ctx.db.set(key, rest);
    }
    taken.log(ctx, key);
}

/// Replies with and removes `count` members, fewer than the set has.
fn pop_some(ctx: &mut Ctx<'_>, key: &Key<'_>, count: usize) {
    let mut rng = Rng::new(ctx.db.context.random());
    let mut taken = PoppedMembers::new(ctx);
    let reply = &mut *ctx.reply;
    ctx.db.rework(key, |record, _| match record {
        None => (Rework::Absent, ()),
        Some(record) => {
            let draw = &mut || rng.next();
            let record = pop_many(record, count, draw, |member| taken.write_member(reply, member));
            (Rework::Changed(record), ())
        }
    });
    taken.log(ctx, key);
}

fn srandmember(ctx: &mut Ctx<'_>) -> CmdResult {
    match ctx.args {
        [_, _] => random_one(ctx),
        [_, _, count] => {
            let count = num::parse_i64(count).ok_or(NOT_AN_INTEGER)?;
            if count == i64::MIN {
                return Err(OUT_OF_RANGE);
            }
            random_many(ctx, count)
        }
        [..] => Err(SYNTAX),
    }
}

fn random_one(ctx: &mut Ctx<'_>) -> CmdResult {
    let key = ctx.key(1);
    let mut rng = Rng::new(ctx.db.context.random());
    let record = ctx.db.read(&key);
    let set = record.as_deref().map(set).transpose()?;
    match set.and_then(|set| set.random(&mut || rng.next())) {
        Some(member) => bulk(ctx.reply, member),
        None => ctx.reply.null(),
    }
    Ok(())
}

/// A negative count asks for that many draws with repetition, a positive count for distinct
/// members.
fn random_many(ctx: &mut Ctx<'_>, count: i64) -> CmdResult {
    let key = ctx.key(1);
    let mut rng = Rng::new(ctx.db.context.random());
    let mut draw = || rng.next();
    let Some(record) = ctx.db.read(&key) else {
        ctx.reply.array(0);
        return Ok(());
    };
    let set = set(&record)?;
    let wanted = usize::try_from(count.unsigned_abs()).unwrap_or(usize::MAX);
    if count < 0 {
        ctx.lane.weigh(wanted, &mut ctx.pause)?;
        ctx.reply.array(wanted);
        set.draw(wanted, &mut draw, |member| bulk(ctx.reply, member));
    } else {
        let wanted = wanted.min(set.len());
        ctx.lane.weigh(set.sample_work(wanted), &mut ctx.pause)?;
        ctx.reply.array(wanted);
        set.sample(wanted, &mut draw, |member| bulk(ctx.reply, member));
    }
    Ok(())
}

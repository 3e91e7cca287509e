//! ZRANDMEMBER: random members, each equally likely.
//!
//! Without repetition, the command draws ranks instead of members. If many members are wanted, it
//! walks the whole set once and selects each element with the probability that gives the wanted
//! number (Knuth, TAOCP 2, 3.4.2, algorithm S). If few are wanted, it draws ranks until enough of
//! them are distinct, and finds each rank in logarithmic time.

use super::{bulk, element, header, zset};
use crate::ctx::Ctx;
use crate::error::{CmdResult, Error, NOT_AN_INTEGER, SYNTAX};
use crate::lock::Lock;
use crate::registry::Command;
use std::collections::HashSet;
use weft_base::num::parse_i64;
use weft_command_spec::{Flags, Group, QueuedWork, Spec, Special, keys};
use weft_keyspace::Rng;
use weft_resp::Reply;
use weft_types::zset::{Span, View};

pub const ZRANDMEMBER: Command = Command {
    spec: Spec {
        name: "zrandmember",
        arity: -2,
        flags: Flags::READONLY,
        keys: &keys::one(&["RO", "ACCESS"]),
        acl: &[],
        group: Group::SortedSet,
        since: "6.2.0",
        summary: "Returns random members of a sorted set.",
        complexity: "O(N) for N members returned.",
        syntax: "key [options=(count:integer [withscores=WITHSCORES])]",
        history: &[],
        tips: &["nondeterministic_output"],
        special: Special::queued_work(QueuedWork::Counted),
    },
    lock: Lock::Keys,
    run: zrandmember,
    subcommands: &[],
};

const OUT_OF_RANGE: Error = Error::new("ERR value is out of range");
const LOWEST: Error = Error::new(
    "ERR value is out of range, value must between -9223372036854775807 and 9223372036854775807",
);

/// Sets of up to this many times the wanted number are walked completely.
const WALK_RATIO: usize = 3;

fn zrandmember(ctx: &mut Ctx<'_>) -> CmdResult {
    let [_, _, count, rest @ ..] = ctx.args else { return one(ctx) };
    let count = parse_i64(count).ok_or(NOT_AN_INTEGER)?;
    if count == i64::MIN {
        return Err(LOWEST);
    }
    let scores = match rest {
        [] => false,
        [word] if word.eq_ignore_ascii_case(b"withscores") => true,
        [..] => return Err(SYNTAX),
    };
    if scores && count.unsigned_abs() > i64::MAX as u64 / 2 {
        return Err(OUT_OF_RANGE);
    }
    several(ctx, count, scores)
}

fn one(ctx: &mut Ctx<'_>) -> CmdResult {
    let key = ctx.key(1);
    let mut rng = Rng::new(ctx.db.context.random());
    let Some(record) = ctx.db.read(&key) else {
        ctx.reply.null();
        return Ok(());
    };
    let set = zset(&record)?;
    let skip = below(&mut rng, set.len());
    set.walk(Span { skip, count: 1 }, false, |member, _| bulk(ctx.reply, member));
    Ok(())
}

/// A random number below `bound`, which must not be 0.
fn below(rng: &mut Rng, bound: usize) -> usize {
    // The high half of the product; the bias is below 2^-64 times `bound`.
    ((u128::from(rng.next()) * bound as u128) >> 64) as usize
}

/// Writes `count` distinct elements, or for a negative count -`count` draws with repetition.
fn several(ctx: &mut Ctx<'_>, count: i64, scores: bool) -> CmdResult {
    let key = ctx.key(1);
    let mut rng = Rng::new(ctx.db.context.random());
    let Some(record) = ctx.db.read(&key) else {
        ctx.reply.array(0);
        return Ok(());
    };
    let set = zset(&record)?;
    let wanted = usize::try_from(count.unsigned_abs()).unwrap_or(usize::MAX);
    let reply = &mut *ctx.reply;
    if count < 0 {
        ctx.lane.weigh(wanted, &mut ctx.pause)?;
        header(reply, wanted, scores);
        for _ in 0..wanted {
            write_element(reply, set, below(&mut rng, set.len()), scores);
        }
        return Ok(());
    }
    let wanted = wanted.min(set.len());
    let walks_all =
        wanted.saturating_mul(WALK_RATIO) >= set.len() || matches!(set, View::Packed(..));
    ctx.lane.weigh(if walks_all { set.len() } else { wanted }, &mut ctx.pause)?;
    header(reply, wanted, scores);
    if walks_all {
        let (mut left, mut needed) = (set.len(), wanted);
        set.for_each(|member, score| {
            if below(&mut rng, left) < needed {
                element(reply, member, score, scores);
                needed -= 1;
            }
            left -= 1;
        });
        return Ok(());
    }
    let mut drawn = HashSet::with_capacity(wanted);
    while drawn.len() < wanted {
        let rank = below(&mut rng, set.len());
        if drawn.insert(rank) {
            write_element(reply, set, rank, scores);
        }
    }
    Ok(())
}

/// Writes the element of this rank.
fn write_element(reply: &mut Reply, set: View<'_>, rank: usize, scores: bool) {
    set.walk(Span { skip: rank, count: 1 }, false, |m, score| element(reply, m, score, scores));
}

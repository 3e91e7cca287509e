//! HRANDFIELD: random fields.
//!
//! Every field is equally likely, and so is every set of distinct fields.

use super::{bulk, hash};
use crate::ctx::Ctx;
use crate::error::{CmdResult, Error, NOT_AN_INTEGER, SYNTAX};
use crate::lock::Lock;
use crate::registry::Command;
use weft_base::num;
use weft_command_spec::{Flags, Group, QueuedWork, Spec, Special, keys};
use weft_keyspace::Rng;
use weft_resp::Reply;
use weft_types::hash::Pair;

pub const HRANDFIELD: Command = Command {
    spec: Spec {
        name: "hrandfield",
        arity: -2,
        flags: Flags::READONLY,
        keys: &keys::one(&["RO", "ACCESS"]),
        acl: &[],
        group: Group::Hash,
        since: "6.2.0",
        summary: "Returns random fields of a hash.",
        complexity: "O(N) where N is the number of fields requested.",
        syntax: "key [options=(count:integer [withvalues=WITHVALUES])]",
        history: &[],
        tips: &["nondeterministic_output"],
        special: Special::queued_work(QueuedWork::Counted),
    },
    lock: Lock::Keys,
    run: hrandfield,
    subcommands: &[],
};

const OUT_OF_RANGE: Error = Error::new("ERR value is out of range");
const COUNT_OUT_OF_RANGE: Error = Error::new(
    "ERR value is out of range, value must between -9223372036854775807 and 9223372036854775807",
);

fn hrandfield(ctx: &mut Ctx<'_>) -> CmdResult {
    let (count, with_values) = match ctx.args {
        [_, _] => return random_one(ctx),
        [_, _, count] => (count, false),
        [_, _, count, word] if word.eq_ignore_ascii_case(b"withvalues") => (count, true),
        [_, _, count, ..] => {
            parse(count)?;
            return Err(SYNTAX);
        }
        [..] => return Err(SYNTAX),
    };
    let count = parse(count)?;
    // The number of reply elements (fields and values) would overflow.
    if with_values && !(-i64::MAX / 2..=i64::MAX / 2).contains(&count) {
        return Err(OUT_OF_RANGE);
    }
    random_many(ctx, count, with_values)
}

fn parse(count: &[u8]) -> Result<i64, Error> {
    match num::parse_i64(count).ok_or(NOT_AN_INTEGER)? {
        i64::MIN => Err(COUNT_OUT_OF_RANGE),
        count => Ok(count),
    }
}

fn random_one(ctx: &mut Ctx<'_>) -> CmdResult {
    let (key, now) = (ctx.key(1), ctx.over_ms());
    let mut rng = Rng::new(ctx.db.context.random());
    let record = ctx.db.read(&key);
    let hash = record.as_deref().map(|record| hash(record, now)).transpose()?;
    if let Some(hash) = hash {
        ctx.lane.weigh(hash.draw_work(1), &mut ctx.pause)?;
    }
    match hash.and_then(|hash| hash.random(&mut || rng.next())) {
        Some(pair) => bulk(ctx.reply, pair.field),
        None => ctx.reply.null(),
    }
    Ok(())
}

/// A negative count asks for that many draws with repetition, a positive count for distinct fields.
fn random_many(ctx: &mut Ctx<'_>, count: i64, with_values: bool) -> CmdResult {
    let (key, now) = (ctx.key(1), ctx.over_ms());
    let mut rng = Rng::new(ctx.db.context.random());
    let mut draw = || rng.next();
    let Some(record) = ctx.db.read(&key) else {
        ctx.reply.array(0);
        return Ok(());
    };
    let hash = hash(&record, now)?;
    let wanted = usize::try_from(count.unsigned_abs()).unwrap_or(usize::MAX);
    if count < 0 {
        ctx.lane.weigh(hash.draw_work(wanted), &mut ctx.pause)?;
        let times = if hash.live() == 0 { 0 } else { wanted };
        write_header(ctx.reply, times, with_values);
        hash.draw(times, &mut draw, |pair| write_pair(ctx.reply, pair, with_values));
    } else {
        ctx.lane.weigh(hash.sample_work(wanted.min(hash.len())), &mut ctx.pause)?;
        let live = hash.live();
        let wanted = wanted.min(live);
        write_header(ctx.reply, wanted, with_values);
        hash.sample(wanted, live, &mut draw, |pair| write_pair(ctx.reply, pair, with_values));
    }
    Ok(())
}

/// The header of a reply with `fields` fields. With values, RESP3 clients get pairs, and RESP2
/// clients one flat array.
fn write_header(reply: &mut Reply, fields: usize, with_values: bool) {
    let flat = with_values && !reply.is_resp3();
    reply.array(if flat { fields * 2 } else { fields });
}

fn write_pair(reply: &mut Reply, pair: Pair<'_>, with_values: bool) {
    if with_values && reply.is_resp3() {
        reply.array(2);
    }
    bulk(reply, pair.field);
    if with_values {
        bulk(reply, pair.value);
    }
}

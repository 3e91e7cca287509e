//! The sorted-set commands.
//!
//! | file | commands |
//! |---|---|
//! | [`add`] | ZADD, ZINCRBY |
//! | [`remove`] | ZREM, ZREMRANGEBYRANK, ZREMRANGEBYSCORE, ZREMRANGEBYLEX |
//! | [`read`] | ZCARD, ZSCORE, ZMSCORE, ZRANK, ZREVRANK, ZCOUNT, ZLEXCOUNT |
//! | [`range`] | ZRANGE and its older variants, ZRANGESTORE |
//! | [`pop`] | ZPOPMIN, ZPOPMAX, ZMPOP, BZPOPMIN, BZPOPMAX, BZMPOP |
//! | [`combine`] | ZUNION, ZINTER, ZDIFF, ZUNIONSTORE, ZINTERSTORE, ZDIFFSTORE, ZINTERCARD |
//! | [`random`] | ZRANDMEMBER |
//! | [`scan`] | ZSCAN |
//!
//! [`ends`] parses the ends of ranges.

pub(crate) mod add;
mod combine;
mod ends;
mod pop;
mod random;
pub(crate) mod range;
mod read;
mod remove;
mod scan;
#[cfg(test)]
mod tests;

use crate::error::{Error, WRONG_TYPE};
use crate::registry::Command;
pub(crate) use ends::ranks;
use weft_base::num_format::fmt_f64;
use weft_keyspace::Record;
use weft_resp::Reply;
use weft_types::packed::Value;
use weft_types::string::Digits;
use weft_types::zset::View;

/// The commands of this group.
pub const COMMANDS: &[&Command] = &[
    &pop::BZMPOP,
    &pop::BZPOPMAX,
    &pop::BZPOPMIN,
    &add::ZADD,
    &read::ZCARD,
    &read::ZCOUNT,
    &combine::ZDIFF,
    &combine::ZDIFFSTORE,
    &add::ZINCRBY,
    &combine::ZINTER,
    &combine::ZINTERCARD,
    &combine::ZINTERSTORE,
    &read::ZLEXCOUNT,
    &pop::ZMPOP,
    &read::ZMSCORE,
    &pop::ZPOPMAX,
    &pop::ZPOPMIN,
    &random::ZRANDMEMBER,
    &range::ZRANGE,
    &range::ZRANGEBYLEX,
    &range::ZRANGEBYSCORE,
    &range::ZRANGESTORE,
    &read::ZRANK,
    &remove::ZREM,
    &remove::ZREMRANGEBYLEX,
    &remove::ZREMRANGEBYRANK,
    &remove::ZREMRANGEBYSCORE,
    &range::ZREVRANGE,
    &range::ZREVRANGEBYLEX,
    &range::ZREVRANGEBYSCORE,
    &read::ZREVRANK,
    &scan::ZSCAN,
    &read::ZSCORE,
    &combine::ZUNION,
    &combine::ZUNIONSTORE,
];

/// The sorted set of `record`, or the error for another type.
#[inline]
pub(crate) fn zset(record: &Record) -> Result<View<'_>, Error> {
    View::of(record).ok_or(WRONG_TYPE)
}

/// Writes a member.
#[inline]
fn bulk(reply: &mut Reply, member: Value<'_>) {
    match member {
        Value::Bytes(bytes) => reply.bulk(bytes),
        Value::Int(n) => reply.bulk_int(n),
    }
}

/// Writes a score.
#[inline]
fn double(reply: &mut Reply, score: f64) {
    let int = score as i64;
    // Excludes negative zero and numbers that are printed with an exponent.
    if (int as f64).to_bits() == score.to_bits() && int.unsigned_abs() <= 1 << 53 {
        return reply.double(Digits::new().format(int));
    }
    reply.double(std::str::from_utf8(&fmt_f64(score)).expect("digits"));
}

/// The header of a reply with `count` elements, with or without scores.
fn header(reply: &mut Reply, count: usize, scores: bool) {
    reply.array(if scores && !reply.is_resp3() { 2 * count } else { count });
}

/// An element after a [`header`]: RESP3 has pairs where RESP2 has a flat array.
#[inline]
fn element(reply: &mut Reply, member: Value<'_>, score: f64, scores: bool) {
    if scores && reply.is_resp3() {
        reply.array(2);
    }
    bulk(reply, member);
    if scores {
        double(reply, score);
    }
}

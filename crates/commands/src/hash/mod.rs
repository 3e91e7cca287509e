//! The hash commands.
//!
//! [`weft_types::hash`] defines the encodings of a hash and when they change. This module has the
//! arguments and the replies.

mod edit;
mod expire;
mod fields;
mod getex;
mod incr;
mod log;
mod random;
mod read;
mod scan;
mod setex;
#[cfg(test)]
mod tests;
mod ttl;

use crate::ctx::Ctx;
use crate::error::{Error, WRONG_TYPE};
use crate::registry::Command;
use weft_keyspace::{Classes, Key};
use weft_resp::Reply;
use weft_types::Record;
use weft_types::hash::Hash;
use weft_types::packed::Value;

/// The commands of this group.
pub const COMMANDS: &[&Command] = &[
    &edit::HDEL,
    &read::HEXISTS,
    &expire::HEXPIRE,
    &expire::HEXPIREAT,
    &ttl::HEXPIRETIME,
    &read::HGET,
    &read::HGETALL,
    &getex::HGETDEL,
    &getex::HGETEX,
    &incr::HINCRBY,
    &incr::HINCRBYFLOAT,
    &read::HKEYS,
    &read::HLEN,
    &read::HMGET,
    &edit::HMSET,
    &expire::HPERSIST,
    &expire::HPEXPIRE,
    &expire::HPEXPIREAT,
    &ttl::HPEXPIRETIME,
    &ttl::HPTTL,
    &random::HRANDFIELD,
    &scan::HSCAN,
    &edit::HSET,
    &setex::HSETEX,
    &edit::HSETNX,
    &read::HSTRLEN,
    &ttl::HTTL,
    &read::HVALS,
];

/// The hash of `record` at `now_ms`, or the error for another type.
#[inline]
fn hash(record: &Record, now_ms: i64) -> Result<Hash<'_>, Error> {
    Hash::of(record, now_ms).ok_or(WRONG_TYPE)
}

/// Notifies of `event` for fields that were set. `expired` of them replaced an expired field.
#[inline]
fn notify_set(ctx: &mut Ctx<'_>, key: &Key<'_>, event: &'static str, expired: u64) {
    if expired > 0 {
        ctx.db.context.tally.expired_fields += expired;
        ctx.notify(Classes::HASH, "hexpired", key);
    }
    ctx.notify(Classes::HASH, event, key);
}

/// Writes a field or a value.
#[inline]
fn bulk(reply: &mut Reply, text: Value<'_>) {
    match text {
        Value::Bytes(text) => reply.bulk(text),
        Value::Int(n) => reply.bulk_int(n),
    }
}

/// Writes a value, or null if there is none.
#[inline]
fn bulk_or_null(reply: &mut Reply, value: Option<Value<'_>>) {
    match value {
        Some(value) => bulk(reply, value),
        None => reply.null(),
    }
}

//! The set commands.
//!
//! [`weft_types::set`] defines the encodings of a set and when they change. This module has the
//! arguments, the replies and the operations on several sets.

mod combine;
mod edit;
mod random;
mod read;
mod scan;
#[cfg(test)]
mod tests;

use crate::error::{Error, WRONG_TYPE};
use crate::registry::Command;
use weft_resp::Reply;
use weft_types::Record;
use weft_types::packed::Value;
use weft_types::set::Set;

/// The commands of this group.
pub const COMMANDS: &[&Command] = &[
    &edit::SADD,
    &read::SCARD,
    &combine::SDIFF,
    &combine::SDIFFSTORE,
    &combine::SINTER,
    &combine::SINTERCARD,
    &combine::SINTERSTORE,
    &read::SISMEMBER,
    &read::SMEMBERS,
    &read::SMISMEMBER,
    &edit::SMOVE,
    &random::SPOP,
    &random::SRANDMEMBER,
    &edit::SREM,
    &scan::SSCAN,
    &combine::SUNION,
    &combine::SUNIONSTORE,
];

/// The set of `record`, or the error for another type.
#[inline]
fn set(record: &Record) -> Result<Set<'_>, Error> {
    Set::of(record).ok_or(WRONG_TYPE)
}

/// Writes a member.
#[inline]
fn bulk(reply: &mut Reply, member: Value<'_>) {
    match member {
        Value::Bytes(text) => reply.bulk(text),
        Value::Int(n) => reply.bulk_int(n),
    }
}

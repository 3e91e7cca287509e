//! The list commands.
//!
//! | file | commands |
//! |---|---|
//! | [`push`] | LPUSH, RPUSH, LPUSHX, RPUSHX |
//! | [`pop`] | LPOP, RPOP, LMPOP |
//! | [`read`] | LLEN, LINDEX, LRANGE, LPOS |
//! | [`edit`] | LSET, LINSERT, LREM, LTRIM |
//! | [`transfer`] | LMOVE, RPOPLPUSH |
//! | [`blocking`] | BLPOP, BRPOP, BLMPOP, BLMOVE, BRPOPLPUSH |

mod blocking;
mod edit;
mod pop;
mod push;
mod read;
#[cfg(test)]
mod tests;
mod transfer;

use crate::ctx::Ctx;
use crate::error::{Error, SYNTAX, WRONG_TYPE};
use crate::registry::Command;
use weft_keyspace::Record;
use weft_resp::Reply;
use weft_types::list::{End, List, Waste};
use weft_types::packed::Value;
use weft_types::string::Digits;

/// The commands of this group.
pub const COMMANDS: &[&Command] = &[
    &blocking::BLMOVE,
    &blocking::BLMPOP,
    &blocking::BLPOP,
    &blocking::BRPOP,
    &blocking::BRPOPLPUSH,
    &read::LINDEX,
    &edit::LINSERT,
    &read::LLEN,
    &transfer::LMOVE,
    &pop::LMPOP,
    &pop::LPOP,
    &read::LPOS,
    &push::LPUSH,
    &push::LPUSHX,
    &read::LRANGE,
    &edit::LREM,
    &edit::LSET,
    &edit::LTRIM,
    &pop::RPOP,
    &transfer::RPOPLPUSH,
    &push::RPUSH,
    &push::RPUSHX,
];

/// For i64::MIN, which has no positive counterpart.
const NOT_NEGATABLE: Error = Error::new(
    "ERR value is out of range, value must between -9223372036854775807 and 9223372036854775807",
);

/// The list of `record`, or the error for another type.
#[inline]
fn list(record: &Record) -> Result<List<'_>, Error> {
    List::of(record).ok_or(WRONG_TYPE)
}

/// Writes one element.
#[inline]
fn write_element(reply: &mut Reply, value: Value<'_>) {
    match value {
        Value::Bytes(bytes) => reply.bulk(bytes),
        Value::Int(n) => reply.bulk(Digits::new().format(n).as_bytes()),
    }
}

/// The end that argument `i` names: LEFT or RIGHT.
fn end(ctx: &Ctx<'_>, i: usize) -> Result<End, Error> {
    if ctx.is(i, "left") {
        Ok(End::Left)
    } else if ctx.is(i, "right") {
        Ok(End::Right)
    } else {
        Err(SYNTAX)
    }
}

/// The event for elements taken from this end.
fn pop_event(from: End) -> &'static str {
    match from {
        End::Left => "lpop",
        End::Right => "rpop",
    }
}

/// The event for elements added at this end.
fn push_event(to: End) -> &'static str {
    match to {
        End::Left => "lpush",
        End::Right => "rpush",
    }
}

/// Queues the removed part of a list, to be freed after its shard is released.
#[inline]
fn discard(ctx: &mut Ctx<'_>, waste: Waste) {
    if let Some(record) = waste.into_record() {
        ctx.db.context.discard(record);
    }
}

/// The elements from `start` to `stop` of a list of `len`. Negative indexes count from the end.
/// Returns the first index and the number of elements; `None` if there are none.
pub(crate) fn range(start: i64, stop: i64, len: usize) -> Option<(usize, usize)> {
    let len = len as i64;
    let start = if start < 0 { start.saturating_add(len).max(0) } else { start };
    let stop = if stop < 0 { stop.saturating_add(len) } else { stop }.min(len - 1);
    (start <= stop && start < len).then(|| (start as usize, (stop - start + 1) as usize))
}

//! The commands that work on keys of any type.
//!
//! These commands only pass a value on (COPY, MOVE, RENAME) or report its type or encoding (TYPE,
//! OBJECT). Commands on the contents are in the group of the type. Commands on the whole keyspace
//! are in [`keyspace_wide`](crate::keyspace_wide).

mod copy;
mod del;
mod exists;
pub(crate) mod expire;
mod move_to;
mod object;
mod persist;
mod rename;
pub mod scan;
#[cfg(test)]
mod tests;
mod ttl;
mod type_of;

use crate::ctx::Ctx;
use crate::error::{DB_OUT_OF_RANGE, Error};
use crate::registry::Command;

/// The commands of this group.
pub const COMMANDS: &[&Command] = &[
    &copy::COPY,
    &del::DEL,
    &exists::EXISTS,
    &expire::EXPIRE,
    &expire::EXPIREAT,
    &ttl::EXPIRETIME,
    &move_to::MOVE,
    &object::OBJECT,
    &persist::PERSIST,
    &expire::PEXPIRE,
    &expire::PEXPIREAT,
    &ttl::PEXPIRETIME,
    &ttl::PTTL,
    &rename::RENAME,
    &rename::RENAMENX,
    &scan::SCAN,
    &exists::TOUCH,
    &ttl::TTL,
    &type_of::TYPE,
    &del::UNLINK,
];

const SAME_OBJECT: Error = Error::new("ERR source and destination objects are the same");
const NOT_AN_INT: Error =
    Error::new("ERR value is out of range, value must between -2147483648 and 2147483647");

/// The logical database in argument `i`.
fn database(ctx: &Ctx<'_>, i: usize) -> Result<usize, Error> {
    let n = i32::try_from(ctx.int(i)?).map_err(|_| NOT_AN_INT)?;
    match usize::try_from(n) {
        Ok(n) if n < ctx.db.keyspace().databases() => Ok(n),
        Ok(_) | Err(_) => Err(DB_OUT_OF_RANGE),
    }
}

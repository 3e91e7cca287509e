//! The string commands.
//!
//! | file | commands |
//! |---|---|
//! | [`get`] | GET, GETDEL, GETEX, DELIFEQ: read one value, and optionally change the key |
//! | [`set`] | SET, SETNX, SETEX, PSETEX, GETSET: replace one value |
//! | [`multi`] | MGET, MSET, MSETNX, MSETEX: several keys in one request |
//! | [`range`] | APPEND, GETRANGE, SETRANGE, STRLEN, SUBSTR: parts of a value |
//! | [`incr`] | INCR, DECR, INCRBY, DECRBY, INCRBYFLOAT: values that hold numbers |
//! | [`lcs`] | LCS, whose algorithm is in [`subsequence`] |
//!
//! [`options`] parses the options of SET, GETEX and MSETEX.

mod get;
mod incr;
pub mod lcs;
mod multi;
mod options;
pub mod range;
mod set;
mod subsequence;
#[cfg(test)]
mod tests;

use crate::error::{CmdResult, Error, WRONG_TYPE};
use crate::registry::Command;
use weft_keyspace::Record;
use weft_resp::Reply;
use weft_resp::reply::SHARE_FROM;
use weft_types::string::{Digits, Pieces, Str, share};

/// The commands of this group.
pub const COMMANDS: &[&Command] = &[
    &range::APPEND,
    &incr::DECR,
    &incr::DECRBY,
    &get::DELIFEQ,
    &get::GET,
    &get::GETDEL,
    &get::GETEX,
    &range::GETRANGE,
    &set::GETSET,
    &incr::INCR,
    &incr::INCRBY,
    &incr::INCRBYFLOAT,
    &lcs::LCS,
    &multi::MGET,
    &multi::MSET,
    &multi::MSETEX,
    &multi::MSETNX,
    &set::PSETEX,
    &set::SET,
    &set::SETEX,
    &set::SETNX,
    &range::SETRANGE,
    &range::STRLEN,
    &range::SUBSTR,
];

/// The error for a string that would exceed `proto-max-bulk-len`.
const TOO_LONG: Error = Error::new("ERR string exceeds maximum allowed size (proto-max-bulk-len)");

/// The string of `record`, or the error for another type.
#[inline]
pub(crate) fn string(record: &Record) -> Result<Str<'_>, Error> {
    Str::of(record).ok_or(WRONG_TYPE)
}

/// Writes the string of `record`. A large one is sent from where it is stored, without a copy.
#[inline]
fn write_string(reply: &mut Reply, record: &Record) -> CmdResult {
    match string(record)? {
        Str::Bytes(bytes) => reply.bulk(bytes),
        Str::Int(n) => reply.bulk(Digits::new().format(n).as_bytes()),
        Str::Blob(bytes) if bytes.len() < SHARE_FROM => reply.bulk(bytes),
        Str::Blob(_) => {
            if let Some(blob) = share(record) {
                reply.bulk_shared(&blob);
            }
        }
        Str::Pieces(pieces) => write_pieces(reply, pieces),
    }
    Ok(())
}

/// A separate function, so that [`write_string`] stays small.
#[cold]
#[inline(never)]
fn write_pieces(reply: &mut Reply, pieces: &Pieces) {
    reply.bulk_parts(pieces.len(), |part| pieces.share(part));
}

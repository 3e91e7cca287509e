//! The HyperLogLog commands.
//!
//! A HyperLogLog is a string in a certain format, which [`weft_types::hyperloglog`] defines. Every
//! command here that may write unshares the string first, as the reference does. So OBJECT ENCODING
//! reports `raw` afterwards, changed or not: [`weft_types::string::mark_edited`].

mod add;
mod count;
mod debug;
mod merge;
mod selftest;
#[cfg(test)]
mod tests;

use crate::error::{Error, WRONG_TYPE};
use crate::registry::Command;
use weft_types::Record;
use weft_types::hyperloglog::{HEADER, View};
use weft_types::string::Str;

/// The commands of this group.
pub const COMMANDS: &[&Command] =
    &[&add::PFADD, &count::PFCOUNT, &debug::PFDEBUG, &merge::PFMERGE, &selftest::PFSELFTEST];

const INVALID: Error = Error::new("WRONGTYPE Key is not a valid HyperLogLog string value.");
const CORRUPTED: Error = Error::new("INVALIDOBJ Corrupted HLL object detected");

/// The work of unpacking, merging or counting all registers of a HyperLogLog, in elements: see
/// [`crate::Ctx::weigh`].
const WORK: usize = 100;

/// The work of merging or counting the HyperLogLog of a record, for [`crate::Ctx::weigh`]. O(1).
pub fn work(_: &Record) -> usize {
    WORK
}

/// The bytes and the registers of the HyperLogLog in `record`. For a string in pieces, only as much
/// as the header and the first run: no dense HyperLogLog is so long, and no valid sparse one.
#[inline]
fn view(record: &Record) -> Result<(&[u8], View<'_>), Error> {
    match Str::of(record).ok_or(WRONG_TYPE)? {
        Str::Bytes(bytes) | Str::Blob(bytes) => {
            View::of(bytes).map(|view| (bytes, view)).ok_or(INVALID)
        }
        Str::Pieces(pieces) => {
            let first = pieces.slice_from(0);
            let bytes = &first[..first.len().min(HEADER + 1)];
            View::of(bytes).map(|view| (bytes, view)).ok_or(INVALID)
        }
        Str::Int(_) => Err(INVALID),
    }
}

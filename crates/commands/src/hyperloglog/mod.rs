//! The HyperLogLog commands.
//!
//! A HyperLogLog is a string of a certain form; what its bytes mean is the business of
//! [`weft_types::hyperloglog`]. Every command here that may write makes the string its own first,
//! as the reference does, so that OBJECT ENCODING says `raw` afterwards whether or not anything was
//! changed: [`weft_types::string::seen_as_edited`].

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

/// What opening, merging or counting all registers of one costs, in elements looked at: see
/// [`crate::Ctx::weigh`].
const WORK: usize = 100;

/// What merging or counting the HyperLogLog of a record costs, for [`crate::Ctx::weigh`]. O(1).
pub fn work(_: &Record) -> usize {
    WORK
}

/// The bytes of the HyperLogLog that `record` holds, and its registers. Of a string in pieces no more
/// than the first run: no dense one is so long, and no sparse one that is not corrupted.
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

//! The commands on strings as bit arrays.
//!
//! | file | commands |
//! |---|---|
//! | [`single`] | SETBIT, GETBIT: a single bit |
//! | [`search`] | BITCOUNT, BITPOS: counts and searches in a value or a part of it |
//! | [`combine`] | BITOP: combines several values bit by bit |
//! | [`field`] | BITFIELD, BITFIELD_RO: integers of any width, read and written by [`integer`] |
//!
//! Bit 0 is the highest bit of the first byte. A value counts as if followed by infinitely many
//! zeros. A write beyond its end makes it longer.

mod combine;
mod field;
mod integer;
mod search;
mod single;
#[cfg(test)]
mod tests;

use crate::ctx::Ctx;
use crate::error::Error;
use crate::registry::Command;
use crate::string::range::BYTES_PER_ELEMENT;
use weft_base::num;
use weft_keyspace::Record;
use weft_types::string::Str;

/// The commands of this group.
pub const COMMANDS: &[&Command] = &[
    &search::BITCOUNT,
    &field::BITFIELD,
    &field::BITFIELD_RO,
    &combine::BITOP,
    &search::BITPOS,
    &single::GETBIT,
    &single::SETBIT,
];

const BAD_OFFSET: Error = Error::new("ERR bit offset is not an integer or out of range");

/// The bit position in argument `i`. With the `width` of an integer, `#n` is also accepted: the
/// position of the `n`-th integer of that width.
///
/// # Errors
/// The argument is not a number, or the position is beyond the longest string.
fn offset(ctx: &Ctx<'_>, i: usize, width: Option<u32>) -> Result<usize, Error> {
    let (digits, unit) = match (ctx.args[i], width) {
        ([b'#', digits @ ..], Some(width)) => (digits, i64::from(width)),
        (digits, _) => (digits, 1),
    };
    let n = num::parse_i64(digits).ok_or(BAD_OFFSET)?;
    // The product wraps on overflow, as in the reference.
    let at = usize::try_from(n.wrapping_mul(unit)).map_err(|_| BAD_OFFSET)?;
    if at / 8 < ctx.settings.max_string { Ok(at) } else { Err(BAD_OFFSET) }
}

/// The work of reading the whole string of `record`, for [`Ctx::weigh`]. O(1).
pub fn work(record: &Record) -> usize {
    Str::of(record).map_or(0, |text| text.len() / BYTES_PER_ELEMENT)
}

//! Shared by the commands on the expiry of fields: `FIELDS numfields field ...` at the end of their
//! arguments, and the options with a time.

use crate::ctx::Ctx;
use crate::error::{Error, NOT_AN_INTEGER, SYNTAX};
use crate::generic::expire::{Base, Unit, unix_time_ms};
use weft_base::num;
use weft_keyspace::Record;
use weft_keyspace::db::Rework;
use weft_types::hash::len;

pub(super) const NUMFIELDS: Error =
    Error::new("ERR numfields should be greater than 0 and match the provided number of fields");

fn is_fields(word: &[u8]) -> bool {
    word.eq_ignore_ascii_case(b"fields")
}

/// The position of FIELDS, searched from argument `from` on. The last argument can't be FIELDS.
pub(super) fn fields_position(args: &[&[u8]], from: usize) -> Result<usize, Error> {
    let options = &args[from..args.len() - 1];
    options.iter().position(|word| is_fields(word)).map(|at| from + at).ok_or(NUMFIELDS)
}

/// The arguments after the FIELDS at argument `at` and its count. Each field takes `width`
/// arguments.
pub(super) fn fields_after<'c, 'a>(
    ctx: &'c Ctx<'a>,
    at: usize,
    width: usize,
) -> Result<&'c [&'a [u8]], Error> {
    let count = ctx.int(at + 1)?;
    let fields = &ctx.args[at + 2..];
    let announced = usize::try_from(count).ok().and_then(|count| count.checked_mul(width));
    if fields.is_empty() || announced != Some(fields.len()) {
        return Err(NUMFIELDS);
    }
    Ok(fields)
}

/// The fields of a command whose FIELDS directly follows the key. `mismatch` is its error for a
/// count that does not match the fields.
pub(super) fn fields_after_key<'c, 'a>(
    ctx: &'c Ctx<'a>,
    mismatch: &Error,
) -> Result<&'c [&'a [u8]], Error> {
    if !is_fields(ctx.args[2]) {
        return Err(SYNTAX);
    }
    fields_after(ctx, 2, 1)
        .map_err(|error| if error == NUMFIELDS { mismatch.clone() } else { error })
}

/// A time argument, with its unit and base from EX, PX, EXAT or PXAT.
#[derive(Clone, Copy)]
pub(super) struct TimeOption<'a> {
    pub(super) text: &'a [u8],
    pub(super) unit: Unit,
    pub(super) base: Base,
}

impl<'a> TimeOption<'a> {
    /// The option `word` with its value `text`; `None` for any other word.
    pub(super) fn option(word: &[u8], text: &'a [u8]) -> Option<TimeOption<'a>> {
        let (unit, base) = match word.to_ascii_lowercase().as_slice() {
            b"ex" => (Unit::Seconds, Base::Now),
            b"px" => (Unit::Milliseconds, Base::Now),
            b"exat" => (Unit::Seconds, Base::Epoch),
            b"pxat" => (Unit::Milliseconds, Base::Epoch),
            _ => return None,
        };
        Some(TimeOption { text, unit, base })
    }

    /// Whether `other` was given with the same option.
    pub(super) fn same_option_as(self, other: TimeOption<'_>) -> bool {
        self.unit == other.unit && self.base == other.base
    }

    /// The Unix time in milliseconds. Errors name `command`.
    pub(super) fn at(self, now_ms: i64, command: &str) -> Result<i64, Error> {
        let n = num::parse_i64(self.text).ok_or(NOT_AN_INTEGER)?;
        let at = if n < 0 { None } else { unix_time_ms(n, self.unit, self.base, now_ms) };
        at.ok_or_else(|| Error::owned(format!("ERR invalid expire time in '{command}' command")))
    }
}

/// The result for a hash of which `changes` fields were changed or removed.
pub(super) fn changed(record: Record, changes: u64) -> Rework {
    if changes == 0 {
        Rework::Same(record)
    } else if len(&record) == 0 {
        Rework::Emptied(record)
    } else {
        Rework::Changed(record)
    }
}

//! Timeouts of blocking commands.

use crate::ctx::Ctx;
use crate::error::Error;
use weft_base::long_double::LongDouble;
use weft_base::num;

const NOT_A_FLOAT: Error = Error::new("ERR timeout is not a float or out of range");
const OUT_OF_RANGE: Error = Error::new("ERR timeout is out of range");
const NEGATIVE: Error = Error::new("ERR timeout is negative");

/// The timeout at argument `i`, given in seconds with fractions, as milliseconds rounded up. `None`
/// (from 0) means no timeout.
pub fn timeout(ctx: &Ctx<'_>, i: usize) -> Result<Option<u64>, Error> {
    let Some(seconds) = num::parse_f64(ctx.args[i]) else {
        // The reference parses an 80-bit number, so a value that only fits there is out of range.
        let wide = LongDouble::parse(ctx.args[i]).is_some();
        return Err(if wide { OUT_OF_RANGE } else { NOT_A_FLOAT });
    };
    let ms = (seconds * 1000.0).ceil();
    // The deadline must fit into an i64 of milliseconds.
    if ms >= (i64::MAX - ctx.now_ms()) as f64 {
        return Err(OUT_OF_RANGE);
    }
    if ms < 0.0 {
        return Err(NEGATIVE);
    }
    Ok((ms > 0.0).then_some(ms as u64))
}

const NOT_AN_INTEGER: Error = Error::new("ERR timeout is not an integer or out of range");

/// The timeout at argument `i`, in whole milliseconds. `None` (from 0) means no timeout.
pub fn timeout_ms(ctx: &Ctx<'_>, i: usize) -> Result<Option<u64>, Error> {
    let ms = num::parse_i64(ctx.args[i]).ok_or(NOT_AN_INTEGER)?;
    let ms = u64::try_from(ms).map_err(|_| NEGATIVE)?;
    // The deadline must fit into an i64 of milliseconds.
    if ms > i64::MAX.abs_diff(ctx.now_ms()) {
        return Err(OUT_OF_RANGE);
    }
    Ok((ms > 0).then_some(ms))
}

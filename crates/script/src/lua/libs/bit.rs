//! `bit`: operations on integers of 32 bits, as Lua BitOp has them (<https://bitop.luajit.org>).

use super::number;
use crate::lua::frame::{Frame, Kind, Native, Raised};

pub(super) const FUNCTIONS: &[(&str, Native)] = &[
    ("arshift", |frame| shift(frame, |a, by| a >> by)),
    ("band", |frame| fold(frame, |a, b| a & b)),
    ("bnot", |frame| one(frame, |a| !a)),
    ("bor", |frame| fold(frame, |a, b| a | b)),
    ("bswap", |frame| one(frame, i32::swap_bytes)),
    ("bxor", |frame| fold(frame, |a, b| a ^ b)),
    ("lshift", |frame| shift(frame, |a, by| a << by)),
    ("rol", |frame| shift(frame, i32::rotate_left)),
    ("ror", |frame| shift(frame, i32::rotate_right)),
    ("rshift", |frame| shift(frame, |a, by| (a as u32 >> by) as i32)),
    ("tobit", |frame| one(frame, |a| a)),
    ("tohex", to_hex),
];

/// The low 32 bits of argument `at`, rounded to an integer. Beyond 2^51 the rounding is that of the addition of
/// 1.5 * 2^52, as in the original.
fn bits(frame: &mut Frame<'_>, at: usize) -> Result<i32, Raised> {
    const MAGIC: f64 = 6_755_399_441_055_744.0;
    number(frame, at).map(|n| (n + MAGIC).to_bits() as u32 as i32)
}

fn push(frame: &mut Frame<'_>, value: i32) -> Result<usize, Raised> {
    frame.push_number(f64::from(value));
    Ok(1)
}

fn one(frame: &mut Frame<'_>, act: impl FnOnce(i32) -> i32) -> Result<usize, Raised> {
    let value = bits(frame, 1)?;
    push(frame, act(value))
}

fn fold(frame: &mut Frame<'_>, act: impl Fn(i32, i32) -> i32) -> Result<usize, Raised> {
    let mut value = bits(frame, 1)?;
    // From the last one, as the original: it is named in an error.
    for at in (2..=frame.len()).rev() {
        value = act(value, bits(frame, at)?);
    }
    push(frame, value)
}

fn shift(frame: &mut Frame<'_>, act: impl FnOnce(i32, u32) -> i32) -> Result<usize, Raised> {
    let value = bits(frame, 1)?;
    let by = bits(frame, 2)? as u32 & 31;
    push(frame, act(value, by))
}

fn to_hex(frame: &mut Frame<'_>) -> Result<usize, Raised> {
    let value = bits(frame, 1)?;
    let digits = match frame.kind(2) {
        Kind::Absent => 8,
        _ => bits(frame, 2)?,
    };
    let text = match digits < 0 {
        true => format!("{value:08X}"),
        false => format!("{value:08x}"),
    };
    let shown = (digits.unsigned_abs() as usize).min(8);
    frame.push_bytes(&text.as_bytes()[8 - shown..]);
    Ok(1)
}

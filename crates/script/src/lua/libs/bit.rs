//! `bit`: operations on 32 bits. A number is taken modulo 2^32; results are signed.

use super::{Frame, Kind, Native, Raised, push_functions};

const FUNCTIONS: [(&str, Native); 12] = [
    ("tobit", |frame| unary(frame, |a| a)),
    ("bnot", |frame| unary(frame, |a| !a)),
    ("bswap", |frame| unary(frame, u32::swap_bytes)),
    ("band", |frame| fold(frame, |a, b| a & b)),
    ("bor", |frame| fold(frame, |a, b| a | b)),
    ("bxor", |frame| fold(frame, |a, b| a ^ b)),
    ("lshift", |frame| shift(frame, |a, n| a << n)),
    ("rshift", |frame| shift(frame, |a, n| a >> n)),
    ("arshift", |frame| shift(frame, |a, n| (a as i32 >> n) as u32)),
    ("rol", |frame| shift(frame, u32::rotate_left)),
    ("ror", |frame| shift(frame, u32::rotate_right)),
    ("tohex", to_hex),
];

pub(super) fn push(frame: &mut Frame<'_>) {
    push_functions(frame, &FUNCTIONS);
}

/// The low 32 bits of the number at `at`.
fn bits(frame: &mut Frame<'_>, at: usize) -> Result<u32, Raised> {
    /// 2^52 + 2^51: the sum has the integer, rounded, in its lowest bits.
    const SHIFT: f64 = 6_755_399_441_055_744.0;
    match frame.number(at as i32) {
        Some(number) => Ok((number + SHIFT).to_bits() as u32),
        None => Err(frame.bad_type(at, "number")),
    }
}

fn push_bits(frame: &mut Frame<'_>, bits: u32) -> usize {
    frame.push_number(f64::from(bits as i32));
    1
}

fn unary(frame: &mut Frame<'_>, act: impl Fn(u32) -> u32) -> Result<usize, Raised> {
    let a = bits(frame, 1)?;
    Ok(push_bits(frame, act(a)))
}

fn fold(frame: &mut Frame<'_>, act: impl Fn(u32, u32) -> u32) -> Result<usize, Raised> {
    let mut result = bits(frame, 1)?;
    // From the last one: an error names the last bad argument.
    for at in (2..=frame.len()).rev() {
        result = act(result, bits(frame, at)?);
    }
    frame.pop(frame.len());
    Ok(push_bits(frame, result))
}

fn shift(frame: &mut Frame<'_>, act: impl Fn(u32, u32) -> u32) -> Result<usize, Raised> {
    let a = bits(frame, 1)?;
    let n = bits(frame, 2)? & 31;
    Ok(push_bits(frame, act(a, n)))
}

/// The last `n` hexadecimal digits, in upper case if `n` is negative.
fn to_hex(frame: &mut Frame<'_>) -> Result<usize, Raised> {
    let a = bits(frame, 1)?;
    let n = match frame.kind(2) {
        Kind::Absent => 8,
        _ => bits(frame, 2)? as i32,
    };
    let text = if n < 0 { format!("{a:08X}") } else { format!("{a:08x}") };
    let digits = n.unsigned_abs().min(8) as usize;
    frame.push_bytes(&text.as_bytes()[8 - digits..]);
    Ok(1)
}

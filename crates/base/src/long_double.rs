//! The 80-bit floating point arithmetic of `INCRBYFLOAT` and `HINCRBYFLOAT`, in software.
//!
//! Those commands are defined by a C compiler's `long double` on x86: parse a decimal with
//! `strtold`, add, print with `%.17Lf`, drop trailing zeros. The digits are stored, replicated and
//! shown to clients, so they must be exactly equal. Rust has no such type, and neither do most
//! other processors, but the format is simple.
//!
//! # The format
//!
//! ```text
//! sign | 15-bit exponent | 64-bit significand with an explicit leading 1
//! ```
//!
//! A finite number is kept as `significand * 2^exponent` with the significand's top
//! bit set, except for zero and for the subnormal numbers at the lowest exponent:
//!
//! ```text
//!   MIN_EXPONENT = -16445 (subnormals and the smallest normals)
//!   MAX_EXPONENT =  16320 (largest: (2^64 - 1) * 2^16320, about 1.19e4932)
//! ```
//!
//! # Exactness
//!
//! Parsing, adding and printing are each correctly rounded, to nearest with ties to even, as the
//! hardware and the C library do. Each has a fast path in 128-bit integers for ordinary numbers.
//! Parsing and printing use [`Natural`]s for the rest:
//!
//! * Reading `d * 10^-e` with at most 19 digits and `e <= 18`: one 128-bit division
//!   leaves at least 65 quotient bits, the remainder is the sticky bit.
//! * Adding: the larger significand is moved to the top of 128 bits; bits of the smaller one that
//!   are lost below them are kept as one sticky bit.
//! * Printing below 2^64: 17 digits need `significand * 10^17 < 2^121`.

use crate::natural::Natural;
use crate::num::is_c_space;
use std::fmt;

/// Longer texts are not numbers, whatever they contain: the size of a fixed buffer in Valkey that
/// became behaviour.
const MAX_TEXT: usize = 5 * 1024;

const MIN_EXPONENT: i32 = -16_445;
const MAX_EXPONENT: i32 = 16_320;

/// Digits after the decimal point in the printed form, before zeros are dropped.
const FRACTION_DIGITS: usize = 17;
const FRACTION_SCALE: u64 = 10u64.pow(FRACTION_DIGITS as u32);

/// Why a sum could not be computed. The text is what the client sees after `ERR `.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FloatError {
    /// An operand is not a number, or too large or too small for one.
    NotAFloat,
    /// The sum is out of range, or an operand was infinite.
    NanOrInfinity,
}

impl fmt::Display for FloatError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotAFloat => "value is not a valid float",
            Self::NanOrInfinity => "increment would produce NaN or Infinity",
        })
    }
}

impl std::error::Error for FloatError {}

/// Reads `a` and `b`, adds them in 80-bit arithmetic and prints the sum.
///
/// About 100 ns for everyday numbers; well under a millisecond for the longest texts.
///
/// # Errors
/// [`FloatError`], as the commands report it.
pub fn add_and_format_long_double(a: &[u8], b: &[u8]) -> Result<Vec<u8>, FloatError> {
    let a = LongDouble::parse(a).ok_or(FloatError::NotAFloat)?;
    let b = LongDouble::parse(b).ok_or(FloatError::NotAFloat)?;
    a.add(b).format().ok_or(FloatError::NanOrInfinity)
}

/// An 80-bit extended precision number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LongDouble {
    negative: bool,
    kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// `significand * 2^exponent`; see the module documentation for the normal form.
    Finite {
        significand: u64,
        exponent: i32,
    },
    Infinite,
    NotANumber,
}

impl LongDouble {
    /// Reads a number: decimal or hexadecimal (`0x1.8p3`), with optional sign,
    /// point and exponent, or `inf` or `infinity` in any case.
    ///
    /// `None` for anything else, for NaN, for blanks before or after, for texts of
    /// 5 KiB or more, for numbers that would round to infinity, and for
    /// numbers other than zero that would round to zero.
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        if bytes.len() >= MAX_TEXT || bytes.first().is_none_or(|&b| is_c_space(b)) {
            return None;
        }
        let (negative, rest) = match bytes {
            [b'-', rest @ ..] => (true, rest),
            [b'+', rest @ ..] => (false, rest),
            rest => (false, rest),
        };
        let kind = match rest {
            _ if rest.eq_ignore_ascii_case(b"inf") => Kind::Infinite,
            _ if rest.eq_ignore_ascii_case(b"infinity") => Kind::Infinite,
            [b'0', b'x' | b'X', hex @ ..] => {
                Literal::parse(hex, Radix::Hexadecimal)?.hexadecimal()?
            }
            decimal => Literal::parse(decimal, Radix::Decimal)?.decimal()?,
        };
        Some(Self { negative, kind })
    }

    /// Whether this is neither infinite nor NaN.
    pub fn is_finite(self) -> bool {
        matches!(self.kind, Kind::Finite { .. })
    }

    /// The correctly rounded sum. Opposite infinities give NaN, overflow gives infinity.
    #[must_use]
    #[expect(clippy::should_implement_trait, reason = "an operator would hide the rounding")]
    pub fn add(self, other: Self) -> Self {
        let (a, b) = match (self.kind, other.kind) {
            (Kind::NotANumber, _) => return self,
            (_, Kind::NotANumber) => return other,
            (Kind::Infinite, Kind::Infinite) if self.negative != other.negative => {
                return Self { negative: false, kind: Kind::NotANumber };
            }
            (Kind::Infinite, _) => return self,
            (_, Kind::Infinite) => return other,
            (
                Kind::Finite { significand: a, exponent: a_exponent },
                Kind::Finite { significand: b, exponent: b_exponent },
            ) => ((self.negative, a, a_exponent), (other.negative, b, b_exponent)),
        };
        add_finite(a, b)
    }

    /// The number with 17 digits after the point, correctly rounded, without trailing
    /// zeros; `None` if it is not finite. Zero has no sign, even a rounded one.
    pub fn format(self) -> Option<Vec<u8>> {
        let Kind::Finite { significand, exponent } = self.kind else {
            return None;
        };
        let mut out = Vec::with_capacity(24);
        if self.negative {
            out.push(b'-');
        }
        if exponent > 0 {
            let mut whole = Natural::from_u64(significand);
            whole.shift_left(exponent as usize);
            whole.write_decimal(&mut out);
            return Some(out);
        }
        let (whole, fraction) = split_fraction(significand, exponent.unsigned_abs());
        if whole == 0 && fraction == 0 {
            return Some(b"0".to_vec());
        }
        out.extend_from_slice(whole.to_string().as_bytes());
        if fraction != 0 {
            out.extend_from_slice(format!(".{fraction:017}").as_bytes());
            while out.last() == Some(&b'0') {
                out.pop();
            }
        }
        Some(out)
    }
}

/// The integer part of `significand / 2^shift`, and the rest in units of 10^-17,
/// rounded to even. The integer part may be 2^64, by rounding.
fn split_fraction(significand: u64, shift: u32) -> (u128, u64) {
    let whole = significand.checked_shr(shift).unwrap_or(0);
    let below = match 1u64.checked_shl(shift) {
        Some(one) => significand & (one - 1),
        None => significand,
    };
    // At most 64 + 57 bits.
    let scaled = u128::from(below) * u128::from(FRACTION_SCALE);
    // Below 2^121, so that a longer shift leaves less than one half: zero.
    let quotient = scaled.checked_shr(shift).unwrap_or(0);
    let rounded = if shift == 0 || shift >= 128 {
        quotient
    } else {
        let remainder = scaled - (quotient << shift);
        let half = 1u128 << (shift - 1);
        quotient + u128::from(remainder > half || (remainder == half && quotient & 1 == 1))
    };
    match u64::try_from(rounded) {
        Ok(fraction) if fraction < FRACTION_SCALE => (u128::from(whole), fraction),
        Ok(_) | Err(_) => (u128::from(whole) + 1, 0),
    }
}

/// Sign, significand and exponent of a finite number.
type Parts = (bool, u64, i32);

fn add_finite(a: Parts, b: Parts) -> LongDouble {
    // The one with the larger exponent first, for a shift to the right of the other.
    // Zero has the lowest exponent.
    let ((a_negative, a, a_exponent), (b_negative, b, b_exponent)) =
        if a.2 >= b.2 { (a, b) } else { (b, a) };
    // `a` in bits 62 to 125: room for a carry above, and for bits shifted out of `b`.
    const UP: u32 = 62;
    let distance = a_exponent.abs_diff(b_exponent);
    let a = u128::from(a) << UP;
    let b_full = u128::from(b) << UP;
    let b = b_full.checked_shr(distance).unwrap_or(0);
    let lost = b.checked_shl(distance).unwrap_or(0) != b_full;
    let exponent = a_exponent - UP as i32;

    let (negative, sum) = if a_negative == b_negative {
        (a_negative, a + b)
    } else if a >= b {
        // The lost bits of `b` must still be subtracted: subtract one unit; the sticky bit records
        // that this was too much.
        (a_negative, a - b - u128::from(lost))
    } else {
        // `b` is larger only if the exponents are equal, and then nothing was lost.
        (b_negative, b - a)
    };
    if sum == 0 && !lost {
        // x - x is +0; -0 + -0 is -0, which prints alike.
        let negative = a_negative && b_negative;
        let kind = Kind::Finite { significand: 0, exponent: MIN_EXPONENT };
        return LongDouble { negative, kind };
    }
    LongDouble { negative, kind: round(sum, lost, exponent) }
}

/// `(bits + something below 1, if sticky) * 2^exponent`, rounded to nearest, ties to
/// even. `bits` must not be zero.
fn round(bits: u128, sticky: bool, exponent: i32) -> Kind {
    let length = 128 - bits.leading_zeros() as i32;
    // Drop bits until 64 remain, or fewer if the exponent would be too low.
    let drop = (length - 64).max(MIN_EXPONENT - exponent);
    let exponent = exponent + drop;
    if drop <= 0 {
        // Exact, since callers with a sticky bit always pass more than 64 bits.
        let significand = (bits << -drop) as u64;
        return finish(significand, exponent);
    }
    let drop = drop as u32;
    let kept = bits.checked_shr(drop).unwrap_or(0) as u64;
    let dropped = bits & 1u128.checked_shl(drop).map_or(u128::MAX, |one| one - 1);
    let up = match 1u128.checked_shl(drop - 1) {
        Some(half) if dropped == half => sticky || kept & 1 == 1,
        Some(half) => dropped > half,
        None => false,
    };
    match kept.checked_add(u64::from(up)) {
        Some(significand) => finish(significand, exponent),
        None => finish(1 << 63, exponent + 1),
    }
}

fn finish(significand: u64, exponent: i32) -> Kind {
    if exponent > MAX_EXPONENT { Kind::Infinite } else { Kind::Finite { significand, exponent } }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Radix {
    Decimal,
    Hexadecimal,
}

impl Radix {
    fn is_digit(self, byte: u8) -> bool {
        match self {
            Radix::Decimal => byte.is_ascii_digit(),
            Radix::Hexadecimal => byte.is_ascii_hexdigit(),
        }
    }

    fn exponent_mark(self) -> u8 {
        match self {
            Radix::Decimal => b'e',
            Radix::Hexadecimal => b'p',
        }
    }
}

/// An unsigned number as written, split into its parts.
struct Literal<'a> {
    whole: &'a [u8],
    fraction: &'a [u8],
    /// As written, saturated far outside the relevant range.
    exponent: i32,
}

impl<'a> Literal<'a> {
    /// Splits the text into parts. Every byte must belong to one.
    fn parse(text: &'a [u8], radix: Radix) -> Option<Self> {
        let digits =
            |text: &'a [u8]| text.split_at(text.iter().take_while(|&&b| radix.is_digit(b)).count());
        let (whole, rest) = digits(text);
        let (fraction, rest) = match rest {
            [b'.', rest @ ..] => digits(rest),
            rest => (&rest[..0], rest),
        };
        if whole.is_empty() && fraction.is_empty() {
            return None;
        }
        let exponent = match rest {
            [] => 0,
            [mark, rest @ ..] if mark.eq_ignore_ascii_case(&radix.exponent_mark()) => {
                parse_exponent(rest)?
            }
            _ => return None,
        };
        Some(Self { whole, fraction, exponent })
    }

    /// All digits from the first to the last nonzero one, and the exponent if they are read as an
    /// integer. `step` is the weight of one digit in the exponent.
    fn significant(&self, step: i32) -> (impl Iterator<Item = u8> + Clone + use<'a>, usize, i32) {
        let (whole, fraction) = (self.whole, self.fraction);
        let all = whole.len() + fraction.len();
        let digit = move |i: usize| {
            if i < whole.len() { whole[i] } else { fraction[i - whole.len()] }
        };
        let first = (0..all).find(|&i| digit(i) != b'0').unwrap_or(all);
        let last = (first..all).rfind(|&i| digit(i) != b'0').map_or(first, |i| i + 1);
        // At most 5 KiB of digits, so nothing here comes near the limits of `i32`.
        let scale = whole.len() as i32 - last as i32;
        ((first..last).map(digit), last - first, self.exponent + step * scale)
    }

    fn hexadecimal(&self) -> Option<Kind> {
        let (digits, count, exponent) = self.significant(4);
        if count == 0 {
            return Some(ZERO);
        }
        // 31 digits fill 124 bits. Of further digits only their existence matters, because the last
        // significant digit is not zero.
        const FIT: usize = 31;
        let bits = digits.take(FIT).fold(0u128, |bits, digit| {
            bits << 4 | u128::from((digit as char).to_digit(16).unwrap_or(0))
        });
        let beyond = count.saturating_sub(FIT);
        nonzero(round(bits, beyond > 0, exponent + 4 * beyond as i32))
    }

    fn decimal(&self) -> Option<Kind> {
        let (digits, count, exponent) = self.significant(1);
        if count == 0 {
            return Some(ZERO);
        }
        // The number is in [10^(magnitude - 1), 10^magnitude).
        let magnitude = exponent + count as i32;
        if !(-4_960..=4_940).contains(&magnitude) {
            return None;
        }
        if count <= 19 && (-18..=18).contains(&exponent) {
            // 19 digits are below 2^64.
            let integer = digits.fold(0u64, |n, digit| n * 10 + u64::from(digit - b'0'));
            return nonzero(small_decimal(integer, exponent));
        }
        let mut number = Natural::from_decimal(digits);
        if exponent >= 0 {
            number.mul_pow10(exponent as usize);
            let (bits, beyond) = number.leading_bits();
            return nonzero(round(bits, beyond, number.bits() as i32 - 128));
        }
        let mut divisor = Natural::from_u64(1);
        divisor.mul_pow10(exponent.unsigned_abs() as usize);
        let (quotient, remainder, exponent) = divide(number, divisor);
        nonzero(round(quotient, remainder, exponent))
    }
}

/// `integer * 10^exponent` for exponents from -18 to 18, in 128 bits.
fn small_decimal(integer: u64, exponent: i32) -> Kind {
    let power = u128::from(10u64.pow(exponent.unsigned_abs()));
    if exponent >= 0 {
        return round(u128::from(integer) * power, false, 0);
    }
    // The dividend fills 128 bits and the divisor fewer than 60, so the quotient has more than 65
    // bits: enough for rounding, together with the remainder.
    let up = integer.leading_zeros() + 64;
    let dividend = u128::from(integer) << up;
    round(dividend / power, !dividend.is_multiple_of(power), -(up as i32))
}

/// `number / divisor` as at least 66 quotient bits, whether a remainder is left, and the exponent
/// of two of the quotient.
fn divide(mut number: Natural, mut divisor: Natural) -> (u128, bool, i32) {
    // Align, so that the first quotient bit is the highest or the one after it.
    let shift = number.bits() as i32 - divisor.bits() as i32;
    if shift >= 0 {
        divisor.shift_left(shift as usize);
    } else {
        number.shift_left(shift.unsigned_abs() as usize);
    }
    const BITS: i32 = 68;
    let mut quotient = 0u128;
    for _ in 0..BITS {
        quotient <<= 1;
        if number >= divisor {
            number.subtract(&divisor);
            quotient |= 1;
        }
        number.shift_left(1);
    }
    (quotient, !number.is_zero(), shift - (BITS - 1))
}

const ZERO: Kind = Kind::Finite { significand: 0, exponent: MIN_EXPONENT };

/// Rejects a rounding to zero or infinity of a number that was written as neither.
fn nonzero(kind: Kind) -> Option<Kind> {
    match kind {
        Kind::Finite { significand: 0, .. } | Kind::Infinite | Kind::NotANumber => None,
        Kind::Finite { .. } => Some(kind),
    }
}

/// A decimal exponent with optional sign, saturated at a million.
fn parse_exponent(text: &[u8]) -> Option<i32> {
    const LIMIT: i32 = 1_000_000;
    let (sign, digits) = match text {
        [b'-', digits @ ..] => (-1, digits),
        [b'+', digits @ ..] => (1, digits),
        digits => (1, digits),
    };
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let magnitude =
        digits.iter().fold(0, |n: i32, digit| (n * 10 + i32::from(digit - b'0')).min(LIMIT));
    Some(sign * magnitude)
}

#[cfg(test)]
mod tests;

//! Doubles as text, digit for digit as Valkey prints them.
//!
//! A double in a reply (`ZSCORE`, `GEODIST`, RESP3 `,1.5`) should be the shortest decimal that
//! parses to the same double. Valkey uses Grisu2 (Loitsch, "Printing Floating-Point Numbers Quickly
//! and Accurately with Integers", PLDI 2010). The result of Grisu2 always parses to the same
//! double, but in about one case in a thousand it is not the shortest or not the closest: 1e23
//! prints as `99999999999999990000000`. Clients compare and store these strings, and a sorted set
//! replicated or dumped through text must not change. So this module uses Grisu2 too, although
//! better algorithms exist.
//!
//! # The idea
//!
//! Every real number strictly between the midpoints to the two neighbouring doubles reads back as
//! `v`. Multiply `v` and those two bounds by a cached power of ten so that the integer part fits 32
//! bits; the multiplication is off by at most one unit, so the bounds are moved inwards by one unit
//! each and whatever lies between them is certain. Then produce digits of the upper bound until the
//! rest is smaller than the distance of the bounds: cutting there is inside. Finally the last digit
//! is lowered while that comes closer to `v`.
//!
//! # The shape of the text
//!
//! With `n` digits and the value `digits * 10^k`: integers are written out while that takes fewer
//! than seven zeros after the digits, small fractions down to about 1e-6, and everything else as
//! `d.ddde+xx`. Integers of up to 2^62 are printed as integers before this.

mod powers;

use powers::{FIRST, POWERS, STEP};

/// Longest text that [`format_f64`] appends.
pub const MAX_F64_TEXT: usize = 25;

/// Appends `value` as the protocol shows it: `3`, `0.1`, `1e+20`, `inf`, `-inf`, `nan`,
/// `-0`. At most [`MAX_F64_TEXT`] bytes; some 50 ns.
pub fn format_f64(value: f64, out: &mut Vec<u8>) {
    if value.is_nan() {
        out.extend_from_slice(b"nan");
        return;
    }
    if value.is_sign_negative() {
        out.push(b'-');
    }
    let magnitude = value.abs();
    if magnitude.is_infinite() {
        out.extend_from_slice(b"inf");
    } else if let Some(integer) = as_small_integer(magnitude) {
        out.extend_from_slice(itoa(integer, &mut [0; 20]));
    } else {
        let digits = Digits::of_short(magnitude).unwrap_or_else(|| Digits::of(magnitude));
        digits.write(out);
    }
}

/// [`format_f64`] into a new vector.
pub fn fmt_f64(value: f64) -> Vec<u8> {
    let mut out = Vec::with_capacity(MAX_F64_TEXT);
    format_f64(value, &mut out);
    out
}

/// Like [`fmt_f64`], but without the exception for integers: 1e18 is `1e+18`. Only the digests of
/// DEBUG use it.
pub fn fmt_f64_shortest(value: f64) -> Vec<u8> {
    if value.is_finite() && value != 0.0 {
        let mut out = Vec::with_capacity(MAX_F64_TEXT);
        if value < 0.0 {
            out.push(b'-');
        }
        Digits::of(value.abs()).write(&mut out);
        return out;
    }
    fmt_f64(value)
}

/// The value of an integral double up to 2^62, the largest that is written as an integer.
fn as_small_integer(magnitude: f64) -> Option<u64> {
    const LARGEST: f64 = (1u64 << 62) as f64;
    let integer = magnitude as u64;
    (magnitude <= LARGEST && integer as f64 == magnitude).then_some(integer)
}

fn itoa(mut value: u64, buffer: &mut [u8; 20]) -> &[u8] {
    let mut at = buffer.len();
    loop {
        at -= 1;
        buffer[at] = b'0' + (value % 10) as u8;
        value /= 10;
        if value == 0 {
            return &buffer[at..];
        }
    }
}

/// A positive number as `digits * 10^exponent`, the first digit not zero.
struct Digits {
    digits: [u8; 18],
    count: usize,
    exponent: i32,
}

impl Digits {
    fn write(&self, out: &mut Vec<u8>) {
        let digits = &self.digits[..self.count];
        let count = self.count as i32;
        // The position of the first digit: the exponent of scientific notation.
        let leading = self.exponent + count - 1;
        if self.exponent >= 0 && leading < count + 7 {
            out.extend_from_slice(digits);
            out.extend(std::iter::repeat_n(b'0', self.exponent as usize));
        } else if self.exponent < 0 && (self.exponent > -7 || leading.abs() < 4) {
            if leading < 0 {
                out.extend_from_slice(b"0.");
                out.extend(std::iter::repeat_n(b'0', (-leading - 1) as usize));
                out.extend_from_slice(digits);
            } else {
                let (whole, fraction) = digits.split_at(leading as usize + 1);
                out.extend_from_slice(whole);
                out.push(b'.');
                out.extend_from_slice(fraction);
            }
        } else {
            out.push(digits[0]);
            if count > 1 {
                out.push(b'.');
                out.extend_from_slice(&digits[1..]);
            }
            out.extend_from_slice(if leading < 0 { b"e-" } else { b"e+" });
            out.extend_from_slice(itoa(leading.unsigned_abs().into(), &mut [0; 20]));
        }
    }

    /// The digits of a number below 1000 with up to three decimals, as most scores with a fraction
    /// are; `None` for others. A division that rounds once finds the decimal. A test checks that
    /// Grisu2 agrees on all of them.
    fn of_short(value: f64) -> Option<Self> {
        if value >= 1000.0 {
            return None;
        }
        let thousandths = (value * 1000.0).round();
        if thousandths < 1.0 || thousandths / 1000.0 != value {
            return None;
        }
        let (mut number, mut exponent) = (thousandths as u32, -3);
        while number % 10 == 0 {
            number /= 10;
            exponent += 1;
        }
        let mut digits = Self { digits: [0; 18], count: 0, exponent };
        let mut text = [0; 20];
        for digit in itoa(number.into(), &mut text) {
            digits.push(digit - b'0');
        }
        Some(digits)
    }

    /// Grisu2. `value` is positive and finite.
    fn of(value: f64) -> Self {
        let (v, lower, upper) = neighbourhood(value);
        let (power, decimal_exponent) = cached_power(upper.exponent);
        let v = v.times(power);
        let upper = upper.times(power);
        let lower = lower.times(power);
        let mut digits = Self { digits: [0; 18], count: 0, exponent: -decimal_exponent };
        // Moving both ends inwards by one unit compensates the rounding of the products.
        let top = upper.significand - 1;
        digits.generate(
            top,
            top - (lower.significand + 1),
            top - v.significand,
            upper.exponent.unsigned_abs(),
        );
        digits
    }

    /// Produces the digits of `top / 2^point` until the rest is within `width`, then
    /// moves the last one towards the value, which is `distance` below `top`.
    /// `point` is from 32 to 60.
    fn generate(&mut self, top: u64, mut width: u64, distance: u64, point: u32) {
        let one = 1u64 << point;
        let mut whole = (top >> point) as u32;
        let mut fraction = top & (one - 1);

        for place in (0..10).rev() {
            let weight = 10u32.pow(place);
            let digit = whole / weight;
            whole %= weight;
            self.push(digit as u8);
            let rest = (u64::from(whole) << point) + fraction;
            if rest <= width {
                self.exponent += place as i32;
                self.round_last(width, rest, u64::from(weight) << point, distance);
                return;
            }
        }
        // After the point every digit scales the values by ten, including the distance.
        let mut scale = 1u64;
        loop {
            fraction *= 10;
            width *= 10;
            scale = scale.wrapping_mul(10);
            self.push((fraction >> point) as u8);
            fraction &= one - 1;
            self.exponent -= 1;
            if fraction < width {
                self.round_last(width, fraction, one, distance.wrapping_mul(scale));
                return;
            }
        }
    }

    fn push(&mut self, digit: u8) {
        if digit != 0 || self.count != 0 {
            self.digits[self.count] = b'0' + digit;
            self.count += 1;
        }
    }

    /// Lowers the last digit, worth `unit`, while the result stays within the bounds and comes
    /// closer to the value. `rest` is the distance of the digits so far below the top.
    fn round_last(&mut self, width: u64, mut rest: u64, unit: u64, distance: u64) {
        while rest < distance
            && width - rest >= unit
            && (rest + unit < distance || distance - rest > rest + unit - distance)
        {
            self.digits[self.count - 1] -= 1;
            rest += unit;
        }
    }
}

/// `significand * 2^exponent`, without sign and without hidden bits.
#[derive(Clone, Copy)]
struct Float {
    significand: u64,
    exponent: i32,
}

impl Float {
    fn normalized(self) -> Self {
        let shift = self.significand.leading_zeros();
        Float { significand: self.significand << shift, exponent: self.exponent - shift as i32 }
    }

    /// The upper half of the product, rounded.
    fn times(self, other: Self) -> Self {
        let product = u128::from(self.significand) * u128::from(other.significand);
        Float {
            significand: ((product + (1 << 63)) >> 64) as u64,
            exponent: self.exponent + other.exponent + 64,
        }
    }
}

/// The value, normalized, and the midpoints to its neighbours, both with the exponent
/// of the upper one.
fn neighbourhood(value: f64) -> (Float, Float, Float) {
    const HIDDEN_BIT: u64 = 1 << 52;
    const EXPONENT_OF_SUBNORMALS: i32 = -1_074;
    let bits = value.to_bits();
    let fraction = bits & (HIDDEN_BIT - 1);
    let v = match (bits >> 52) as i32 & 0x7ff {
        0 => Float { significand: fraction, exponent: EXPONENT_OF_SUBNORMALS },
        biased => Float {
            significand: fraction | HIDDEN_BIT,
            exponent: biased - 1 + EXPONENT_OF_SUBNORMALS,
        },
    };
    let upper = Float { significand: 2 * v.significand + 1, exponent: v.exponent - 1 }.normalized();
    // Below a power of two the neighbours are twice as close.
    let closer = 1 + i32::from(v.significand == HIDDEN_BIT);
    let lower_exponent = v.exponent - closer;
    let lower = Float {
        significand: ((v.significand << closer) - 1) << (lower_exponent - upper.exponent),
        exponent: upper.exponent,
    };
    (v.normalized(), lower, upper)
}

/// A power of ten that brings a normalized number with this exponent to an exponent
/// from -60 to -32, and the power's decimal exponent.
///
/// Often two entries would do. The choice affects the last digit of some results, so the estimate
/// at which the search starts is part of the behaviour.
fn cached_power(exponent: i32) -> (Float, i32) {
    const LOG10_OF_2: f64 = 0.301_029_995_663_981_14;
    let estimate = (-f64::from(exponent + POWERS.len() as i32) * LOG10_OF_2) as i32;
    let mut index = ((estimate - FIRST) / STEP) as usize;
    loop {
        let (significand, power_exponent) = POWERS[index];
        match exponent + power_exponent + 64 {
            ..-60 => index += 1,
            -60..=-32 => {
                let power = Float { significand, exponent: power_exponent };
                return (power, FIRST + index as i32 * STEP);
            }
            -31.. => index -= 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::natural::Natural;
    use crate::rng::Rng;

    fn text(value: f64) -> String {
        String::from_utf8(fmt_f64(value)).unwrap()
    }

    #[test]
    fn short_path_matches_grisu2() {
        let written = |digits: Digits| {
            let mut out = Vec::new();
            digits.write(&mut out);
            out
        };
        for thousandths in 1..1_000_000 {
            let value = f64::from(thousandths) / 1000.0;
            let short = Digits::of_short(value).expect("three decimals");
            assert_eq!(written(short), written(Digits::of(value)), "{value:?}");
        }
        for value in [0.0001, 0.12345, 1000.5, 0.1 + 0.2, f64::MIN_POSITIVE, 1.0 / 3.0] {
            assert!(Digits::of_short(value).is_none(), "{value:?}");
        }
    }

    /// Recorded from Valkey.
    #[test]
    fn prints_like_valkey() {
        for (value, expected) in [
            (3.0, "3"),
            (0.0, "0"),
            (-0.0, "-0"),
            (0.1, "0.1"),
            (-0.1, "-0.1"),
            (1e-7, "1e-7"),
            (1e17, "100000000000000000"),
            (1e18, "1000000000000000000"),
            (1e19, "1e+19"),
            (1e20, "1e+20"),
            (1e21, "1e+21"),
            (1e23, "99999999999999990000000"),
            (1.5e16, "15000000000000000"),
            (1.5e-5, "0.000015"),
            (1.25e-6, "1.25e-6"),
            (0.00012345, "1.2345e-4"),
            (1_234_567.125, "1234567.125"),
            (123e21, "1.23e+23"),
            (1.2345678901234567e22, "12345678901234568000000"),
            (1.23456789e25, "1.23456789e+25"),
            (4_611_686_018_427_387_904.0, "4611686018427387904"),
            (4_611_686_018_427_388_928.0, "4611686018427389000"),
            (-4_611_686_018_427_388_928.0, "-4611686018427389000"),
            (9_223_372_036_854_775_807.0, "9223372036854776000"),
            (5e-324, "5e-324"),
            (f64::MAX, "1.7976931348623157e+308"),
            (f64::MIN_POSITIVE, "2.2250738585072014e-308"),
            (f64::INFINITY, "inf"),
            (f64::NEG_INFINITY, "-inf"),
            (f64::NAN, "nan"),
        ] {
            assert_eq!(text(value), expected);
        }
    }

    #[test]
    fn every_text_round_trips_and_fits() {
        let mut rng = Rng::new(6);
        for _ in 0..300_000 {
            let value = f64::from_bits(rng.next_u64());
            if value.is_finite() {
                let text = text(value);
                assert_eq!(text.parse::<f64>().map(f64::to_bits), Ok(value.to_bits()), "{text}");
                assert!(text.len() <= MAX_F64_TEXT, "{text}");
            }
        }
        // All powers of two, where the interval is asymmetric, and their neighbours.
        for exponent in 0..0x7ffu64 {
            for nearby in [0, 1, (1 << 52) - 1] {
                let value = f64::from_bits(exponent << 52 | nearby);
                assert_eq!(text(value).parse::<f64>(), Ok(value));
            }
        }
    }

    /// Derives the table again. A power `10^k` is right if its distance to
    /// `significand * 2^exponent` is at most half a unit. The comparison is exact, after both sides
    /// are made integers.
    #[test]
    fn the_table_is_correctly_rounded() {
        for (index, &(significand, exponent)) in POWERS.iter().enumerate() {
            assert_eq!(significand >> 63, 1);
            let decimal = FIRST + index as i32 * STEP;
            // Twice the power, and twice the entry, both times 10^348 * 2^1300.
            let scaled = |significand: u64, tens: i32, twos: i32| {
                let mut number = Natural::from_u64(significand);
                number.mul_pow10(tens as usize);
                number.shift_left(twos as usize);
                number
            };
            let power = scaled(2, decimal + 348, 1_300);
            let entry = scaled(significand, 348, exponent + 1_301);
            let half_unit = scaled(1, 348, exponent + 1_300);
            let (mut far, near) = if power > entry { (power, entry) } else { (entry, power) };
            far.subtract(&near);
            assert!(far <= half_unit, "10^{decimal}");
        }
    }

    #[test]
    fn the_shortest_digits_of_integers() {
        for (value, text) in [
            (0.0, "0"),
            (-0.0, "-0"),
            (5.0, "5"),
            (-12.5, "-12.5"),
            (123456789012.0, "123456789012"),
            (1e18, "1e+18"),
            (-4611686018427387904.0, "-4611686018427388000"),
            (f64::INFINITY, "inf"),
        ] {
            assert_eq!(fmt_f64_shortest(value), text.as_bytes());
        }
    }
}

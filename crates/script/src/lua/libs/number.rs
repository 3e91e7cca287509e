//! Numbers as C prints, reads and converts them. The conversions are those of x86-64, where they are undefined in C.

use std::io::Write;

/// 2^63.
const TWO_63: f64 = 9_223_372_036_854_775_808.0;

/// `(int64_t) number`.
pub(super) fn to_i64(number: f64) -> i64 {
    if (-TWO_63..TWO_63).contains(&number) { number as i64 } else { i64::MIN }
}

/// `(uint64_t) number`.
pub(super) fn to_u64(number: f64) -> u64 {
    if number >= TWO_63 {
        to_i64(number - TWO_63) as u64 ^ (1 << 63)
    } else {
        to_i64(number) as u64
    }
}

/// `(int) number`.
pub(super) fn to_i32(number: f64) -> i32 {
    i32::try_from(to_i64(number)).unwrap_or(i32::MIN)
}

/// Appends `number` as `%.{precision}g` does. `precision`: 1 to 17.
pub(super) fn append_general(out: &mut Vec<u8>, number: f64, precision: usize) {
    let sign: &[u8] = if number.is_sign_negative() { b"-" } else { b"" };
    if !number.is_finite() {
        out.extend_from_slice(sign);
        out.extend_from_slice(if number.is_nan() { b"nan" } else { b"inf" });
        return;
    }
    let is_short = number.abs() < 10_f64.powi(precision.min(15) as i32);
    if is_short && number == number.trunc() && (number != 0.0 || sign.is_empty()) {
        write!(out, "{}", number as i64).expect("a vector grows");
        return;
    }
    // "1.2345e-7", with all digits.
    let text = format!("{:.*e}", precision - 1, number.abs());
    let (mantissa, exponent) = text.split_once('e').expect("it has an exponent");
    let exponent: i32 = exponent.parse().expect("a number");
    let digits: Vec<u8> = mantissa.bytes().filter(u8::is_ascii_digit).collect();
    let len = digits.iter().rposition(|digit| *digit != b'0').map_or(1, |last| last + 1);
    let digits = &digits[..len];
    out.extend_from_slice(sign);
    if exponent < -4 || exponent >= precision as i32 {
        append_with_point(out, digits, 1);
        let sign = if exponent < 0 { '-' } else { '+' };
        write!(out, "e{sign}{:02}", exponent.abs()).expect("a vector grows");
    } else if exponent < 0 {
        out.extend_from_slice(b"0.");
        out.resize(out.len() + (-exponent) as usize - 1, b'0');
        out.extend_from_slice(digits);
    } else {
        append_with_point(out, digits, exponent as usize + 1);
    }
}

/// Appends `digits` with `whole` of them before the point.
fn append_with_point(out: &mut Vec<u8>, digits: &[u8], whole: usize) {
    if digits.len() <= whole {
        out.extend_from_slice(digits);
        out.resize(out.len() + whole - digits.len(), b'0');
    } else {
        out.extend_from_slice(&digits[..whole]);
        out.push(b'.');
        out.extend_from_slice(&digits[whole..]);
    }
}

/// The number that `text` begins with and its length, as `strtod` reads it; `None` if there is none.
pub(super) fn parse_prefix(text: &[u8]) -> Option<(f64, usize)> {
    let sign = usize::from(matches!(text.first(), Some(b'+' | b'-')));
    let rest = &text[sign..];
    let (number, len) =
        parse_word(rest).or_else(|| parse_hex(rest)).or_else(|| parse_decimal(rest))?;
    let number = if text[0] == b'-' { -number } else { number };
    Some((number, sign + len))
}

fn starts_with(text: &[u8], word: &[u8]) -> bool {
    text.get(..word.len()).is_some_and(|start| start.eq_ignore_ascii_case(word))
}

fn parse_word(text: &[u8]) -> Option<(f64, usize)> {
    if starts_with(text, b"infinity") {
        return Some((f64::INFINITY, 8));
    }
    if starts_with(text, b"inf") {
        return Some((f64::INFINITY, 3));
    }
    if !starts_with(text, b"nan") {
        return None;
    }
    let nan = f64::from_bits(0x7ff8 << 48);
    if text.get(3) == Some(&b'(') {
        let inside = count(&text[4..], |byte| byte.is_ascii_alphanumeric() || byte == b'_');
        if text.get(4 + inside) == Some(&b')') {
            return Some((nan, 5 + inside));
        }
    }
    Some((nan, 3))
}

/// The number of bytes at the beginning that are as wanted.
fn count(text: &[u8], is_wanted: impl Fn(u8) -> bool) -> usize {
    text.iter().position(|byte| !is_wanted(*byte)).unwrap_or(text.len())
}

fn count_digits(text: &[u8]) -> usize {
    count(text, |byte| byte.is_ascii_digit())
}

/// The length of an exponent after `letter`, with it; 0 without a digit.
fn exponent_len(text: &[u8], letter: u8) -> usize {
    if !starts_with(text, &[letter]) {
        return 0;
    }
    let sign = usize::from(matches!(text.get(1), Some(b'+' | b'-')));
    match count_digits(&text[1 + sign..]) {
        0 => 0,
        digits => 1 + sign + digits,
    }
}

fn parse_decimal(text: &[u8]) -> Option<(f64, usize)> {
    let whole = count_digits(text);
    let mut len = whole;
    if text.get(len) == Some(&b'.') {
        let fraction = count_digits(&text[len + 1..]);
        if whole + fraction > 0 {
            len += 1 + fraction;
        }
    }
    if len == 0 {
        return None;
    }
    len += exponent_len(&text[len..], b'e');
    let number = std::str::from_utf8(&text[..len]).ok()?.parse().ok()?;
    Some((number, len))
}

fn parse_hex(text: &[u8]) -> Option<(f64, usize)> {
    if !starts_with(text, b"0x") {
        return None;
    }
    let (mut mantissa, mut exponent) = (0_u64, 0_i64);
    let (mut len, mut digits, mut point) = (2, 0, None);
    while let Some(byte) = text.get(len) {
        if *byte == b'.' && point.is_none() {
            point = Some(len);
        } else if let Some(digit) = char::from(*byte).to_digit(16) {
            if mantissa >> 60 == 0 {
                mantissa = mantissa << 4 | u64::from(digit);
                exponent -= if point.is_some() { 4 } else { 0 };
            } else {
                // Only whether the rest is zero matters.
                mantissa |= u64::from(digit != 0);
                exponent += if point.is_some() { 0 } else { 4 };
            }
            digits += 1;
        } else {
            break;
        }
        len += 1;
    }
    if digits == 0 {
        return None;
    }
    let power = exponent_len(&text[len..], b'p');
    if power > 0 {
        let digits = std::str::from_utf8(&text[len + 1..len + power]).ok()?;
        let negative = digits.starts_with('-');
        let most = if negative { i64::MIN / 2 } else { i64::MAX / 2 };
        exponent = exponent.saturating_add(digits.parse().unwrap_or(most));
    }
    Some((scale(mantissa, exponent), len + power))
}

/// `mantissa * 2^exponent`, rounded to the nearest number, half to even.
fn scale(mantissa: u64, exponent: i64) -> f64 {
    if mantissa == 0 {
        return 0.0;
    }
    let zeros = mantissa.leading_zeros();
    let mantissa = u128::from(mantissa << zeros);
    let exponent = exponent.saturating_sub(i64::from(zeros));
    // The power of the highest bit.
    let highest = exponent.saturating_add(63);
    if highest > 1023 {
        return f64::INFINITY;
    }
    if highest < -1075 {
        return 0.0;
    }
    // Below 2^-1022, a number has less than 53 bits.
    let kept = 53.min(53 + highest + 1022);
    let dropped = 64 - kept;
    let (mut quotient, rest) = (mantissa >> dropped, mantissa & ((1 << dropped) - 1));
    let half = 1_u128 << (dropped - 1);
    if rest > half || (rest == half && quotient & 1 == 1) {
        quotient += 1;
    }
    quotient as f64 * power_of_two(exponent + dropped)
}

/// `2^power`, for -1074 to 1023.
fn power_of_two(power: i64) -> f64 {
    if power >= -1022 {
        f64::from_bits(((power + 1023) as u64) << 52)
    } else {
        f64::from_bits(1 << (power + 1074))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn general(number: f64, precision: usize) -> String {
        let mut out = Vec::new();
        append_general(&mut out, number, precision);
        String::from_utf8(out).unwrap()
    }

    /// The texts are those of `printf` of the GNU C library.
    #[test]
    fn numbers_are_printed_as_by_c() {
        for (number, precision, text) in [
            (0.0, 14, "0"),
            (-0.0, 14, "-0"),
            (1.0, 14, "1"),
            (-17.0, 1, "-2e+01"),
            (95.0, 1, "1e+02"),
            (25.0, 1, "2e+01"),
            (3.25, 2, "3.2"),
            (9.99, 2, "10"),
            (0.1, 14, "0.1"),
            (0.1, 17, "0.10000000000000001"),
            (1.0 / 3.0, 14, "0.33333333333333"),
            (0.0001, 14, "0.0001"),
            (0.00001, 14, "1e-05"),
            (1e14, 14, "1e+14"),
            (99_999_999_999_999.0, 14, "99999999999999"),
            (99_999_999_999_999.9, 14, "1e+14"),
            (1e15, 14, "1e+15"),
            (123_456_789_012_345_680.0, 14, "1.2345678901235e+17"),
            (1e300, 14, "1e+300"),
            (5e-324, 14, "4.9406564584125e-324"),
            (1234.5, 3, "1.23e+03"),
            (f64::INFINITY, 14, "inf"),
            (-f64::INFINITY, 14, "-inf"),
        ] {
            assert_eq!(general(number, precision), text, "{number} {precision}");
        }
    }

    /// The results are those of `strtod` of the GNU C library.
    #[test]
    fn numbers_are_read_as_by_c() {
        for (text, number, len) in [
            ("12", 12.0, 2),
            ("-0.5e1x", -5.0, 6),
            ("1e", 1.0, 1),
            ("1e+", 1.0, 1),
            ("1.e2", 100.0, 4),
            ("-.5", -0.5, 3),
            ("1e999", f64::INFINITY, 5),
            ("1e-99999999999999999999", 0.0, 23),
            ("0x", 0.0, 1),
            ("0x.", 0.0, 1),
            ("0x1F", 31.0, 4),
            ("0x1.8p1", 3.0, 7),
            ("0x1p", 1.0, 3),
            ("0x1p-1074", 5e-324, 9),
            ("0x1p-1075", 0.0, 9),
            ("0x1.00000000000000000000000001p-1075", 5e-324, 36),
            ("0x1p1024", f64::INFINITY, 8),
            ("0x1p99999999999999999999", f64::INFINITY, 24),
            ("0x1fffffffffffff8", 144_115_188_075_855_870.0, 17),
            ("0x3fffffffffffff8", 288_230_376_151_711_740.0, 17),
            ("0x1000000000000080000000", 19_342_813_113_834_067e9, 24),
            ("0x0.0000000000000000001", 1.323_488_980_084_844_3e-23, 23),
            ("Infinity", f64::INFINITY, 8),
            ("-infinit", -f64::INFINITY, 4),
        ] {
            assert_eq!(parse_prefix(text.as_bytes()), Some((number, len)), "{text}");
        }
        for text in ["", "-", "+", ".", "-.", "e5", "in", "na", "x"] {
            assert_eq!(parse_prefix(text.as_bytes()), None, "{text}");
        }
        for (text, len) in [("nan", 3), ("NaN(a_1)2", 8), ("nan(-)", 3), ("-nan(", 4)] {
            let (number, used) = parse_prefix(text.as_bytes()).unwrap();
            assert!(number.is_nan() && used == len, "{text}");
            assert_eq!(number.is_sign_negative(), text.starts_with('-'), "{text}");
        }
    }

    #[test]
    fn conversions_are_those_of_x86() {
        assert_eq!(to_i64(f64::NAN), i64::MIN);
        assert_eq!(to_i64(TWO_63), i64::MIN);
        assert_eq!(to_i64(-2.9), -2);
        assert_eq!(to_u64(TWO_63), 1 << 63);
        assert_eq!(to_u64(-1.0), u64::MAX);
        assert_eq!(to_u64(f64::INFINITY), 0);
        assert_eq!(to_u64(f64::NAN), 1 << 63);
        assert_eq!(to_i32(2_147_483_648.0), i32::MIN);
        assert_eq!(to_i32(-2_147_483_648.5), i32::MIN);
    }
}

//! Strict parsing of numbers in the forms that clients send.
//!
//! The protocol has only strings. Which strings count as numbers is visible behaviour: `INCR` on
//! `" 7"`, `"+7"` or `"07"` is an error, and a value is stored as an integer only if formatting it
//! gives the same bytes. Every function here takes bytes, needs no UTF-8, never allocates and never
//! panics.
//!
//! | function | for | accepts |
//! |---|---|---|
//! | [`parse_i64`] | values, counts, indexes, times | canonical decimals only |
//! | [`parse_u64`] | the same, without a sign | canonical decimals only |
//! | [`parse_u64_loose`] | halves of stream ids | also blanks, signs, leading zeros |
//! | [`parse_f64`] | scores, coordinates | decimals, exponents, infinities |
//! | [`parse_f64_bound`] | the ends of score ranges | the same, more leniently |
//! | [`parse_memory`] | configuration | digits and a unit |
//!
//! The 80-bit numbers of `INCRBYFLOAT` are in [`crate::long_double`].

/// A canonical decimal integer: an optional `-`, no leading zeros, no `-0`, nothing else.
///
/// `parse_i64(s)` is `Some(n)` exactly if `n` written in decimal is `s`.
pub fn parse_i64(bytes: &[u8]) -> Option<i64> {
    match bytes {
        [b'-', digits @ ..] => match parse_u64(digits)? {
            0 => None,
            magnitude => 0i64.checked_sub_unsigned(magnitude),
        },
        digits => i64::try_from(parse_u64(digits)?).ok(),
    }
}

/// A canonical decimal integer without a sign: no leading zeros, nothing but digits.
pub fn parse_u64(bytes: &[u8]) -> Option<u64> {
    match bytes {
        [b'0'] => Some(0),
        [b'1'..=b'9', ..] => digits_to_u64(bytes),
        _ => None,
    }
}

/// The value of decimal digits; `None` for no digits, other bytes, or more than 64 bits.
fn digits_to_u64(bytes: &[u8]) -> Option<u64> {
    if bytes.is_empty() {
        return None;
    }
    bytes.iter().try_fold(0u64, |value, byte| {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        value.checked_mul(10)?.checked_add(u64::from(digit))
    })
}

/// An unsigned integer as C's `strtoull` reads it, which Redis and Valkey use for both halves of a
/// stream id: blanks before it, a sign, leading zeros. A canonical negative number is refused; any
/// other negative wraps around.
pub fn parse_u64_loose(bytes: &[u8]) -> Option<u64> {
    if let Some(canonical) = parse_i64(bytes) {
        return u64::try_from(canonical).ok();
    }
    // A C string ends at its first NUL.
    let end = bytes.iter().position(|&b| b == 0).unwrap_or(bytes.len());
    let blanks = bytes[..end].iter().take_while(|&&b| is_c_space(b)).count();
    match &bytes[blanks..end] {
        [b'-', digits @ ..] => digits_to_u64(digits).map(u64::wrapping_neg),
        [b'+', digits @ ..] => digits_to_u64(digits),
        digits => digits_to_u64(digits),
    }
}

/// A double: decimal digits with an optional sign, point and exponent, or `inf` or
/// `infinity` in any case.
///
/// `None` for anything else, in particular for blanks, hexadecimal, NaN, and for
/// numbers so large or so small that only infinity or zero would be left of them.
pub fn parse_f64(bytes: &[u8]) -> Option<f64> {
    let value = read_f64(bytes)?;
    let lost = match value {
        _ if value.is_nan() => true,
        _ if value.is_infinite() => !names_infinity(bytes),
        _ => value == 0.0 && has_nonzero_mantissa(bytes),
    };
    (!lost).then_some(value)
}

/// A double as the end of a score range, as in `ZRANGEBYSCORE` after any `(`.
///
/// The same grammar as [`parse_f64`], but out of range means infinity or zero, the empty text means
/// zero, and bytes after a NUL are ignored. NaN is `None`.
pub fn parse_f64_bound(bytes: &[u8]) -> Option<f64> {
    let end = bytes.iter().position(|&b| b == 0).unwrap_or(bytes.len());
    if end == 0 {
        return Some(0.0);
    }
    read_f64(&bytes[..end]).filter(|value| !value.is_nan())
}

/// The standard library has the right grammar; only the bytes must become text.
fn read_f64(bytes: &[u8]) -> Option<f64> {
    read_short_decimal(bytes).or_else(|| std::str::from_utf8(bytes).ok()?.parse().ok())
}

/// A decimal of up to 15 digits without sign and exponent, as most scores are; `None` for others.
/// Number and power of ten are exact, so their quotient is correctly rounded (Clinger, "How to Read
/// Floating Point Numbers Accurately", PLDI 1990).
#[inline]
fn read_short_decimal(bytes: &[u8]) -> Option<f64> {
    const POWERS: [f64; 16] =
        [1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15];
    if bytes.len() > 15 {
        return None;
    }
    let mut number = 0u64;
    let mut point = None;
    for (at, byte) in bytes.iter().enumerate() {
        match byte {
            b'0'..=b'9' => number = 10 * number + u64::from(byte - b'0'),
            b'.' if point.is_none() => point = Some(at),
            _ => return None,
        }
    }
    let places = point.map_or(0, |at| bytes.len() - at - 1);
    let has_digits = bytes.len() > usize::from(point.is_some());
    has_digits.then(|| number as f64 / POWERS[places])
}

fn names_infinity(bytes: &[u8]) -> bool {
    bytes.iter().any(|b| b.eq_ignore_ascii_case(&b'i'))
}

fn has_nonzero_mantissa(bytes: &[u8]) -> bool {
    bytes.iter().take_while(|b| !b.eq_ignore_ascii_case(&b'e')).any(|b| matches!(b, b'1'..=b'9'))
}

/// An amount of memory: digits and a unit in any case. `k`, `m`, `g` are powers of
/// 1000, `kb`, `mb`, `gb` powers of 1024, `b` and no unit are bytes.
///
/// No digits mean 0, as in Valkey (`maxmemory ""`). Signs, blanks, other units, and amounts beyond
/// 64 bits are `None`.
pub fn parse_memory(bytes: &[u8]) -> Option<u64> {
    let digits = bytes.iter().take_while(|b| b.is_ascii_digit()).count();
    let (digits, unit) = bytes.split_at(digits);
    let amount = if digits.is_empty() { 0 } else { digits_to_u64(digits)? };
    const UNITS: [(&[u8], u64); 8] = [
        (b"", 1),
        (b"b", 1),
        (b"k", 1_000),
        (b"kb", 1 << 10),
        (b"m", 1_000_000),
        (b"mb", 1 << 20),
        (b"g", 1_000_000_000),
        (b"gb", 1 << 30),
    ];
    let (_, factor) = UNITS.iter().find(|(name, _)| unit.eq_ignore_ascii_case(name))?;
    amount.checked_mul(*factor)
}

/// White space of C's `isspace`; Rust's ASCII notion lacks the vertical tab.
pub(crate) fn is_c_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | 0x0b | 0x0c | b'\r')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_decimals_parse_like_long_ones() {
        let mut rng = crate::rng::Rng::new(1);
        for _ in 0..200_000 {
            let digits = 1 + rng.next_u64() % 15;
            let mut text = (rng.next_u64() % 10u64.pow(digits as u32)).to_string();
            if !rng.next_u64().is_multiple_of(8) {
                text.insert((rng.next_u64() % (text.len() as u64 + 1)) as usize, '.');
            }
            if let Some(value) = read_short_decimal(text.as_bytes()) {
                assert_eq!(value.to_bits(), text.parse::<f64>().unwrap().to_bits(), "{text}");
            } else {
                assert!(text.len() > 15, "{text}");
            }
        }
        for text in ["", ".", "1.2.3", "-1", "1e3", "1 ", "inf"] {
            assert_eq!(read_short_decimal(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn integers_are_canonical() {
        for n in [0, 1, -1, 9, 10, -10, i64::MAX, i64::MIN, i64::MAX - 1, i64::MIN + 1] {
            assert_eq!(parse_i64(n.to_string().as_bytes()), Some(n));
        }
        for n in [0, 1, 10, u64::MAX] {
            assert_eq!(parse_u64(n.to_string().as_bytes()), Some(n));
        }
        for text in [
            "",
            "-",
            "+1",
            "01",
            "-0",
            "-01",
            " 1",
            "1 ",
            "1.0",
            "0x1",
            "1e3",
            "--1",
            "a",
            "1a",
            "9223372036854775808",
            "-9223372036854775809",
            "99999999999999999999",
            "1\0",
            "00",
        ] {
            assert_eq!(parse_i64(text.as_bytes()), None, "{text}");
        }
        for text in ["", "-1", "+1", "01", "18446744073709551616", "1_0", "/", ":"] {
            assert_eq!(parse_u64(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn loose_integers() {
        for (text, n) in [
            ("7", 7),
            (" 7", 7),
            ("\x0b+8", 8),
            ("007", 7),
            ("18446744073709551615", u64::MAX),
            (" -1", u64::MAX),
            ("-0", 0),
            ("00\0x", 0),
        ] {
            assert_eq!(parse_u64_loose(text.as_bytes()), Some(n), "{text}");
        }
        for text in ["", " ", "-", "+", "-1", "7 ", "18446744073709551616", "+-1", "0x1"] {
            assert_eq!(parse_u64_loose(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn doubles() {
        for (text, value) in [
            ("1", 1.0),
            ("+5", 5.0),
            ("-5", -5.0),
            (".5", 0.5),
            ("5.", 5.0),
            ("+.5e-3", 0.0005),
            ("1E5", 100_000.0),
            ("inf", f64::INFINITY),
            ("+Infinity", f64::INFINITY),
            ("-INF", f64::NEG_INFINITY),
            ("1e-320", 1e-320),
            ("0e5000", 0.0),
            ("0.0000", 0.0),
        ] {
            assert_eq!(parse_f64(text.as_bytes()), Some(value), "{text}");
        }
        assert!(parse_f64(b"-0").is_some_and(|zero| zero.is_sign_negative()));
        for text in [
            "", "+", ".", "e5", "1e", "1e+", " 1", "1 ", "\t1", "1\0", "nan", "-NaN", "nan(1)",
            "infin", "0x10", "1_0", "1d", "--1", "1e400", "-1e400", "1e-400", "0.1e-500",
        ] {
            assert_eq!(parse_f64(text.as_bytes()), None, "{text}");
        }
        assert_eq!(parse_f64(&[0xff]), None);
    }

    #[test]
    fn range_bounds_are_parsed_leniently() {
        for (text, value) in [
            ("1e400", f64::INFINITY),
            ("-1e400", f64::NEG_INFINITY),
            ("1e-400", 0.0),
            ("", 0.0),
            ("\0", 0.0),
            ("1\0junk", 1.0),
        ] {
            assert_eq!(parse_f64_bound(text.as_bytes()), Some(value), "{text:?}");
        }
        for text in ["nan", " 1", "1 ", "0x1", "("] {
            assert_eq!(parse_f64_bound(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn memory() {
        for (text, bytes) in [
            ("0", 0),
            ("", 0),
            ("mb", 0),
            ("1b", 1),
            ("1k", 1_000),
            ("1KB", 1_024),
            ("2m", 2_000_000),
            ("2Mb", 2 << 20),
            ("1g", 1_000_000_000),
            ("1gB", 1 << 30),
            ("010", 10),
            ("18446744073709551615", u64::MAX),
        ] {
            assert_eq!(parse_memory(text.as_bytes()), Some(bytes), "{text}");
        }
        for text in [
            "-1",
            "+1",
            " 1",
            "1 mb",
            "1tb",
            "1.5g",
            "0x10",
            "18446744073709551616",
            "99999999999g",
            "1kbb",
        ] {
            assert_eq!(parse_memory(text.as_bytes()), None, "{text}");
        }
    }
}

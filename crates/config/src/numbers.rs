//! Numbers as configuration files write them.
//!
//! Plain integers are strict: an optional minus sign and decimal digits without
//! leading zeros, so that `010`, `+1` and `-0` are refused instead of guessed
//! at. Amounts of memory are digits with a unit; `k`, `m` and `g` are powers of
//! 1000, `kb`, `mb` and `gb` powers of 1024.

/// A strict decimal integer, or `None` when `text` is not one or does not fit.
pub fn integer(text: &[u8]) -> Option<i64> {
    let digits = text.strip_prefix(b"-").unwrap_or(text);
    let canonical = match digits {
        b"0" => digits.len() == text.len(),
        [b'1'..=b'9', rest @ ..] => rest.iter().all(u8::is_ascii_digit),
        _ => false,
    };
    if !canonical {
        return None;
    }
    std::str::from_utf8(text).ok()?.parse().ok()
}

/// An amount of memory in bytes, or `None` when `text` is not one.
///
/// The empty string counts as 0, which existing tools use to reset a limit. A
/// unit without digits and a product over 2^64 are refused.
pub fn memory(text: &[u8]) -> Option<u64> {
    if text.is_empty() {
        return Some(0);
    }
    let end = text.iter().position(|byte| !byte.is_ascii_digit());
    let (digits, unit) = text.split_at(end.unwrap_or(text.len()));
    let factor: u64 = match unit.to_ascii_lowercase().as_slice() {
        b"" | b"b" => 1,
        b"k" => 1000,
        b"kb" => 1 << 10,
        b"m" => 1000 * 1000,
        b"mb" => 1 << 20,
        b"g" => 1000 * 1000 * 1000,
        b"gb" => 1 << 30,
        _ => return None,
    };
    let number: u64 = std::str::from_utf8(digits).ok()?.parse().ok()?;
    number.checked_mul(factor)
}

/// `bytes` with the largest unit that divides it: 1048576 is `1mb`.
pub fn format_memory(bytes: u64) -> String {
    for (shift, unit) in [(30, "gb"), (20, "mb"), (10, "kb")] {
        if bytes != 0 && bytes.trailing_zeros() >= shift {
            return format!("{}{unit}", bytes >> shift);
        }
    }
    bytes.to_string()
}

/// An octal number with an optional sign, or `None`. As for memory, the empty
/// string is 0.
pub fn octal(text: &[u8]) -> Option<i64> {
    if text.is_empty() {
        return Some(0);
    }
    i64::from_str_radix(std::str::from_utf8(text).ok()?, 8).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_are_strict() {
        for (text, value) in [
            ("0", 0),
            ("7", 7),
            ("-1", -1),
            ("9223372036854775807", i64::MAX),
            ("-9223372036854775808", i64::MIN),
        ] {
            assert_eq!(integer(text.as_bytes()), Some(value), "{text}");
        }
        for text in
            ["", "-", "-0", "+1", "01", " 1", "1 ", "1x", "0x1", "1.0", "9223372036854775808"]
        {
            assert_eq!(integer(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn memory_has_units() {
        for (text, value) in [
            ("", 0),
            ("0", 0),
            ("100", 100),
            ("5B", 5),
            ("1k", 1000),
            ("1Kb", 1024),
            ("3m", 3_000_000),
            ("100mb", 104_857_600),
            ("2g", 2_000_000_000),
            ("2GB", 2_147_483_648),
            ("18446744073709551615", u64::MAX),
        ] {
            assert_eq!(memory(text.as_bytes()), Some(value), "{text}");
        }
        for text in
            ["-1", "gb", "1.5gb", "1t", " 1", "1 gb", "x", "18446744073709551616", "99999999999gb"]
        {
            assert_eq!(memory(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn octal_numbers() {
        assert_eq!(octal(b"755"), Some(0o755));
        assert_eq!(octal(b""), Some(0));
        assert_eq!((octal(b"8"), octal(b"7x"), octal(b"0o7")), (None, None, None));
    }

    #[test]
    fn memory_reads_what_it_writes() {
        for bytes in [0, 1, 1000, 1024, 1025, 1 << 20, 3 << 30, u64::MAX] {
            assert_eq!(memory(format_memory(bytes).as_bytes()), Some(bytes));
        }
        assert_eq!(format_memory(256 << 20), "256mb");
        assert_eq!(format_memory(1500), "1500");
    }
}

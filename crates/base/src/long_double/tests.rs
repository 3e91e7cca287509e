//! Results recorded from Valkey on x86-64, and properties that need no recordings.

use super::*;
use crate::rng::Rng;

fn sum(a: &str, b: &str) -> Result<String, FloatError> {
    add_and_format_long_double(a.as_bytes(), b.as_bytes())
        .map(|text| String::from_utf8(text).unwrap())
}

fn shown(text: &str) -> Option<String> {
    LongDouble::parse(text.as_bytes())?.format().map(|text| String::from_utf8(text).unwrap())
}

#[test]
fn ordinary_sums() {
    for (a, b, expected) in [
        ("10.50", "0.1", "10.6"),
        ("5.0e3", "2.0e2", "5200"),
        ("3", "-3", "0"),
        ("1", "-0.1", "0.9"),
        ("0.1", "0.2", "0.3"),
        ("-1.5", "0.25", "-1.25"),
        ("3.0000000000000000001", "0", "3"),
        ("0", "-0", "0"),
        ("-0", "-0", "0"),
        ("0", "-1e-30", "0"),
        ("18446744073709551615", "1", "18446744073709551616"),
        ("18446744073709551617", "0", "18446744073709551616"),
        ("9e18", "0.5", "9000000000000000000.5"),
        ("1e19", "0.5", "10000000000000000000"),
        ("1e22", "-1", "10000000000000000000000"),
    ] {
        assert_eq!(sum(a, b).as_deref(), Ok(expected), "{a} + {b}");
    }
}

#[test]
fn valid_texts_are_numbers() {
    for (text, value) in [
        ("+5", "5"),
        (".5", "0.5"),
        ("5.", "5"),
        ("+.5e-3", "0.0005"),
        ("00012", "12"),
        ("0e5000", "0"),
        ("-0.000e-99999999999999999999", "0"),
        ("0x10", "16"),
        ("0X1.8", "1.5"),
        ("0x1p3", "8"),
        ("0x.8P+1", "1"),
        ("0x0p99999", "0"),
        ("1e-400", "0"),
        ("3e-4951", "0"),
    ] {
        assert_eq!(shown(text).as_deref(), Some(value), "{text}");
    }
    for text in [
        "",
        "+",
        "-",
        ".",
        "e5",
        "1e",
        "1e+",
        " 1",
        "1 ",
        "\t1",
        "\u{b}1",
        "1\0",
        "nan",
        "NaN",
        "-nan(1)",
        "infin",
        "--1",
        "+-1",
        "1_0",
        "1d",
        "0b1",
        "0x",
        "0x.",
        "0x1p",
        "0x1g",
        "x1",
        "1.2.3",
        "1e5000",
        "1e99999999999999999999",
        "1e-5000",
        "1.8e-4951",
        "0x1p99999",
        "0x1p-99999",
    ] {
        assert_eq!(LongDouble::parse(text.as_bytes()), None, "{text:?}");
    }
    for text in ["inf", "-INF", "+Infinity"] {
        assert!(LongDouble::parse(text.as_bytes()).is_some_and(|n| !n.is_finite()));
        assert_eq!(sum(text, "1"), Err(FloatError::NanOrInfinity));
    }
    assert_eq!(sum("inf", "-inf"), Err(FloatError::NanOrInfinity));
    assert_eq!(sum("x", "1"), Err(FloatError::NotAFloat));
    assert_eq!(sum("1", "x"), Err(FloatError::NotAFloat));
}

#[test]
fn length_limit() {
    let digits = |length: usize| format!("0.{}", "1".repeat(length - 2));
    assert_eq!(shown(&digits(MAX_TEXT - 1)).as_deref(), Some("0.11111111111111111"));
    assert_eq!(shown(&digits(MAX_TEXT)), None);
}

#[test]
fn limits_of_the_range() {
    let largest = "1.18973149535723176502e4932";
    let printed = shown(largest).unwrap();
    assert_eq!(printed.len(), 4_933);
    assert!(printed.starts_with("11897314953572317650212638530309702051690633222946"));
    // The digits are exact, so parsing them gives the same number again.
    assert_eq!(LongDouble::parse(printed.as_bytes()), LongDouble::parse(largest.as_bytes()));
    assert_eq!(LongDouble::parse(b"1.18973149535723176506e+4932"), None);
    assert_eq!(sum(largest, largest), Err(FloatError::NanOrInfinity));
    assert_eq!(sum(largest, "1"), Ok(printed));

    // The smallest subnormal number, as hexadecimal writes it, and half of it.
    let tiny = LongDouble::parse(b"0x1p-16445").unwrap();
    assert_eq!(tiny.kind, Kind::Finite { significand: 1, exponent: MIN_EXPONENT });
    assert_eq!(LongDouble::parse(b"0x1p-16446"), None, "a tie goes to even, to zero");
    assert_eq!(LongDouble::parse(b"0x1.8p-16446"), Some(tiny));
    assert_eq!(LongDouble::parse(b"3.6451995318824746025e-4951"), Some(tiny));
    let twice = tiny.add(tiny);
    assert_eq!(twice, LongDouble::parse(b"0x1p-16444").unwrap());
}

#[test]
fn rounding_is_to_nearest_even() {
    // 2^64 + 1 and 2^64 + 3 lie halfway between representable neighbours.
    for (text, expected) in [
        ("18446744073709551617", "18446744073709551616"),
        ("18446744073709551618", "18446744073709551618"),
        ("18446744073709551619", "18446744073709551620"),
        ("18446744073709551617.00000000000000000000001", "18446744073709551618"),
        ("0x10000000000000001", "18446744073709551616"),
        ("0x10000000000000001.0000000000000000000000000000000001", "18446744073709551618"),
    ] {
        assert_eq!(shown(text).as_deref(), Some(expected), "{text}");
    }
    // Adding one half of the last place, and a little more, to an even and an odd number.
    let even = "9223372036854775808";
    let odd = "9223372036854775809";
    assert_eq!(sum(even, "0.5").unwrap(), even);
    assert_eq!(sum(odd, "0.5").unwrap(), "9223372036854775810");
    assert_eq!(sum(even, "0x1.0000000000000002p-1").unwrap(), odd);
    assert_eq!(sum(odd, "-0.5").unwrap(), even);
    assert_eq!(sum("0x8000000000000001", "-0x1p-90").unwrap(), odd);
    assert_eq!(sum("18446744073709551616", "-0.25").unwrap(), "18446744073709551616");
}

/// The fast paths and the general ones must agree where both apply.
#[test]
fn fast_and_general_parsing_agree() {
    let mut rng = Rng::new(3);
    for _ in 0..20_000 {
        let integer = rng.next_u64() >> rng.below(64);
        let places = rng.below(18) as usize;
        let digits = format!("{:0width$}", integer.max(1), width = places + 1);
        let (whole, fraction) = digits.split_at(digits.len() - places);
        let text = format!("{whole}.{fraction}");
        // A digit far to the right keeps the value but forces the general path. It breaks ties, but
        // only numbers of more than 64 bits can be ties.
        let general = format!("{text}{}e0", "0".repeat(30));
        let with_tail = format!("{text}{}1", "0".repeat(60));
        assert_eq!(LongDouble::parse(text.as_bytes()), LongDouble::parse(general.as_bytes()));
        assert_eq!(
            LongDouble::parse(text.as_bytes()),
            LongDouble::parse(with_tail.as_bytes()),
            "{text}"
        );
    }
}

/// Printed numbers have 17 decimals, so numbers on that grid survive a round trip. Addition
/// commutes.
#[test]
fn printing_round_trips_and_addition_commutes() {
    let mut rng = Rng::new(4);
    for _ in 0..20_000 {
        let mut number = || {
            let exponent = rng.below(80) as i32 - 46;
            let text = format!("{}e{exponent}", rng.next_u64() as i64 >> rng.below(60));
            (LongDouble::parse(text.as_bytes()).unwrap(), text)
        };
        let ((a, a_text), (b, b_text)) = (number(), number());
        assert_eq!(a.add(b), b.add(a), "{a_text} + {b_text}");
        let printed = a.add(b).format().unwrap();
        let again = LongDouble::parse(&printed).unwrap();
        assert_eq!(again.format().unwrap(), printed, "{a_text} + {b_text}");
    }
}

#[test]
fn invalid_input_never_panics() {
    let alphabet = b"0123456789.eExXpPabf+-infyNA \0";
    let mut rng = Rng::new(5);
    for _ in 0..100_000 {
        let length = rng.below(12);
        let text: Vec<u8> =
            (0..length).map(|_| alphabet[rng.below(alphabet.len() as u64) as usize]).collect();
        if let Some(number) = LongDouble::parse(&text) {
            assert_eq!(number.format().is_some(), number.is_finite(), "{text:?}");
        }
    }
}

//! Scores as packed entries: the text that replies contain, encoded as an integer if the score is
//! one.
//!
//! Only the sign of negative zero is lost, as in Valkey: the text of every other score parses to
//! the same double.

use crate::packed::{Encoded, Value};
use weft_base::num::parse_f64_bound;
use weft_base::num_format::fmt_f64;

/// Integers up to this one are stored as integers.
const LARGEST_INT: f64 = (1u64 << 62) as f64;

/// A score in the form of an entry.
#[derive(Clone, Debug)]
pub(super) enum Score {
    Int(i64),
    Text(Vec<u8>),
}

impl Score {
    pub(super) fn of(score: f64) -> Self {
        let int = score as i64;
        match score.abs() <= LARGEST_INT && int as f64 == score {
            true => Score::Int(int),
            false => Score::Text(fmt_f64(score)),
        }
    }

    pub(super) fn encoded(&self) -> Encoded<'_> {
        match self {
            Score::Int(n) => Encoded::of_int(*n),
            Score::Text(text) => Encoded::of(text),
        }
    }
}

/// The score of an entry. Entries without a number never occur; they would read as 0.
#[inline]
pub(super) fn read(entry: Value<'_>) -> f64 {
    match entry {
        Value::Int(n) => n as f64,
        Value::Bytes(text) => parse_f64_bound(text).unwrap_or(0.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packed::{Entries, OneWay};

    fn entry(score: f64) -> Vec<u8> {
        let score = Score::of(score);
        let encoded = score.encoded();
        let mut bytes = vec![0; encoded.len::<OneWay>()];
        encoded.write::<OneWay>(&mut bytes);
        bytes
    }

    fn value(entry: &[u8]) -> Value<'_> {
        Entries::<OneWay>::new(entry).get(0)
    }

    #[test]
    fn scores_round_trip() {
        let big = (1u64 << 62) as f64;
        for score in [
            0.0,
            1.0,
            -1.0,
            0.1,
            -2.5,
            1e300,
            5e-324,
            big,
            -big,
            2.0 * big,
            -2.0 * big,
            1e23,
            f64::MAX,
            f64::INFINITY,
            f64::NEG_INFINITY,
            3.0000000000000004,
        ] {
            assert_eq!(read(value(&entry(score))), score);
        }
        assert!(read(value(&entry(-0.0))).is_sign_positive());
    }

    #[test]
    fn integers_are_encoded_as_integers() {
        assert_eq!(entry(5.0), [5]);
        assert_eq!(entry(-1.0), [0xdf, 0xff]);
        assert_eq!(entry(1.5), b"\x831.5");
        // The text of a larger one may be that of another integer, but parses to the same score.
        let large = ((1u64 << 62) + 1024) as f64;
        assert_eq!(value(&entry(large)), Value::Int(4_611_686_018_427_389_000));
        assert_eq!(read(value(&entry(large))), large);
        assert_eq!(value(&entry(5e18)), Value::Bytes(b"5e+18"));
    }
}

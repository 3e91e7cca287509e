//! Estimates the number of elements from the registers.
//!
//! The estimator is the "improved raw" one of Otmar Ertl, "New cardinality estimation algorithms
//! for HyperLogLog sketches" (2017, arXiv:1702.01284, section 4). It uses only the number of
//! registers of each value, corrects for registers that are zero ([`sigma`]) and full ([`tau`]),
//! and needs neither tables nor a switch between formulas. The order of the operations affects the
//! last digit, which clients compare: the sum runs from the highest value down.

use super::hash::RANK_BITS;
use weft_base::sixbit::REGISTERS;

/// The number of registers of each value. Six bits hold more values than hashes can produce.
pub type Histogram = [u32; 64];

/// The limit of the bias correction for many registers, 1 / (2 ln 2), in Valkey's digits.
const ALPHA: f64 = 0.721_347_520_444_481_7;

/// The estimate, rounded. An infinite or too large estimate becomes `i64::MIN`, as the conversion
/// to a signed integer gives on the processors that Valkey runs on.
pub fn cardinality(histogram: &Histogram) -> u64 {
    let m = REGISTERS as f64;
    let full = RANK_BITS as usize + 1;
    let mut sum = m * tau((m - f64::from(histogram[full])) / m);
    for of_value in histogram[1..full].iter().rev() {
        sum += f64::from(*of_value);
        sum *= 0.5;
    }
    sum += m * sigma(f64::from(histogram[0]) / m);
    let estimate = (ALPHA * m * m / sum).round();
    let fits = estimate.is_finite() && estimate < i64::MAX as f64;
    if fits { estimate as i64 as u64 } else { i64::MIN as u64 }
}

/// x + x^2 + 2x^4 + 4x^8 + ..., to the precision of a double.
fn sigma(x: f64) -> f64 {
    if x == 1.0 {
        return f64::INFINITY;
    }
    let (mut x, mut sum, mut factor) = (x, x, 1.0);
    loop {
        x *= x;
        let before = sum;
        sum += x * factor;
        factor += factor;
        if sum == before {
            return sum;
        }
    }
}

/// A third of 1 - x - (1-sqrt(x))^2/2 - (1-sqrt(sqrt(x)))^2/4 - ..., to the precision of a double.
fn tau(x: f64) -> f64 {
    if x == 0.0 || x == 1.0 {
        return 0.0;
    }
    let (mut x, mut sum, mut factor) = (x, 1.0 - x, 1.0);
    loop {
        x = x.sqrt();
        let before = sum;
        factor *= 0.5;
        sum -= (1.0 - x) * (1.0 - x) * factor;
        if sum == before {
            return sum / 3.0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn estimates_empty_and_saturated_registers() {
        let all = |value: usize| {
            let mut histogram = [0; 64];
            histogram[value] = REGISTERS as u32;
            cardinality(&histogram)
        };
        assert_eq!(all(0), 0);
        // Observed in Valkey: all registers 1, 32, and a value that no hash gives.
        assert_eq!((all(1), all(32)), (23_637, 50_760_319_129_350));
        assert_eq!(all(63), i64::MIN as u64);
    }
}

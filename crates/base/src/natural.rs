//! Natural numbers of any size, with just the operations that [`crate::long_double`]
//! needs to convert exactly: build from digits, scale, compare, subtract, print.
//!
//! Sizes stay small, some 550 limbs for the most extreme input that the protocol allows, and such
//! inputs are rare. So the schoolbook methods suffice. The one division that conversion needs
//! yields only 65 bits and is done bit by bit, which is both shorter and faster here than general
//! long division.

use std::cmp::Ordering;

/// The largest power of ten in a limb, and its exponent.
const CHUNK: u64 = 10u64.pow(CHUNK_DIGITS as u32);
const CHUNK_DIGITS: usize = 19;

/// A natural number: 64-bit limbs, least significant first, the last one not zero.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Natural {
    limbs: Vec<u64>,
}

impl Natural {
    pub(crate) fn from_u64(value: u64) -> Self {
        let limbs = if value == 0 { Vec::new() } else { vec![value] };
        Self { limbs }
    }

    /// From bytes that are all decimal digits. Quadratic in their number.
    pub(crate) fn from_decimal(digits: impl Iterator<Item = u8>) -> Self {
        let mut number = Self::from_u64(0);
        let (mut pending, mut scale) = (0u64, 1u64);
        for digit in digits {
            pending = pending * 10 + u64::from(digit - b'0');
            scale *= 10;
            if scale == CHUNK {
                number.mul_add(scale, pending);
                (pending, scale) = (0, 1);
            }
        }
        number.mul_add(scale, pending);
        number
    }

    pub(crate) fn is_zero(&self) -> bool {
        self.limbs.is_empty()
    }

    /// Position of the highest set bit plus one; 0 for zero.
    pub(crate) fn bits(&self) -> usize {
        match self.limbs.last() {
            Some(top) => self.limbs.len() * 64 - top.leading_zeros() as usize,
            None => 0,
        }
    }

    /// `self = self * factor + addend`.
    fn mul_add(&mut self, factor: u64, addend: u64) {
        let mut carry = addend;
        for limb in &mut self.limbs {
            let wide = u128::from(*limb) * u128::from(factor) + u128::from(carry);
            *limb = wide as u64;
            carry = (wide >> 64) as u64;
        }
        if carry != 0 {
            self.limbs.push(carry);
        }
    }

    /// `self *= 10^exponent`.
    pub(crate) fn mul_pow10(&mut self, exponent: usize) {
        for _ in 0..exponent / CHUNK_DIGITS {
            self.mul_add(CHUNK, 0);
        }
        self.mul_add(10u64.pow((exponent % CHUNK_DIGITS) as u32), 0);
    }

    /// `self <<= count`.
    pub(crate) fn shift_left(&mut self, count: usize) {
        if self.is_zero() {
            return;
        }
        self.mul_add(1 << (count % 64), 0);
        self.limbs.splice(0..0, std::iter::repeat_n(0, count / 64));
    }

    /// `self -= other`, which must not be larger.
    pub(crate) fn subtract(&mut self, other: &Self) {
        let mut borrow = false;
        for (index, limb) in self.limbs.iter_mut().enumerate() {
            let right = other.limbs.get(index).copied().unwrap_or(0);
            let (difference, under_a) = limb.overflowing_sub(right);
            let (difference, under_b) = difference.overflowing_sub(u64::from(borrow));
            *limb = difference;
            borrow = under_a || under_b;
        }
        debug_assert!(!borrow, "subtrahend was larger");
        while self.limbs.last() == Some(&0) {
            self.limbs.pop();
        }
    }

    /// The 128 bits from the highest set bit down, with that one at the top, and whether any lower
    /// bit is set. Zero gives zero.
    pub(crate) fn leading_bits(&self) -> (u128, bool) {
        let mut limbs = self.limbs.iter().rev().copied();
        let mut next = || limbs.next().unwrap_or(0);
        let (high, middle, low) = (next(), next(), next());
        let shift = high.leading_zeros() % 64;
        let top = u128::from(high) << 64 | u128::from(middle);
        let fill = u128::from(low) << shift >> 64;
        let beyond = (low << shift) != 0 || limbs.any(|limb| limb != 0);
        (top << shift | fill, beyond)
    }

    /// `self /= divisor`. Returns the remainder.
    fn divide_small(&mut self, divisor: u64) -> u64 {
        let mut remainder = 0u64;
        for limb in self.limbs.iter_mut().rev() {
            let wide = u128::from(remainder) << 64 | u128::from(*limb);
            *limb = (wide / u128::from(divisor)) as u64;
            remainder = (wide % u128::from(divisor)) as u64;
        }
        while self.limbs.last() == Some(&0) {
            self.limbs.pop();
        }
        remainder
    }

    /// Appends the decimal digits. Quadratic in their number.
    pub(crate) fn write_decimal(mut self, out: &mut Vec<u8>) {
        let mut chunks = Vec::with_capacity(self.limbs.len() + 1);
        loop {
            chunks.push(self.divide_small(CHUNK));
            if self.is_zero() {
                break;
            }
        }
        let highest = chunks.pop().unwrap_or(0);
        out.extend_from_slice(highest.to_string().as_bytes());
        for chunk in chunks.iter().rev() {
            out.extend_from_slice(format!("{chunk:019}").as_bytes());
        }
    }
}

impl Ord for Natural {
    fn cmp(&self, other: &Self) -> Ordering {
        let by_length = self.limbs.len().cmp(&other.limbs.len());
        by_length.then_with(|| self.limbs.iter().rev().cmp(other.limbs.iter().rev()))
    }
}

impl PartialOrd for Natural {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn natural(text: &str) -> Natural {
        Natural::from_decimal(text.bytes())
    }

    fn text(number: Natural) -> String {
        let mut out = Vec::new();
        number.write_decimal(&mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn digits_round_trip() {
        for digits in [
            "0",
            "7",
            "18446744073709551615",
            "18446744073709551616",
            "10000000000000000000",
            "340282366920938463463374607431768211456",
            "123456789012345678901234567890123456789012345678901234567890",
        ] {
            assert_eq!(text(natural(digits)), digits);
        }
        assert_eq!(text(natural("000123")), "123");
        assert!(natural("").is_zero());
    }

    #[test]
    fn scaling_and_subtracting() {
        let mut number = natural("12");
        number.mul_pow10(40);
        assert_eq!(text(number.clone()), format!("12{}", "0".repeat(40)));
        let mut one_less = number.clone();
        one_less.subtract(&natural("1"));
        assert_eq!(text(one_less.clone()), format!("11{}", "9".repeat(40)));
        assert!(one_less < number && number > natural("13"));
        number.subtract(&number.clone());
        assert!(number.is_zero());

        let mut power = natural("1");
        power.shift_left(130);
        assert_eq!(power.bits(), 131);
        assert_eq!(text(power), "1361129467683753853853498429727072845824");
        let mut zero = natural("0");
        zero.shift_left(700);
        assert_eq!(zero.bits(), 0);
    }

    #[test]
    fn leading_bits_report_omitted_bits() {
        assert_eq!(natural("0").leading_bits(), (0, false));
        assert_eq!(natural("1").leading_bits(), (1 << 127, false));
        let mut number = natural("3");
        number.shift_left(200);
        assert_eq!(number.leading_bits(), (3 << 126, false));
        number.mul_add(1, 1);
        assert_eq!(number.leading_bits(), (3 << 126, true));
        // 129 bits: the lowest one is omitted.
        let mut number = natural("340282366920938463463374607431768211455");
        number.mul_add(2, 1);
        assert_eq!(number.leading_bits(), (u128::MAX, true));
    }
}

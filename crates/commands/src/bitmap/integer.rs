//! Integers of any width at any bit of a string, and their overflow.
//!
//! An integer of up to 64 bits spans at most nine bytes. They are loaded into a 128-bit number,
//! shifted and masked, and written back. There is no loop over bits.

/// The format of an integer in a bit array: highest bit first, signed ones in two's complement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Integer {
    pub signed: bool,
    /// In bits: up to 64, or 63 if unsigned, so that an `i64` holds every value.
    pub width: u32,
}

/// The overflow policy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Overflow {
    /// Keeps the lowest bits.
    #[default]
    Wrap,
    /// Stores the largest or the smallest value.
    Saturate,
    /// Changes nothing.
    Fail,
}

/// The maximum number of bytes that an integer spans.
pub(super) const MAX_SPAN: usize = 9;

impl Integer {
    /// Parses a type such as `i16` or `u8`.
    pub fn parse(word: &[u8]) -> Option<Integer> {
        let (signed, most, width) = match word {
            [b'i', width @ ..] => (true, 64, width),
            [b'u', width @ ..] => (false, 63, width),
            _ => return None,
        };
        let width = weft_base::num::parse_i64(width).and_then(|n| u32::try_from(n).ok())?;
        (1..=most).contains(&width).then_some(Integer { signed, width })
    }

    fn mask(self) -> u64 {
        u64::MAX >> (64 - self.width)
    }

    /// The integer in these lowest bits.
    fn value(self, bits: u64) -> i64 {
        let unused = 64 - self.width;
        let high = bits << unused;
        if self.signed { high as i64 >> unused } else { (high >> unused) as i64 }
    }

    /// The distance of the lowest bit from the end of [`MAX_SPAN`] bytes padded to 16.
    fn shift(self, at: usize) -> u32 {
        u128::BITS - self.width - (at % 8) as u32
    }

    /// The integer at bit `at`. Bits beyond the end of `bytes` are zero.
    pub fn read(self, bytes: &[u8], at: usize) -> i64 {
        let from = bytes.get(at / 8..).unwrap_or_default();
        let from = &from[..from.len().min(MAX_SPAN)];
        let mut span = [0; size_of::<u128>()];
        span[..from.len()].copy_from_slice(from);
        self.value((u128::from_be_bytes(span) >> self.shift(at)) as u64 & self.mask())
    }

    /// Writes the lowest bits of `value` at bit `at`.
    ///
    /// # Panics
    ///
    /// If the integer does not fit into `bytes`.
    pub fn write(self, bytes: &mut [u8], at: usize, value: i64) {
        let touched = (at % 8 + self.width as usize).div_ceil(8);
        let bytes = &mut bytes[at / 8..][..touched];
        let mut span = [0; size_of::<u128>()];
        span[..touched].copy_from_slice(bytes);
        let (shift, mask) = (self.shift(at), u128::from(self.mask()));
        let kept = u128::from_be_bytes(span) & !(mask << shift);
        let written = kept | (value as u128 & mask) << shift;
        bytes.copy_from_slice(&written.to_be_bytes()[..touched]);
    }

    fn limits(self) -> (i128, i128) {
        match self.signed {
            true => (-1 << (self.width - 1), (1 << (self.width - 1)) - 1),
            false => (0, (1 << self.width) - 1),
        }
    }

    /// The sum of an integer and a number, adjusted by the overflow policy. `None` if it overflows
    /// and the policy is [`Overflow::Fail`].
    pub fn add(self, old: i64, increment: i64, overflow: Overflow) -> Option<i64> {
        self.fit(i128::from(old) + i128::from(increment), overflow)
    }

    /// `new` adjusted to this type by the overflow policy. `None` as for [`Integer::add`].
    pub fn convert(self, new: i64, overflow: Overflow) -> Option<i64> {
        let (_, largest) = self.limits();
        if !self.signed {
            // A negative number counts as the positive one of the same 64 bits.
            return self.fit(i128::from(new as u64), overflow);
        }
        // The distance to the largest value overflows an `i64`. The reference then treats the
        // number as too large.
        let far_below = self.width < 64 && largest - i128::from(new) > i128::from(i64::MAX);
        match overflow {
            Overflow::Saturate if far_below => Some(largest as i64),
            Overflow::Wrap | Overflow::Saturate | Overflow::Fail => {
                self.fit(i128::from(new), overflow)
            }
        }
    }

    fn fit(self, exact: i128, overflow: Overflow) -> Option<i64> {
        let (smallest, largest) = self.limits();
        if (smallest..=largest).contains(&exact) {
            return Some(exact as i64);
        }
        match overflow {
            Overflow::Wrap => Some(self.value(exact as u64 & self.mask())),
            Overflow::Saturate => Some(exact.clamp(smallest, largest) as i64),
            Overflow::Fail => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all() -> impl Iterator<Item = Integer> {
        let of = |signed| (1..=64).map(move |width| Integer { signed, width });
        of(true).chain(of(false)).filter(|i| i.signed || i.width < 64)
    }

    #[test]
    fn types_have_exact_names() {
        let of = |word: &str| Integer::parse(word.as_bytes()).map(|i| (i.signed, i.width));
        assert_eq!((of("i64"), of("u63")), (Some((true, 64)), Some((false, 63))));
        assert_eq!((of("i1"), of("u1")), (Some((true, 1)), Some((false, 1))));
        for word in ["", "i", "u", "i0", "i65", "u64", "U8", "i08", "i-1", "u 8", "8", "f8"] {
            assert_eq!(of(word), None, "{word}");
        }
    }

    /// Every width at every position in a byte: reads return the written value, and no other bit
    /// changes.
    #[test]
    fn reads_return_written_integers() {
        for integer in all() {
            for at in 0..24 {
                let end = (at + integer.width as usize).div_ceil(8);
                for around in [0, 0xff] {
                    for value in [0, 1, -1, i64::MAX, i64::MIN, 0x1234_5678_9abc_def0] {
                        let mut bytes = vec![around; end];
                        let want = integer.value(value as u64 & integer.mask());
                        integer.write(&mut bytes, at, value);
                        assert_eq!(integer.read(&bytes, at), want, "{integer:?} {at} {value}");
                        integer.write(&mut bytes, at, if around == 0 { 0 } else { -1 });
                        assert!(bytes.iter().all(|b| *b == around), "{integer:?} {at} {value}");
                    }
                }
            }
        }
    }

    #[test]
    fn the_highest_bit_comes_first_and_zeros_follow() {
        let u = |width| Integer { signed: false, width };
        let i = |width| Integer { signed: true, width };
        assert_eq!(u(4).read(&[0xab], 0), 0xa);
        assert_eq!(u(4).read(&[0xab], 2), 0b1010);
        assert_eq!(i(4).read(&[0xab], 0), -6);
        assert_eq!(u(16).read(&[0xab], 4), 0xb000);
        assert_eq!((u(8).read(&[0xab], 8), u(8).read(&[], 800)), (0, 0));
        assert_eq!(i(64).read(&[0xff; 9], 7), -1);
    }

    #[test]
    fn overflow() {
        use Overflow::{Fail, Saturate, Wrap};
        let i8 = Integer { signed: true, width: 8 };
        let u8 = Integer { signed: false, width: 8 };
        let i64 = Integer { signed: true, width: 64 };
        for (integer, old, n, wrapped, saturated) in [
            (i8, 127, 1, -128, 127),
            (i8, -128, -1, 127, -128),
            (i8, 100, i64::MAX, 99, 127),
            (i8, -100, i64::MIN, -100, -128),
            (u8, 255, 1, 0, 255),
            (u8, 0, -1, 255, 0),
            (u8, 255, i64::MAX, 254, 255),
            (i64, i64::MAX, 1, i64::MIN, i64::MAX),
            (i64, i64::MIN, -1, i64::MAX, i64::MIN),
        ] {
            assert_eq!(integer.add(old, n, Wrap), Some(wrapped), "{integer:?} {old} {n}");
            assert_eq!(integer.add(old, n, Saturate), Some(saturated), "{integer:?} {old} {n}");
            assert_eq!(integer.add(old, n, Fail), None, "{integer:?} {old} {n}");
        }
        for overflow in [Wrap, Saturate, Fail] {
            assert_eq!(i8.add(-128, 255, overflow), Some(127));
            assert_eq!(i64.convert(i64::MIN, overflow), Some(i64::MIN));
        }
        // Observed in the reference: SET of numbers far below the range saturates at the upper end.
        assert_eq!(i8.convert(-300, Saturate), Some(-128));
        assert_eq!(i8.convert(i64::MIN, Saturate), Some(127));
        assert_eq!(i8.convert(i64::MIN, Wrap), Some(0));
        assert_eq!(u8.convert(-1, Saturate), Some(255));
        assert_eq!(u8.convert(-1, Fail), None);
    }
}

//! Natural numbers in as few bytes as they need: seven bits each, the lowest first. Bit 7 says that
//! another byte follows.

/// The most bytes of a number.
pub(super) const MOST: usize = 10;

/// Appends `n`.
#[inline]
pub(super) fn put(mut n: u64, to: &mut Vec<u8>) {
    while n > 0x7f {
        to.push(n as u8 | 0x80);
        n >>= 7;
    }
    to.push(n as u8);
}

/// The number at `at`, and the offset after it.
#[inline]
pub(super) fn get(bytes: &[u8], at: usize) -> (u64, usize) {
    let first = bytes[at];
    if first < 0x80 {
        return (u64::from(first), at + 1);
    }
    let (mut n, mut shift, mut at) = (u64::from(first & 0x7f), 7, at + 1);
    loop {
        let byte = bytes[at];
        // Input of more than ten bytes is malformed: the result is unspecified, but nothing panics.
        n |= u64::from(byte & 0x7f).wrapping_shl(shift);
        at += 1;
        if byte < 0x80 {
            return (n, at);
        }
        shift += 7;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_round_trip() {
        for n in [0, 1, 127, 128, 16383, 16384, u64::from(u32::MAX), u64::MAX - 1, u64::MAX] {
            let mut bytes = vec![9];
            put(n, &mut bytes);
            assert_eq!(get(&bytes, 1), (n, bytes.len()));
            assert!(bytes.len() - 1 <= MOST);
        }
    }
}

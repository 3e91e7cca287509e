//! Strings that are HyperLogLogs, valid or invalid.
//!
//! Commands alone make few kinds of them: one of full length needs thousands of elements, and none
//! is invalid. So they are also made here, byte by byte, and set.
//!
//! One case is left out: a long run of zeros without its second byte. The reference's behaviour
//! depends on the byte of memory after the string.

use weft_testkit::rng::Rng;

const REGISTERS: usize = 1 << 14;
/// Bytes of all registers in the dense form.
const DENSE: usize = REGISTERS / 4 * 3;

/// A random one, valid in three of four cases.
pub fn value(rng: &mut Rng) -> Vec<u8> {
    let dense = rng.percent(20);
    let mut bytes = header(rng, dense);
    if dense {
        let mask = *rng.pick(&[0xff, 0x41, 0x04, 0x00]);
        bytes.extend(rng.bytes(DENSE).iter().map(|byte| byte & mask));
    } else {
        runs(rng, &mut bytes);
    }
    if rng.percent(25) {
        corrupt(rng, &mut bytes);
    }
    bytes
}

fn header(rng: &mut Rng, dense: bool) -> Vec<u8> {
    let mut bytes = b"HYLL".to_vec();
    bytes.push(u8::from(!dense));
    bytes.extend(if rng.percent(90) { vec![0; 3] } else { rng.bytes(3) });
    // A valid cached estimate is returned whatever it is; mostly it is invalid.
    match rng.below(10) {
        0 => bytes.extend(rng.below(100_000).to_le_bytes()),
        1 => bytes.extend(rng.next_u64().to_le_bytes()),
        2..5 => bytes.extend((1_u64 << 63 | rng.below(1000) as u64).to_le_bytes()),
        _ => bytes.extend((1_u64 << 63).to_le_bytes()),
    }
    bytes
}

/// Runs that cover all registers: few, or so many that they are near the limit.
fn runs(rng: &mut Rng, bytes: &mut Vec<u8>) {
    let longest = *rng.pick(&[10, 16, 30, 100, 1000, 9000]);
    let values = *rng.pick(&[2, 4, 32]);
    let mut left = REGISTERS;
    while left > 0 {
        let zeros = left.min(1 + rng.below(longest));
        zeros_of(rng, bytes, zeros);
        left -= zeros;
        while left > 0 && rng.percent(60) {
            let len = left.min(1 + rng.below(4));
            bytes.push(0x80 | (rng.below(values) << 2 | (len - 1)) as u8);
            left -= len;
        }
    }
}

/// A run of zeros in its shortest form, or in the other one.
fn zeros_of(rng: &mut Rng, bytes: &mut Vec<u8>, len: usize) {
    if len > 64 || rng.percent(3) {
        bytes.push(0x40 | ((len - 1) >> 8) as u8);
    }
    bytes.push((len - 1) as u8);
}

/// Makes it invalid, in a place that commands check at once or later.
fn corrupt(rng: &mut Rng, bytes: &mut Vec<u8>) {
    let len = bytes.len();
    match rng.below(8) {
        0 => bytes.truncate(rng.below(17)),
        1 => bytes[rng.below(4)] ^= 0x20,
        2 => bytes[4] = *rng.pick(&[0, 1, 2, 255]),
        // One register or more too few, or too many.
        3 if bytes[4] == 1 => bytes.truncate(16),
        4 => bytes.push(0x00),
        5 => bytes.push(0x80 | rng.below(128) as u8),
        6 => bytes.extend([0x7f, 0xff]),
        _ => bytes[len - 1] ^= 1,
    }
    let half = bytes.get(4) == Some(&1) && ends_in_half_a_run(bytes.get(16..).unwrap_or_default());
    if half {
        bytes.push(0);
    }
}

fn ends_in_half_a_run(runs: &[u8]) -> bool {
    let mut at = 0;
    while at < runs.len() {
        at += if runs[at] >> 6 == 1 { 2 } else { 1 };
    }
    at > runs.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn most_hyperloglogs_are_valid_and_none_ends_in_a_truncated_run() {
        let mut rng = Rng::new(5);
        let (mut whole, mut long) = (0, 0);
        for _ in 0..1000 {
            let bytes = value(&mut rng);
            let sparse = bytes.starts_with(b"HYLL\x01");
            let runs = bytes.get(16..).unwrap_or_default();
            assert!(!sparse || !ends_in_half_a_run(runs));
            whole += usize::from(bytes.starts_with(b"HYLL\x00") && runs.len() == DENSE);
            whole += usize::from(sparse && covered(runs) == REGISTERS);
            long += usize::from(sparse && (2000..4000).contains(&bytes.len()));
        }
        assert!((700..950).contains(&whole), "{whole}");
        assert!(long > 50, "{long} near the limit of the sparse form");
    }

    fn covered(runs: &[u8]) -> usize {
        let (mut at, mut covered) = (0, 0);
        while at < runs.len() {
            let byte = usize::from(runs[at]);
            let (len, size) = match byte >> 6 {
                0 => (byte + 1, 1),
                1 => (((byte & 63) << 8 | usize::from(runs[at + 1])) + 1, 2),
                _ => ((byte & 3) + 1, 1),
            };
            (at, covered) = (at + size, covered + len);
        }
        covered
    }
}

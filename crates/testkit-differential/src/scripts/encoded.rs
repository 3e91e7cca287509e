//! JSON and MessagePack, often with faults.

use super::values::{bytes, one_in, pick, repeat};
use weft_testkit::rng::Rng;

fn json_number(rng: &mut Rng) -> String {
    const SPECIAL: [&str; 32] = [
        "0",
        "-0",
        "01",
        "-01",
        "1.",
        ".5",
        "-.5",
        "1e",
        "1e+",
        "1e5",
        "1E-3",
        "0x1F",
        "-0x1.8p3",
        "0x",
        "0xg",
        "inf",
        "-inf",
        "Infinity",
        "-iNfiNity",
        "nan",
        "NaN",
        "-nan",
        "nan(12)",
        "nan(",
        "+1",
        "+inf",
        "1e999",
        "1e-999",
        "0x1p-1074",
        "0x1.fffffffffffff8p0",
        "--1",
        "12345678901234567890",
    ];
    match rng.below(4) {
        0 => pick(rng, &SPECIAL).into(),
        1 => format!("{}", rng.below(1000)),
        2 => format!("{:?}", f64::from_bits(rng.next_u64())),
        _ => {
            format!("0x{:x}.{:x}p{}", rng.next_u64(), rng.next_u64(), rng.below(2200) as i64 - 1100)
        }
    }
}

fn json_string(rng: &mut Rng, out: &mut Vec<u8>) {
    out.push(b'"');
    repeat(rng, 5, |rng| match rng.below(8) {
        0 => out.extend_from_slice(
            pick(
                rng,
                &["\\n", "\\t", "\\\"", "\\\\", "\\/", "\\b", "\\f", "\\r", "\\x", "\\U0041"],
            )
            .as_bytes(),
        ),
        1 => {
            let code = match rng.below(4) {
                0 => 0xd800 + rng.below(0x800),
                1 => rng.below(0x100),
                _ => rng.below(0x1_0000),
            };
            out.extend_from_slice(format!("\\u{code:04X}").as_bytes());
        }
        2 => {
            let (high, low) = (0xd800 + rng.below(0x400), 0xdc00 + rng.below(0x400));
            out.extend_from_slice(format!("\\u{high:04x}\\u{low:04x}").as_bytes());
        }
        _ => out.push(b'a' + rng.below(26) as u8),
    });
    out.push(b'"');
}

pub(super) fn json(rng: &mut Rng, depth: usize, out: &mut Vec<u8>) {
    if one_in(rng, 6) {
        out.extend_from_slice(pick(rng, &[" ", "\t", "\r\n", "  "]).as_bytes());
    }
    match rng.below(if depth > 4 { 7 } else { 11 }) {
        0 | 1 => json_string(rng, out),
        2..=4 => out.extend_from_slice(json_number(rng).as_bytes()),
        5 | 6 => {
            out.extend_from_slice(pick(rng, &["true", "false", "null", "[]", "{}"]).as_bytes())
        }
        7 | 8 => {
            out.push(b'[');
            let n = rng.below(4);
            for i in 0..n {
                json(rng, depth + 1, out);
                if i + 1 < n {
                    out.push(b',');
                }
            }
            out.push(b']');
        }
        _ => {
            out.push(b'{');
            let n = rng.below(4);
            for i in 0..n {
                json_string(rng, out);
                out.push(b':');
                json(rng, depth + 1, out);
                if i + 1 < n {
                    out.push(b',');
                }
            }
            out.push(b'}');
        }
    }
}

/// Changes some bytes.
pub(super) fn damage(rng: &mut Rng, bytes: &mut Vec<u8>, with: &[u8]) {
    repeat(rng, 2, |rng| {
        let at = rng.below(bytes.len() + 1);
        match rng.below(3) {
            0 => bytes.truncate(at),
            1 => bytes.insert(at, with[rng.below(with.len())]),
            _ if at < bytes.len() => bytes[at] = with[rng.below(with.len())],
            _ => {}
        }
    });
}

pub(super) fn messagepack(rng: &mut Rng, depth: usize, out: &mut Vec<u8>) {
    const CODES: &[u8] =
        b"\xc0\xc1\xc2\xc3\xc4\xca\xcb\xcc\xcd\xce\xcf\xd0\xd1\xd2\xd3\xd4\xd9\xda";
    match rng.below(if depth > 3 { 5 } else { 9 }) {
        0 => out.push(rng.next_u64() as u8),
        1 => {
            out.push(CODES[rng.below(CODES.len())]);
            let n = rng.below(10);
            out.extend((0..n).map(|_| rng.next_u64() as u8));
        }
        2 => {
            let text = bytes(rng, 6);
            out.push(0xa0 | text.len() as u8);
            out.extend_from_slice(&text);
        }
        3 => {
            let (code, len) =
                [(0xca, 4), (0xcb, 8), (0xcf, 8), (0xd3, 8), (0xd2, 4), (0xd1, 2)][rng.below(6)];
            out.push(code);
            out.extend((0..len).map(|_| rng.next_u64() as u8));
        }
        4 => out.push(rng.below(128) as u8),
        5 | 6 => {
            let n = rng.below(4);
            match rng.below(3) {
                0 => out.extend_from_slice(&[0xdc, 0, n as u8]),
                1 => out.extend_from_slice(&[0xdd, 0, 0, 0, n as u8]),
                _ => out.push(0x90 | n as u8),
            }
            (0..n).for_each(|_| messagepack(rng, depth + 1, out));
        }
        _ => {
            let n = rng.below(4);
            match rng.below(3) {
                0 => out.extend_from_slice(&[0xde, 0, n as u8]),
                1 => out.extend_from_slice(&[0xdf, 0, 0, 0, n as u8]),
                _ => out.push(0x80 | n as u8),
            }
            (0..2 * n).for_each(|_| messagepack(rng, depth + 1, out));
        }
    }
}

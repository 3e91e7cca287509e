//! Lua values as they are written in scripts.

use std::fmt::Write;
use weft_testkit::rng::Rng;

pub(super) fn one_in(rng: &mut Rng, n: usize) -> bool {
    rng.below(n) == 0
}

pub(super) fn pick<'a>(rng: &mut Rng, from: &[&'a str]) -> &'a str {
    from[rng.below(from.len())]
}

/// Up to `most` calls of `make`.
pub(super) fn repeat(rng: &mut Rng, most: usize, mut make: impl FnMut(&mut Rng)) {
    for _ in 0..rng.below(most + 1) {
        make(rng);
    }
}

/// Bytes as a Lua string.
pub(super) fn quote(bytes: &[u8]) -> String {
    let mut text = String::from("'");
    for byte in bytes {
        match byte {
            b' '..=b'~' if !matches!(byte, b'\'' | b'\\') => text.push(char::from(*byte)),
            _ => write!(text, "\\{byte:03}").expect("a string grows"),
        }
    }
    text + "'"
}

pub(super) fn number(rng: &mut Rng) -> String {
    const SPECIAL: [&str; 40] = [
        "0",
        "-0",
        "1",
        "-1",
        "0.1",
        "1/3",
        "1e14",
        "1e15",
        "99999999999999",
        "1e-5",
        "0.0001",
        "0/0",
        "-(0/0)",
        "1/0",
        "-1/0",
        "2^31",
        "2^31-1",
        "-2^31",
        "2^32",
        "2^32-1",
        "2^53",
        "2^63",
        "-2^63",
        "2^64",
        "1e300",
        "-1e300",
        "5e-324",
        "127",
        "128",
        "255",
        "256",
        "65535",
        "65536",
        "-32",
        "-33",
        "-128",
        "-129",
        "-32768",
        "-32769",
        "3.5",
    ];
    match rng.below(6) {
        0..=2 => format!("({})", pick(rng, &SPECIAL)),
        3 => format!("{}", rng.below(20)),
        4 => {
            let bits = rng.next_u64();
            let shift = rng.below(64);
            format!("({})", (bits as i64 >> shift) as f64)
        }
        _ => {
            let number = f64::from_bits(rng.next_u64());
            if number.is_finite() { format!("({number:e})") } else { "7".into() }
        }
    }
}

pub(super) fn bytes(rng: &mut Rng, most: usize) -> Vec<u8> {
    let mut out = Vec::new();
    let printable = one_in(rng, 2);
    repeat(rng, most, |rng| {
        out.push(match rng.below(8) {
            0 => b"\"\\/\0\n\t\x7f\x08\x0c\r\x1f"[rng.below(11)],
            _ if printable => b' ' + rng.below(95) as u8,
            _ => rng.next_u64() as u8,
        });
    });
    out
}

pub(super) fn string(rng: &mut Rng) -> String {
    match rng.below(12) {
        0 => {
            let len = [31, 32, 33, 255, 256, 257, 300, 65_535, 65_536][rng.below(9)];
            format!("string.rep('x', {len})")
        }
        1 => format!("'{}'", rng.below(300)),
        2 => pick(rng, &["'0x10'", "' 1 '", "'1e3'", "'on'", "'off'", "'null'", "''"]).into(),
        _ => quote(&bytes(rng, 8)),
    }
}

pub(super) fn value(rng: &mut Rng, depth: usize) -> String {
    match rng.below(if depth > 4 { 9 } else { 16 }) {
        0 => pick(rng, &["true", "false", "nil", "cjson.null"]).into(),
        1..=4 => number(rng),
        5 if one_in(rng, 6) => {
            pick(rng, &["type", "tostring", "coroutine.create(function() end)"]).into()
        }
        5..=8 => string(rng),
        9 => "{}".into(),
        10 => {
            // Nested to about a limit.
            let depth = [15, 16, 17, 18, 5][rng.below(5)];
            let inner = value(rng, 9);
            format!(
                "(function() local t = {inner} for i = 1, {depth} do t = {{t}} end return t end)()"
            )
        }
        11..=13 => {
            let mut text = String::from("{");
            repeat(rng, 5, |rng| {
                write!(text, "{},", value(rng, depth + 1)).expect("a string grows")
            });
            text + "}"
        }
        _ => {
            // The order of strings in a table depends on the server's hash function: there is one.
            if one_in(rng, 2) {
                return format!("{{[{}]={}}}", string(rng), value(rng, depth + 1));
            }
            let mut text = String::from("{");
            repeat(rng, 4, |rng| {
                let key = match rng.below(8) {
                    0..=5 => format!("{}", rng.below(16)),
                    6 => {
                        pick(rng, &["0", "-1", "1.5", "2^31", "2^40", "2^17", "100", "1/0", "true"])
                            .into()
                    }
                    // The reference writes an array of such a length, and ends for lack of memory.
                    _ => number(rng).replace("0/0", "1").replace("2^31-1", "2^31"),
                };
                write!(text, "[{key}]={},", value(rng, depth + 1)).expect("a string grows");
            });
            text + "}"
        }
    }
}

/// Any argument, most often one made by `usual`.
pub(super) fn argument(rng: &mut Rng, usual: impl FnOnce(&mut Rng) -> String) -> String {
    if one_in(rng, 12) { value(rng, 3) } else { usual(rng) }
}

//! Calls of `cjson`, `cmsgpack`, `struct` and `bit`.

use super::encoded::{damage, json, messagepack};
use super::values::{argument, bytes, number, one_in, pick, quote, repeat, string, value};
use std::fmt::Write;
use weft_testkit::rng::Rng;

pub(super) fn settings(rng: &mut Rng) -> String {
    let mut text = String::from("local j = cjson.new() ");
    repeat(rng, 3, |rng| {
        let (name, args) = match rng.below(8) {
            0 => ("encode_sparse_array", {
                let first = pick(rng, &["true", "false", "'on'", "'off'", "nil"]);
                format!("{first}, {}, {}", rng.below(4), rng.below(20))
            }),
            1 => ("encode_max_depth", format!("{}", rng.below(8))),
            2 => ("decode_max_depth", format!("{}", rng.below(8))),
            3 => ("encode_number_precision", format!("{}", rng.below(17))),
            4 => ("encode_keep_buffer", pick(rng, &["true", "false", "'on'"]).into()),
            5 => (
                "encode_invalid_numbers",
                pick(rng, &["true", "false", "'null'", "'on'", "'x'"]).into(),
            ),
            6 => {
                ("decode_invalid_numbers", pick(rng, &["true", "false", "'null'", "'off'"]).into())
            }
            _ => {
                let name = pick(
                    rng,
                    &[
                        "encode_sparse_array",
                        "encode_max_depth",
                        "decode_max_depth",
                        "encode_number_precision",
                        "encode_keep_buffer",
                        "encode_invalid_numbers",
                        "decode_invalid_numbers",
                    ],
                );
                let mut args = vec![value(rng, 4)];
                repeat(rng, 3, |rng| args.push(value(rng, 4)));
                (name, args.join(", "))
            }
        };
        write!(text, "out[#out + 1] = all(pcall(j.{name}, {args})) ").expect("a string grows");
    });
    text
}

fn format(rng: &mut Rng, common: &str) -> String {
    let mut text = String::new();
    let letters: Vec<&str> = common.split(' ').collect();
    repeat(rng, 6, |rng| match rng.below(12) {
        0 => write!(text, "{}", pick(rng, &["<", ">", "!", "!4", "!8", "!1", " ", "!2"]))
            .unwrap_or(()),
        1 => write!(text, "{}{}", pick(rng, &["i", "I", "c", "!"]), rng.below(40)).unwrap_or(()),
        2 if one_in(rng, 6) => text.push(char::from(33 + rng.below(94) as u8)),
        3 if one_in(rng, 9) => {
            text.push_str(pick(rng, &["i2147483647", "i2147483648", "c2147483647", "!1073741824"]))
        }
        _ => text.push_str(pick(rng, &letters)),
    });
    text
}

const LETTERS: &str = "b B h H l L T i I i3 I5 i8 i16 I16 I9 f d s c c0 c4 x";

/// Arguments for `struct.pack` with this format, more or less.
fn struct_arguments(rng: &mut Rng, format: &str) -> String {
    let mut args = String::new();
    for letter in format.bytes() {
        let arg = match letter {
            b's' | b'c' => argument(rng, string),
            b'f' | b'd' | b'i' | b'I' | b'a'..=b'w' | b'A'..=b'Z' => argument(rng, number),
            _ => continue,
        };
        if !one_in(rng, 40) {
            write!(args, ", {arg}").expect("a string grows");
        }
    }
    args
}

fn offset(rng: &mut Rng) -> String {
    match rng.below(6) {
        0..=2 => format!("{}", rng.below(12)),
        3 => format!("-{}", rng.below(12)),
        _ => value(rng, 3),
    }
}

/// A function and its arguments.
pub(super) fn call(rng: &mut Rng) -> (&'static str, String) {
    match rng.below(12) {
        0 => {
            let name = pick(
                rng,
                &[
                    "bit.arshift",
                    "bit.band",
                    "bit.bnot",
                    "bit.bor",
                    "bit.bswap",
                    "bit.bxor",
                    "bit.lshift",
                    "bit.rol",
                    "bit.ror",
                    "bit.rshift",
                    "bit.tobit",
                    "bit.tohex",
                ],
            );
            let mut args = vec![argument(rng, number)];
            repeat(rng, 3, |rng| args.push(argument(rng, number)));
            (name, args.join(", "))
        }
        1..=3 => ("j.encode", if one_in(rng, 40) { String::new() } else { value(rng, 0) }),
        4..=6 => {
            let mut text = Vec::new();
            json(rng, 0, &mut text);
            if one_in(rng, 2) {
                damage(rng, &mut text, b"\"\\{}[]:,0 \0xeE+-.u");
            }
            ("j.decode", argument(rng, |_| quote(&text)))
        }
        7 => {
            let mut args = vec![value(rng, 0)];
            repeat(rng, 2, |rng| args.push(value(rng, 0)));
            ("cmsgpack.pack", args.join(", "))
        }
        8 | 9 => {
            let mut text = Vec::new();
            repeat(rng, 4, |rng| messagepack(rng, 0, &mut text));
            if one_in(rng, 3) {
                damage(rng, &mut text, b"\xc0\xd9\xdb\xdd\xdf\xff\0\x80\x91");
            }
            let text = argument(rng, |_| quote(&text));
            match rng.below(4) {
                0 | 1 => ("cmsgpack.unpack", text),
                2 => (
                    "cmsgpack.unpack_one",
                    if one_in(rng, 2) { text } else { format!("{text}, {}", offset(rng)) },
                ),
                _ => ("cmsgpack.unpack_limit", format!("{text}, {}, {}", offset(rng), offset(rng))),
            }
        }
        10 => {
            let format = format(rng, LETTERS);
            if one_in(rng, 3) {
                ("struct.size", argument(rng, |_| quote(format.as_bytes())))
            } else {
                let args = struct_arguments(rng, &format);
                ("struct.pack", quote(format.as_bytes()) + &args)
            }
        }
        _ => {
            let format = format(rng, LETTERS);
            let mut data = bytes(rng, 40);
            repeat(rng, 20, |_| data.push(0));
            let data = argument(rng, |_| quote(&data));
            let offset = if one_in(rng, 3) { format!(", {}", offset(rng)) } else { String::new() };
            ("struct.unpack", format!("{}, {data}{offset}", quote(format.as_bytes())))
        }
    }
}

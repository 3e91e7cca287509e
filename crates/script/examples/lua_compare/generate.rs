//! Generates scripts.

use std::fmt::Write;

/// Prints a value with all its digits and the keys of tables in order.
pub const PRELUDE: &str = "local function show(v) local t = type(v) \
    if t == 'table' then local r = {} for k, w in pairs(v) do r[#r + 1] = show(k)..'='..show(w) end \
    table.sort(r) return '{'..table.concat(r, ',')..'}' end \
    if t == 'number' then return string.format('%.17g', v) end \
    if t == 'string' then return '\"'..v..'\"' end \
    if t == 'function' then return t end return tostring(v) end \
    local function all(...) local r = {} \
    for i = 1, select('#', ...) do r[i] = show((select(i, ...))) end return table.concat(r, ' ') end ";

/// SplitMix64.
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Random {
        Random(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }

    fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    fn pick<'a>(&mut self, from: &[&'a str]) -> &'a str {
        from[self.below(from.len())]
    }

    /// Up to `most` calls of `make`.
    fn repeat(&mut self, most: usize, mut make: impl FnMut(&mut Self)) {
        for _ in 0..self.below(most + 1) {
            make(self);
        }
    }
}

/// Bytes as a Lua string.
fn quote(bytes: &[u8]) -> String {
    let mut text = String::from("'");
    for byte in bytes {
        match byte {
            b' '..=b'~' if !matches!(byte, b'\'' | b'\\') => text.push(char::from(*byte)),
            _ => write!(text, "\\{byte:03}").expect("a string grows"),
        }
    }
    text + "'"
}

fn number(r: &mut Random) -> String {
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
    match r.below(6) {
        0..=2 => format!("({})", r.pick(&SPECIAL)),
        3 => format!("{}", r.below(20)),
        4 => {
            let bits = r.next();
            let shift = r.below(64);
            format!("({})", (bits as i64 >> shift) as f64)
        }
        _ => {
            let number = f64::from_bits(r.next());
            if number.is_finite() { format!("({number:e})") } else { "7".into() }
        }
    }
}

fn bytes(r: &mut Random, most: usize) -> Vec<u8> {
    let mut out = Vec::new();
    let printable = r.one_in(2);
    r.repeat(most, |r| {
        out.push(match r.below(8) {
            0 => b"\"\\/\0\n\t\x7f\x08\x0c\r\x1f"[r.below(11)],
            _ if printable => b' ' + r.below(95) as u8,
            _ => r.next() as u8,
        });
    });
    out
}

fn string(r: &mut Random) -> String {
    match r.below(12) {
        0 => {
            let len = [31, 32, 33, 255, 256, 257, 300, 65_535, 65_536][r.below(9)];
            format!("string.rep('x', {len})")
        }
        1 => format!("'{}'", r.below(300)),
        2 => r.pick(&["'0x10'", "' 1 '", "'1e3'", "'on'", "'off'", "'null'", "''"]).into(),
        _ => quote(&bytes(r, 8)),
    }
}

fn value(r: &mut Random, depth: usize) -> String {
    match r.below(if depth > 4 { 9 } else { 16 }) {
        0 => r.pick(&["true", "false", "nil", "cjson.null"]).into(),
        1..=4 => number(r),
        5 if r.one_in(6) => {
            r.pick(&["type", "tostring", "coroutine.create(function() end)"]).into()
        }
        5..=8 => string(r),
        9 => "{}".into(),
        10 => {
            // Nested to about a limit.
            let depth = [15, 16, 17, 18, 5][r.below(5)];
            let inner = value(r, 9);
            format!(
                "(function() local t = {inner} for i = 1, {depth} do t = {{t}} end return t end)()"
            )
        }
        11..=13 => {
            let mut text = String::from("{");
            r.repeat(5, |r| write!(text, "{},", value(r, depth + 1)).expect("a string grows"));
            text + "}"
        }
        _ => {
            // The order of strings in a table depends on the server's hash function: there is one.
            if r.one_in(2) {
                return format!("{{[{}]={}}}", string(r), value(r, depth + 1));
            }
            let mut text = String::from("{");
            r.repeat(4, |r| {
                let key = match r.below(8) {
                    0..=5 => format!("{}", r.below(16)),
                    6 => r
                        .pick(&["0", "-1", "1.5", "2^31", "2^40", "2^17", "100", "1/0", "true"])
                        .into(),
                    // The reference writes an array of such a length, and ends for lack of memory.
                    _ => number(r).replace("0/0", "1").replace("2^31-1", "2^31"),
                };
                write!(text, "[{key}]={},", value(r, depth + 1)).expect("a string grows");
            });
            text + "}"
        }
    }
}

/// Any argument, most often one made by `usual`.
fn argument(r: &mut Random, usual: impl FnOnce(&mut Random) -> String) -> String {
    if r.one_in(12) { value(r, 3) } else { usual(r) }
}

fn json_number(r: &mut Random) -> String {
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
    match r.below(4) {
        0 => r.pick(&SPECIAL).into(),
        1 => format!("{}", r.below(1000)),
        2 => format!("{:?}", f64::from_bits(r.next())),
        _ => format!("0x{:x}.{:x}p{}", r.next(), r.next(), r.below(2200) as i64 - 1100),
    }
}

fn json_string(r: &mut Random, out: &mut Vec<u8>) {
    out.push(b'"');
    r.repeat(5, |r| match r.below(8) {
        0 => out.extend_from_slice(
            r.pick(&["\\n", "\\t", "\\\"", "\\\\", "\\/", "\\b", "\\f", "\\r", "\\x", "\\U0041"])
                .as_bytes(),
        ),
        1 => {
            let code = match r.below(4) {
                0 => 0xd800 + r.below(0x800),
                1 => r.below(0x100),
                _ => r.below(0x1_0000),
            };
            out.extend_from_slice(format!("\\u{code:04X}").as_bytes());
        }
        2 => {
            let (high, low) = (0xd800 + r.below(0x400), 0xdc00 + r.below(0x400));
            out.extend_from_slice(format!("\\u{high:04x}\\u{low:04x}").as_bytes());
        }
        _ => out.push(b'a' + r.below(26) as u8),
    });
    out.push(b'"');
}

fn json(r: &mut Random, depth: usize, out: &mut Vec<u8>) {
    if r.one_in(6) {
        out.extend_from_slice(r.pick(&[" ", "\t", "\r\n", "  "]).as_bytes());
    }
    match r.below(if depth > 4 { 7 } else { 11 }) {
        0 | 1 => json_string(r, out),
        2..=4 => out.extend_from_slice(json_number(r).as_bytes()),
        5 | 6 => out.extend_from_slice(r.pick(&["true", "false", "null", "[]", "{}"]).as_bytes()),
        7 | 8 => {
            out.push(b'[');
            let n = r.below(4);
            for i in 0..n {
                json(r, depth + 1, out);
                if i + 1 < n {
                    out.push(b',');
                }
            }
            out.push(b']');
        }
        _ => {
            out.push(b'{');
            let n = r.below(4);
            for i in 0..n {
                json_string(r, out);
                out.push(b':');
                json(r, depth + 1, out);
                if i + 1 < n {
                    out.push(b',');
                }
            }
            out.push(b'}');
        }
    }
}

/// Changes some bytes.
fn damage(r: &mut Random, bytes: &mut Vec<u8>, with: &[u8]) {
    r.repeat(2, |r| {
        let at = r.below(bytes.len() + 1);
        match r.below(3) {
            0 => bytes.truncate(at),
            1 => bytes.insert(at, with[r.below(with.len())]),
            _ if at < bytes.len() => bytes[at] = with[r.below(with.len())],
            _ => {}
        }
    });
}

fn settings(r: &mut Random) -> String {
    let mut text = String::from("local j = cjson.new() ");
    r.repeat(3, |r| {
        let (name, args) = match r.below(8) {
            0 => ("encode_sparse_array", {
                let first = r.pick(&["true", "false", "'on'", "'off'", "nil"]);
                format!("{first}, {}, {}", r.below(4), r.below(20))
            }),
            1 => ("encode_max_depth", format!("{}", r.below(8))),
            2 => ("decode_max_depth", format!("{}", r.below(8))),
            3 => ("encode_number_precision", format!("{}", r.below(17))),
            4 => ("encode_keep_buffer", r.pick(&["true", "false", "'on'"]).into()),
            5 => (
                "encode_invalid_numbers",
                r.pick(&["true", "false", "'null'", "'on'", "'x'"]).into(),
            ),
            6 => ("decode_invalid_numbers", r.pick(&["true", "false", "'null'", "'off'"]).into()),
            _ => {
                let name = r.pick(&[
                    "encode_sparse_array",
                    "encode_max_depth",
                    "decode_max_depth",
                    "encode_number_precision",
                    "encode_keep_buffer",
                    "encode_invalid_numbers",
                    "decode_invalid_numbers",
                ]);
                let mut args = vec![value(r, 4)];
                r.repeat(3, |r| args.push(value(r, 4)));
                (name, args.join(", "))
            }
        };
        write!(text, "out[#out + 1] = all(pcall(j.{name}, {args})) ").expect("a string grows");
    });
    text
}

fn messagepack(r: &mut Random, depth: usize, out: &mut Vec<u8>) {
    const CODES: &[u8] =
        b"\xc0\xc1\xc2\xc3\xc4\xca\xcb\xcc\xcd\xce\xcf\xd0\xd1\xd2\xd3\xd4\xd9\xda";
    match r.below(if depth > 3 { 5 } else { 9 }) {
        0 => out.push(r.next() as u8),
        1 => {
            out.push(CODES[r.below(CODES.len())]);
            let n = r.below(10);
            out.extend((0..n).map(|_| r.next() as u8));
        }
        2 => {
            let text = bytes(r, 6);
            out.push(0xa0 | text.len() as u8);
            out.extend_from_slice(&text);
        }
        3 => {
            let (code, len) =
                [(0xca, 4), (0xcb, 8), (0xcf, 8), (0xd3, 8), (0xd2, 4), (0xd1, 2)][r.below(6)];
            out.push(code);
            out.extend((0..len).map(|_| r.next() as u8));
        }
        4 => out.push(r.below(128) as u8),
        5 | 6 => {
            let n = r.below(4);
            match r.below(3) {
                0 => out.extend_from_slice(&[0xdc, 0, n as u8]),
                1 => out.extend_from_slice(&[0xdd, 0, 0, 0, n as u8]),
                _ => out.push(0x90 | n as u8),
            }
            (0..n).for_each(|_| messagepack(r, depth + 1, out));
        }
        _ => {
            let n = r.below(4);
            match r.below(3) {
                0 => out.extend_from_slice(&[0xde, 0, n as u8]),
                1 => out.extend_from_slice(&[0xdf, 0, 0, 0, n as u8]),
                _ => out.push(0x80 | n as u8),
            }
            (0..2 * n).for_each(|_| messagepack(r, depth + 1, out));
        }
    }
}

fn format(r: &mut Random, common: &str) -> String {
    let mut text = String::new();
    let letters: Vec<&str> = common.split(' ').collect();
    r.repeat(6, |r| match r.below(12) {
        0 => {
            write!(text, "{}", r.pick(&["<", ">", "!", "!4", "!8", "!1", " ", "!2"])).unwrap_or(())
        }
        1 => write!(text, "{}{}", r.pick(&["i", "I", "c", "!"]), r.below(40)).unwrap_or(()),
        2 if r.one_in(6) => text.push(char::from(33 + r.below(94) as u8)),
        3 if r.one_in(9) => {
            text.push_str(r.pick(&["i2147483647", "i2147483648", "c2147483647", "!1073741824"]))
        }
        _ => text.push_str(r.pick(&letters)),
    });
    text
}

const LETTERS: &str = "b B h H l L T i I i3 I5 i8 i16 I16 I9 f d s c c0 c4 x";

/// Arguments for `struct.pack` with this format, more or less.
fn struct_arguments(r: &mut Random, format: &str) -> String {
    let mut args = String::new();
    for letter in format.bytes() {
        let arg = match letter {
            b's' | b'c' => argument(r, string),
            b'f' | b'd' | b'i' | b'I' | b'a'..=b'w' | b'A'..=b'Z' => argument(r, number),
            _ => continue,
        };
        if !r.one_in(40) {
            write!(args, ", {arg}").expect("a string grows");
        }
    }
    args
}

fn offset(r: &mut Random) -> String {
    match r.below(6) {
        0..=2 => format!("{}", r.below(12)),
        3 => format!("-{}", r.below(12)),
        _ => value(r, 3),
    }
}

/// A function and its arguments.
fn call(r: &mut Random) -> (&'static str, String) {
    match r.below(12) {
        0 => {
            let name = r.pick(&[
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
            ]);
            let mut args = vec![argument(r, number)];
            r.repeat(3, |r| args.push(argument(r, number)));
            (name, args.join(", "))
        }
        1..=3 => ("j.encode", if r.one_in(40) { String::new() } else { value(r, 0) }),
        4..=6 => {
            let mut text = Vec::new();
            json(r, 0, &mut text);
            if r.one_in(2) {
                damage(r, &mut text, b"\"\\{}[]:,0 \0xeE+-.u");
            }
            ("j.decode", argument(r, |_| quote(&text)))
        }
        7 => {
            let mut args = vec![value(r, 0)];
            r.repeat(2, |r| args.push(value(r, 0)));
            ("cmsgpack.pack", args.join(", "))
        }
        8 | 9 => {
            let mut text = Vec::new();
            r.repeat(4, |r| messagepack(r, 0, &mut text));
            if r.one_in(3) {
                damage(r, &mut text, b"\xc0\xd9\xdb\xdd\xdf\xff\0\x80\x91");
            }
            let text = argument(r, |_| quote(&text));
            match r.below(4) {
                0 | 1 => ("cmsgpack.unpack", text),
                2 => (
                    "cmsgpack.unpack_one",
                    if r.one_in(2) { text } else { format!("{text}, {}", offset(r)) },
                ),
                _ => ("cmsgpack.unpack_limit", format!("{text}, {}, {}", offset(r), offset(r))),
            }
        }
        10 => {
            let format = format(r, LETTERS);
            if r.one_in(3) {
                ("struct.size", argument(r, |_| quote(format.as_bytes())))
            } else {
                let args = struct_arguments(r, &format);
                ("struct.pack", quote(format.as_bytes()) + &args)
            }
        }
        _ => {
            let format = format(r, LETTERS);
            let mut data = bytes(r, 40);
            r.repeat(20, |_| data.push(0));
            let data = argument(r, |_| quote(&data));
            let offset = if r.one_in(3) { format!(", {}", offset(r)) } else { String::new() };
            ("struct.unpack", format!("{}, {data}{offset}", quote(format.as_bytes())))
        }
    }
}

/// A script that returns one string.
pub fn script(r: &mut Random) -> String {
    let mut text = format!("{PRELUDE}local out = {{}} ");
    text.push_str(&settings(r));
    let (name, args) = call(r);
    // Without a caller in Lua, errors have neither position nor name. A debug build of Lua's `pcall` fails for many results.
    if r.one_in(2) && !matches!(name, "cmsgpack.unpack" | "cmsgpack.unpack_limit") {
        write!(text, "out[#out + 1] = all(pcall({name}, {args})) ").expect("a string grows");
    } else {
        let body = format!("out[#out + 1] = all({name}({args}))");
        write!(text, "out[#out + 1] = all(pcall(function() {body} end)) ").expect("a string grows");
    }
    text + "return table.concat(out, ' | ')"
}

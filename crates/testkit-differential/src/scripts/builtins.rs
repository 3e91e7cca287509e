//! Calls of Lua's own libraries, and of `redis` without commands.

use super::values::{argument, bytes, number, one_in, pick, quote, repeat, string, value};
use weft_testkit::rng::Rng;

/// Text whose bytes occur in patterns.
fn subject(rng: &mut Rng) -> String {
    let mut text = Vec::new();
    repeat(rng, 10, |rng| text.push(b"aaabbc1 (())-.]\n"[rng.below(16)]));
    if one_in(rng, 8) {
        text = bytes(rng, 8);
    }
    quote(&text)
}

/// As [`argument`], without long strings: a search may take time in proportion to a power of their length.
fn short(rng: &mut Rng, usual: impl FnOnce(&mut Rng) -> String) -> String {
    argument(rng, usual).replace("string.rep('x', ", "string.rep('x', 9 % ")
}

/// Short, since a search may take exponential time for a long one.
fn pattern(rng: &mut Rng) -> String {
    const ITEMS: [&str; 44] = [
        "a", "b", ".", "%a", "%d", "%s", "%w", "%p", "%x", "%l", "%u", "%c", "%z", "%A", "%W",
        "[ab]", "[^a]", "[a-c%d]", "[]]", "[^]a-]", "[%a-z]", "[a-%d]", "%b()", "%bab", "%f[%a]",
        "%f[^a]", "(", ")", "()", "%1", "%2", "^", "$", "%", "[", "[^", "%b", "%f", "%.", "%%",
        "(a)", "(.)", "-", "]",
    ];
    let mut text = String::new();
    if one_in(rng, 5) {
        text.push('^');
    }
    repeat(rng, 6, |rng| {
        text.push_str(pick(rng, &ITEMS));
        if one_in(rng, 3) {
            text.push_str(pick(rng, &["*", "+", "-", "?"]));
        }
    });
    if one_in(rng, 40) {
        text.push('\0');
    }
    quote(text.as_bytes())
}

fn replacement(rng: &mut Rng) -> String {
    match rng.below(6) {
        0 => pick(
            rng,
            &[
                "{a = 'x', b = 1, ab = false, ['('] = {}}",
                "setmetatable({}, {__index = function(t, k) return k .. k end})",
                "setmetatable({}, {__index = function(t, k) error(k) end})",
            ],
        )
        .into(),
        1 => pick(
            rng,
            &[
                "function(...) return select('#', ...) end",
                "function(a, b) return b or a end",
                "function(a) return a == 'a' and '<' .. a .. '>' end",
                "function(a) error(a) end",
                "function(a) return {} end",
                "string.upper",
                "function() coroutine.yield() end",
            ],
        )
        .into(),
        2 => number(rng),
        _ => {
            let mut text = String::new();
            repeat(rng, 4, |rng| {
                text.push_str(pick(rng, &["%0", "%1", "%2", "%%", "%", "x", "%a", ""]))
            });
            quote(text.as_bytes())
        }
    }
}

fn string_format(rng: &mut Rng) -> (String, String) {
    let (mut text, mut args) = (String::new(), String::new());
    repeat(rng, 3, |rng| {
        let flags = pick(rng, &["", "", "", "-", "+", " ", "#", "0", "-+ #0", "-+ #00"]);
        let width = pick(rng, &["", "", "", "5", "20", "99", "100", "99999", "*"]);
        let precision = pick(rng, &["", "", "", ".", ".0", ".3", ".20", ".99", ".100"]);
        let letter = pick(
            rng,
            &[
                "d", "i", "s", "s", "q", "x", "X", "o", "u", "c", "e", "E", "f", "g", "G", "%",
                "z", "a", "", "p", "n",
            ],
        );
        text.push_str(&["<%", flags, width, precision, letter, ">"].concat());
        if !one_in(rng, 12) {
            args.push_str(", ");
            args.push_str(&if letter == "s" || letter == "q" {
                argument(rng, string)
            } else {
                argument(rng, number)
            });
        }
    });
    (quote(text.as_bytes()), args)
}

fn string_call(rng: &mut Rng) -> (&'static str, String) {
    match rng.below(12) {
        0 | 1 => {
            let name = pick(rng, &["string.find", "string.match", "string.find"]);
            let rest = match rng.below(4) {
                0 => format!(", {}", argument(rng, |rng| format!("{}", rng.between(-12, 12)))),
                1 => format!(
                    ", {}, {}",
                    rng.between(-3, 5),
                    pick(rng, &["true", "false", "nil", "1"])
                ),
                _ => String::new(),
            };
            (name, format!("{}, {}{rest}", short(rng, subject), short(rng, pattern)))
        }
        2..=4 => {
            let rest = match rng.below(4) {
                0 => format!(", {}", argument(rng, |rng| format!("{}", rng.between(-2, 5)))),
                _ => String::new(),
            };
            let (subject, pattern) = (short(rng, subject), short(rng, pattern));
            ("string.gsub", format!("{subject}, {pattern}, {}{rest}", argument(rng, replacement)))
        }
        5 => ("gmatch", format!("{}, {}", short(rng, subject), short(rng, pattern))),
        6 | 7 => {
            let (text, args) = string_format(rng);
            ("string.format", text + &args)
        }
        8 => (
            "string.rep",
            format!(
                "{}, {}",
                argument(rng, subject),
                // Valkey would allocate gigabytes for a large number.
                pick(rng, &["0", "1", "7", "-1", "2.9", "'3'", "nil", "{}", "'x'", "-2^31"])
            ),
        ),
        9 => {
            let name = pick(rng, &["string.sub", "string.byte"]);
            (
                name,
                format!("{}, {}, {}", short(rng, subject), rng.between(-9, 9), rng.between(-9, 9)),
            )
        }
        10 => (
            "string.char",
            format!("{}, {}", rng.below(256), argument(rng, |rng| format!("{}", rng.below(260)))),
        ),
        _ => {
            let name =
                pick(rng, &["string.lower", "string.upper", "string.len", "string.reverse", "#"]);
            let name = if name == "#" { "tostring" } else { name };
            (name, argument(rng, string))
        }
    }
}

fn table_call(rng: &mut Rng) -> (&'static str, String) {
    let list = argument(rng, |rng| {
        let mut text = String::from("{");
        repeat(rng, 6, |rng| text.push_str(&format!("{},", rng.below(50))));
        text + "}"
    });
    match rng.below(8) {
        0 => (
            "table.concat",
            format!("{list}, {}, {}, {}", argument(rng, string), rng.below(4), rng.below(8)),
        ),
        1 => ("table.concat", format!("{list}, {}", argument(rng, string))),
        2 => ("table.insert", format!("{list}, {}, {}", rng.between(-2, 9), value(rng, 3))),
        3 => ("table.remove", format!("{list}, {}", rng.between(-2, 9))),
        4 => (
            "sorted",
            format!(
                "{list}, {}",
                pick(
                    rng,
                    &[
                        "nil",
                        "function(a, b) return a > b end",
                        "function(a, b) return true end",
                        "1"
                    ]
                )
            ),
        ),
        5 => (
            "unpack",
            format!(
                "{list}, {}, {}",
                rng.between(-2, 3),
                argument(rng, |rng| format!("{}", rng.between(-2, 9)))
            ),
        ),
        6 => ("inserted", format!("{list}, {}, {}", rng.between(-2, 9), value(rng, 3))),
        _ => (pick(rng, &["table.maxn", "table.getn", "next", "ipairs", "pairs"]), list),
    }
}

fn math_call(rng: &mut Rng) -> (&'static str, String) {
    let name = pick(
        rng,
        &[
            "math.abs",
            "math.ceil",
            "math.floor",
            "math.sqrt",
            "math.fmod",
            "math.modf",
            "math.max",
            "math.min",
            "math.frexp",
            "math.ldexp",
            "math.pow",
            "math.exp",
            "math.log",
            "math.deg",
            "math.mod",
            "random",
            "tonumber",
            "tostring",
            "select",
        ],
    );
    (name, format!("{}, {}", argument(rng, number), argument(rng, number)))
}

fn base_call(rng: &mut Rng) -> (&'static str, String) {
    match rng.below(9) {
        0 => (
            "tonumber",
            format!(
                "{}, {}",
                argument(rng, string),
                argument(rng, |rng| format!("{}", rng.below(40)))
            ),
        ),
        1 => ("tonumber", argument(rng, string)),
        2 => ("select", format!("{}, {}, {}", rng.between(-3, 4), value(rng, 3), value(rng, 3))),
        3 => {
            let source = pick(
                rng,
                &[
                    "return 1",
                    "return +",
                    "error('x')",
                    "\\27Lua",
                    "x = 1",
                    "return x",
                    "return ...",
                    "local a <",
                ],
            );
            ("loaded", format!("'{source}'"))
        }
        4 => ("rawget", format!("{}, {}", value(rng, 2), value(rng, 3))),
        5 => ("rawset", format!("{}, {}, {}", value(rng, 2), value(rng, 3), value(rng, 3))),
        6 => ("rawequal", format!("{}, {}", value(rng, 3), value(rng, 3))),
        7 => ("assert", format!("{}, {}", value(rng, 3), value(rng, 3))),
        _ => ("type", value(rng, 3)),
    }
}

fn redis_call(rng: &mut Rng) -> (&'static str, String) {
    match rng.below(7) {
        0 => ("redis.error_reply", argument(rng, string)),
        1 => ("redis.status_reply", argument(rng, string)),
        2 => ("redis.sha1hex", argument(rng, string)),
        3 => ("redis.setresp", argument(rng, |rng| format!("{}", rng.between(1, 4)))),
        4 => ("redis.call", format!("'echo', {}", value(rng, 3))),
        5 => ("redis.pcall", format!("'ping', {}", argument(rng, number))),
        _ => ("redis.pcall", value(rng, 3)),
    }
}

/// Functions that the names without a library stand for.
pub(super) const HELPERS: &str = "local function gmatch(s, p) local r = {} \
    for a, b in string.gmatch(s, p) do r[#r + 1] = tostring(a) .. ':' .. tostring(b) if #r > 20 then break end end \
    return table.concat(r, ' ') end \
    local function sorted(t, f) table.sort(t, f) return t end \
    local function inserted(t, ...) table.insert(t, ...) return t end \
    local function loaded(s) local f, e = loadstring(s) if f then return pcall(f, 1) end return e end \
    local function random(a, b) math.randomseed(7) return math.random(), math.random(a), math.random(a, b) end ";

/// A function and its arguments.
pub(super) fn call(rng: &mut Rng) -> (&'static str, String) {
    match rng.below(12) {
        0..=5 => string_call(rng),
        6 | 7 => table_call(rng),
        8 => math_call(rng),
        9 | 10 => base_call(rng),
        _ => redis_call(rng),
    }
}

//! Scripts for generated EVAL commands: each uses two keys, which may have any type, and two arguments.
//!
//! ```text
//!  mod         commands; calls of library functions; results of all kinds
//!  builtins    Lua's own libraries, and `redis`
//!  functions   libraries of functions
//!  libraries   cjson, cmsgpack, struct, bit
//!  encoded     JSON and MessagePack
//!  values      Lua values
//! ```

mod builtins;
mod encoded;
pub mod functions;
mod libraries;
mod values;

use std::fmt::Write;
use values::{one_in, pick, string, value};
use weft_testkit::rng::Rng;

/// Parts of scripts; `R` is the result that the last line returns.
const STEPS: [&str; 30] = [
    "R = redis.call('get', KEYS[1])",
    "R = redis.call('set', KEYS[1], 'v' .. ARGV[1])",
    "R = redis.call('incrby', KEYS[1], ARGV[2])",
    "R = redis.pcall('incrby', KEYS[2], ARGV[2])",
    "R = redis.call('append', KEYS[2], 'v' .. ARGV[1])",
    "R = redis.call('rpush', KEYS[1], ARGV[1], 'x', ARGV[2])",
    "R = redis.call('lrange', KEYS[1], 0, -1)",
    "R = redis.pcall('lpop', KEYS[2])",
    "R = redis.call('hset', KEYS[1], 'f', ARGV[1], ARGV[2], 'v')",
    "R = redis.pcall('hget', KEYS[2], 'f')",
    "R = redis.pcall('hlen', KEYS[1])",
    "R = redis.pcall('sadd', KEYS[2], ARGV[1], ARGV[2])",
    "R = redis.pcall('scard', KEYS[1])",
    "R = redis.pcall('zadd', KEYS[1], ARGV[2], ARGV[1])",
    "R = redis.pcall('zscore', KEYS[1], ARGV[1])",
    "R = redis.pcall('zrange', KEYS[2], 0, -1, 'withscores')",
    "R = redis.call('del', KEYS[2])",
    "R = redis.call('exists', KEYS[1], KEYS[2], 'undeclared')",
    "R = redis.call('rename', KEYS[1], KEYS[2])",
    "R = redis.call('type', KEYS[1])",
    "R = redis.call('expire', KEYS[1], 1000000)",
    "R = redis.call('persist', KEYS[1])",
    "R = redis.call('copy', KEYS[1], KEYS[2], 'replace')",
    "R = redis.call('set', 'undeclared' .. ARGV[2], 'v' .. ARGV[1])",
    "R = redis.call('get', 'undeclared' .. ARGV[2])",
    "R = redis.call('mget', KEYS[1], 'undeclared1', KEYS[2])",
    "redis.setresp(3)",
    "if R == false then R = redis.call('echo', ARGV[1]) end",
    "R = {pcall(redis.call, 'incr', KEYS[1])}",
    "R = {type(R), R, #KEYS, ARGV[1]}",
];

/// Ends of scripts.
const ENDS: [&str; 9] = [
    "return R",
    "return R",
    "return {R, true, false, 1.5}",
    "return {R, redis.status_reply('FINE')}",
    "return tostring(type(R) == 'table' and (R.err or R.ok or #R) or R)",
    "return redis.error_reply('MY error')",
    "error('last')",
    "return cjson.encode({ARGV[1] == KEYS[1], ARGV[2]})",
    "return {double = 2.5}",
];

/// Shows a value with all its digits and the keys of tables in order.
const SHOW: &str = "local function show(v, d) local t = type(v) \
    if t == 'table' then if (d or 0) > 20 then return '...' end local r = {} \
    for k, w in pairs(v) do r[#r + 1] = show(k, 99) .. '=' .. show(w, (d or 0) + 1) end \
    table.sort(r) return '{' .. table.concat(r, ',') .. '}' end \
    if t == 'number' then return string.format('%.17g', v) end \
    if t == 'string' then return '\"' .. v:gsub(': 0x%x+', ': 0x') .. '\"' end \
    if t == 'boolean' or t == 'nil' then return tostring(v) end return t end \
    local function all(...) local r = {} \
    for i = 1, select('#', ...) do r[i] = show((select(i, ...))) end return table.concat(r, ' ') end ";

/// A script with commands, with library functions, or with an unusual result or error.
pub fn script(rng: &mut Rng) -> Vec<u8> {
    match rng.below(10) {
        0..=3 => commands(rng),
        4..=7 => calls(rng).into_bytes(),
        8 => results(rng).into_bytes(),
        _ => errors(rng).into_bytes(),
    }
}

/// Up to five commands.
fn commands(rng: &mut Rng) -> Vec<u8> {
    let mut lines: Vec<&str> = vec!["local R"];
    for _ in 0..=rng.below(4) {
        lines.push(*rng.pick::<&'static str>(&STEPS));
    }
    lines.push(*rng.pick::<&'static str>(&ENDS));
    lines.join("\n").into_bytes()
}

/// Calls of library functions, whose results or errors are returned as a string.
fn calls(rng: &mut Rng) -> String {
    let mut text = [SHOW, builtins::HELPERS, "local out = {} "].concat();
    let is_library = one_in(rng, 2);
    if is_library {
        text.push_str(&libraries::settings(rng));
    }
    for _ in 0..=rng.below(2) {
        let (name, args) = if is_library { libraries::call(rng) } else { builtins::call(rng) };
        // Without a caller in Lua, errors have neither position nor name. A debug build of Lua's `pcall` fails for many
        // results.
        let is_direct = one_in(rng, 2) && !name.starts_with("cmsgpack.unpack");
        let call = match is_direct {
            true => format!("pcall({name}, {args})"),
            false => format!("pcall(function() return {name}({args}) end)"),
        };
        writeln!(text, "out[#out + 1] = all({call})").expect("a string grows");
    }
    text + "return table.concat(out, ' | ')"
}

/// A table with fields that make a reply of another type.
fn reply(rng: &mut Rng, depth: usize) -> String {
    let inner = |rng: &mut Rng| if depth > 3 { value(rng, 4) } else { reply(rng, depth + 1) };
    match rng.below(14) {
        0 => format!("{{ok = {}}}", string(rng)),
        1 => format!("{{err = {}}}", string(rng)),
        2 => format!("{{double = {}}}", value(rng, 9)),
        3 => format!(
            "{{map = {{[{}] = {}}}}}",
            value(rng, 9).replace("nil", "1").replace("0/0", "1"),
            inner(rng)
        ),
        4 => format!(
            "{{set = {{[{}] = {}}}}}",
            value(rng, 9).replace("nil", "1").replace("0/0", "1"),
            inner(rng)
        ),
        5 => format!("{{big_number = {}}}", string(rng)),
        6 => {
            format!("{{verbatim_string = {{format = {}, string = {}}}}}", string(rng), string(rng))
        }
        7 => format!("redis.error_reply({})", string(rng)),
        8 => format!("redis.status_reply({})", string(rng)),
        9 | 10 => format!("{{{}, {}, {}}}", inner(rng), inner(rng), inner(rng)),
        11 => format!("setmetatable({{{}}}, {{__index = function() return 1 end}})", inner(rng)),
        _ => value(rng, 2),
    }
}

/// A value to raise: not one that is shown with its address. Weft reads the fields of an error without metamethods.
fn error_value(rng: &mut Rng) -> String {
    let mut text = reply(rng, 2).replace("__index", "__unused");
    for name in ["tostring", "type", "coroutine.create(function() end)"] {
        text = text.replace(name, "5");
    }
    text
}

fn results(rng: &mut Rng) -> String {
    let resp3 = if one_in(rng, 2) { "redis.setresp(3) " } else { "" };
    format!("{resp3}return {}", reply(rng, 0))
}

/// Scripts that fail, at compile time or later, or catch a failure.
fn errors(rng: &mut Rng) -> String {
    let raise = match rng.below(6) {
        0 => format!("error({})", error_value(rng)),
        1 => format!("error({}, {})", string(rng), rng.below(4)),
        2 => format!("assert({}, {})", value(rng, 4), error_value(rng)),
        3 => {
            let (left, right) = (value(rng, 4), value(rng, 4));
            let operator =
                pick(rng, &["+", "-", "*", "/", "%", "^", "..", "==", "<", "<=", "and", "or"]);
            format!("local a, b = {left}, {right} local c = a {operator} b")
        }
        4 => format!(
            "local a = {} local b = {}",
            value(rng, 4),
            pick(rng, &["a.x", "a.x.y", "a()", "a.x()", "a:x()", "#a", "-a", "nosuch", "nosuch.x"])
        ),
        _ => format!(
            "redis.call({})",
            pick(
                rng,
                &["", "'nosuch'", "'get'", "'incr', KEYS[1]", "'lpush', KEYS[2], {}", "'publish'"]
            )
        ),
    };
    let mut text = match rng.below(6) {
        0 => format!("{SHOW} return all(pcall(function() {raise} end))"),
        1 => format!(
            "{SHOW} return all(xpcall(function() {raise} end, function(e) return {{e}} end))"
        ),
        2 => format!(
            "{SHOW} local c = coroutine.create(function() {raise} end) return all(coroutine.resume(c))"
        ),
        3 => format!("local function f()\n {raise}\nend\nf()"),
        4 => format!("local f = coroutine.wrap(function()\n{raise} end)\n f()"),
        _ => raise,
    };
    if one_in(rng, 4) {
        let at = rng.below(text.len() + 1);
        if text.is_char_boundary(at) {
            text.insert_str(
                at,
                pick(
                    rng,
                    &[
                        "(", ")", "'", "[[", "--", "end ", "=", "{", "}", "local ", "\0", "~",
                        "0x", "1e",
                    ],
                ),
            );
        }
    }
    text
}

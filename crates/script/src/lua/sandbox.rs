//! The globals of scripts, which they can't change.
//!
//! Lua 5.1 has no read-only tables. A script gets a *proxy* instead of each shared table: an empty table whose
//! metatable reads from the real one and refuses writes. The functions that bypass metatables treat a proxy as the
//! table that it protects: `pairs` and `rawget` read the real one, `rawset`, `setmetatable` and `table.insert` refuse.
//! Only `next` sees an empty table.

use super::frame::{Frame, Kind, Native, Raised};
use super::state::State;

/// The globals that scripts have, without the libraries' tables.
const NAMES: [&str; 24] = [
    "_VERSION",
    "assert",
    "collectgarbage",
    "error",
    "gcinfo",
    "getmetatable",
    "ipairs",
    "load",
    "loadstring",
    "next",
    "pairs",
    "pcall",
    "rawequal",
    "rawget",
    "rawset",
    "select",
    "setmetatable",
    "tonumber",
    "tostring",
    "type",
    "unpack",
    "xpcall",
    "KEYS",
    "ARGV",
];

/// The tables that scripts have.
const TABLES: [&str; 11] = [
    "bit",
    "cjson",
    "cmsgpack",
    "coroutine",
    "math",
    "os",
    "redis",
    "server",
    "string",
    "struct",
    "table",
];

const REPLACED: [(&str, Native); 6] = [
    ("pairs", pairs),
    ("rawget", raw_get),
    ("rawset", raw_set),
    ("setmetatable", set_metatable),
    ("unpack", unpack),
    ("loadstring", load_string),
];

const REPLACED_IN: [(&str, &str, Native); 3] = [
    ("table", "insert", table_insert),
    ("math", "random", random),
    ("math", "randomseed", random_seed),
];

/// The field of a proxy's metatable with the real table. No script sees that metatable.
const REAL: &[u8] = b"__real";
/// Lua's own `next`, which `pairs` returns.
const NEXT: &[u8] = b"weft_next";

/// `xpcall` runs its handler after the error has ended the function: a handler that Lua itself calls, where the error is
/// raised, can't be interrupted if that was in a hook. `pcall` returns the text of an error that `redis.call` has raised.
/// `load` reads its pieces first.
const PRELUDE: &[u8] = br#"
local protected, type, loadstring, concat = pcall, type, loadstring, table.concat
local function handle(handler, ok, ...)
  if ok then return true, ... end
  local _, result = protected(handler, ...)
  return false, result
end
function xpcall(f, handler) return handle(handler, protected(f)) end
local function simplify(ok, ...)
  if ok then return true, ... end
  local e = ...
  if type(e) == 'table' and e.err ~= nil then e = e.err end
  return false, e
end
function pcall(...) return simplify(protected(...)) end
function load(reader, name)
  local pieces = {}
  while true do
    local piece = reader()
    if piece == nil or piece == '' then break end
    if type(piece) ~= 'string' then return nil, 'reader function must return a string' end
    pieces[#pieces + 1] = piece
  end
  return loadstring(concat(pieces), name or '=(load)')
end
"#;

/// Replaces the globals of `state` by those of scripts. Call it after all libraries were opened.
pub(super) fn close(state: &mut State) {
    state.with_globals(|frame| {
        for (name, function) in REPLACED {
            frame.push_native(function);
            frame.set_field(1, name.as_bytes());
        }
        for (table, name, function) in REPLACED_IN {
            frame.get_field(1, table.as_bytes());
            frame.push_native(function);
            frame.set_field(-2, name.as_bytes());
            frame.pop(1);
        }
        frame.get_field(1, b"os");
        keep_only(frame, &[b"clock"]);
        frame.pop(1);
        frame.get_field(1, b"next");
        frame.set_registry(NEXT);
    });
    state.run_prelude(PRELUDE);
    state.with_globals(|frame| {
        push_protected_metatable(frame);
        let shared = frame.len() as i32;
        frame.push_table(0, 64);
        let globals = frame.len() as i32;
        for name in NAMES {
            frame.get_field(1, name.as_bytes());
            frame.set_field(globals, name.as_bytes());
        }
        for name in TABLES {
            frame.get_field(1, name.as_bytes());
            if frame.kind(-1) == Kind::Table {
                push_proxy(frame, shared);
                frame.set_field(globals, name.as_bytes());
            }
            frame.pop(1);
        }
        // `redis` and `server` are one table.
        frame.get_field(globals, b"redis");
        frame.set_field(globals, b"server");
        protect_strings(frame, shared);
        // A missing global is an error.
        frame.push_table(0, 1);
        frame.push_native(missing);
        frame.set_field(-2, b"__index");
        frame.set_metatable(globals);
        frame.push_copy(globals);
        push_proxy(frame, shared);
        frame.push_copy(-1);
        frame.set_field(globals, b"_G");
        frame.push_copy(globals);
        frame.set_registry(GLOBALS);
        frame.set_globals();
        frame.pop(1);
    });
}

/// The registry's name of the table that the proxy of globals protects.
const GLOBALS: &[u8] = b"weft_globals";

/// Makes the last value a global of scripts, and removes it.
pub(super) fn set_global(frame: &mut Frame<'_>, name: &[u8]) {
    frame.get_registry(GLOBALS);
    frame.insert(-2);
    frame.set_field(-2, name);
    frame.pop(1);
}

/// Removes all fields but `names` of the table that is the last value.
fn keep_only(frame: &mut Frame<'_>, names: &[&[u8]]) {
    let mut others = Vec::new();
    frame.push_nil();
    while frame.next(-2) {
        frame.pop(1);
        let name = frame.bytes(-1).unwrap_or_default();
        if !names.contains(&name) {
            others.push(name.to_vec());
        }
    }
    for name in others {
        frame.push_nil();
        frame.set_field(-2, &name);
    }
}

/// Pushes the table that `getmetatable` returns for every proxy: a proxy of an empty table.
fn push_protected_metatable(frame: &mut Frame<'_>) {
    frame.push_table(0, 0);
    frame.push_table(0, 2);
    frame.push_native(refuse_write);
    frame.set_field(-2, b"__newindex");
    frame.push_copy(-2);
    frame.set_field(-2, b"__metatable");
    frame.push_copy(-2);
    frame.set_field(-2, REAL);
    frame.set_metatable(-2);
}

/// Pushes a proxy of the table that is the last value. `shared`: the position of what `getmetatable` returns.
fn push_proxy(frame: &mut Frame<'_>, shared: i32) {
    let real = frame.len() as i32;
    frame.push_table(0, 0);
    frame.push_table(0, 4);
    for name in [b"__index", REAL] {
        frame.push_copy(real);
        frame.set_field(-2, name);
    }
    frame.push_native(refuse_write);
    frame.set_field(-2, b"__newindex");
    frame.push_copy(shared);
    frame.set_field(-2, b"__metatable");
    frame.set_metatable(-2);
}

/// Hides the metatable of strings, whose methods all scripts share (CVE-2025-46818).
fn protect_strings(frame: &mut Frame<'_>, shared: i32) {
    frame.push_bytes(b"");
    if frame.push_metatable(-1) {
        frame.push_copy(shared);
        frame.set_field(-2, b"__metatable");
        frame.pop(1);
    }
    frame.pop(1);
}

/// Pushes the table that the proxy at `at` protects; false, and nothing, if it is no proxy.
fn push_real(frame: &mut Frame<'_>, at: i32) -> bool {
    if frame.kind(at) != Kind::Table || !frame.push_metatable(at) {
        return false;
    }
    frame.get_field(-1, REAL);
    frame.remove(-2);
    if frame.kind(-1) == Kind::Table {
        return true;
    }
    frame.pop(1);
    false
}

fn is_proxy(frame: &mut Frame<'_>, at: i32) -> bool {
    let is_proxy = push_real(frame, at);
    if is_proxy {
        frame.pop(1);
    }
    is_proxy
}

fn refuse_write(frame: &mut Frame<'_>) -> Result<usize, Raised> {
    Err(frame.error("Attempt to modify a readonly table"))
}

/// As [`refuse_write`], for a function, whose error has no position.
fn refuse_change(frame: &mut Frame<'_>) -> Raised {
    frame.push_bytes(b"Attempt to modify a readonly table");
    frame.raise()
}

fn missing(frame: &mut Frame<'_>) -> Result<usize, Raised> {
    let name = String::from_utf8_lossy(frame.bytes(2).unwrap_or_default()).into_owned();
    Err(frame.error(format!("Script attempted to access nonexistent global variable '{name}'")))
}

fn check_table(frame: &mut Frame<'_>, at: usize) -> Result<(), Raised> {
    match frame.kind(at as i32) {
        Kind::Table => Ok(()),
        _ => Err(frame.bad_type(at, "table")),
    }
}

fn pairs(frame: &mut Frame<'_>) -> Result<usize, Raised> {
    check_table(frame, 1)?;
    frame.get_registry(NEXT);
    if !push_real(frame, 1) {
        frame.push_copy(1);
    }
    frame.push_nil();
    Ok(3)
}

fn raw_get(frame: &mut Frame<'_>) -> Result<usize, Raised> {
    check_table(frame, 1)?;
    if frame.len() < 2 {
        return Err(frame.bad_argument(2, "value expected"));
    }
    if !push_real(frame, 1) {
        frame.push_copy(1);
    }
    frame.push_copy(2);
    frame.get(-2);
    Ok(1)
}

fn raw_set(frame: &mut Frame<'_>) -> Result<usize, Raised> {
    check_table(frame, 1)?;
    for at in 2..=3 {
        if frame.len() < at {
            return Err(frame.bad_argument(at, "value expected"));
        }
    }
    if is_proxy(frame, 1) {
        return Err(refuse_change(frame));
    }
    frame.pop(frame.len() - 3);
    if !frame.set(1) {
        return Err(frame.error("table index is nil"));
    }
    Ok(1)
}

fn set_metatable(frame: &mut Frame<'_>) -> Result<usize, Raised> {
    check_table(frame, 1)?;
    if !matches!(frame.kind(2), Kind::Nil | Kind::Table) {
        return Err(frame.bad_argument(2, "nil or table expected"));
    }
    if is_proxy(frame, 1) {
        return Err(refuse_change(frame));
    }
    frame.pop(frame.len() - 2);
    if frame.push_metatable(1) {
        frame.get_field(-1, b"__metatable");
        if frame.kind(-1) != Kind::Nil {
            return Err(frame.error("cannot change a protected metatable"));
        }
        frame.pop(2);
    }
    frame.set_metatable(1);
    Ok(1)
}

/// The integer at `at`, as Lua converts it.
fn integer(frame: &mut Frame<'_>, at: usize) -> Result<i64, Raised> {
    match frame.number(at as i32) {
        Some(number) => Ok(i64::from(number as i64 as i32)),
        None => Err(frame.bad_type(at, "number")),
    }
}

fn unpack(frame: &mut Frame<'_>) -> Result<usize, Raised> {
    check_table(frame, 1)?;
    let is_given = |frame: &Frame<'_>, at| !matches!(frame.kind(at), Kind::Absent | Kind::Nil);
    let from = if is_given(frame, 2) { integer(frame, 2)? } else { 1 };
    let to = if is_given(frame, 3) { integer(frame, 3)? } else { frame.length(1) as i64 };
    let n = usize::try_from(to - from + 1).unwrap_or(0);
    if n == 0 {
        return Ok(0);
    }
    if !frame.reserve(n) {
        return Err(frame.error("too many results to unpack"));
    }
    for at in from..=to {
        frame.get_index(1, at);
    }
    Ok(n)
}

/// Elements that `table.insert` moves at most.
const MOST_MOVED: i64 = 1 << 26;

fn table_insert(frame: &mut Frame<'_>) -> Result<usize, Raised> {
    check_table(frame, 1)?;
    if is_proxy(frame, 1) {
        return Err(refuse_change(frame));
    }
    let end = frame.length(1) as i64 + 1;
    match frame.len() {
        2 => frame.set_index(1, end),
        3 => {
            let at = integer(frame, 2)?;
            if end - at > MOST_MOVED {
                return Err(frame.error("not enough memory"));
            }
            for n in (at + 1..=end).rev() {
                frame.get_index(1, n - 1);
                frame.set_index(1, n);
            }
            frame.set_index(1, at);
        }
        _ => return Err(frame.error("wrong number of arguments to 'insert'")),
    }
    Ok(0)
}

fn load_string(frame: &mut Frame<'_>) -> Result<usize, Raised> {
    let Some(source) = frame.bytes(1).map(<[u8]>::to_vec) else {
        return Err(frame.bad_type(1, "string"));
    };
    let name = frame.bytes(2).unwrap_or(&source);
    let name = name.split(|b| *b == 0).next().unwrap_or_default();
    let name = std::ffi::CString::new(name).unwrap_or_default();
    if frame.compile(&source, &name) {
        return Ok(1);
    }
    frame.push_nil();
    frame.insert(-2);
    Ok(2)
}

/// The generator of POSIX `lrand48`: scripts get the same numbers as on the reference.
fn next_random(frame: &Frame<'_>) -> u64 {
    let state = &frame.context().random;
    state.set((state.get().wrapping_mul(0x5_deec_e66d).wrapping_add(0xb)) & ((1 << 48) - 1));
    state.get() >> 17
}

/// The state of the generator for this seed.
fn seeded(seed: i64) -> u64 {
    u64::from(seed as u32) << 16 | 0x330e
}

fn random(frame: &mut Frame<'_>) -> Result<usize, Raised> {
    const MOST: u64 = i32::MAX as u64;
    let r = (next_random(frame) % MOST) as f64 / MOST as f64;
    let number = match frame.len() {
        0 => r,
        n @ (1 | 2) => {
            let low = if n == 2 { integer(frame, 1)? } else { 1 };
            let high = integer(frame, n)?;
            if low > high {
                return Err(frame.bad_argument(n, "interval is empty"));
            }
            (r * (high - low + 1) as f64).floor() + low as f64
        }
        _ => return Err(frame.error("wrong number of arguments")),
    };
    frame.push_number(number);
    Ok(1)
}

fn random_seed(frame: &mut Frame<'_>) -> Result<usize, Raised> {
    let seed = integer(frame, 1)?;
    frame.context().random.set(seeded(seed));
    Ok(0)
}

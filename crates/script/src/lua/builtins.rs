//! Functions of Lua's libraries that scripts get in another form.
//!
//! * Functions that bypass metatables read the table that a proxy protects, and refuse to change it (`sandbox`).
//! * `unpack`, `load` and `loadstring` don't have the faults of Lua 5.1 (CVE-2025-46817, CVE-2025-49844).
//! * `pcall` returns the text of an error that `redis.call` has raised. A stopped script doesn't continue after it.
//! * `xpcall` calls the handler after the error has ended the function. Lua can't interrupt a handler that it calls where
//!   the error is raised, if that is in a hook.
//! * `collectgarbage` leaves the settings of the collector as they are, for the next scripts.
//! * `math.random` returns the same numbers as the reference.

use super::convert::truncated;
use super::frame::{Frame, Kind, Native, Raised};
use super::strings;

const GLOBAL: [(&str, Native); 11] = [
    ("collectgarbage", collect_garbage),
    ("getmetatable", get_metatable),
    ("load", load),
    ("loadstring", load_string),
    ("pairs", pairs),
    ("pcall", pcall),
    ("rawget", raw_get),
    ("rawset", raw_set),
    ("setmetatable", set_metatable),
    ("unpack", unpack),
    ("xpcall", xpcall),
];

const IN_TABLES: [(&str, &str, Native); 3] = [
    ("table", "insert", table_insert),
    ("math", "random", random),
    ("math", "randomseed", random_seed),
];

/// Lua's own `next`, and the one of scripts, in the registry. `pairs` returns the faster one that is right.
const NEXT: &[u8] = b"weft_next";
const NEXT_OF_PROXY: &[u8] = b"weft_next_of_proxy";

/// Elements that `table.insert` moves at most.
const MOST_MOVED: i64 = 1 << 26;

/// Replaces functions of the globals, which are the first value.
pub(super) fn replace(frame: &mut Frame<'_>) {
    for (name, function) in GLOBAL {
        frame.push_native(function);
        frame.set_field(1, name.as_bytes());
    }
    for (table, name, function) in IN_TABLES {
        frame.get_field(1, table.as_bytes());
        frame.push_native(function);
        frame.set_field(-2, name.as_bytes());
        frame.pop(1);
    }
    strings::replace(frame);
    frame.get_field(1, b"next");
    frame.push_copy(-1);
    frame.set_registry(NEXT);
    frame.make_proxy_reader();
    frame.push_copy(-1);
    frame.set_registry(NEXT_OF_PROXY);
    frame.set_field(1, b"next");
    frame.get_field(1, b"tonumber");
    frame.make_number_reader();
    frame.set_field(1, b"tonumber");
    frame.get_field(1, b"table");
    frame.get_field(-1, b"foreach");
    frame.make_proxy_reader();
    frame.set_field(-2, b"foreach");
    frame.pop(1);
}

fn check_table(frame: &mut Frame<'_>, at: usize) -> Result<(), Raised> {
    match frame.kind(at as i32) {
        Kind::Table => Ok(()),
        _ => Err(frame.bad_type(at, "table")),
    }
}

fn check_any(frame: &mut Frame<'_>, at: usize) -> Result<(), Raised> {
    match frame.len() < at {
        true => Err(frame.bad_argument(at, "value expected")),
        false => Ok(()),
    }
}

/// Raises a string without a position, as Lua does while a function that isn't written in Lua runs.
fn plain_error(frame: &mut Frame<'_>, text: &[u8]) -> Raised {
    frame.push_bytes(text);
    frame.raise()
}

fn refuse_change(frame: &mut Frame<'_>) -> Raised {
    plain_error(frame, b"Attempt to modify a readonly table")
}

fn pairs(frame: &mut Frame<'_>) -> Result<usize, Raised> {
    check_table(frame, 1)?;
    let next = if frame.is_proxy(1) { NEXT_OF_PROXY } else { NEXT };
    frame.get_registry(next);
    frame.push_copy(1);
    frame.push_nil();
    Ok(3)
}

fn raw_get(frame: &mut Frame<'_>) -> Result<usize, Raised> {
    check_table(frame, 1)?;
    check_any(frame, 2)?;
    if !frame.push_real(1) {
        frame.push_copy(1);
    }
    frame.push_copy(2);
    frame.get(-2);
    Ok(1)
}

fn raw_set(frame: &mut Frame<'_>) -> Result<usize, Raised> {
    check_table(frame, 1)?;
    check_any(frame, 2)?;
    check_any(frame, 3)?;
    if frame.is_proxy(1) {
        return Err(refuse_change(frame));
    }
    frame.pop(frame.len() - 3);
    let is_nil = frame.kind(2) == Kind::Nil;
    if !frame.set(1) {
        let name: &[u8] = if is_nil { b"table index is nil" } else { b"table index is NaN" };
        return Err(plain_error(frame, name));
    }
    Ok(1)
}

fn get_metatable(frame: &mut Frame<'_>) -> Result<usize, Raised> {
    check_any(frame, 1)?;
    if !frame.push_metatable(1) {
        frame.push_nil();
        return Ok(1);
    }
    frame.get_field(-1, b"__metatable");
    if frame.kind(-1) == Kind::Nil {
        frame.pop(1);
        if frame.is_proxy(1) {
            frame.push_nil();
        }
    }
    Ok(1)
}

fn set_metatable(frame: &mut Frame<'_>) -> Result<usize, Raised> {
    check_table(frame, 1)?;
    if !matches!(frame.kind(2), Kind::Nil | Kind::Table) {
        return Err(frame.bad_argument(2, "nil or table expected"));
    }
    if frame.is_proxy(1) {
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

/// The integer at `at`, as Lua converts it to 32 bits.
fn integer(frame: &mut Frame<'_>, at: usize) -> Result<i64, Raised> {
    match frame.number(at as i32) {
        Some(number) => Ok(i64::from(truncated(number) as i32)),
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

fn table_insert(frame: &mut Frame<'_>) -> Result<usize, Raised> {
    check_table(frame, 1)?;
    if frame.is_proxy(1) {
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

/// The name of a chunk: the argument at `at` up to a zero byte, or `otherwise`.
fn chunk_name(
    frame: &mut Frame<'_>,
    at: usize,
    otherwise: &[u8],
) -> Result<std::ffi::CString, Raised> {
    let name = match frame.kind(at as i32) {
        Kind::Absent | Kind::Nil => otherwise,
        Kind::String | Kind::Number => frame.bytes(at as i32).unwrap_or_default(),
        _ => return Err(frame.bad_type(at, "string")),
    };
    let name = name.split(|b| *b == 0).next().unwrap_or_default();
    Ok(std::ffi::CString::new(name).unwrap_or_default())
}

/// Returns the compiled function, or nil and the message.
fn compile(frame: &mut Frame<'_>, source: &[u8], name: &std::ffi::CStr) -> Result<usize, Raised> {
    if frame.compile(source, name) {
        return Ok(1);
    }
    frame.push_nil();
    frame.insert(-2);
    Ok(2)
}

fn load_string(frame: &mut Frame<'_>) -> Result<usize, Raised> {
    let Some(source) = frame.bytes(1).map(<[u8]>::to_vec) else {
        return Err(frame.bad_type(1, "string"));
    };
    let name = chunk_name(frame, 2, &source)?;
    compile(frame, &source, &name)
}

fn load(frame: &mut Frame<'_>) -> Result<usize, Raised> {
    if frame.kind(1) != Kind::Function {
        return Err(frame.bad_type(1, "function"));
    }
    let name = chunk_name(frame, 2, b"=(load)")?;
    let mut source = Vec::new();
    loop {
        frame.push_copy(1);
        if frame.call(0, Some(1)).is_err() {
            return nil_and_last(frame);
        }
        match frame.kind(-1) {
            Kind::Nil => break,
            Kind::String | Kind::Number => {}
            _ => {
                let text =
                    [&frame.position(1)[..], b"reader function must return a string"].concat();
                frame.push_bytes(&text);
                return nil_and_last(frame);
            }
        }
        let piece = frame.bytes(-1).unwrap_or_default();
        if piece.is_empty() {
            break;
        }
        if source.len() + piece.len() > Frame::MOST_SOURCE {
            frame.push_bytes(b"not enough memory");
            return nil_and_last(frame);
        }
        source.extend_from_slice(piece);
        frame.pop(1);
    }
    compile(frame, &source, &name)
}

/// Returns nil and the last value: the error of `load`.
fn nil_and_last(frame: &mut Frame<'_>) -> Result<usize, Raised> {
    frame.check_stopped()?;
    frame.push_nil();
    frame.insert(-2);
    Ok(2)
}

fn pcall(frame: &mut Frame<'_>) -> Result<usize, Raised> {
    if frame.is_empty() {
        // As the reference, which then calls its own result.
        frame.push_bool(false);
        frame.push_bytes(b"attempt to call a boolean value");
        return Ok(2);
    }
    let args = frame.len() - 1;
    frame.push_bool(true);
    frame.insert(1);
    if frame.call(args, None).is_ok() {
        return Ok(frame.len());
    }
    frame.check_stopped()?;
    frame.remove(1);
    if frame.kind(1) == Kind::Table {
        // The reference returns the third value too.
        frame.get_field(1, b"err");
        if matches!(frame.kind(-1), Kind::String | Kind::Number) {
            frame.remove(1);
        }
    }
    frame.push_bool(false);
    frame.insert(1);
    Ok(frame.len())
}

fn xpcall(frame: &mut Frame<'_>) -> Result<usize, Raised> {
    check_any(frame, 2)?;
    frame.pop(frame.len() - 2);
    frame.push_bool(true);
    frame.push_copy(1);
    if frame.call(0, None).is_ok() {
        return Ok(frame.len() - 2);
    }
    frame.check_stopped()?;
    frame.push_bool(false);
    frame.push_copy(2);
    frame.push_copy(4);
    if frame.call(1, Some(1)).is_err() {
        frame.check_stopped()?;
        frame.push_bytes(b"error in error handling");
    }
    frame.push_bool(false);
    frame.insert(-2);
    Ok(2)
}

fn collect_garbage(frame: &mut Frame<'_>) -> Result<usize, Raised> {
    /// The settings of Lua: it waits until memory has doubled, and collects twice as fast as scripts allocate.
    const PERCENT: f64 = 200.0;
    let option = match frame.kind(1) {
        Kind::Absent | Kind::Nil => b"collect".to_vec(),
        Kind::String | Kind::Number => frame.bytes(1).unwrap_or_default().to_vec(),
        _ => return Err(frame.bad_type(1, "string")),
    };
    let is_given = !matches!(frame.kind(2), Kind::Absent | Kind::Nil);
    let size = if is_given { integer(frame, 2)? } else { 0 };
    match &option[..] {
        b"collect" => {
            frame.collect();
            frame.push_number(0.0);
        }
        b"step" => {
            let is_cycle_end = frame.collect_step(size as i32);
            frame.push_bool(is_cycle_end);
        }
        b"count" => frame.push_number(frame.memory() as f64 / 1024.0),
        b"stop" | b"restart" => frame.push_number(0.0),
        b"setpause" | b"setstepmul" => frame.push_number(PERCENT),
        _ => {
            let option = String::from_utf8_lossy(&option).into_owned();
            return Err(frame.bad_argument(1, format!("invalid option '{option}'")));
        }
    }
    Ok(1)
}

/// The generator of POSIX `lrand48`.
fn next_random(frame: &Frame<'_>) -> u64 {
    let state = &frame.context().random;
    state.set((state.get().wrapping_mul(0x5_deec_e66d).wrapping_add(0xb)) & ((1 << 48) - 1));
    state.get() >> 17
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
            // The reference counts in 32 bits.
            (r * f64::from((high - low + 1) as i32)).floor() + low as f64
        }
        _ => return Err(frame.error("wrong number of arguments")),
    };
    frame.push_number(number);
    Ok(1)
}

fn random_seed(frame: &mut Frame<'_>) -> Result<usize, Raised> {
    let seed = integer(frame, 1)?;
    frame.context().random.set(u64::from(seed as u32) << 16 | 0x330e);
    Ok(0)
}

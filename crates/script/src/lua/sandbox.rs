//! The globals of scripts, which they can't change.
//!
//! Lua 5.1 has no read-only tables. A script gets a *proxy* instead of each shared table: an empty table whose
//! metatable reads from the real one and refuses writes. The functions that bypass metatables treat a proxy as the
//! table that it protects ([`super::builtins`]). No function returns the real one to a script.

use super::builtins;
use super::frame::{Frame, Kind, Native, REAL, Raised};
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

/// Replaces the globals of `state` by those of scripts. Call it after all libraries were opened.
pub(super) fn close(state: &mut State) {
    state.with_globals(|frame| {
        builtins::replace(frame);
        frame.get_field(1, b"os");
        keep_only(frame, &[b"clock"]);
        frame.pop(1);
        frame.push_table(0, 64);
        let globals = frame.len() as i32;
        for name in NAMES {
            frame.get_field(1, name.as_bytes());
            frame.set_field(globals, name.as_bytes());
        }
        for name in TABLES {
            frame.get_field(1, name.as_bytes());
            if frame.kind(-1) == Kind::Table {
                push_proxy(frame);
                frame.set_field(globals, name.as_bytes());
            }
            frame.pop(1);
        }
        // `redis` and `server` are one table.
        frame.get_field(globals, b"redis");
        frame.set_field(globals, b"server");
        protect_strings(frame, globals);
        // A missing global is an error.
        push_index(frame, missing);
        frame.set_metatable(globals);
        frame.push_copy(globals);
        push_proxy(frame);
        show_metatable(frame, missing);
        frame.push_copy(-1);
        frame.set_field(globals, b"_G");
        frame.push_copy(globals);
        frame.set_registry(GLOBALS);
        frame.push_copy(-1);
        frame.set_registry(ENVIRONMENT);
        frame.set_globals();
        frame.pop(1);
    });
}

/// The registry's name of the table that the proxy of globals protects.
const GLOBALS: &[u8] = b"weft_globals";

/// The registry's name of that proxy, the environment of scripts.
const ENVIRONMENT: &[u8] = b"weft_environment_of_scripts";

/// Functions that are compiled from here on see the globals of scripts.
pub(super) fn restore_globals(frame: &mut Frame<'_>) {
    frame.get_registry(ENVIRONMENT);
    frame.set_globals();
}

/// Pushes the globals of functions: those of scripts without KEYS and ARGV, and with another `redis`, which `push_api`
/// pushes.
pub(super) fn push_function_globals(frame: &mut Frame<'_>, push_api: fn(&mut Frame<'_>)) {
    frame.get_registry(GLOBALS);
    let scripts = frame.len() as i32;
    frame.push_table(0, 64);
    let globals = scripts + 1;
    let names = NAMES.iter().filter(|name| !matches!(**name, "KEYS" | "ARGV"));
    for name in names.chain(&TABLES) {
        frame.get_field(scripts, name.as_bytes());
        frame.set_field(globals, name.as_bytes());
    }
    push_api(frame);
    set_api(frame, globals);
    push_index(frame, missing);
    frame.set_metatable(globals);
    frame.push_copy(globals);
    push_proxy(frame);
    show_metatable(frame, missing);
    frame.set_field(globals, b"_G");
    frame.pop(1);
    frame.remove(scripts);
}

/// Replaces the last value, a table of functions, by the globals of the code that loads a library: `redis` and `server`.
pub(super) fn push_library_globals(frame: &mut Frame<'_>) {
    push_index(frame, missing);
    frame.set_metatable(-2);
    frame.push_table(0, 2);
    frame.insert(-2);
    set_api(frame, frame.len() as i32 - 1);
    push_index(frame, missing);
    frame.set_metatable(-2);
}

/// Removes the last value and makes its proxy `redis` and `server` of the table at `globals`.
fn set_api(frame: &mut Frame<'_>, globals: i32) {
    push_proxy(frame);
    frame.push_copy(-1);
    frame.set_field(globals, b"redis");
    frame.set_field(globals, b"server");
    frame.pop(1);
}

/// Pushes the metatable of an empty table that reads from the table at `globals` and refuses writes.
pub(super) fn push_environment_metatable(frame: &mut Frame<'_>, globals: i32) {
    frame.push_table(0, 2);
    frame.push_copy(globals);
    frame.set_field(-2, b"__index");
    frame.push_native(refuse_write);
    frame.set_field(-2, b"__newindex");
}

/// Pushes the table with the globals of scripts, which they can't change.
pub(super) fn push_globals(frame: &mut Frame<'_>) {
    frame.get_registry(GLOBALS);
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

/// Pushes a table whose only field is `__index`.
fn push_index(frame: &mut Frame<'_>, function: Native) {
    frame.push_table(0, 1);
    frame.push_native(function);
    frame.set_field(-2, b"__index");
}

/// Pushes a proxy of the table that is the last value.
fn push_proxy(frame: &mut Frame<'_>) {
    let real = frame.len() as i32;
    frame.push_table(0, 0);
    frame.push_table(0, 4);
    for name in [&b"__index"[..], REAL] {
        frame.push_copy(real);
        frame.set_field(-2, name);
    }
    frame.push_native(refuse_write);
    frame.set_field(-2, b"__newindex");
    frame.set_metatable(-2);
}

/// Makes `getmetatable` return a protected table with this `__index` for the proxy that is the last value.
fn show_metatable(frame: &mut Frame<'_>, index: Native) {
    let proxy = frame.len() as i32;
    if frame.push_metatable(proxy) {
        push_index(frame, index);
        push_proxy(frame);
        frame.set_field(proxy + 1, b"__metatable");
    }
    frame.pop(frame.len() - proxy as usize);
}

/// Hides the metatable of strings, whose methods all scripts share (CVE-2025-46818): `getmetatable` returns a protected
/// table. `globals`: the position of those of scripts.
fn protect_strings(frame: &mut Frame<'_>, globals: i32) {
    let before = frame.len();
    frame.push_bytes(b"");
    if frame.push_metatable(-1) {
        let metatable = frame.len() as i32;
        frame.push_table(0, 1);
        frame.get_field(globals, b"string");
        frame.set_field(-2, b"__index");
        push_proxy(frame);
        frame.set_field(metatable, b"__metatable");
    }
    frame.pop(frame.len() - before);
}

fn refuse_write(frame: &mut Frame<'_>) -> Result<usize, Raised> {
    Err(frame.error("Attempt to modify a readonly table"))
}

fn missing(frame: &mut Frame<'_>) -> Result<usize, Raised> {
    let text = match frame.bytes(2) {
        Some(name) => {
            let name = name.split(|b| *b == 0).next().unwrap_or_default();
            [b"Script attempted to access nonexistent global variable '", name, b"'"].concat()
        }
        None => b"Second argument to luaProtectedTableError must be a string or number".to_vec(),
    };
    Err(frame.error(text))
}

//! The globals of functions, and `redis.register_function`.
//!
//! The environment of a library's code is an empty table, whose metatable reads from other globals while the library is
//! loaded (`redis` with few functions) than while its functions run. So the code that loads it can't call commands, and
//! functions can't register others.

use super::convert::until_zero;
use super::frame::{Frame, Kind, Raised};
use super::state::State;
use super::{api, sandbox};
use crate::engine::Registered;
use crate::flags::ScriptFlags;

/// The registry's names.
const ENVIRONMENT: &[u8] = b"weft_environment";
const METATABLE: &[u8] = b"weft_environment_meta";
const WHILE_LOADING: &[u8] = b"weft_globals_loading";
const WHILE_RUNNING: &[u8] = b"weft_globals_running";
/// The functions that a library has registered, by number from 1.
const FUNCTIONS: &[u8] = b"weft_functions";

/// Makes the environment. Call it after [`sandbox::close`].
pub(super) fn open(state: &mut State) {
    state.with(|frame| {
        sandbox::push_function_globals(frame, api::push_for_functions);
        frame.push_copy(-1);
        frame.set_registry(WHILE_RUNNING);
        let running = frame.len() as i32;

        api::push_for_libraries(frame);
        frame.push_native(register_function);
        frame.set_field(-2, b"register_function");
        sandbox::push_library_globals(frame);
        frame.set_registry(WHILE_LOADING);

        frame.push_table(0, 0);
        sandbox::push_environment_metatable(frame, running);
        frame.push_copy(-1);
        frame.set_registry(METATABLE);
        frame.set_metatable(-2);
        frame.set_registry(ENVIRONMENT);
    });
}

/// Functions that are compiled from here on see the globals of functions, until [`leave`].
pub(super) fn enter(frame: &mut Frame<'_>) {
    frame.get_registry(ENVIRONMENT);
    frame.set_globals();
}

pub(super) fn leave(frame: &mut Frame<'_>) {
    sandbox::restore_globals(frame);
}

/// As [`enter`], before a library is loaded.
pub(super) fn begin(frame: &mut Frame<'_>) {
    frame.context().loading.replace(Some(Vec::new()));
    frame.push_table(0, 0);
    frame.set_registry(FUNCTIONS);
    show(frame, WHILE_LOADING);
    enter(frame);
}

/// After a library was loaded. Returns its functions and pushes the table of them.
pub(super) fn end(frame: &mut Frame<'_>) -> Vec<Registered> {
    show(frame, WHILE_RUNNING);
    leave(frame);
    frame.get_registry(FUNCTIONS);
    frame.push_nil();
    frame.set_registry(FUNCTIONS);
    frame.context().loading.take().unwrap_or_default()
}

fn show(frame: &mut Frame<'_>, globals: &[u8]) {
    frame.get_registry(METATABLE);
    frame.get_registry(globals);
    frame.set_field(-2, b"__index");
    frame.pop(1);
}

fn error(frame: &mut Frame<'_>, text: &str) -> Raised {
    api::error(frame, &format!("ERR {text}"))
}

fn register_function(frame: &mut Frame<'_>) -> Result<usize, Raised> {
    if frame.context().loading.borrow().is_none() {
        let text = "server.register_function can only be called on FUNCTION LOAD command";
        return Err(error(frame, text));
    }
    let read = match frame.len() {
        1 => read_named(frame),
        2 => read_positional(frame),
        _ => Err("wrong number of arguments to server.register_function"),
    };
    // The callback is the last value.
    let registered = match read {
        Ok(registered) => registered,
        Err(text) => return Err(error(frame, text)),
    };
    let mut number = 0;
    if let Some(functions) = frame.context().loading.borrow_mut().as_mut() {
        functions.push(registered);
        number = functions.len();
    }
    frame.get_registry(FUNCTIONS);
    frame.insert(-2);
    frame.set_index(-2, number as i64);
    Ok(0)
}

/// A string or a number.
fn text(frame: &Frame<'_>, at: i32) -> Option<Vec<u8>> {
    matches!(frame.kind(at), Kind::String | Kind::Number)
        .then(|| frame.bytes(at).unwrap_or_default().to_vec())
}

fn read_positional(frame: &mut Frame<'_>) -> Result<Registered, &'static str> {
    let name =
        text(frame, 1).ok_or("first argument to server.register_function must be a string")?;
    if frame.kind(2) != Kind::Function {
        return Err("second argument to server.register_function must be a function");
    }
    Ok(Registered { name, description: None, flags: ScriptFlags::default() })
}

/// Reads `register_function{function_name = ..., callback = ...}`, and pushes the callback.
fn read_named(frame: &mut Frame<'_>) -> Result<Registered, &'static str> {
    if frame.kind(1) != Kind::Table {
        return Err(
            "calling server.register_function with a single argument is only applicable to Lua \
             table (representing named arguments).",
        );
    }
    // Position 2 has the callback.
    frame.push_nil();
    let (mut name, mut description, mut flags) = (None, None, ScriptFlags::default());
    frame.push_nil();
    while frame.next(1) {
        // A number stays one, since it is a key.
        if !matches!(frame.kind(-2), Kind::String | Kind::Number) {
            return Err("named argument key given to server.register_function is not a string");
        }
        let key = match frame.kind(-2) {
            Kind::String => until_zero(frame.bytes(-2).unwrap_or_default()).to_ascii_lowercase(),
            _ => Vec::new(),
        };
        match &key[..] {
            b"function_name" => {
                let wrong =
                    "function_name argument given to server.register_function must be a string";
                name = Some(text(frame, -1).ok_or(wrong)?);
            }
            b"description" => {
                let wrong =
                    "description argument given to server.register_function must be a string";
                description = Some(text(frame, -1).ok_or(wrong)?);
            }
            b"callback" if frame.kind(-1) == Kind::Function => {
                frame.push_copy(-1);
                frame.insert(2);
                frame.remove(3);
            }
            b"callback" => {
                return Err(
                    "callback argument given to server.register_function must be a function",
                );
            }
            b"flags" => flags = read_flags(frame)?,
            _ => return Err("unknown argument given to server.register_function"),
        }
        frame.pop(1);
    }
    let name = name.ok_or("server.register_function must get a function name argument")?;
    match frame.kind(2) {
        Kind::Function => Ok(Registered { name, description, flags }),
        _ => Err("server.register_function must get a callback argument"),
    }
}

/// Reads the list of flags that is the last value.
fn read_flags(frame: &mut Frame<'_>) -> Result<ScriptFlags, &'static str> {
    if frame.kind(-1) != Kind::Table {
        return Err(
            "flags argument to server.register_function must be a table representing function \
             flags",
        );
    }
    let mut flags = ScriptFlags::default();
    for n in 1.. {
        frame.get_index(-1, n);
        if frame.kind(-1) == Kind::Nil {
            break;
        }
        let name = text(frame, -1).unwrap_or_default();
        if !flags.add(&until_zero(&name).to_ascii_lowercase()) {
            return Err("unknown flag given");
        }
        frame.pop(1);
    }
    frame.pop(1);
    Ok(flags)
}

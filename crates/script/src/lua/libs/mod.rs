//! The libraries of scripts in addition to Lua's own. They read and write tables without metamethods.

mod bit;
mod cjson;
mod cmsgpack;
mod json_text;
mod structs;

use super::frame::{Frame, Native, Raised};
use super::state::State;

/// Adds them to the globals.
pub(super) fn open(state: &mut State) {
    state.with_globals(|frame| {
        for (name, functions) in [
            ("bit", bit::FUNCTIONS),
            ("cjson", cjson::FUNCTIONS),
            ("cmsgpack", cmsgpack::FUNCTIONS),
            ("struct", structs::FUNCTIONS),
        ] {
            frame.push_table(0, functions.len() + 4);
            add(frame, functions);
            frame.set_field(1, name.as_bytes());
        }
        frame.get_field(1, b"cjson");
        cjson::add_fields(frame);
        frame.get_field(1, b"cmsgpack");
        for (name, text) in cmsgpack::TEXTS {
            frame.push_bytes(text.as_bytes());
            frame.set_field(-2, name.as_bytes());
        }
    });
}

/// Adds functions to the table that is the last value.
fn add(frame: &mut Frame<'_>, functions: &[(&str, Native)]) {
    for (name, function) in functions {
        frame.push_native(*function);
        frame.set_field(-2, name.as_bytes());
    }
}

/// Argument `at` as a string.
fn string(frame: &mut Frame<'_>, at: usize) -> Result<Vec<u8>, Raised> {
    match frame.bytes(at as i32) {
        Some(bytes) => Ok(bytes.to_vec()),
        None => Err(frame.bad_type(at, "string")),
    }
}

/// Argument `at` as a number.
fn number(frame: &mut Frame<'_>, at: usize) -> Result<f64, Raised> {
    match frame.number(at as i32) {
        Some(number) => Ok(number),
        None => Err(frame.bad_type(at, "number")),
    }
}

/// Argument `at` as an integer of 32 bits, as Lua converts it.
fn integer(frame: &mut Frame<'_>, at: usize) -> Result<i64, Raised> {
    number(frame, at).map(|number| i64::from(number as i64 as i32))
}

/// As [`integer`]; `otherwise` if the argument is absent or nil.
fn integer_or(frame: &mut Frame<'_>, at: usize, otherwise: i64) -> Result<i64, Raised> {
    use super::frame::Kind;
    match frame.kind(at as i32) {
        Kind::Absent | Kind::Nil => Ok(otherwise),
        _ => integer(frame, at),
    }
}

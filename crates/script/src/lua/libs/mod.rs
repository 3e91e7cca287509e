//! The libraries of scripts that are not Lua's own: the results, limits and errors are those of Valkey.
//!
//! ```text
//!  bit        operations on 32 bits
//!  cjson      JSON
//!  cmsgpack   MessagePack
//!  struct_    binary structures
//!  number     numbers as C prints, reads and converts them
//! ```

mod bit;
mod cjson;
mod cmsgpack;
mod number;
mod struct_;
#[cfg(test)]
mod tests;

use super::frame::{Frame, Kind, Native, Raised};
use super::state::State;

/// Values that Lua lets a function have on its stack.
const MOST_STACK: usize = 8000;

/// Adds the libraries to the globals.
pub(super) fn open(state: &mut State) {
    state.with_globals(|frame| {
        for (name, push) in [
            ("bit", bit::push as fn(&mut Frame<'_>)),
            ("cjson", cjson::push),
            ("cmsgpack", cmsgpack::push),
            ("struct", struct_::push),
        ] {
            push(frame);
            frame.set_field(1, name.as_bytes());
        }
    });
}

/// Pushes a table with these functions.
fn push_functions(frame: &mut Frame<'_>, functions: &[(&str, Native)]) {
    frame.push_table(0, functions.len());
    for (name, function) in functions {
        frame.push_native(*function);
        frame.set_field(-2, name.as_bytes());
    }
}

/// Adds a string to the table that is the last value.
fn set_text(frame: &mut Frame<'_>, name: &str, text: &str) {
    frame.push_bytes(text.as_bytes());
    frame.set_field(-2, name.as_bytes());
}

/// The number at `at`, or a string that is one.
fn check_number(frame: &mut Frame<'_>, at: usize) -> Result<f64, Raised> {
    match frame.number(at as i32) {
        Some(number) => Ok(number),
        None => Err(frame.bad_type(at, "number")),
    }
}

fn check_integer(frame: &mut Frame<'_>, at: usize) -> Result<i64, Raised> {
    check_number(frame, at).map(number::to_i64)
}

fn is_given(frame: &Frame<'_>, at: usize) -> bool {
    !matches!(frame.kind(at as i32), Kind::Absent | Kind::Nil)
}

fn integer_or(frame: &mut Frame<'_>, at: usize, default: i64) -> Result<i64, Raised> {
    if is_given(frame, at) { check_integer(frame, at) } else { Ok(default) }
}

/// Makes sure that a string is at `at`. A number becomes one.
fn check_string(frame: &mut Frame<'_>, at: usize) -> Result<(), Raised> {
    match frame.bytes(at as i32) {
        Some(_) => Ok(()),
        None => Err(frame.bad_type(at, "string")),
    }
}

/// The bytes before the first zero, which ends a string for C.
fn before_zero(bytes: &[u8]) -> &[u8] {
    bytes.split(|byte| *byte == 0).next().unwrap_or_default()
}

/// Makes room for `n` values in addition to the frame's and `hidden` ones, which the reference has on its stack.
fn check_stack(frame: &mut Frame<'_>, hidden: usize, n: usize, place: &str) -> Result<(), Raised> {
    if frame.len() + hidden + n <= MOST_STACK && frame.reserve(n) {
        return Ok(());
    }
    Err(error_when_full(frame, format!("stack overflow ({place})")))
}

/// Replaces the proxy of a protected table that is the last value by that table, which only the caller may see. Needs room
/// for two values.
fn unwrap_proxy(frame: &mut Frame<'_>) {
    if frame.push_real(-1) {
        frame.remove(-2);
    }
}

/// As [`Frame::error`], if there may be no room for another value.
fn error_when_full(frame: &mut Frame<'_>, text: impl AsRef<[u8]>) -> Raised {
    frame.pop(frame.len());
    frame.error(text)
}

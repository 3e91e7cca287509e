//! The settings of `cjson`, in a table that belongs to its functions.

use super::super::{before_zero, check_integer, check_string, is_given};
use crate::lua::frame::{Frame, Kind, Raised};

/// A setting, by its position in the table.
#[derive(Clone, Copy)]
pub(super) enum Setting {
    /// Whether a sparse array becomes an object, and isn't an error.
    SparseConvert = 1,
    /// An array is sparse if its length is more than so many times the number of its elements; 0: never.
    SparseRatio,
    /// It is not sparse up to this length.
    SparseSafe,
    EncodeDepth,
    DecodeDepth,
    /// 0: an error, 1: `nan` and `inf`, 2: `null`.
    EncodeInvalid,
    DecodeInvalid,
    /// Without effect.
    KeepBuffer,
    /// Significant digits.
    Precision,
}

use Setting::*;

const DEFAULTS: [(Setting, i32); 9] = [
    (SparseConvert, 0),
    (SparseRatio, 2),
    (SparseSafe, 10),
    (EncodeDepth, 1000),
    (DecodeDepth, 1000),
    (EncodeInvalid, 0),
    (DecodeInvalid, 1),
    (KeepBuffer, 1),
    (Precision, 14),
];

/// Pushes a table of default settings.
pub(super) fn push(frame: &mut Frame<'_>) {
    frame.push_table(DEFAULTS.len(), 0);
    for (setting, value) in DEFAULTS {
        frame.push_number(f64::from(value));
        frame.set_index(-2, setting as i64);
    }
}

/// Reads settings of the running function.
pub(super) fn read<const N: usize>(frame: &mut Frame<'_>, settings: [Setting; N]) -> [i32; N] {
    frame.push_own();
    let values = settings.map(|setting| {
        frame.get_index(-1, setting as i64);
        let value = frame.number(-1).expect("a setting is a number");
        frame.pop(1);
        value as i32
    });
    frame.pop(1);
    values
}

fn write(frame: &mut Frame<'_>, setting: Setting, value: i32) {
    frame.push_own();
    frame.push_number(f64::from(value));
    frame.set_index(-2, setting as i64);
    frame.pop(1);
}

/// Missing arguments become nil.
fn take_arguments(frame: &mut Frame<'_>, n: usize) -> Result<(), Raised> {
    if frame.len() > n {
        return Err(frame.bad_argument(n + 1, "found too many arguments"));
    }
    while frame.len() < n {
        frame.push_nil();
    }
    Ok(())
}

/// Sets an integer to argument `at`, if it is given, and pushes it.
fn integer(
    frame: &mut Frame<'_>,
    at: usize,
    setting: Setting,
    least: i32,
    most: i32,
) -> Result<usize, Raised> {
    if is_given(frame, at) {
        let value = check_integer(frame, at)? as i32;
        if value < least || value > most {
            let problem = format!("expected integer between {least} and {most}");
            return Err(frame.bad_argument(1, problem));
        }
        write(frame, setting, value);
    }
    let [value] = read(frame, [setting]);
    frame.push_number(f64::from(value));
    Ok(1)
}

/// Sets a choice to argument `at`, if it is given, and pushes it. The first two, "off" and "on", are false and true.
fn choice(
    frame: &mut Frame<'_>,
    at: usize,
    setting: Setting,
    choices: &[&str],
) -> Result<usize, Raised> {
    if frame.kind(at as i32) == Kind::Boolean {
        let value = i32::from(frame.is_true(at as i32));
        write(frame, setting, value);
    } else if is_given(frame, at) {
        check_string(frame, at)?;
        let name = before_zero(frame.bytes(at as i32).unwrap_or_default());
        let Some(value) = choices.iter().position(|choice| choice.as_bytes() == name) else {
            let problem = [b"invalid option '", name, b"'"].concat();
            return Err(frame.bad_argument(at, problem));
        };
        write(frame, setting, value as i32);
    }
    match read(frame, [setting]) {
        [value @ (0 | 1)] => frame.push_bool(value == 1),
        [value] => frame.push_bytes(choices[value as usize].as_bytes()),
    }
    Ok(1)
}

const SWITCH: [&str; 2] = ["off", "on"];

pub(super) fn encode_sparse_array(frame: &mut Frame<'_>) -> Result<usize, Raised> {
    take_arguments(frame, 3)?;
    choice(frame, 1, SparseConvert, &SWITCH)?;
    integer(frame, 2, SparseRatio, 0, i32::MAX)?;
    integer(frame, 3, SparseSafe, 0, i32::MAX)?;
    Ok(3)
}

pub(super) fn encode_max_depth(frame: &mut Frame<'_>) -> Result<usize, Raised> {
    take_arguments(frame, 1)?;
    integer(frame, 1, EncodeDepth, 1, i32::MAX)
}

pub(super) fn decode_max_depth(frame: &mut Frame<'_>) -> Result<usize, Raised> {
    take_arguments(frame, 1)?;
    integer(frame, 1, DecodeDepth, 1, i32::MAX)
}

pub(super) fn encode_number_precision(frame: &mut Frame<'_>) -> Result<usize, Raised> {
    take_arguments(frame, 1)?;
    integer(frame, 1, Precision, 1, 14)
}

pub(super) fn encode_keep_buffer(frame: &mut Frame<'_>) -> Result<usize, Raised> {
    take_arguments(frame, 1)?;
    choice(frame, 1, KeepBuffer, &SWITCH)
}

pub(super) fn encode_invalid_numbers(frame: &mut Frame<'_>) -> Result<usize, Raised> {
    take_arguments(frame, 1)?;
    choice(frame, 1, EncodeInvalid, &["off", "on", "null"])
}

pub(super) fn decode_invalid_numbers(frame: &mut Frame<'_>) -> Result<usize, Raised> {
    take_arguments(frame, 1)?;
    choice(frame, 1, DecodeInvalid, &SWITCH)
}

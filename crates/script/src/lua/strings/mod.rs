//! Functions of `string` whose originals a script can make endless, or let overflow the stack: patterns, plain searches
//! and repetitions. The others of Lua's library remain.

mod gsub;
mod pattern;

use super::convert::{truncated, until_zero};
use super::frame::{Frame, Kind, Native, Raised};
use pattern::{Capture, Failure, Match, Matcher};

const FUNCTIONS: [(&str, Native); 5] =
    [("find", find), ("match", match_), ("gmatch", gmatch), ("gfind", gmatch), ("rep", rep)];

/// Replaces the functions of the globals' `string`. The globals are the first value.
pub(super) fn replace(frame: &mut Frame<'_>) {
    frame.get_field(1, b"string");
    for (name, function) in FUNCTIONS {
        frame.push_native(function);
        frame.set_field(-2, name.as_bytes());
    }
    frame.push_calling(gsub::gsub);
    frame.set_field(-2, b"gsub");
    frame.pop(1);
}

/// Makes sure that argument `at` is a string. A number becomes one.
fn check_string(frame: &mut Frame<'_>, at: usize) -> Result<(), Raised> {
    match frame.bytes(at as i32) {
        Some(_) => Ok(()),
        None => Err(frame.bad_type(at, "string")),
    }
}

fn check_integer(frame: &mut Frame<'_>, at: usize) -> Result<i64, Raised> {
    match frame.number(at as i32) {
        Some(number) => Ok(truncated(number)),
        None => Err(frame.bad_type(at, "number")),
    }
}

fn integer_or(frame: &mut Frame<'_>, at: usize, default: i64) -> Result<i64, Raised> {
    match frame.kind(at as i32) {
        Kind::Absent | Kind::Nil => Ok(default),
        _ => check_integer(frame, at),
    }
}

/// Removes the arguments after the first `n`, so that there is room for results.
fn keep_arguments(frame: &mut Frame<'_>, n: usize) {
    frame.pop(frame.len().saturating_sub(n));
}

/// The text of argument `at`, which is a string.
fn text<'a>(frame: &'a Frame<'_>, at: i32) -> &'a [u8] {
    frame.bytes(at).unwrap_or_default()
}

/// Calls `act` with a matcher of the pattern at `pattern` in the string at `subject`.
fn with_matcher<R>(
    frame: &mut Frame<'_>,
    subject: i32,
    pattern: i32,
    act: impl FnOnce(&mut Matcher<'_>) -> Result<R, Failure>,
) -> Result<R, Raised> {
    let context = frame.context();
    let mut tick = || context.with_host(|host| host.interrupt().is_ok()).unwrap_or(true);
    let (subject, pattern) = (text(frame, subject), text(frame, pattern));
    let result = act(&mut Matcher::new(subject, pattern, &mut tick));
    result.map_err(|failure| fail(frame, failure))
}

fn fail(frame: &mut Frame<'_>, failure: Failure) -> Raised {
    match failure {
        Failure::Error(text) => frame.error(text),
        Failure::Stopped => frame.stop(),
    }
}

/// Pushes a capture of the string at `subject`.
fn push_capture(
    frame: &mut Frame<'_>,
    subject: i32,
    capture: Result<Capture, Failure>,
) -> Result<(), Raised> {
    match capture.map_err(|failure| fail(frame, failure))? {
        Capture::Part(from, to) => frame.push_part(subject, from..to),
        Capture::Position(at) | Capture::Open(at) => frame.push_number(at as f64 + 1.0),
    }
    Ok(())
}

/// Pushes the captures, or, without any and with `whole`, the whole match. Returns their number.
fn push_captures(
    frame: &mut Frame<'_>,
    subject: i32,
    found: &Match,
    whole: bool,
) -> Result<usize, Raised> {
    let mut n = 0;
    for capture in found.captures(whole) {
        if !frame.reserve(1) {
            return Err(frame.error("stack overflow (too many captures)"));
        }
        push_capture(frame, subject, capture)?;
        n += 1;
    }
    Ok(n)
}

fn find(frame: &mut Frame<'_>) -> Result<usize, Raised> {
    search(frame, true)
}

fn match_(frame: &mut Frame<'_>) -> Result<usize, Raised> {
    search(frame, false)
}

fn search(frame: &mut Frame<'_>, is_find: bool) -> Result<usize, Raised> {
    check_string(frame, 1)?;
    check_string(frame, 2)?;
    let from = integer_or(frame, 3, 1)?;
    keep_arguments(frame, 4);
    let len = frame.length(1) as i64;
    let from = if from < 0 { from.saturating_add(len + 1).max(0) } else { from };
    let from = (from - 1).clamp(0, len) as usize;
    let is_special = |byte: &u8| b"^$*+?.([%-".contains(byte);
    if is_find && (frame.is_true(4) || !until_zero(text(frame, 2)).iter().any(is_special)) {
        return Ok(find_plain(frame, from));
    }
    let found = with_matcher(frame, 1, 2, |matcher| {
        let is_anchored = matcher.strip_anchor();
        if is_anchored { matcher.match_at(from) } else { matcher.find(from) }
    })?;
    let Some(found) = found else {
        frame.push_nil();
        return Ok(1);
    };
    if !is_find {
        return push_captures(frame, 1, &found, true);
    }
    frame.push_number(found.start as f64 + 1.0);
    frame.push_number(found.end as f64);
    Ok(2 + push_captures(frame, 1, &found, false)?)
}

fn find_plain(frame: &mut Frame<'_>, from: usize) -> usize {
    let (subject, wanted) = (text(frame, 1), text(frame, 2));
    let len = wanted.len();
    let Some(at) = memchr::memmem::find(&subject[from..], wanted) else {
        frame.push_nil();
        return 1;
    };
    let at = from + at;
    frame.push_number(at as f64 + 1.0);
    frame.push_number((at + len) as f64);
    2
}

/// Returns an iterator: a function with a table of subject, pattern and next position.
fn gmatch(frame: &mut Frame<'_>) -> Result<usize, Raised> {
    check_string(frame, 1)?;
    check_string(frame, 2)?;
    keep_arguments(frame, 2);
    frame.push_table(3, 0);
    for at in 1..=2 {
        frame.push_copy(at);
        frame.set_index(-2, i64::from(at));
    }
    frame.push_number(0.0);
    frame.set_index(-2, 3);
    frame.push_native_with(gmatch_next);
    Ok(1)
}

fn gmatch_next(frame: &mut Frame<'_>) -> Result<usize, Raised> {
    keep_arguments(frame, 0);
    frame.push_own();
    let own = frame.len() as i32;
    for n in 1..=3 {
        frame.get_index(own, n);
    }
    let from = frame.number(-1).unwrap_or_default() as usize;
    let found = with_matcher(frame, own + 1, own + 2, |matcher| matcher.find(from))?;
    let Some(found) = found else { return Ok(0) };
    // After an empty match, at least one byte on.
    let next = found.end + usize::from(found.end == found.start);
    frame.push_number(next as f64);
    frame.set_index(own, 3);
    push_captures(frame, own + 1, &found, true)
}

fn rep(frame: &mut Frame<'_>) -> Result<usize, Raised> {
    check_string(frame, 1)?;
    let n = check_integer(frame, 2)? as i32;
    let n = usize::try_from(n).unwrap_or(0);
    let len = frame.length(1).saturating_mul(n);
    frame.check_room(len)?;
    let text = if len == 0 { Vec::new() } else { text(frame, 1).repeat(n) };
    frame.push_bytes(&text);
    Ok(1)
}

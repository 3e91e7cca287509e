//! `string.gsub`.
//!
//! Lua calls a script's replacement function between two calls of [`gsub`], not inside of one: an error there is raised
//! where it happens. So the state of a call is on Lua's stack.

use super::pattern::Match;
use super::{check_string, integer_or, push_capture, push_captures, text, with_matcher};
use crate::lua::frame::functions::Next;
use crate::lua::frame::{Frame, Kind, Raised};

// Positions of values. The first three are arguments.
const SUBJECT: i32 = 1;
const PATTERN: i32 = 2;
const REPLACEMENT: i32 = 3;
/// Replacements that are still allowed.
const LEFT: i32 = 4;
/// A table: the parts of the result.
const PARTS: i32 = 5;
/// Bytes of the parts.
const LEN: i32 = 6;
/// Replacements so far.
const COUNT: i32 = 7;
/// Where the next match may begin.
const AT: i32 = 8;
/// The subject's bytes before this are in the parts.
const COPIED: i32 = 9;
/// The match whose replacement is the next value.
const START: i32 = 10;
const END: i32 = 11;

pub(super) fn gsub(frame: &mut Frame<'_>, is_resumed: bool) -> Result<Next, Raised> {
    if is_resumed {
        replace(frame)?;
    } else {
        let most = check_arguments(frame)?;
        if matches!(frame.kind(REPLACEMENT), Kind::String | Kind::Number) {
            return substitute(frame, most).map(Next::Return);
        }
        begin(frame, most);
    }
    loop {
        let Some(found) = find(frame)? else { return end(frame).map(Next::Return) };
        put(frame, START, found.start);
        put(frame, END, found.end);
        if frame.kind(REPLACEMENT) == Kind::Function {
            frame.push_copy(REPLACEMENT);
            let captures = push_captures(frame, SUBJECT, &found, true)?;
            return Ok(Next::Call(captures));
        }
        let is_special = frame.push_metatable(REPLACEMENT);
        if is_special {
            frame.pop(1);
            frame.push_index_function();
            frame.push_copy(REPLACEMENT);
        }
        push_capture(frame, SUBJECT, found.capture(0))?;
        if is_special {
            return Ok(Next::Call(2));
        }
        frame.get(REPLACEMENT);
        replace(frame)?;
    }
}

/// Returns how many matches are replaced at most.
fn check_arguments(frame: &mut Frame<'_>) -> Result<i32, Raised> {
    check_string(frame, 1)?;
    check_string(frame, 2)?;
    let most = integer_or(frame, 4, frame.length(1) as i64 + 1)? as i32;
    if !matches!(
        frame.kind(REPLACEMENT),
        Kind::Number | Kind::String | Kind::Function | Kind::Table
    ) {
        return Err(frame.bad_argument(3, "string/function/table expected"));
    }
    frame.pop(frame.len() - 3);
    Ok(most)
}

/// Pushes the state of a call.
fn begin(frame: &mut Frame<'_>, most: i32) {
    frame.push_number(f64::from(most));
    frame.push_table(0, 0);
    for _ in LEN..=END {
        frame.push_number(0.0);
    }
}

fn get(frame: &Frame<'_>, at: i32) -> usize {
    frame.number(at).unwrap_or_default() as usize
}

fn put(frame: &mut Frame<'_>, at: i32, value: usize) {
    frame.push_number(value as f64);
    frame.insert(at);
    frame.remove(at + 1);
}

/// The next match, if there may be one more.
fn find(frame: &mut Frame<'_>) -> Result<Option<Match>, Raised> {
    let (count, at) = (get(frame, COUNT), get(frame, AT));
    let is_last = frame.number(LEFT).unwrap_or_default() <= count as f64;
    if is_last || at > frame.length(SUBJECT) {
        return Ok(None);
    }
    let found = with_matcher(frame, SUBJECT, PATTERN, |matcher| match matcher.strip_anchor() {
        true if at > 0 => Ok(None),
        true => matcher.match_at(at),
        false => matcher.find(at),
    })?;
    if found.is_some() {
        put(frame, COUNT, count + 1);
    }
    Ok(found)
}

/// Adds the last value to the parts, and removes it.
fn add_part(frame: &mut Frame<'_>) -> Result<(), Raised> {
    let len = get(frame, LEN) + text(frame, -1).len();
    frame.check_output(len)?;
    frame.check_memory()?;
    put(frame, LEN, len);
    // `put` leaves the part as the last value.
    let n = frame.length(PARTS) as i64 + 1;
    frame.set_index(PARTS, n);
    Ok(())
}

/// Replaces the current match by the last value, or keeps it if that is nil or false. Removes the value.
fn replace(frame: &mut Frame<'_>) -> Result<(), Raised> {
    let (start, end, copied) = (get(frame, START), get(frame, END), get(frame, COPIED));
    // After an empty match, at least one byte on.
    put(frame, AT, end + usize::from(end == start));
    if !frame.is_true(-1) {
        frame.pop(1);
        return Ok(());
    }
    if !matches!(frame.kind(-1), Kind::String | Kind::Number) {
        let kind = frame.kind(-1).name();
        return Err(frame.error(format!("invalid replacement value (a {kind})")));
    }
    if copied < start {
        frame.push_part(SUBJECT, copied..start);
        add_part(frame)?;
    }
    put(frame, COPIED, end);
    add_part(frame)
}

fn end(frame: &mut Frame<'_>) -> Result<usize, Raised> {
    let (len, copied) = (get(frame, LEN), get(frame, COPIED));
    frame.check_output(len + frame.length(SUBJECT) - copied)?;
    let mut out = Vec::with_capacity(len + frame.length(SUBJECT) - copied);
    for n in 1..=frame.length(PARTS) as i64 {
        frame.get_index(PARTS, n);
        out.extend_from_slice(text(frame, -1));
        frame.pop(1);
    }
    out.extend_from_slice(&text(frame, SUBJECT)[copied..]);
    let count = get(frame, COUNT);
    finish(frame, &out, count)
}

fn finish(frame: &mut Frame<'_>, out: &[u8], count: usize) -> Result<usize, Raised> {
    frame.check_room(out.len())?;
    frame.push_bytes(out);
    frame.push_number(count as f64);
    Ok(2)
}

/// Replaces matches by a text. All of it happens in one call.
fn substitute(frame: &mut Frame<'_>, most: i32) -> Result<usize, Raised> {
    // A number becomes a string.
    let replacement = text(frame, REPLACEMENT).to_vec();
    let mut too_long = false;
    let result = with_matcher(frame, SUBJECT, PATTERN, |matcher| {
        let (subject, is_anchored) = (matcher.subject, matcher.strip_anchor());
        let (mut out, mut at, mut copied, mut count) = (Vec::new(), 0, 0, 0);
        while count < most && at <= subject.len() {
            let found = if is_anchored { matcher.match_at(at) } else { matcher.find(at) };
            let Some(found) = found? else { break };
            count += 1;
            matcher.count(replacement.len())?;
            out.extend_from_slice(&subject[copied..found.start]);
            append(&mut out, &replacement, subject, &found)?;
            too_long = out.len() > Frame::MOST_OUTPUT;
            copied = found.end;
            at = found.end + usize::from(found.end == found.start);
            if is_anchored || too_long {
                break;
            }
        }
        out.extend_from_slice(&subject[copied..]);
        Ok((out, count as usize))
    });
    let (out, count) = result?;
    if too_long {
        return Err(frame.out_of_memory());
    }
    finish(frame, &out, count)
}

/// Appends `replacement` with its captures.
fn append(
    out: &mut Vec<u8>,
    replacement: &[u8],
    subject: &[u8],
    found: &Match,
) -> Result<(), super::Failure> {
    let mut bytes = replacement.iter().copied();
    while let Some(byte) = bytes.next() {
        // A `%` at the end reads the zero after the string, as in C.
        match (byte, if byte == b'%' { bytes.next().unwrap_or(0) } else { byte }) {
            (b'%', b'0') => out.extend_from_slice(&subject[found.start..found.end]),
            (b'%', digit @ b'1'..=b'9') => match found.capture(usize::from(digit - b'1'))? {
                super::Capture::Part(from, to) => out.extend_from_slice(&subject[from..to]),
                super::Capture::Position(at) | super::Capture::Open(at) => {
                    out.extend_from_slice((at + 1).to_string().as_bytes());
                }
            },
            (_, byte) => out.push(byte),
        }
        if out.len() > Frame::MOST_OUTPUT {
            return Ok(());
        }
    }
    Ok(())
}

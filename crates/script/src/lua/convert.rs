//! Values between RESP and Lua.
//!
//! | RESP | Lua | and back |
//! |---|---|---|
//! | bulk string | string | bulk string |
//! | integer | number | integer, truncated |
//! | status, error | `{ok = ...}`, `{err = ...}` | the same |
//! | array | table | array, up to the first nil |
//! | null | false; nil in RESP3 | null |
//! | map, set | `{map = {...}}`, `{set = {...}}` | the same; in RESP2 an array |
//! | double, big number, verbatim string | `{double = ...}`, `{big_number = ...}`, `{verbatim_string = {...}}` | the same |
//! | boolean | true, false | in RESP2: 1, null |

use super::frame::{Frame, Kind, Raised};
use weft_resp::Reply;

/// The nesting of values that can be converted: a thread has a stack of 2 MB.
const MOST_DEPTH: usize = 1000;

/// The field of an error that was counted with its command. Scripts see it, as on the reference.
const COUNTED: &[u8] = b"ignore_error_stats_update";

/// Reads a reply of a command and pushes it. Returns the bytes that follow it. The reply is complete, since a
/// [`Reply`] has written it.
///
/// # Errors
/// Its values exceed the memory of scripts.
pub(super) fn push_reply<'b>(frame: &mut Frame<'_>, bytes: &'b [u8]) -> Result<&'b [u8], Raised> {
    frame.check_memory()?;
    assert!(frame.reserve(4), "replies of commands are not nested deeply");
    let (line, rest) = split_line(bytes);
    let (kind, text) = (line[0], &line[1..]);
    match kind {
        b':' => frame.push_number(number(text)),
        b'$' | b'=' if text == b"-1" => push_null(frame),
        b'$' => return Ok(push_bulk(frame, text, rest)),
        b'*' if text == b"-1" => push_null(frame),
        b'*' | b'>' => return push_array(frame, number(text) as usize, rest),
        b'+' => push_one_field(frame, b"ok", text),
        b'-' => {
            frame.push_table(0, 2);
            frame.push_bytes(text);
            frame.set_field(-2, b"err");
            frame.push_bool(true);
            frame.set_field(-2, COUNTED);
        }
        b'_' => push_null(frame),
        b'#' => frame.push_bool(text == b"t"),
        b',' => {
            frame.push_table(0, 1);
            frame.push_number(double(text));
            frame.set_field(-2, b"double");
        }
        b'(' => push_one_field(frame, b"big_number", text),
        b'=' => return Ok(push_verbatim(frame, text, rest)),
        b'%' => return push_map(frame, number(text) as usize, rest),
        b'~' => return push_set(frame, number(text) as usize, rest),
        b'|' => {
            let rest = push_map(frame, number(text) as usize, rest)?;
            frame.pop(1);
            return push_reply(frame, rest);
        }
        kind => unreachable!("no reply begins with {kind}"),
    }
    Ok(rest)
}

fn split_line(bytes: &[u8]) -> (&[u8], &[u8]) {
    let end = bytes.iter().position(|b| *b == b'\r').expect("a complete reply");
    (&bytes[..end], &bytes[end + 2..])
}

fn number(text: &[u8]) -> f64 {
    weft_base::num::parse_i64(text).map_or(0.0, |n| n as f64)
}

fn double(text: &[u8]) -> f64 {
    std::str::from_utf8(text).ok().and_then(|text| text.parse().ok()).unwrap_or(f64::NAN)
}

fn push_null(frame: &mut Frame<'_>) {
    match frame.context().is_resp3.get() {
        true => frame.push_nil(),
        false => frame.push_bool(false),
    }
}

fn push_one_field(frame: &mut Frame<'_>, name: &[u8], text: &[u8]) {
    frame.push_table(0, 1);
    frame.push_bytes(text);
    frame.set_field(-2, name);
}

fn push_bulk<'b>(frame: &mut Frame<'_>, len: &[u8], rest: &'b [u8]) -> &'b [u8] {
    let (text, rest) = rest.split_at(number(len) as usize);
    frame.push_bytes(text);
    &rest[2..]
}

fn push_array<'b>(
    frame: &mut Frame<'_>,
    len: usize,
    mut rest: &'b [u8],
) -> Result<&'b [u8], Raised> {
    frame.push_table(len, 0);
    for n in 1..=len as i64 {
        rest = push_reply(frame, rest)?;
        frame.set_index(-2, n);
    }
    Ok(rest)
}

fn push_map<'b>(frame: &mut Frame<'_>, len: usize, mut rest: &'b [u8]) -> Result<&'b [u8], Raised> {
    frame.push_table(0, 1);
    frame.push_table(0, len);
    for _ in 0..len {
        rest = push_reply(frame, rest)?;
        rest = push_reply(frame, rest)?;
        frame.set(-3);
    }
    frame.set_field(-2, b"map");
    Ok(rest)
}

fn push_set<'b>(frame: &mut Frame<'_>, len: usize, mut rest: &'b [u8]) -> Result<&'b [u8], Raised> {
    frame.push_table(0, 1);
    frame.push_table(0, len);
    for _ in 0..len {
        rest = push_reply(frame, rest)?;
        frame.push_bool(true);
        frame.set(-3);
    }
    frame.set_field(-2, b"set");
    Ok(rest)
}

fn push_verbatim<'b>(frame: &mut Frame<'_>, len: &[u8], rest: &'b [u8]) -> &'b [u8] {
    let (text, rest) = rest.split_at(number(len) as usize);
    frame.push_table(0, 1);
    frame.push_table(0, 2);
    frame.push_bytes(&text[..3]);
    frame.set_field(-2, b"format");
    frame.push_bytes(&text[4..]);
    frame.set_field(-2, b"string");
    frame.set_field(-2, b"verbatim_string");
    &rest[2..]
}

/// A number in the shortest digits that are the same number.
pub(super) fn number_text(number: f64) -> Vec<u8> {
    weft_base::num_format::fmt_f64(number)
}

/// The text that a function of C sees.
pub(super) fn until_zero(text: &[u8]) -> &[u8] {
    text.split(|b| *b == 0).next().unwrap_or_default()
}

/// As a C program on this kind of processor converts a double.
pub(super) fn truncated(number: f64) -> i64 {
    const LIMIT: f64 = 9_223_372_036_854_775_808.0;
    if (-LIMIT..LIMIT).contains(&number) { number as i64 } else { i64::MIN }
}

/// The reason why a result is not converted.
#[derive(Debug)]
pub(super) enum NotConverted {
    /// It doesn't end, or is longer than a client can ask for.
    TooLarge,
    /// The host has stopped the script.
    Stopped,
}

/// Values, or so many bytes of a text, between two questions to the host.
const WORK_BETWEEN_CHECKS: usize = 4096;
const BYTES_OF_A_VALUE: usize = 256;

/// Asks the host now and then whether the script must end.
fn count_work(frame: &Frame<'_>, work: usize) -> Result<(), NotConverted> {
    let context = frame.context();
    let unchecked = context.unchecked_work.get() + work;
    context.unchecked_work.set(unchecked);
    if unchecked < WORK_BETWEEN_CHECKS {
        return Ok(());
    }
    context.unchecked_work.set(0);
    match context.with_host(|host| host.interrupt()) {
        Some(Err(_)) => Err(NotConverted::Stopped),
        Some(Ok(())) | None => Ok(()),
    }
}

/// Appends the last value to `reply`, and removes it.
///
/// # Errors
/// `reply` has a part of it.
pub(super) fn append(frame: &mut Frame<'_>, reply: &mut Reply) -> Result<(), NotConverted> {
    append_at(frame, reply, 0)
}

fn append_at(frame: &mut Frame<'_>, reply: &mut Reply, depth: usize) -> Result<(), NotConverted> {
    let text = if frame.kind(-1) == Kind::String { frame.length(-1) } else { 0 };
    if reply.len() + text > Frame::MOST_OUTPUT {
        return Err(NotConverted::TooLarge);
    }
    count_work(frame, 1 + text / BYTES_OF_A_VALUE)?;
    if depth > MOST_DEPTH || !frame.reserve(4) {
        reply.error(b"ERR reached lua stack limit");
        frame.pop(1);
        return Ok(());
    }
    match frame.kind(-1) {
        Kind::String => reply.bulk(frame.bytes(-1).unwrap_or_default()),
        Kind::Boolean if frame.context().is_resp3.get() => {
            reply.boolean(frame.is_true(-1));
        }
        Kind::Boolean if frame.is_true(-1) => reply.int(1),
        Kind::Number => reply.int(truncated(frame.number(-1).unwrap_or_default())),
        Kind::Table => append_table(frame, reply, depth)?,
        Kind::Boolean
        | Kind::Absent
        | Kind::Nil
        | Kind::LightUserdata
        | Kind::Function
        | Kind::Userdata
        | Kind::Thread => reply.null(),
    }
    frame.pop(1);
    Ok(())
}

/// Appends the table that is the last value, and keeps it. Of several fields, the first one here counts.
fn append_table(
    frame: &mut Frame<'_>,
    reply: &mut Reply,
    depth: usize,
) -> Result<(), NotConverted> {
    let is_done = append_error(frame, reply)
        || append_text(frame, reply, b"ok", |reply, text| {
            reply.raw(&[b"+", &one_line(text)[..], b"\r\n"].concat());
        })
        || append_double(frame, reply)
        || append_text(frame, reply, b"big_number", |reply, text| {
            append_big_number(reply, &one_line(text));
        })
        || append_verbatim(frame, reply);
    if is_done {
        return Ok(());
    }
    for (name, append) in [(&b"map"[..], append_map as Append), (b"set", append_set)] {
        frame.get_field(-1, name);
        if frame.kind(-1) == Kind::Table {
            append(frame, reply, depth)?;
            frame.pop(1);
            return Ok(());
        }
        frame.pop(1);
    }
    append_array(frame, reply, depth)
}

fn append_error(frame: &mut Frame<'_>, reply: &mut Reply) -> bool {
    let mut code = Vec::new();
    let is_error = append_text(frame, reply, b"err", |reply, text| {
        reply.error(text);
        code = text.split(|b| *b == b' ').next().unwrap_or(text).to_vec();
    });
    if is_error {
        let is_counted = is_counted(frame);
        let mut errors = frame.context().errors.borrow_mut();
        match is_counted {
            true => errors.counted += 1,
            false => errors.new.push(code),
        }
    }
    is_error
}

/// Whether the error that is the last value is that of a command.
pub(super) fn is_counted(frame: &mut Frame<'_>) -> bool {
    frame.get_field(-1, COUNTED);
    let is_counted = frame.is_true(-1);
    frame.pop(1);
    is_counted
}

type Append = fn(&mut Frame<'_>, &mut Reply, usize) -> Result<(), NotConverted>;

/// Appends the field `name`, if it is a string.
fn append_text(
    frame: &mut Frame<'_>,
    reply: &mut Reply,
    name: &[u8],
    append: impl FnOnce(&mut Reply, &[u8]),
) -> bool {
    frame.get_field(-1, name);
    let is_string = frame.kind(-1) == Kind::String;
    if is_string {
        append(reply, until_zero(frame.bytes(-1).unwrap_or_default()));
    }
    frame.pop(1);
    is_string
}

/// The text with spaces for line ends, which would end the reply.
fn one_line(text: &[u8]) -> Vec<u8> {
    text.iter().map(|b| if matches!(b, b'\r' | b'\n') { b' ' } else { *b }).collect()
}

fn append_double(frame: &mut Frame<'_>, reply: &mut Reply) -> bool {
    frame.get_field(-1, b"double");
    let number = (frame.kind(-1) == Kind::Number).then(|| frame.number(-1)).flatten();
    frame.pop(1);
    if let Some(number) = number {
        reply.double(&String::from_utf8_lossy(&number_text(number)));
    }
    number.is_some()
}

fn append_verbatim(frame: &mut Frame<'_>, reply: &mut Reply) -> bool {
    let before = frame.len();
    frame.get_field(-1, b"verbatim_string");
    let mut is_done = false;
    if frame.kind(-1) == Kind::Table {
        frame.get_field(-1, b"format");
        frame.get_field(-2, b"string");
        is_done = frame.kind(-1) == Kind::String && frame.kind(-2) == Kind::String;
    }
    if is_done {
        let format = until_zero(frame.bytes(-2).unwrap_or_default());
        // Three bytes: the first ones, or with spaces.
        let mut bytes = format.iter().copied().chain([b' '; 3]);
        let format = [(); 3].map(|()| bytes.next().unwrap_or(b' '));
        append_verbatim_text(reply, format, frame.bytes(-1).unwrap_or_default());
    }
    frame.pop(frame.len() - before);
    is_done
}

/// Any bytes: a script isn't asked for a number.
fn append_big_number(reply: &mut Reply, text: &[u8]) {
    match reply.is_resp3() {
        true => reply.raw(&[b"(", text, b"\r\n"].concat()),
        false => reply.bulk(text),
    }
}

fn append_verbatim_text(reply: &mut Reply, format: [u8; 3], text: &[u8]) {
    if !reply.is_resp3() {
        return reply.bulk(text);
    }
    reply.raw(format!("={}\r\n", text.len() + 4).as_bytes());
    reply.raw(&format);
    reply.raw(b":");
    reply.raw(text);
    reply.raw(b"\r\n");
}

/// The number of entries of the table that is the last value. O(n).
fn entries(frame: &mut Frame<'_>) -> Result<usize, NotConverted> {
    let mut n = 0;
    frame.push_nil();
    while frame.next(-2) {
        frame.pop(1);
        n += 1;
        count_work(frame, 1)?;
    }
    Ok(n)
}

fn append_map(frame: &mut Frame<'_>, reply: &mut Reply, depth: usize) -> Result<(), NotConverted> {
    reply.map(entries(frame)?);
    frame.push_nil();
    while frame.next(-2) {
        frame.push_copy(-2);
        append_at(frame, reply, depth + 1)?;
        append_at(frame, reply, depth + 1)?;
    }
    Ok(())
}

fn append_set(frame: &mut Frame<'_>, reply: &mut Reply, depth: usize) -> Result<(), NotConverted> {
    reply.set(entries(frame)?);
    frame.push_nil();
    while frame.next(-2) {
        frame.pop(1);
        frame.push_copy(-1);
        append_at(frame, reply, depth + 1)?;
    }
    Ok(())
}

/// The elements up to the first nil. Counts them before, so that no bytes move when the header comes.
fn append_array(
    frame: &mut Frame<'_>,
    reply: &mut Reply,
    depth: usize,
) -> Result<(), NotConverted> {
    let mut len = 0;
    loop {
        frame.get_index(-1, len + 1);
        let is_end = frame.kind(-1) == Kind::Nil;
        frame.pop(1);
        if is_end {
            break;
        }
        len += 1;
        count_work(frame, 1)?;
    }
    reply.array(len as usize);
    for n in 1..=len {
        frame.get_index(-1, n);
        append_at(frame, reply, depth + 1)?;
    }
    Ok(())
}

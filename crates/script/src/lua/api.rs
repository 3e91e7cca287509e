//! The functions of `redis` and `server`.

use super::convert;
use super::frame::{Frame, Kind, Native, Raised};
use super::numbers::{Numbers, Words};
use super::state::State;
use crate::cache::sha_of;
use crate::engine::{Level, Stop};
use weft_resp::{Proto, Reply};

/// The version of the reference whose commands scripts can expect.
const VALKEY: (&str, u32) = ("9.1.2", 0x0009_0102);
/// The version that clients of Redis look for.
const REDIS: (&str, u32) = ("7.2.4", 0x0007_0204);

/// The levels of `redis.log`, at their numbers.
const LEVELS: [(&str, Level); 4] = [
    ("LOG_DEBUG", Level::Debug),
    ("LOG_VERBOSE", Level::Verbose),
    ("LOG_NOTICE", Level::Notice),
    ("LOG_WARNING", Level::Warning),
];

const REPL_AOF: u32 = 1;
const REPL_REPLICA: u32 = 2;

const NUMBERS: [(&str, u32); 7] = [
    ("REPL_NONE", 0),
    ("REPL_AOF", REPL_AOF),
    ("REPL_SLAVE", REPL_REPLICA),
    ("REPL_REPLICA", REPL_REPLICA),
    ("REPL_ALL", REPL_AOF | REPL_REPLICA),
    ("REDIS_VERSION_NUM", REDIS.1),
    ("VALKEY_VERSION_NUM", VALKEY.1),
];

const TEXTS: [(&str, &str); 3] =
    [("REDIS_VERSION", REDIS.0), ("VALKEY_VERSION", VALKEY.0), ("SERVER_NAME", "valkey")];

const FUNCTIONS: [(&str, Native); 12] = [
    ("call", call),
    ("pcall", pcall),
    ("error_reply", error_reply),
    ("status_reply", status_reply),
    ("sha1hex", sha1hex),
    ("log", log),
    ("setresp", set_resp),
    ("set_repl", set_repl),
    ("replicate_commands", replicate_commands),
    ("breakpoint", breakpoint),
    ("debug", debug),
    ("acl_check_cmd", acl_check_cmd),
];

/// Names that functions don't have.
const ONLY_SCRIPTS: [&str; 3] = ["breakpoint", "debug", "replicate_commands"];

/// Adds `redis` and `server`, which are the same table, to the globals.
pub(super) fn open(state: &mut State) {
    state.with_globals(|frame| {
        push_api(frame, |_| true);
        frame.push_copy(-1);
        frame.set_field(1, b"server");
        frame.set_field(1, b"redis");
    });
}

/// Pushes the table `redis` of functions.
pub(super) fn push_for_functions(frame: &mut Frame<'_>) {
    push_api(frame, |name| !ONLY_SCRIPTS.contains(&name));
}

/// Pushes the table `redis` of the code that loads a library.
pub(super) fn push_for_libraries(frame: &mut Frame<'_>) {
    push_api(frame, |name| {
        let is_function = FUNCTIONS.iter().any(|(function, _)| *function == name);
        name == "log" || !is_function && !name.starts_with("REPL_")
    });
}

/// Pushes a table with the functions and numbers whose names are wanted.
fn push_api(frame: &mut Frame<'_>, is_wanted: impl Fn(&str) -> bool) {
    frame.push_table(0, 32);
    for (name, function) in FUNCTIONS.iter().filter(|(name, _)| is_wanted(name)) {
        frame.push_native(*function);
        frame.set_field(-2, name.as_bytes());
    }
    for (level, (name, _)) in LEVELS.iter().enumerate() {
        frame.push_number(level as f64);
        frame.set_field(-2, name.as_bytes());
    }
    for (name, number) in NUMBERS.iter().filter(|(name, _)| is_wanted(name)) {
        frame.push_number(f64::from(*number));
        frame.set_field(-2, name.as_bytes());
    }
    for (name, text) in TEXTS {
        frame.push_bytes(text.as_bytes());
        frame.set_field(-2, name.as_bytes());
    }
}

/// Pushes an error as `redis.pcall` returns it: a table with the text.
fn push_error(frame: &mut Frame<'_>, text: &[u8]) {
    frame.push_table(0, 1);
    frame.push_bytes(text);
    frame.set_field(-2, b"err");
}

/// Raises such an error.
pub(super) fn error(frame: &mut Frame<'_>, text: &str) -> Raised {
    push_error(frame, text.as_bytes());
    frame.raise()
}

fn call(frame: &mut Frame<'_>) -> Result<usize, Raised> {
    run_command(frame, true)
}

fn pcall(frame: &mut Frame<'_>) -> Result<usize, Raised> {
    run_command(frame, false)
}

/// Bytes of a command's reply: one string of the longest, or as much in many.
const MOST_REPLY: usize = 2 * Frame::MOST_OUTPUT;

/// Bytes of a reply's buffer that are kept for the next one.
const KEPT_REPLY: usize = 64 << 10;

fn run_command(frame: &mut Frame<'_>, raises: bool) -> Result<usize, Raised> {
    if frame.is_empty() {
        return fail(frame, "ERR Please specify at least one argument for this call", raises);
    }
    let mut reply = frame.context().reply.borrow_mut();
    // A panic of a command may have left a part of a reply.
    if !reply.is_empty() {
        reply.clear();
    }
    let result = run_command_into(frame, &mut reply, raises);
    reply.clear();
    if reply.capacity() > KEPT_REPLY {
        *reply = Reply::default();
    }
    result
}

fn run_command_into(
    frame: &mut Frame<'_>,
    reply: &mut Reply,
    raises: bool,
) -> Result<usize, Raised> {
    let context = frame.context();
    let (mut numbers, mut words) = (Numbers::default(), Words::new());
    if !numbers.read(frame, &mut words) {
        drop(words);
        return fail(frame, "ERR Command arguments must be strings or integers", raises);
    }
    if context.stopped.get() {
        drop(words);
        return Err(frame.stop());
    }
    reply.proto = if context.is_resp3.get() { Proto::Resp3 } else { Proto::Resp2 };
    if length(&words) > Frame::MOST_OUTPUT {
        drop(words);
        return fail(frame, "ERR the arguments of the command are too long", raises);
    }
    let called = context.with_host(|host| host.call(&words, reply));
    drop(words);
    let is_error = match called {
        None => {
            let text = "ERR server.call/pcall can only be called inside a script invocation";
            return Err(error(frame, text));
        }
        Some(Err(Stop)) => return Err(frame.stop()),
        Some(Ok(())) => push(frame, reply)?,
    };
    match is_error && raises {
        true => Err(frame.raise()),
        false => Ok(1),
    }
}

/// Bytes of all words. A script can pass one long string many times.
fn length(words: &[&[u8]]) -> usize {
    words.iter().map(|word| word.len()).sum()
}

/// Pushes a reply. Returns whether it is an error.
fn push(frame: &mut Frame<'_>, reply: &Reply) -> Result<bool, Raised> {
    if reply.len() > MOST_REPLY {
        return Err(frame.out_of_memory());
    }
    let whole;
    let bytes = match reply.contiguous() {
        Some(bytes) => bytes,
        None => {
            let slices = reply.slices(0, usize::MAX);
            // One long string: not copied before Lua copies it.
            if let [head @ [b'$', ..], text, b"\r\n"] = slices[..]
                && head.iter().filter(|b| **b == b'\n').count() == 1
            {
                frame.push_bytes(text);
                return Ok(false);
            }
            whole = slices.concat();
            &whole[..]
        }
    };
    convert::push_reply(frame, bytes)?;
    Ok(bytes.first() == Some(&b'-'))
}

/// Raises an error of `redis.call`, or returns that of `redis.pcall`.
fn fail(frame: &mut Frame<'_>, text: &str, raises: bool) -> Result<usize, Raised> {
    push_error(frame, text.as_bytes());
    if raises { Err(frame.raise()) } else { Ok(1) }
}

/// The only argument, which is a string.
fn only_string<'a>(frame: &'a Frame<'_>) -> Option<&'a [u8]> {
    let is_one = frame.len() == 1 && frame.kind(1) == Kind::String;
    is_one.then(|| frame.bytes(1)).flatten()
}

fn error_reply(frame: &mut Frame<'_>) -> Result<usize, Raised> {
    let Some(text) = only_string(frame) else {
        return fail(frame, "ERR wrong number or type of arguments", false);
    };
    let text = text.split(|b| *b == 0).next().unwrap_or_default();
    let text = text.strip_prefix(b"-").unwrap_or(text);
    let text = match text.iter().position(|b| *b == b' ') {
        Some(space) => [&text[..=space], trim_line_ends(&text[space + 1..])].concat(),
        None => [b"ERR ", text].concat(),
    };
    push_error(frame, &text);
    Ok(1)
}

fn trim_line_ends(mut text: &[u8]) -> &[u8] {
    while let [b'\r' | b'\n', rest @ ..] | [rest @ .., b'\r' | b'\n'] = text {
        text = rest;
    }
    text
}

fn status_reply(frame: &mut Frame<'_>) -> Result<usize, Raised> {
    if only_string(frame).is_none() {
        return fail(frame, "ERR wrong number or type of arguments", false);
    }
    frame.push_table(0, 1);
    frame.push_copy(1);
    frame.set_field(-2, b"ok");
    Ok(1)
}

fn sha1hex(frame: &mut Frame<'_>) -> Result<usize, Raised> {
    if frame.len() != 1 {
        return Err(error(frame, "ERR wrong number of arguments"));
    }
    let sha = sha_of(frame.bytes(1).unwrap_or_default());
    frame.push_bytes(&sha.0);
    Ok(1)
}

fn log(frame: &mut Frame<'_>) -> Result<usize, Raised> {
    if frame.len() < 2 {
        return Err(error(frame, "ERR server.log() requires two arguments or more."));
    }
    let Some(number) = frame.number(1) else {
        return Err(error(frame, "ERR First argument must be a number (log level)."));
    };
    let level = LEVELS.iter().enumerate().find(|(n, _)| *n as f64 == number.trunc());
    let Some((_, (_, level))) = level else {
        return Err(error(frame, "ERR Invalid log level."));
    };
    let words: Vec<&[u8]> = (2..=frame.len() as i32)
        .filter_map(|at| frame.bytes(at))
        .map(|word| word.split(|b| *b == 0).next().unwrap_or_default())
        .collect();
    if length(&words) > Frame::MOST_OUTPUT {
        return Err(frame.out_of_memory());
    }
    let text = words.join(&b' ');
    frame.context().with_host(|host| host.log(*level, &text));
    Ok(0)
}

fn set_resp(frame: &mut Frame<'_>) -> Result<usize, Raised> {
    if frame.len() != 1 {
        return Err(error(frame, "ERR server.setresp() requires one argument."));
    }
    let is_resp3 = match frame.number(1).map(convert::truncated) {
        Some(2) => false,
        Some(3) => true,
        _ => return Err(error(frame, "ERR RESP version must be 2 or 3.")),
    };
    frame.context().is_resp3.set(is_resp3);
    Ok(0)
}

fn set_repl(frame: &mut Frame<'_>) -> Result<usize, Raised> {
    if frame.len() != 1 {
        return Err(error(frame, "ERR server.set_repl() requires one argument."));
    }
    let flags = convert::truncated(frame.number(1).unwrap_or_default());
    if !(0..=3).contains(&flags) {
        let text =
            "ERR Invalid replication flags. Use REPL_AOF, REPL_REPLICA, REPL_ALL or REPL_NONE.";
        return Err(error(frame, text));
    }
    let flags = flags as u32;
    let (to_log, to_replicas) = (flags & REPL_AOF != 0, flags & REPL_REPLICA != 0);
    frame.context().with_host(|host| host.set_repl(to_log, to_replicas));
    Ok(0)
}

/// Effects are always replicated, never scripts.
fn replicate_commands(frame: &mut Frame<'_>) -> Result<usize, Raised> {
    frame.push_bool(true);
    Ok(1)
}

/// There is no debugger.
fn breakpoint(frame: &mut Frame<'_>) -> Result<usize, Raised> {
    frame.push_bool(false);
    Ok(1)
}

fn debug(_: &mut Frame<'_>) -> Result<usize, Raised> {
    Ok(0)
}

fn acl_check_cmd(frame: &mut Frame<'_>) -> Result<usize, Raised> {
    if frame.is_empty() {
        return Err(error(frame, "ERR Please specify at least one argument for this call"));
    }
    let (mut numbers, mut words) = (Numbers::default(), Words::new());
    if !numbers.read(frame, &mut words) {
        drop(words);
        return Err(error(frame, "ERR Command arguments must be strings or integers"));
    }
    let may = frame.context().with_host(|host| host.may_call(&words)).flatten();
    drop(words);
    match may {
        Some(may) => {
            frame.push_bool(may);
            Ok(1)
        }
        None => Err(error(frame, "ERR Invalid command passed to server.acl_check_cmd()")),
    }
}

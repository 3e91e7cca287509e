//! The commands that change the libraries of functions: FUNCTION LOAD, DELETE, FLUSH and RESTORE.
//!
//! Their callers hold the whole keyspace. So a change has its place in the order of all effects, and no file or full
//! sync that begins before it contains it.

use crate::dispatch::core::Core;
use weft_command_spec::{Flags, Group};
use weft_commands::{CmdResult, Error};
use weft_keyspace::{Db, Guard};
use weft_process::{log_debug, log_notice, log_verbose, log_warning};
use weft_resp::Reply;
use weft_script::engine::{Interpreter, Level};
pub use weft_script::functions::Libraries;
use weft_script::functions::{Terms, load, load_all};
use weft_script::lua::Lua;
use weft_state::command_table::Cmd;
use weft_state::server::Server;

const NO_LIBRARY: Error = Error::new("ERR Library not found");
const NO_CODE: Error = Error::new("ERR Function code is missing");
const BAD_POLICY: Error =
    Error::new("ERR Wrong restore policy given, value should be either FLUSH, APPEND or REPLACE.");
const BAD_FLUSH: Error = Error::new("ERR FUNCTION FLUSH only supports SYNC|ASYNC option");

/// Whether [`change`] runs the command.
pub fn changes_functions(cmd: &Cmd) -> bool {
    cmd.spec.group == Group::Scripting && cmd.spec.flags.has(Flags::WRITE)
}

/// The caller of a change.
#[derive(Clone, Copy, Debug)]
pub struct Caller {
    pub db: usize,
    /// The primary, or a file of accepted commands: the time to load is not limited.
    pub is_source: bool,
}

/// Runs a command that changes the libraries, and logs it.
///
/// # Errors
/// Nothing has changed.
pub fn change(
    core: &mut Core,
    guard: &Guard<'_>,
    caller: Caller,
    args: &[&[u8]],
    reply: &mut Reply,
) -> CmdResult {
    let before = core.srv.scripts.functions.current();
    let after = match args[1].to_ascii_lowercase().as_slice() {
        b"load" => loaded(core, &before, args, caller.is_source, reply),
        b"delete" => before.without(args[2]).ok_or(NO_LIBRARY),
        b"flush" => flushed(args),
        b"restore" => restored(core, &before, args, caller.is_source),
        other => unreachable!("no such command: {}", other.escape_ascii()),
    };
    let after = after.inspect_err(|_| forget_others(core, &before))?;
    if !args[1].eq_ignore_ascii_case(b"load") {
        reply.ok();
    }
    core.srv.scripts.functions.replace(after);
    core.context.tally.dirty += 1;
    Db::new(guard, &mut core.context, caller.db).log(args);
    Ok(())
}

/// Removes what a failed change has left in the interpreter.
fn forget_others(core: &mut Core, libraries: &Libraries) {
    if let Some(scripts) = &mut core.scripts {
        scripts.interpreter().retain(|id| libraries.has_library(id));
    }
}

fn failed(text: Vec<u8>) -> Error {
    Error::owned([b"ERR ", &text[..]].concat())
}

/// An error in the form of a subcommand with too many arguments.
fn too_many(args: &[&[u8]]) -> Error {
    let name = String::from_utf8_lossy(args[1]);
    Error::owned(format!(
        "ERR unknown subcommand or wrong number of arguments for '{name}'. Try FUNCTION HELP."
    ))
}

fn loaded(
    core: &mut Core,
    before: &Libraries,
    args: &[&[u8]],
    is_source: bool,
    reply: &mut Reply,
) -> Result<Libraries, Error> {
    let (text, options) = args[2..].split_last().ok_or(NO_CODE)?;
    let mut replaces = false;
    for option in options {
        if !option.eq_ignore_ascii_case(b"replace") {
            return Err(failed([b"Unknown option given: ", *option].concat()));
        }
        replaces = true;
    }
    let terms = Terms { replaces, is_limited: !is_source };
    let interpreter = core.scripts.get_or_insert_default().interpreter();
    let mut after = before.clone();
    let name = load(&mut after, text, terms, interpreter, &mut log).map_err(failed)?;
    reply.bulk(&name);
    Ok(after)
}

fn flushed(args: &[&[u8]]) -> Result<Libraries, Error> {
    match args {
        [_, _] => Ok(Libraries::default()),
        [_, _, mode]
            if mode.eq_ignore_ascii_case(b"sync") || mode.eq_ignore_ascii_case(b"async") =>
        {
            Ok(Libraries::default())
        }
        [_, _, _] => Err(BAD_FLUSH),
        _ => Err(too_many(args)),
    }
}

fn restored(
    core: &mut Core,
    before: &Libraries,
    args: &[&[u8]],
    is_source: bool,
) -> Result<Libraries, Error> {
    let policy = match args.get(3) {
        _ if args.len() > 4 => return Err(too_many(args)),
        None => b"append".to_vec(),
        Some(word) => word.to_ascii_lowercase(),
    };
    if !matches!(&policy[..], b"append" | b"replace" | b"flush") {
        return Err(BAD_POLICY);
    }
    let texts = weft_transfer::functions::restore(args[2]).map_err(|text| failed(text.into()))?;
    let interpreter = core.scripts.get_or_insert_default().interpreter();
    let texts = texts.iter().map(Vec::as_slice);
    // The reference sets no limit here: a library that doesn't end would stop the server.
    let terms = Terms { replaces: false, is_limited: !is_source };
    let others =
        load_all(Libraries::default(), texts, terms, interpreter, &mut log).map_err(failed)?;
    match &policy[..] {
        b"flush" => Ok(others),
        policy => before.joined(&others, policy == b"replace").map_err(failed),
    }
}

/// The fate of the server's functions when a file is loaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Join {
    /// The libraries of the file replace all of them.
    Replace,
    /// The libraries of the file are added. `replaces`: also where one has the same name.
    Add { replaces: bool },
}

/// Loads the libraries of a file, by their texts. The caller replaces the server's by them.
///
/// # Errors
/// A library is invalid, for this reason.
pub fn load_file(srv: &Server, texts: &[Vec<u8>], join: Join) -> Result<Libraries, Vec<u8>> {
    let (before, replaces) = match join {
        Join::Replace => (Libraries::default(), false),
        Join::Add { replaces } => ((*srv.scripts.functions.current()).clone(), replaces),
    };
    if texts.is_empty() {
        return Ok(before);
    }
    let terms = Terms { replaces, is_limited: false };
    load_all(before, texts.iter().map(Vec::as_slice), terms, &mut Lua::new(), &mut log)
}

/// Writes a line of a library or a script to the server's log.
pub(super) fn log(level: Level, message: &[u8]) {
    let message = String::from_utf8_lossy(message);
    match level {
        Level::Debug => log_debug!("{message}"),
        Level::Verbose => log_verbose!("{message}"),
        Level::Notice => log_notice!("{message}"),
        Level::Warning => log_warning!("{message}"),
    }
}

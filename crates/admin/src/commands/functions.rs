//! FUNCTION. [`weft_executor::script::functions`] changes the libraries; FCALL is in [`super::scripting`].

use super::scripting::{ONE_SHARD, end_runs, sub};
use crate::commands::shape;
use weft_command_spec::{Flags, Group, Spec};
use weft_commands::{CmdResult, Error, error};
use weft_config::Id;
use weft_executor::dispatch::ServerCommand;
use weft_executor::dispatch::core::ConnCx;
use weft_executor::script::functions::{self, Caller};
use weft_script::functions::{Function, Library};
use weft_script::running::Kind;
use weft_state::command_table::Needs;

/// The commands of this group.
pub const COMMANDS: &[&ServerCommand] = &[&FUNCTION];

/// A change of the libraries.
const fn change(
    name: &'static str,
    arity: i16,
    flags: Flags,
    summary: &'static str,
    complexity: &'static str,
    syntax: &'static str,
) -> ServerCommand {
    let flags = flags.or(Flags::WRITE).or(Flags::NOSCRIPT);
    let plain = shape::spec(name, arity, flags, "7.0.0", summary, syntax);
    let spec = Spec { group: Group::Scripting, tips: ALL_SHARDS, complexity, ..plain };
    shape::holding(|_| Needs::World, spec, run_change)
}

/// A command with work for each function.
const fn reader(
    name: &'static str,
    arity: i16,
    tips: &'static [&'static str],
    summary: &'static str,
    syntax: &'static str,
    run: fn(&mut ConnCx<'_>) -> CmdResult,
) -> ServerCommand {
    let plain = shape::spec(name, arity, Flags::NOSCRIPT, "7.0.0", summary, syntax);
    let complexity = "O(N) for N functions.";
    shape::command(Spec { group: Group::Scripting, tips, complexity, ..plain }, run)
}

const ALL_SHARDS: &[&str] = &["request_policy:all_shards", "response_policy:all_succeeded"];
const EACH_SHARD: &[&str] =
    &["nondeterministic_output", "request_policy:all_shards", "response_policy:special"];
const BUSY: Flags = Flags::NOSCRIPT.or(Flags::ALLOW_BUSY);

const FUNCTION: ServerCommand = ServerCommand {
    spec: Spec { flags: Flags::NONE, group: Group::Scripting, ..CONTAINER.spec },
    ..CONTAINER
};

const CONTAINER: ServerCommand = shape::container(
    "function",
    "7.0.0",
    "Holds the commands on libraries of functions.",
    &[
        change(
            "delete",
            3,
            Flags::NONE,
            "Removes a library.",
            "O(N) for N libraries.",
            "library-name",
        ),
        reader("dump", 2, &[], "Returns all libraries as a payload for RESTORE.", "", dump),
        change(
            "flush",
            -2,
            Flags::NONE,
            "Removes all libraries.",
            "O(N) for N functions.",
            "[flush-type=(async=ASYNC|sync=SYNC)]",
        ),
        sub("help", 2, shape::ANYTIME, "7.0.0", &[], "Describes the subcommands.", "", help),
        sub("kill", 2, BUSY, "7.0.0", ONE_SHARD, "Ends functions that have not written.", "", kill),
        reader(
            "list",
            -2,
            &["nondeterministic_output_order"],
            "Returns the libraries and their functions.",
            "[LIBRARYNAME library-name-pattern] [withcode=WITHCODE]",
            list,
        ),
        change(
            "load",
            -3,
            Flags::DENYOOM,
            "Adds a library.",
            "O(N) for a library of N bytes.",
            "[replace=REPLACE] function-code",
        ),
        change(
            "restore",
            -3,
            Flags::DENYOOM,
            "Adds the libraries of a payload.",
            "O(N) for a payload of N bytes.",
            "serialized-value [policy=(flush=FLUSH|append=APPEND|replace=REPLACE)]",
        ),
        sub(
            "stats",
            2,
            BUSY,
            "7.0.0",
            EACH_SHARD,
            "Returns the running function and the number of libraries.",
            "",
            stats,
        ),
    ],
);

const HELP: &[&str] = &[
    "LOAD [REPLACE] <FUNCTION CODE>",
    "    Create a new library with the given library name and code.",
    "DELETE <LIBRARY NAME>",
    "    Delete the given library.",
    "LIST [LIBRARYNAME PATTERN] [WITHCODE]",
    "    Return general information on all the libraries:",
    "    * Library name",
    "    * The engine used to run the Library",
    "    * Functions list",
    "    * Library code (if WITHCODE is given)",
    "    It also possible to get only function that matches a pattern using LIBRARYNAME argument.",
    "STATS",
    "    Return information about the current function running:",
    "    * Function name",
    "    * Command used to run the function",
    "    * Duration in MS that the function is running",
    "    If no function is running, return nil",
    "    In addition, returns a list of available engines.",
    "KILL",
    "    End the running functions that have not written yet.",
    "FLUSH [ASYNC|SYNC]",
    "    Delete all the libraries. They are freed in the same way in both modes.",
    "DUMP",
    "    Return a serialized payload representing the current libraries, can be restored using FUNCTION RESTORE command",
    "RESTORE <PAYLOAD> [FLUSH|APPEND|REPLACE]",
    "    Restore the libraries represented by the given payload, it is possible to give a restore policy to",
    "    control how to handle existing libraries (default APPEND):",
    "    * FLUSH: delete all existing libraries.",
    "    * APPEND: appends the restored libraries to the existing libraries. On collision, abort.",
    "    * REPLACE: appends the restored libraries to the existing libraries, On collision, replace the old",
    "      libraries with the new libraries (notice that even on this option there is a chance of failure",
    "      in case of functions name collision with another library).",
];

fn help(cx: &mut ConnCx<'_>) -> CmdResult {
    shape::answer_help(cx, HELP)
}

fn run_change(cx: &mut ConnCx<'_>) -> CmdResult {
    let guard = cx.guard();
    let caller = Caller { db: cx.session.db, is_source: false };
    functions::change(cx.core, guard, caller, cx.args, cx.reply)
}

fn dump(cx: &mut ConnCx<'_>) -> CmdResult {
    let srv = cx.srv();
    let libraries = srv.scripts.functions.current();
    let texts = libraries.all().map(|library| &*library.text);
    cx.reply.bulk(&weft_transfer::functions::dump(texts, srv.config().bool(Id::RDBCOMPRESSION)));
    Ok(())
}

fn kill(cx: &mut ConnCx<'_>) -> CmdResult {
    end_runs(cx, Kind::Function, error::BUSY_SCRIPT)
}

fn list(cx: &mut ConnCx<'_>) -> CmdResult {
    let (mut pattern, mut with_code) = (None, false);
    let mut words = cx.args[2..].iter();
    while let Some(word) = words.next() {
        if !with_code && word.eq_ignore_ascii_case(b"withcode") {
            with_code = true;
        } else if pattern.is_none() && word.eq_ignore_ascii_case(b"libraryname") {
            let missing = Error::new("ERR library name argument was not given");
            pattern = Some(*words.next().ok_or(missing)?);
        } else {
            return Err(Error::owned([b"ERR Unknown argument ", *word].concat()));
        }
    }
    let libraries = cx.srv().scripts.functions.current();
    let is_wanted =
        |name: &[u8]| pattern.is_none_or(|pattern| weft_base::glob::matches(pattern, name, true));
    let found: Vec<_> = libraries.all().filter(|library| is_wanted(&library.name)).collect();
    cx.reply.array(found.len());
    found.iter().for_each(|library| reply_library(cx, library, with_code));
    Ok(())
}

fn reply_library(cx: &mut ConnCx<'_>, library: &Library, with_code: bool) {
    cx.reply.map(if with_code { 4 } else { 3 });
    cx.reply.bulk(b"library_name");
    cx.reply.bulk(&library.name);
    cx.reply.bulk(b"engine");
    cx.reply.bulk(b"LUA");
    cx.reply.bulk(b"functions");
    cx.reply.array(library.functions.len());
    library.functions.iter().for_each(|function| reply_function(cx, function));
    if with_code {
        cx.reply.bulk(b"library_code");
        cx.reply.bulk(&library.text);
    }
}

fn reply_function(cx: &mut ConnCx<'_>, function: &Function) {
    cx.reply.map(3);
    cx.reply.bulk(b"name");
    cx.reply.bulk(&function.name);
    cx.reply.bulk(b"description");
    match &function.description {
        Some(text) => cx.reply.bulk(text),
        None => cx.reply.null(),
    }
    cx.reply.bulk(b"flags");
    cx.reply.set(function.flags.names().count());
    function.flags.names().for_each(|name| cx.reply.simple(name));
}

fn stats(cx: &mut ConnCx<'_>) -> CmdResult {
    let srv = cx.srv();
    let libraries = srv.scripts.functions.current();
    cx.reply.map(2);
    cx.reply.bulk(b"running_script");
    match srv.scripts.running.function() {
        None => cx.reply.null(),
        Some(called) => {
            cx.reply.map(3);
            cx.reply.bulk(b"name");
            cx.reply.bulk(&called.name);
            cx.reply.bulk(b"command");
            cx.reply.array(called.command.len());
            called.command.iter().for_each(|word| cx.reply.bulk(word));
            cx.reply.bulk(b"duration_ms");
            cx.reply.int(called.since.elapsed().as_millis() as i64);
        }
    }
    cx.reply.bulk(b"engines");
    cx.reply.map(1);
    cx.reply.bulk(b"LUA");
    cx.reply.map(2);
    cx.reply.bulk(b"libraries_count");
    cx.reply.int(libraries.all().len() as i64);
    cx.reply.bulk(b"functions_count");
    cx.reply.int(libraries.functions() as i64);
    Ok(())
}

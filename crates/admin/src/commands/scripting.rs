//! EVAL, EVALSHA, FCALL and SCRIPT. [`weft_executor::script`] runs the scripts.

use crate::commands::shape;
use weft_command_spec::{
    Begin, CommandRole, Find, Flags, Group, KeySpec, ScriptBy, ScriptCommand, Spec, Special,
};
use weft_commands::{CmdResult, Error};
use weft_executor::dispatch::ServerCommand;
use weft_executor::dispatch::core::ConnCx;
use weft_script::engine::Sha;
use weft_script::running::{Kill, Kind};
use weft_state::command_table::NOTHING;

/// The commands of this group.
pub const COMMANDS: &[&ServerCommand] =
    &[&EVAL, &EVAL_RO, &EVALSHA, &EVALSHA_RO, &FCALL, &FCALL_RO, &SCRIPT];

const NOT_BUSY: Error = Error::new("NOTBUSY No scripts in execution right now.");
const UNKILLABLE: Error = Error::new(
    "UNKILLABLE Sorry the script already executed write commands against the dataset. You can \
     either wait the script termination or kill the server in a hard way using the SHUTDOWN \
     NOSAVE command.",
);

/// The reply to SCRIPT KILL while functions run.
const FUNCTIONS_RUN: Error = Error::new(
    "BUSY Weft is busy running a script. You can only call FUNCTION KILL or SHUTDOWN NOSAVE.",
);

const ASSUMED: &str =
    "We cannot tell how the keys will be used so we assume the worst, RW and UPDATE";
const ASSUMED_RO: &str =
    "We cannot tell how the keys will be used so we assume the worst, RO and ACCESS";

const fn keys(flags: &'static [&'static str], notes: &'static str) -> KeySpec {
    KeySpec {
        flags,
        begin: Begin::Index(2),
        find: Find::KeyNum { num: 0, first: 1, step: 1 },
        notes,
    }
}

/// EVAL and its relatives. The dispatcher runs them.
const fn evaluation(
    name: &'static str,
    since: &'static str,
    flags: Flags,
    keys: &'static [KeySpec],
    script: ScriptCommand,
    summary: &'static str,
    syntax: &'static str,
) -> ServerCommand {
    let flags = flags
        .or(Flags::NOSCRIPT)
        .or(Flags::STALE)
        .or(Flags::SKIP_MONITOR)
        .or(Flags::NO_MANDATORY_KEYS)
        .or(Flags::MOVABLE_KEYS);
    let plain = shape::spec(name, -3, flags, since, summary, syntax);
    let complexity = "Depends on the script that is executed.";
    let special = Special::role(CommandRole::Script(script));
    let spec = Spec { keys, group: Group::Scripting, complexity, special, ..plain };
    ServerCommand { spec, needs: NOTHING, run: elsewhere, subcommands: &[] }
}

const EVAL: ServerCommand = evaluation(
    "eval",
    "2.6.0",
    Flags::NONE,
    &[keys(&["RW", "ACCESS", "UPDATE"], ASSUMED)],
    ScriptCommand { by: ScriptBy::Text, only_reads: false },
    "Runs a script.",
    "script numkeys:integer [key...] [arg...]",
);

const EVAL_RO: ServerCommand = evaluation(
    "eval_ro",
    "7.0.0",
    Flags::READONLY,
    &[keys(&["RO", "ACCESS"], ASSUMED_RO)],
    ScriptCommand { by: ScriptBy::Text, only_reads: true },
    "Runs a script that only reads.",
    "script numkeys:integer [key...] [arg...]",
);

const EVALSHA: ServerCommand = evaluation(
    "evalsha",
    "2.6.0",
    Flags::NONE,
    &[keys(&["RW", "ACCESS", "UPDATE"], "")],
    ScriptCommand { by: ScriptBy::Hash, only_reads: false },
    "Runs a script by its SHA-1.",
    "sha1 numkeys:integer [key...] [arg...]",
);

const EVALSHA_RO: ServerCommand = evaluation(
    "evalsha_ro",
    "7.0.0",
    Flags::READONLY,
    &[keys(&["RO", "ACCESS"], "")],
    ScriptCommand { by: ScriptBy::Hash, only_reads: true },
    "Runs a script that only reads, by its SHA-1.",
    "sha1 numkeys:integer [key...] [arg...]",
);

const FCALL: ServerCommand = evaluation(
    "fcall",
    "7.0.0",
    Flags::NONE,
    &[keys(&["RW", "ACCESS", "UPDATE"], ASSUMED)],
    ScriptCommand { by: ScriptBy::Function, only_reads: false },
    "Runs a function.",
    "function numkeys:integer [key...] [arg...]",
);

const FCALL_RO: ServerCommand = evaluation(
    "fcall_ro",
    "7.0.0",
    Flags::READONLY,
    &[keys(&["RO", "ACCESS"], ASSUMED_RO)],
    ScriptCommand { by: ScriptBy::Function, only_reads: true },
    "Runs a function that only reads.",
    "function numkeys:integer [key...] [arg...]",
);

fn elsewhere(_: &mut ConnCx<'_>) -> CmdResult {
    unreachable!("run by the dispatcher")
}

const ALL_SHARDS: &[&str] = &["request_policy:all_shards", "response_policy:agg_logical_and"];
pub(super) const ONE_SHARD: &[&str] =
    &["request_policy:all_shards", "response_policy:one_succeeded"];

#[allow(clippy::too_many_arguments, reason = "the columns of a table")]
pub(super) const fn sub(
    name: &'static str,
    arity: i16,
    flags: Flags,
    since: &'static str,
    tips: &'static [&'static str],
    summary: &'static str,
    syntax: &'static str,
    run: fn(&mut ConnCx<'_>) -> CmdResult,
) -> ServerCommand {
    let plain = shape::spec(name, arity, flags, since, summary, syntax);
    shape::command(Spec { group: Group::Scripting, tips, ..plain }, run)
}

const BASE: Flags = Flags::NOSCRIPT.or(Flags::STALE);

const CONTAINER: ServerCommand = shape::container(
    "script",
    "2.6.0",
    "Holds the commands on the cache of scripts.",
    &[
        sub(
            "debug",
            -3,
            Flags::NOSCRIPT,
            "3.2.0",
            &[],
            "Refuses to debug scripts.",
            "mode=(yes=YES|sync=SYNC|no=NO) [engine]@9.1.0",
            debug,
        ),
        sub(
            "exists",
            -3,
            BASE,
            "2.6.0",
            ALL_SHARDS,
            "Finds scripts in the cache.",
            "sha1...",
            exists,
        ),
        shape::command(
            Spec {
                history: &[("6.2.0", "Has ASYNC and SYNC.")],
                tips: shape::ALL_NODES,
                group: Group::Scripting,
                ..shape::spec(
                    "flush",
                    -2,
                    BASE,
                    "2.6.0",
                    "Removes all scripts from the cache.",
                    "[flush-type=(async=ASYNC|sync=SYNC)]@6.2.0",
                )
            },
            flush,
        ),
        sub("help", 2, shape::ANYTIME, "5.0.0", &[], "Describes the subcommands.", "", help),
        sub("kill", 2, KILL, "2.6.0", ONE_SHARD, "Ends scripts that have not written.", "", kill),
        sub(
            "load",
            3,
            BASE,
            "2.6.0",
            shape::ALL_NODES,
            "Adds a script to the cache.",
            "script",
            load,
        ),
        sub("show", 3, BASE, "8.0.0", &[], "Returns the text of a script.", "sha1", show),
    ],
);

const SCRIPT: ServerCommand = ServerCommand {
    spec: Spec { flags: Flags::NONE, group: Group::Scripting, ..CONTAINER.spec },
    ..CONTAINER
};

const KILL: Flags = Flags::NOSCRIPT.or(Flags::ALLOW_BUSY);

const HELP: &[&str] = &[
    "DEBUG (YES|SYNC|NO) [<engine_name>]",
    "    YES and SYNC fail: there is no debugger.",
    "EXISTS <sha1> [<sha1> ...]",
    "    Return information about the existence of the scripts in the script cache.",
    "FLUSH [ASYNC|SYNC]",
    "    Remove all scripts from the cache. They are freed in the background in both modes.",
    "KILL",
    "    End the running scripts that have not written yet.",
    "LOAD <script>",
    "    Load a script into the scripts cache without executing it.",
    "SHOW <sha1>",
    "    Show a script from the scripts cache.",
];

fn help(cx: &mut ConnCx<'_>) -> CmdResult {
    shape::answer_help(cx, HELP)
}

fn debug(cx: &mut ConnCx<'_>) -> CmdResult {
    if cx.args.len() > 4 {
        return Err(Error::new(
            "ERR unknown subcommand or wrong number of arguments for 'debug'. Try SCRIPT HELP.",
        ));
    }
    if let Some(engine) = cx.args.get(3)
        && !engine.eq_ignore_ascii_case(b"lua")
    {
        let name = String::from_utf8_lossy(engine);
        return Err(Error::owned(format!(
            "ERR No scripting engine found with name '{name}' to enable debug"
        )));
    }
    if cx.is(2, "no") {
        cx.reply.ok();
        return Ok(());
    }
    match cx.is(2, "yes") || cx.is(2, "sync") {
        true => Err(Error::new("ERR Weft has no debugger of scripts")),
        false => Err(Error::new("ERR Use SCRIPT DEBUG YES/SYNC/NO")),
    }
}

fn sha_arg(word: &[u8]) -> Option<Sha> {
    let mut sha = Sha(word.try_into().ok()?);
    sha.0.make_ascii_lowercase();
    Some(sha)
}

fn exists(cx: &mut ConnCx<'_>) -> CmdResult {
    let cache = &cx.srv().scripts.cache;
    let hashes = &cx.args[2..];
    cx.reply.array(hashes.len());
    for hash in hashes {
        let is_there = sha_arg(hash).is_some_and(|sha| cache.has(&sha));
        cx.reply.int(i64::from(is_there));
    }
    Ok(())
}

fn flush(cx: &mut ConnCx<'_>) -> CmdResult {
    let is_known = match cx.args.len() {
        2 => true,
        3 => cx.is(2, "sync") || cx.is(2, "async"),
        _ => false,
    };
    if !is_known {
        return Err(Error::new("ERR SCRIPT FLUSH only support SYNC|ASYNC option"));
    }
    let srv = cx.srv();
    let scripts = srv.scripts.cache.flush();
    srv.process.background.bio.release(scripts.len(), move || drop(scripts));
    cx.reply.ok();
    Ok(())
}

fn kill(cx: &mut ConnCx<'_>) -> CmdResult {
    end_runs(cx, Kind::Script, FUNCTIONS_RUN)
}

/// Ends all runs of this kind that have written nothing. `other`: the error if only runs of the other kind could end.
pub(super) fn end_runs(cx: &mut ConnCx<'_>, kind: Kind, other: Error) -> CmdResult {
    match cx.srv().scripts.running.kill(kind) {
        Kill::NotBusy => Err(NOT_BUSY),
        Kill::Unkillable => Err(UNKILLABLE),
        Kill::Other => Err(other),
        Kill::Killed => {
            cx.reply.ok();
            Ok(())
        }
    }
}

fn load(cx: &mut ConnCx<'_>) -> CmdResult {
    let (srv, body) = (cx.srv(), cx.args[2]);
    let scripts = cx.core.scripts.get_or_insert_default();
    let script = scripts.by_text(srv, body, true).map_err(Error::owned)?;
    cx.reply.bulk(&script.sha.0);
    Ok(())
}

fn show(cx: &mut ConnCx<'_>) -> CmdResult {
    let found = sha_arg(cx.args[2]).and_then(|sha| cx.srv().scripts.cache.find(&sha));
    let script = found.ok_or(Error::new("NOSCRIPT No matching script."))?;
    cx.reply.bulk(&script.body);
    Ok(())
}

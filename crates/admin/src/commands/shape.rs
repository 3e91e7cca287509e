//! Shorthand for the specs of this crate's commands, which differ little.

use weft_command_spec::{Flags, Group, Spec, Special};
use weft_commands::{CmdResult, Error, error};
use weft_executor::dispatch::ServerCommand;
use weft_executor::dispatch::core::ConnCx;
use weft_state::command_table::{NOTHING, NeedsFn};

/// The flags of most subcommands that inspect the server.
pub const ADMIN: Flags = Flags::ADMIN.or(Flags::NOSCRIPT).or(Flags::LOADING).or(Flags::STALE);
/// Allowed in any state of the data.
pub const ANYTIME: Flags = Flags::LOADING.or(Flags::STALE);

/// Sent to every node; succeeds when all do.
pub const ALL_NODES: &[&str] = &["request_policy:all_nodes", "response_policy:all_succeeded"];
/// Sent to every node, with different replies.
pub const EACH_NODE: &[&str] =
    &["nondeterministic_output", "request_policy:all_nodes", "response_policy:special"];
/// Sent to every primary, with different replies.
pub const EACH_SHARD: &[&str] =
    &["nondeterministic_output", "request_policy:all_shards", "response_policy:special"];

/// A spec without keys, tips and history, in O(1). Callers override fields with `..spec(...)`.
pub const fn spec(
    name: &'static str,
    arity: i16,
    flags: Flags,
    since: &'static str,
    summary: &'static str,
    syntax: &'static str,
) -> Spec {
    Spec {
        name,
        arity,
        flags,
        keys: &[],
        acl: &[],
        group: Group::Server,
        since,
        summary,
        complexity: "O(1)",
        syntax,
        history: &[],
        tips: &[],
        special: Special::NONE,
    }
}

/// A command without subcommands.
pub const fn command(spec: Spec, run: fn(&mut ConnCx<'_>) -> CmdResult) -> ServerCommand {
    ServerCommand { spec, needs: NOTHING, run, subcommands: &[] }
}

/// A command without subcommands that holds shards or the world.
pub const fn holding(
    needs: NeedsFn,
    spec: Spec,
    run: fn(&mut ConnCx<'_>) -> CmdResult,
) -> ServerCommand {
    ServerCommand { spec, needs, run, subcommands: &[] }
}

/// The same command with special handling.
pub const fn special(command: ServerCommand, special: Special) -> ServerCommand {
    ServerCommand { spec: Spec { flags: command.spec.flags, special, ..command.spec }, ..command }
}

/// A command with subcommands.
pub const fn container(
    name: &'static str,
    since: &'static str,
    summary: &'static str,
    subcommands: &'static [ServerCommand],
) -> ServerCommand {
    let plain = spec(name, -2, Flags::NONE, since, summary, "");
    let spec = Spec { complexity: "Depends on subcommand.", ..plain };
    // Dispatch runs the subcommands. A request without one is refused before it gets here.
    ServerCommand { spec, needs: NOTHING, run: |_| Err(error::SYNTAX), subcommands }
}

/// The HELP of a container.
pub const fn help(since: &'static str, run: fn(&mut ConnCx<'_>) -> CmdResult) -> ServerCommand {
    command(spec("help", 2, ANYTIME, since, "Describes the subcommands.", ""), run)
}

/// Replies with `lines` between the first and the last line that every HELP has.
pub fn answer_help(cx: &mut ConnCx<'_>, lines: &[&str]) -> CmdResult {
    let name = cx.args[0].to_ascii_uppercase();
    let name = String::from_utf8_lossy(&name);
    cx.reply.array(lines.len() + 3);
    cx.reply.simple(&format!("{name} <subcommand> [<arg> [value] [opt] ...]. Subcommands are:"));
    lines.iter().for_each(|line| cx.reply.simple(line));
    cx.reply.simple("HELP");
    cx.reply.simple("    Print this help.");
    Ok(())
}

/// The error for an unknown subcommand, or one with the wrong number of arguments.
pub fn unknown_subcommand(cx: &ConnCx<'_>, container: &str) -> Error {
    let mut text = b"ERR unknown subcommand or wrong number of arguments for '".to_vec();
    // The reference prints a C string.
    text.extend(cx.args[1].iter().take(128).take_while(|b| **b != 0));
    text.extend_from_slice(format!("'. Try {container} HELP.").as_bytes());
    Error::owned(text)
}

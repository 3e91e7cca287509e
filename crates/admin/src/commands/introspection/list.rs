//! COMMAND COUNT, LIST and HELP.

use crate::commands::introspection::bulks;
use weft_base::glob;
use weft_commands::{CmdResult, error};
use weft_executor::dispatch::core::ConnCx;
use weft_state::command_table::Cmd;

const HELP: &[&str] = &[
    "COMMAND <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
    "(no subcommand)",
    "    Describe all commands.",
    "COUNT",
    "    The number of commands.",
    "DOCS [<command> ...]",
    "    Texts and arguments of these commands, or of all.",
    "GETKEYS <command> [<arg> ...]",
    "    The keys among the arguments.",
    "GETKEYSANDFLAGS <command> [<arg> ...]",
    "    The keys among the arguments, each with the access to it.",
    "INFO [<command> ...]",
    "    Describe these commands, or all.",
    "LIST [FILTERBY (MODULE <name>|ACLCAT <category>|PATTERN <pattern>)]",
    "    The names of all commands, or of those that match.",
    "HELP",
    "    Print this help.",
];

pub fn help(cx: &mut ConnCx<'_>) -> CmdResult {
    cx.reply.array(HELP.len());
    HELP.iter().for_each(|line| cx.reply.simple(line));
    Ok(())
}

pub fn count(cx: &mut ConnCx<'_>) -> CmdResult {
    cx.reply.int(cx.srv().table.top().len() as i64);
    Ok(())
}

pub fn list(cx: &mut ConnCx<'_>) -> CmdResult {
    match cx.args {
        [_, _] => names(cx, |_| true),
        [_, _, by, option, value] if by.eq_ignore_ascii_case(b"filterby") => {
            match option.to_ascii_lowercase().as_slice() {
                // There are no modules, so no command belongs to one.
                b"module" => names(cx, |_| false),
                b"aclcat" => names(cx, |cmd| has_category(cmd, value)),
                b"pattern" => names(cx, |cmd| glob::matches(value, cmd.full_name.as_bytes(), true)),
                _ => Err(error::SYNTAX),
            }
        }
        _ => Err(error::SYNTAX),
    }
}

/// Whether the command has `category`, written without `@`.
fn has_category(cmd: &Cmd, category: &[u8]) -> bool {
    let all = cmd.spec.categories(!cmd.subcommands.is_empty());
    all.iter().any(|c| c.as_bytes()[1..].eq_ignore_ascii_case(category))
}

/// Replies with the names of the commands and subcommands that `fits` selects.
fn names(cx: &mut ConnCx<'_>, fits: impl Fn(&Cmd) -> bool) -> CmdResult {
    let top = cx.srv().table.top().iter().copied();
    let all = top.flat_map(|cmd| cmd.subcommands.iter().copied().chain([cmd]));
    let chosen: Vec<&str> = all.filter(|cmd| fits(cmd)).map(|cmd| cmd.full_name).collect();
    bulks(cx, &chosen)
}

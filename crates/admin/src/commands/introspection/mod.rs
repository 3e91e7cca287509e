//! COMMAND: queries of the command table.
//!
//! * [`info`](self::info): flags, keys, categories
//! * [`docs`](self::docs): texts and arguments
//! * [`getkeys`](self::getkeys): the keys of a request; [`list`](self::list): names

mod docs;
mod getkeys;
mod info;
mod list;

use crate::commands::shape;
use weft_command_spec::{Flags, Spec};
use weft_commands::CmdResult;
use weft_executor::dispatch::ServerCommand;
use weft_executor::dispatch::core::ConnCx;
use weft_state::command_table::NOTHING;
use weft_state::command_table::{Cmd, CommandTable};

/// The commands of this group.
pub const COMMANDS: &[&ServerCommand] = &[&COMMAND];

const FLAGS: Flags = Flags::LOADING.or(Flags::STALE);
const ANY_ORDER: &[&str] = &["nondeterministic_output_order"];

const COMMAND: ServerCommand = ServerCommand {
    spec: Spec {
        complexity: "O(N) where N is the number of commands",
        tips: ANY_ORDER,
        ..spec("command", -1, "2.8.13", "Describes all commands.", "")
    },
    // Without a subcommand.
    needs: NOTHING,
    run: info::all,
    subcommands: &[
        ServerCommand {
            spec: Spec {
                complexity: "O(1)",
                ..spec("count", 2, "2.8.13", "Returns the number of commands.", "")
            },
            needs: NOTHING,
            run: list::count,
            subcommands: &[],
        },
        ServerCommand {
            spec: Spec {
                complexity: "O(N) where N is the number of commands asked for",
                tips: ANY_ORDER,
                ..spec("docs", -2, "7.0.0", "Returns texts and arguments.", "[command-name...]")
            },
            needs: NOTHING,
            run: docs::docs,
            subcommands: &[],
        },
        ServerCommand {
            spec: spec(
                "getkeys",
                -3,
                "2.8.13",
                "Finds the keys in a command's arguments.",
                "command [arg...]",
            ),
            needs: NOTHING,
            run: getkeys::keys,
            subcommands: &[],
        },
        ServerCommand {
            spec: spec(
                "getkeysandflags",
                -3,
                "7.0.0",
                "Finds the keys in a command's arguments, and what the command does to them.",
                "command [arg...]",
            ),
            needs: NOTHING,
            run: getkeys::keys_and_flags,
            subcommands: &[],
        },
        ServerCommand {
            spec: Spec {
                complexity: "O(1)",
                ..spec("help", 2, "5.0.0", "Explains the subcommands.", "")
            },
            needs: NOTHING,
            run: list::help,
            subcommands: &[],
        },
        ServerCommand {
            spec: Spec {
                complexity: "O(N) where N is the number of commands asked for",
                tips: ANY_ORDER,
                history: &[("7.0.0", "Without names: all commands.")],
                ..spec("info", -2, "2.8.13", "Describes commands.", "[command-name...]")
            },
            needs: NOTHING,
            run: info::info,
            subcommands: &[],
        },
        ServerCommand {
            spec: Spec {
                complexity: "O(N) where N is the number of commands",
                tips: ANY_ORDER,
                ..spec(
                    "list",
                    -2,
                    "7.0.0",
                    "Returns the names of commands.",
                    "[FILTERBY filterby=(MODULE module-name|ACLCAT category|PATTERN pattern)]",
                )
            },
            needs: NOTHING,
            run: list::list,
            subcommands: &[],
        },
    ],
};

const fn spec(
    name: &'static str,
    arity: i16,
    since: &'static str,
    summary: &'static str,
    syntax: &'static str,
) -> Spec {
    Spec {
        acl: &["@connection"],
        complexity: "O(N) where N is the number of arguments",
        ..shape::spec(name, arity, FLAGS, since, summary, syntax)
    }
}

/// The command of that name, or the subcommand if the name reads `command|subcommand`.
fn by_full_name(table: &CommandTable, name: &[u8]) -> Option<&'static Cmd> {
    match name.iter().position(|b| *b == b'|') {
        Some(bar) => table.find(&name[..bar])?.subcommand(&name[bar + 1..]),
        None => table.find(name),
    }
}

/// The named commands, or all without names.
fn named<'a>(
    table: &'a CommandTable,
    names: &'a [&'a [u8]],
) -> impl Iterator<Item = Option<&'static Cmd>> + 'a {
    let all = if names.is_empty() { table.top() } else { &[] };
    let found = names.iter().map(move |name| by_full_name(table, name));
    all.iter().copied().map(Some).chain(found)
}

/// An array of bulk strings.
fn bulks(cx: &mut ConnCx<'_>, words: &[&str]) -> CmdResult {
    cx.reply.array(words.len());
    words.iter().for_each(|word| cx.reply.bulk(word.as_bytes()));
    Ok(())
}

//! MODULE on a server without modules.
//!
//! Tools send MODULE LIST when they connect. `enable-module-command` sets which clients may use LOAD, LOADEX and UNLOAD.

use crate::commands::shape::{answer_help, command, container, help, spec};
use weft_command_spec::{Flags, Protection, Spec, Special};
use weft_commands::{CmdResult, Error};
use weft_executor::dispatch::ServerCommand;
use weft_executor::dispatch::core::ConnCx;
use weft_executor::dispatch::refusals::check_protection;

const NO_MODULES: Error =
    Error::new("ERR Error loading the extension: this version does not have modules");
const NOT_LOADED: Error = Error::new("ERR Error unloading module: no such module with that name");

const ADMIN: Flags = Flags::ADMIN.or(Flags::NOSCRIPT);
const CHANGES: Flags = ADMIN.or(Flags::NO_ASYNC_LOADING);

pub const MODULE: ServerCommand = container(
    "module",
    "4.0.0",
    "Holds the commands on modules.",
    &[
        help("5.0.0", |cx| answer_help(cx, HELP)),
        command(
            Spec {
                complexity: "O(N) where N is the number of loaded modules.",
                tips: &["nondeterministic_output_order"],
                ..spec("list", 2, ADMIN, "4.0.0", "Lists the loaded modules: there are none.", "")
            },
            |cx| {
                cx.reply.array(0);
                Ok(())
            },
        ),
        command(protected("load", -3, "4.0.0", "Loads a module.", "path [arg...]"), |cx| {
            refuse(cx, NO_MODULES)
        }),
        command(
            protected(
                "loadex",
                -3,
                "7.0.0",
                "Loads a module with directives of its own.",
                "path [CONFIG configs=(name value)...+] [ARGS args...]",
            ),
            |cx| refuse(cx, NO_MODULES),
        ),
        command(protected("unload", 3, "4.0.0", "Unloads a module.", "name"), |cx| {
            refuse(cx, NOT_LOADED)
        }),
    ],
);

const fn protected(
    name: &'static str,
    arity: i16,
    since: &'static str,
    summary: &'static str,
    syntax: &'static str,
) -> Spec {
    Spec {
        special: Special::protection(Protection::Module),
        ..spec(name, arity, CHANGES, since, summary, syntax)
    }
}

/// The error of a client that may not use the command, or of one that may.
fn refuse(cx: &ConnCx<'_>, permitted: Error) -> CmdResult {
    check_protection(cx.srv(), &cx.session.shared, Protection::Module)?;
    Err(permitted)
}

const HELP: &[&str] = &[
    "LIST",
    "    List the loaded modules.",
    "LOAD <path> [<arg> ...]",
    "    Load a module.",
    "LOADEX <path> [CONFIG <name> <value> ...] [ARGS <arg> ...]",
    "    Load a module with directives of its own.",
    "UNLOAD <name>",
    "    Unload a module.",
];

//! MODULE on a server without modules.
//!
//! Tools send MODULE LIST when they connect. `enable-module-command` sets which clients may use LOAD, LOADEX and UNLOAD.

use super::is_permitted;
use crate::commands::shape::{answer_help, command, container, help, spec};
use weft_command_spec::{Flags, Spec};
use weft_commands::{CmdResult, Error};
use weft_config::Id;
use weft_executor::dispatch::ServerCommand;
use weft_executor::dispatch::core::ConnCx;

const DENIED: Error = Error::new(
    "ERR MODULE command not allowed. If the enable-module-command option is set to \"local\", you \
     can run it from a local connection, otherwise you need to set this option in the \
     configuration file, and then restart the server.",
);
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
        command(spec("load", -3, CHANGES, "4.0.0", "Loads a module.", "path [arg...]"), |cx| {
            refuse(cx, NO_MODULES)
        }),
        command(
            spec(
                "loadex",
                -3,
                CHANGES,
                "7.0.0",
                "Loads a module with directives of its own.",
                "path [CONFIG configs=(name value)...+] [ARGS args...]",
            ),
            |cx| refuse(cx, NO_MODULES),
        ),
        command(spec("unload", 3, CHANGES, "4.0.0", "Unloads a module.", "name"), |cx| {
            refuse(cx, NOT_LOADED)
        }),
    ],
);

/// The error of a client that may use the command, or of one that may not.
fn refuse(cx: &ConnCx<'_>, permitted: Error) -> CmdResult {
    let allowed = cx.srv().config().word(Id::ENABLE_MODULE_COMMAND);
    Err(if is_permitted(cx, allowed) { permitted } else { DENIED })
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

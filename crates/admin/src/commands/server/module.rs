//! MODULE on a server without modules.
//!
//! Tools send MODULE LIST when they connect. `dispatch/absent.rs` lists the subcommands that load
//! and unload.

use crate::commands::shape::{answer_help, command, container, help, spec};
use weft_command_spec::{Flags, Spec};
use weft_executor::dispatch::ServerCommand;

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
                ..spec(
                    "list",
                    2,
                    Flags::ADMIN.or(Flags::NOSCRIPT),
                    "4.0.0",
                    "Lists the loaded modules: there are none.",
                    "",
                )
            },
            |cx| {
                cx.reply.array(0);
                Ok(())
            },
        ),
    ],
);

const HELP: &[&str] = &["LIST", "    List the loaded modules."];

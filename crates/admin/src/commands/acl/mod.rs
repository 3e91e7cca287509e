//! ACL: users and their rights.
//!
//! `weft-acl` defines the rules and checks them; [`weft_executor::access`] checks requests and puts changes into force.
//!
//! * [`change`] - SETUSER, DELUSER
//! * [`show`] - LIST, USERS, GETUSER, WHOAMI, CAT
//! * [`dry_run`] - DRYRUN
//! * [`log`] - LOG
//! * [`mod@file`] - LOAD, SAVE, and the users at the start
//! * [`genpass`] - GENPASS

mod change;
mod dry_run;
pub mod file;
mod genpass;
mod log;
mod show;

use crate::commands::shape::{ADMIN, ALL_NODES, ANYTIME, answer_help, command, holding, spec};
use crate::commands::shape::{container, help, unknown_subcommand};
use weft_acl::Policy;
use weft_command_spec::{Flags, Secrets, Spec, Special};
use weft_executor::dispatch::ServerCommand;
use weft_executor::dispatch::core::ConnCx;
use weft_state::command_table::Needs;
use weft_state::server::Server;

/// The commands of this group.
pub const COMMANDS: &[&ServerCommand] = &[&ACL];

/// Allowed for users who administer nothing.
const ORDINARY: Flags = Flags::NOSCRIPT.or(ANYTIME);
const COST_OF_ALL: &str = "O(N) where N is the number of users";
const OF_CHANNELS: (&str, &str) = ("6.2.0", "Patterns of channels.");
const OF_SELECTORS: (&str, &str) = ("7.0.0", "Selectors, and keys by read and write access.");
const OF_DATABASES: (&str, &str) = ("9.1.0", "Databases.");

const ACL: ServerCommand = container(
    "acl",
    "6.0.0",
    "Holds the commands on access control lists.",
    &[
        command(
            Spec {
                complexity: "O(N) where N is the number of commands",
                ..spec(
                    "cat",
                    -2,
                    ORDINARY,
                    "6.0.0",
                    "Returns the categories of commands, or the commands of one.",
                    "[category]",
                )
            },
            show::cat,
        ),
        DELUSER,
        command(
            spec(
                "dryrun",
                -4,
                ADMIN,
                "7.0.0",
                "Returns whether a user may run a command, without running it.",
                "username command [arg...]",
            ),
            dry_run::dry_run,
        ),
        command(
            spec("genpass", -2, ORDINARY, "6.0.0", "Generates a password.", "[bits:integer]"),
            genpass::generate,
        ),
        command(
            Spec {
                complexity: "O(N) where N is the number of rules of the user",
                history: &[OF_CHANNELS, OF_SELECTORS, OF_DATABASES],
                ..spec("getuser", 3, ADMIN, "6.0.0", "Returns the rules of a user.", "username")
            },
            show::getuser,
        ),
        help("6.0.0", |cx| answer_help(cx, HELP)),
        command(
            Spec {
                complexity: COST_OF_ALL,
                ..spec("list", 2, ADMIN, "6.0.0", "Returns all users with their rules.", "")
            },
            show::list,
        ),
        holding(
            |_| Needs::Stop,
            Spec {
                complexity: COST_OF_ALL,
                ..spec("load", 2, ADMIN, "6.0.0", "Reads the users from the ACL file.", "")
            },
            file::load,
        ),
        command(
            Spec {
                complexity: "O(N) where N is the number of entries returned",
                history: &[("7.2.0", "Entries have an id and two times.")],
                ..spec(
                    "log",
                    -2,
                    ADMIN,
                    "6.0.0",
                    "Returns or removes the records of refused commands and failed logins.",
                    "[operation=(count:integer|reset=RESET)]",
                )
            },
            log::log,
        ),
        holding(
            // It writes to the disk.
            |_| Needs::Aside,
            Spec {
                complexity: COST_OF_ALL,
                tips: ALL_NODES,
                ..spec("save", 2, ADMIN, "6.0.0", "Writes the users into the ACL file.", "")
            },
            file::save,
        ),
        SETUSER,
        command(
            Spec {
                complexity: COST_OF_ALL,
                ..spec("users", 2, ADMIN, "6.0.0", "Returns the names of all users.", "")
            },
            show::users,
        ),
        command(
            spec("whoami", 2, ORDINARY, "6.0.0", "Returns the user of this connection.", ""),
            show::whoami,
        ),
    ],
);

const DELUSER: ServerCommand = holding(
    |_| Needs::Stop,
    Spec {
        complexity: "O(N) where N is the number of connections",
        tips: ALL_NODES,
        ..spec(
            "deluser",
            -3,
            ADMIN,
            "6.0.0",
            "Removes users, and closes their connections.",
            "username...",
        )
    },
    change::deluser,
);

const SETUSER: ServerCommand = holding(
    |_| Needs::Stop,
    Spec {
        complexity: "O(N) where N is the number of rules",
        history: &[OF_CHANNELS, OF_SELECTORS, OF_DATABASES],
        tips: ALL_NODES,
        special: Special::secrets(Secrets::AllArguments),
        ..spec(
            "setuser",
            -3,
            ADMIN,
            "6.0.0",
            "Creates a user, or adds rules to one.",
            "username [rule...]",
        )
    },
    change::setuser,
);

const HELP: &[&str] = &[
    "CAT [<category>]",
    "    Return the commands of <category>, or all categories.",
    "DELUSER <username> [<username> ...]",
    "    Remove users, and close their connections.",
    "DRYRUN <username> <command> [<arg> ...]",
    "    Return whether the user may run a command, without running it.",
    "GETUSER <username>",
    "    Return the rules of a user.",
    "GENPASS [<bits>]",
    "    Generate a password of 256 bits, or of <bits>.",
    "LIST",
    "    Return all users, as in the configuration file.",
    "LOAD",
    "    Read the users from the ACL file.",
    "LOG [<count> | RESET]",
    "    Return the latest <count> refusals (10 if not given), or remove all.",
    "SAVE",
    "    Write the users into the ACL file.",
    "SETUSER <username> <rule> [<rule> ...]",
    "    Create a user, or add rules to one.",
    "USERS",
    "    Return the names of all users.",
    "WHOAMI",
    "    Return the user of this connection.",
];

/// The meaning of rules depends on it.
fn policy(srv: &Server) -> Policy<'_> {
    Policy { catalog: &srv.access.catalog, channels: srv.settings().auth.channels }
}

/// The error for an optional argument too many.
fn too_many(cx: &ConnCx<'_>) -> weft_commands::Error {
    unknown_subcommand(cx, "ACL")
}

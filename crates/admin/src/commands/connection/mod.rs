//! The connection commands: authentication, names, and the form of replies.

mod auth;
mod client;
mod echo;
mod hello;
mod monitor;
mod ping;
mod quit;
mod readonly;
mod reset;
mod select;

pub use auth::log_in_as;
pub use client::logged_line;

use crate::commands::shape::{command, spec};
use weft_command_spec::{Flags, Group, Spec};
use weft_commands::CmdResult;
use weft_executor::dispatch::ServerCommand;
use weft_executor::dispatch::core::ConnCx;

/// The commands of this group.
pub const COMMANDS: &[&ServerCommand] = &[
    &auth::AUTH,
    &client::CLIENT,
    &echo::ECHO,
    &hello::HELLO,
    &monitor::MONITOR,
    &ping::PING,
    &quit::QUIT,
    &readonly::READONLY,
    &readonly::READWRITE,
    &reset::RESET,
    &select::SELECT,
];

/// The flags of commands that work before authentication and while the server loads or is busy.
const HANDSHAKE: Flags = Flags::NOSCRIPT
    .or(Flags::LOADING)
    .or(Flags::STALE)
    .or(Flags::FAST)
    .or(Flags::NO_AUTH)
    .or(Flags::ALLOW_BUSY);

/// A connection command without history, O(1).
const fn plain(
    name: &'static str,
    arity: i16,
    flags: Flags,
    since: &'static str,
    summary: &'static str,
    syntax: &'static str,
    run: fn(&mut ConnCx<'_>) -> CmdResult,
) -> ServerCommand {
    let spec = spec(name, arity, flags, since, summary, syntax);
    command(Spec { group: Group::Connection, ..spec }, run)
}

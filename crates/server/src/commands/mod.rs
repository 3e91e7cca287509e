//! Commands on the connection and on the server: those that need no key.
//!
//! As in `weft-commands`, a command is a spec beside a function; here the function gets a
//! [`ConnCx`](crate::dispatch::ConnCx).

pub mod cluster;
mod connection;
mod introspection;
mod pubsub;
mod replication;
mod server;
mod shape;
mod transaction;

pub use connection::logged_line;
pub use server::stay_off;

use crate::dispatch::ServerCommand;
use weft_commands::Command;

/// Every command of this crate, by group.
pub const SERVER_COMMANDS: &[&[&ServerCommand]] = &[
    cluster::COMMANDS,
    connection::COMMANDS,
    introspection::COMMANDS,
    pubsub::COMMANDS,
    replication::COMMANDS,
    server::COMMANDS,
    transaction::COMMANDS,
];

/// The commands of this crate that work on keys.
pub const KEY_COMMANDS: &[&[&Command]] = &[weft_transfer::COMMANDS];

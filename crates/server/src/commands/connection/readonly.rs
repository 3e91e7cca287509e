//! READONLY and READWRITE: whether a connection may read from a replica of a cluster.
//!
//! Without a cluster there is nothing to permit. Clients that do not know send them all the same,
//! valkey-cli in front of each of its scans, and the answer is that it is all right.

use super::plain;
use crate::dispatch::{ConnCx, ServerCommand};
use weft_commands::{CmdResult, Flags, Group, Spec};

const FLAGS: Flags = Flags::LOADING.or(Flags::STALE).or(Flags::FAST);

pub const READONLY: ServerCommand =
    of_clusters("readonly", "Lets this connection read from a replica of a cluster.");
pub const READWRITE: ServerCommand =
    of_clusters("readwrite", "Has this connection read from the primary again.");

const fn of_clusters(name: &'static str, summary: &'static str) -> ServerCommand {
    let command = plain(name, 1, FLAGS, "3.0.0", summary, "", answer);
    let spec = Spec { flags: FLAGS, group: Group::Cluster, acl: &["@connection"], ..command.spec };
    ServerCommand { spec, ..command }
}

fn answer(cx: &mut ConnCx<'_>) -> CmdResult {
    cx.reply.ok();
    Ok(())
}

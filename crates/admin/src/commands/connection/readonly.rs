//! READONLY and READWRITE: switch whether a connection may read from a replica of a cluster.
//!
//! A slot of a replica's primary is served to a connection that said READONLY: [`weft_executor::cluster`]. Without a
//! cluster, both only succeed and set the flag that CLIENT LIST shows. Clients send them
//! without checking: valkey-cli sends READONLY before each of its scans.

use crate::commands::connection::plain;
use std::sync::atomic::Ordering;
use weft_command_spec::{Flags, Group, Spec};
use weft_commands::CmdResult;
use weft_executor::dispatch::ServerCommand;
use weft_executor::dispatch::core::ConnCx;

const FLAGS: Flags = Flags::LOADING.or(Flags::STALE).or(Flags::FAST);

pub const READONLY: ServerCommand =
    of_clusters("readonly", "Lets this connection read from a replica of a cluster.", |cx| {
        note(cx, true)
    });
pub const READWRITE: ServerCommand =
    of_clusters("readwrite", "Makes this connection read from the primary again.", |cx| {
        note(cx, false)
    });

const fn of_clusters(
    name: &'static str,
    summary: &'static str,
    run: fn(&mut ConnCx<'_>) -> CmdResult,
) -> ServerCommand {
    let command = plain(name, 1, FLAGS, "3.0.0", summary, "", run);
    let spec = Spec { flags: FLAGS, group: Group::Cluster, acl: &["@connection"], ..command.spec };
    ServerCommand { spec, ..command }
}

fn note(cx: &mut ConnCx<'_>, readonly: bool) -> CmdResult {
    cx.session.shared.options.readonly.store(readonly, Ordering::Relaxed);
    cx.reply.ok();
    Ok(())
}

//! MONITOR: sends the client every command that the server executes, as text.

use std::sync::atomic::Ordering;
use weft_command_spec::{Flags, Group, Spec, Special};
use weft_commands::{CmdResult, Error};
use weft_executor::dispatch::ServerCommand;
use weft_executor::dispatch::core::ConnCx;
use weft_state::command_table::NOTHING;

pub const MONITOR: ServerCommand = ServerCommand {
    spec: Spec {
        name: "monitor",
        arity: 1,
        flags: Flags::ADMIN.or(Flags::NOSCRIPT).or(Flags::LOADING).or(Flags::STALE),
        keys: &[],
        acl: &[],
        group: Group::Server,
        since: "1.0.0",
        summary: "Shows every request that the server executes.",
        complexity: "",
        syntax: "",
        history: &[],
        tips: &[],
        special: Special::NONE,
    },
    needs: NOTHING,
    run: monitor,
    subcommands: &[],
};

/// The lines would come between the replies of the transaction.
const IN_TRANSACTION: Error = Error::new("ERR MONITOR isn't allowed for DENY BLOCKING client");

fn monitor(cx: &mut ConnCx<'_>) -> CmdResult {
    if cx.in_transaction() {
        return Err(IN_TRANSACTION);
    }
    // A replica gets only the replication stream.
    if cx.session.shared.replica.is_replica.load(Ordering::Relaxed) {
        return Ok(());
    }
    // A client that is already monitoring gets no second reply, since it now reads a stream of
    // lines.
    if std::mem::replace(&mut cx.session.pushes.monitor, true) {
        return Ok(());
    }
    let shared = &cx.session.shared;
    shared.pushes.monitor.store(true, Ordering::Relaxed);
    weft_executor::monitor::join(cx.core.srv, shared.id, shared.thread());
    cx.reply.ok();
    Ok(())
}

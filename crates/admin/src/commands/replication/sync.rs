//! PSYNC and SYNC: a client becomes a replica.
//!
//! The state machine's reply to a new replica goes to the connection directly, before the snapshot
//! or the stream. An error is a reply like any other.

use crate::commands::replication::address;
use crate::commands::shape::{command, holding, spec};
use std::sync::atomic::Ordering;
use weft_command_spec::{Flags, Spec};
use weft_commands::{CmdResult, Error};
use weft_executor::dispatch::core::ConnCx;
use weft_executor::dispatch::core::Held;
use weft_executor::dispatch::{ServerCommand, busy};
use weft_replication_driver::hub;
use weft_state::command_table::Needs;

const PENDING: Error = Error::new("ERR SYNC and PSYNC are invalid with pending output");

const SYNCING: Flags =
    Flags::ADMIN.or(Flags::NOSCRIPT).or(Flags::NO_ASYNC_LOADING).or(Flags::NO_MULTI);

pub const SYNC: ServerCommand = command(
    Spec {
        complexity: "",
        ..spec(
            "sync",
            1,
            SYNCING,
            "1.0.0",
            "Requests a full sync, and the stream of later writes.",
            "",
        )
    },
    run,
);

pub const PSYNC: ServerCommand = holding(
    |args| match is_takeover(args) {
        // A change of role.
        true => Needs::World,
        false => Needs::Nothing,
    },
    Spec {
        complexity: "",
        ..spec(
            "psync",
            -3,
            SYNCING,
            "2.8.0",
            "Requests the stream from an offset on, or a full sync and the stream after it.",
            "replicationid offset:integer",
        )
    },
    run,
);

/// Whether a primary asks its replica to take over its role.
fn is_takeover(args: &[&[u8]]) -> bool {
    args.get(3).is_some_and(|word| word.eq_ignore_ascii_case(b"failover"))
}

fn run(cx: &mut ConnCx<'_>) -> CmdResult {
    let srv = cx.srv();
    let client = cx.session.shared.clone();
    // As in the reference, such clients get no reply: they would not recognize it as one.
    if cx.session.pushes.monitor || client.replica.is_replica.load(Ordering::SeqCst) {
        return Ok(());
    }
    let args = &cx.args[1..];
    let has_pending = !cx.reply.is_empty() || client.output.bytes.load(Ordering::Relaxed) > 0;
    let guard = match &cx.held {
        Held::Guard(guard) if is_takeover(cx.args) => Some(*guard),
        Held::Guard(_) | Held::Nothing(_) | Held::Stop(_) | Held::Aside => None,
    };
    if has_pending {
        return Err(PENDING);
    }
    // A full sync would have to wait for the script.
    if srv.scripts.running.has_writer()
        && let Some(e) = busy::error(srv, |_| true)
    {
        return Err(e);
    }
    let answer = hub(srv).hear(srv, &client, guard, |node, now, conn, out| {
        node.sync(now, conn, address(&client), args, out);
    });
    pass_on(cx, &answer)
}

/// Passes on the state machine's reply: a line, or nothing.
pub fn pass_on(cx: &mut ConnCx<'_>, answer: &[u8]) -> CmdResult {
    match answer.strip_prefix(b"-") {
        // An error, so that it counts as one.
        Some(text) => {
            let text = text.strip_suffix(b"\r\n").unwrap_or(text);
            Err(Error::owned(text.to_vec()))
        }
        None => {
            cx.reply.raw(answer);
            Ok(())
        }
    }
}

//! PSYNC and SYNC: a client becomes a replica.
//!
//! What the machine answers to one that has become a replica goes to its connection by itself, in front of
//! the copy or the stream; an error is a reply like any other.

use crate::commands::replication::address;
use crate::commands::shape::{command, holding, spec};
use std::sync::atomic::Ordering;
use weft_commands::{CmdResult, Error, Flags, Spec};
use weft_executor::dispatch::ServerCommand;
use weft_executor::dispatch::core::ConnCx;
use weft_executor::dispatch::core::Held;
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
            "Asks for a copy of the data, and what is written then.",
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
            "Asks for what is written from a place on, or a copy and what is written then.",
            "replicationid offset:integer",
        )
    },
    run,
);

/// Whether a primary asks its replica to take its place.
fn is_takeover(args: &[&[u8]]) -> bool {
    args.get(3).is_some_and(|word| word.eq_ignore_ascii_case(b"failover"))
}

fn run(cx: &mut ConnCx<'_>) -> CmdResult {
    let srv = cx.srv();
    let client = cx.session.shared.clone();
    // As in the reference: they are told nothing, since they would not take it for a reply.
    if cx.session.monitor || client.is_replica.load(Ordering::SeqCst) {
        return Ok(());
    }
    let args = &cx.args[1..];
    let has_pending = !cx.reply.is_empty() || client.output.load(Ordering::Relaxed) > 0;
    let guard = match &cx.held {
        Held::Guard(guard) if is_takeover(cx.args) => Some(*guard),
        Held::Guard(_) | Held::Nothing(_) | Held::Stop(_) | Held::Aside => None,
    };
    if has_pending {
        return Err(PENDING);
    }
    let answer = hub(srv).hear(srv, &client, guard, |node, now, conn, out| {
        node.sync(now, conn, address(&client), args, out);
    });
    pass_on(cx, &answer)
}

/// Answers what the machine has answered: a line, or nothing.
pub fn pass_on(cx: &mut ConnCx<'_>, answer: &[u8]) -> CmdResult {
    match answer.strip_prefix(b"-") {
        // Counted as the error that it is.
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

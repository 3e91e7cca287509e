//! RESET: returns the connection to the state after accept.
//!
//! The data that the client library sent (CLIENT SETINFO, CLIENT CAPA) stays: the connection still
//! uses the same library.

use crate::commands::connection::{HANDSHAKE, plain};
use std::sync::atomic::Ordering;
use weft_command_spec::Flags;
use weft_commands::CmdResult;
use weft_executor::dispatch::ServerCommand;
use weft_executor::dispatch::core::ConnCx;
use weft_resp::Proto;
use weft_state::access::show_user;
use weft_state::session::{Asking, ReplyMode};

const FLAGS: Flags = HANDSHAKE.or(Flags::RUNS_IN_MULTI).or(Flags::WHILE_SUBSCRIBED);

pub const RESET: ServerCommand =
    plain("reset", 1, FLAGS, "6.2.0", "Resets the connection to its initial state.", "", reset);

fn reset(cx: &mut ConnCx<'_>) -> CmdResult {
    // The queue and the watches are freed elsewhere. Subscriptions and tracked prefixes must be
    // gone before the reply, since the client may set new ones.
    let follows = cx.session.pushes.tracks.as_ref().map_or(0, |own| own.tracker.prefix_count());
    cx.weigh(cx.session.shared.pushes.subscriptions.all() + follows)?;
    let shared = cx.session.shared.clone();
    if std::mem::take(&mut cx.session.pushes.monitor) {
        weft_executor::monitor::leave(cx.srv(), shared.id);
        shared.pushes.monitor.store(false, Ordering::Relaxed);
    }
    crate::commands::pubsub::forget_all(cx);
    weft_executor::tracking::disable(cx.core.srv, cx.session);
    weft_executor::transaction::discard(cx.core.srv, cx.session);
    let srv = cx.srv();
    let identity = srv.access.stranger();
    show_user(&shared, &identity);
    let session = &mut *cx.session;
    if identity.must_log_in {
        let list = &srv.clients.unauthenticated;
        list.add(&shared, list.next_arrival(), srv.mono_ms());
    }
    session.identity = identity;
    session.db = 0;
    // CLIENT REPLY SKIP covers this command, too. Otherwise a client that counts replies would be
    // off by one.
    if session.replies.mode == ReplyMode::Off {
        session.replies.mode = ReplyMode::On;
    }
    session.options.no_touch = false;
    session.options.import_source = false;
    session.options.asking = Asking::No;
    session.importing = None;
    for flag in [
        &shared.options.no_touch,
        &shared.options.no_evict,
        &shared.options.readonly,
        &shared.options.import_source,
        &shared.options.reply_off,
    ] {
        flag.store(false, Ordering::Relaxed);
    }
    shared.change_names(|names| names.name = Vec::new());
    crate::commands::connection::hello::speak(cx, Proto::Resp2);
    cx.reply.simple("RESET");
    Ok(())
}

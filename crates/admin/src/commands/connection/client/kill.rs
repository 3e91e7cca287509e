//! CLIENT KILL: closes connections, this one or others.
//!
//! Another client's connection belongs to its thread, which may be executing its requests right
//! now. KILL stops the I/O threads while it marks the victims, so that none of them executes a
//! command after the reply. Their threads close them later. A victim that is blocked on a key is
//! unblocked at once: later pushes do not serve it.
//!
//! A victim's transaction in the slow lane continues. At its end, it may publish or change the
//! configuration, so KILL replies only after it. Rather than wait for a busy script, KILL does nothing and
//! answers BUSY. Other slow commands hold the shards of their keys,
//! so no client sees their effects before they end.
//!
//! The link to our primary is shut down at once. The thread that reads it notices after the data
//! that it has already read. The applied part is counted, and the next attempt continues from
//! there.

use crate::commands::connection::client::filter::Filter;
use std::sync::atomic::Ordering;
use weft_commands::{CmdResult, Error};
use weft_executor::dispatch::busy;
use weft_executor::dispatch::core::ConnCx;
use weft_executor::dispatch::outcome::Suspend;
use weft_executor::end_client::end_client;
use weft_replication_driver::hub;
use weft_state::clients::ClientShared;
use weft_state::conn::ConnectionMessage;
use weft_state::mailbox::Message;
use weft_state::session::PendingReply;

const NO_SUCH_CLIENT: Error = Error::new("ERR No such client");

pub fn kill(cx: &mut ConnCx<'_>) -> CmdResult {
    match cx.args {
        [_, _, address] => {
            let fits = |c: &ClientShared| c.origin.peer.as_bytes() == *address;
            match kill_all(cx, fits)? {
                0 => return Err(NO_SUCH_CLIENT),
                _ => cx.reply.ok(),
            }
        }
        [_, _, options @ ..] => {
            let filter = Filter::parse(options, cx.srv(), true)?;
            let (me, now_ms) = (cx.session.shared.id, cx.srv().mono_ms());
            let killed = kill_all(cx, |c| filter.fits(c, me, now_ms))?;
            cx.reply.int(killed as i64);
        }
        [] | [_] => unreachable!("the arity is at least three"),
    }
    Ok(())
}

/// Kills all clients that `fits` selects and returns their number.
///
/// # Errors
/// BUSY: the reply would wait for a busy script. No client was killed.
fn kill_all(cx: &mut ConnCx<'_>, fits: impl Fn(&ClientShared) -> bool) -> Result<usize, Error> {
    let srv = cx.srv();
    let me = cx.session.shared.id;
    if let Some(behind) = cx.session.replies.pending.take() {
        // The first run has marked the clients.
        return Ok(behind.count);
    }
    if !cx.in_transaction() {
        let acting = &srv.slow.acting;
        let waits_for = acting.commands(|c, delays_kill| delays_kill && c.id != me && fits(c));
        if let Some(e) = busy::error_of_commands(srv, &waits_for) {
            return Err(e);
        }
    }
    let (own, others): (Vec<_>, Vec<_>) =
        srv.clients.registry.all().into_iter().filter(|c| fits(c)).partition(|c| c.id == me);
    if !own.is_empty() {
        // The reply is still sent.
        cx.session.close = true;
    }
    let killed = others.iter().filter(|client| end_client(srv, client)).count();
    let found = own.len() + killed;
    // Includes clients that were killed before or have hung up: `clients` no longer lists them.
    let ends = |c: &ClientShared| {
        let (killed, closing) = (&c.killed, &c.closing);
        c.id != me && (killed.load(Ordering::SeqCst) || closing.load(Ordering::SeqCst))
    };
    let commands = srv.slow.acting.commands(|c, delays_kill| delays_kill && ends(c) && fits(c));
    if !commands.is_empty() && !cx.in_transaction() {
        cx.session.replies.pending = Some(Box::new(PendingReply { count: found, commands }));
        cx.suspend = Some(Suspend::Slow { has_run: true });
    }
    for client in others {
        srv.clients.registry.remove(client.id);
        if client.origin.is_primary {
            hub(srv).close_link(client.id);
            continue;
        }
        srv.threads[client.thread()]
            .mailbox
            .send(Message::Connection(ConnectionMessage::Kill { client }));
    }
    Ok(found)
}

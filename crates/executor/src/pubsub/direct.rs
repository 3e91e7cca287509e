//! A push to one client, whatever it listens to.
//!
//! The client may move to another thread meanwhile. Who sends holds its *route*, and so does the
//! thread that gives the client away: pushes of before are in the old thread's mailbox, which looks
//! through it once more, those of after behind the client in the new one's.

use std::sync::Arc;
use weft_state::clients::ClientShared;
use weft_state::server::Server;
use weft_tracking::message::Message;

/// Appends `what`, in the protocol that the client speaks then, to the output of `client`: behind all
/// that was pushed to it before, and in front of the replies of commands that it executes from now on,
/// if its session [listens](weft_state::session::PushState::listens). Any thread may call it, also while it holds
/// shards; it waits for nobody. Nothing happens when the client is gone.
pub fn push(srv: &Server, client: &Arc<ClientShared>, what: Message) {
    let mut route = client.route();
    route.was_pushed_to = true;
    let (thread, weight) = (client.thread(), what.weight());
    weft_state::post::put(
        srv,
        thread,
        weight,
        weft_state::mailbox::Message::Push { client: client.clone(), what },
    );
    drop(route);
    srv.threads[thread].mailbox.ring();
}

//! A push to one client, independent of its subscriptions.
//!
//! The client may move to another thread meanwhile. The sender holds the client's *route*, and so does the
//! thread that moves the client. Earlier pushes are in the mailbox of the old thread, which checks it once more.
//! Later ones are in the mailbox of the new thread, after the message with the client.

use std::sync::Arc;
use weft_state::clients::ClientShared;
use weft_state::mailbox::Message;
use weft_state::post;
use weft_state::push::PushMessage;
use weft_state::server::Server;
use weft_tracking::message::Message as Invalidation;

/// Appends `what` to the output of `client`, in the client's protocol at that time. It follows all earlier pushes,
/// and precedes the replies of commands that the client executes later, if its session
/// [listens](weft_state::session::PushState::listens). Any thread may call this, even while it holds shards: it
/// doesn't block. Does nothing if the client has disconnected.
pub fn push(srv: &Server, client: &Arc<ClientShared>, what: Invalidation) {
    let mut route = client.route();
    route.was_pushed_to = true;
    let (thread, weight) = (client.thread(), what.weight());
    let message = Message::Push(PushMessage::Invalidation { client: client.clone(), what });
    post::put(srv, thread, weight, message);
    drop(route);
    srv.threads[thread].mailbox.ring();
}

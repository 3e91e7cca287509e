//! A push to one client, whatever it listens to.
//!
//! The client may move to another thread meanwhile. Who sends holds its *route*, and so does the
//! thread that gives the client away: pushes of before are in the old thread's mailbox, which looks
//! through it once more, those of after behind the client in the new one's.

use crate::clients::ClientShared;
use crate::io::Message;
use crate::server::Server;
use std::sync::Arc;
use weft_resp::{Blob, Reply};

/// Pushes of so many bytes and more are not copied.
const SHARE_FROM: usize = 512;

/// Appends `bytes`, which are a push in the protocol that the client speaks, to the output of
/// `client`: behind all that was pushed to it before, and in front of the replies of commands that
/// it executes from now on, if its session [listens](crate::io::Session::listens). Any thread may
/// call it, also while it holds shards; it waits for nobody. Nothing happens when the client is gone.
pub fn push(srv: &Server, client: &Arc<ClientShared>, bytes: &Blob) {
    let mut route = client.route();
    route.was_pushed_to = true;
    let mailbox = &srv.threads[client.thread()].mailbox;
    mailbox.put(Message::Push { client: client.clone(), bytes: bytes.clone() });
    drop(route);
    mailbox.ring();
}

/// Appends such a push to an output.
pub fn write(bytes: &Blob, reply: &mut Reply) {
    reply.raw_shared(bytes, SHARE_FROM);
}

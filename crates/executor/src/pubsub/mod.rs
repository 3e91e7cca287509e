//! Publish and subscribe: who listens to which channel, and how a message gets to them.
//!
//! ```text
//!  publisher's thread                              threads that have subscribers
//!  PUBLISH ─► registry: lock of the channel's part
//!             encode once, match patterns once
//!             one message for each thread ────────► mailbox ─► appended to the connections' output
//!             unlock                                           ─► sent, some connections each context
//! ```
//!
//! * [`registry`] - channels and patterns, and the clients of each thread that listen to them
//! * [`message`] - a message on its way to one thread: bytes that all receivers share
//! * [`run`] - messages that follow each other to the same receivers, as one
//! * [`subscriber`] - what one client listens to; [`mail`]: what has come for a thread and in which order
//! * [`weft_state::crowd`] - publishers that are faster than a thread's fan-out wait, without holding anybody up
//! * [`direct`] - a push to one client, whatever it listens to
//!
//! The order of messages, and why it holds, is told in `docs/design/publish-subscribe.md`.

pub mod direct;

pub use direct::push;

use crate::dispatch::core::Core;
use weft_pubsub::registry::{CanWait, Kind, MailboxFull};
use weft_resp::Reply;
use weft_state::attention;
use weft_state::clients::ClientShared;
use weft_state::mailbox::Message;
use weft_state::server::Server;
use weft_state::session::Session;
use weft_state::threads::pool::MAX_IO_THREADS;

/// Gives `message` to all who listen to `channel`, by name or by pattern; how many that are. Any
/// thread may call it, also while it holds shards: it waits for nobody, and takes O(threads that
/// have subscribers + patterns). Without subscribers it is a look at two numbers.
///
/// Whoever calls it while it holds the shard of a key has the message come before the reply of any
/// later command on that key, for every client that gets both.
pub fn publish(srv: &Server, channel: &[u8], message: &[u8]) -> usize {
    let (kind, patience) = (Kind::Channel, CanWait::None);
    let told = srv.clients.pubsub.publish(kind, channel, message, patience, srv, &mut || {});
    told.unwrap_or_default()
}

/// As [`publish`], by a client that can wait until a thread with subscribers has caught up.
/// `accepted` is called when it is certain that the message is published, and before any other on that
/// channel, if there are clients that could tell.
///
/// # Errors
/// Nothing has happened: that thread is behind.
pub fn publish_patiently(
    srv: &Server,
    kind: Kind,
    channel: &[u8],
    message: &[u8],
    patience: CanWait,
    accepted: &mut dyn FnMut(),
) -> Result<usize, MailboxFull> {
    srv.clients.pubsub.publish(kind, channel, message, patience, srv, accepted)
}

/// Appends what was published for the client until now, so that what it is answered next comes
/// behind it. To be called by the client's own thread, and for a command on keys while their shards
/// are held: then what comes before the reply, and what after it, is what has happened before and
/// after.
#[cold]
pub fn catch_up(core: &mut Core, session: &mut Session, reply: &mut Reply) {
    // A thread of the slow lane gets no mail for its clients; there is a mark instead.
    if core.id >= MAX_IO_THREADS {
        return;
    }
    let mailbox = &core.srv.threads[core.id].mailbox;
    // What comes from here on is published later, and may come without end.
    let mut left = mailbox.count();
    core.mail.stage(|| {
        left = left.checked_sub(1)?;
        mailbox.take()
    });
    let (client, proto, subscribes) = (session.shared.id, session.proto, session.pushes.subscribes);
    core.mail.since(session.pushes.seen, client, |message| {
        if let Message::Published(published) = message {
            published.for_client(client, |part| part.write(proto, reply));
        } else if let Message::Push { what, .. } = message {
            what.write(proto, subscribes, reply);
        }
    });
    session.pushes.seen = core.mail.end();
    session.pushes.listens = session.pushes.subscribes || session.pushes.is_pushed_to;
    keep(session, reply);
}

/// What stands in `reply` by now is no reply, and is not dropped by CLIENT REPLY.
pub fn keep(session: &mut Session, reply: &Reply) {
    if session.replies.mode.drops() {
        session.replies.keep = Some(reply.mark());
    }
}

/// The client listens to nothing any more: it is gone, or RESET. To be called by who owns it, or
/// holds its route. O(what it has listened to).
pub fn leave(srv: &Server, client: &ClientShared) {
    if let Some(subscriber) = client.subscriber().take() {
        srv.clients.pubsub.leave(client.id, client.thread(), &subscriber);
        client.show_subscriptions(None);
    }
}

/// As [`leave`], of a client that is gone or killed, and will listen to nothing again. Where it has listened to very
/// much, what is left of it in the registry is taken out in the background, and counted until then.
pub fn leave_for_good(srv: &'static Server, client: &ClientShared) {
    if let Some(subscriber) = client.subscriber().take() {
        client.show_subscriptions(None);
        let (client, thread) = (client.id, client.thread());
        srv.background.bio.release(subscriber.all(), move || {
            srv.clients.pubsub.leave(client, thread, &subscriber)
        });
    }
}

/// A thread that is full, if there is one; if not, nobody is asked to look for one any more. O(threads).
#[cold]
pub fn crowded_thread(srv: &Server) -> Option<usize> {
    // First, since a thread may become full while the others are looked at.
    srv.set_attention(attention::CROWDED, false);
    let full = srv.threads.iter().position(|thread| thread.crowd.is_full());
    if full.is_some() {
        srv.set_attention(attention::CROWDED, true);
    }
    full
}

//! Publish and subscribe: the subscriptions of clients, and the delivery of messages.
//!
//! ```text
//!  publisher's thread                              threads that have subscribers
//!  PUBLISH ─► registry: lock of the channel's part
//!             encode once, match patterns once
//!             one message for each thread ────────► mailbox ─► appended to the connections' output
//!             unlock                                           ─► sent, some connections per iteration
//! ```
//!
//! * `weft_pubsub::registry` - channels and patterns, with each thread's subscribers
//! * `weft_pubsub::message` - a message on its way to one thread: bytes that all receivers share
//! * `weft_pubsub::run` - consecutive messages to the same receivers, as one
//! * `weft_pubsub::subscriber` - the subscriptions of one client; `weft_pubsub::inbox`: a thread's messages in order
//! * [`weft_state::crowd`] - publishers wait for a thread whose fan-out is slower, and don't delay other clients
//! * [`direct`] - a push to one client, independent of its subscriptions
//!
//! For the order of messages, and its proof, see `docs/design/publish-subscribe.md`.

pub mod direct;

pub use direct::push;

use crate::authority;
use crate::dispatch::core::Core;
use std::sync::atomic::Ordering;
use weft_pubsub::registry::{CanWait, Kind, MailboxFull};
use weft_resp::Reply;
use weft_state::attention;
use weft_state::clients::ClientShared;
use weft_state::mailbox::Message;
use weft_state::push::PushMessage;
use weft_state::server::Server;
use weft_state::session::Session;
use weft_state::threads::pool::MAX_IO_THREADS;

/// Publishes `message` to the subscribers of `channel`, by name or by pattern, and returns their number. Any thread
/// may call this, even while it holds shards: it doesn't block. O(threads with subscribers + patterns); without
/// subscribers, two loads.
///
/// If the caller holds the shard of a key, the message precedes the reply of any later command on that key, for each
/// client that gets both.
pub fn publish(srv: &Server, channel: &[u8], message: &[u8]) -> usize {
    let (kind, patience) = (Kind::Channel, CanWait::None);
    let receivers = srv.clients.pubsub.publish(kind, channel, message, patience, srv, &mut || {});
    receivers.unwrap_or_default()
}

/// As [`publish`], for a client that can wait until a thread with subscribers has delivered its messages.
/// `accepted` is called when the message will certainly be published. If the channel has subscribers, it is called
/// before any other message is published on it.
///
/// # Errors
/// That thread's mailbox is full. Nothing was published.
pub fn publish_patiently(
    srv: &Server,
    kind: Kind,
    channel: &[u8],
    message: &[u8],
    patience: CanWait,
    accepted: &mut dyn FnMut(),
) -> Result<usize, MailboxFull> {
    let is_bound = authority::binds_published(srv, kind);
    let registry = &srv.clients.pubsub;
    registry.publish_as(is_bound, (kind, channel, message), patience, srv, accepted)
}

/// As [`publish_patiently`], also to the nodes of the cluster whose clients listen. The number of receivers is that of this
/// node.
///
/// # Errors
/// As [`publish_patiently`].
#[inline]
pub fn publish_to_cluster(
    srv: &Server,
    kind: Kind,
    channel: &[u8],
    message: &[u8],
    patience: CanWait,
    accepted: &mut dyn FnMut(),
) -> Result<usize, MailboxFull> {
    match srv.clients.links.is_any() {
        false => publish_patiently(srv, kind, channel, message, patience, accepted),
        true => publish_to_links(srv, kind, (channel, message), patience, accepted),
    }
}

/// If the channel has subscribers here, its part is locked while the message is given to the links. So all nodes get the
/// messages that are published here in one order.
#[cold]
fn publish_to_links(
    srv: &Server,
    kind: Kind,
    (channel, message): (&[u8], &[u8]),
    patience: CanWait,
    accepted: &mut dyn FnMut(),
) -> Result<usize, MailboxFull> {
    let links = &srv.clients.links.registry;
    if patience == CanWait::Some
        && let Some(full) = links.full_mailbox(kind, channel, srv)
    {
        return Err(full);
    }
    publish_patiently(srv, kind, channel, message, patience, &mut || {
        accepted();
        // It can't fail: nothing waits.
        let is_bound = authority::binds_published(srv, kind);
        let message = (kind, channel, message);
        let _ = links.publish_as(is_bound, message, CanWait::None, srv, &mut || {});
    })
}

/// Appends the messages that were published for the client so far, so that they precede its next reply. Call it on
/// the client's thread, for a command on keys while their shards are held: then exactly the messages of earlier
/// commands on these keys precede the reply.
#[cold]
pub fn append_messages(core: &mut Core, session: &mut Session, reply: &mut Reply) {
    // Mailboxes belong to I/O threads. For the slow lane, `PushMessage::HoldBack` marks the position of the reply.
    if core.id >= MAX_IO_THREADS {
        return;
    }
    let mailbox = &core.srv.threads[core.id].mailbox;
    // Messages that arrive from here on are later ones, and may arrive endlessly.
    let mut left = mailbox.count();
    core.inbox.stage(|| {
        left = left.checked_sub(1)?;
        mailbox.take()
    });
    let (client, proto, subscribes) = (session.shared.id, session.proto, session.pushes.subscribes);
    let binds = authority::binds_messages(core.srv);
    let mut is_bound = false;
    core.inbox.since(session.pushes.seen, client, |message| {
        if let Message::Push(PushMessage::Published(published)) = message {
            published.for_client(client, |part| {
                part.write(proto, reply);
                is_bound |= binds && published.needs_authority();
            });
        } else if let Message::Push(PushMessage::Invalidation { what, .. }) = message {
            what.write(proto, subscribes, reply);
        }
    });
    if is_bound {
        authority::note_message(core.srv, session);
    }
    session.pushes.seen = core.inbox.end();
    session.pushes.listens = session.pushes.subscribes || session.pushes.is_pushed_to;
    keep(session, reply);
}

/// Writes the push for a change of subscriptions, with the client's number of subscriptions after it. `word`: `subscribe` or
/// `unsubscribe`.
pub fn write_change(reply: &mut Reply, kind: Kind, word: &str, name: Option<&[u8]>, now: usize) {
    reply.push(3);
    reply.bulk([kind.prefix(), word].concat().as_bytes());
    match name {
        Some(name) => reply.bulk(name),
        None => reply.null(),
    }
    reply.int(now as i64);
}

/// Ends the subscriptions of a client to the shard channels that `is_lost` selects, with a push for each. Called on the client's
/// thread. O(shard channels).
pub fn end_shard_subscriptions(
    srv: &Server,
    session: &mut Session,
    is_lost: impl Fn(&[u8]) -> bool,
    reply: &mut Reply,
) {
    let mut own = session.shared.subscriber();
    let Some(subscriber) = &mut *own else { return };
    let mut lost = subscriber.names(Kind::Shard);
    lost.retain(|name| is_lost(name));
    for name in &lost {
        subscriber.forget(Kind::Shard, name);
        write_change(reply, Kind::Shard, "unsubscribe", Some(name), subscriber.told(Kind::Shard));
    }
    let (client, thread) = (session.shared.id, session.shared.thread());
    srv.clients.registry_of(&session.shared).unsubscribe(client, thread, Kind::Shard, &lost);
    session.shared.show_subscriptions(Some(&**subscriber));
    if subscriber.is_empty() {
        *own = None;
        session.pushes.subscribes = false;
    }
}

/// Marks the present content of `reply` as pushes, which CLIENT REPLY doesn't drop.
pub fn keep(session: &mut Session, reply: &Reply) {
    if session.replies.mode.drops() {
        session.replies.keep = Some(reply.mark());
    }
}

/// Removes all subscriptions of a client that has disconnected or sent RESET. The caller owns the client or holds
/// its route. O(subscriptions).
pub fn leave(srv: &Server, client: &ClientShared) {
    if let Some(subscriber) = client.subscriber().take() {
        srv.clients.registry_of(client).leave(client.id, client.thread(), &*subscriber);
        client.show_subscriptions(None);
    }
    end_node_link(srv, client);
}

/// Removes a client from the links of other nodes, if it is one.
fn end_node_link(srv: &Server, client: &ClientShared) {
    if client.pushes.is_node_link.load(Ordering::Relaxed) {
        srv.clients.links.remove(client.id);
    }
}

/// As [`leave`], for a client that has disconnected or was killed. Very many subscriptions are removed in the
/// background, and counted until then.
pub fn leave_for_good(srv: &'static Server, client: &ClientShared) {
    if let Some(subscriber) = client.subscriber().take() {
        client.show_subscriptions(None);
        let registry = srv.clients.registry_of(client);
        let (client, thread) = (client.id, client.thread());
        srv.process
            .background
            .bio
            .release(subscriber.all(), move || registry.leave(client, thread, &*subscriber));
    }
    end_node_link(srv, client);
}

/// A thread whose mailbox is full. If there is none, clears the flag that makes commands check for it. O(threads).
#[cold]
pub fn crowded_thread(srv: &Server) -> Option<usize> {
    // First, since a thread may become full while the others are checked.
    srv.set_attention(attention::CROWDED, false);
    let full = srv.threads.iter().position(|thread| thread.crowd.is_full());
    if full.is_some() {
        srv.set_attention(attention::CROWDED, true);
    }
    full
}

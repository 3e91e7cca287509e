//! The link of another node, which is a client here.
//!
//! | command | meaning |
//! |---|---|
//! | `REPLCONF weft-link FROM TO` | the client is a link of node FROM, opened to node TO: this one |
//! | `REPLCONF weft-subscribe KIND NAME ...` | it listens to these names; KIND: `channel`, `pattern` or `shard` |
//! | `REPLCONF weft-unsubscribe KIND NAME ...` | the opposite |
//! | `REPLCONF weft-ping` | does nothing |
//!
//! REPLCONF is the command of servers, so the user of replication may call it. Each gets `+OK`.

use std::sync::atomic::Ordering;
use weft_cluster::NodeId;
use weft_commands::{CmdResult, Error};
use weft_executor::dispatch::core::ConnCx;
use weft_executor::end_client::end_client;
use weft_executor::pubsub;
use weft_pubsub::registry::{Kind, Name};
use weft_resp::Proto;
use weft_state::clients::ClientShared;
use weft_state::conn::ConnectionMessage;
use weft_state::mailbox::Message;
use weft_state::node_links::Incoming;
use weft_state::server::Server;

pub const LINK: &str = "weft-link";
pub const SUBSCRIBE: &str = "weft-subscribe";
pub const UNSUBSCRIBE: &str = "weft-unsubscribe";
pub const PING: &str = "weft-ping";

const SYNTAX: Error = Error::new("ERR syntax error");
const NO_STORE: Error = Error::new("ERR This node has no cluster-store");
const OTHER_NODE: Error = Error::new("ERR This is another node");
const UNKNOWN_NODE: Error = Error::new("ERR This node doesn't know the node of the link");
const IN_USE: Error = Error::new("ERR The connection can't become a link");
const NO_LINK: Error = Error::new("ERR The connection is not a link of a node");

/// The word of a kind.
pub fn word_of(kind: Kind) -> &'static str {
    match kind {
        Kind::Channel => "channel",
        Kind::Pattern => "pattern",
        Kind::Shard => "shard",
    }
}

fn kind_of(word: &[u8]) -> Option<Kind> {
    Kind::ALL.into_iter().find(|kind| word_of(*kind).as_bytes() == word)
}

/// Executes a command of a link; `None`: it is another command.
pub fn execute(cx: &mut ConnCx<'_>) -> Option<CmdResult> {
    let is = |word: &str| cx.args.get(1).is_some_and(|first| *first == word.as_bytes());
    if is(LINK) {
        Some(become_link(cx))
    } else if is(SUBSCRIBE) {
        Some(change(cx, subscribe))
    } else if is(UNSUBSCRIBE) {
        Some(change(cx, unsubscribe))
    } else if is(PING) {
        cx.reply.ok();
        Some(Ok(()))
    } else {
        None
    }
}

fn become_link(cx: &mut ConnCx<'_>) -> CmdResult {
    let [_, _, from, to] = cx.args else { return Err(SYNTAX) };
    let (Some(from), Some(to)) = (NodeId::parse(from), NodeId::parse(to)) else {
        return Err(SYNTAX);
    };
    let srv = cx.srv();
    if !srv.nodes.cluster.has_store() {
        return Err(NO_STORE);
    }
    let topology = srv.nodes.cluster.topology();
    if topology.me != to {
        return Err(OTHER_NODE);
    }
    if from == to || topology.map.node(from).is_none() {
        return Err(UNKNOWN_NODE);
    }
    let in_transaction = cx.in_transaction();
    let session = &mut *cx.session;
    let client = session.shared.clone();
    let is_replica = client.replica.is_known.load(Ordering::SeqCst);
    let is_link = client.pushes.is_node_link.load(Ordering::Relaxed);
    if in_transaction || is_replica || is_link || client.subscriber().is_some() {
        return Err(IN_USE);
    }
    // Its replies can be distinguished from messages.
    session.proto = Proto::Resp3;
    client.activity.resp.store(3, Ordering::Relaxed);
    client.pushes.is_node_link.store(true, Ordering::Relaxed);
    let link = Incoming { node: from, created_ms: srv.now_ms(), client };
    for earlier in srv.clients.links.add(link) {
        close(srv, &earlier);
    }
    cx.reply.ok();
    Ok(())
}

/// Closes a link of another node. Any thread may call this.
pub fn close(srv: &'static Server, link: &Incoming) {
    let client = link.client.clone();
    end_client(srv, &client);
    srv.clients.registry.remove(client.id);
    srv.clients.links.remove(client.id);
    let thread = &srv.threads[client.thread()];
    thread.mailbox.send(Message::Connection(ConnectionMessage::Kill { client }));
}

fn change(
    cx: &mut ConnCx<'_>,
    change: fn(&'static Server, &ClientShared, Kind, &[&[u8]]),
) -> CmdResult {
    if !cx.session.shared.pushes.is_node_link.load(Ordering::Relaxed) {
        return Err(NO_LINK);
    }
    let Some((kind, names)) = cx.args.get(2).zip(cx.args.get(3..)) else { return Err(SYNTAX) };
    let kind = kind_of(kind).ok_or(SYNTAX)?;
    let srv = cx.srv();
    let client = cx.session.shared.clone();
    change(srv, &client, kind, names);
    let session = &mut *cx.session;
    if client.killed.load(Ordering::SeqCst) {
        // CLIENT KILL may have come before the subscription.
        pubsub::leave(srv, &client);
        session.close = true;
        return Ok(());
    }
    session.pushes.subscribes = client.is_subscriber();
    session.pushes.listens |= session.pushes.subscribes;
    cx.reply.ok();
    Ok(())
}

fn subscribe(srv: &'static Server, client: &ClientShared, kind: Kind, names: &[&[u8]]) {
    let registry = &srv.clients.links.registry;
    let mut own = client.subscriber();
    let subscriber = own.get_or_insert_default();
    let place = (client.id, client.thread());
    let goes_on = || !client.killed.load(Ordering::SeqCst);
    subscriber.subscribe(registry, place, kind, names, goes_on, |_, _| {});
    client.show_subscriptions(Some(&**subscriber));
}

fn unsubscribe(srv: &'static Server, client: &ClientShared, kind: Kind, names: &[&[u8]]) {
    let mut own = client.subscriber();
    let Some(subscriber) = &mut *own else { return };
    let gone = names.iter().filter(|name| subscriber.forget(kind, name));
    let gone: Vec<Name> = gone.map(|name| Name::from(*name)).collect();
    let registry = &srv.clients.links.registry;
    registry.unsubscribe(client.id, client.thread(), kind, &gone);
    client.show_subscriptions(Some(&**subscriber));
    if subscriber.is_empty() {
        *own = None;
    }
}

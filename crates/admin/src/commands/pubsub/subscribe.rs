//! SUBSCRIBE, PSUBSCRIBE, SSUBSCRIBE and their opposites.
//!
//! They reply with a push for each name, which CLIENT REPLY does not suppress. In a transaction,
//! the pushes are elements of EXEC's reply, and messages published during EXEC follow it.

use crate::commands::pubsub::{FLAGS, plan};
use std::sync::atomic::Ordering;
use weft_command_spec::{Channels, Flags, NOT_A_KEY, keys};
use weft_commands::{CmdResult, Error};
use weft_executor::dispatch::ServerCommand;
use weft_executor::dispatch::core::ConnCx;
use weft_executor::pubsub;
use weft_pubsub::registry::Kind;
use weft_pubsub::registry::Name;

const LISTENS: Flags = FLAGS.or(Flags::NOSCRIPT).or(Flags::WHILE_SUBSCRIBED);

const IN_TRANSACTION: Error = Error::new("ERR SSUBSCRIBE isn't allowed for a DENY BLOCKING client");

pub const SUBSCRIBE: ServerCommand =
    plan("subscribe", -2, LISTENS, "2.0.0", |cx| subscribe(cx, Kind::Channel))
        .about("Subscribes to channels.", "channel...")
        .complexity("O(N) where N is the number of channels")
        .subscribes(Channels::Subscribe)
        .build();

pub const PSUBSCRIBE: ServerCommand =
    plan("psubscribe", -2, LISTENS, "2.0.0", |cx| subscribe(cx, Kind::Pattern))
        .about("Subscribes to all channels whose names match a pattern.", "pattern:pattern...")
        .complexity("O(N) where N is the number of patterns")
        .subscribes(Channels::SubscribePatterns)
        .build();

pub const SSUBSCRIBE: ServerCommand =
    plan("ssubscribe", -2, LISTENS, "7.0.0", |cx| subscribe(cx, Kind::Shard))
        .about("Subscribes to shard channels.", "shardchannel...")
        .complexity("O(N) where N is the number of shard channels")
        .keys(&keys::all(1, &[NOT_A_KEY]))
        .subscribes(Channels::Subscribe)
        .build();

pub const UNSUBSCRIBE: ServerCommand =
    plan("unsubscribe", -1, LISTENS, "2.0.0", |cx| unsubscribe(cx, Kind::Channel))
        .about("Unsubscribes from channels.", "[channel...]")
        .complexity("O(N) where N is the number of channels")
        .build();

pub const PUNSUBSCRIBE: ServerCommand =
    plan("punsubscribe", -1, LISTENS, "2.0.0", |cx| unsubscribe(cx, Kind::Pattern))
        .about("Unsubscribes from patterns.", "[pattern:pattern...]")
        .complexity("O(N) where N is the number of patterns")
        .build();

pub const SUNSUBSCRIBE: ServerCommand =
    plan("sunsubscribe", -1, LISTENS, "7.0.0", |cx| unsubscribe(cx, Kind::Shard))
        .about("Unsubscribes from shard channels.", "[shardchannel...]")
        .complexity("O(N) where N is the number of shard channels")
        .keys(&keys::all(1, &[NOT_A_KEY]))
        .build();

fn subscribe(cx: &mut ConnCx<'_>, kind: Kind) -> CmdResult {
    // The other two kinds are allowed for old clients.
    if cx.in_transaction() && kind == Kind::Shard {
        return Err(IN_TRANSACTION);
    }
    cx.weigh_args()?;
    let (registry, names) = (cx.core.srv.clients.registry_of(&cx.session.shared), &cx.args[1..]);
    let (session, reply) = (&mut *cx.session, &mut *cx.reply);
    let who = (session.shared.id, session.shared.thread());
    let mut own = session.shared.subscriber();
    let subscriber = own.get_or_insert_default();
    let is_killed = || session.shared.killed.load(Ordering::SeqCst);
    subscriber.subscribe(
        registry,
        who,
        kind,
        names,
        || !is_killed(),
        |name, now| {
            pubsub::write_change(reply, kind, "subscribe", Some(name), now);
        },
    );
    session.shared.show_subscriptions(Some(&**subscriber));
    drop(own);
    if is_killed() {
        // A CLIENT KILL that came during the subscription waits for this.
        pubsub::leave(cx.core.srv, &session.shared);
        session.close = true;
        return Ok(());
    }
    (session.pushes.subscribes, session.pushes.listens) = (true, true);
    pubsub::keep(session, reply);
    Ok(())
}

fn unsubscribe(cx: &mut ConnCx<'_>, kind: Kind) -> CmdResult {
    let all: Vec<Name>;
    let listens_to = cx.session.shared.subscriber().as_ref().map_or(0, |own| own.len(kind));
    cx.weigh(if cx.args.len() == 1 { listens_to } else { cx.args.len() })?;
    let in_transaction = cx.in_transaction();
    let session = &mut *cx.session;
    let mut own = session.shared.subscriber();
    let names: Vec<&[u8]> = match (cx.args, &*own) {
        ([_], Some(subscriber)) => {
            all = subscriber.names(kind);
            all.iter().map(|name| &name[..]).collect()
        }
        ([_], None) | ([], _) => Vec::new(),
        ([_, names @ ..], _) => names.to_vec(),
    };
    let before = own.as_ref().map_or(0, |s| s.told(kind));
    let mut gone = Vec::new();
    if let Some(subscriber) = &mut *own {
        gone.extend(names.iter().map(|name| subscriber.forget(kind, name)));
        let leaves = names.iter().zip(&gone).filter(|(_, gone)| **gone);
        let leaves: Vec<Name> = leaves.map(|(name, _)| Name::from(*name)).collect();
        let (id, thread) = (session.shared.id, session.shared.thread());
        cx.core.srv.clients.registry_of(&session.shared).unsubscribe(id, thread, kind, &leaves);
        session.shared.show_subscriptions(Some(&**subscriber));
        if subscriber.is_empty() {
            *own = None;
        }
    }
    let subscribes = own.is_some();
    drop(own);
    session.pushes.subscribes = subscribes;
    // Messages published until now have counted this client as a receiver, so it must get them.
    if !in_transaction && session.pushes.listens {
        pubsub::append_messages(cx.core, session, cx.reply);
    }
    let mut now = before;
    for (at, name) in names.iter().enumerate() {
        now -= usize::from(gone.get(at) == Some(&true));
        pubsub::write_change(cx.reply, kind, "unsubscribe", Some(name), now);
    }
    if names.is_empty() {
        pubsub::write_change(cx.reply, kind, "unsubscribe", None, now);
    }
    pubsub::keep(cx.session, cx.reply);
    Ok(())
}

/// RESET: drops all subscriptions without a push.
pub fn forget_all(cx: &mut ConnCx<'_>) {
    pubsub::leave(cx.core.srv, &cx.session.shared);
    cx.session.pushes.subscribes = false;
    if cx.session.pushes.listens {
        pubsub::append_messages(cx.core, cx.session, cx.reply);
    }
}

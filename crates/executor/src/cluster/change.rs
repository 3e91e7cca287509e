//! Putting another topology into force.
//!
//! The command that does it has [`Needs::Stop`](weft_state::command_table::Needs::Stop), so the I/O threads are between two
//! commands. Their next command finds the new topology. Commands in the slow lane announce themselves and check their slot
//! then, under their shards: if this node has lost slots, the reply waits for those that run.
//!
//! Blocked clients get a redirect, and subscriptions to shard channels end, where their slot is no longer served here. The
//! threads of their connections do it when they read [`WaitMessage::Rerouted`].

use super::{check_blocked, slot_stats};
use crate::dispatch::busy;
use crate::dispatch::core::{ConnCx, Core};
use crate::dispatch::outcome::Suspend;
use crate::pubsub;
use std::sync::atomic::Ordering;
use weft_base::slot::key_slot;
use weft_cluster::{Asker, Map, NodeId, SlotSet, Verdict};
use weft_commands::Error;
use weft_config::Config;
use weft_keyspace::Stop;
use weft_resp::Reply;
use weft_state::acting::ActionId;
use weft_state::cluster::{Topology, settings_of};
use weft_state::mailbox::Message;
use weft_state::server::Server;
use weft_state::session::{PendingReply, Session};
use weft_state::waiting::{WaitMessage, Waiting};

/// BUSY, if the change to `map` takes slots away and would wait for a busy script. To be called before it has any effect.
pub fn error_of_change(cx: &ConnCx<'_>, map: &Map, me: NodeId) -> Option<Error> {
    let srv = cx.srv();
    if !srv.scripts.busy.is_any() || cx.in_transaction() {
        return None;
    }
    let before = srv.nodes.cluster.topology();
    let after = Topology::new(map.clone(), me, before.settings);
    match before.routes.serves_beyond(&after.routes) {
        true => busy::error_of_commands(srv, &commands_of_others(cx)),
        false => None,
    }
}

/// The commands of other clients in the slow lane.
fn commands_of_others(cx: &ConnCx<'_>) -> Vec<ActionId> {
    let me = cx.session.shared.id;
    cx.srv().slow.acting.commands(|client, _| client.id != me)
}

/// Puts the routes of `map` into force, in which this server is node `me`, while the I/O threads are stopped.
///
/// If [`ConnCx::suspend`] is set afterwards, the reply must wait: the command runs again, and finds [`finish_change`].
pub fn change_map(cx: &mut ConnCx<'_>, map: Map, me: NodeId) {
    let srv = cx.srv();
    let settings = srv.nodes.cluster.topology().settings;
    let loses = publish(srv, Topology::new(map, me, settings));
    let commands = if loses { commands_of_others(cx) } else { Vec::new() };
    // EXEC holds all shards, so no command runs in the slow lane.
    if !commands.is_empty() && !cx.in_transaction() {
        cx.session.replies.pending = Some(Box::new(PendingReply { count: 0, commands }));
        cx.suspend = Some(Suspend::Slow { has_run: true });
    }
}

/// To be called first by each command that changes the map. Returns whether it has changed it in an earlier run, and the
/// commands that it has waited for have ended.
pub fn finish_change(cx: &mut ConnCx<'_>) -> bool {
    let has_changed = cx.session.replies.pending.take().is_some();
    if has_changed {
        // They may have blocked or subscribed since.
        cx.srv().broadcast(|| Message::Wait(WaitMessage::Rerouted));
    }
    has_changed
}

/// Applies changed directives of the cluster: to the routes, and to `map`, in which the node of this server has its new addresses.
pub fn apply_settings(srv: &Server, config: &Config, map: Map) {
    let me = srv.nodes.cluster.topology().me;
    publish(srv, Topology::new(map, me, settings_of(config)));
}

/// Puts a topology into force, while `stop` keeps the I/O threads between two commands. Commands in the slow lane continue: those of
/// lost slots that have begun end.
pub fn put_into_force(srv: &Server, topology: Topology, _stop: &Stop<'_>) {
    publish(srv, topology);
}

/// Publishes a topology. Returns whether this node may serve less than before.
fn publish(srv: &Server, topology: Topology) -> bool {
    let state = &srv.nodes.cluster;
    let before = state.topology();
    state.publish(topology);
    let after = state.topology();
    let (had, has) = (slots_of_shard(&before), slots_of_shard(&after));
    slot_stats::forget(srv, &had.without(&has));
    slot_stats::forget(srv, &has.without(&had));
    let loses = before.routes.serves_beyond(&after.routes);
    if loses {
        srv.broadcast(|| Message::Wait(WaitMessage::Rerouted));
    }
    loses
}

/// The slots of this node's shard.
pub fn slots_of_shard(topology: &Topology) -> SlotSet {
    let (map, me) = (&topology.map, topology.me);
    map.slots_of(map.node(me).map_or(me, |node| node.primary()))
}

/// The error of a client blocked on a slot that is no longer served here.
pub fn error_of_blocked(core: &mut Core, waiting: &Waiting) -> Option<Error> {
    check_blocked(core.srv, &mut core.topology, waiting).err()
}

/// Ends the subscriptions of a client to shard channels whose slots are no longer served here, with a push for each.
pub fn end_lost_subscriptions(core: &mut Core, session: &mut Session, reply: &mut Reply) {
    // A replica of the shard listens here, whatever the slots of this node.
    if session.shared.pushes.is_node_link.load(Ordering::Relaxed) {
        return;
    }
    let Core { srv, topology, .. } = core;
    let Some(topology) = topology.renew(&srv.nodes.cluster) else { return };
    let asker = Asker { shard_channels: true, ..Asker::default() };
    let is_lost = |channel: &[u8]| match topology.routes.verdict(key_slot(channel), asker) {
        Verdict::Moved(_) | Verdict::Unbound => true,
        Verdict::Here
        | Verdict::LookAtKeys
        | Verdict::Ask(_)
        | Verdict::TryAgain
        | Verdict::Down
        | Verdict::DownReadsOnly => false,
    };
    pubsub::end_shard_subscriptions(srv, session, is_lost, reply);
}

//! INFO clients.

use super::peaks::Peak;
use super::text::Text;
use crate::clients::ClientShared;
use crate::dispatch::Core;
use crate::pause::PauseMode;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// The number of the first second of the server for [`Peaks`](super::peaks::Peaks), which has
/// none for 0.
pub const FIRST_SECOND: u64 = 100;

pub fn write(core: &mut Core, text: &mut Text) {
    let srv = core.srv;
    let clients = srv.clients.all();
    let second = srv.started.elapsed().as_secs() + FIRST_SECOND;
    srv.info.peaks().add(second, Peak::of(clients.iter().map(|client| &**client)));
    let recent = srv.info.peaks().recent(second);
    // Replicas are counted by INFO replication.
    let is_replica = |client: &&Arc<ClientShared>| client.is_replica.load(Ordering::Relaxed);
    text.field("connected_clients", clients.len() - clients.iter().filter(is_replica).count());
    text.field("cluster_connections", 0);
    text.field("maxclients", core.settings.maxclients);
    text.field("client_recent_max_input_buffer", recent.input);
    text.field("client_recent_max_output_buffer", recent.output);
    let blocked = clients.iter().filter(|c| c.blocked.load(Ordering::Relaxed)).count();
    text.field("blocked_clients", blocked);
    text.field("tracking_clients", srv.tracking.clients());
    let subscribers = clients.iter().filter(|c| c.is_subscriber()).count();
    text.field("pubsub_clients", subscribers);
    let watched = |c: &ClientShared| c.watched.load(Ordering::Relaxed);
    text.field("watching_clients", clients.iter().filter(|c| watched(c) > 0).count());
    text.field(
        "clients_in_timeout_table",
        srv.lines.count(|waiting| waiting.deadline_ms.is_some()),
    );
    text.field("total_watched_keys", clients.iter().map(|c| watched(c)).sum::<u64>());
    text.field("total_blocking_keys", srv.lines.keys_waited_for());
    text.field(
        "total_blocking_keys_on_nokey",
        srv.lines.keys_followed_by(|waiting| waiting.wants_its_group()),
    );
    let now = srv.mono_ms();
    let (reason, actions, left) = match srv.pause.reason(now) {
        None => ("none", "none", 0),
        Some((PauseMode::Write, until, reason)) => (reason.name(), "write", until - now),
        Some((PauseMode::All, until, reason)) => (reason.name(), "all", until - now),
    };
    text.field("paused_reason", reason);
    text.field("paused_actions", actions);
    text.field("paused_timeout_milliseconds", left);
}

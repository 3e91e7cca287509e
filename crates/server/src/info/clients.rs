//! INFO clients.

use super::text::Text;
use crate::dispatch::Core;
use crate::pause::PauseMode;
use std::sync::atomic::Ordering;

pub fn write(core: &mut Core, text: &mut Text) {
    let srv = core.srv;
    let clients = srv.clients.all();
    let most = |of: fn(&crate::clients::ClientShared) -> u64| {
        clients.iter().map(|client| of(client)).max().unwrap_or(0)
    };
    text.field("connected_clients", clients.len());
    text.field("cluster_connections", 0);
    text.field("maxclients", core.settings.maxclients);
    text.field("client_recent_max_input_buffer", most(|c| c.query_room.load(Ordering::Relaxed)));
    text.field("client_recent_max_output_buffer", most(|c| c.output.load(Ordering::Relaxed)));
    let blocked = clients.iter().filter(|c| c.blocked.load(Ordering::Relaxed)).count();
    text.field("blocked_clients", blocked);
    text.zeros(&[
        "tracking_clients",
        "pubsub_clients",
        "watching_clients",
        "clients_in_timeout_table",
        "total_watched_keys",
        "total_blocking_keys",
        "total_blocking_keys_on_nokey",
    ]);
    let now = srv.now_ms();
    let (reason, actions, left) = match srv.pause.in_force(now) {
        None => ("none", "none", 0),
        Some((PauseMode::Write, until)) => ("client_pause", "write", until - now),
        Some((PauseMode::All, until)) => ("client_pause", "all", until - now),
    };
    text.field("paused_reason", reason);
    text.field("paused_actions", actions);
    text.field("paused_timeout_milliseconds", left);
}

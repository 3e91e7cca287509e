//! INFO clients.

use crate::info::text::Text;
use std::sync::atomic::Ordering;
use weft_executor::dispatch::core::Core;
use weft_state::info_state::peaks::Peak;
use weft_state::pause::PauseMode;

/// The second of the server's start, for `Peaks`, where second 0 means
/// "never".
pub const FIRST_SECOND: u64 = 100;

/// The sums of one pass over all clients.
#[derive(Default)]
struct Seen {
    /// Clients except replicas, which INFO replication counts.
    clients: usize,
    blocked: usize,
    subscribers: usize,
    watching: usize,
    watched: u64,
    peak: Peak,
}

impl Seen {
    fn of(core: &Core) -> Seen {
        let mut seen = Seen::default();
        core.srv.clients.registry.each(|client| {
            seen.clients += usize::from(!client.replica.is_replica.load(Ordering::Relaxed));
            seen.blocked += usize::from(client.activity.blocked.load(Ordering::Relaxed));
            seen.subscribers += usize::from(client.is_subscriber());
            let watched = client.transaction.watched.load(Ordering::Relaxed);
            seen.watching += usize::from(watched > 0);
            seen.watched += watched;
            seen.peak = seen.peak.or(Peak::of([client]));
        });
        seen
    }
}

pub fn write(core: &mut Core, text: &mut Text) {
    let srv = core.srv;
    let seen = Seen::of(core);
    let second = srv.process.started.elapsed().as_secs() + FIRST_SECOND;
    srv.statistics.info.peaks().add(second, seen.peak);
    let recent = srv.statistics.info.peaks().recent(second);
    text.field("connected_clients", seen.clients);
    text.field("cluster_connections", 0);
    text.field("maxclients", core.settings.clients.maxclients);
    text.field("client_recent_max_input_buffer", recent.input);
    text.field("client_recent_max_output_buffer", recent.output);
    text.field("blocked_clients", seen.blocked);
    text.field("tracking_clients", srv.clients.tracking.clients());
    text.field("pubsub_clients", seen.subscribers);
    text.field("watching_clients", seen.watching);
    // Counting locks the wait queues of all shards, so skip it when no client is blocked.
    let waits = seen.blocked > 0;
    let with_deadline = || srv.clients.blocked.count(|waiting| waiting.deadline_ms.is_some());
    text.field("clients_in_timeout_table", if waits { with_deadline() } else { 0 });
    text.field("total_watched_keys", seen.watched);
    let keys = if waits { srv.clients.blocked.keys_waited_for() } else { 0 };
    text.field("total_blocking_keys", keys);
    let keys = |waits: bool| match waits {
        true => srv.clients.blocked.keys_followed_by(|waiting| waiting.wants_its_group()),
        false => 0,
    };
    text.field("total_blocking_keys_on_nokey", keys(waits));
    let now = srv.mono_ms();
    let (reason, actions, left) = match srv.clients.pause.reason(now) {
        None => ("none", "none", 0),
        Some((PauseMode::Write, until, reason)) => (reason.name(), "write", until - now),
        Some((PauseMode::All, until, reason)) => (reason.name(), "all", until - now),
    };
    text.field("paused_reason", reason);
    text.field("paused_actions", actions);
    text.field("paused_timeout_milliseconds", left);
}

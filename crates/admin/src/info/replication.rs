//! INFO replication: the state machine's view of replicas and of our primary.

use crate::info::Reader;
use crate::info::text::Text;
use std::sync::atomic::Ordering;
use weft_config::Id;
use weft_executor::dispatch::core::Core;
use weft_replication::Ms;
use weft_replication::replica::Follower;
use weft_replication_driver::State;
use weft_replication_driver::hub;
use weft_replication_driver::replica::copy::Progress;

/// The configuration of this server as a replica.
struct Own {
    priority: i64,
    read_only: bool,
    announced: bool,
}

pub fn write(core: &mut Core, reader: Reader, text: &mut Text) {
    let srv = core.srv;
    // Lock order: the configuration before the state machine. No thread waits for the configuration
    // while it holds the state machine.
    let config = srv.config();
    let own = Own {
        priority: config.int(Id::REPLICA_PRIORITY),
        read_only: config.bool(Id::REPLICA_READ_ONLY),
        announced: config.bool(Id::REPLICA_ANNOUNCED),
    };
    drop(config);
    let state = match reader {
        Reader::Client => hub(srv).up_to_date(srv),
        Reader::Observer => hub(srv).lock(),
    };
    let now = u64::try_from(srv.mono_ms()).unwrap_or(0);
    match state.node.follower() {
        None => text.field("role", "master"),
        Some(follower) => {
            text.field("role", "slave");
            write_primary(follower, &state, (&hub(srv).progress, &own), now, text);
        }
    }
    write_replicas(&state, now, text);
    write_stream(&state, text);
    if state.node.duty().is_some() {
        text.field("weft_discarded_bytes", state.node.discarded());
    }
}

fn seconds(ms: Ms) -> u64 {
    ms / 1000
}

/// The link to our primary.
fn write_primary(
    follower: &Follower,
    state: &State,
    (progress, own): (&Progress, &Own),
    now: Ms,
    text: &mut Text,
) {
    let (host, port) = follower.primary();
    let is_up = follower.is_online();
    text.field("master_host", host);
    text.field("master_port", port);
    text.field("master_link_status", if is_up { "up" } else { "down" });
    let ago = now.saturating_sub(follower.last_io());
    match is_up {
        true => text.field("master_last_io_seconds_ago", seconds(ago)),
        false => text.field("master_last_io_seconds_ago", -1),
    }
    text.field("master_sync_in_progress", u8::from(follower.is_syncing()));
    let offset = state.node.stream().offset();
    text.field("slave_read_repl_offset", follower.read_offset().max(offset));
    text.field("slave_repl_offset", offset);
    text.zeros(&["replicas_repl_buffer_size", "replicas_repl_buffer_peak"]);
    if follower.is_syncing() {
        let total = progress.total.load(Ordering::Relaxed);
        let read = progress.read.load(Ordering::Relaxed);
        let share = if total > 0 { read as f64 * 100.0 / total as f64 } else { 0.0 };
        text.field("master_sync_total_bytes", total);
        text.field("master_sync_read_bytes", read);
        text.field("master_sync_left_bytes", total as i64 - read as i64);
        text.field("master_sync_perc", format_args!("{share:.2}"));
        text.field("master_sync_last_io_seconds_ago", seconds(ago));
    }
    if let Some(since) = follower.down_since().filter(|_| !is_up) {
        text.field("master_link_down_since_seconds", seconds(now.saturating_sub(since)));
    }
    text.field("slave_priority", own.priority);
    text.field("slave_read_only", u8::from(own.read_only));
    text.field("replica_announced", u8::from(own.announced));
}

fn write_replicas(state: &State, now: Ms, text: &mut Text) {
    let node = &state.node;
    let (primary, settings) = (node.primary(), node.settings());
    let views = primary.views(now, node.stream().offset());
    text.field("connected_slaves", views.len());
    if settings.min_replicas > 0 && settings.max_lag > 0 {
        text.field("min_slaves_good_slaves", primary.good(now, settings));
    }
    for (n, view) in views.iter().enumerate() {
        let lag = if view.is_online { seconds(view.lag) } else { 0 };
        text.field(
            &format!("slave{n}"),
            format_args!(
                "ip={},port={},state={},offset={},lag={lag},type=replica",
                view.host, view.port, view.state, view.ack_offset
            ),
        );
    }
    // No replica of this server gets its full sync over a second connection.
    text.field("replicas_waiting_psync", 0);
    text.field("master_failover_state", node.failover().name());
}

fn write_stream(state: &State, text: &mut Text) {
    let stream = state.node.stream();
    let history = stream.history();
    text.field("master_replid", history.id);
    match history.second {
        Some(second) => text.field("master_replid2", second.id),
        None => text.field("master_replid2", "0".repeat(40)),
    }
    text.field("master_repl_offset", history.offset);
    match history.second {
        Some(second) => text.field("second_repl_offset", second.valid_to),
        None => text.field("second_repl_offset", -1),
    }
    let kept = stream.kept();
    text.field("repl_backlog_active", u8::from(kept.is_some()));
    text.field("repl_backlog_size", state.node.settings().backlog_size);
    let first = kept.as_ref().map_or(0, |kept| kept.start + 1);
    text.field("repl_backlog_first_byte_offset", first);
    text.field("repl_backlog_histlen", kept.map_or(0, |kept| kept.end - kept.start));
}

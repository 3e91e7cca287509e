//! What INFO and ROLE tell of our primary.

use crate::info::Text;
use crate::replication::State;
use crate::server::Server;
use std::sync::atomic::Ordering;
use weft_config::{Config, Id};
use weft_replication::Ms;

/// The lines of INFO replication that a replica has and a primary does not, behind `role`. Does nothing on
/// a primary. `now` is monotonic. Whoever calls it has locked the configuration before the hub.
pub fn write(srv: &Server, config: &Config, state: &State, now: Ms, text: &mut Text) {
    let Some(follower) = state.node.follower() else { return };
    let (host, port) = follower.primary();
    let seconds = |since: Ms| (now.saturating_sub(since) / 1000) as i64;
    let offset = state.node.stream().offset();
    text.field("master_host", host);
    text.field("master_port", port);
    text.field("master_link_status", if follower.is_online() { "up" } else { "down" });
    let io = if follower.is_online() { seconds(follower.last_io()) } else { -1 };
    text.field("master_last_io_seconds_ago", io);
    text.field("master_sync_in_progress", u8::from(follower.is_syncing()));
    text.field("slave_read_repl_offset", follower.read_offset().max(offset));
    text.field("slave_repl_offset", offset);
    text.zeros(&["replicas_repl_buffer_size", "replicas_repl_buffer_peak"]);
    if follower.is_syncing() {
        let progress = &srv.replication.progress;
        let total = progress.total.load(Ordering::Relaxed);
        let read = progress.read.load(Ordering::Relaxed);
        let share = if total > 0 { read as f64 * 100.0 / total as f64 } else { 0.0 };
        text.field("master_sync_total_bytes", total);
        text.field("master_sync_read_bytes", read);
        text.field("master_sync_left_bytes", total as i64 - read as i64);
        text.field("master_sync_perc", format!("{share:.2}"));
        text.field("master_sync_last_io_seconds_ago", seconds(follower.last_io()));
    }
    if let Some(since) = follower.down_since() {
        text.field("master_link_down_since_seconds", seconds(since));
    }
    text.field("slave_priority", config.int(Id::REPLICA_PRIORITY));
    text.field("slave_read_only", u8::from(config.bool(Id::REPLICA_READ_ONLY)));
    text.field("replica_announced", u8::from(config.bool(Id::REPLICA_ANNOUNCED)));
}

//! INFO stats and CPU: what the server has done since the start or the last CONFIG RESETSTAT.

use crate::info::text::Text;
use crate::info::threads::note_cpu_time;
use crate::info::totals::totals_since_reset;
use std::sync::atomic::{AtomicU64, Ordering};
use weft_executor::dispatch::core::Core;
use weft_process::stats::{Whose, cpu_time};
use weft_pubsub::registry::Kind;
use weft_state::info_state::base::Totals;

pub fn write_stats(core: &mut Core, text: &mut Text) {
    core.publish();
    let totals = totals_since_reset(core.srv, core.stats());
    write_traffic(core, &totals, text);
    write_keys(core, &totals, text);
    write_features(core, text);
    write_errors_and_io(core, &totals, text);
}

fn shared(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}

fn write_traffic(core: &Core, totals: &Totals, text: &mut Text) {
    let srv = core.srv;
    let rates = srv.statistics.info.rates().per_second();
    text.field("total_connections_received", shared(&srv.statistics.totals.connections));
    text.field("total_commands_processed", totals.calls);
    text.field("instantaneous_ops_per_sec", rates.commands.round() as u64);
    text.field("total_net_input_bytes", totals.net_in);
    text.field("total_net_output_bytes", totals.net_out);
    text.field("total_net_repl_input_bytes", 0);
    text.field("total_net_repl_output_bytes", totals.net_repl_out);
    text.zeros(&["total_net_cluster_slot_import_bytes", "total_net_cluster_slot_export_bytes"]);
    text.hundredths("instantaneous_input_kbps", rates.net_in / 1024.0);
    text.hundredths("instantaneous_output_kbps", rates.net_out / 1024.0);
    text.field("instantaneous_input_repl_kbps", "0.00");
    text.field("instantaneous_output_repl_kbps", "0.00");
    text.field("rejected_connections", shared(&srv.statistics.totals.rejected_connections));
    text.field("sync_full", totals.syncs.sync_full);
    text.field("sync_partial_ok", totals.syncs.sync_partial_ok);
    text.field("sync_partial_err", totals.syncs.sync_partial_err);
}

fn write_keys(core: &Core, totals: &Totals, text: &mut Text) {
    let srv = core.srv;
    text.field("expired_keys", totals.expired);
    text.field("expired_fields", totals.expired_fields);
    text.hundredths("expired_stale_perc", srv.statistics.totals.stale_keys.percent());
    let fields = srv.statistics.totals.stale_fields.percent();
    text.hundredths("expired_keys_with_volatile_items_stale_perc", fields);
    text.field(
        "expired_time_cap_reached_count",
        shared(&srv.statistics.totals.expire_cycles_capped),
    );
    text.field("expire_cycle_cpu_milliseconds", shared(&srv.statistics.totals.expire_us) / 1000);
    text.field("evicted_keys", totals.evicted);
    text.field("evicted_clients", shared(&srv.statistics.totals.evicted_clients));
    text.field("evicted_scripts", srv.scripts.cache.totals().evicted);
    text.zeros(&["total_eviction_exceeded_time"]);
    text.field("current_eviction_exceeded_time", 0);
    text.field("keyspace_hits", totals.hits);
    text.field("keyspace_misses", totals.misses);
}

/// Counters of features that this server does not have yet, and of those around them.
fn write_features(core: &Core, text: &mut Text) {
    let pubsub = &core.srv.clients.pubsub;
    text.field("pubsub_channels", pubsub.count(Kind::Channel));
    text.field("pubsub_patterns", pubsub.count(Kind::Pattern));
    text.field("pubsubshard_channels", pubsub.count(Kind::Shard));
    text.zeros(&["latest_fork_usec", "total_forks", "migrate_cached_sockets"]);
    text.field("slave_expires_tracked_keys", core.srv.ks.replica_expiry_count());
    write_defrag(core, text);
    let tracking = &core.srv.clients.tracking;
    text.field("tracking_total_keys", tracking.keys());
    text.field("tracking_total_items", tracking.readers());
    text.field("tracking_total_prefixes", tracking.prefixes());
}

/// A record is one allocation, so keys and allocations are counted alike.
fn write_defrag(core: &Core, text: &mut Text) {
    let defrag = &core.srv.process.background.defrag;
    let (moved, left) = (shared(&defrag.moved), shared(&defrag.left));
    for prefix in ["active_defrag", "active_defrag_key"] {
        text.field(&format!("{prefix}_hits"), moved);
        text.field(&format!("{prefix}_misses"), left);
    }
    text.field("total_active_defrag_time", shared(&defrag.spent_us) / 1000);
    text.field("current_active_defrag_time", 0);
}

fn write_errors_and_io(core: &Core, totals: &Totals, text: &mut Text) {
    let counted = &core.srv.statistics.totals;
    text.field("unexpected_error_replies", totals.unexpected_errors);
    text.field("total_error_replies", totals.error_replies);
    text.field("dump_payload_sanitizations", 0);
    text.field("total_reads_processed", totals.reads);
    text.field("total_writes_processed", totals.writes);
    // I/O threads read and write every socket. The thread that reads a request also executes it.
    text.field("io_threaded_reads_processed", totals.reads);
    text.field("io_threaded_writes_processed", totals.writes);
    // No object is handed to another thread to be freed there.
    text.field("io_threaded_freed_objects", 0);
    text.field("io_threaded_accept_processed", shared(&counted.connections));
    text.field("io_threaded_poll_processed", totals.turns);
    text.field("io_threaded_total_prefetch_batches", totals.prefetch_batches);
    text.field("io_threaded_total_prefetch_entries", totals.prefetched);
    let query = shared(&counted.query_limit_disconnections);
    text.field("client_query_buffer_limit_disconnections", query);
    let output = shared(&counted.output_limit_disconnections) + totals.syncs.over_limit;
    text.field("client_output_buffer_limit_disconnections", output);
    // Reply buffers belong to threads. They are not resized for single clients.
    text.zeros(&["reply_buffer_shrinks", "reply_buffer_expands"]);
    text.field("eventloop_cycles", totals.turns);
    // A thread uses a CPU except while it waits for events.
    text.field("eventloop_duration_sum", totals.busy_us);
    text.field("eventloop_duration_cmd_sum", totals.command_ns / 1000);
    let rates = core.srv.statistics.info.rates().per_second();
    text.field("instantaneous_eventloop_cycles_per_sec", rates.turns.round() as u64);
    let turn_us = if rates.turns > 0.0 { rates.busy_us / rates.turns } else { 0.0 };
    text.field("instantaneous_eventloop_duration_usec", turn_us.round() as u64);
    text.field("acl_access_denied_auth", shared(&counted.acl_denied_auth));
    text.field("acl_access_denied_cmd", shared(&counted.acl_denied_commands));
    text.field("acl_access_denied_key", shared(&counted.acl_denied_keys));
    text.field("acl_access_denied_channel", shared(&counted.acl_denied_channels));
    text.field("acl_access_denied_tls_cert", shared(&counted.acl_denied_tls_cert));
    text.field("acl_access_denied_db", shared(&counted.acl_denied_databases));
}

pub fn write_cpu(core: &mut Core, text: &mut Text) {
    note_cpu_time(core);
    let seconds = |us: u64| format!("{}.{:06}", us / 1_000_000, us % 1_000_000);
    let mut pair = |suffix: &str, user_us: u64, system_us: u64| {
        text.field(&format!("used_cpu_sys{suffix}"), seconds(system_us));
        text.field(&format!("used_cpu_user{suffix}"), seconds(user_us));
    };
    let process = cpu_time(Whose::Process);
    pair("", process.user_us, process.system_us);
    let children = cpu_time(Whose::Children);
    pair("_children", children.user_us, children.system_us);
    let first = &core.srv.threads[0].stats;
    pair("_main_thread", first.load.cpu_user_us.get(), first.load.cpu_system_us.get());
    let active = first.load.cpu_user_us.get() + first.load.cpu_system_us.get();
    text.field("used_active_time_main_thread", seconds(active));
}

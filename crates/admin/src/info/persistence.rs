//! INFO persistence.

use crate::info::text::Text;
use std::sync::atomic::{AtomicU64, Ordering};
use weft_durability::aof::aof;
use weft_executor::dispatch::core::Core;
use weft_state::server::Server;

pub fn write_persistence(core: &mut Core, text: &mut Text) {
    core.publish();
    let srv = core.srv;
    let loading = &srv.persistence.loading;
    text.field("loading", u8::from(loading.is_on()));
    let loads_async = &srv.nodes.replication.loads_async;
    text.field("async_loading", u8::from(loads_async.load(Ordering::Relaxed)));
    let progress = srv.ks.snapshot_progress();
    let now = progress.unwrap_or_default();
    text.field("current_cow_peak", now.peak_bytes);
    text.field("current_cow_size", now.kept_bytes);
    text.field("current_cow_size_age", 0);
    text.hundredths("current_fork_perc", part(now.given as u64, now.keys as u64));
    text.field("current_save_keys_processed", now.given);
    text.field("current_save_keys_total", now.keys);
    text.field("rdb_changes_since_last_save", srv.unsaved_changes());
    let saves = srv.persistence.saves();
    let running = saves.running().filter(|running| running.in_background);
    text.field("rdb_bgsave_in_progress", u8::from(running.is_some()));
    text.field("rdb_last_save_time", srv.statistics.totals.last_save_s.load(Ordering::Relaxed));
    text.field("rdb_last_bgsave_status", if saves.is_last_ok { "ok" } else { "err" });
    text.field("rdb_last_bgsave_time_sec", saves.last_seconds);
    let seconds = running.map_or(-1, |running| running.since.elapsed().as_secs() as i64);
    text.field("rdb_current_bgsave_time_sec", seconds);
    text.field("rdb_saves", saves.count);
    text.field("rdb_last_cow_size", saves.last_kept);
    drop(saves);
    let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    text.field("rdb_last_load_keys_expired", load(&loading.keys_expired));
    text.field("rdb_last_load_keys_loaded", load(&loading.keys_loaded));
    write_aof(srv, text);
    write_waits(srv, text);
    text.zeros(&[
        "module_fork_in_progress",
        "module_fork_last_cow_size",
        "slot_migration_fork_in_progress",
    ]);
    if aof(srv).is_on() {
        write_aof_files(srv, text);
    }
    if loading.is_on() {
        let since_s = loading.since_s.load(Ordering::Relaxed);
        let (total, loaded) = (load(&loading.total_bytes), load(&loading.loaded_bytes));
        text.field("loading_start_time", since_s);
        text.field("loading_total_bytes", total);
        text.field("loading_rdb_used_mem", load(&loading.memory));
        text.field("loading_loaded_bytes", loaded);
        text.hundredths("loading_loaded_perc", part(loaded, total));
        let spent = (srv.now_ms() / 1000 - since_s).max(1) as u64;
        let left = total.saturating_sub(loaded);
        // Before the first byte is loaded, there is no rate to estimate from.
        text.field("loading_eta_seconds", (spent * left).checked_div(loaded).unwrap_or(1));
    }
}

/// Writes that wait for a snapshot. In the reference, they never do.
fn write_waits(srv: &Server, text: &mut Text) {
    let waits = &srv.persistence.waits;
    let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    let progress = srv.ks.snapshot_progress().unwrap_or_default();
    text.field("snapshot_memory_limit", progress.limit_bytes);
    text.field("snapshot_waiting_clients", waits.waiting());
    text.field("snapshot_delayed_writes", load(&waits.delayed));
    text.field("snapshot_longest_write_delay_ms", load(&waits.longest_ms));
    text.field("snapshot_expired_write_delays", load(&waits.expired));
    text.field("snapshot_spilled_syncs", load(&srv.nodes.replication.spilled));
}

fn write_aof(srv: &Server, text: &mut Text) {
    let (status, info) = (&aof(srv).status, aof(srv).info());
    let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    let ok = |failed: bool| if failed { "err" } else { "ok" };
    let since_s = match info.rewriting {
        true if info.rewrite_began_s == 0 => 0,
        true => (srv.now_ms() / 1000 - info.rewrite_began_s).max(0),
        false => -1,
    };
    text.field("aof_enabled", u8::from(info.enabled));
    text.field("aof_rewrite_in_progress", u8::from(info.rewriting));
    text.field("aof_rewrite_scheduled", u8::from(info.scheduled));
    text.field("aof_last_rewrite_time_sec", info.last_rewrite_s);
    text.field("aof_current_rewrite_time_sec", since_s);
    text.field("aof_last_bgrewrite_status", ok(info.last_rewrite_failed));
    text.field("aof_rewrites", load(&status.rewrites));
    text.field("aof_rewrites_consecutive_failures", load(&status.failures));
    text.field("aof_last_write_status", ok(info.write_failed));
    text.field("aof_last_cow_size", load(&status.last_kept));
}

fn write_aof_files(srv: &Server, text: &mut Text) {
    let status = &aof(srv).status;
    let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    text.field("aof_current_size", load(&status.size));
    text.field("aof_base_size", load(&status.base_size));
    text.field("aof_pending_rewrite", 0);
    text.field("aof_buffer_length", load(&status.buffer) + aof(srv).pending_bytes(srv));
    text.field("aof_pending_bio_fsync", u8::from(aof(srv).info().syncing));
    text.field("aof_delayed_fsync", load(&status.delayed_syncs));
}

/// In percent.
fn part(done: u64, all: u64) -> f64 {
    if all == 0 { 0.0 } else { done as f64 * 100.0 / all as f64 }
}

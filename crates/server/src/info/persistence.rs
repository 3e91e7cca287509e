//! INFO persistence and replication, as of a server that has neither on: nothing is saved, and
//! nobody follows.

use super::text::Text;
use crate::dispatch::Core;
use std::sync::atomic::Ordering;
use weft_config::Id;

pub fn write_persistence(core: &mut Core, text: &mut Text) {
    core.publish();
    let srv = core.srv;
    text.zeros(&[
        "loading",
        "async_loading",
        "current_cow_peak",
        "current_cow_size",
        "current_cow_size_age",
    ]);
    text.field("current_fork_perc", "0.00");
    text.zeros(&["current_save_keys_processed", "current_save_keys_total"]);
    let dirty: u64 = srv.all_stats().map(|t| t.dirty.get()).sum();
    let saved = srv.totals.dirty_base.load(Ordering::Relaxed);
    text.field("rdb_changes_since_last_save", dirty.wrapping_sub(saved));
    text.field("rdb_bgsave_in_progress", 0);
    text.field("rdb_last_save_time", srv.totals.last_save_s.load(Ordering::Relaxed));
    text.field("rdb_last_bgsave_status", "ok");
    text.field("rdb_last_bgsave_time_sec", -1);
    text.field("rdb_current_bgsave_time_sec", -1);
    text.zeros(&[
        "rdb_saves",
        "rdb_last_cow_size",
        "rdb_last_load_keys_expired",
        "rdb_last_load_keys_loaded",
        "aof_enabled",
        "aof_rewrite_in_progress",
        "aof_rewrite_scheduled",
    ]);
    text.field("aof_last_rewrite_time_sec", -1);
    text.field("aof_current_rewrite_time_sec", -1);
    text.field("aof_last_bgrewrite_status", "ok");
    text.zeros(&["aof_rewrites", "aof_rewrites_consecutive_failures"]);
    text.field("aof_last_write_status", "ok");
    text.zeros(&[
        "aof_last_cow_size",
        "module_fork_in_progress",
        "module_fork_last_cow_size",
        "slot_migration_fork_in_progress",
    ]);
}

pub fn write_replication(core: &mut Core, text: &mut Text) {
    let srv = core.srv;
    text.field("role", "master");
    text.zeros(&["connected_slaves", "replicas_waiting_psync"]);
    text.field("master_failover_state", "no-failover");
    text.field("master_replid", srv.info.replication_id());
    text.field("master_replid2", "0".repeat(40));
    text.field("master_repl_offset", 0);
    text.field("second_repl_offset", -1);
    text.field("repl_backlog_active", 0);
    text.field("repl_backlog_size", srv.config().memory(Id::REPL_BACKLOG_SIZE));
    text.zeros(&["repl_backlog_first_byte_offset", "repl_backlog_histlen"]);
}

//! The parts of a report that come from INFO.

use super::{Pair, Sample};
use crate::top::info::Info;
use crate::top::report::{
    Clients, Cluster, Command, Database, Memory, Persistence, Replication, Requests, Server, Thread,
};

pub fn server(now: &Sample, threads: &[Thread]) -> Server {
    let info = &now.info;
    let kind = info.get("server_name").unwrap_or("redis");
    // In Redis and Valkey the field of the active ones is only 0 or 1.
    let counts = info.number("io_threads");
    let listed = threads.iter().filter(|thread| thread.io.is_some()).count();
    let named = threads.iter().filter(|thread| thread.name.starts_with("io_thd_")).count();
    let seen = if now.pid.is_some() { named + 1 } else { listed };
    let version = info.get(&format!("{kind}_version")).or(info.get("redis_version"));
    Server {
        kind: kind.to_string(),
        version: version.unwrap_or("?").to_string(),
        address: now.address.clone(),
        process_id: info.number("process_id").unwrap_or(0),
        is_local: now.pid.is_some(),
        mode: info.get("server_mode").or(info.get("redis_mode")).unwrap_or("?").to_string(),
        uptime_seconds: info.count("uptime_in_seconds"),
        io_threads: counts.or((seen > 0).then_some(seen as u64)),
        io_threads_active: info.number("io_threads_active").filter(|_| counts.is_some()),
    }
}

pub fn requests(pair: &Pair<'_>) -> Requests {
    let (hits, misses) = (pair.rate_of("keyspace_hits"), pair.rate_of("keyspace_misses"));
    Requests {
        per_second: pair.rate_of("total_commands_processed"),
        total: pair.now.info.count("total_commands_processed"),
        input_bytes_per_second: pair.rate_of("total_net_input_bytes"),
        output_bytes_per_second: pair.rate_of("total_net_output_bytes"),
        errors_per_second: pair.rate_of("total_error_replies"),
        hit_percent: (hits + misses > 0.0).then(|| hits / (hits + misses) * 100.0),
        expired_per_second: pair.rate_of("expired_keys"),
        evicted_per_second: pair.rate_of("evicted_keys"),
    }
}

/// The commands that were called in this time.
pub fn commands(pair: &Pair<'_>) -> Vec<Command> {
    let before: std::collections::BTreeMap<&str, _> = pair.before.info.below("cmdstat_").collect();
    let mut all_time = 0.0;
    let mut commands: Vec<Command> = Vec::new();
    for (name, now) in pair.now.info.below("cmdstat_") {
        let rate = |field: &str| {
            let before = before.get(name).map_or(0, |before| before.count(field));
            pair.rate(before, now.count(field))
        };
        let (calls, usec) = (rate("calls"), rate("usec"));
        let errors = rate("failed_calls") + rate("rejected_calls");
        all_time += usec;
        if calls + errors == 0.0 {
            continue;
        }
        let field = format!("latency_percentiles_usec_{name}");
        let percentiles = pair.now.info.get(&field).map(crate::top::info::Parts);
        let percentile = |name: &str| percentiles?.number(name);
        commands.push(Command {
            name: name.to_string(),
            calls_per_second: calls,
            usec_per_call: if calls > 0.0 { usec / calls } else { 0.0 },
            time_percent: usec,
            errors_per_second: errors,
            p50_us: percentile("p50"),
            p99_us: percentile("p99"),
            p999_us: percentile("p99.9"),
        });
    }
    for command in &mut commands {
        command.time_percent *= if all_time > 0.0 { 100.0 / all_time } else { 0.0 };
    }
    commands.sort_by(|a, b| b.calls_per_second.total_cmp(&a.calls_per_second));
    commands
}

pub fn memory(info: &Info) -> Memory {
    Memory {
        used_bytes: info.count("used_memory"),
        peak_bytes: info.count("used_memory_peak"),
        rss_bytes: info.count("used_memory_rss"),
        max_bytes: info.count("maxmemory"),
        policy: info.text("maxmemory_policy"),
        fragmentation: info.number("mem_fragmentation_ratio"),
    }
}

pub fn clients(pair: &Pair<'_>) -> Clients {
    let info = &pair.now.info;
    Clients {
        connected: info.count("connected_clients"),
        max: info.count("maxclients"),
        blocked: info.count("blocked_clients"),
        pubsub: info.count("pubsub_clients"),
        tracking: info.count("tracking_clients"),
        new_per_second: pair.rate_of("total_connections_received"),
        rejected_per_second: pair.rate_of("rejected_connections"),
    }
}

pub fn databases(info: &Info) -> Vec<Database> {
    let databases = info.below("db").filter_map(|(number, parts)| {
        let (keys, expires) = (parts.number("keys")?, parts.count("expires"));
        Some(Database { number: number.parse().ok()?, keys, expires })
    });
    let mut databases: Vec<Database> = databases.collect();
    databases.sort_by_key(|database| database.number);
    databases
}

pub fn replication(info: &Info) -> Replication {
    let is_replica = info.get("role") == Some("slave");
    let offset = info.count("master_repl_offset");
    let replicas = info.below("slave").filter(|(number, _)| number.parse::<u64>().is_ok());
    let behind = replicas.filter_map(|(_, parts)| parts.number("offset"));
    let primary = format!("{}:{}", info.text("master_host"), info.text("master_port"));
    Replication {
        role: if is_replica { "replica" } else { "primary" }.to_string(),
        replicas: info.count("connected_slaves"),
        offset,
        most_behind_bytes: behind.map(|acked: u64| offset.saturating_sub(acked)).max(),
        primary: is_replica.then_some(primary),
        link_is_up: is_replica.then(|| info.get("master_link_status") == Some("up")),
        link_idle_seconds: info.number("master_last_io_seconds_ago"),
        is_syncing: info.flag("master_sync_in_progress"),
    }
}

pub fn cluster(info: &Info) -> Option<Cluster> {
    info.flag("cluster_enabled").then(|| Cluster {
        state: info.text("cluster_state"),
        slots_assigned: info.count("cluster_slots_assigned"),
        slots_failed: info.count("cluster_slots_fail"),
        nodes: info.count("cluster_known_nodes"),
        size: info.count("cluster_size"),
    })
}

pub fn persistence(info: &Info) -> Persistence {
    let is_ok = |field: &str| info.get(field).is_none_or(|status| status == "ok");
    let is_saving = info.flag("rdb_bgsave_in_progress");
    // Weft and Valkey report their clock in `server_time_usec`.
    let now = info.count("server_time_usec") / 1_000_000;
    Persistence {
        is_loading: info.flag("loading") || info.flag("async_loading"),
        loaded_percent: info.number("loading_loaded_perc"),
        is_saving,
        saving_seconds: info.number("rdb_current_bgsave_time_sec").filter(|_| is_saving),
        changes_since_save: info.count("rdb_changes_since_last_save"),
        last_save_age_seconds: now.checked_sub(info.count("rdb_last_save_time")),
        last_save_is_ok: is_ok("rdb_last_bgsave_status"),
        aof_is_enabled: info.flag("aof_enabled"),
        aof_is_rewriting: info.flag("aof_rewrite_in_progress"),
        aof_is_ok: is_ok("aof_last_write_status") && is_ok("aof_last_bgrewrite_status"),
        aof_bytes: info.number("aof_current_size"),
        aof_pending_bytes: info.number("aof_buffer_length"),
    }
}

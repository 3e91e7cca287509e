//! Metrics with several samples: replicas, commands, databases, certificates.

use super::Kind::{Counter, Gauge, Histogram, Info};
use super::{Metric, Source, metric};
use crate::exposition::Out;
use crate::sample::Sample;
use std::collections::HashMap;
use std::fmt;
use std::time::SystemTime;
use weft_config::Id;
use weft_state::commandlog::LogKind;
use weft_state::info_state::base::CommandTotals;

type Write = fn(&Sample, &mut Out<'_>) -> fmt::Result;

const fn read(from: &'static str, write: Write) -> Source {
    Source::Function(from, write)
}

/// The server as a whole, its replicas and its primary.
pub static REPLICATION: [Metric; 12] = [
    metric(Gauge, "redis_up", "Always 1: the server answers", read("", up), &[]),
    metric(
        Gauge,
        "redis_start_time_seconds",
        "Unix time of the start",
        read("INFO server: uptime_in_seconds", start_time),
        &[],
    ),
    metric(
        Info,
        "redis_instance_info",
        "Facts of the server",
        read("INFO server, memory, replication", instance),
        &[
            "role",
            "redis_version",
            "redis_build_id",
            "redis_mode",
            "os",
            "maxmemory_policy",
            "tcp_port",
            "run_id",
            "process_id",
            "master_replid",
            "valkey_version",
            "weft_version",
        ],
    ),
    metric(
        Gauge,
        "redis_config_maxclients",
        "The directive maxclients",
        read("CONFIG GET", max_clients),
        &[],
    ),
    metric(
        Gauge,
        "redis_config_maxmemory",
        "The directive maxmemory (bytes)",
        read("CONFIG GET", max_memory),
        &[],
    ),
    metric(
        Gauge,
        "redis_config_io_threads",
        "I/O threads that may be used",
        read("INFO threads: io_threads", io_threads),
        &[],
    ),
    metric(
        Gauge,
        "redis_connected_slave_offset_bytes",
        "The position in the stream that a replica has acknowledged",
        read("INFO replication: slave0 ...", replica_offsets),
        &["slave_ip", "slave_port", "slave_state"],
    ),
    metric(
        Gauge,
        "redis_connected_slave_lag_seconds",
        "Time since a replica's last acknowledgement",
        read("INFO replication: slave0 ...", replica_lags),
        &["slave_ip", "slave_port", "slave_state"],
    ),
    metric(
        Gauge,
        "redis_master_link_up",
        "On a replica: whether it is in sync with its primary",
        read("INFO replication: master_link_status", link_up),
        PRIMARY,
    ),
    metric(
        Gauge,
        "redis_master_last_io_seconds_ago",
        "On a replica: time since the primary's last bytes; -1: the link is down",
        read("INFO replication", last_io),
        PRIMARY,
    ),
    metric(
        Gauge,
        "redis_master_sync_in_progress",
        "On a replica: whether it gets a full sync",
        read("INFO replication", sync_in_progress),
        PRIMARY,
    ),
    metric(
        Gauge,
        "redis_slave_repl_offset",
        "On a replica: its position in the stream",
        read("INFO replication", replica_offset),
        PRIMARY,
    ),
];

const PRIMARY: &[&str] = &["master_host", "master_port"];

/// Commands, errors, logs and databases.
pub static COMMANDS: [Metric; 21] = [
    metric(
        Counter,
        "redis_commands_total",
        "Calls of a command",
        read("INFO commandstats: calls", calls),
        &["cmd"],
    ),
    metric(
        Counter,
        "redis_commands_duration_seconds_total",
        "Time spent in a command",
        read("INFO commandstats: usec", duration),
        &["cmd"],
    ),
    metric(
        Counter,
        "redis_commands_rejected_calls_total",
        "Calls that were refused before the command ran",
        read("INFO commandstats: rejected_calls", rejected),
        &["cmd"],
    ),
    metric(
        Counter,
        "redis_commands_failed_calls_total",
        "Calls that ended in an error",
        read("INFO commandstats: failed_calls", failed),
        &["cmd"],
    ),
    metric(
        Histogram,
        "redis_commands_latencies_usec",
        "Time of a command's calls, without waiting and I/O",
        read("LATENCY HISTOGRAM", latencies),
        &["cmd"],
    ),
    metric(
        Gauge,
        "redis_latency_percentiles_usec",
        "Percentiles of the time of a command's calls, since the start or CONFIG RESETSTAT",
        read("INFO latencystats", percentiles),
        &["cmd", "quantile"],
    ),
    metric(
        Counter,
        "redis_errors_total",
        "Error replies by their first word",
        read("INFO errorstats", errors),
        &["err"],
    ),
    metric(
        Gauge,
        "redis_slowlog_length",
        "Entries of SLOWLOG",
        read("SLOWLOG LEN", slow_length),
        &[],
    ),
    metric(
        Gauge,
        "redis_slowlog_last_id",
        "The id of the last entry of SLOWLOG, if there is one",
        read("SLOWLOG GET 1", slow_id),
        &[],
    ),
    metric(
        Gauge,
        "redis_last_slow_execution_duration_seconds",
        "The time of the last entry of SLOWLOG; 0 without an entry",
        read("SLOWLOG GET 1", slow_duration),
        &[],
    ),
    metric(
        Gauge,
        "redis_commandlog_slow_length",
        "Entries of COMMANDLOG slow",
        read("COMMANDLOG LEN", slow_length),
        &[],
    ),
    metric(
        Gauge,
        "redis_commandlog_large_request_length",
        "Entries of COMMANDLOG large-request",
        read("COMMANDLOG LEN", large_request_length),
        &[],
    ),
    metric(
        Gauge,
        "redis_commandlog_large_reply_length",
        "Entries of COMMANDLOG large-reply",
        read("COMMANDLOG LEN", large_reply_length),
        &[],
    ),
    metric(
        Gauge,
        "redis_latency_spike_last",
        "Unix time of the last latency spike of an event",
        read("LATENCY LATEST", spike_times),
        &["event_name"],
    ),
    metric(
        Gauge,
        "redis_latency_spike_duration_seconds",
        "Length of the last latency spike of an event",
        read("LATENCY LATEST", spike_durations),
        &["event_name"],
    ),
    metric(Gauge, "redis_db_keys", "Keys of a database", read("INFO keyspace", keys), &["db"]),
    metric(
        Gauge,
        "redis_db_keys_expiring",
        "Keys of a database that expire",
        read("INFO keyspace", expiring),
        &["db"],
    ),
    metric(
        Gauge,
        "redis_db_keys_with_expiring_items",
        "Hashes of a database with fields that expire",
        read("INFO keyspace", keys_with_expiring_items),
        &["db"],
    ),
    metric(
        Gauge,
        "redis_db_avg_ttl_seconds",
        "Time until keys of a database expire: the average that the last INFO estimated; 0: none did",
        read("INFO keyspace", ttl),
        &["db"],
    ),
    metric(
        Info,
        "redis_slave_info",
        "On a replica: its primary",
        read("INFO replication", replica_facts),
        &["master_host", "master_port", "read_only"],
    ),
    metric(
        Counter,
        "weft_script_restarts_total",
        "Runs of scripts that were undone and began again",
        read("INFO threads: script_restarts", script_restarts),
        &[],
    ),
];

/// The cluster, certificates.
pub static CLUSTER: [Metric; 14] = [
    metric(
        Gauge,
        "redis_cluster_state",
        "1 if CLUSTER INFO says ok, else 0; this and the next ones only in cluster mode",
        read("CLUSTER INFO", |s, out| match s.cluster.get("cluster_state") {
            Some(state) => out.value(&[], f64::from(u8::from(state == "ok"))),
            None => Ok(()),
        }),
        &[],
    ),
    metric(
        Gauge,
        "redis_cluster_slots_assigned",
        "Slots that have a node",
        read("CLUSTER INFO", |s, out| cluster(s, "cluster_slots_assigned", out)),
        &[],
    ),
    metric(
        Gauge,
        "redis_cluster_slots_ok",
        "Slots of nodes that are reachable",
        read("CLUSTER INFO", |s, out| cluster(s, "cluster_slots_ok", out)),
        &[],
    ),
    metric(
        Gauge,
        "redis_cluster_slots_pfail",
        "Slots of nodes that this node can't reach",
        read("CLUSTER INFO", |s, out| cluster(s, "cluster_slots_pfail", out)),
        &[],
    ),
    metric(
        Gauge,
        "redis_cluster_slots_fail",
        "Slots of failed nodes",
        read("CLUSTER INFO", |s, out| cluster(s, "cluster_slots_fail", out)),
        &[],
    ),
    metric(
        Gauge,
        "redis_cluster_known_nodes",
        "Nodes in the map",
        read("CLUSTER INFO", |s, out| cluster(s, "cluster_known_nodes", out)),
        &[],
    ),
    metric(
        Gauge,
        "redis_cluster_size",
        "Primaries with slots",
        read("CLUSTER INFO", |s, out| cluster(s, "cluster_size", out)),
        &[],
    ),
    metric(
        Gauge,
        "redis_cluster_current_epoch",
        "The epoch of the map",
        read("CLUSTER INFO", |s, out| cluster(s, "cluster_current_epoch", out)),
        &[],
    ),
    metric(
        Gauge,
        "redis_cluster_my_epoch",
        "The epoch of this node's slots",
        read("CLUSTER INFO", |s, out| cluster(s, "cluster_my_epoch", out)),
        &[],
    ),
    metric(
        Gauge,
        "weft_cluster_lease_held",
        "Whether a primary of a cluster with a store holds its lease; only on such primaries",
        read("the lease", lease_held),
        &[],
    ),
    metric(
        Gauge,
        "weft_cluster_lease_left_seconds",
        "Time until the lease ends if it is not renewed; 0: there is none; only on such primaries",
        read("the lease", lease_left),
        &[],
    ),
    metric(
        Counter,
        "weft_cluster_lease_closed_connections_total",
        "Connections closed since their replies could not be acknowledged without a lease",
        read("the lease", lease_closed),
        &[],
    ),
    metric(
        Info,
        "redis_tls_certificate_info",
        "Serial numbers of the certificates in use",
        read("INFO tls", certificates),
        &["certificate", "serial"],
    ),
    metric(
        Gauge,
        "weft_tls_certificate_expiry_timestamp_seconds",
        "Unix time at which a certificate in use expires",
        read("the certificates", certificate_expiry),
        &["certificate"],
    ),
];

fn up(_: &Sample, out: &mut Out<'_>) -> fmt::Result {
    out.value(&[], 1.0)
}

fn start_time(sample: &Sample, out: &mut Out<'_>) -> fmt::Result {
    out.value(&[], (sample.srv.process.started_ms / 1000) as f64)
}

fn instance(sample: &Sample, out: &mut Out<'_>) -> fmt::Result {
    let mode = match sample.text("redis_mode") {
        "" => sample.text("server_mode"),
        mode => mode,
    };
    let text = |field| sample.text(field);
    let labels = [
        text("role"),
        text("redis_version"),
        text("redis_build_id"),
        mode,
        text("os"),
        text("maxmemory_policy"),
        text("tcp_port"),
        text("run_id"),
        text("process_id"),
        text("master_replid"),
        text("valkey_version"),
        text("weft_version"),
    ];
    out.value(&labels, 1.0)
}

fn max_clients(sample: &Sample, out: &mut Out<'_>) -> fmt::Result {
    out.value(&[], sample.number("maxclients").unwrap_or(0.0))
}

fn max_memory(sample: &Sample, out: &mut Out<'_>) -> fmt::Result {
    let bytes = sample.srv.config().int(Id::MAXMEMORY);
    out.value(&[], bytes as f64)
}

fn io_threads(sample: &Sample, out: &mut Out<'_>) -> fmt::Result {
    out.value(&[], sample.srv.threads.configured() as f64)
}

fn replicas(sample: &Sample, part: &str, out: &mut Out<'_>) -> fmt::Result {
    for (_, value) in sample.numbered("slave") {
        let text = |name| Sample::parts(value, name).unwrap_or_default();
        if let Ok(number) = text(part).parse() {
            out.value(&[text("ip"), text("port"), text("state")], number)?;
        }
    }
    Ok(())
}

fn replica_offsets(sample: &Sample, out: &mut Out<'_>) -> fmt::Result {
    replicas(sample, "offset", out)
}

fn replica_lags(sample: &Sample, out: &mut Out<'_>) -> fmt::Result {
    replicas(sample, "lag", out)
}

/// A value of a replica, with its primary as labels.
fn of_replica(sample: &Sample, value: Option<f64>, out: &mut Out<'_>) -> fmt::Result {
    match (sample.text("role"), value) {
        ("slave", Some(value)) => {
            out.value(&[sample.text("master_host"), sample.text("master_port")], value)
        }
        _ => Ok(()),
    }
}

fn link_up(sample: &Sample, out: &mut Out<'_>) -> fmt::Result {
    let is_up = sample.text("master_link_status") == "up";
    of_replica(sample, Some(f64::from(u8::from(is_up))), out)
}

fn last_io(sample: &Sample, out: &mut Out<'_>) -> fmt::Result {
    of_replica(sample, sample.number("master_last_io_seconds_ago"), out)
}

fn sync_in_progress(sample: &Sample, out: &mut Out<'_>) -> fmt::Result {
    of_replica(sample, sample.number("master_sync_in_progress"), out)
}

fn replica_offset(sample: &Sample, out: &mut Out<'_>) -> fmt::Result {
    of_replica(sample, sample.number("slave_repl_offset"), out)
}

fn replica_facts(sample: &Sample, out: &mut Out<'_>) -> fmt::Result {
    if sample.text("role") != "slave" {
        return Ok(());
    }
    let text = |field| sample.text(field);
    out.value(&[text("master_host"), text("master_port"), text("slave_read_only")], 1.0)
}

fn by_command(
    sample: &Sample,
    out: &mut Out<'_>,
    value: impl Fn(&CommandTotals) -> f64,
) -> fmt::Result {
    sample.commands().try_for_each(|(cmd, totals)| out.value(&[cmd.full_name], value(totals)))
}

fn calls(sample: &Sample, out: &mut Out<'_>) -> fmt::Result {
    by_command(sample, out, |totals| totals.calls as f64)
}

fn duration(sample: &Sample, out: &mut Out<'_>) -> fmt::Result {
    by_command(sample, out, |totals| totals.ns as f64 / 1e9)
}

fn rejected(sample: &Sample, out: &mut Out<'_>) -> fmt::Result {
    by_command(sample, out, |totals| totals.rejected as f64)
}

fn failed(sample: &Sample, out: &mut Out<'_>) -> fmt::Result {
    by_command(sample, out, |totals| totals.failed as f64)
}

/// Upper bounds in microseconds: 1 to 2^23, about 8 seconds.
const BOUNDS: usize = 24;

fn latencies(sample: &Sample, out: &mut Out<'_>) -> fmt::Result {
    for (cmd, latency) in sample.latencies() {
        let mut buckets: [(f64, u64); BOUNDS + 1] =
            std::array::from_fn(|n| ((1u64 << n) as f64, 0));
        buckets[BOUNDS].0 = f64::INFINITY;
        for (top_ns, count) in latency.buckets() {
            // A recorded bucket belongs to the one that has its largest value.
            let us = top_ns.div_ceil(1000).max(1);
            let at = us.next_power_of_two().trailing_zeros() as usize;
            buckets[at.min(BOUNDS)].1 += count;
        }
        let sum = sample.commands[cmd.number].ns as f64 / 1000.0;
        out.histogram(&[cmd.full_name], sum, &buckets)?;
    }
    Ok(())
}

fn percentiles(sample: &Sample, out: &mut Out<'_>) -> fmt::Result {
    let names: Vec<String> =
        sample.percentiles.iter().map(|percent| (percent / 100.0).to_string()).collect();
    for (cmd, latency) in sample.latencies() {
        let values = latency.percentiles(&sample.percentiles);
        for (name, ns) in names.iter().zip(values) {
            out.value(&[cmd.full_name, name], ns as f64 / 1000.0)?;
        }
    }
    Ok(())
}

fn errors(sample: &Sample, out: &mut Out<'_>) -> fmt::Result {
    let errors = sample.srv.statistics.errors().clone();
    errors.iter().try_for_each(|(code, count)| out.value(&[code], *count as f64))
}

fn length(sample: &Sample, kind: LogKind, out: &mut Out<'_>) -> fmt::Result {
    out.value(&[], sample.srv.statistics.commandlog.len(kind) as f64)
}

fn slow_length(sample: &Sample, out: &mut Out<'_>) -> fmt::Result {
    length(sample, LogKind::Slow, out)
}

fn large_request_length(sample: &Sample, out: &mut Out<'_>) -> fmt::Result {
    length(sample, LogKind::LargeRequest, out)
}

fn large_reply_length(sample: &Sample, out: &mut Out<'_>) -> fmt::Result {
    length(sample, LogKind::LargeReply, out)
}

fn slow_id(sample: &Sample, out: &mut Out<'_>) -> fmt::Result {
    let last = sample.srv.statistics.commandlog.latest(LogKind::Slow, 1);
    last.first().map_or(Ok(()), |entry| out.value(&[], entry.id as f64))
}

fn slow_duration(sample: &Sample, out: &mut Out<'_>) -> fmt::Result {
    let last = sample.srv.statistics.commandlog.latest(LogKind::Slow, 1);
    out.value(&[], last.first().map_or(0.0, |entry| entry.value as f64 / 1e6))
}

/// The last sample of each event: Unix seconds and milliseconds.
fn spikes(sample: &Sample) -> Vec<(String, i64, i64)> {
    let events = sample.srv.statistics.latency.events();
    let last = |(name, series): (&String, &weft_state::latency::Series)| {
        series.samples.back().map(|(at, ms)| (name.clone(), *at, *ms))
    };
    events.iter().filter_map(last).collect()
}

fn spike_times(sample: &Sample, out: &mut Out<'_>) -> fmt::Result {
    spikes(sample).iter().try_for_each(|(name, at, _)| out.value(&[name], *at as f64))
}

fn spike_durations(sample: &Sample, out: &mut Out<'_>) -> fmt::Result {
    spikes(sample).iter().try_for_each(|(name, _, ms)| out.value(&[name], *ms as f64 / 1e3))
}

fn by_database(sample: &Sample, part: &str, factor: f64, out: &mut Out<'_>) -> fmt::Result {
    for (db, value) in sample.numbered("db") {
        if let Some(number) = Sample::parts(value, part).and_then(|text| text.parse::<f64>().ok()) {
            out.value(&[&format!("db{db}")], number * factor)?;
        }
    }
    Ok(())
}

fn keys(sample: &Sample, out: &mut Out<'_>) -> fmt::Result {
    by_database(sample, "keys", 1.0, out)
}

fn expiring(sample: &Sample, out: &mut Out<'_>) -> fmt::Result {
    by_database(sample, "expires", 1.0, out)
}

fn keys_with_expiring_items(sample: &Sample, out: &mut Out<'_>) -> fmt::Result {
    by_database(sample, "keys_with_volatile_items", 1.0, out)
}

fn ttl(sample: &Sample, out: &mut Out<'_>) -> fmt::Result {
    by_database(sample, "avg_ttl", 0.001, out)
}

fn script_restarts(sample: &Sample, out: &mut Out<'_>) -> fmt::Result {
    let scripts = &sample.srv.scripts;
    out.value(&[], (scripts.cache.totals().restarts + scripts.functions.restarts()) as f64)
}

fn number_of(fields: &HashMap<String, String>, name: &str) -> Option<f64> {
    fields.get(name)?.parse().ok()
}

fn cluster(sample: &Sample, field: &str, out: &mut Out<'_>) -> fmt::Result {
    number_of(&sample.cluster, field).map_or(Ok(()), |number| out.value(&[], number))
}

fn lease_held(sample: &Sample, out: &mut Out<'_>) -> fmt::Result {
    match crate::ready::lease_left_ms(sample.srv) {
        Some(left) => out.value(&[], f64::from(u8::from(left > 0))),
        None => Ok(()),
    }
}

fn lease_left(sample: &Sample, out: &mut Out<'_>) -> fmt::Result {
    match crate::ready::lease_left_ms(sample.srv) {
        Some(left) => out.value(&[], left as f64 / 1e3),
        None => Ok(()),
    }
}

fn lease_closed(sample: &Sample, out: &mut Out<'_>) -> fmt::Result {
    match sample.srv.nodes.cluster.is_enabled() {
        true => out.value(&[], sample.srv.nodes.cluster.authority.closed() as f64),
        false => Ok(()),
    }
}

fn certificates(sample: &Sample, out: &mut Out<'_>) -> fmt::Result {
    for (certificate, field) in [
        ("server", "tls_server_cert_serial"),
        ("client", "tls_client_cert_serial"),
        ("ca", "tls_ca_cert_serial"),
    ] {
        match sample.text(field) {
            "" | "none" => {}
            serial => out.value(&[certificate, serial], 1.0)?,
        }
    }
    Ok(())
}

fn certificate_expiry(sample: &Sample, out: &mut Out<'_>) -> fmt::Result {
    let Some(contexts) = sample.srv.process.tls.contexts() else { return Ok(()) };
    let facts = &contexts.facts;
    let now = SystemTime::now();
    let now_s = now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs() as i64;
    for (certificate, facts) in
        [("server", &facts.server), ("client", &facts.client), ("ca", &facts.authority)]
    {
        if let Some(facts) = facts {
            out.value(&[certificate], (now_s + facts.expires_in(now)) as f64)?;
        }
    }
    Ok(())
}

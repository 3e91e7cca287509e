//! Metrics of the server as a whole, of its replicas and of its primary.

use super::Kind::{Gauge, Info};
use super::{Metric, Out, metric, read};
use crate::sample::Sample;
use std::fmt;
use weft_config::Id;

/// The server as a whole, its replicas and its primary.
pub static REPLICATION: [Metric; 13] = [
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
    metric(
        Info,
        "redis_slave_info",
        "On a replica: its primary",
        read("INFO replication", replica_facts),
        &["master_host", "master_port", "read_only"],
    ),
];

const PRIMARY: &[&str] = &["master_host", "master_port"];

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
    let bytes = sample.srv.config().memory(Id::MAXMEMORY);
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

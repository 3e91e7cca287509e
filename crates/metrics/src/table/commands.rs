//! Metrics by command, error, event and database.

use super::Kind::{Counter, Gauge, Histogram};
use super::{Metric, Out, metric, read};
use crate::sample::Sample;
use std::fmt;
use weft_state::commandlog::LogKind;
use weft_state::info_state::base::CommandTotals;

/// Commands, errors, logs and databases.
pub static COMMANDS: [Metric; 20] = [
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
        Counter,
        "weft_script_restarts_total",
        "Runs of scripts that were undone and began again",
        read("INFO threads: script_restarts", script_restarts),
        &[],
    ),
];

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

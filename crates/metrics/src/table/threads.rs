//! Metrics of our own: threads, the slow lane, the log, snapshots, huge pages.
//!
//! Counters of threads count from the start: CONFIG RESETSTAT leaves them alone, as in INFO threads.

use super::Kind::{Counter, Gauge, Info};
use super::{Metric, Out, Source, metric, read};
use crate::sample::Sample;
use crate::tasks::io_name;
use std::fmt;
use std::time::Duration;
use weft_durability::aof::aof;
use weft_state::slow_lane::THREADS as SLOW_THREADS;
use weft_state::stats::{Counter as Count, ThreadStats};

/// One sample for each I/O thread.
macro_rules! io_threads {
    ($read:expr) => {
        Source::Function("the thread's counters", |sample, out| {
            let read: fn(&ThreadStats) -> f64 = $read;
            sample
                .srv
                .threads
                .iter()
                .enumerate()
                .try_for_each(|(n, thread)| out.value(&[io_name(n)], read(&thread.stats)))
        })
    };
}

fn get(counter: &Count) -> f64 {
    counter.get() as f64
}

/// Threads.
pub static THREADS: [Metric; 17] = [
    metric(
        Counter,
        "weft_thread_cpu_user_seconds_total",
        "CPU time of a thread in the server. Of an I/O thread: as of its last cron, at most 100 ms ago while it works. \
         Threads of the same name are added up, and are missing after their end",
        read("the thread's cron, or /proc/self/task", |s, out| {
            cpu(s, out, |io| io.load.cpu_user_us.get(), |task| task.user)
        }),
        &["thread"],
    ),
    metric(
        Counter,
        "weft_thread_cpu_system_seconds_total",
        "CPU time of a thread in the kernel",
        read("the thread's cron, or /proc/self/task", |s, out| {
            cpu(s, out, |io| io.load.cpu_system_us.get(), |task| task.system)
        }),
        &["thread"],
    ),
    metric(
        Gauge,
        "weft_thread_cpu",
        "The CPU on which a thread ran last, by the kernel's number",
        read("the thread's cron, or /proc/self/task", thread_cpus),
        &["thread"],
    ),
    metric(
        Gauge,
        "weft_thread_node",
        "The memory node of that CPU",
        read("/sys/devices/system/node", thread_nodes),
        &["thread"],
    ),
    metric(
        Info,
        "weft_io_thread_info",
        "The CPUs on which an I/O thread may run",
        read("INFO threads: io_thread_0_cpus ...", allowed_cpus),
        &["thread", "cpus"],
    ),
    metric(
        Gauge,
        "weft_io_thread_active",
        "Whether an I/O thread owns connections",
        read("INFO threads: io_threads_active", active),
        &["thread"],
    ),
    metric(
        Gauge,
        "weft_io_thread_busy_ratio",
        "The share of the last second in which an I/O thread ran",
        io_threads!(|stats| get(&stats.load.busy) / 1000.0),
        &["thread"],
    ),
    metric(
        Gauge,
        "weft_io_thread_pressure_ratio",
        "The share in which it ran or wanted to: above 1, it has more work than a CPU can do",
        io_threads!(|stats| get(&stats.load.pressure) / 1000.0),
        &["thread"],
    ),
    metric(
        Counter,
        "weft_io_thread_iterations_total",
        "Iterations of an I/O thread's event loop",
        io_threads!(|stats| get(&stats.event_loop.turns)),
        &["thread"],
    ),
    metric(
        Counter,
        "weft_io_thread_requests_total",
        "Requests that an I/O thread has executed",
        io_threads!(|stats| get(&stats.load.requests)),
        &["thread"],
    ),
    metric(
        Gauge,
        "weft_io_thread_connections",
        "Connections of an I/O thread",
        io_threads!(|stats| get(&stats.network.connections)),
        &["thread"],
    ),
    metric(
        Counter,
        "weft_io_thread_moved_connections_total",
        "Connections that have moved from an I/O thread to another one",
        io_threads!(|stats| get(&stats.network.moved)),
        &["thread"],
    ),
    metric(
        Counter,
        "weft_io_thread_reads_total",
        "Reads from sockets",
        io_threads!(|stats| get(&stats.network.reads)),
        &["thread"],
    ),
    metric(
        Counter,
        "weft_io_thread_writes_total",
        "Writes to sockets",
        io_threads!(|stats| get(&stats.network.writes)),
        &["thread"],
    ),
    metric(
        Counter,
        "weft_io_thread_shard_waits_total",
        "Requests that found a shard taken by another thread and had to wait",
        io_threads!(|stats| get(&stats.event_loop.parked)),
        &["thread"],
    ),
    metric(
        Gauge,
        "weft_io_thread_withheld_replies",
        "Replies that wait for the disk (appendfsync always) or for replicas (cluster-write-quorum)",
        io_threads!(|stats| get(&stats.event_loop.withheld)),
        &["thread"],
    ),
    metric(
        Gauge,
        "weft_io_threads_started",
        "I/O threads that exist",
        read("the pool of threads", |s, out| out.value(&[], s.srv.threads.started() as f64)),
        &[],
    ),
];

/// The slow lane, the log, snapshots and memory.
pub static WORK: [Metric; 12] = [
    metric(
        Gauge,
        "weft_slow_lane_jobs",
        "Long commands that run or wait in the slow lane",
        read("INFO threads: slow_lane_jobs", |s, out| out.value(&[], s.srv.slow.jobs() as f64)),
        &[],
    ),
    metric(
        Counter,
        "weft_slow_lane_commands_total",
        "Long commands that the slow lane has executed",
        read("the threads' counters", |s, out| {
            out.value(&[], slow_threads(s).map(|stats| get(&stats.load.requests)).sum())
        }),
        &[],
    ),
    metric(
        Counter,
        "weft_slow_lane_busy_seconds_total",
        "Time spent in commands of the slow lane",
        read("the threads' counters", |s, out| {
            let commands = slow_threads(s).flat_map(|stats| &stats.commands);
            out.value(&[], commands.map(|command| get(&command.ns)).sum::<f64>() / 1e9)
        }),
        &[],
    ),
    metric(
        Counter,
        "weft_slow_lane_queue_seconds_total",
        "Time that commands have waited for a thread of the slow lane",
        read("the threads' counters", |s, out| {
            out.value(
                &[],
                slow_threads(s).map(|stats| get(&stats.load.queued_ms)).sum::<f64>() / 1e3,
            )
        }),
        &[],
    ),
    metric(
        Gauge,
        "weft_log_unread_bytes",
        "Effects of writes that the append-only file or the replication stream has not read yet",
        read("the effect log", |s, out| out.value(&[], s.srv.ks.log().pending_bytes() as f64)),
        &[],
    ),
    metric(
        Gauge,
        "weft_aof_unread_bytes",
        "The part of it that the writer of the append-only file has not read",
        read("the effect log", |s, out| out.value(&[], aof(s.srv).pending_bytes(s.srv) as f64)),
        &[],
    ),
    metric(
        Gauge,
        "weft_aof_unwritten_bytes",
        "Bytes that the writer of the append-only file has read and not written",
        read("the writer", |s, out| {
            let buffer = &aof(s.srv).status.buffer;
            out.value(&[], buffer.load(std::sync::atomic::Ordering::Relaxed) as f64)
        }),
        &[],
    ),
    metric(
        Counter,
        "weft_snapshot_cuts_total",
        "Times that the I/O threads were stopped for the cut of a snapshot, a full sync or a rewrite",
        read("the keyspace", |s, out| out.value(&[], s.srv.ks.cut_times().count() as f64)),
        &[],
    ),
    metric(
        Counter,
        "weft_snapshot_cut_seconds_total",
        "Time of these cuts, from the wish to stop the I/O threads to their release",
        read("the keyspace", |s, out| out.value(&[], s.srv.ks.cut_times().all().as_secs_f64())),
        &[],
    ),
    metric(
        Gauge,
        "weft_snapshot_last_cut_seconds",
        "Time of the last one",
        read("the keyspace", |s, out| out.value(&[], s.srv.ks.cut_times().last().as_secs_f64())),
        &[],
    ),
    metric(
        Gauge,
        "weft_huge_pages_bytes",
        "Memory in transparent huge pages. Counting takes the kernel long if there is much memory, so the value is kept \
         for a thousand times that long, and for 10 seconds at least",
        read("/proc/self/smaps_rollup", |s, out| out.value(&[], s.huge_pages as f64)),
        &[],
    ),
    metric(
        Counter,
        "weft_metrics_cpu_seconds_total",
        "CPU time of the thread that serves metrics",
        read("the thread", |s, out| out.value(&[], s.own_cpu.as_secs_f64())),
        &[],
    ),
];

/// The CPU time of each thread: that of I/O threads in microseconds as they publish it, that of others by the kernel.
fn cpu(
    sample: &Sample,
    out: &mut Out<'_>,
    io: fn(&ThreadStats) -> u64,
    other: fn(&crate::tasks::Task) -> Duration,
) -> fmt::Result {
    for (n, thread) in sample.srv.threads.iter().enumerate() {
        out.value(&[io_name(n)], io(&thread.stats) as f64 / 1e6)?;
    }
    for tasks in sample.tasks.chunk_by(|a, b| a.name == b.name) {
        let sum: Duration = tasks.iter().map(other).sum();
        out.value(&[&tasks[0].name], sum.as_secs_f64())?;
    }
    Ok(())
}

fn thread_cpus(sample: &Sample, out: &mut Out<'_>) -> fmt::Result {
    sample.places().try_for_each(|(name, cpu)| out.value(&[name], cpu as f64))
}

fn thread_nodes(sample: &Sample, out: &mut Out<'_>) -> fmt::Result {
    let machine = &sample.srv.process.hardware.machine;
    let nodes = sample.places().filter_map(|(name, cpu)| Some((name, machine.cpu(cpu)?.node)));
    nodes.into_iter().try_for_each(|(name, node)| out.value(&[name], node as f64))
}

fn allowed_cpus(sample: &Sample, out: &mut Out<'_>) -> fmt::Result {
    sample
        .srv
        .threads
        .iter()
        .enumerate()
        .try_for_each(|(n, thread)| out.value(&[io_name(n), &thread.cpus().to_string()], 1.0))
}

fn active(sample: &Sample, out: &mut Out<'_>) -> fmt::Result {
    let active = sample.srv.threads.active();
    let numbers = 0..sample.srv.threads.iter().count();
    numbers.into_iter().try_for_each(|n| out.value(&[io_name(n)], f64::from(u8::from(n < active))))
}

/// The threads of the slow lane, without the others that have such counters.
fn slow_threads(sample: &Sample) -> impl Iterator<Item = &ThreadStats> {
    sample.srv.statistics.slow_threads.iter().take(SLOW_THREADS)
}

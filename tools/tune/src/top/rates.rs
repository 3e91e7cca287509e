//! From two samples to a [`Report`]. Pure: the samples come from [`super::sampler`] or from a test.

use std::collections::VecDeque;
use std::time::Duration;

mod host;
mod server;

use super::info::Info;
use super::reading::{Fixed, Reading};
use super::report::{Latency, Report, SCHEMA};
use crate::stats::quantile;

/// The time whose probes the percentiles are of, in seconds.
const WINDOW: f64 = 60.0;

/// Everything that was read at one moment.
#[derive(Clone, Debug, Default)]
pub struct Sample {
    /// Seconds on a clock that never goes back.
    pub at: f64,
    /// Milliseconds since 1970.
    pub unix_time_ms: u64,
    /// The server's address, for people.
    pub address: String,
    /// INFO, and CLUSTER INFO in a cluster.
    pub info: Info,
    /// The times of the PINGs since the sample before.
    pub probes: Vec<Duration>,
    /// The reason why there are none.
    pub probe_error: Option<String>,
    /// The server's process, if it is visible from here.
    pub pid: Option<u32>,
    /// The kernel's counters; none if the server is on another machine.
    pub reading: Option<Reading>,
}

/// Two samples and the time between them.
struct Pair<'a> {
    before: &'a Sample,
    now: &'a Sample,
    seconds: f64,
}

impl Pair<'_> {
    /// The increase of a counter per second. A counter that went back was reset, and began at 0.
    fn rate(&self, before: u64, now: u64) -> f64 {
        now.checked_sub(before).unwrap_or(now) as f64 / self.seconds
    }

    /// The same for a field of INFO.
    fn rate_of(&self, field: &str) -> f64 {
        self.rate(self.before.info.count(field), self.now.info.count(field))
    }

    /// The share of this time that a counter of seconds grew by, from 0 to 100.
    fn percent(&self, before: f64, now: f64) -> f64 {
        ((now - before) / self.seconds * 100.0).clamp(0.0, 100.0)
    }
}

/// Turns samples into reports, in their order.
#[derive(Clone, Debug)]
pub struct Rates {
    fixed: Fixed,
    before: Option<Sample>,
    /// The probes of the last minute, by the time of their sample.
    probes: VecDeque<(f64, Duration)>,
}

impl Rates {
    /// Without samples.
    pub fn new(fixed: Fixed) -> Rates {
        Rates { fixed, before: None, probes: VecDeque::new() }
    }

    /// The next sample. The first one of a server has no rates and gives nothing.
    pub fn add(&mut self, now: Sample) -> Option<Report> {
        let run = |sample: &Sample| sample.info.text("run_id");
        let before = self.before.take().filter(|before| run(before) == run(&now));
        if before.is_none() {
            self.probes.clear();
        }
        self.probes.extend(now.probes.iter().map(|time| (now.at, *time)));
        while self.probes.front().is_some_and(|(at, _)| *at < now.at - WINDOW) {
            self.probes.pop_front();
        }
        let report = before.filter(|before| now.at > before.at).map(|before| {
            let pair = Pair { before: &before, now: &now, seconds: now.at - before.at };
            self.report(&pair)
        });
        self.before = Some(now);
        report
    }

    fn report(&self, pair: &Pair<'_>) -> Report {
        let info = &pair.now.info;
        let threads = host::threads(pair, &self.fixed);
        Report {
            schema: SCHEMA,
            unix_time_ms: pair.now.unix_time_ms,
            seconds: pair.seconds,
            server: server::server(pair.now, &threads),
            requests: server::requests(pair),
            latency: self.latency(pair.now),
            commands: server::commands(pair),
            cpus: host::cpus(pair, &self.fixed, &threads),
            interfaces: host::interfaces(pair),
            threads,
            memory: server::memory(info),
            clients: server::clients(pair),
            databases: server::databases(info),
            replication: server::replication(info),
            cluster: server::cluster(info),
            persistence: server::persistence(info),
        }
    }

    fn latency(&self, now: &Sample) -> Latency {
        let all: Vec<f64> = self.probes.iter().map(|(_, time)| micros(*time)).collect();
        let new: Vec<f64> = now.probes.iter().map(|time| micros(*time)).collect();
        let quantile = |times: &[f64], q| (!times.is_empty()).then(|| quantile(times, q));
        Latency {
            probes: all.len(),
            p50_us: quantile(&all, 0.5),
            p99_us: quantile(&all, 0.99),
            max_us: quantile(&all, 1.0),
            now_us: quantile(&new, 0.5),
            error: now.probe_error.clone(),
        }
    }
}

fn micros(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}

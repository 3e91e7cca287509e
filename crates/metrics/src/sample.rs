//! The state of the server at a scrape.
//!
//! Everything is read as INFO reads it, so the two agree: counters that their threads write, and short mutexes that
//! requests don't take. No shard is locked, and no thread is stopped or woken.

use std::collections::HashMap;
use std::fmt;
use std::time::{Duration, Instant};
use weft_admin::info::{Selection, observe, totals};
use weft_executor::dispatch::core::Core;
use weft_process::stats::{Whose, cpu_time, memory_maps};
use weft_state::command_table::Cmd;
use weft_state::info_state::base::CommandTotals;
use weft_state::server::Server;
use weft_state::stats::Distribution;

use crate::access::Reader;
use crate::host::{Host, Reading};
use crate::hot_keys::HotKeys;
use crate::tasks::{Task, Tasks, io_name};
use crate::type_memory::TypeMemory;
use serde_json::Value;

/// The sections of INFO that a scrape reads. The others are read from where INFO has them.
const SECTIONS: [&[u8]; 10] = [
    b"server",
    b"tls",
    b"clients",
    b"memory",
    b"persistence",
    b"stats",
    b"replication",
    b"cpu",
    b"cluster",
    b"keyspace",
];

/// Creates samples. It belongs to the thread that serves metrics.
pub struct Sampler {
    core: Core,
    tasks: Tasks,
    huge_pages: HugePages,
    host: Host,
    hot_keys: HotKeys,
    type_memory: TypeMemory,
}

/// Memory in huge pages as of the last count. The kernel walks all page tables for it.
#[derive(Default)]
struct HugePages {
    bytes: u64,
    /// When it may be counted again.
    next: Option<Instant>,
}

impl HugePages {
    /// The time between two counts, as a multiple of the time of one, and at least.
    const PAUSE: u32 = 1000;
    const SHORTEST: Duration = Duration::from_secs(10);

    fn read(&mut self) -> u64 {
        let began = Instant::now();
        if self.next.is_none_or(|next| began >= next) {
            self.bytes = memory_maps().anonymous_huge;
            self.next = Some(began + (began.elapsed() * HugePages::PAUSE).max(HugePages::SHORTEST));
        }
        self.bytes
    }
}

impl Sampler {
    pub fn new(srv: &'static Server) -> Sampler {
        let (tasks, huge_pages) = (Tasks::default(), HugePages::default());
        let (host, hot_keys) = (Host::default(), HotKeys::default());
        let (core, type_memory) = (Core::metrics(srv), TypeMemory::default());
        Sampler { core, tasks, huge_pages, host, hot_keys, type_memory }
    }

    pub fn srv(&self) -> &'static Server {
        self.core.srv
    }

    /// The keys of most requests, and the memory of each type. While this is called again within seconds, the I/O threads sample
    /// keys.
    pub fn keys(&mut self, reader: Reader) -> Value {
        if reader.may_monitor {
            let srv = self.core.srv;
            let now_ms = srv.mono_ms();
            self.hot_keys.add(now_ms, srv.statistics.hot_keys.take(now_ms));
        }
        let mut keys = self.hot_keys.json(reader);
        let ks = &self.core.srv.ks;
        let all = ks.occupied_databases().map(|db| ks.counts(db).0 as u64).sum();
        self.type_memory.draw(self.core.srv);
        keys["types"] = self.type_memory.json(all);
        keys
    }

    /// Reads the machine, which a scrape of metrics does not.
    pub fn machine(&self) -> Reading {
        self.host.read()
    }

    /// Reads the server. O(threads x commands + clients + databases).
    pub fn sample(&mut self) -> Sample {
        let srv = self.core.srv;
        self.core.begin();
        let text = observe(&mut self.core, &Selection::of(&SECTIONS));
        let commands = totals::commands_since_reset(srv);
        let percentiles = srv.config().latency_percentiles().to_vec();
        let tracks = self.core.settings.log.latency_tracking;
        // Only commands that were called: a histogram has 960 buckets for each thread.
        let called = commands.iter().enumerate().filter(|(_, totals)| tracks && totals.calls > 0);
        let latencies = called
            .map(|(number, _)| (number, totals::latency_since_reset(srv, number)))
            .filter(|(_, latency)| latency.count() > 0)
            .collect();
        Sample {
            srv,
            fields: fields(&text),
            commands,
            latencies,
            percentiles,
            tasks: self.tasks.read(),
            huge_pages: self.huge_pages.read(),
            own_cpu: own_cpu(),
            cluster: fields(&weft_admin::cluster::info(srv).unwrap_or_default()),
        }
    }

    /// Publishes this thread's counters. Call it after the response.
    pub fn publish(&mut self) {
        self.core.publish();
    }
}

fn own_cpu() -> Duration {
    let used = cpu_time(Whose::Thread);
    Duration::from_micros(used.user_us + used.system_us)
}

/// The lines of a section of INFO.
fn fields(text: &str) -> HashMap<String, String> {
    let pairs = text.lines().filter_map(|line| line.split_once(':'));
    pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

/// See the module.
pub struct Sample {
    pub srv: &'static Server,
    pub fields: HashMap<String, String>,
    /// By the command's number.
    pub commands: Vec<CommandTotals>,
    /// The latencies of commands, by number, that were called since the last reset.
    pub latencies: Vec<(usize, Distribution)>,
    /// The directive latency-tracking-info-percentiles.
    pub percentiles: Vec<f64>,
    /// The threads of the process that are not I/O threads.
    pub tasks: Vec<Task>,
    /// Bytes.
    pub huge_pages: u64,
    /// The CPU time of this thread.
    pub own_cpu: Duration,
    /// CLUSTER INFO, in cluster mode.
    pub cluster: HashMap<String, String>,
}

impl fmt::Debug for Sample {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sample").field("fields", &self.fields).finish_non_exhaustive()
    }
}

impl Sample {
    /// The value of a field of INFO; empty if there is no such field.
    pub fn text(&self, field: &str) -> &str {
        self.fields.get(field).map_or("", String::as_str)
    }

    /// The value of a field of INFO that is a number.
    pub fn number(&self, field: &str) -> Option<f64> {
        self.fields.get(field)?.trim_end_matches('%').parse().ok()
    }

    /// Commands that were called or refused, with their counters.
    pub fn commands(&self) -> impl Iterator<Item = (&'static Cmd, &CommandTotals)> {
        let all = self.srv.table.all().iter().map(|cmd| (*cmd, &self.commands[cmd.number]));
        all.filter(|(_, totals)| totals.calls > 0 || totals.rejected > 0 || totals.failed > 0)
    }

    /// Commands with recorded latencies.
    pub fn latencies(&self) -> impl Iterator<Item = (&'static Cmd, &Distribution)> {
        self.latencies.iter().map(|(number, latency)| (self.srv.table.all()[*number], latency))
    }

    /// The pairs `name=value` of a field of INFO such as `db0`.
    pub fn parts<'a>(value: &'a str, name: &str) -> Option<&'a str> {
        let mut pairs = value.split(',').filter_map(|pair| pair.split_once('='));
        pairs.find(|(found, _)| *found == name).map(|(_, value)| value)
    }

    /// Threads by name, and the CPU on which each ran last.
    pub fn places(&self) -> impl Iterator<Item = (&str, usize)> {
        let io = self.srv.threads.iter().enumerate().filter_map(|(n, thread)| {
            let cpu = thread.stats.load.last_cpu.get().checked_sub(1)?;
            Some((io_name(n), cpu as usize))
        });
        // The first one of threads with the same name.
        let others = self.tasks.chunk_by(|a, b| a.name == b.name);
        io.chain(others.map(|tasks| (&*tasks[0].name, tasks[0].cpu)))
    }

    /// The fields `prefix` and a number, in ascending order of the number.
    pub fn numbered(&self, prefix: &str) -> Vec<(usize, &str)> {
        let number = |name: &str| name.strip_prefix(prefix)?.parse().ok();
        let found = self.fields.iter().filter_map(|(name, value)| Some((number(name)?, &**value)));
        let mut found: Vec<(usize, &str)> = found.collect();
        found.sort_unstable();
        found
    }
}

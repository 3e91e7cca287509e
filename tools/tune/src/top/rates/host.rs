//! The parts of a report that come from the kernel, joined with what INFO reports of threads.

use std::collections::BTreeMap;

use super::Pair;
use crate::top::info::Parts;
use crate::top::reading::{ByCpu, Fixed};
use crate::top::report::{Cpu, Interface, IoThread, Thread};

/// The least share of a CPU, in percent, with which a thread is named at its CPU.
const USED: f64 = 0.05;

/// The server's threads, by name: from this machine, or else the I/O threads from INFO.
pub fn threads(pair: &Pair<'_>, fixed: &Fixed) -> Vec<Thread> {
    let mut io = io_threads(pair);
    let (Some(before), Some(now)) = (&pair.before.reading, &pair.now.reading) else {
        let names = io.into_iter().map(|(index, (percent, io))| Thread {
            name: format!("I/O thread {index}"),
            cpu_percent: percent,
            io: Some(io),
            ..Thread::default()
        });
        return names.collect();
    };
    let mut threads = Vec::new();
    // Only in Redis and Valkey does the first thread serve connections.
    let has_first = now.threads.values().any(|thread| thread.name == "weft-io-0");
    for (&tid, thread) in &now.threads {
        // A thread that started in this time has counted from 0.
        let old = before.threads.get(&tid).filter(|old| old.started == thread.started);
        let waited = |old: Option<f64>| Some(pair.percent(old.unwrap_or(0.0), thread.waited?));
        let rate = |old: Option<u64>, now: u64| Some(pair.rate(old.unwrap_or(0), now));
        let is_first = Some(tid) == pair.now.pid && !has_first;
        let index = io_index(&thread.name, is_first);
        threads.push(Thread {
            tid: Some(tid),
            cpu_percent: Some(pair.percent(old.map_or(0.0, |old| old.used), thread.used)),
            wait_percent: waited(old.and_then(|old| old.waited)),
            last_cpu: Some(thread.cpu),
            node: fixed.nodes.get(&thread.cpu).copied(),
            voluntary_per_second: rate(old.map(|old| old.voluntary), thread.voluntary),
            involuntary_per_second: rate(old.map(|old| old.involuntary), thread.involuntary),
            io: index.and_then(|index| io.remove(&index)).map(|(_, io)| io),
            name: thread.name.clone(),
        });
    }
    threads.sort_by(|a, b| natural(&a.name).cmp(&natural(&b.name)).then(a.tid.cmp(&b.tid)));
    threads
}

/// Name and number at its end: thread 2 comes before thread 10.
fn natural(name: &str) -> (&str, u64) {
    let stem = name.trim_end_matches(|c: char| c.is_ascii_digit());
    (stem, name[stem.len()..].parse().unwrap_or(0))
}

/// The number of the I/O thread with this name. Weft names all of them; in Redis and Valkey number
/// 0 is the first thread of the process, whose name is the program's.
fn io_index(name: &str, is_first: bool) -> Option<usize> {
    let number = |prefix: &str| name.strip_prefix(prefix)?.parse().ok();
    let named = number("weft-io-").or_else(|| number("io_thd_"));
    named.or(if is_first { Some(0) } else { None })
}

/// The I/O threads that INFO lists, by number, with the CPU time that it reports.
fn io_threads(pair: &Pair<'_>) -> BTreeMap<usize, (Option<f64>, IoThread)> {
    let before: BTreeMap<&str, Parts<'_>> = pair.before.info.below("io_thread_").collect();
    let listed = pair.now.info.below("io_thread_").filter_map(|(number, now)| {
        let index: usize = number.parse().ok()?;
        let old = before.get(number);
        let rate = |field: &str| {
            let now = now.number::<u64>(field)?;
            Some(pair.rate(old.and_then(|old| old.number(field)).unwrap_or(0), now))
        };
        let seconds = |parts: Parts<'_>| {
            Some(parts.number::<f64>("cpu_user")? + parts.number::<f64>("cpu_sys")?)
        };
        let used = old.and_then(|old| Some(pair.percent(seconds(*old)?, seconds(now)?)));
        let thread = IoThread {
            is_active: now.number::<u64>("active").map(|active| active != 0),
            connections: now.number("connections").or_else(|| now.number("clients")),
            requests_per_second: rate("requests"),
            reads_per_second: rate("reads"),
        };
        Some((index, (used, thread)))
    });
    listed.collect()
}

/// The CPUs of the server's machine.
pub fn cpus(pair: &Pair<'_>, fixed: &Fixed, threads: &[Thread]) -> Vec<Cpu> {
    let (Some(before), Some(now)) = (&pair.before.reading, &pair.now.reading) else {
        return Vec::new();
    };
    let network = interrupts_by_cpu(pair);
    let cpus = now.cpus.iter().filter_map(|(&cpu, time)| {
        let old = before.cpus.get(&cpu)?;
        let total = time.total() - old.total();
        let percent = |before: f64, now: f64| match total > 0.0 {
            true => ((now - before) / total * 100.0).clamp(0.0, 100.0),
            false => 0.0,
        };
        let soft = |of: fn(&(u64, u64)) -> u64| {
            let count = |counts: &ByCpu<(u64, u64)>| counts.get(&cpu).map_or(0, of);
            pair.rate(count(&before.soft), count(&now.soft))
        };
        let used = |thread: &Thread| thread.cpu_percent.unwrap_or(0.0);
        let mut here: Vec<&Thread> = threads
            .iter()
            .filter(|thread| thread.last_cpu == Some(cpu) && used(thread) >= USED)
            .collect();
        here.sort_by(|a, b| used(b).total_cmp(&used(a)));
        let (user, system) = (percent(old.user, time.user), percent(old.system, time.system));
        let interrupt = percent(old.interrupt, time.interrupt);
        Some(Cpu {
            cpu,
            node: fixed.nodes.get(&cpu).copied().unwrap_or(0),
            busy_percent: (user + system + interrupt).min(100.0),
            user_percent: user,
            system_percent: system,
            interrupt_percent: interrupt,
            stolen_percent: percent(old.stolen, time.stolen),
            network_interrupts_per_second: network.get(&cpu).copied().unwrap_or(0.0),
            net_rx_per_second: soft(|(rx, _)| *rx),
            net_tx_per_second: soft(|(_, tx)| *tx),
            threads: here.iter().map(|thread| thread.name.clone()).collect(),
        })
    });
    cpus.collect()
}

fn interrupts_by_cpu(pair: &Pair<'_>) -> ByCpu<f64> {
    let mut sums = ByCpu::new();
    for interface in interfaces(pair) {
        for (cpu, rate) in interface.interrupts_by_cpu {
            *sums.entry(cpu).or_default() += rate;
        }
    }
    sums
}

/// The network interfaces that had traffic since the boot.
pub fn interfaces(pair: &Pair<'_>) -> Vec<Interface> {
    let (Some(before), Some(now)) = (&pair.before.reading, &pair.now.reading) else {
        return Vec::new();
    };
    let interfaces = now.interfaces.iter().filter_map(|(name, now)| {
        let old = before.interfaces.get(name)?;
        let interrupts_by_cpu: ByCpu<f64> = now
            .interrupts
            .iter()
            .map(|(cpu, now)| {
                (*cpu, pair.rate(old.interrupts.get(cpu).copied().unwrap_or(0), *now))
            })
            .collect();
        (now.received.1 + now.sent.1 > 0).then(|| Interface {
            name: name.clone(),
            interrupts_per_second: interrupts_by_cpu.values().sum(),
            interrupts_by_cpu,
            received_bytes_per_second: pair.rate(old.received.0, now.received.0),
            received_packets_per_second: pair.rate(old.received.1, now.received.1),
            sent_bytes_per_second: pair.rate(old.sent.0, now.sent.0),
            sent_packets_per_second: pair.rate(old.sent.1, now.sent.1),
        })
    });
    interfaces.collect()
}

//! CPU time of other processes: two readings of the kernel's counts, half a second apart.
//!
//! An average over a minute shows the past, and includes the server's own work. The check needs the
//! present use by other processes, and their names. Steal counts too: that time is lost for this
//! machine.

use std::collections::HashMap;
use std::thread;
use std::time::{Duration, Instant};

use crate::host::Host;

/// The time between the two readings.
const BETWEEN: Duration = Duration::from_millis(500);
/// The number of named processes.
const NAMED: usize = 3;
/// CPUs below which a process is not worth a name.
const SMALL: f64 = 0.05;

/// The CPU time of other processes.
#[derive(Clone, Debug, PartialEq)]
pub struct Neighbours {
    /// The average number of CPUs that they used.
    pub cpus: f64,
    /// The busiest of them first: name, id, CPUs.
    pub named: Vec<(String, u32, f64)>,
}

/// The counts at one time, in ticks.
#[derive(Debug, Default)]
struct Counts {
    /// Ticks of all CPUs, without idle ones.
    busy: u64,
    /// By process: its name and time.
    processes: HashMap<u32, (String, u64)>,
}

/// Measures for half a second. The processes `own` don't count. None if the kernel doesn't report
/// the counts.
pub fn measure(host: &Host, own: &[u32]) -> Option<Neighbours> {
    let (first, begun) = (read_counts(host)?, Instant::now());
    thread::sleep(BETWEEN);
    let last = read_counts(host)?;
    let ticks = begun.elapsed().as_secs_f64() * rustix::param::clock_ticks_per_second() as f64;
    Some(between(&first, &last, ticks, own))
}

fn read_counts(host: &Host) -> Option<Counts> {
    let stat = host.text("proc/stat")?;
    let times = stat.lines().find_map(|line| line.strip_prefix("cpu "))?;
    // The fields are user, nice, system, idle, iowait, irq, softirq, steal.
    let busy = times.split_whitespace().take(8).enumerate().filter(|(at, _)| *at != 3 && *at != 4);
    let busy = busy.map(|(_, ticks)| ticks.parse::<u64>().ok()).sum::<Option<u64>>()?;
    let processes = host.entries("proc").into_iter().filter_map(|name| {
        let pid = name.parse().ok()?;
        // The name, in parentheses, may contain anything.
        let stat = host.text(&format!("proc/{pid}/stat"))?;
        let (head, fields) = stat.rsplit_once(')')?;
        let mut fields = fields.split_ascii_whitespace().skip(11);
        let mut ticks = || fields.next()?.parse::<u64>().ok();
        let used = ticks()? + ticks()?;
        Some((pid, (head.split_once('(')?.1.to_string(), used)))
    });
    Some(Counts { busy, processes: processes.collect() })
}

fn between(first: &Counts, last: &Counts, ticks: f64, own: &[u32]) -> Neighbours {
    let used = |pid: &u32| {
        let after = last.processes.get(pid).map_or(0, |process| process.1);
        // All time of a process started in between counts.
        after.saturating_sub(first.processes.get(pid).map_or(0, |process| process.1)) as f64 / ticks
    };
    let ours: f64 = own.iter().map(used).sum();
    let all = last.busy.saturating_sub(first.busy) as f64 / ticks;
    let others = last.processes.iter().filter(|(pid, _)| !own.contains(pid));
    let mut named: Vec<(String, u32, f64)> =
        others.map(|(pid, (name, _))| (name.clone(), *pid, used(pid))).collect();
    named.retain(|(_, _, cpus)| *cpus >= SMALL);
    named.sort_by(|a, b| b.2.total_cmp(&a.2));
    named.truncate(NAMED);
    Neighbours { cpus: (all - ours).max(0.0), named }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_testkit::machines::Machine;

    fn at(busy: u64, processes: &[(u32, &str, u64)]) -> Counts {
        let machine = Machine::empty();
        machine.write("proc/stat", format!("cpu  {busy} 0 0 500 7 0 0 0 0 0\ncpu0 1\n"));
        for (pid, name, used) in processes {
            let stat =
                format!("{pid} ({name}) S 1 1 1 0 -1 4 1 0 0 0 {used} 1 0 0 20 0 1 0 9 1 1\n");
            machine.write(&format!("proc/{pid}/stat"), &stat);
        }
        read_counts(&Host::new(machine.root())).unwrap()
    }

    #[test]
    fn other_processes_exclude_the_server() {
        let first = at(1000, &[(7, "server", 100), (8, "com) piler", 50), (9, "idle", 3)]);
        let last = at(
            1160,
            &[(7, "server", 140), (8, "com) piler", 140), (9, "idle", 3), (10, "new", 20)],
        );
        // 100 ticks: 1.6 CPUs were used, 0.4 of them by the server.
        let found = between(&first, &last, 100.0, &[7]);
        assert!((found.cpus - 1.2).abs() < 1e-9, "{found:?}");
        let names: Vec<(&str, u32)> = found.named.iter().map(|n| (n.0.as_str(), n.1)).collect();
        assert_eq!(names, [("com) piler", 8), ("new", 10)]);
        assert!((found.named[0].2 - 0.9).abs() < 1e-9, "{found:?}");
    }

    #[test]
    fn unreadable_counts_are_none() {
        assert!(read_counts(&Host::new(Machine::empty().root())).is_none());
    }
}

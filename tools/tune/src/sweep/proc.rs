//! The kernel's counts for a process: CPU time, context switches, how busy its threads are.

use std::collections::HashMap;
use std::fs;
use std::path::PathBuf;
use std::time::Instant;

use crate::results::model::Switches;

/// The shortest meaningful time for a share, in seconds.
const SHORTEST: f64 = 0.1;

/// The CPU time and switches of a process since its start.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Usage {
    /// Seconds in user mode.
    pub user: f64,
    /// Seconds in the kernel, for the process.
    pub system: f64,
    /// Of all its running threads.
    pub switches: Switches,
}

impl Usage {
    /// The usage of a process; none if it is gone.
    pub fn of(pid: u32) -> Option<Self> {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        let (user, system) = cpu_of(&stat)?;
        let mut switches = Switches { voluntary: 0, involuntary: 0 };
        for task in tasks(pid) {
            // A thread that ended in between doesn't count.
            let status = fs::read_to_string(task.join("status")).unwrap_or_default();
            switches.voluntary += field(&status, "voluntary_ctxt_switches");
            switches.involuntary += field(&status, "nonvoluntary_ctxt_switches");
        }
        Some(Self { user, system, switches })
    }

    /// The difference from `before`.
    pub fn since(&self, before: &Self) -> Self {
        let (now, then) = (self.switches, before.switches);
        Self {
            user: self.user - before.user,
            system: self.system - before.system,
            switches: Switches {
                voluntary: now.voluntary.saturating_sub(then.voluntary),
                involuntary: now.involuntary.saturating_sub(then.involuntary),
            },
        }
    }
}

/// User and system seconds in the text of `/proc/PID/stat`.
fn cpu_of(stat: &str) -> Option<(f64, f64)> {
    // The name before the last parenthesis may contain anything; fields count from 3 after it.
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace().skip(14 - 3);
    let per_second = rustix::param::clock_ticks_per_second() as f64;
    let mut seconds = || Some(fields.next()?.parse::<u64>().ok()? as f64 / per_second);
    Some((seconds()?, seconds()?))
}

fn field(status: &str, name: &str) -> u64 {
    let value = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    value.and_then(|value| value.trim().parse().ok()).unwrap_or(0)
}

fn tasks(pid: u32) -> impl Iterator<Item = PathBuf> {
    let entries = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten();
    entries.filter_map(|entry| Some(entry.ok()?.path()))
}

/// The CPU time of other processes on this machine.
#[derive(Clone, Copy, Debug)]
pub struct Others {
    begun: Instant,
    /// CPU seconds that the machine had used when it began.
    used: f64,
}

impl Others {
    /// Begins to count. None if the kernel doesn't report it.
    pub fn begin() -> Option<Self> {
        Some(Self { begun: Instant::now(), used: machine()? })
    }

    /// The average number of CPUs in use, without our own CPU seconds. Time that the host of a
    /// virtual machine took away counts as used by others.
    pub fn end(&self, own: f64) -> Option<f64> {
        let used = machine()? - self.used - own;
        Some((used / self.begun.elapsed().as_secs_f64()).max(0.0))
    }
}

/// CPU seconds that this machine has used since it started.
fn machine() -> Option<f64> {
    used_of(&fs::read_to_string("/proc/stat").ok()?)
}

fn used_of(stat: &str) -> Option<f64> {
    let fields = stat.lines().next()?.strip_prefix("cpu ")?.split_whitespace();
    // The fields are user, nice, system, idle, iowait, irq, softirq, steal; user includes guests.
    let used = fields.take(8).enumerate().filter(|(i, _)| *i != 3 && *i != 4);
    let ticks = used.map(|(_, text)| text.parse::<u64>().ok()).sum::<Option<u64>>()?;
    Some(ticks as f64 / rustix::param::clock_ticks_per_second() as f64)
}

/// Measures how busy the threads of a process are, while it runs.
#[derive(Debug)]
pub struct BusyThreads {
    pid: u32,
    /// First and last reading of each thread: the time, and nanoseconds on a CPU.
    threads: HashMap<PathBuf, [(Instant, u64); 2]>,
}

impl BusyThreads {
    /// For a process.
    pub fn new(pid: u32) -> Self {
        Self { pid, threads: HashMap::new() }
    }

    /// Reads each thread.
    pub fn sample(&mut self) {
        for task in tasks(self.pid) {
            let text = fs::read_to_string(task.join("schedstat")).unwrap_or_default();
            let Some(Ok(used)) = text.split(' ').next().map(str::parse::<u64>) else { continue };
            let now = (Instant::now(), used);
            self.threads.entry(task).or_insert([now, now])[1] = now;
        }
    }

    /// The share of time that the busiest thread was on a CPU, from 0 to 1. None if no thread was
    /// observed long enough.
    pub fn busiest(&self) -> Option<f64> {
        let shares = self.threads.values().filter_map(|[first, last]| {
            let seconds = (last.0 - first.0).as_secs_f64();
            (seconds >= SHORTEST).then(|| (last.1 - first.1) as f64 / 1e9 / seconds)
        });
        shares.map(|share| share.min(1.0)).reduce(f64::max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn cpu_is_found_after_any_name() {
        let per_second = rustix::param::clock_ticks_per_second() as f64;
        let stat = "7 (a b) c) S 1 7 7 0 -1 4 1 0 0 0 250 50 0 0 20 0 5 0 1 1 1";
        assert_eq!(cpu_of(stat), Some((250.0 / per_second, 50.0 / per_second)));
        assert_eq!(cpu_of("7 (a"), None);
    }

    #[test]
    fn this_process_uses_some_and_a_process_that_is_not_there_none() {
        let before = Usage::of(std::process::id()).unwrap();
        std::thread::sleep(Duration::from_millis(1));
        let after = Usage::of(std::process::id()).unwrap();
        assert!(after.user + after.system >= before.user + before.system);
        assert!(after.switches.voluntary > 0);
        assert_eq!(Usage::of(u32::MAX), None);
    }

    #[test]
    fn idle_time_is_not_used_time() {
        let per_second = rustix::param::clock_ticks_per_second() as f64;
        let stat = "cpu  100 10 50 9999 999 1 2 37 500 0\ncpu0 1 1 1 1\n";
        assert_eq!(used_of(stat), Some(200.0 / per_second));
        assert_eq!(used_of("intr 5"), None);
        assert!(Others::begin().unwrap().end(1e9).is_some_and(|cpus| cpus == 0.0));
    }

    #[test]
    fn threads_are_watched() {
        let mut busy_threads = BusyThreads::new(std::process::id());
        assert_eq!(busy_threads.busiest(), None);
        busy_threads.sample();
        let end = Instant::now() + Duration::from_millis(150);
        while Instant::now() < end {
            std::hint::spin_loop();
        }
        busy_threads.sample();
        assert!(busy_threads.busiest().is_some_and(|share| (0.0..=1.0).contains(&share)));
    }
}

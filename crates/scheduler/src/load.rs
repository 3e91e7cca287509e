//! How busy the calling thread is, read from the kernel a few times a second.
//!
//! Two figures, each a moving average:
//!
//! * **busy**: the share of time that it was running on a CPU, without the time it spent polling
//!   before it slept: this is work.
//! * **pressure**: how busy it would be if it always got a CPU: the time it was running, as a
//!   share of the time it was running or idle. The time it waited for a CPU is left out. A thread
//!   with a pressure of 1 never sleeps: it always has work. The pressure decides on the number of
//!   threads. By `busy`, a thread that gets half a CPU would look half idle however much work
//!   waits for it. If waiting counted as work, the load of other processes would wake threads of
//!   ours that find no CPU either.
//!
//! Linux counts both for each thread in `/proc/thread-self/schedstat`: nanoseconds on a CPU,
//! nanoseconds waiting on a run queue, number of slices
//! (<https://docs.kernel.org/scheduler/sched-stats.html>). So nothing is measured on the path of
//! a request. Where the file is missing, the thread's CPU time is used for both.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::time::Instant;
use weft_process::stats::{Whose, cpu_time};

/// Time constants of the moving averages, in seconds: the published figure is smooth, the
/// deciding one follows a burst within two or three ticks.
const CALM_S: f64 = 1.0;
const QUICK_S: f64 = 0.15;

/// The time that a thread has spent, in seconds.
#[derive(Clone, Copy, Debug, Default)]
struct Spent {
    running: f64,
    waiting: f64,
}

/// A thread's load.
#[derive(Debug)]
pub struct Load {
    /// Stays open: it always shows the thread that opened it, whichever thread reads it.
    schedstat: Option<File>,
    last: Spent,
    at: Instant,
    /// Share of one CPU, 0 to 1.
    pub busy: f64,
    /// Recent shares of time: on a CPU, and idle. The second may be negative for a moment,
    /// because the kernel counts a wait when it is over.
    running: f64,
    idle: f64,
    /// Seconds on a CPU since the thread began, without the time it spent polling without
    /// success.
    pub worked: f64,
}

impl Load {
    pub fn of_this_thread() -> Self {
        let schedstat = File::open("/proc/thread-self/schedstat").ok();
        let mut load = Load {
            schedstat,
            last: Spent::default(),
            at: Instant::now(),
            busy: 0.0,
            running: 0.0,
            idle: 1.0,
            worked: 0.0,
        };
        load.last = load.spent();
        load
    }

    /// Takes a sample; call it about `hz` times a second. `polled_s`: seconds since the last call
    /// in which the thread only polled. They count as idle.
    pub fn sample(&mut self, polled_s: f64) {
        let now = Instant::now();
        let elapsed = now.duration_since(self.at).as_secs_f64();
        if elapsed < 0.001 {
            return;
        }
        let spent = self.spent();
        let worked = spent.running - self.last.running - polled_s;
        self.worked += worked.max(0.0);
        let running = worked / elapsed;
        let waiting = (spent.waiting - self.last.waiting) / elapsed;
        (self.at, self.last) = (now, spent);
        self.busy = average(self.busy, running.clamp(0.0, 1.0), elapsed, CALM_S);
        self.running = average(self.running, running, elapsed, QUICK_S);
        self.idle = average(self.idle, 1.0 - running - waiting, elapsed, QUICK_S);
    }

    /// 0 to 1; see the module's description.
    pub fn pressure(&self) -> f64 {
        pressure(self.running, self.idle)
    }

    /// Restarts the averages: the thread has slept, or is about to.
    pub fn forget(&mut self) {
        (self.busy, self.running, self.idle) = (0.0, 0.0, 1.0);
        (self.at, self.last) = (Instant::now(), self.spent());
    }

    fn spent(&self) -> Spent {
        self.schedstat.as_ref().and_then(read_schedstat).unwrap_or_else(|| {
            let used = cpu_time(Whose::Thread);
            Spent { running: (used.user_us + used.system_us) as f64 / 1e6, waiting: 0.0 }
        })
    }
}

/// Computed from averages instead of averaging this ratio: a sample may contain waiting time in
/// one figure and not in the other.
fn pressure(running: f64, idle: f64) -> f64 {
    let running = running.max(0.0);
    let known = running + idle.max(0.0);
    if known > 0.0 { running / known } else { 0.0 }
}

/// Moves `old` towards `new`, which held for `elapsed` seconds: an exponential average with time
/// constant `tau`, for any intervals.
fn average(old: f64, new: f64, elapsed: f64, tau: f64) -> f64 {
    old + (new - old) * (1.0 - (-elapsed / tau).exp())
}

fn read_schedstat(file: &File) -> Option<Spent> {
    let mut buffer = [0u8; 80];
    let n = file.read_at(&mut buffer, 0).ok()?;
    parse_schedstat(std::str::from_utf8(&buffer[..n]).ok()?)
}

fn parse_schedstat(text: &str) -> Option<Spent> {
    let mut fields = text.split_ascii_whitespace();
    let mut seconds = || Some(fields.next()?.parse::<u64>().ok()? as f64 / 1e9);
    Some(Spent { running: seconds()?, waiting: seconds()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schedstat_line_is_parsed() {
        let spent = parse_schedstat("1500000000 250000000 12\n").unwrap();
        assert_eq!((spent.running, spent.waiting), (1.5, 0.25));
        assert!(parse_schedstat("").is_none());
        assert!(parse_schedstat("x 1 2").is_none());
    }

    #[test]
    fn time_without_a_cpu_is_not_counted() {
        assert_eq!(pressure(0.25, 0.25), 0.5);
        assert!((pressure(0.3, 0.7) - 0.3).abs() < 1e-9);
        assert_eq!(pressure(0.4, -0.01), 1.0);
        assert_eq!(pressure(0.0, 1.0), 0.0);
        assert_eq!(pressure(0.0, 0.0), 0.0);
    }

    #[test]
    fn average_does_not_depend_on_the_sampling_interval() {
        let often = (0..100).fold(0.0, |old, _| average(old, 1.0, 0.01, 0.5));
        let seldom = average(0.0, 1.0, 1.0, 0.5);
        assert!((often - seldom).abs() < 1e-9, "{often} {seldom}");
        assert!(seldom > 0.8 && seldom < 0.9);
    }

    #[test]
    fn a_thread_that_works_is_under_pressure_and_one_that_sleeps_is_not() {
        let mut load = Load::of_this_thread();
        std::thread::sleep(std::time::Duration::from_millis(300));
        load.sample(0.0);
        let asleep = load.pressure();
        let until = Instant::now() + std::time::Duration::from_millis(600);
        while Instant::now() < until {
            std::hint::black_box(0);
        }
        load.sample(0.0);
        // Regardless of the machine's load, a thread that never sleeps is under pressure.
        assert!(asleep < 0.5 && load.pressure() > asleep + 0.3, "{asleep} {}", load.pressure());
        load.forget();
        assert_eq!(load.pressure(), 0.0);
    }
}

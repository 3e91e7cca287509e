//! The `instantaneous_` fields: rates over the last 1.6 seconds.
//!
//! The first thread's cron samples a few sums every 100 ms and keeps the last 17 samples. A rate is
//! the growth over the last 1.6 seconds.

use crate::stats::{Counter, ThreadStats};
use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// The time between two samples.
pub const PERIOD: Duration = Duration::from_millis(100);
/// Samples kept: the growth over 16 periods.
const KEPT: usize = 17;

/// The sums at one moment.
#[derive(Clone, Copy, Debug)]
struct Sample {
    at: Instant,
    sums: Sums,
}

/// The sums whose rates INFO shows.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Sums {
    pub commands: u64,
    pub net_in: u64,
    pub net_out: u64,
    pub turns: u64,
    pub busy_us: u64,
}

/// The calls of each thread and the nanoseconds spent in them, at the last sum. There are hundreds
/// of commands on dozens of threads, and most of the threads are idle. Summing them all each time
/// would take a third of an idle server's CPU time.
#[derive(Debug, Default)]
pub struct Calls(Vec<(u64, (u64, u64))>);

impl Calls {
    /// Returns the calls of all threads and their nanoseconds. It reads only `own` and the threads
    /// that have executed requests since the last sum.
    ///
    /// A thread counts a call first, then the batch's requests, and replies last. So calls seen in
    /// the middle of a batch are read again after it, and every call that was replied to is
    /// included.
    pub fn sum<'a>(
        &mut self,
        threads: impl Iterator<Item = &'a ThreadStats>,
        own: Option<&ThreadStats>,
    ) -> (u64, u64) {
        let (mut all, mut all_ns) = (0u64, 0u64);
        for (n, thread) in threads.enumerate() {
            let requests = thread.load.requests.get();
            if self.0.len() == n {
                self.0.push((u64::MAX, (0, 0)));
            }
            let (then, sums) = &mut self.0[n];
            if *then != requests || own.is_some_and(|own| std::ptr::eq(own, thread)) {
                *then = requests;
                *sums = thread.commands.iter().fold((0, 0), |(calls, ns), command| {
                    (calls + command.calls.get(), ns + command.ns.get())
                });
            }
            all = all.wrapping_add(sums.0);
            all_ns = all_ns.wrapping_add(sums.1);
        }
        (all, all_ns)
    }
}

impl Sums {
    fn now<'a>(threads: impl Iterator<Item = &'a ThreadStats> + Clone, calls: &mut Calls) -> Sums {
        let sum = |of: fn(&ThreadStats) -> &Counter| {
            threads.clone().fold(0u64, |sum, thread| sum.wrapping_add(of(thread).get()))
        };
        Sums {
            commands: calls.sum(threads.clone(), None).0,
            net_in: sum(|t| &t.network.bytes_in),
            net_out: sum(|t| &t.network.bytes_out),
            turns: sum(|t| &t.event_loop.turns),
            busy_us: sum(|t| &t.load.cpu_user_us) + sum(|t| &t.load.cpu_system_us),
        }
    }
}

/// Per second.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PerSecond {
    pub commands: f64,
    pub net_in: f64,
    pub net_out: f64,
    pub turns: f64,
    pub busy_us: f64,
}

/// The latest samples, oldest first.
#[derive(Debug, Default)]
pub struct Rates {
    samples: VecDeque<Sample>,
    calls: Calls,
}

impl Rates {
    /// Whether it is time for a sample.
    pub fn is_due(&self, now: Instant) -> bool {
        // The cron may come a little early. It must still sample, or every other sample would be
        // missing.
        self.samples.back().is_none_or(|last| now.duration_since(last.at) >= PERIOD * 9 / 10)
    }

    /// Takes a sample. O(threads), and O(commands) for each thread that has executed some.
    pub fn sample<'a>(
        &mut self,
        threads: impl Iterator<Item = &'a ThreadStats> + Clone,
        now: Instant,
    ) {
        let sums = Sums::now(threads, &mut self.calls);
        self.add(now, sums);
    }

    fn add(&mut self, at: Instant, sums: Sums) {
        if self.samples.len() == KEPT {
            self.samples.pop_front();
        }
        self.samples.push_back(Sample { at, sums });
    }

    /// Drops all samples.
    pub fn clear(&mut self) {
        self.samples.clear();
    }

    /// The growth from the oldest sample to the latest.
    pub fn per_second(&self) -> PerSecond {
        let (Some(first), Some(last)) = (self.samples.front(), self.samples.back()) else {
            return PerSecond::default();
        };
        let seconds = last.at.duration_since(first.at).as_secs_f64();
        if seconds == 0.0 {
            return PerSecond::default();
        }
        let rate =
            |of: fn(&Sums) -> u64| of(&last.sums).saturating_sub(of(&first.sums)) as f64 / seconds;
        PerSecond {
            commands: rate(|s| s.commands),
            net_in: rate(|s| s.net_in),
            net_out: rate(|s| s.net_out),
            turns: rate(|s| s.turns),
            busy_us: rate(|s| s.busy_us),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sum_reads_threads_with_new_requests() {
        let threads = [ThreadStats::new(3), ThreadStats::new(3)];
        let mut calls = Calls::default();
        assert_eq!(calls.sum(threads.iter(), None), (0, 0));
        let execute = |thread: usize, command: usize| {
            threads[thread].commands[command].calls.add(1);
            threads[thread].commands[command].ns.add(100);
            threads[thread].load.requests.add(1);
        };
        execute(0, 2);
        execute(1, 0);
        execute(1, 2);
        assert_eq!(calls.sum(threads.iter(), None), (3, 300));
        // In the middle of a batch, then after it.
        threads[0].commands[0].calls.add(1);
        let (seen, _) = calls.sum(threads.iter(), None);
        assert!((3..=4).contains(&seen), "{seen}");
        // The thread itself sees its own calls.
        assert_eq!(calls.sum(threads.iter(), Some(&threads[0])).0, 4);
        threads[0].load.requests.add(1);
        assert_eq!(calls.sum(threads.iter(), None).0, 4);
    }

    #[test]
    fn growth_over_the_kept_samples() {
        let mut rates = Rates::default();
        assert_eq!(rates.per_second(), PerSecond::default());
        let start = Instant::now();
        for n in 0..40u64 {
            let at = start + PERIOD * n as u32;
            assert!(rates.is_due(at));
            rates.add(at, Sums { commands: n * n, net_in: 10 * n, turns: n, ..Sums::default() });
            assert!(!rates.is_due(at + PERIOD / 2));
        }
        let now = rates.per_second();
        // From sample 23 to sample 39, 1.6 s.
        assert!((now.commands - (39.0 * 39.0 - 23.0 * 23.0) / 1.6).abs() < 1e-6);
        assert!((now.net_in - 100.0).abs() < 1e-6 && now.net_out == 0.0);
        rates.clear();
        assert_eq!(rates.per_second(), PerSecond::default());
    }
}

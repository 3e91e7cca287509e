//! The `instantaneous_` fields: how much happened a moment ago.
//!
//! The first thread's cron looks at a few sums every 100 ms and keeps the last 17 of them, so a
//! rate is the growth over the last 1.6 seconds.

use super::totals::Totals;
use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// How far apart samples are.
pub const PERIOD: Duration = Duration::from_millis(100);
/// Samples kept: the growth over 16 periods.
const KEPT: usize = 17;

/// The sums at one moment.
#[derive(Clone, Copy, Debug)]
struct Sample {
    at: Instant,
    sums: Sums,
}

/// What rates are given of.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Sums {
    pub commands: u64,
    pub net_in: u64,
    pub net_out: u64,
    pub turns: u64,
    pub busy_us: u64,
}

impl Sums {
    pub fn of(totals: &Totals) -> Sums {
        let (net_in, net_out, turns) = (totals.net_in, totals.net_out, totals.turns);
        Sums { commands: totals.calls(), net_in, net_out, turns, busy_us: totals.busy_us }
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
pub struct Rates(VecDeque<Sample>);

impl Rates {
    /// Whether it is time for a sample.
    pub fn is_due(&self, now: Instant) -> bool {
        // A cron that comes a little early must not make every other sample fall out.
        self.0.back().is_none_or(|last| now.duration_since(last.at) >= PERIOD * 9 / 10)
    }

    pub fn add(&mut self, at: Instant, sums: Sums) {
        if self.0.len() == KEPT {
            self.0.pop_front();
        }
        self.0.push_back(Sample { at, sums });
    }

    /// Forgets all samples.
    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// The growth from the oldest sample to the latest.
    pub fn per_second(&self) -> PerSecond {
        let (Some(first), Some(last)) = (self.0.front(), self.0.back()) else {
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

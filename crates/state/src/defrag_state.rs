//! The directives of `activedefrag`, and counters of its work on all threads.

use std::sync::atomic::{AtomicU64, Ordering};
use weft_config::{Config, Id};

/// The directives of `activedefrag`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Limits {
    pub is_on: bool,
    ignore_bytes: u64,
    /// Fragmentation in percent of the allocated bytes.
    lower: u64,
    upper: u64,
    /// CPU time in percent of one CPU.
    least: u64,
    most: u64,
    /// Microseconds of one slice of work.
    pub piece_us: u64,
}

impl Limits {
    pub fn of(config: &Config) -> Limits {
        let number = |id| config.int(id).max(0) as u64;
        Limits {
            is_on: config.bool(Id::ACTIVEDEFRAG),
            ignore_bytes: config.memory(Id::ACTIVE_DEFRAG_IGNORE_BYTES),
            lower: number(Id::ACTIVE_DEFRAG_THRESHOLD_LOWER),
            upper: number(Id::ACTIVE_DEFRAG_THRESHOLD_UPPER),
            least: number(Id::ACTIVE_DEFRAG_CYCLE_MIN),
            most: number(Id::ACTIVE_DEFRAG_CYCLE_MAX),
            piece_us: number(Id::ACTIVE_DEFRAG_CYCLE_US).max(1),
        }
    }

    /// The effort, in percent of one CPU, while the allocator has `active` bytes in use for `allocated` bytes.
    pub fn effort(&self, allocated: u64, active: u64) -> u64 {
        let waste = active.saturating_sub(allocated);
        let percent = (waste * 100).checked_div(allocated).unwrap_or(0);
        if !self.is_on || waste < self.ignore_bytes || percent < self.lower {
            return 0;
        }
        let (least, most) = (self.least.min(self.most), self.most);
        let over = (percent - self.lower).min(self.upper.saturating_sub(self.lower));
        let range = self.upper.saturating_sub(self.lower).max(1);
        least + (most - least) * over / range
    }
}

/// The present effort, and counters over all threads.
#[derive(Debug, Default)]
pub struct Defrag {
    /// Percent of one CPU; 0: off.
    effort: AtomicU64,
    pub moved: AtomicU64,
    pub left: AtomicU64,
    /// Microseconds spent.
    pub spent_us: AtomicU64,
}

impl Defrag {
    /// `active_defrag_running`.
    pub fn effort(&self) -> u64 {
        self.effort.load(Ordering::Relaxed)
    }

    /// Sets the effort, in percent of one CPU.
    pub fn set_effort(&self, percent: u64) {
        self.effort.store(percent, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn effort_grows_with_the_waste() {
        let limits = Limits {
            is_on: true,
            ignore_bytes: 1000,
            lower: 10,
            upper: 100,
            least: 1,
            most: 25,
            piece_us: 500,
        };
        let effort = |waste: u64| limits.effort(10_000, 10_000 + waste);
        assert_eq!([0, 999, 1000, 10_000, 50_000].map(effort), [0, 0, 1, 25, 25]);
        assert!((2..25).contains(&effort(5000)));
        assert_eq!(Limits { is_on: false, ..limits }.effort(10_000, 90_000), 0);
        assert_eq!(Limits { upper: 5, ..limits }.effort(10_000, 90_000), 1);
    }
}

//! The processor's counter as a clock: cheap to read, and with a rate that no interruption falsifies.
//!
//! quanta reads the counter, or CLOCK_MONOTONIC where it isn't reliable. Its own calibration compares single reads of both. A
//! thread that loses its CPU between the two reads of the last pair gets a wrong rate for the life of its process: of 5,499 starts
//! on a machine with 70 runnable threads for two CPUs, one counted 0.0007 seconds a second. A lease's deadline and the expiry of keys
//! depend on the rate. So it is measured here, between two pairs that are known to be close.

use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// Pairs of reads for one measurement, of which the closest counts.
const PAIRS: u32 = 100;
/// The first distance between two measurements.
const BASE: Duration = Duration::from_millis(5);
/// Greatest error of the rate, as a part of one: 1/5000.
const PRECISION: u64 = 5000;
/// Doublings of the distance until the rate counts as it is: 5 seconds in all.
const DOUBLINGS: u32 = 10;

/// A clock that counts ticks of the processor.
pub struct Ticks {
    counter: quanta::Clock,
    scale: Scale,
}

impl Default for Ticks {
    fn default() -> Ticks {
        static SCALE: OnceLock<Scale> = OnceLock::new();
        let counter = quanta::Clock::new();
        let scale = *SCALE.get_or_init(|| Scale::measure(|| counter.raw()));
        Ticks { counter, scale }
    }
}

impl Ticks {
    /// The counter.
    #[inline]
    pub fn raw(&self) -> u64 {
        self.counter.raw()
    }

    /// The nanoseconds between two values of the counter; 0 if the second one is earlier, as another CPU may show it.
    #[inline]
    pub fn delta_as_nanos(&self, from: u64, to: u64) -> u64 {
        self.scale.nanos(to.saturating_sub(from))
    }
}

/// Nanoseconds of 2^32 ticks.
#[derive(Clone, Copy, Debug)]
struct Scale(u64);

impl Scale {
    fn new(nanos: u64, ticks: u64) -> Scale {
        Scale(((u128::from(nanos) << 32) / u128::from(ticks.max(1))) as u64)
    }

    #[inline]
    fn nanos(self, ticks: u64) -> u64 {
        ((u128::from(ticks) * u128::from(self.0)) >> 32) as u64
    }

    fn measure(counter: impl Fn() -> u64) -> Scale {
        let mut distance = BASE;
        let mut doublings = 0;
        loop {
            let first = Moment::read(&counter);
            std::thread::sleep(distance);
            let last = Moment::read(&counter);
            let ticks = last.ticks.saturating_sub(first.ticks);
            let is_precise = (first.gap + last.gap).saturating_mul(PRECISION) <= ticks;
            if is_precise || doublings == DOUBLINGS {
                return Scale::new((last.at - first.at).as_nanos() as u64, ticks);
            }
            (distance, doublings) = (2 * distance, doublings + 1);
        }
    }
}

/// Both clocks at one moment.
#[derive(Clone, Copy)]
struct Moment {
    at: Instant,
    /// The counter between the two reads around `at`.
    ticks: u64,
    /// The distance of these reads.
    gap: u64,
}

impl Moment {
    fn read(counter: impl Fn() -> u64) -> Moment {
        let read = |_| {
            let before = counter();
            let at = Instant::now();
            let gap = counter().saturating_sub(before);
            Moment { at, ticks: before + gap / 2, gap }
        };
        (0..PAIRS).map(read).min_by_key(|moment| moment.gap).expect("there are pairs")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    #[test]
    fn scale_converts_ticks_of_any_length() {
        let scale = Scale::new(1_000_000, 3_000_000);
        assert_eq!(scale.nanos(3), 0, "rounded down");
        assert_eq!(scale.nanos(3_000_000_000), 999_999_999);
        let years = 3_000_000_000 * 3600 * 24 * 365 * 10;
        let nanos = scale.nanos(years);
        assert!(nanos.abs_diff(years / 3) < years / 3 / 1_000_000_000, "{nanos}");
        assert_eq!(Scale::new(7, 7).nanos(12_345), 12_345);
    }

    /// Every read but a few is interrupted, as on an overloaded machine.
    #[test]
    fn interrupted_reads_dont_change_the_rate() {
        let (begun, reads) = (Instant::now(), Cell::new(0_u64));
        // Three ticks a nanosecond.
        let counter = || {
            reads.set(reads.get() + 1);
            if reads.get() % 10 == 0 {
                std::thread::sleep(Duration::from_micros(300));
            }
            begun.elapsed().as_nanos() as u64 * 3
        };
        let Scale(scale) = Scale::measure(counter);
        let third = (1_u64 << 32) / 3;
        assert!(scale.abs_diff(third) < third / 1000, "{scale} for {third}");
    }

    #[test]
    fn clock_runs_as_the_systems_clock() {
        let ticks = Ticks::default();
        let outer = Instant::now();
        let from = ticks.raw();
        let inner = Instant::now();
        std::thread::sleep(Duration::from_millis(20));
        let least = inner.elapsed();
        let counted = Duration::from_nanos(ticks.delta_as_nanos(from, ticks.raw()));
        let most = outer.elapsed();
        let error = most / 1000;
        assert!(counted + error >= least && counted <= most + error, "{counted:?} of {most:?}");
        assert_eq!(ticks.delta_as_nanos(10, 5), 0);
    }
}

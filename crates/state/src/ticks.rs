//! The processor's counter as a clock: cheap to read, and with a rate that no interruption falsifies.
//!
//! quanta reads the counter, or CLOCK_MONOTONIC where it isn't reliable. Its own calibration compares single reads of both. A
//! thread that loses its CPU between the two reads of the last pair gets a wrong rate for the life of its process: of 5,499 starts
//! on a machine with 70 runnable threads for two CPUs, one counted 0.0007 seconds a second. A lease's deadline and the expiry of keys
//! depend on the rate. So it is measured here, between two pairs that are known to be close.
//!
//! Linux watches the counter, and takes another clock source if it finds it wrong. Then CLOCK_MONOTONIC is read.

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

/// The source of the kernel's clock.
const KERNELS_SOURCE: &str = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
/// The sources that Linux takes on a machine whose processor has no counter that it trusts.
const LAST_RESORTS: [&str; 4] = ["hpet", "acpi_pm", "jiffies", "refined-jiffies"];

/// A clock that counts ticks of the processor, or nanoseconds.
pub struct Ticks {
    source: Source,
    scale: Scale,
}

enum Source {
    Counter(quanta::Clock),
    /// The time since this moment.
    System(Instant),
}

impl Default for Ticks {
    fn default() -> Ticks {
        static SHARED: OnceLock<Option<Scale>> = OnceLock::new();
        let counter = quanta::Clock::new();
        let scale = *SHARED.get_or_init(|| {
            let kernels = std::fs::read_to_string(KERNELS_SOURCE).unwrap_or_default();
            trusts_counter(&kernels).then(|| Scale::measure(|| counter.raw()))
        });
        match scale {
            Some(scale) => Ticks { source: Source::Counter(counter), scale },
            None => Ticks::of_the_system(),
        }
    }
}

/// Out of the way of the counter, which each request reads.
#[cold]
#[inline(never)]
fn nanos_since(begin: &Instant) -> u64 {
    begin.elapsed().as_nanos() as u64
}

/// Whether Linux, which has this clock source, may use the processor's counter. An unknown name says nothing against it.
fn trusts_counter(kernels_source: &str) -> bool {
    !LAST_RESORTS.contains(&kernels_source.trim())
}

impl Ticks {
    fn of_the_system() -> Ticks {
        static BEGIN: OnceLock<Instant> = OnceLock::new();
        // All clocks of a process count from the same moment.
        let begin = *BEGIN.get_or_init(Instant::now);
        Ticks { source: Source::System(begin), scale: Scale::new(1, 1) }
    }

    /// The counter.
    #[inline]
    pub fn raw(&self) -> u64 {
        match &self.source {
            Source::Counter(counter) => counter.raw(),
            Source::System(begin) => nanos_since(begin),
        }
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
    fn kernels_last_resorts_speak_against_the_counter() {
        for source in ["tsc\n", "kvm-clock\n", "arch_sys_counter", ""] {
            assert!(trusts_counter(source), "{source}");
        }
        for source in ["hpet\n", "acpi_pm\n", "jiffies", "refined-jiffies\n"] {
            assert!(!trusts_counter(source), "{source}");
        }
    }

    #[test]
    fn clock_runs_as_the_systems_clock() {
        for ticks in [Ticks::default(), Ticks::of_the_system()] {
            compare(&ticks);
        }
    }

    fn compare(ticks: &Ticks) {
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

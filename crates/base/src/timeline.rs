//! Unix time that never goes back, the same for all threads.
//!
//! Keys expire by wall time, which may step when an administrator or NTP sets the clock. Read
//! directly, it could let a key reappear after a command has seen it expired. A [`Timeline`] is the
//! monotonic clock shifted by an *offset*, which follows the wall clock:
//!
//! ```text
//!  wall ahead of us    the offset jumps there at once: time continues from the later moment
//!  wall is earlier     the offset shrinks by an eighth of the elapsed time: time continues more
//!                      slowly until the two agree
//! ```
//!
//! Shrinking in steps is still a step back, by a few milliseconds at a time. So a *floor* that all
//! threads share keeps the latest moment that any thread has seen. The first thread writes it about
//! once in a millisecond; the others read it.
//!
//! Durations must be measured with monotonic time instead. Both clocks are parameters, in
//! microseconds, so a test need not sleep and a server reads the cheapest clock.

use std::sync::atomic::{AtomicI64, Ordering};

/// The part of the elapsed time by which the offset may shrink.
const SLEW: i64 = 8;

/// See the module documentation.
#[derive(Debug)]
pub struct Timeline {
    /// Microseconds from monotonic to Unix time.
    offset_us: AtomicI64,
    /// The last update of the offset, in monotonic microseconds.
    renewed_us: AtomicI64,
    /// The latest moment seen, in Unix milliseconds.
    floor_ms: AtomicI64,
}

impl Timeline {
    /// A timeline that is at `wall_us` when monotonic time is `mono_us`.
    pub fn new(mono_us: i64, wall_us: i64) -> Self {
        Timeline {
            offset_us: AtomicI64::new(wall_us - mono_us),
            renewed_us: AtomicI64::new(mono_us),
            floor_ms: AtomicI64::new(i64::MIN),
        }
    }

    /// Unix time in milliseconds at the monotonic time `mono_us`. Never less than any thread got
    /// before.
    #[inline]
    pub fn at(&self, mono_us: i64) -> i64 {
        let now = (mono_us + self.offset_us.load(Ordering::Relaxed)).div_euclid(1000);
        let floor = self.floor_ms.load(Ordering::Relaxed);
        if now <= floor {
            return floor;
        }
        now.max(self.floor_ms.fetch_max(now, Ordering::Relaxed))
    }

    /// Follows the wall clock. One thread must call it some ten times a second. Returns how many
    /// milliseconds the wall clock lags, or 0.
    pub fn follow(&self, mono_us: i64, wall_us: i64) -> i64 {
        let passed = mono_us - self.renewed_us.swap(mono_us, Ordering::Relaxed);
        let (have, want) = (self.offset_us.load(Ordering::Relaxed), wall_us - mono_us);
        let new = want.max(have - passed.max(0) / SLEW);
        self.offset_us.store(new, Ordering::Relaxed);
        (new - want) / 1000
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: i64 = 1_000_000;

    #[test]
    fn time_equals_wall_time_without_steps() {
        let line = Timeline::new(0, 5_000 * SECOND);
        for s in 0..100 {
            assert_eq!(line.follow(s * SECOND, (5_000 + s) * SECOND), 0);
            assert_eq!(line.at(s * SECOND), (5_000 + s) * 1000);
        }
    }

    #[test]
    fn follows_a_step_forward_at_once() {
        let line = Timeline::new(0, 5_000 * SECOND);
        assert_eq!(line.follow(SECOND, 9_000 * SECOND), 0);
        assert_eq!(line.at(SECOND), 9_000_000);
    }

    #[test]
    fn follows_a_step_back_slowly_without_going_back() {
        let line = Timeline::new(0, 5_000 * SECOND);
        let mut last = line.at(0);
        let (mut behind, mut steps) = (i64::MAX, 0);
        // The wall steps back by ten seconds; a tick is a tenth of a second.
        while behind > 0 {
            steps += 1;
            let mono = steps * SECOND / 10;
            behind = line.follow(mono, 4_990 * SECOND + mono);
            let now = line.at(mono);
            assert!(now >= last, "{now} after {last}");
            last = now;
        }
        assert_eq!(steps, 10 * 10 * SLEW, "an eighth of what passes");
        assert!((last - (4_990_000 + steps * 100)).abs() <= 100, "{last}");
    }

    #[test]
    fn time_is_monotonic_across_threads() {
        let line = Timeline::new(0, 0);
        let seen = AtomicI64::new(0);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for n in 0..20_000 {
                        let before = seen.load(Ordering::SeqCst);
                        // All threads step back and forth.
                        let now = line.at((n * 997) % 5_000_000);
                        assert!(now >= before, "{now} after {before}");
                        seen.fetch_max(now, Ordering::SeqCst);
                    }
                });
            }
        });
    }
}

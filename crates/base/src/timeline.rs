//! Unix time that never goes back, the same for all threads.
//!
//! Keys expire by wall time, and wall time may step: an administrator sets the clock, or NTP does.
//! Were it read as it is, a key that was seen to have expired could be back for the next command.
//! A [`Timeline`] is the monotonic clock moved by an *offset*, which follows the wall:
//!
//! ```text
//!  wall ahead of us    the offset jumps there at once: time goes on from the later moment
//!  wall behind us      the offset shrinks by an eighth of the time that passes: time goes on, more
//!                      slowly, until the two agree
//! ```
//!
//! Shrinking in steps is still a step back, by a few milliseconds at a time, so a *floor* that all
//! threads share keeps the latest moment that any thread has seen. The first thread writes it about
//! once in a millisecond; the others read it.
//!
//! How long something has lasted is none of its business: that is what monotonic time is for. Both
//! clocks are handed in, in microseconds, so that a test need not sleep and a server reads the
//! cheapest clock.

use std::sync::atomic::{AtomicI64, Ordering};

/// Of the time that passes, the part that the offset may shrink.
const SLEW: i64 = 8;

/// See the module.
#[derive(Debug)]
pub struct Timeline {
    /// Microseconds from monotonic to Unix time.
    offset_us: AtomicI64,
    /// When the offset was renewed last, in monotonic microseconds.
    renewed_us: AtomicI64,
    /// The latest moment that was seen, in Unix milliseconds.
    floor_ms: AtomicI64,
}

impl Timeline {
    /// A time line that says `wall_us` when monotonic time is `mono_us`.
    pub fn new(mono_us: i64, wall_us: i64) -> Self {
        Timeline {
            offset_us: AtomicI64::new(wall_us - mono_us),
            renewed_us: AtomicI64::new(mono_us),
            floor_ms: AtomicI64::new(i64::MIN),
        }
    }

    /// Unix time in milliseconds at the monotonic time `mono_us`; never less than any thread got
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

    /// Compares with the wall; to be called some ten times a second, by one thread. Returns how
    /// many milliseconds the wall lags, or 0.
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
    fn a_step_forward_is_followed_at_once() {
        let line = Timeline::new(0, 5_000 * SECOND);
        assert_eq!(line.follow(SECOND, 9_000 * SECOND), 0);
        assert_eq!(line.at(SECOND), 9_000_000);
    }

    #[test]
    fn a_step_back_is_made_good_slowly_and_time_never_goes_back() {
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
    fn no_thread_sees_less_than_another_has_seen() {
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

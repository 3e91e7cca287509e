//! The server's clocks: monotonic time, and Unix time that never goes back.

use crate::ticks::Ticks;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};
use weft_base::timeline::Timeline;
use weft_process::log_warning;

/// Returns Unix time in milliseconds.
pub(crate) type HandClock = &'static (dyn Fn() -> i64 + Send + Sync);

/// The server's clocks.
pub struct Time {
    pub clock: Ticks,
    first_tick: u64,
    timeline: Timeline,
    pub(crate) hand_clock: OnceLock<HandClock>,
    is_wall_behind: AtomicBool,
}

impl Default for Time {
    fn default() -> Time {
        let clock = Ticks::default();
        Time {
            first_tick: clock.raw(),
            clock,
            timeline: Timeline::new(0, unix_us()),
            hand_clock: OnceLock::new(),
            is_wall_behind: AtomicBool::new(false),
        }
    }
}

impl Time {
    fn mono_us_at(&self, tick: u64) -> i64 {
        (self.clock.delta_as_nanos(self.first_tick, tick) / 1000) as i64
    }

    /// Milliseconds since the start at a tick of the raw clock.
    #[inline]
    pub fn mono_ms_at(&self, tick: u64) -> i64 {
        self.mono_us_at(tick) / 1000
    }

    /// Unix time in milliseconds at a tick of the raw clock.
    #[inline]
    pub fn unix_ms_at(&self, tick: u64) -> i64 {
        self.timeline.at(self.mono_us_at(tick))
    }

    /// Adjusts to the wall clock; the first thread calls it in every cron run.
    pub fn adjust_to_wall_clock(&self) {
        let behind = self.timeline.follow(self.mono_us_at(self.clock.raw()), unix_us());
        if behind > 1000 && !self.is_wall_behind.swap(behind > 1000, Ordering::Relaxed) {
            log_warning!(
                "The system's clock was set back by {behind} ms. Keys expire as if it had not been, and \
                 the server's time is slowed until the two agree."
            );
        } else if behind == 0 {
            self.is_wall_behind.store(false, Ordering::Relaxed);
        }
    }
}

/// The wall clock in microseconds.
pub(crate) fn unix_us() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_micros() as i64)
}

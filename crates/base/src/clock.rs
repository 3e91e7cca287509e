//! Injected time.
//!
//! Code that expires keys, ages clients or rotates counters must be testable without sleeping. So
//! code below the server never asks the operating system for the time: it is passed a [`Clock`]. A
//! clock is an enum rather than a trait object because the real one is read in every iteration of
//! every event loop, and the branch predicts perfectly.
//!
//! Two kinds of time exist and must not be mixed. *Monotonic* time counts nanoseconds from an
//! arbitrary origin, never steps, and is for durations and timers. *Wall* time counts from the Unix
//! epoch, may step when an administrator or NTP sets it, and is what `EXPIREAT` and similar
//! commands use.
//!
//! Even a vDSO call costs some 20 ns, a visible part of a GET. So a thread reads the clock once per
//! batch into its own [`CachedClock`], and every command of the batch sees the same instant. Within
//! one command this is also required for correctness: two checks of one key must agree on whether
//! it has expired.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// A source of time: the machine's, or one that a test moves by hand.
///
/// Clones of a manual clock share its time.
#[derive(Clone, Debug)]
pub enum Clock {
    /// The machine's clocks.
    System(SystemClock),
    /// Time is fixed until a test calls [`ManualClock::advance`].
    Manual(Arc<ManualClock>),
}

impl Clock {
    /// The machine's clocks; monotonic time starts near zero at this call.
    pub fn system() -> Self {
        Clock::System(SystemClock { origin: Instant::now() })
    }

    /// A clock for tests, with monotonic time 0 and the given wall time.
    pub fn manual(wall_us: u64) -> (Self, Arc<ManualClock>) {
        let hands = Arc::new(ManualClock::new(wall_us));
        (Clock::Manual(Arc::clone(&hands)), hands)
    }

    /// Nanoseconds since this clock's origin. Never goes back. About 20 ns.
    pub fn mono_ns(&self) -> u64 {
        match self {
            Clock::System(clock) => saturating_ns(clock.origin.elapsed()),
            Clock::Manual(hands) => hands.mono_ns.load(Ordering::Acquire),
        }
    }

    /// Microseconds since the Unix epoch; 0 if the machine's clock is before it.
    pub fn wall_us(&self) -> u64 {
        match self {
            Clock::System(_) => SystemTime::now()
                .duration_since(UNIX_EPOCH)
                .map_or(0, |since| u64::try_from(since.as_micros()).unwrap_or(u64::MAX)),
            Clock::Manual(hands) => hands.wall_us.load(Ordering::Acquire),
        }
    }

    /// Milliseconds since the Unix epoch, rounded down.
    pub fn wall_ms(&self) -> u64 {
        self.wall_us() / 1_000
    }
}

/// The machine's monotonic clock, read relative to its creation.
#[derive(Clone, Debug)]
pub struct SystemClock {
    origin: Instant,
}

/// The time of a clock that only a test advances.
#[derive(Debug)]
pub struct ManualClock {
    mono_ns: AtomicU64,
    wall_us: AtomicU64,
}

impl ManualClock {
    fn new(wall_us: u64) -> Self {
        Self { mono_ns: AtomicU64::new(0), wall_us: AtomicU64::new(wall_us) }
    }

    /// Advances both clocks by `by`. Wall time counts whole microseconds, as the protocol does;
    /// only monotonic time keeps the remainder.
    pub fn advance(&self, by: Duration) {
        let micros = u64::try_from(by.as_micros()).unwrap_or(u64::MAX);
        self.mono_ns.fetch_add(saturating_ns(by), Ordering::AcqRel);
        self.wall_us.fetch_add(micros, Ordering::AcqRel);
    }

    /// Steps wall time, as NTP or an administrator would; monotonic time does not step.
    pub fn set_wall_us(&self, wall_us: u64) {
        self.wall_us.store(wall_us, Ordering::Release);
    }
}

/// One thread's copy of the time, refreshed by its owner.
///
/// Reading costs one load. Not `Sync`: every thread owns its own.
#[derive(Debug)]
pub struct CachedClock {
    clock: Clock,
    mono_ns: Cell<u64>,
    wall_us: Cell<u64>,
}

impl CachedClock {
    /// Wraps `clock` and reads it once.
    pub fn new(clock: Clock) -> Self {
        let cached = Self { clock, mono_ns: Cell::new(0), wall_us: Cell::new(0) };
        cached.refresh();
        cached
    }

    /// Reads both clocks. An event loop calls it once per iteration.
    pub fn refresh(&self) {
        self.mono_ns.set(self.clock.mono_ns());
        self.wall_us.set(self.clock.wall_us());
    }

    /// Monotonic nanoseconds as of the last refresh.
    pub fn mono_ns(&self) -> u64 {
        self.mono_ns.get()
    }

    /// Microseconds since the Unix epoch as of the last refresh.
    pub fn wall_us(&self) -> u64 {
        self.wall_us.get()
    }

    /// Milliseconds since the Unix epoch as of the last refresh.
    pub fn wall_ms(&self) -> u64 {
        self.wall_us.get() / 1_000
    }

    /// The uncached clock, for callers that need the current time.
    pub fn source(&self) -> &Clock {
        &self.clock
    }
}

/// `u64` nanoseconds last 584 years. A longer duration is a bug, so saturate instead of wrapping.
fn saturating_ns(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn system_clock_is_monotonic_and_plausible() {
        let clock = Clock::system();
        let mut last = clock.mono_ns();
        for _ in 0..1_000 {
            let now = clock.mono_ns();
            assert!(now >= last);
            last = now;
        }
        let year_2020_us = 1_577_836_800_000_000;
        assert!(clock.wall_us() > year_2020_us);
        assert!(clock.wall_ms() > year_2020_us / 1_000);
    }

    #[test]
    fn manual_clock_moves_only_when_advanced() {
        let (clock, hands) = Clock::manual(5_000_000);
        let other = clock.clone();
        assert_eq!((clock.mono_ns(), clock.wall_us()), (0, 5_000_000));
        hands.advance(Duration::from_nanos(1_500));
        assert_eq!((other.mono_ns(), other.wall_us()), (1_500, 5_000_001));
        hands.set_wall_us(7);
        assert_eq!((clock.mono_ns(), clock.wall_us()), (1_500, 7));
    }

    #[test]
    fn cached_clock_holds_still_between_refreshes() {
        let (clock, hands) = Clock::manual(1_000_000);
        let cached = CachedClock::new(clock);
        hands.advance(Duration::from_millis(3));
        assert_eq!((cached.mono_ns(), cached.wall_ms()), (0, 1_000));
        assert_eq!(cached.source().wall_ms(), 1_003);
        cached.refresh();
        assert_eq!((cached.mono_ns(), cached.wall_ms()), (3_000_000, 1_003));
        assert_eq!(cached.wall_us(), 1_003_000);
    }
}

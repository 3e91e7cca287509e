//! How long the writing thread lets units gather before it writes them.
//!
//! Under `always`, one sync serves all clients whose units were written before it. Clients that
//! send one request after another all return when a sync has ended, each a little later than the
//! one before. If the thread wrote as soon as the first unit arrived, one sync would serve that
//! unit and the next sync all others, and each client would wait for both. So after a sync, the
//! thread waits for as many units as the last sync served, plus the units that arrived meanwhile.
//! It waits for at most a part of the time that the sync took. It never waits for a second unit of
//! a single client: the first unit already makes as many as before.
//!
//! Under the other policies, no client waits for the write, so units may gather for a little: one
//! write costs the same for one unit as for a hundred.

use std::time::{Duration, Instant};
use weft_state::aof_policy::Sync;

/// How long units gather when no client waits for them.
const UNHURRIED: Duration = Duration::from_millis(1);
/// The longest wait for further units under `always`.
const LONGEST: Duration = Duration::from_millis(2);

/// See the module.
#[derive(Debug, Default)]
pub struct Gathering {
    /// The last synced unit.
    synced: u64,
    /// Wait for units up to this number, but not after this time.
    awaited: Option<(u64, Instant)>,
}

impl Gathering {
    /// Units up to `synced` were synced from `began` to `now`; `drawn` is the last numbered unit.
    pub fn after_sync(&mut self, began: Instant, now: Instant, synced: u64, drawn: u64) {
        let served = synced.saturating_sub(std::mem::replace(&mut self.synced, synced));
        let took = now.saturating_duration_since(began);
        self.awaited = (served > 0).then(|| (drawn + served, now + (took / 2).min(LONGEST)));
    }

    /// How long to wait for further units. `drawn` is the last numbered unit, and the first
    /// unwritten unit exists.
    pub fn time_left(&mut self, drawn: u64, now: Instant) -> Option<Duration> {
        let (upto, until) = self.awaited?;
        let left = until.saturating_duration_since(now);
        if drawn >= upto || left.is_zero() {
            self.awaited = None;
            return None;
        }
        Some(left)
    }
}

/// How long logged units may wait before they are written, if there is data to write.
pub fn unhurried(sync: Sync) -> Option<Duration> {
    match sync {
        Sync::Always => None,
        Sync::EverySecond | Sync::Never => Some(UNHURRIED),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gathering_waits_for_as_many_units_as_before() {
        let start = Instant::now();
        let at = |us: u64| start + Duration::from_micros(us);
        let mut gathering = Gathering::default();
        assert_eq!(gathering.time_left(1, start), None, "no sync happened yet");
        // Units 1 to 25 were synced, and 20 others have arrived meanwhile.
        gathering.after_sync(at(0), at(200), 25, 45);
        assert_eq!(gathering.time_left(45, at(200)), Some(Duration::from_micros(100)));
        assert_eq!(gathering.time_left(69, at(260)), Some(Duration::from_micros(40)));
        assert_eq!(gathering.time_left(70, at(270)), None, "all clients are back");
        assert_eq!(gathering.time_left(45, at(270)), None);
        // One client does not return.
        gathering.after_sync(at(300), at(500), 70, 70);
        assert!(gathering.time_left(100, at(550)).is_some());
        assert_eq!(gathering.time_left(100, at(600)), None);
        assert_eq!(gathering.time_left(100, at(550)), None, "time does not go back");
    }

    #[test]
    fn gathering_does_not_wait_for_single_client() {
        let start = Instant::now();
        let mut gathering = Gathering::default();
        gathering.after_sync(start, start + LONGEST, 1, 1);
        assert_eq!(gathering.time_left(2, start + LONGEST), None);
    }

    #[test]
    fn gathering_wait_is_bounded_on_slow_disk() {
        let start = Instant::now();
        let end = start + Duration::from_secs(1);
        let mut gathering = Gathering::default();
        gathering.after_sync(start, end, 10, 10);
        assert_eq!(gathering.time_left(11, end), Some(LONGEST));
    }
}

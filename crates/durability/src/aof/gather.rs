//! How long the writing thread lets units gather before it writes them.
//!
//! Under `always` one sync serves all whose units were written before it. Clients that send one request
//! after the other all come back when a sync has ended, each a little later than the one before: who
//! writes as soon as the first one is there has one sync for that one and one for all others, and each
//! waits for both. So after a sync that many are waited for as it has served, with those that came
//! meanwhile, for at most a part of the time that the sync took. A single client is never waited for:
//! the first unit to come is as many as before.
//!
//! Under the other policies nobody waits for what is written, so a little may gather: a write to a file
//! costs the same for one unit as for a hundred.

use std::time::{Duration, Instant};
use weft_state::aof_policy::Sync;

/// What gathers when nobody waits for it.
const UNHURRIED: Duration = Duration::from_millis(1);
/// Nobody is waited for longer.
const LONGEST: Duration = Duration::from_millis(2);

/// See the module.
#[derive(Debug, Default)]
pub struct Gathering {
    /// The last unit that was in a sync.
    synced: u64,
    /// Up to which unit the others are waited for, and until when.
    awaited: Option<(u64, Instant)>,
}

impl Gathering {
    /// Units up to `synced` were synced from `began` to `now`; `drawn` is the last one there is.
    pub fn after_sync(&mut self, began: Instant, now: Instant, synced: u64, drawn: u64) {
        let served = synced.saturating_sub(std::mem::replace(&mut self.synced, synced));
        let took = now.saturating_duration_since(began);
        self.awaited = (served > 0).then(|| (drawn + served, now + (took / 2).min(LONGEST)));
    }

    /// For how long others are waited for, when `drawn` is the last unit there is, and the first that
    /// is not written is there.
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

/// How long what was logged may wait to be written where there is something to write.
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
    fn as_many_as_before_are_waited_for() {
        let start = Instant::now();
        let at = |us: u64| start + Duration::from_micros(us);
        let mut gathering = Gathering::default();
        assert_eq!(gathering.time_left(1, start), None, "nothing was synced yet");
        // Units 1 to 25, and 20 others have come meanwhile.
        gathering.after_sync(at(0), at(200), 25, 45);
        assert_eq!(gathering.time_left(45, at(200)), Some(Duration::from_micros(100)));
        assert_eq!(gathering.time_left(69, at(260)), Some(Duration::from_micros(40)));
        assert_eq!(gathering.time_left(70, at(270)), None, "all are back");
        assert_eq!(gathering.time_left(45, at(270)), None);
        // Somebody does not come back.
        gathering.after_sync(at(300), at(500), 70, 70);
        assert!(gathering.time_left(100, at(550)).is_some());
        assert_eq!(gathering.time_left(100, at(600)), None);
        assert_eq!(gathering.time_left(100, at(550)), None, "time does not go back");
    }

    #[test]
    fn a_single_client_is_not_waited_for() {
        let start = Instant::now();
        let mut gathering = Gathering::default();
        gathering.after_sync(start, start + LONGEST, 1, 1);
        assert_eq!(gathering.time_left(2, start + LONGEST), None);
    }

    #[test]
    fn a_slow_disk_is_not_made_much_slower() {
        let start = Instant::now();
        let end = start + Duration::from_secs(1);
        let mut gathering = Gathering::default();
        gathering.after_sync(start, end, 10, 10);
        assert_eq!(gathering.time_left(11, end), Some(LONGEST));
    }
}

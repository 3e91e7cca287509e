//! From the loads of the threads to the number of active threads, and to moves of connections.
//!
//! ```text
//!  mean pressure of the active threads
//!   1.0 ┬
//!       │  try more: see [`crate::trial`]
//!  0.75 ┼────────────────────────────────
//!       │  stay
//!       │  shrink: to as many as would have a mean of 0.50, if that held for 2 s
//!   0.0 ┴
//! ```
//!
//! Growing is quick, because clients are waiting. The new number stays only if it serves more. It
//! is bounded by the number of busy connections: a thread needs at least two of them to be worth
//! its wake-ups. Shrinking for lack of work waits, and its limit is below that of growing, so
//! that a load near a limit does not start and stop threads repeatedly. If it does nevertheless,
//! the wait is doubled each time.
//!
//! Connections move between active threads when the loads differ much, or differ a little for
//! long: of ten clients, six on one thread and four on the other cost a tenth of the throughput.
//! When all threads are fully busy their pressures are equal, so then the busy connections are
//! counted instead. Less than half a connection is not moved, so that small differences that
//! can't be evened out are left alone. After each such move the wait for the next one is doubled.
//!
//! A state machine: time and loads come in, decisions go out.

use crate::reason::Reason;
use crate::trial::{Served, Trials, Verdict};

/// Mean pressure above which another thread is wanted.
const GROW_ABOVE: f64 = 0.75;
/// Mean pressure of threads that never sleep.
const SATURATED: f64 = 0.95;
/// Mean pressure that fewer threads may have after shrinking.
const SHRINK_TO: f64 = 0.50;
/// How long fewer threads must have been enough, in milliseconds, and the upper bound of this
/// time.
const SHRINK_AFTER_MS: i64 = 2_000;
const SHRINK_AFTER_MAX_MS: i64 = 32_000;
/// Growing within this time after shrinking means that the shrinking was a mistake.
const REGRET_MS: i64 = 10_000;
/// Loads below this many threads always shrink after the shortest time.
const QUIET: f64 = 0.25;
/// After a change the loads are ignored until their averages have followed.
const SETTLE_MS: i64 = 300;
/// Busy connections that a thread should have at least.
const BUSY_PER_THREAD: usize = 2;
/// Difference from the mean, of loads between 0 and 1, that is worth a move.
const UNEVEN: f64 = 0.20;
/// The same for a lasting difference, among threads of at least the mean load [`LOADED`]; the
/// initial wait, and its upper bound (milliseconds).
const SLIGHTLY_UNEVEN: f64 = 0.05;
const LOADED: f64 = 0.5;
const LASTING_MS: i64 = 1_000;
const LASTING_MAX_MS: i64 = 64_000;
/// Pressure above which a thread counts as fully busy.
const FULL: f64 = 0.85;

/// The load of one thread.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Sample {
    /// See [`crate::load`].
    pub pressure: f64,
    /// Connections that had requests recently.
    pub busy_connections: usize,
}

/// Connections worth `share` of the load of `from` must move to `to`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Shift {
    pub from: usize,
    pub to: usize,
    pub share: f64,
}

/// The changes to make now.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Decision {
    /// The number of threads that must be active.
    pub active: usize,
    pub shifts: Vec<Shift>,
}

/// See the module's description.
#[derive(Debug)]
pub struct Balance {
    /// The end of the pause after a change.
    settled_at: i64,
    /// Since when fewer threads would be enough, and the highest number needed since then.
    fewer_suffice_since: Option<(i64, usize)>,
    shrink_after_ms: i64,
    shrunk_at: i64,
    /// Since when this thread has had slightly more than its share, and how long that must last.
    slightly_uneven_since: Option<(i64, usize)>,
    lasting_ms: i64,
    trials: Trials,
    /// The reason of the last change, if it was not taken yet.
    reason: Option<Reason>,
}

impl Default for Balance {
    fn default() -> Self {
        Balance {
            settled_at: i64::MIN,
            fewer_suffice_since: None,
            shrink_after_ms: SHRINK_AFTER_MS,
            shrunk_at: i64::MIN,
            slightly_uneven_since: None,
            lasting_ms: LASTING_MS,
            trials: Trials::default(),
            reason: None,
        }
    }
}

impl Balance {
    /// Decides at `now_ms` (any monotonic clock), for up to `configured` threads of which
    /// `active` are active. Takes the loads of at least the active threads, and the totals of all
    /// threads. O(threads²) at most.
    pub fn decide(
        &mut self,
        now_ms: i64,
        configured: usize,
        active: usize,
        samples: &[Sample],
        served: Served,
    ) -> Decision {
        let stay = Decision { active, shifts: Vec::new() };
        if active > configured {
            self.trials.cancel(now_ms);
            self.reason = Some(Reason::Configured);
            return self.change(now_ms, configured, Vec::new());
        }
        let samples = &samples[..active];
        let connections = busy(samples);
        self.trials.note(now_ms, served, connections);
        if self.trials.is_on() {
            // The number before the trial may exceed the configured number by now.
            let decided = self.trials.decide(now_ms, active, connections);
            return match decided.map(|to| to.min(configured)) {
                Some(to) if to != active => self.change_to(now_ms, to, samples),
                Some(_) | None => stay,
            };
        }
        let total: f64 = samples.iter().map(|s| s.pressure).sum();
        let fewer = (total / SHRINK_TO).ceil().max(1.0) as usize;
        if fewer >= active {
            self.fewer_suffice_since = None;
        }
        if now_ms < self.settled_at {
            return stay;
        }
        // When all threads are saturated, the number that would be enough is unknown.
        let wanted = if total / active as f64 > SATURATED { usize::MAX } else { fewer };
        let most = configured.min(connections / BUSY_PER_THREAD);
        if total / active as f64 > GROW_ABOVE
            && let Some(more) = self.trials.more(now_ms, active, wanted.min(most))
        {
            self.note_growth(now_ms);
            self.reason = Some(Reason::Busy(total / active as f64));
            return self.change_to(now_ms, more, samples);
        }
        if fewer < active
            && let Some(active) = self.shrink(now_ms, fewer, total)
        {
            self.trials.cancel(now_ms);
            self.reason = Some(Reason::Idle(total));
            return self.change(now_ms, active, Vec::new());
        }
        if let Some(fewer) = self.trials.fewer(now_ms, active, self.shrink_after_ms) {
            self.reason = Some(Reason::MaySuffice(total / active as f64));
            return self.change_to(now_ms, fewer, samples);
        }
        let loads = loads(samples);
        let mut shifts = even_out(&loads, UNEVEN);
        if shifts.is_empty() && self.is_lastingly_uneven(now_ms, &loads) {
            shifts = even_out(&loads, SLIGHTLY_UNEVEN);
        }
        if !shifts.is_empty() {
            self.slightly_uneven_since = None;
            self.settled_at = now_ms + SETTLE_MS;
        }
        Decision { active, shifts }
    }

    /// Whether one thread has had slightly more than its share for long enough to be worth a
    /// move.
    fn is_lastingly_uneven(&mut self, now_ms: i64, loads: &[f64]) -> bool {
        let mean = mean_of(loads);
        let most = most_of(loads);
        if mean < LOADED || loads[most] - mean < SLIGHTLY_UNEVEN {
            self.slightly_uneven_since = None;
            return false;
        }
        let since = match self.slightly_uneven_since {
            Some((since, thread)) if thread == most => since,
            Some(_) | None => self.slightly_uneven_since.insert((now_ms, most)).0,
        };
        let lasts = now_ms - since >= self.lasting_ms;
        if lasts {
            self.lasting_ms = (2 * self.lasting_ms).min(LASTING_MAX_MS);
        }
        lasts
    }

    /// The result of a trial since the last call.
    pub fn take_verdict(&mut self) -> Option<Verdict> {
        self.trials.take_verdict()
    }

    /// The reason of a change since the last call. The changes at the end of a trial have a verdict instead.
    pub fn take_reason(&mut self) -> Option<Reason> {
        self.reason.take()
    }

    /// Another mechanism decides now: the measurements belong to other numbers of threads.
    pub fn reset(&mut self, now_ms: i64) {
        self.trials.cancel(now_ms);
        self.fewer_suffice_since = None;
        self.settled_at = now_ms + SETTLE_MS;
    }

    fn note_growth(&mut self, now_ms: i64) {
        self.shrink_after_ms = match now_ms.saturating_sub(self.shrunk_at) < REGRET_MS {
            true => (2 * self.shrink_after_ms).min(SHRINK_AFTER_MAX_MS),
            false => SHRINK_AFTER_MS,
        };
    }

    /// Changes the number of threads and moves connections to new ones. Connections of threads
    /// that become inactive leave by themselves.
    fn change_to(&mut self, now_ms: i64, active: usize, samples: &[Sample]) -> Decision {
        let mut loads = loads(samples);
        let shifts = match active > loads.len() {
            true => {
                loads.resize(active, 0.0);
                even_out(&loads, UNEVEN)
            }
            false => Vec::new(),
        };
        self.change(now_ms, active, shifts)
    }

    /// The number of threads that is enough, if it was so for long enough.
    fn shrink(&mut self, now_ms: i64, fewer: usize, total: f64) -> Option<usize> {
        let (since, most) = self.fewer_suffice_since.get_or_insert((now_ms, fewer));
        *most = fewer.max(*most);
        let wait = if total < QUIET { SHRINK_AFTER_MS } else { self.shrink_after_ms };
        if now_ms - *since < wait {
            return None;
        }
        let fewer_suffice_since = *most;
        self.shrunk_at = now_ms;
        Some(fewer_suffice_since)
    }

    fn change(&mut self, now_ms: i64, active: usize, shifts: Vec<Shift>) -> Decision {
        (self.fewer_suffice_since, self.slightly_uneven_since) = (None, None);
        self.lasting_ms = LASTING_MS;
        self.settled_at = now_ms + SETTLE_MS;
        Decision { active, shifts }
    }
}

fn busy(samples: &[Sample]) -> usize {
    samples.iter().map(|s| s.busy_connections).sum()
}

/// Comparable loads of the threads: pressures, or, when all threads are fully busy, busy
/// connections relative to the largest number of them.
fn loads(samples: &[Sample]) -> Vec<f64> {
    let most = samples.iter().map(|s| s.busy_connections).max().unwrap_or(0);
    if most > 0 && samples.iter().all(|s| s.pressure > FULL) {
        return samples.iter().map(|s| s.busy_connections as f64 / most as f64).collect();
    }
    samples.iter().map(|s| s.pressure).collect()
}

/// Moves from the most loaded to the least loaded threads that bring those `uneven` away from the
/// mean near to it.
fn even_out(loads: &[f64], uneven: f64) -> Vec<Shift> {
    let mean = mean_of(loads);
    let mut left = loads.to_vec();
    let mut shifts = Vec::new();
    for _ in 0..loads.len() {
        let (from, to) = (most_of(&left), least_of(&left));
        let (over, under) = (left[from] - mean, mean - left[to]);
        if over.max(under) < uneven || over <= 0.0 {
            break;
        }
        let amount = over.min(under);
        shifts.push(Shift { from, to, share: amount / loads[from] });
        left[from] -= amount;
        left[to] += amount;
    }
    shifts
}

fn mean_of(loads: &[f64]) -> f64 {
    loads.iter().sum::<f64>() / loads.len() as f64
}

fn most_of(loads: &[f64]) -> usize {
    (0..loads.len()).max_by(|a, b| loads[*a].total_cmp(&loads[*b])).unwrap_or(0)
}

fn least_of(loads: &[f64]) -> usize {
    (0..loads.len()).min_by(|a, b| loads[*a].total_cmp(&loads[*b])).unwrap_or(0)
}

#[cfg(test)]
mod disturbed;
#[cfg(test)]
mod tests;

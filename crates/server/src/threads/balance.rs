//! From the loads of the threads to how many of them are active, and to moves between them.
//!
//! ```text
//!  mean pressure of the active threads
//!   1.0 ┬
//!       │  grow: by half at once, again after each settling
//!  0.75 ┼────────────────────────────────
//!       │  stay
//!       │  shrink: to as many as would have a mean of 0.50, if it was so for 2 s
//!   0.0 ┴
//! ```
//!
//! Growing is quick because the load is there and clients wait; it is bounded by the connections
//! that are busy, since two of them at least must share a thread for it to be worth its wake-ups.
//! Shrinking waits, and leaves a distance to the limit of growing, so that a load near a limit
//! does not make threads come and go; when it does so all the same, the wait is doubled each time.
//!
//! Between active threads connections move when their loads are far apart. Under a load that
//! keeps all of them fully busy the pressures say nothing, so then the busy connections are
//! counted instead.
//!
//! A state machine: time and loads come in, decisions go out.

/// Mean pressure from which another thread is wanted.
const GROW_ABOVE: f64 = 0.75;
/// Mean pressure that fewer threads may have after shrinking.
const SHRINK_TO: f64 = 0.50;
/// How long fewer threads must have been enough, in milliseconds, and the most that this grows to.
const SHRINK_AFTER_MS: i64 = 2_000;
const SHRINK_AFTER_MOST_MS: i64 = 32_000;
/// Growing so soon after shrinking was a mistake of the shrinking.
const REGRET_MS: i64 = 10_000;
/// Loads that need no more than this many threads shrink after the shortest time in any case.
const QUIET: f64 = 0.25;
/// After a change the loads are not looked at until their averages have followed.
const SETTLE_MS: i64 = 300;
/// Busy connections that a thread should have at least.
const BUSY_PER_THREAD: usize = 2;
/// Difference from the mean, of loads between 0 and 1, that is worth a move.
const UNEVEN: f64 = 0.20;
/// From this pressure on a thread counts as fully busy.
const FULL: f64 = 0.85;

/// One thread's load.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Sample {
    /// See [`super::load`].
    pub pressure: f64,
    /// Connections that had requests of late.
    pub busy_connections: usize,
}

/// Connections worth `share` of what `from` does are to move to `to`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Shift {
    pub from: usize,
    pub to: usize,
    pub share: f64,
}

/// What is to be done now.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Decision {
    /// How many threads are to be active.
    pub active: usize,
    pub shifts: Vec<Shift>,
}

/// See the module's description.
#[derive(Debug)]
pub struct Balance {
    /// Not before this time.
    settled_at: i64,
    /// Since when fewer threads would do, and how many would have done at most since then.
    enough: Option<(i64, usize)>,
    shrink_after_ms: i64,
    shrunk_at: i64,
}

impl Default for Balance {
    fn default() -> Self {
        Balance {
            settled_at: i64::MIN,
            enough: None,
            shrink_after_ms: SHRINK_AFTER_MS,
            shrunk_at: i64::MIN,
        }
    }
}

impl Balance {
    /// What to do at `now_ms` (any clock that goes forward) with up to `configured` threads, of
    /// which `active` are, given the loads of at least those. O(threads²) at most.
    pub fn decide(
        &mut self,
        now_ms: i64,
        configured: usize,
        active: usize,
        samples: &[Sample],
    ) -> Decision {
        let stay = Decision { active, shifts: Vec::new() };
        if active > configured {
            return self.change(now_ms, configured, Vec::new());
        }
        let samples = &samples[..active];
        let total: f64 = samples.iter().map(|s| s.pressure).sum();
        let fewer = (total / SHRINK_TO).ceil().max(1.0) as usize;
        if fewer >= active {
            self.enough = None;
        }
        if now_ms < self.settled_at {
            return stay;
        }
        let most = configured.min(busy(samples) / BUSY_PER_THREAD);
        if total / active as f64 > GROW_ABOVE && most > active {
            return self.grow(now_ms, active, most, samples);
        }
        if fewer < active
            && let Some(active) = self.shrink(now_ms, fewer, total)
        {
            return self.change(now_ms, active, Vec::new());
        }
        let shifts = even_out(&loads(samples));
        if !shifts.is_empty() {
            self.settled_at = now_ms + SETTLE_MS;
        }
        Decision { active, shifts }
    }

    fn grow(&mut self, now_ms: i64, active: usize, most: usize, samples: &[Sample]) -> Decision {
        if now_ms.saturating_sub(self.shrunk_at) < REGRET_MS {
            self.shrink_after_ms = (2 * self.shrink_after_ms).min(SHRINK_AFTER_MOST_MS);
        } else {
            self.shrink_after_ms = SHRINK_AFTER_MS;
        }
        let active = (active + active.div_ceil(2)).min(most);
        let mut loads = loads(samples);
        loads.resize(active, 0.0);
        self.change(now_ms, active, even_out(&loads))
    }

    /// How many threads are enough, once that has been so for long enough.
    fn shrink(&mut self, now_ms: i64, fewer: usize, total: f64) -> Option<usize> {
        let (since, most) = self.enough.get_or_insert((now_ms, fewer));
        *most = fewer.max(*most);
        let wait = if total < QUIET { SHRINK_AFTER_MS } else { self.shrink_after_ms };
        if now_ms - *since < wait {
            return None;
        }
        let enough = *most;
        self.shrunk_at = now_ms;
        Some(enough)
    }

    fn change(&mut self, now_ms: i64, active: usize, shifts: Vec<Shift>) -> Decision {
        self.enough = None;
        self.settled_at = now_ms + SETTLE_MS;
        Decision { active, shifts }
    }
}

fn busy(samples: &[Sample]) -> usize {
    samples.iter().map(|s| s.busy_connections).sum()
}

/// What each thread bears, comparable between threads: pressures, or busy connections as a part
/// of the largest number of them when all threads are fully busy.
fn loads(samples: &[Sample]) -> Vec<f64> {
    let most = samples.iter().map(|s| s.busy_connections).max().unwrap_or(0);
    if most > 0 && samples.iter().all(|s| s.pressure > FULL) {
        return samples.iter().map(|s| s.busy_connections as f64 / most as f64).collect();
    }
    samples.iter().map(|s| s.pressure).collect()
}

/// Moves from the threads with the most to those with the least, to bring all near the mean.
fn even_out(loads: &[f64]) -> Vec<Shift> {
    let mean = loads.iter().sum::<f64>() / loads.len() as f64;
    let mut left = loads.to_vec();
    let mut shifts = Vec::new();
    for _ in 0..loads.len() {
        let (from, to) = (most_of(&left), least_of(&left));
        let (over, under) = (left[from] - mean, mean - left[to]);
        if over.max(under) < UNEVEN || over <= 0.0 {
            break;
        }
        let amount = over.min(under);
        shifts.push(Shift { from, to, share: amount / loads[from] });
        left[from] -= amount;
        left[to] += amount;
    }
    shifts
}

fn most_of(loads: &[f64]) -> usize {
    (0..loads.len()).max_by(|a, b| loads[*a].total_cmp(&loads[*b])).unwrap_or(0)
}

fn least_of(loads: &[f64]) -> usize {
    (0..loads.len()).min_by(|a, b| loads[*a].total_cmp(&loads[*b])).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Time between two decisions.
    const TICK_MS: i64 = 100;

    /// Threads under a load that needs `work` of them, with `connections` busy ones.
    struct World {
        balance: Balance,
        now_ms: i64,
        configured: usize,
        active: usize,
        /// Share of the work on each thread.
        part: Vec<f64>,
    }

    impl World {
        fn new(configured: usize) -> World {
            let part = vec![1.0];
            World { balance: Balance::default(), now_ms: 0, configured, active: 1, part }
        }

        fn tick(&mut self, work: f64, connections: usize) -> Decision {
            let samples: Vec<Sample> = self
                .part
                .iter()
                .map(|part| Sample {
                    pressure: (part * work).min(1.0),
                    busy_connections: (part * connections as f64).round() as usize,
                })
                .collect();
            self.now_ms += TICK_MS;
            let active = self.active;
            let done = self.balance.decide(self.now_ms, self.configured, active, &samples);
            self.follow(&done);
            done
        }

        fn follow(&mut self, done: &Decision) {
            let before = self.part.clone();
            self.part.resize(done.active.max(before.len()), 0.0);
            for shift in &done.shifts {
                let moved = before[shift.from] * shift.share;
                self.part[shift.from] -= moved;
                self.part[shift.to] += moved;
            }
            if done.active < before.len() {
                let gone: f64 = self.part.drain(done.active..).sum();
                self.part.iter_mut().for_each(|p| *p += gone / done.active as f64);
            }
            self.active = done.active;
        }

        fn run(&mut self, ms: i64, work: f64, connections: usize) {
            (0..ms / TICK_MS).for_each(|_| drop(self.tick(work, connections)));
        }
    }

    #[test]
    fn a_heavy_load_makes_all_threads_active_soon_and_evenly() {
        for configured in [2, 3, 4, 8, 16] {
            let mut world = World::new(configured);
            world.run(3_000, 2.0 * configured as f64, 400);
            assert_eq!(world.active, configured);
            let even = 1.0 / configured as f64;
            assert!(world.part.iter().all(|p| (p - even).abs() < 0.3 * even), "{:?}", world.part);
        }
    }

    #[test]
    fn all_go_quiet_within_five_seconds_after_it() {
        for configured in [2, 4, 16, 64] {
            let mut world = World::new(configured);
            world.run(20_000, 2.0 * configured as f64, 1000);
            world.run(5_000, 0.01, 7);
            assert_eq!(world.active, 1, "of {configured}");
        }
    }

    #[test]
    fn a_load_that_fits_stays_on_one_thread() {
        let mut world = World::new(8);
        for work in [0.0, 0.1, 0.5, 0.7] {
            world.run(10_000, work, 50);
            assert_eq!(world.active, 1, "{work}");
        }
    }

    #[test]
    fn no_thread_is_woken_for_a_connection_of_its_own() {
        let mut world = World::new(8);
        world.run(5_000, 5.0, 1);
        assert_eq!(world.active, 1);
        world.run(5_000, 5.0, 6);
        assert_eq!(world.active, 3);
    }

    #[test]
    fn a_steady_load_does_not_make_threads_come_and_go() {
        for tenths in 1..40 {
            let work = f64::from(tenths) / 10.0;
            let mut world = World::new(8);
            world.run(10_000, work, 100);
            let settled = world.active;
            let mut changes = 0;
            for _ in 0..600 {
                let before = world.active;
                world.tick(work, 100);
                changes += usize::from(world.active != before);
            }
            assert!(changes <= 1, "{changes} changes at {work}");
            assert!(world.active.abs_diff(settled) <= 2);
        }
    }

    #[test]
    fn a_load_that_comes_and_goes_is_answered_less_and_less() {
        let mut world = World::new(4);
        let mut changes = 0;
        for _ in 0..40 {
            for (ms, work) in [(1_500, 8.0), (2_500, 0.4)] {
                let before = world.active;
                world.run(ms, work, 100);
                changes += usize::from(world.active < before);
            }
        }
        assert!(changes < 12, "{changes} times fewer threads");
    }

    #[test]
    fn fewer_configured_threads_are_obeyed_at_once() {
        let mut world = World::new(8);
        world.run(5_000, 16.0, 200);
        assert_eq!(world.active, 8);
        world.configured = 2;
        world.tick(16.0, 200);
        assert_eq!(world.active, 2);
    }

    #[test]
    fn uneven_loads_are_evened_out() {
        let mut world = World::new(2);
        world.run(5_000, 4.0, 100);
        assert_eq!(world.active, 2);
        world.part = vec![0.9, 0.1];
        world.run(3_000, 1.3, 100);
        assert!(world.part[0] < 0.75, "{:?}", world.part);
        // Both fully busy: the connections tell.
        world.part = vec![0.8, 0.2];
        world.run(3_000, 100.0, 100);
        assert!((world.part[0] - 0.5).abs() < 0.15, "{:?}", world.part);
    }

    #[test]
    fn shares_are_shares() {
        let mut rng = 1u64;
        for _ in 0..2000 {
            let mut next = || {
                rng = rng.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                (rng >> 40) as f64 / (1u64 << 24) as f64
            };
            let count = 1 + (next() * 20.0) as usize;
            let loads: Vec<f64> = (0..count).map(|_| next()).collect();
            for shift in even_out(&loads) {
                assert!(shift.share > 0.0 && shift.share <= 1.0, "{shift:?} of {loads:?}");
                assert_ne!(shift.from, shift.to);
            }
        }
    }
}

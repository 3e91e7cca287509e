//! The state machine against simulated loads.

use crate::balance::*;

/// Time between two decisions.
const TICK_MS: i64 = 100;

/// Requests per second of a single thread.
const RATE: f64 = 100_000.0;

/// Threads under a load that needs `work` of them, with `connections` busy ones.
struct World {
    balance: Balance,
    now_ms: i64,
    configured: usize,
    active: usize,
    /// Share of the work on each thread.
    part: Vec<f64>,
    /// The CPUs available to all threads together.
    cpus: f64,
    /// The extra cost of a request for each thread after the first.
    overhead: f64,
    requests: f64,
    cpu: f64,
}

impl World {
    fn new(configured: usize) -> World {
        World {
            balance: Balance::default(),
            now_ms: 0,
            configured,
            active: 1,
            part: vec![1.0],
            cpus: 1e9,
            overhead: 0.0,
            requests: 0.0,
            cpu: 0.0,
        }
    }

    fn tick(&mut self, work: f64, connections: usize) -> Decision {
        let cost = 1.0 + self.overhead * (self.active - 1) as f64;
        let wanted = |part: &f64| (part * work * cost).min(1.0);
        let all: f64 = self.part.iter().map(wanted).sum();
        // A thread that waits for a CPU has work.
        let got = (self.cpus / all).min(1.0);
        let samples: Vec<Sample> = self
            .part
            .iter()
            .map(|part| {
                let (running, idle) = (wanted(part) * got, 1.0 - wanted(part));
                Sample {
                    pressure: running / (running + idle),
                    busy_connections: (part * connections as f64).round() as usize,
                }
            })
            .collect();
        let seconds = TICK_MS as f64 / 1000.0;
        self.cpu += all * got * seconds;
        self.requests += all * got / cost * RATE * seconds;
        self.now_ms += TICK_MS;
        let active = self.active;
        let served = Served { requests: self.requests as u64, cpu: self.cpu };
        let done = self.balance.decide(self.now_ms, self.configured, active, &samples, served);
        self.follow(&done);
        done
    }

    /// Requests per second and CPU time per request, in units of one thread's, over `ms`.
    fn output(&mut self, ms: i64, work: f64, connections: usize) -> (f64, f64) {
        let (requests, cpu) = (self.requests, self.cpu);
        self.run(ms, work, connections);
        let requests = self.requests - requests;
        (requests / RATE / (ms as f64 / 1000.0), (self.cpu - cpu) / requests * RATE)
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
fn heavy_load_activates_all_threads_quickly_and_evenly() {
    for configured in [2, 3, 4, 8, 16] {
        let mut world = World::new(configured);
        world.run(3_000, 2.0 * configured as f64, 400);
        assert_eq!(world.active, configured);
        let even = 1.0 / configured as f64;
        assert!(world.part.iter().all(|p| (p - even).abs() < 0.3 * even), "{:?}", world.part);
    }
}

#[test]
fn threads_become_inactive_within_five_seconds_after_a_load() {
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
fn no_thread_is_activated_for_a_single_connection() {
    let mut world = World::new(8);
    world.run(5_000, 5.0, 1);
    assert_eq!(world.active, 1);
    world.run(3_000, 5.0, 6);
    assert_eq!(world.active, 3);
}

#[test]
fn steady_load_keeps_the_number_of_threads() {
    for tenths in 1..40 {
        let work = f64::from(tenths) / 10.0;
        let mut world = World::new(8);
        world.run(10_000, work, 100);
        let mut counts = [0; 9];
        for _ in 0..1200 {
            world.tick(work, 100);
            counts[world.active] += 1;
        }
        let most = counts.iter().max();
        assert!(most >= Some(&1140), "{work}: time at each number of threads: {counts:?}");
    }
}

#[test]
fn alternating_load_changes_threads_less_and_less() {
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
fn fewer_configured_threads_apply_at_once() {
    let mut world = World::new(8);
    world.run(5_000, 16.0, 200);
    assert_eq!(world.active, 8);
    world.configured = 2;
    world.tick(16.0, 200);
    assert_eq!(world.active, 2);
}

/// Also when the configuration changes during a trial, which may return to the number before.
#[test]
fn active_threads_never_exceed_the_configuration() {
    let mut rng = weft_base::rng::Rng::new(1);
    for _ in 0..200 {
        let mut world = World { overhead: 0.15, cpus: 3.0, ..World::new(8) };
        for _ in 0..300 {
            if rng.below(10) == 0 {
                world.configured = 1 + rng.below(8) as usize;
            }
            let work = [0.1, 0.9, 2.0, 20.0][rng.below(4) as usize];
            (0..1 + rng.below(12)).for_each(|_| {
                let done = world.tick(work, 100);
                assert!((1..=world.configured).contains(&done.active), "{done:?}");
                assert!(done.shifts.iter().all(|shift| shift.to < done.active), "{done:?}");
            });
        }
    }
}

#[test]
fn uneven_loads_are_evened_out() {
    let mut world = World::new(2);
    world.run(3_000, 4.0, 100);
    assert_eq!(world.active, 2);
    world.part = vec![0.9, 0.1];
    world.run(1_500, 1.3, 100);
    assert!(world.part[0] < 0.75, "{:?}", world.part);
    // Both are fully busy, so the connections decide.
    world.part = vec![0.8, 0.2];
    world.run(1_500, 100.0, 100);
    assert!((world.part[0] - 0.5).abs() < 0.15, "{:?}", world.part);
}

#[test]
fn slightly_uneven_loads_are_evened_out_when_they_last() {
    let mut world = World::new(2);
    // After the first two repeated trials.
    world.run(16_000, 1.6, 10);
    assert_eq!(world.active, 2);
    // Six and four of ten clients, with and without idle time.
    for work in [1.5, 1.6, 100.0] {
        world.part = vec![0.6, 0.4];
        world.balance.lasting_ms = LASTING_MS;
        world.run(500, work, 10);
        assert_eq!(world.part, [0.6, 0.4], "{work}: it may be for a moment");
        world.run(1_500, work, 10);
        assert!((world.part[0] - 0.5).abs() < 0.03, "{work}: {:?}", world.part);
    }
}

#[test]
fn loads_that_can_not_be_evened_out_are_left_alone() {
    let mut world = World::new(2);
    world.run(5_000, 1.6, 10);
    let mut moves = 0;
    for _ in 0..1200 {
        // One client does as much as three others, so no better distribution exists.
        if world.active == 2 {
            world.part = vec![0.58, 0.42];
        }
        moves += world.tick(1.6, 10).shifts.len();
    }
    assert!((1..30).contains(&moves), "{moves} in two minutes");
}

#[test]
fn shares_are_between_zero_and_one() {
    let mut rng = 1u64;
    for _ in 0..2000 {
        let mut next = || {
            rng = rng.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (rng >> 40) as f64 / (1u64 << 24) as f64
        };
        let count = 1 + (next() * 20.0) as usize;
        let loads: Vec<f64> = (0..count).map(|_| next()).collect();
        for shift in even_out(&loads, UNEVEN) {
            assert!(shift.share > 0.0 && shift.share <= 1.0, "{shift:?} of {loads:?}");
            assert_ne!(shift.from, shift.to);
        }
    }
}

/// The output of a fixed number of threads, as [`World::output`].
fn fixed(threads: usize, work: f64, cpus: f64, overhead: f64) -> (f64, f64) {
    let cost = 1.0 + overhead * (threads - 1) as f64;
    let running = (work * cost).min(threads as f64).min(cpus);
    (running / cost, cost)
}

/// The best throughput of all fixed numbers of threads, and the lowest cost among those that
/// reach it.
fn best(most: usize, work: f64, cpus: f64, overhead: f64) -> (f64, f64) {
    let all: Vec<(f64, f64)> = (1..=most).map(|n| fixed(n, work, cpus, overhead)).collect();
    let rate = all.iter().map(|(rate, _)| *rate).fold(0.0, f64::max);
    let as_good = all.iter().filter(|(r, _)| *r >= 0.97 * rate);
    (rate, as_good.map(|(_, cost)| *cost).fold(f64::MAX, f64::min))
}

#[test]
fn threads_that_add_no_throughput_are_removed() {
    // The clients are the limit: one thread has almost no idle time, and two serve as much.
    for configured in [2, 4, 8] {
        for work in [0.8, 0.9, 0.99] {
            let mut world = World { overhead: 0.15, ..World::new(configured) };
            let (rate, cost) = world.output(20_000, work, 50);
            assert!(rate > 0.99 * work, "{rate} of {work}");
            assert!(cost < 1.04, "{configured} threads, {work}: {cost}");
        }
    }
}

#[test]
fn worthwhile_threads_are_found_within_two_seconds_and_kept() {
    // Competing with the clients, two threads get more of two CPUs than one.
    for (cpus, overhead) in [(1.3, 0.0), (1.4, 0.05), (2.0, 0.1), (1.1, 0.0)] {
        let mut world = World { cpus, overhead, ..World::new(2) };
        world.run(2_000, 5.0, 50);
        assert_eq!(world.active, 2, "{cpus} {overhead}");
        let (rate, _) = world.output(20_000, 5.0, 50);
        assert!(rate > 0.97 * best(2, 5.0, cpus, overhead).0, "{rate} with {cpus} {overhead}");
    }
}

#[test]
fn large_machines_find_the_best_number_of_threads() {
    for configured in [4, 6, 8, 12, 16, 24, 32, 48, 64] {
        for fewer_suffice_since in [1, 2, 3, 5, 8, 13, 21, 34, 55, 64] {
            let (cpus, overhead) = (f64::from(fewer_suffice_since), 0.002);
            let mut world = World { cpus, overhead, ..World::new(configured) };
            world.run(2_500, 1000.0, 1000);
            let (rate, cost) = world.output(20_000, 1000.0, 1000);
            let (best_rate, best_cost) = best(configured, 1000.0, cpus, overhead);
            let name = format!("{configured} threads, {fewer_suffice_since} CPUs");
            assert!(rate > 0.97 * best_rate, "{name}: {rate} of {best_rate}");
            assert!(cost < 1.05 * best_cost, "{name}: {cost} for {best_cost}");
        }
    }
}

#[test]
fn changed_load_is_measured_again() {
    let mut world = World { overhead: 0.15, ..World::new(4) };
    world.run(60_000, 0.9, 50);
    assert_eq!(world.active, 1);
    // Long after the last trial, but at once:
    let (rate, _) = world.output(2_500, 6.0, 200);
    assert!(rate > 0.75 * best(4, 6.0, 1e9, 0.15).0, "{rate}");
    world.run(2_500, 6.0, 200);
    assert_eq!(world.active, 4);
    world.run(20_000, 0.9, 50);
    assert_eq!(world.active, 1);
}

#[test]
fn changed_load_during_a_trial_is_not_its_result() {
    // Many busy clients, then fewer: two threads are best for both.
    for ticks in 0..10 {
        let mut world = World { cpus: 1.4, ..World::new(2) };
        while world.active == 1 {
            world.tick(5.0, 50);
        }
        world.run(ticks * TICK_MS, 5.0, 50);
        world.cpus = 1.0;
        world.run(600, 5.0, 10);
        world.cpus = 1.4;
        world.run(2_500, 5.0, 10);
        assert_eq!(world.active, 2, "after {ticks} ticks");
    }
}

#[test]
fn disturbed_measurement_is_repeated() {
    // The clients are the limit, but one thread was measured while it got too little CPU time.
    for configured in [2, 4] {
        let mut world = World { overhead: 0.2, cpus: 0.6, ..World::new(configured) };
        while world.active == 1 {
            world.tick(0.99, 50);
        }
        world.cpus = 1e9;
        world.run(2_500, 0.99, 50);
        assert_eq!(world.active, 1, "of {configured}");
        let (_, cost) = world.output(10_000, 0.99, 50);
        assert!(cost < 1.03, "{cost}");
    }
    // Two threads would serve more, but got too little CPU time when they were tried.
    let mut world = World::new(2);
    while world.active == 1 {
        world.tick(5.0, 50);
    }
    world.cpus = 0.7;
    world.run(400, 5.0, 50);
    world.cpus = 1e9;
    world.run(1_500, 5.0, 50);
    assert_eq!(world.active, 2);
}

#[test]
fn disturbed_measurement_is_corrected_soon() {
    // The clients are the limit, but one thread is measured twice while it gets too little CPU
    // time.
    let mut world = World { overhead: 0.2, cpus: 0.6, ..World::new(2) };
    while world.active == 1 {
        world.tick(0.99, 50);
    }
    world.cpus = 1e9;
    while world.active == 2 && world.now_ms < 3_000 {
        world.tick(0.99, 50);
    }
    world.cpus = 0.6;
    while world.active == 1 {
        world.tick(0.99, 50);
    }
    world.cpus = 1e9;
    world.run(6_000, 0.99, 50);
    assert_eq!(world.active, 1);
    let (_, cost) = world.output(20_000, 0.99, 50);
    assert!(cost < 1.03, "{cost}");
}

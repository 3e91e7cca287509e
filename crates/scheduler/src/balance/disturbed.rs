//! The state machine on a machine shared with other processes: its measurements are noisy.
//!
//! Many seeded runs of 20 s, as long as those of `benches/run managed`. The requests served are
//! compared with the better of one and two fixed threads under the same noise.

use crate::balance::*;
use weft_base::rng::Rng;

const TICK_MS: i64 = 100;
const RUN_MS: i64 = 20_000;
const RUNS: u64 = 200;

/// The throughput of two threads compared with one, and the CPU time per request.
#[derive(Clone, Copy)]
struct Two {
    rate: f64,
    cost: f64,
}

#[derive(Clone, Copy)]
struct Noise {
    /// Standard deviation of an autocorrelated factor with a time constant of 0.4 s.
    sigma: f64,
    /// Disturbances per second, each of which takes two fifths of the CPUs for 0.3 to 1.2 s.
    disturbances: f64,
}

/// The requests served, relative to the better fixed number of threads.
fn run(two: Two, noise: Noise, seed: u64) -> f64 {
    let mut rng = Rng::new(seed);
    let mut normal = {
        let mut rng = Rng::new(!seed);
        move || (0..12).map(|_| rng.next_f64()).sum::<f64>() - 6.0
    };
    let rho = (-(TICK_MS as f64) / 400.0).exp();
    let (mut balance, mut active) = (Balance::default(), 1);
    let (mut wander, mut until, mut now_ms) = (0.0, -1, 0);
    let (mut requests, mut cpu, mut one, mut both) = (0.0, 0.0, 0.0, 0.0);
    while now_ms < RUN_MS {
        now_ms += TICK_MS;
        let seconds = TICK_MS as f64 / 1000.0;
        wander = rho * wander + (1.0 - rho * rho).sqrt() * noise.sigma * normal();
        if now_ms > until && rng.next_f64() < noise.disturbances * seconds {
            until = now_ms + 300 + (rng.next_f64() * 900.0) as i64;
        }
        let disturbed = now_ms <= until;
        let factor = f64::exp(wander) * if disturbed { 0.6 } else { 1.0 };
        let served = 100_000.0 * factor * seconds;
        one += served;
        both += served * two.rate;
        let (got, cost) = if active == 2 { (served * two.rate, two.cost) } else { (served, 1.0) };
        requests += got;
        cpu += got * cost * 1e-5 * f64::exp(-wander / 2.0) * if disturbed { 1.1 } else { 1.0 };
        let sample = Sample { pressure: 0.98, busy_connections: 50 / active };
        let served = Served { requests: requests as u64, cpu };
        active = balance.decide(now_ms, 2, active, &vec![sample; active], served).active;
    }
    requests / f64::max(one, both)
}

#[test]
fn best_number_of_threads_is_found_despite_noise() {
    let quiet = Noise { sigma: 0.03, disturbances: 0.05 };
    let noisy = Noise { sigma: 0.12, disturbances: 0.3 };
    for (rate, cost) in [(0.6, 1.5), (0.8, 1.25), (1.0, 1.15), (1.3, 1.1), (1.9, 1.02)] {
        let mean = |noise| {
            let runs = (1..=RUNS).map(|seed| run(Two { rate, cost }, noise, seed));
            runs.sum::<f64>() / RUNS as f64
        };
        let (quietly, noisily) = (mean(quiet), mean(noisy));
        assert!(quietly > 0.97 && noisily > 0.94, "{rate}: {quietly:.3}, {noisily:.3}");
    }
}

//! Disturbances of all connections while clients use them.

use crate::Run;
use std::sync::atomic::Ordering;
use std::time::Duration;
use weft_testkit::Client;

/// The time between two changes: some hundreds a second.
const PACE: Duration = Duration::from_millis(2);

/// Deactivates and activates threads, and scatters connections.
pub fn moves(run: &Run<'_>, nth: u64, threads: usize) {
    let mut rng = run.rng(999_100 + nth);
    let mut client = run.client();
    while run.should_continue() {
        // Sometimes the load decides for a while.
        let active = if rng.below(64) == 0 { 0 } else { 1 + rng.below(threads) };
        run.cmd(&mut client, &["DEBUG", "ACTIVE-THREADS", &active.to_string()]);
        run.changes.fetch_add(1, Ordering::Relaxed);
        if rng.below(4) == 0 {
            run.cmd(&mut client, &["DEBUG", "MOVE-CLIENTS"]);
        }
        std::thread::sleep(if active == 0 { 50 * PACE } else { PACE });
    }
}

/// Pauses writes; the pause ends by UNPAUSE or by its timeout.
pub fn pauses(run: &Run<'_>) {
    let mut rng = run.rng(999_002);
    let mut client = run.client();
    while run.should_continue() {
        let mode = if rng.below(2) == 0 { "WRITE" } else { "ALL" };
        run.cmd(&mut client, &["CLIENT", "PAUSE", &(1 + rng.below(20)).to_string(), mode]);
        if rng.below(2) == 0 {
            run.cmd(&mut client, &["CLIENT", "UNPAUSE"]);
        }
        std::thread::sleep(PACE * rng.below(200) as u32);
    }
}

/// The sum over all threads of a number from INFO threads.
pub fn number(client: &mut Client, name: &str) -> u64 {
    let info = client.cmd(&["INFO", "threads"]).text();
    let lines = info.lines().filter(|line| line.starts_with("io_thread_"));
    let of = |line: &str| {
        let pairs = line.split_once(':')?.1;
        pairs
            .split(',')
            .find_map(|pair| pair.strip_prefix(name)?.strip_prefix('=')?.parse::<u64>().ok())
    };
    lines.filter_map(of).sum::<u64>()
}

//! Helpers for tests of saves, of the AOF and of its rewrites.

use std::time::{Duration, Instant};
use weft_testkit::Client;

/// How long to wait for an event that must come, however busy the machine is.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// A field of INFO persistence.
///
/// # Panics
/// If INFO has no such field.
#[track_caller]
pub fn info(client: &mut Client, field: &str) -> String {
    let text = client.cmd(&["INFO", "persistence"]).text();
    let line = text.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
    line.unwrap_or_else(|| panic!("{field} in {text}")).to_string()
}

/// Waits until `is_so` returns true.
///
/// # Panics
/// If it is still false after [`PATIENCE`].
#[track_caller]
pub fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < deadline, "timed out: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Waits until no rewrite of the AOF is running or scheduled.
///
/// # Panics
/// As [`until`].
#[track_caller]
pub fn wait_for_rewrite_end(client: &mut Client) {
    until("the end of the rewrite", || {
        info(client, "aof_rewrite_in_progress") == "0"
            && info(client, "aof_rewrite_scheduled") == "0"
    });
}

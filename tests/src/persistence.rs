//! What the tests of saving, of the log and of its rewrites ask for again and again.

use std::time::{Duration, Instant};
use weft_testkit::Client;

/// How long something is waited for that comes in any case, be the machine as busy as it may.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// A field of INFO persistence.
///
/// # Panics
/// When there is none of that name.
#[track_caller]
pub fn info(client: &mut Client, field: &str) -> String {
    let text = client.cmd(&["INFO", "persistence"]).text();
    let line = text.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
    line.unwrap_or_else(|| panic!("{field} in {text}")).to_string()
}

/// Waits until `is_so`.
///
/// # Panics
/// When it is not after [`PATIENCE`].
#[track_caller]
pub fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < deadline, "{what} never comes");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Waits until no rewrite of the log is under way, or waits for its turn.
///
/// # Panics
/// As [`until`].
#[track_caller]
pub fn no_rewrite(client: &mut Client) {
    until("the end of the rewrite", || {
        info(client, "aof_rewrite_in_progress") == "0"
            && info(client, "aof_rewrite_scheduled") == "0"
    });
}

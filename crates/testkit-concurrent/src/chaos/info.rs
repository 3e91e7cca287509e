//! Reads and awaits numbers of INFO.

use std::time::Duration;
use weft_testkit::client::{Client, PATIENCE};

/// The time between two looks.
pub const STEP: Duration = Duration::from_millis(20);

/// A number of INFO.
#[track_caller]
pub fn info(client: &mut Client, field: &str) -> i64 {
    let text = client.cmd(&["INFO", "everything"]).text();
    let line = text.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
    let value = line.unwrap_or_else(|| panic!("no {field} in INFO:\n{text}"));
    value.parse().unwrap_or_else(|_| panic!("{field}:{value} is not a number"))
}

/// Waits until `is_so` holds for the result of `get`.
#[track_caller]
pub fn wait_until(what: &str, mut get: impl FnMut() -> i64, is_so: impl Fn(i64) -> bool) {
    let mut seen = 0;
    for _ in 0..PATIENCE.as_millis() / STEP.as_millis() {
        seen = get();
        if is_so(seen) {
            return;
        }
        std::thread::sleep(STEP);
    }
    panic!("{what} is {seen} and stays so");
}

//! The clock of a history.

use std::time::Instant;

/// Nanoseconds since its start.
#[derive(Clone, Copy, Debug)]
pub struct Clock(Instant);

impl Clock {
    /// A clock that starts now.
    pub fn start() -> Clock {
        Clock(Instant::now())
    }

    /// The time.
    pub fn now(self) -> u64 {
        self.0.elapsed().as_nanos() as u64
    }
}

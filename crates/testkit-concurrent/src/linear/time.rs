//! Times with known bounds.
//!
//! A client knows when it sent a command and when the reply came, but not when the server read its
//! clock. So a deadline is an interval, and so is the time at which another command meets it. All
//! in nanoseconds of the history's clock.

/// The largest difference between the server's clock and the client's: the server counts whole
/// milliseconds, and a host may correct one clock while the other continues.
pub const SLACK: u64 = 5_000_000;

const MS: u64 = 1_000_000;

/// The time from which a key doesn't exist any more: at or after the first, at or before the
/// second.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Deadline {
    pub low: u64,
    pub high: u64,
}

/// The interval in which an operation was executed.
#[derive(Clone, Copy, Debug)]
pub struct Moment {
    pub earliest: u64,
    pub latest: u64,
}

/// Whether a value with a deadline exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Life {
    Over,
    Open,
    Lives,
}

impl Deadline {
    /// `ms` milliseconds after a command that was executed at `moment`.
    pub fn after(moment: Moment, ms: i64) -> Deadline {
        let ms = u64::try_from(ms).unwrap_or(0) * MS;
        Deadline {
            low: (moment.earliest + ms).saturating_sub(SLACK),
            high: moment.latest + ms + SLACK,
        }
    }

    /// Whether the value exists at `moment`.
    pub fn at(self, moment: Moment) -> Life {
        if moment.latest + SLACK < self.low {
            Life::Lives
        } else if moment.earliest > self.high + SLACK {
            Life::Over
        } else {
            Life::Open
        }
    }

    /// Whether PTTL may return `ms` at `moment`.
    pub fn may_leave(self, moment: Moment, ms: i64) -> bool {
        let ms = u64::try_from(ms).unwrap_or(0) * MS;
        moment.earliest + ms <= self.high + SLACK && self.low <= moment.latest + ms + SLACK
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn result_is_certain_outside_the_bounds() {
        let at = |ms: u64| Moment { earliest: ms * MS, latest: ms * MS + MS };
        let deadline = Deadline::after(at(100), 50);
        assert_eq!(deadline.at(at(120)), Life::Lives);
        assert_eq!(deadline.at(at(150)), Life::Open);
        assert_eq!(deadline.at(at(180)), Life::Over);
        assert!(deadline.may_leave(at(120), 30) && deadline.may_leave(at(120), 33));
        assert!(!deadline.may_leave(at(120), 60) && !deadline.may_leave(at(120), 5));
    }
}

//! Times of which only the bounds are known.
//!
//! A client knows when it sent a command and when the reply came, but not when the server looked
//! at its clock; so a deadline is an interval, and so is the moment at which another command
//! meets it. In nanoseconds of the history's clock.

/// How far the server's clock may be off the client's while both measure the same: it counts
/// whole milliseconds, and a host may correct one clock a little while the other runs on.
pub const SLACK: u64 = 5_000_000;

const MS: u64 = 1_000_000;

/// The moment from which a key is not there any more: at or after the first, at or before the
/// second.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Deadline {
    pub low: u64,
    pub high: u64,
}

/// When an operation may have been executed.
#[derive(Clone, Copy, Debug)]
pub struct Moment {
    pub earliest: u64,
    pub latest: u64,
}

/// Whether something with a deadline is there.
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

    /// Whether its bearer is there at `moment`.
    pub fn at(self, moment: Moment) -> Life {
        if moment.latest + SLACK < self.low {
            Life::Lives
        } else if moment.earliest > self.high + SLACK {
            Life::Over
        } else {
            Life::Open
        }
    }

    /// Whether at `moment` so many milliseconds may be left.
    pub fn may_leave(self, moment: Moment, ms: i64) -> bool {
        let ms = u64::try_from(ms).unwrap_or(0) * MS;
        moment.earliest + ms <= self.high + SLACK && self.low <= moment.latest + ms + SLACK
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_decide_outside_of_them() {
        let at = |ms: u64| Moment { earliest: ms * MS, latest: ms * MS + MS };
        let deadline = Deadline::after(at(100), 50);
        assert_eq!(deadline.at(at(120)), Life::Lives);
        assert_eq!(deadline.at(at(150)), Life::Open);
        assert_eq!(deadline.at(at(180)), Life::Over);
        assert!(deadline.may_leave(at(120), 30) && deadline.may_leave(at(120), 33));
        assert!(!deadline.may_leave(at(120), 60) && !deadline.may_leave(at(120), 5));
    }
}

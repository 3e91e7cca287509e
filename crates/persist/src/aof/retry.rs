//! When to retry a failed rewrite: immediately at first, then at growing intervals.

/// Failures in a row before the first pause.
const PATIENCE: u32 = 3;
/// The longest pause in minutes.
const LONGEST: i64 = 60;

/// Counts failures. Times are Unix seconds.
#[derive(Clone, Copy, Debug, Default)]
pub struct Retry {
    failures: u32,
    minutes: i64,
    /// End of the current pause.
    until: Option<i64>,
}

/// Whether an automatic rewrite may begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Permission {
    Now,
    /// Not before this second.
    At(i64),
    /// Not before `until`: a pause of this many minutes begins now.
    Paused {
        minutes: i64,
        until: i64,
    },
}

impl Retry {
    pub fn failed(&mut self) {
        self.failures = self.failures.saturating_add(1);
    }

    pub fn succeeded(&mut self) {
        *self = Retry::default();
    }

    /// Failures since the last success.
    #[must_use]
    pub fn failures(&self) -> u32 {
        self.failures
    }

    /// Whether to try at `now`. After a pause, one attempt is allowed.
    pub fn ask(&mut self, now: i64) -> Permission {
        if self.failures < PATIENCE {
            return Permission::Now;
        }
        match self.until {
            Some(until) if now < until => Permission::At(until),
            Some(_) => {
                self.until = None;
                Permission::Now
            }
            None => {
                self.minutes = (self.minutes * 2).clamp(1, LONGEST);
                let until = now + self.minutes * 60;
                self.until = Some(until);
                Permission::Paused { minutes: self.minutes, until }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_an_hour() {
        let mut retry = Retry::default();
        let mut now = 1000;
        for _ in 0..3 {
            assert_eq!(retry.ask(now), Permission::Now);
            retry.failed();
        }
        for wanted in [1, 2, 4, 8, 16, 32, 60, 60] {
            let until = now + wanted * 60;
            assert_eq!(retry.ask(now), Permission::Paused { minutes: wanted, until });
            assert_eq!(retry.ask(until - 1), Permission::At(until));
            assert_eq!(retry.ask(until), Permission::Now);
            retry.failed();
            now = until;
        }
        assert_eq!(retry.failures(), 11);
        retry.succeeded();
        assert_eq!(retry.ask(now), Permission::Now);
    }
}

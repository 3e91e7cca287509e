//! Polling before sleeping.
//!
//! A server that is faster than its clients has answered all of them before the next request
//! arrives, and goes to sleep. Sleeping and waking cost several times as much as the request. So
//! after an iteration that executed requests, a thread polls a few more times, without blocking,
//! before it sleeps.
//!
//! If the gaps between requests are longer than these polls, polling is wasted. A credit adapts to
//! that: a poll that finds events earns some, a wasted one costs more. Without credit, a thread
//! sleeps at once for some iterations before it polls again. A thread that executed no request
//! never polls.
//!
//! The time of wasted polls is measured and doesn't count as load, because the number of active
//! threads must not depend on it.

use std::io;
use weft_net::poll::{Poll, Ready};
use weft_state::ticks::Ticks;

/// Polls after one iteration: together they take about as long as sleeping and waking.
const LOOKS: u32 = 6;
/// The maximum credit, the gain of a successful round of polls, and the cost of a wasted one.
const MOST: i32 = 16;
const PAID: i32 = 1;
const IN_VAIN: i32 = 2;
/// Upper bound of one iteration's polling time, in nanoseconds: any excess was spent without a CPU.
const LONGEST: u64 = LOOKS as u64 * 2_000;
/// Iterations without polls after the credit is used up.
const PATIENCE: i32 = 64;

#[derive(Debug)]
pub struct Polling {
    credit: i32,
    /// Nanoseconds of wasted polls since the last [`Polling::take_seconds`].
    in_vain: u64,
}

impl Default for Polling {
    fn default() -> Self {
        Polling { credit: MOST, in_vain: 0 }
    }
}

impl Polling {
    /// Polls a few times for events, without blocking, if polling has recently paid.
    ///
    /// # Errors
    /// Those of the poll.
    pub fn look(
        &mut self,
        clock: &Ticks,
        poll: &mut Poll,
        ready: &mut Vec<Ready>,
    ) -> io::Result<()> {
        if !self.may() {
            return Ok(());
        }
        let from = clock.raw();
        let mut last = from;
        for _ in 0..LOOKS {
            poll.wait(0, ready)?;
            if !ready.is_empty() {
                self.note(true, clock.delta_as_nanos(from, last));
                return Ok(());
            }
            last = clock.raw();
        }
        self.note(false, clock.delta_as_nanos(from, last));
        Ok(())
    }

    fn may(&mut self) -> bool {
        if self.credit < 0 {
            self.credit += 1;
        }
        self.credit >= 0
    }

    fn note(&mut self, paid: bool, ns: u64) {
        self.in_vain += ns.min(LONGEST);
        self.credit = match paid {
            true => (self.credit + PAID).min(MOST),
            false if self.credit < IN_VAIN => -PATIENCE,
            false => self.credit - IN_VAIN,
        };
    }

    /// Seconds of wasted polls since the last call.
    pub fn take_seconds(&mut self) -> f64 {
        std::mem::take(&mut self.in_vain) as f64 / 1e9
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The number of `turns` in which a thread polls, if its polls find events when `pays` returns
    /// true.
    fn looks(turns: usize, mut pays: impl FnMut(usize) -> bool) -> usize {
        let mut looks = Polling::default();
        let looked = |turn: &usize| {
            let may = looks.may();
            if may {
                looks.note(pays(*turn), 1);
            }
            may
        };
        (0..turns).filter(looked).count()
    }

    #[test]
    fn wasted_polls_stop_polling() {
        let turns = 10_000;
        assert!(looks(turns, |_| false) < turns / 50);
        assert_eq!(looks(turns, |_| true), turns);
        // Three successful polls in four keep the credit up; one in two would use it up.
        assert!(looks(turns, |turn| turn % 4 != 0) > turns * 9 / 10);
    }

    #[test]
    fn polling_resumes_when_it_pays() {
        let half = 5_000;
        assert!(looks(2 * half, |turn| turn >= half) > half - 100);
    }

    #[test]
    fn wasted_poll_time_is_counted_once_and_capped() {
        let mut looks = Polling::default();
        looks.note(false, 3_000);
        looks.note(true, 1_000);
        assert_eq!(looks.take_seconds(), 4e-6);
        assert_eq!(looks.take_seconds(), 0.0);
        looks.note(false, 50_000_000);
        assert_eq!(looks.take_seconds(), LONGEST as f64 / 1e9);
    }
}

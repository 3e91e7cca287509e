//! Looking again before sleeping.
//!
//! A server that is faster than its clients has answered all of them before the next request comes,
//! and sleeps: to be put to sleep and woken costs several times what the request does. So after a
//! turn that has served somebody a thread asks the kernel a few more times whether something has
//! come, and sleeps only then.
//!
//! Where the gaps between requests are longer than those looks, they are in vain. That is learnt:
//! each look that pays earns a little credit, one in vain costs more, and without credit a thread
//! sleeps at once for some turns before it tries again. A thread that has served nobody never looks.
//!
//! The time of looks in vain is measured, and is no work: the number of active threads must not
//! depend on it.

use quanta::Clock;
use std::io;
use weft_net::poll::{Poll, Ready};

/// Looks after one turn: together about what falling asleep and being woken takes.
const LOOKS: u32 = 6;
/// Credit that can be saved up, and what is lost and gained.
const MOST: i32 = 16;
const PAID: i32 = 1;
const IN_VAIN: i32 = 2;
/// What the looks of one turn can take, in nanoseconds: whatever is longer was spent without a CPU.
const LONGEST: u64 = LOOKS as u64 * 2_000;
/// Turns without a look after the credit is used up.
const PATIENCE: i32 = 64;

/// See the module.
#[derive(Debug)]
pub struct Looks {
    credit: i32,
    /// Nanoseconds that were spent in vain.
    in_vain: u64,
}

impl Default for Looks {
    fn default() -> Self {
        Looks { credit: MOST, in_vain: 0 }
    }
}

impl Looks {
    /// Looks a few times for events, without sleeping, if that has paid of late.
    ///
    /// # Errors
    /// The kernel's.
    pub fn look(
        &mut self,
        clock: &Clock,
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

    /// Seconds spent in vain since the last call.
    pub fn take_seconds(&mut self) -> f64 {
        std::mem::take(&mut self.in_vain) as f64 / 1e9
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of `turns`, those in which a thread looks whose looks pay if `pays` says so.
    fn looks(turns: usize, mut pays: impl FnMut(usize) -> bool) -> usize {
        let mut looks = Looks::default();
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
    fn who_looks_in_vain_soon_sleeps_at_once() {
        let turns = 10_000;
        assert!(looks(turns, |_| false) < turns / 50);
        assert_eq!(looks(turns, |_| true), turns);
        // One in two pays for itself and one that does not, and is about where it is not worth it.
        assert!(looks(turns, |turn| turn % 4 != 0) > turns * 9 / 10);
    }

    #[test]
    fn what_begins_to_pay_is_found() {
        let half = 5_000;
        assert!(looks(2 * half, |turn| turn >= half) > half - 100);
    }

    #[test]
    fn time_in_vain_is_counted_once_and_time_without_a_cpu_is_not() {
        let mut looks = Looks::default();
        looks.note(false, 3_000);
        looks.note(true, 1_000);
        assert_eq!(looks.take_seconds(), 4e-6);
        assert_eq!(looks.take_seconds(), 0.0);
        looks.note(false, 50_000_000);
        assert_eq!(looks.take_seconds(), LONGEST as f64 / 1e9);
    }
}

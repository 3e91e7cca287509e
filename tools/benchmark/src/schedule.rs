//! Send times of requests, for `--rps`: an open loop.
//!
//! A closed loop sends the next request after the last reply. When the server stalls, the generator
//! stalls too, and the requests that real clients would have sent in that time are never counted:
//! the stall shows as a few slow replies (Tene's "coordinated omission"). Here request k is due at
//! start + k / rate in any case. If no connection is free it is sent later, but its latency counts
//! from its due time.
//!
//! Threads share a rate in turns: of T threads, thread t sends requests t, t + T, t + 2T ...

/// The requests of one thread.
#[derive(Clone, Debug)]
pub struct Schedule {
    start_ns: u64,
    rate: f64,
    thread: u64,
    threads: u64,
    next: u64,
}

impl Schedule {
    /// `rate` is in requests per second over all threads.
    pub fn new(start_ns: u64, rate: f64, thread: usize, threads: usize) -> Schedule {
        Schedule { start_ns, rate, thread: thread as u64, threads: threads as u64, next: 0 }
    }

    /// When the next request is due, in nanoseconds of the clock that `start_ns` was read from.
    #[inline]
    pub fn next_due(&self) -> u64 {
        let request = self.next * self.threads + self.thread;
        self.start_ns + (request as f64 * 1e9 / self.rate) as u64
    }

    /// The next request was sent, or will be.
    #[inline]
    pub fn advance(&mut self) {
        self.next += 1;
    }

    /// How many requests are due at `now_ns` and were not taken yet.
    pub fn due(&self, now_ns: u64) -> u64 {
        let since = now_ns.saturating_sub(self.start_ns) as f64;
        let all = (since * self.rate / 1e9) as u64 + 1;
        // The last of them may belong to another thread, or be off by rounding.
        let mine = all.saturating_sub(self.thread).div_ceil(self.threads);
        mine.saturating_sub(self.next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn threads_take_turns() {
        let mut two = [0, 1].map(|thread| Schedule::new(1000, 2e6, thread, 2));
        let mut due = Vec::new();
        for _ in 0..3 {
            for schedule in &mut two {
                due.push(schedule.next_due());
                schedule.advance();
            }
        }
        assert_eq!(due, [1000, 1500, 2000, 2500, 3000, 3500]);
    }

    #[test]
    fn requests_of_a_stall_stay_due() {
        let mut schedule = Schedule::new(0, 1000.0, 0, 1);
        assert_eq!(schedule.due(0), 1);
        schedule.advance();
        assert_eq!(schedule.due(0), 0);
        assert_eq!(schedule.due(1_000_000_000), 1000);
        assert_eq!(schedule.next_due(), 1_000_000);
    }

    #[test]
    fn the_rate_holds_for_long() {
        let mut schedule = Schedule::new(0, 20_000.0, 0, 1);
        schedule.next = 20_000 * 86_400;
        assert_eq!(schedule.next_due(), 86_400 * 1_000_000_000);
    }

    proptest! {
        #[test]
        fn due_number_agrees_with_due_time(
            rate in 1.0..5e6f64, threads in 1usize..9, now in 0u64..100_000_000_000,
        ) {
            for thread in 0..threads {
                let mut schedule = Schedule::new(0, rate, thread, threads);
                schedule.next = schedule.due(now);
                // One step of rounding is allowed.
                prop_assert!(schedule.next_due() + 1 >= now);
                if schedule.next > 0 {
                    schedule.next -= 1;
                    prop_assert!(schedule.next_due() <= now + 1);
                }
            }
        }
    }
}

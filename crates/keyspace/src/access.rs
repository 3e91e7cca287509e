//! The access clock of a record: 24 bits that mean a time (LRU) or a frequency (LFU).
//!
//! LRU: seconds, wrapping after 194 days. LFU (Morris counter, as in Redis 4): the upper 16
//! bits are the minute of the last decrement, the lower 8 a logarithmic counter, which grows
//! with a probability that falls as it grows, and falls by one each `decay_time` minutes.
//! Robert Morris, "Counting large numbers of events in small registers", CACM 1978.

/// How the clock is read; follows from `maxmemory-policy`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    Lru,
    Lfu,
}

/// The current state of the clock. Each thread renews it once per iteration.
#[derive(Clone, Copy, Debug)]
pub struct Access {
    pub policy: Policy,
    /// Seconds or minutes, depending on `policy`, truncated to the width of the clock.
    now: u32,
    /// `lfu-log-factor`: how much slower the counter grows with each step.
    log_factor: u32,
    /// `lfu-decay-time` in minutes; 0: never.
    decay_time: u32,
}

const MASK: u32 = 0xff_ffff;
/// The initial counter of a new key, so that a new key is not evicted first.
const LFU_INIT: u32 = 5;

impl Access {
    pub fn new(policy: Policy, unix_ms: i64, log_factor: u32, decay_time: u32) -> Self {
        let mut access = Access { policy, now: 0, log_factor, decay_time };
        access.set_time(unix_ms);
        access
    }

    /// Moves the clock to `unix_ms`.
    pub fn set_time(&mut self, unix_ms: i64) {
        let seconds = unix_ms / 1000;
        self.now = match self.policy {
            Policy::Lru => seconds as u32 & MASK,
            Policy::Lfu => (seconds / 60) as u32 & 0xffff,
        };
    }

    /// The clock of a key that is created now.
    #[inline]
    pub fn fresh(&self) -> u32 {
        match self.policy {
            Policy::Lru => self.now,
            Policy::Lfu => self.now << 8 | LFU_INIT,
        }
    }

    /// The clock after an access now. `random` is called only when it is needed.
    #[inline]
    pub fn touched(&self, clock: u32, random: impl FnOnce() -> u64) -> u32 {
        match self.policy {
            Policy::Lru => self.now,
            Policy::Lfu => self.now << 8 | self.grown(self.frequency(clock), random),
        }
    }

    fn grown(&self, counter: u32, random: impl FnOnce() -> u64) -> u32 {
        if counter == 255 {
            return 255;
        }
        let base = counter.saturating_sub(LFU_INIT);
        let odds = 1.0 / (f64::from(base) * f64::from(self.log_factor) + 1.0);
        let draw = (random() >> 11) as f64 / (1u64 << 53) as f64;
        counter + u32::from(draw < odds)
    }

    /// LFU: the counter after the decay that is due.
    pub fn frequency(&self, clock: u32) -> u32 {
        let (minute, counter) = (clock >> 8, clock & 0xff);
        let elapsed = self.now.wrapping_sub(minute) & 0xffff;
        match elapsed.checked_div(self.decay_time) {
            Some(periods) => counter.saturating_sub(periods),
            None => counter,
        }
    }

    /// LRU: seconds since the last access.
    pub fn idle_seconds(&self, clock: u32) -> u32 {
        self.now.wrapping_sub(clock) & MASK
    }

    /// The eviction score: a key with a higher score is evicted earlier.
    pub fn idleness(&self, clock: u32) -> u64 {
        match self.policy {
            Policy::Lru => u64::from(self.idle_seconds(clock)),
            Policy::Lfu => u64::from(255 - self.frequency(clock)),
        }
    }

    /// The clock of a key that another server sends with its idle seconds or its frequency. Uses
    /// the value that fits the policy.
    pub fn clock_of(&self, idle_seconds: Option<u64>, frequency: Option<u8>) -> u32 {
        match (self.policy, idle_seconds, frequency) {
            (Policy::Lru, Some(seconds), _) => self.clock_for_idle(seconds as u32 & MASK),
            (Policy::Lfu, _, Some(count)) => self.now << 8 | u32::from(count),
            (Policy::Lru | Policy::Lfu, _, _) => self.fresh(),
        }
    }

    /// The clock of a key that has been idle for `seconds`.
    pub fn clock_for_idle(&self, seconds: u32) -> u32 {
        self.now.wrapping_sub(seconds) & MASK
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lru_wraps() {
        let mut a = Access::new(Policy::Lru, 1_700_000_000_000, 10, 1);
        let clock = a.fresh();
        a.set_time(1_700_000_000_000 + 90_500);
        assert_eq!(a.idle_seconds(clock), 90);
        let wrap = i64::from(MASK) * 1000;
        let mut a = Access::new(Policy::Lru, wrap, 10, 1);
        let clock = a.fresh();
        a.set_time(wrap + 2000);
        assert_eq!(a.idle_seconds(clock), 2);
    }

    #[test]
    fn lfu_grows_slowly_and_decays() {
        let mut a = Access::new(Policy::Lfu, 0, 10, 1);
        let mut clock = a.fresh();
        assert_eq!(a.frequency(clock), 5);
        clock = a.touched(clock, || 0);
        assert_eq!(a.frequency(clock), 6);
        assert_eq!(a.frequency(a.touched(clock, || u64::MAX)), 6, "an unlikely draw");
        a.set_time(4 * 60_000);
        assert_eq!(a.frequency(clock), 2);
        a.set_time(400 * 60_000);
        assert_eq!(a.frequency(clock), 0);
        let saturated = a.fresh() | 0xff;
        assert_eq!(a.frequency(a.touched(saturated, || 0)), 255);
    }
}

//! The counts of a thread, which it passes on every quarter of a second.

use std::collections::BTreeMap;

use hdrhistogram::Histogram;

/// The longest exactly recorded latency, in nanoseconds: an hour.
const LONGEST: u64 = 3_600_000_000_000;

/// A histogram of latencies in nanoseconds.
///
/// # Panics
/// Never: the bounds and the digits, at most 5, are valid.
pub fn histogram(digits: u8) -> Histogram<u64> {
    Histogram::new_with_bounds(1, LONGEST, digits.min(5)).expect("bounds that are in order")
}

/// Counts of a period, of one thread or of all.
#[derive(Clone, Debug)]
pub struct Tally {
    /// Latencies of good replies, by kind of request.
    pub latencies: Vec<Histogram<u64>>,
    /// Errors of the server, replies of a wrong type and wrong content, by kind.
    pub errors: BTreeMap<String, u64>,
    /// Requests that were sent again because their slot is on another node.
    pub redirected: u64,
    /// Requests of an open loop that were due at the end and not sent.
    pub unsent: u64,
    /// The time of the last reply, in nanoseconds of the run's clock; 0 if none came.
    pub last_ns: u64,
}

impl Tally {
    pub fn new(kinds: usize, digits: u8) -> Tally {
        Tally {
            latencies: (0..kinds).map(|_| histogram(digits)).collect(),
            errors: BTreeMap::new(),
            redirected: 0,
            unsent: 0,
            last_ns: 0,
        }
    }

    /// Good replies.
    pub fn replies(&self) -> u64 {
        self.latencies.iter().map(Histogram::len).sum()
    }

    /// Adds the counts of another.
    pub fn add(&mut self, other: &Tally) {
        for (sum, more) in self.latencies.iter_mut().zip(&other.latencies) {
            // Can't fail: all histograms of a run have the same bounds.
            let _ = sum.add(more);
        }
        for (kind, count) in &other.errors {
            *self.errors.entry(kind.clone()).or_default() += count;
        }
        self.redirected += other.redirected;
        self.unsent += other.unsent;
        self.last_ns = self.last_ns.max(other.last_ns);
    }

    /// Resets all counts.
    pub fn clear(&mut self) {
        self.latencies.iter_mut().for_each(Histogram::reset);
        self.errors.clear();
        (self.redirected, self.unsent, self.last_ns) = (0, 0, 0);
    }

    /// The latencies of all kinds.
    pub fn all(&self) -> Histogram<u64> {
        let mut latencies = self.latencies.iter();
        let mut all = latencies.next().cloned().unwrap_or_else(|| histogram(3));
        for more in latencies {
            let _ = all.add(more);
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_hold_everything() {
        let (mut sum, mut one) = (Tally::new(2, 3), Tally::new(2, 3));
        one.latencies[0].record(1000).unwrap();
        one.latencies[1].saturating_record_n(u64::MAX, 2);
        one.errors.insert("ERR".into(), 3);
        (one.redirected, one.last_ns) = (1, 50);
        sum.add(&one);
        sum.add(&one);
        assert_eq!((sum.replies(), sum.errors["ERR"], sum.redirected, sum.last_ns), (6, 6, 2, 50));
        assert_eq!((sum.all().len(), sum.all().min()), (6, 1000));
        sum.clear();
        assert_eq!((sum.replies(), sum.errors.len(), sum.last_ns), (0, 0, 0));
    }
}

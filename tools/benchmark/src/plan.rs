//! The plan that all generator threads of one run share: the requests, the pace, and the number
//! left.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use weft_base::clock::Clock;

use crate::cluster::Cluster;
use crate::connect::Address;
use crate::keys::{Counters, KeyDistribution};
use crate::suite::Test;
use crate::verify::Content;

/// A prepared run of one test against one server.
#[derive(Debug)]
pub struct Plan {
    pub test: Test,
    pub content: Content,
    /// Templates per batch.
    pub pipeline: usize,
    /// The number of requests; none for as many as fit into the time.
    pub requests: Option<u64>,
    /// Nanoseconds before counting begins, and after that; the latter only without a number of
    /// requests.
    pub warmup_ns: u64,
    pub duration_ns: Option<u64>,
    /// Requests per second of an open loop.
    pub rate: Option<f64>,
    pub keepalive: bool,
    pub keep_going: bool,
    pub verify: bool,
    pub keyspace: u64,
    pub keys: KeyDistribution,
    pub counters: Counters,
    pub seed: u64,
    pub threads: usize,
    pub precision: u8,
    /// The encoded requests that begin a new connection, and their number.
    pub greeting: (Vec<u8>, u32),
    /// Where to connect; in cluster mode one for each node.
    pub addresses: Vec<Address>,
    pub cluster: Option<Arc<Cluster>>,
    pub clock: Clock,
}

/// The state that threads share during a run.
#[derive(Debug, Default)]
pub struct Shared {
    claimed: AtomicU64,
    stop: AtomicBool,
}

impl Shared {
    /// All threads end at the next opportunity.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    /// Whether the run should end.
    pub fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

/// One thread's part of the remaining requests.
///
/// Taken in portions, so that threads seldom contend for the counter. Portions shrink towards the
/// end, so that no thread has much left to do alone.
#[derive(Debug)]
pub struct Quota {
    /// The number of all requests; none if time is the limit.
    all: Option<u64>,
    portion: u64,
    have: u64,
}

impl Quota {
    pub fn new(plan: &Plan) -> Quota {
        let portion = plan.requests.map_or(0, |n| n / (plan.threads as u64 * 128));
        Quota { all: plan.requests, portion: portion.min(4096), have: 0 }
    }

    /// Takes up to `wanted` requests and returns their number.
    #[inline]
    pub fn take(&mut self, wanted: u64, shared: &Shared) -> u64 {
        let Some(all) = self.all else { return wanted };
        if self.have < wanted {
            let portion = (wanted - self.have).max(self.portion);
            let before = shared.claimed.fetch_add(portion, Ordering::Relaxed);
            self.have += portion.min(all.saturating_sub(before));
        }
        let taken = wanted.min(self.have);
        self.have -= taken;
        taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_requests_are_taken_once() {
        let shared = Shared::default();
        let mut threads = [7, 1, 0].map(|portion| Quota { all: Some(1000), portion, have: 0 });
        let mut sum = 0;
        loop {
            let taken: u64 = threads.iter_mut().map(|quota| quota.take(16, &shared)).sum();
            sum += taken;
            if taken == 0 {
                break;
            }
        }
        assert_eq!(sum, 1000);
    }

    #[test]
    fn without_a_number_there_is_no_end() {
        let mut quota = Quota { all: None, portion: 0, have: 0 };
        assert_eq!(quota.take(1 << 40, &Shared::default()), 1 << 40);
    }
}

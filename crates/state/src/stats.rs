//! Counters. Each thread writes its counters with plain stores; readers add them up.
//!
//! A counter that several threads increment would be a shared cache line on the fast path. Instead every I/O
//! thread has a [`ThreadStats`] that only it writes. INFO, LATENCY and CONFIG RESETSTAT read all of them. A
//! reset remembers the values to subtract, since only the owner may write.

pub use crate::counter::Counter;
use crate::slot_stats::ThreadSlots;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// Sub-buckets of one power of two: the error of a recorded value is below 1/16.
const SUB_BITS: u32 = 4;
const BUCKETS: usize = (64 - SUB_BITS as usize) << SUB_BITS;

/// A log-linear histogram of nanoseconds with one writer (after HdrHistogram, Gil Tene).
#[derive(Debug)]
pub struct Histogram(Box<[Counter]>);

impl Default for Histogram {
    fn default() -> Self {
        Histogram((0..BUCKETS).map(|_| Counter::default()).collect())
    }
}

#[inline]
fn bucket_of(ns: u64) -> usize {
    let small = 1 << SUB_BITS;
    if ns < small {
        return ns as usize;
    }
    let shift = 63 - ns.leading_zeros() - SUB_BITS;
    ((shift as usize + 1) << SUB_BITS) + ((ns >> shift) as usize & (small as usize - 1))
}

/// The largest value that falls into `bucket`.
fn bucket_top(bucket: usize) -> u64 {
    let (shift, sub) = ((bucket >> SUB_BITS) as u32, (bucket & ((1 << SUB_BITS) - 1)) as u64);
    match shift {
        0 => sub,
        _ => ((sub + (1 << SUB_BITS) + 1) << (shift - 1)) - 1,
    }
}

impl Histogram {
    /// The memory of one histogram (bytes).
    pub const BYTES: usize = BUCKETS * size_of::<Counter>();

    #[inline]
    pub fn record(&self, ns: u64) {
        self.0[bucket_of(ns).min(BUCKETS - 1)].add(1);
    }

    /// The bucket of a value.
    #[inline]
    pub fn bucket(ns: u64) -> u16 {
        bucket_of(ns).min(BUCKETS - 1) as u16
    }

    /// Removes `n` values that were recorded in this bucket. Only the owner thread may call this.
    pub fn take_back(&self, bucket: u16, n: u64) {
        self.0[usize::from(bucket)].take_back(n);
    }

    /// Adds this histogram's non-empty buckets to `sum`, by index.
    pub fn add_to(&self, sum: &mut Distribution) {
        sum.0.resize(BUCKETS, 0);
        sum.0.iter_mut().zip(&self.0).for_each(|(s, b)| *s += b.get());
    }
}

/// Histograms of several threads added up.
#[derive(Clone, Debug, Default)]
pub struct Distribution(Vec<u64>);

impl Distribution {
    pub fn count(&self) -> u64 {
        self.0.iter().sum()
    }

    /// Subtracts the counts at the last reset.
    pub fn subtract(&mut self, base: &Distribution) {
        self.0.iter_mut().zip(&base.0).for_each(|(s, b)| *s = s.saturating_sub(*b));
    }

    /// Whether no histogram was added, not even an empty one.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// For each of `percents`, the value in nanoseconds below which that share of the recorded values lies. One
    /// walk over the buckets if `percents` ascends.
    pub fn percentiles(&self, percents: &[f64]) -> Vec<u64> {
        let count = self.count();
        let (mut bucket, mut seen) = (0, 0);
        let value = |percent: &f64| {
            let wanted = (count as f64 * percent / 100.0).ceil().max(1.0) as u64;
            // This percentile is below the one before: the walk starts over.
            if bucket > 0 && seen - self.0[bucket - 1] >= wanted {
                (bucket, seen) = (0, 0);
            }
            while seen < wanted && bucket < self.0.len() {
                seen += self.0[bucket];
                bucket += 1;
            }
            if seen < wanted { 0 } else { bucket_top(bucket - 1) }
        };
        percents.iter().map(value).collect()
    }

    /// For each non-empty bucket: its largest value in nanoseconds and its count.
    pub fn buckets(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.0.iter().enumerate().filter(|(_, n)| **n > 0).map(|(i, n)| (bucket_top(i), *n))
    }
}

/// Counters of one command.
#[derive(Debug, Default)]
pub struct CommandStats {
    pub calls: Counter,
    /// Nanoseconds spent.
    pub ns: Counter,
    /// Not executed: wrong arity, no permission, out of memory.
    pub rejected: Counter,
    /// Executed and answered with an error.
    pub failed: Counter,
    pub latency: OnceLock<Histogram>,
}

/// Lookups, expirations, evictions and changes of keys on one thread.
#[derive(Debug, Default)]
pub struct KeyStats {
    pub hits: Counter,
    pub misses: Counter,
    pub expired: Counter,
    pub expired_fields: Counter,
    pub evicted: Counter,
    pub dirty: Counter,
}

/// Traffic and connections of one thread.
#[derive(Debug, Default)]
pub struct NetworkStats {
    pub bytes_in: Counter,
    pub bytes_out: Counter,
    pub reads: Counter,
    pub writes: Counter,
    pub connections: Counter,
    /// Connections that moved to another thread.
    pub moved: Counter,
}

/// The event loop of one thread.
#[derive(Debug, Default)]
pub struct LoopStats {
    pub turns: Counter,
    /// Runs of the thread's cron.
    pub ticks: Counter,
    /// Batches with at least one request whose key was prefetched, and the number of such requests.
    pub prefetch_batches: Counter,
    pub prefetched: Counter,
    /// Requests that found a shard busy.
    pub parked: Counter,
    /// Replies that wait for the disk or for replicas now.
    pub withheld: Counter,
}

/// Error replies of one thread.
#[derive(Debug, Default)]
pub struct ErrorStats {
    pub replies: Counter,
    pub unexpected: Counter,
}

/// The load of one thread: see [`weft_scheduler::load`].
#[derive(Debug, Default)]
pub struct LoadStats {
    /// In thousandths of one CPU, updated by the thread's cron.
    pub busy: Counter,
    pub pressure: Counter,
    /// Connections that sent requests in the last period of the load measurement.
    pub busy_connections: Counter,
    /// Executed requests, and nanoseconds on a CPU without fruitless polling. The thread's cron updates
    /// the latter.
    pub requests: Counter,
    pub running_ns: Counter,
    /// Microseconds of CPU time, updated by the thread's cron.
    pub cpu_user_us: Counter,
    pub cpu_system_us: Counter,
    /// The CPU on which the thread's cron ran last, plus one; 0: it has not run yet.
    pub last_cpu: Counter,
    /// Milliseconds for which jobs had waited when this thread of the slow lane began them.
    pub queued_ms: Counter,
}

/// All counters of one thread.
#[derive(Debug)]
pub struct ThreadStats {
    pub commands: Box<[CommandStats]>,
    pub keys: KeyStats,
    pub network: NetworkStats,
    pub event_loop: LoopStats,
    pub errors: ErrorStats,
    pub load: LoadStats,
    /// With `cluster-slot-stats-enabled`.
    pub slots: ThreadSlots,
    /// Memory of this thread's connections (bytes), while `maxmemory-clients` is set.
    pub client_memory: Counter,
    /// Bytes allocated minus bytes freed by this thread (as a wrapped difference).
    pub memory: Counter,
}

impl ThreadStats {
    pub fn new(commands: usize) -> Self {
        ThreadStats {
            commands: (0..commands).map(|_| CommandStats::default()).collect(),
            keys: KeyStats::default(),
            network: NetworkStats::default(),
            event_loop: LoopStats::default(),
            errors: ErrorStats::default(),
            load: LoadStats::default(),
            slots: ThreadSlots::default(),
            client_memory: Counter::default(),
            memory: Counter::default(),
        }
    }
}

/// The share of expired keys among the keys with an expiry that active expiry samples: a moving average in
/// which each sweep has weight 1/20, as in Valkey.
#[derive(Debug, Default)]
pub struct StaleShare(AtomicU64);

impl StaleShare {
    /// Adds a sweep that sampled `examined` keys and found `expired` of them expired.
    pub fn note(&self, examined: u64, expired: u64) {
        let before = f64::from_bits(self.0.load(Ordering::Relaxed));
        let met = if examined > 0 { expired as f64 / examined as f64 } else { 0.0 };
        // Two concurrent calls may lose one sample; this is an estimate.
        self.0.store((before * 0.95 + met * 0.05).to_bits(), Ordering::Relaxed);
    }

    pub fn percent(&self) -> f64 {
        f64::from_bits(self.0.load(Ordering::Relaxed)) * 100.0
    }

    pub fn reset(&self) {
        self.0.store(0, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_cover_every_value_once() {
        let mut last = None;
        for bucket in 0..BUCKETS - 16 {
            let top = bucket_top(bucket);
            assert_eq!(bucket_of(top), bucket, "{top}");
            if let Some(last) = last {
                assert_eq!(bucket_of(last + 1), bucket);
            }
            last = Some(top);
        }
    }

    #[test]
    fn percentiles() {
        let h = Histogram::default();
        (1..=1000u64).for_each(|n| h.record(n * 1000));
        let mut d = Distribution::default();
        h.add_to(&mut d);
        assert_eq!(d.count(), 1000);
        let wanted = [500_000.0, 990_000.0, 1_000_000.0, 500_000.0];
        let found = d.percentiles(&[50.0, 99.0, 100.0, 50.0]);
        for (got, want) in found.into_iter().zip(wanted) {
            assert!((got as f64 / want - 1.0).abs() < 0.07, "{want}: {got}");
        }
        assert_eq!(Distribution::default().percentiles(&[50.0, 99.0]), [0, 0]);
    }
}

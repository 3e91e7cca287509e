//! The state that INFO keeps from one call to the next.

use crate::stats::{Counter, Distribution, ThreadStats};
use std::collections::HashMap;
use weft_replication::primary::Counts;

/// Counters of one command.
#[derive(Clone, Debug, Default)]
pub struct CommandTotals {
    pub calls: u64,
    /// Nanoseconds.
    pub ns: u64,
    pub rejected: u64,
    pub failed: u64,
}

/// The counters of INFO stats, over all threads.
#[derive(Clone, Debug, Default)]
pub struct Totals {
    /// Commands executed, and nanoseconds spent in them.
    pub calls: u64,
    pub command_ns: u64,
    pub hits: u64,
    pub misses: u64,
    pub expired: u64,
    pub expired_fields: u64,
    pub evicted: u64,
    pub net_in: u64,
    pub net_out: u64,
    pub reads: u64,
    pub writes: u64,
    pub turns: u64,
    /// Batches with at least one request whose key was prefetched, and the number of such requests.
    pub prefetch_batches: u64,
    pub prefetched: u64,
    /// CPU time of the I/O threads in microseconds.
    pub busy_us: u64,
    pub error_replies: u64,
    pub unexpected_errors: u64,
    pub net_repl_out: u64,
    /// Syncs with replicas of this server.
    pub syncs: Counts,
}

/// The counters at the last reset.
#[derive(Debug, Default)]
pub struct Base {
    pub totals: Totals,
    /// By the command's number.
    pub commands: Vec<CommandTotals>,
    /// By the command's number; empty where nothing was recorded.
    pub latency: Vec<Distribution>,
}

/// When a database's keys with an expiry expire.
#[derive(Clone, Copy, Debug)]
pub struct Estimate {
    /// On average (Unix milliseconds).
    pub at: i64,
    /// The number of keys with an expiry at the time of the estimate, and that time.
    pub expiring: usize,
    pub made_ms: i64,
}

/// The estimates by database.
pub type Expiries = HashMap<usize, Estimate>;

impl Totals {
    /// Adds the counters of a thread.
    pub fn add(&mut self, thread: &ThreadStats) {
        let add = |sum: &mut u64, counter: &Counter| *sum = sum.wrapping_add(counter.get());
        add(&mut self.hits, &thread.keys.hits);
        add(&mut self.misses, &thread.keys.misses);
        add(&mut self.expired, &thread.keys.expired);
        add(&mut self.expired_fields, &thread.keys.expired_fields);
        add(&mut self.evicted, &thread.keys.evicted);
        add(&mut self.net_in, &thread.network.bytes_in);
        add(&mut self.net_out, &thread.network.bytes_out);
        add(&mut self.reads, &thread.network.reads);
        add(&mut self.writes, &thread.network.writes);
        add(&mut self.turns, &thread.event_loop.turns);
        add(&mut self.prefetch_batches, &thread.event_loop.prefetch_batches);
        add(&mut self.prefetched, &thread.event_loop.prefetched);
        add(&mut self.busy_us, &thread.load.cpu_user_us);
        add(&mut self.busy_us, &thread.load.cpu_system_us);
        add(&mut self.error_replies, &thread.errors.replies);
        add(&mut self.unexpected_errors, &thread.errors.unexpected);
    }

    /// Subtracts the state at a reset.
    pub fn subtract(&mut self, base: &Totals) {
        take(&mut self.calls, base.calls);
        take(&mut self.command_ns, base.command_ns);
        take(&mut self.hits, base.hits);
        take(&mut self.misses, base.misses);
        take(&mut self.expired, base.expired);
        take(&mut self.expired_fields, base.expired_fields);
        take(&mut self.evicted, base.evicted);
        take(&mut self.net_in, base.net_in);
        take(&mut self.net_out, base.net_out);
        take(&mut self.reads, base.reads);
        take(&mut self.writes, base.writes);
        take(&mut self.turns, base.turns);
        take(&mut self.prefetch_batches, base.prefetch_batches);
        take(&mut self.prefetched, base.prefetched);
        take(&mut self.busy_us, base.busy_us);
        take(&mut self.error_replies, base.error_replies);
        take(&mut self.unexpected_errors, base.unexpected_errors);
        take(&mut self.net_repl_out, base.net_repl_out);
        let (syncs, before) = (&mut self.syncs, &base.syncs);
        take(&mut syncs.sync_full, before.sync_full);
        take(&mut syncs.sync_partial_ok, before.sync_partial_ok);
        take(&mut syncs.sync_partial_err, before.sync_partial_err);
        take(&mut syncs.over_limit, before.over_limit);
    }
}

/// Subtracts `then`, at most to zero.
pub fn take(now: &mut u64, then: u64) {
    *now = now.saturating_sub(then);
}

//! The state that INFO keeps from one call to the next.

use crate::stats::Distribution;
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

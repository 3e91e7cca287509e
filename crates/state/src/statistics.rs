//! Server-wide counters and their history.

use crate::commandlog::CommandLog;
use crate::hot_keys::HotKeys;
use crate::info_state::State;
use crate::latency::LatencyMonitor;
use crate::slot_stats::SlotBases;
use crate::stats::{StaleShare, ThreadStats};
use crate::threads::changes::ThreadChanges;
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicI64, AtomicU64};

/// Counters and their history.
pub struct Statistics {
    pub totals: Totals,
    /// Counters of the slow lane's threads, and of the threads that load files, apply a primary's writes, and serve metrics.
    pub slow_threads: Box<[ThreadStats]>,
    pub commandlog: CommandLog,
    pub latency: LatencyMonitor,
    pub info: State,
    pub thread_changes: ThreadChanges,
    pub hot_keys: HotKeys,
    pub slots: SlotBases,
    /// Error replies by their code ("ERR", "WRONGTYPE" ...).
    errors: Mutex<BTreeMap<String, u64>>,
}

/// The most distinct error codes that are counted, as in Valkey: a script could create any number.
const MOST_CODES: usize = 128;

impl Statistics {
    pub fn new(slow_threads: Box<[ThreadStats]>) -> Statistics {
        Statistics {
            totals: Totals::default(),
            slow_threads,
            commandlog: CommandLog::default(),
            latency: LatencyMonitor::default(),
            info: State::default(),
            thread_changes: ThreadChanges::default(),
            hot_keys: HotKeys::default(),
            slots: SlotBases::default(),
            errors: Mutex::default(),
        }
    }

    /// Error replies by their code.
    pub fn errors(&self) -> std::sync::MutexGuard<'_, BTreeMap<String, u64>> {
        self.errors.lock().unwrap_or_else(|p| p.into_inner())
    }

    /// Counts an error reply; `reply` starts with its code.
    pub fn count_error(&self, reply: &[u8]) {
        let code = reply.split(|b| *b == b' ').next().unwrap_or(reply);
        let code = String::from_utf8_lossy(code).into_owned();
        let mut errors = self.errors();
        if errors.len() < MOST_CODES || errors.contains_key(&code) {
            *errors.entry(code).or_insert(0) += 1;
        }
    }
}

/// Counters of rare events, which any thread may increment.
#[derive(Debug, Default)]
pub struct Totals {
    pub connections: AtomicU64,
    pub rejected_connections: AtomicU64,
    pub evicted_clients: AtomicU64,
    pub query_limit_disconnections: AtomicU64,
    pub output_limit_disconnections: AtomicU64,
    pub acl_denied_auth: AtomicU64,
    pub acl_denied_tls_cert: AtomicU64,
    pub acl_denied_commands: AtomicU64,
    pub acl_denied_keys: AtomicU64,
    pub acl_denied_channels: AtomicU64,
    pub acl_denied_databases: AtomicU64,
    pub evict_cycles: AtomicU64,
    pub expire_cycles_capped: AtomicU64,
    /// Microseconds spent on active expiry.
    pub expire_us: AtomicU64,
    /// The share of expired keys and fields that have not been removed, as the sweeps find it.
    pub stale_keys: StaleShare,
    pub stale_fields: StaleShare,
    pub oom_errors: AtomicU64,
    pub last_save_s: AtomicI64,
    pub dirty_base: AtomicU64,
}

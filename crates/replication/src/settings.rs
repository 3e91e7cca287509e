//! What the configuration says about replication. Times in milliseconds, sizes in bytes.

use crate::Ms;

/// How long a replica may have how much still to get (`client-output-buffer-limit replica`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutputLimit {
    /// At once; 0 for no limit. No less than the backlog's size counts.
    pub hard: u64,
    /// For longer than `soft_time`; 0 for no limit.
    pub soft: u64,
    pub soft_time: Ms,
}

/// `repl-diskless-load`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DisklessLoad {
    Disabled,
    OnEmptyDb,
    SwapDb,
    FlushBeforeLoad,
}

#[derive(Clone, Debug)]
pub struct Settings {
    pub backlog_size: u64,
    /// How long the backlog is kept without replicas; 0 for ever.
    pub backlog_ttl: Ms,
    pub timeout: Ms,
    pub ping_period: Ms,
    pub diskless_sync: bool,
    pub diskless_delay: Ms,
    /// Don't wait for more once so many are there; 0 waits the whole delay.
    pub diskless_max_replicas: usize,
    pub min_replicas: usize,
    /// 0, as in `min_replicas`, means that nothing is asked for.
    pub max_lag: Ms,
    pub output: OutputLimit,

    pub diskless_load: DisklessLoad,
    /// Empty for the default user.
    pub user: String,
    /// Empty for none.
    pub password: String,
    /// The port that is told to the primary: `replica-announce-port` or our own.
    pub port: u16,
    /// `replica-announce-ip`, or empty.
    pub announce_ip: String,
    /// What is told by `REPLCONF version`.
    pub version: String,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            backlog_size: 10 << 20,
            backlog_ttl: 3_600_000,
            timeout: 60_000,
            ping_period: 10_000,
            diskless_sync: true,
            diskless_delay: 5000,
            diskless_max_replicas: 0,
            min_replicas: 0,
            max_lag: 10_000,
            output: OutputLimit { hard: 256 << 20, soft: 64 << 20, soft_time: 60_000 },
            diskless_load: DisklessLoad::Disabled,
            user: String::new(),
            password: String::new(),
            port: 6379,
            announce_ip: String::new(),
            version: "9.1.0".to_string(),
        }
    }
}

//! Replication settings. Times in milliseconds, sizes in bytes.

use crate::Ms;

/// The limit of a replica's unsent bytes (`client-output-buffer-limit replica`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutputLimit {
    /// Hard limit; 0 for none. At least the size of the backlog applies.
    pub hard: u64,
    /// Limit for longer than `soft_time`; 0 for none.
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
    /// How long the backlog is kept without replicas; 0 for no limit.
    pub backlog_ttl: Ms,
    pub timeout: Ms,
    pub ping_period: Ms,
    pub diskless_sync: bool,
    pub diskless_delay: Ms,
    /// Number of waiting replicas that ends the delay; 0 for the whole delay.
    pub diskless_max_replicas: usize,
    pub min_replicas: usize,
    /// 0, here or in `min_replicas`, disables the check.
    pub max_lag: Ms,
    pub output: OutputLimit,

    pub diskless_load: DisklessLoad,
    /// Empty for the default user.
    pub user: String,
    /// Empty for none.
    pub password: String,
    /// The port announced to the primary: `replica-announce-port` or the listening port.
    pub port: u16,
    /// `replica-announce-ip`, or empty.
    pub announce_ip: String,
    /// The version announced by `REPLCONF version`.
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

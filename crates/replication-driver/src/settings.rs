//! Converts the configuration for the machines.

use weft_config::{Config, Id};
use weft_replication::action::Ids;
use weft_replication::settings::{DisklessLoad, OutputLimit, Settings};
use weft_replication::{Ms, ReplicationId};

/// Reads the replication settings of this configuration.
pub fn of(config: &Config) -> Settings {
    let int = |id| u64::try_from(config.int(id)).unwrap_or(0);
    let seconds = |id| -> Ms { int(id).saturating_mul(1000) };
    let count = |id| usize::try_from(config.int(id)).unwrap_or(0);
    let limit = config.client_output_buffer_limits().replica;
    let text = |id| config.str(id).into_owned();
    let tls_port = config.int(Id::TLS_PORT);
    let port = match config.int(Id::REPLICA_ANNOUNCE_PORT) {
        0 if tls_port != 0 && config.bool(Id::TLS_REPLICATION) => tls_port,
        0 => config.int(Id::PORT),
        port => port,
    };
    Settings {
        backlog_size: config.memory(Id::REPL_BACKLOG_SIZE),
        backlog_ttl: seconds(Id::REPL_BACKLOG_TTL),
        timeout: seconds(Id::REPL_TIMEOUT),
        ping_period: seconds(Id::REPL_PING_REPLICA_PERIOD),
        diskless_sync: config.bool(Id::REPL_DISKLESS_SYNC),
        diskless_delay: seconds(Id::REPL_DISKLESS_SYNC_DELAY),
        diskless_max_replicas: count(Id::REPL_DISKLESS_SYNC_MAX_REPLICAS),
        min_replicas: count(Id::MIN_REPLICAS_TO_WRITE),
        max_lag: seconds(Id::MIN_REPLICAS_MAX_LAG),
        output: OutputLimit {
            hard: limit.hard,
            soft: limit.soft,
            soft_time: u64::try_from(limit.soft_seconds).unwrap_or(0).saturating_mul(1000),
        },
        diskless_load: match config.word(Id::REPL_DISKLESS_LOAD) {
            "on-empty-db" => DisklessLoad::OnEmptyDb,
            "swapdb" => DisklessLoad::SwapDb,
            "flush-before-load" => DisklessLoad::FlushBeforeLoad,
            _ => DisklessLoad::Disabled,
        },
        user: text(Id::PRIMARYUSER),
        password: text(Id::PRIMARYAUTH),
        port: port.try_into().unwrap_or(0),
        announce_ip: text(Id::REPLICA_ANNOUNCE_IP),
        // The version whose protocol and files this server supports.
        version: Settings::default().version,
    }
}

/// Generates unique ids.
pub fn ids() -> Ids {
    Box::new(|| {
        let mut bits = [0u8; 20];
        weft_state::server::fill_random(&mut bits);
        ReplicationId::from_random(bits)
    })
}

//! The configuration in the form that the fast path reads: plain fields, derived once per change.
//!
//! CONFIG SET changes the [`Config`] and publishes a new `Settings`. Each thread compares a version number at
//! the start of its next batch, and then takes the new settings.

use weft_commands::CommandSettings;
use weft_config::{Config, Id, OutputBufferLimits, SavePoint};
use weft_keyspace::access::{Access, Policy};
use weft_keyspace::evict::MaxmemoryPolicy;
use weft_keyspace::{Classes, Deletion, Deletions};
use weft_types::Limits;

/// The memory limit, and the eviction policy.
#[derive(Clone, Debug)]
pub struct EvictionSettings {
    /// Bytes; 0: no limit.
    pub maxmemory: usize,
    pub policy: MaxmemoryPolicy,
    pub samples: usize,
    pub lfu_log_factor: u32,
    pub lfu_decay_time: u32,
}

impl EvictionSettings {
    fn of(config: &Config, policy: MaxmemoryPolicy) -> Self {
        EvictionSettings {
            maxmemory: config.memory(Id::MAXMEMORY) as usize,
            policy,
            samples: config.int(Id::MAXMEMORY_SAMPLES) as usize,
            lfu_log_factor: config.int(Id::LFU_LOG_FACTOR) as u32,
            lfu_decay_time: config.int(Id::LFU_DECAY_TIME) as u32,
        }
    }
}

/// Limits of clients.
#[derive(Clone, Debug)]
pub struct ClientSettings {
    pub max_query_buffer: usize,
    pub output_limits: OutputBufferLimits,
    /// Seconds of idleness before a client is closed; 0: never.
    pub timeout_s: i64,
    pub keepalive_s: u32,
    pub maxclients: usize,
    /// The most clients that have not authenticated.
    pub max_unauthenticated: usize,
    /// Milliseconds in which a client must authenticate; 0: no limit.
    pub authentication_ms: i64,
    /// How many TLS connections are accepted, and handshakes continued, in an iteration.
    pub new_tls: usize,
    /// The memory limit of all clients together, above which some are closed (bytes); 0: no limit.
    pub memory: u64,
    /// The most keys in the tracking table; 0: no limit.
    pub tracked_keys: usize,
}

impl ClientSettings {
    fn of(config: &Config) -> Self {
        ClientSettings {
            max_query_buffer: config.memory(Id::CLIENT_QUERY_BUFFER_LIMIT) as usize,
            output_limits: config.client_output_buffer_limits(),
            timeout_s: config.int(Id::TIMEOUT),
            keepalive_s: config.int(Id::TCP_KEEPALIVE) as u32,
            maxclients: config.int(Id::MAXCLIENTS) as usize,
            max_unauthenticated: max_unauthenticated(config),
            authentication_ms: 1000 * config.int(Id::UNAUTHENTICATED_CLIENT_TIMEOUT),
            new_tls: config.int(Id::MAX_NEW_TLS_CONNECTIONS_PER_CYCLE) as usize,
            memory: clients_memory(config),
            tracked_keys: usize::try_from(config.int(Id::TRACKING_TABLE_MAX_KEYS)).unwrap_or(0),
        }
    }
}

/// The share of `maxclients`, at least 1.
fn max_unauthenticated(config: &Config) -> usize {
    let percent = config.int(Id::UNAUTHENTICATED_CLIENTS_PERCENT) as u64;
    (config.int(Id::MAXCLIENTS) as u64 * percent / 100).max(1) as usize
}

/// Authentication.
#[derive(Clone, Debug)]
pub struct AuthSettings {
    pub protected_mode: bool,
    /// The most entries of ACL LOG.
    pub log_len: usize,
    /// The channels of new users.
    pub channels: weft_acl::ChannelDefault,
}

/// I/O threads.
#[derive(Clone, Copy, Debug)]
pub struct ThreadSettings {
    pub always_active: bool,
    /// Whether every I/O thread reads and executes.
    pub all_read: bool,
}

/// Which commands are logged and measured.
#[derive(Clone, Copy, Debug)]
pub struct LogSettings {
    /// Nanoseconds from which a command is logged as slow.
    pub slow_ns: u64,
    /// Nanoseconds from which a command is examined: it is slow, or a latency spike.
    pub notable_ns: u64,
    /// Bytes beyond which a request or a reply is logged as large.
    pub large_request: usize,
    pub large_reply: usize,
    pub latency_tracking: bool,
    /// Time and traffic are counted by hash slot, too.
    pub counts_slots: bool,
    pub hide_user_data: bool,
}

impl LogSettings {
    fn of(config: &Config) -> Self {
        // A negative threshold means that nothing reaches it.
        let slow_us = u64::try_from(config.int(Id::COMMANDLOG_EXECUTION_SLOWER_THAN));
        let slow_ns = slow_us.map_or(u64::MAX, |us| us.saturating_mul(1000));
        let spike_ns = match u64::try_from(config.int(Id::LATENCY_MONITOR_THRESHOLD)) {
            Ok(0) | Err(_) => u64::MAX,
            Ok(ms) => ms.saturating_mul(1_000_000),
        };
        let bytes = |id| usize::try_from(config.int(id)).unwrap_or(usize::MAX);
        LogSettings {
            slow_ns,
            notable_ns: slow_ns.min(spike_ns),
            large_request: bytes(Id::COMMANDLOG_REQUEST_LARGER_THAN),
            large_reply: bytes(Id::COMMANDLOG_REPLY_LARGER_THAN),
            latency_tracking: config.bool(Id::LATENCY_TRACKING),
            counts_slots: config.bool(Id::CLUSTER_ENABLED)
                && config.bool(Id::CLUSTER_SLOT_STATS_ENABLED),
            hide_user_data: config.bool(Id::HIDE_USER_DATA_FROM_LOG),
        }
    }
}

/// Background work of I/O threads.
#[derive(Clone, Debug)]
pub struct UpkeepSettings {
    pub hz: i64,
    pub expire_effort: u32,
    pub defrag: crate::defrag_state::Limits,
    /// Each iteration has work to do: for `maxmemory-clients` or for `defrag`.
    pub has_chores: bool,
}

impl UpkeepSettings {
    fn of(config: &Config) -> Self {
        UpkeepSettings {
            hz: config.int(Id::HZ),
            expire_effort: config.int(Id::ACTIVE_EXPIRE_EFFORT) as u32,
            defrag: crate::defrag_state::Limits::of(config),
            has_chores: clients_memory(config) > 0 || config.bool(Id::ACTIVEDEFRAG),
        }
    }
}

/// How changes of keys are made, logged and published.
#[derive(Clone, Copy, Debug)]
pub struct ChangeSettings {
    /// Another server decides which keys have expired.
    pub import_mode: bool,
    /// The classes of keyspace notifications.
    pub notices: Classes,
    /// The commands (DEL or UNLINK) by which deletions are logged.
    pub deletions: Deletions,
}

impl ChangeSettings {
    fn of(config: &Config) -> Self {
        ChangeSettings {
            import_mode: config.bool(Id::IMPORT_MODE),
            notices: Classes::wanted(|letter| config.keyspace_events().contains(letter)),
            deletions: Deletions {
                expiry: Deletion::lazy(config.bool(Id::LAZYFREE_LAZY_EXPIRE)),
                eviction: Deletion::lazy(config.bool(Id::LAZYFREE_LAZY_EVICTION)),
                server: Deletion::lazy(config.bool(Id::LAZYFREE_LAZY_SERVER_DEL)),
            },
        }
    }
}

/// Snapshots and the AOF.
#[derive(Clone, Debug)]
pub struct PersistenceSettings {
    pub save_points: Vec<SavePoint>,
    /// Writes are refused after a background save has failed.
    pub refuses_unsaved: bool,
    /// How long a write waits for a snapshot at its memory limit.
    pub snapshot_write_delay_ms: i64,
    pub aof: crate::aof_policy::Policy,
}

impl PersistenceSettings {
    fn of(config: &Config) -> Self {
        PersistenceSettings {
            save_points: config.save_points().to_vec(),
            refuses_unsaved: config.bool(Id::STOP_WRITES_ON_BGSAVE_ERROR)
                && !config.save_points().is_empty(),
            snapshot_write_delay_ms: config.int(Id::SNAPSHOT_MAX_WRITE_DELAY),
            aof: crate::aof_policy::Policy::of(config),
        }
    }
}

/// The rules for clients of a replica, and the decisions left to its primary.
#[derive(Clone, Copy, Debug)]
pub struct ReplicaRules {
    pub is_read_only: bool,
    pub serves_stale: bool,
    /// Only the primary evicts.
    pub ignores_maxmemory: bool,
    /// The process exits if a command of the primary fails.
    pub panics: bool,
}

impl ReplicaRules {
    fn of(config: &Config) -> Self {
        ReplicaRules {
            is_read_only: config.bool(Id::REPLICA_READ_ONLY),
            serves_stale: config.bool(Id::REPLICA_SERVE_STALE_DATA),
            ignores_maxmemory: config.bool(Id::REPLICA_IGNORE_MAXMEMORY),
            panics: config.bool(Id::REPLICA_READ_ONLY)
                && config.word(Id::PROPAGATION_ERROR_BEHAVIOR) != "ignore",
        }
    }
}

/// Derived from the configuration; immutable.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Grows with every change.
    pub version: u64,
    pub commands: CommandSettings,
    /// The same for commands that were accepted before, by our primary or by the server that wrote a log:
    /// limits for clients don't apply to them.
    pub decided: CommandSettings,
    pub eviction: EvictionSettings,
    pub clients: ClientSettings,
    pub auth: AuthSettings,
    pub threads: ThreadSettings,
    pub log: LogSettings,
    pub upkeep: UpkeepSettings,
    pub changes: ChangeSettings,
    pub persistence: PersistenceSettings,
    /// The rules for clients of a replica.
    pub replica: ReplicaRules,
    pub scripts: ScriptSettings,
    /// Seconds between two checks whether files of TLS have changed; 0: never.
    pub tls_reload_s: i64,
}

/// Settings of scripts.
#[derive(Clone, Copy, Debug)]
pub struct ScriptSettings {
    /// Nanoseconds after which a script counts as busy. `None`: never.
    pub busy_after_ns: Option<u64>,
}

impl ScriptSettings {
    fn of(config: &Config) -> ScriptSettings {
        let threshold_ms = config.int(Id::BUSY_REPLY_THRESHOLD) as u64;
        let busy_after_ns = (threshold_ms > 0).then(|| threshold_ms.saturating_mul(1_000_000));
        ScriptSettings { busy_after_ns }
    }
}

impl Settings {
    /// The settings of `config`, with version number `version`.
    pub fn of(config: &Config, version: u64) -> Settings {
        let policy = MaxmemoryPolicy::by_name(config.word(Id::MAXMEMORY_POLICY))
            .expect("the configuration accepts only known policies");
        let commands = CommandSettings {
            max_string: config.memory(Id::PROTO_MAX_BULK_LEN) as usize,
            lazy_user_flush: config.bool(Id::LAZYFREE_LAZY_USER_FLUSH),
            lfu: policy.clock() == Policy::Lfu,
            cluster: config.bool(Id::CLUSTER_ENABLED),
            limits: limits(config),
        };
        Settings {
            version,
            decided: CommandSettings { max_string: usize::MAX, cluster: false, ..commands.clone() },
            commands,
            eviction: EvictionSettings::of(config, policy),
            clients: ClientSettings::of(config),
            auth: AuthSettings {
                protected_mode: config.bool(Id::PROTECTED_MODE),
                log_len: usize::try_from(config.int(Id::ACLLOG_MAX_LEN)).unwrap_or(usize::MAX),
                channels: match config.word(Id::ACL_PUBSUB_DEFAULT) {
                    "allchannels" => weft_acl::ChannelDefault::All,
                    _ => weft_acl::ChannelDefault::None,
                },
            },
            threads: ThreadSettings {
                always_active: config.bool(Id::IO_THREADS_ALWAYS_ACTIVE),
                all_read: config.bool(Id::IO_THREADS_DO_READS),
            },
            log: LogSettings::of(config),
            upkeep: UpkeepSettings::of(config),
            changes: ChangeSettings::of(config),
            persistence: PersistenceSettings::of(config),
            replica: ReplicaRules::of(config),
            scripts: ScriptSettings::of(config),
            tls_reload_s: config.int(Id::TLS_AUTO_RELOAD_INTERVAL),
        }
    }

    /// The access clock of these settings.
    pub fn access(&self, now_ms: i64) -> Access {
        let eviction = &self.eviction;
        let policy = eviction.policy.clock();
        Access::new(policy, now_ms, eviction.lfu_log_factor, eviction.lfu_decay_time)
    }
}

/// The minimum of `maxmemory-clients`: with less, no client could change it back.
const LEAST_CLIENTS_MEMORY: u64 = 128 << 10;

fn clients_memory(config: &Config) -> u64 {
    match config.maxmemory_clients() {
        0 => 0,
        bytes => bytes.max(LEAST_CLIENTS_MEMORY),
    }
}

/// The limits up to which collections stay packed. Negative sizes mean that none does.
fn limits(config: &Config) -> Limits {
    let size = |id| usize::try_from(config.int(id)).unwrap_or(0);
    Limits {
        hash_entries: size(Id::HASH_MAX_LISTPACK_ENTRIES),
        hash_value: config.memory(Id::HASH_MAX_LISTPACK_VALUE) as usize,
        set_ints: size(Id::SET_MAX_INTSET_ENTRIES),
        set_entries: size(Id::SET_MAX_LISTPACK_ENTRIES),
        set_value: size(Id::SET_MAX_LISTPACK_VALUE),
        zset_entries: size(Id::ZSET_MAX_LISTPACK_ENTRIES),
        zset_value: config.memory(Id::ZSET_MAX_LISTPACK_VALUE) as usize,
        list_size: config.int(Id::LIST_MAX_LISTPACK_SIZE),
        list_compress: size(Id::LIST_COMPRESS_DEPTH),
        stream_node_bytes: config.memory(Id::STREAM_NODE_MAX_BYTES) as usize,
        stream_node_entries: size(Id::STREAM_NODE_MAX_ENTRIES),
        hyperloglog_sparse: config.memory(Id::HLL_SPARSE_MAX_BYTES) as usize,
    }
}

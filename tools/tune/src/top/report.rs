//! The contents of the page, the text and the JSON: rates and states, and nothing that they have to
//! compute. The names and units of the fields are those of the JSON, and don't change within a
//! [`SCHEMA`]; new fields may come. docs/watch.md describes them.

use std::collections::BTreeMap;

use serde::Serialize;

/// The name of the JSON's form.
pub const SCHEMA: &str = "weft-tune-top/1";

/// One moment of a server.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Report {
    /// [`SCHEMA`].
    pub schema: &'static str,
    /// The time of the reading, since 1970.
    pub unix_time_ms: u64,
    /// The time that the rates are of.
    pub seconds: f64,
    pub server: Server,
    pub requests: Requests,
    pub latency: Latency,
    /// By calls, the most frequent first.
    pub commands: Vec<Command>,
    /// By name. Empty if neither INFO nor this machine shows threads.
    pub threads: Vec<Thread>,
    /// CPUs of the server's machine; empty if that is another one.
    pub cpus: Vec<Cpu>,
    /// Network interfaces of the same machine.
    pub interfaces: Vec<Interface>,
    pub memory: Memory,
    pub clients: Clients,
    /// By number; databases without keys are left out.
    pub databases: Vec<Database>,
    pub replication: Replication,
    /// Null if the server isn't part of a cluster.
    pub cluster: Option<Cluster>,
    pub persistence: Persistence,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Server {
    /// `weft`, `valkey` or `redis`.
    pub kind: String,
    pub version: String,
    pub address: String,
    pub process_id: u32,
    /// Whether it runs on this machine, visible to this user.
    pub is_local: bool,
    pub mode: String,
    pub uptime_seconds: u64,
    /// Null if the server doesn't report it.
    pub io_threads: Option<u64>,
    pub io_threads_active: Option<u64>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Requests {
    pub per_second: f64,
    pub total: u64,
    pub input_bytes_per_second: f64,
    pub output_bytes_per_second: f64,
    pub errors_per_second: f64,
    /// Hits of all reads of keys, from 0 to 100; null without reads.
    pub hit_percent: Option<f64>,
    pub expired_per_second: f64,
    pub evicted_per_second: f64,
}

/// Of a PING that this program sends ten times a second, during the last minute.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Latency {
    /// The number of probes.
    pub probes: usize,
    /// Null without probes.
    pub p50_us: Option<f64>,
    pub p99_us: Option<f64>,
    pub max_us: Option<f64>,
    /// The median since the sample before.
    pub now_us: Option<f64>,
    /// The reason why there are none.
    pub error: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Command {
    pub name: String,
    pub calls_per_second: f64,
    pub usec_per_call: f64,
    /// Its share of the time of all commands, from 0 to 100.
    pub time_percent: f64,
    pub errors_per_second: f64,
    /// Of all calls since the server's start or CONFIG RESETSTAT; null if it isn't recorded.
    pub p50_us: Option<f64>,
    pub p99_us: Option<f64>,
    pub p999_us: Option<f64>,
}

/// A thread. Facts from the kernel are null if the server is elsewhere.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Thread {
    pub name: String,
    pub tid: Option<u32>,
    /// Of one CPU, from 0 to 100.
    pub cpu_percent: Option<f64>,
    /// Time ready to run, while another thread had the CPU.
    pub wait_percent: Option<f64>,
    pub last_cpu: Option<usize>,
    pub node: Option<usize>,
    pub voluntary_per_second: Option<f64>,
    pub involuntary_per_second: Option<f64>,
    /// INFO's report of an I/O thread.
    pub io: Option<IoThread>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct IoThread {
    /// Weft: whether the server uses it now.
    pub is_active: Option<bool>,
    pub connections: Option<u64>,
    /// Weft.
    pub requests_per_second: Option<f64>,
    pub reads_per_second: Option<f64>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Cpu {
    pub cpu: usize,
    pub node: usize,
    /// All but idle and stolen time.
    pub busy_percent: f64,
    pub user_percent: f64,
    pub system_percent: f64,
    /// Hard and soft interrupts.
    pub interrupt_percent: f64,
    pub stolen_percent: f64,
    /// Of all network interfaces.
    pub network_interrupts_per_second: f64,
    /// Soft interrupts for received and sent packets.
    pub net_rx_per_second: f64,
    pub net_tx_per_second: f64,
    /// The server's threads that used CPU time and ran here last, the busiest first.
    pub threads: Vec<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Interface {
    pub name: String,
    pub interrupts_per_second: f64,
    /// The same by CPU.
    pub interrupts_by_cpu: BTreeMap<usize, f64>,
    pub received_bytes_per_second: f64,
    pub received_packets_per_second: f64,
    pub sent_bytes_per_second: f64,
    pub sent_packets_per_second: f64,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Memory {
    pub used_bytes: u64,
    pub peak_bytes: u64,
    pub rss_bytes: u64,
    /// 0 is no limit.
    pub max_bytes: u64,
    pub policy: String,
    pub fragmentation: Option<f64>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Clients {
    pub connected: u64,
    pub max: u64,
    pub blocked: u64,
    pub pubsub: u64,
    pub tracking: u64,
    pub new_per_second: f64,
    pub rejected_per_second: f64,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Database {
    pub number: u64,
    pub keys: u64,
    pub expires: u64,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Replication {
    /// `primary` or `replica`.
    pub role: String,
    pub replicas: u64,
    pub offset: u64,
    /// The offsets that the slowest replica lacks.
    pub most_behind_bytes: Option<u64>,
    /// Of a replica.
    pub primary: Option<String>,
    pub link_is_up: Option<bool>,
    /// Since the last data from the primary.
    pub link_idle_seconds: Option<u64>,
    /// A full sync runs.
    pub is_syncing: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Cluster {
    /// `ok`, `fail`, or empty if CLUSTER INFO isn't permitted.
    pub state: String,
    pub slots_assigned: u64,
    pub slots_failed: u64,
    pub nodes: u64,
    /// Primaries with slots.
    pub size: u64,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Persistence {
    pub is_loading: bool,
    /// From 0 to 100.
    pub loaded_percent: Option<f64>,
    pub is_saving: bool,
    pub saving_seconds: Option<u64>,
    pub changes_since_save: u64,
    /// Since the last save, or the start.
    pub last_save_age_seconds: Option<u64>,
    pub last_save_is_ok: bool,
    pub aof_is_enabled: bool,
    pub aof_is_rewriting: bool,
    pub aof_is_ok: bool,
    pub aof_bytes: Option<u64>,
    /// The writes that wait for a sync.
    pub aof_pending_bytes: Option<u64>,
}

//! Facts about this process, its machine and its shutdown.

use crate::listening::Listening;
use crate::server_parts::Background;
use crate::stop_state::Stopping;
use crate::time::Time;
use crate::tls::Tls;
use std::sync::atomic::{AtomicBool, AtomicU32};
use std::sync::{Arc, RwLock};
use weft_base::cpulist::CpuSet;
use weft_base::machine::Machine;
use weft_scheduler::placement::Placement;

/// Facts about this process.
pub struct ProcessState {
    /// Unix milliseconds.
    pub started_ms: i64,
    pub started: std::time::Instant,
    /// 40 hexadecimal digits.
    pub run_id: String,
    /// Empty without a configuration file.
    pub config_file: String,
    pub executable: String,
    /// The program name (`argv[0]`), for the process title.
    pub called: String,
    pub(crate) seed: u64,
    pub listening: Listening,
    pub hardware: Hardware,
    pub ending: Ending,
    /// The certificates in force.
    pub tls: Tls,
    pub time: Time,
    pub background: Background,
}

/// The machine, and the placement of threads on it.
pub struct Hardware {
    /// The machine at the start, before any thread was bound to CPUs.
    pub machine: Machine,
    /// CPUs that the process may use.
    pub allowed_cpus: CpuSet,
    pub(crate) placement: RwLock<Arc<Placement>>,
}

/// The shutdown of the server.
#[derive(Default)]
pub struct Ending {
    pub(crate) stop: AtomicBool,
    pub attempts: Stopping,
    /// The exit code that SHUTDOWN or a signal asked for.
    pub exit_code: AtomicU32,
}

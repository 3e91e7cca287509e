//! The limits of the control group, and how often they stopped the server.

use super::{CheckInput, Finding};
use crate::doctor::finding::Severity;
use crate::host::limits;
use crate::report::numbers;

const FILE: &str = "proc/self/cgroup";
const PAGE: &str = "https://docs.kernel.org/admin-guide/cgroup-v2.html";

/// The limit of CPU time.
pub fn cpu_time(input: &CheckInput) -> Vec<Finding> {
    let (check, subject) = ("cpu-quota", "CPU time of the control group");
    if let Err(error) = input.host.read(FILE) {
        return vec![Finding::unreadable(check, subject, FILE, &error, "").see(PAGE)];
    }
    let limits = limits::read(&input.host);
    let usable = input.machine.usable().len();
    let Some(cpu) = limits.cpu else {
        let finding = Finding::new(check, subject, FILE, "no limit visible");
        return vec![
            finding.all(Severity::Ok, "The server may use its CPUs all the time.").see(PAGE),
        ];
    };
    let mut value = format!("{:.2} CPUs on {usable}", cpu.cpus());
    let throttled = limits.throttling.filter(|throttling| throttling.throttled > 0);
    if let Some(throttling) = throttled {
        value += &format!(
            ", stopped in {} of {} periods for {} ms in all",
            throttling.throttled,
            throttling.periods,
            throttling.throttled_us / 1000
        );
    }
    let finding = Finding::new(check, subject, FILE, value);
    let finding = if throttled.is_some() {
        finding.all(
            Severity::Warning,
            "The group used up its CPU time, so the kernel stopped all its threads until the next \
             period (0.1 s by default): pauses for every client.",
        )
    } else if cpu.cpus() < usable as f64 {
        finding.all(
            Severity::Advice,
            "When more threads are busy than the limit allows, the kernel stops all of them until \
             the next period. Weft's default number of threads respects the limit.",
        )
    } else {
        finding.all(Severity::Ok, "The limit is no less than the usable CPUs.")
    };
    vec![
        finding
            .fix(
                "Raise the CPU limit, or run fewer threads",
                "systemctl set-property UNIT CPUQuota=..., or docker update --cpus=...",
                "set CPUQuota= in the systemd unit; in Kubernetes set no CPU limit, or whole CPUs \
                 under the static policy",
            )
            .see(PAGE),
    ]
}

/// The limit of memory.
pub fn memory(input: &CheckInput) -> Vec<Finding> {
    let (check, subject) = ("memory-limit", "memory of the control group");
    if let Err(error) = input.host.read(FILE) {
        return vec![Finding::unreadable(check, subject, FILE, &error, "").see(PAGE)];
    }
    let limits = limits::read(&input.host);
    let least = [limits.memory_bytes, limits.memory_high_bytes].into_iter().flatten().min();
    let Some(bytes) = least else {
        let finding = Finding::new(check, subject, FILE, "no limit visible");
        let why = "The server may use the host's memory; set 'maxmemory' anyway.";
        return vec![finding.all(Severity::Ok, why).see(PAGE)];
    };
    let finding = Finding::new(check, subject, FILE, numbers::memory(bytes));
    if input.running.as_ref().is_some_and(|running| running.max_memory.is_some()) {
        let why = "The check server-memory compares it with maxmemory.";
        return vec![finding.all(Severity::Ok, why).see(PAGE)];
    }
    vec![
        finding
            .all(
                Severity::Advice,
                "The kernel kills the server beyond this limit. Page cache, client buffers and the \
                 pages copied after a fork count too.",
            )
            .fix(
                "Set maxmemory well below the group's memory limit",
                &format!("CONFIG SET maxmemory {}", bytes / 10 * 7),
                "set maxmemory in the server's configuration file, or a higher MemoryMax= in the unit",
            )
            .see(PAGE),
    ]
}

//! What the control group leaves, and how often it was too little.

use super::{Finding, Patient};
use crate::doctor::finding::Severity;
use crate::host::limits;
use crate::report::numbers;

const FILE: &str = "proc/self/cgroup";
const PAGE: &str = "https://docs.kernel.org/admin-guide/cgroup-v2.html";

/// The limit of CPU time.
pub fn cpu_time(patient: &Patient) -> Vec<Finding> {
    let (check, subject) = ("cpu-quota", "CPU time of the control group");
    if let Err(error) = patient.host.read(FILE) {
        return vec![Finding::unreadable(check, subject, FILE, &error, "").see(PAGE)];
    }
    let limits = limits::read(&patient.host);
    let usable = patient.machine.usable().len();
    let Some(cpu) = limits.cpu else {
        let finding = Finding::new(check, subject, FILE, "no limit to be seen");
        return vec![finding.all(Severity::Ok, "It may use its CPUs all the time.").see(PAGE)];
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
            "The group used its time up, and all its threads were stopped until the next \
             period (a tenth of a second where nothing else is set): pauses for every client.",
        )
    } else if cpu.cpus() < usable as f64 {
        finding.all(
            Severity::Advice,
            "There is less time than CPUs: when more threads than that are busy, all of them \
             are stopped until the next period. Weft's default number of threads takes the limit \
             into account; other servers must be told.",
        )
    } else {
        finding.all(Severity::Ok, "As much as the CPUs that it may use.")
    };
    vec![
        finding
            .cure(
                "systemctl set-property UNIT CPUQuota=..., docker update --cpus=..., or fewer \
                 threads",
                "CPUQuota= in the systemd unit; for Kubernetes no limit of CPU, or whole CPUs \
                 under the static policy",
            )
            .see(PAGE),
    ]
}

/// The limit of memory.
pub fn memory(patient: &Patient) -> Vec<Finding> {
    let (check, subject) = ("memory-limit", "memory of the control group");
    if let Err(error) = patient.host.read(FILE) {
        return vec![Finding::unreadable(check, subject, FILE, &error, "").see(PAGE)];
    }
    let limits = limits::read(&patient.host);
    let least = [limits.memory_bytes, limits.memory_high_bytes].into_iter().flatten().min();
    let Some(bytes) = least else {
        let finding = Finding::new(check, subject, FILE, "no limit to be seen");
        let why = "It may use the host's memory; set 'maxmemory' all the same.";
        return vec![finding.all(Severity::Ok, why).see(PAGE)];
    };
    let finding = Finding::new(check, subject, FILE, numbers::memory(bytes));
    vec![
        finding
            .all(
                Severity::Advice,
                "Beyond it the kernel ends the server, or slows it down first. The page cache \
                 and, for a server that forks, the pages copied meanwhile count as well: set \
                 'maxmemory' well below it.",
            )
            .cure(
                "CONFIG SET maxmemory ... on the server",
                "the same in its configuration file, or a higher MemoryMax= in the unit",
            )
            .see(PAGE),
    ]
}

//! A server that runs: its own limits and settings, beside what the host gives it.

use weft_base::cpulist;
use weft_base::limits::RESERVED_FDS;

use super::{Finding, Patient};
use crate::apply::{Real, find};
use crate::doctor::finding::Severity;
use crate::doctor::running::Running;
use crate::host::limits;
use crate::report::numbers::memory;

/// Of the memory there is: how much the data may be limited to before there is no room for anything
/// else.
const ROOM: f64 = 0.9;
/// CPUs that others use from which on it is worth knowing, and the share of all from which on it
/// spoils latency.
const OTHERS: f64 = 0.2;
const MUCH: f64 = 0.25;

/// CPUs that others use now; nothing where nobody looked.
pub fn others(patient: &Patient) -> Vec<Finding> {
    let Some(neighbours) = &patient.neighbours else { return Vec::new() };
    let cpus = patient.machine.online().len().max(1);
    let who: Vec<String> = neighbours
        .named
        .iter()
        .map(|(name, pid, used)| format!("{name} ({pid}) {used:.1}"))
        .collect();
    let who = if who.is_empty() { String::new() } else { format!(": {}", who.join(", ")) };
    let value = format!("{:.1} of {cpus} CPUs, for half a second{who}", neighbours.cpus);
    let finding = Finding::new("others", "CPU time that others take now", "proc/stat", value);
    let why = "A thread of the server that finds its CPU taken waits for milliseconds, and all its \
               clients with it. Figures that are measured meanwhile are not to be trusted.";
    let severity = match neighbours.cpus {
        used if used >= MUCH * cpus as f64 => Severity::Warning,
        used if used > OTHERS => Severity::Advice,
        _ => return vec![finding.all(Severity::Ok, "Next to nothing.").see(STAT)],
    };
    vec![
        finding
            .all(severity, why)
            .cure(
                "stop them, or give the server CPUs of its own (weft-tune plan --port ...)",
                "AllowedCPUs= in the systemd units of the others",
            )
            .see(STAT),
    ]
}

const STAT: &str =
    "https://docs.kernel.org/filesystems/proc.html#miscellaneous-kernel-statistics-in-proc-stat";

/// Runs a check on the server that was named, where there is one.
fn with(patient: &Patient, look: impl Fn(&Running) -> Finding) -> Vec<Finding> {
    patient.running.iter().map(look).collect()
}

/// Whether it answered at all.
pub fn answers(patient: &Patient) -> Vec<Finding> {
    let Some(running) = &patient.running else { return Vec::new() };
    let Some(why) = &running.silent else { return Vec::new() };
    let file = format!("proc/{}", running.pid);
    let finding = Finding::new("server-answers", "what the server says", &file, "nothing");
    vec![finding.unknown(&format!(
        "Only what the kernel knows of the process is judged; the server said: {why}"
    ))]
}

/// `maxclients` beside the limit of open files of the process.
pub fn clients(patient: &Patient) -> Vec<Finding> {
    let look = |running: &Running| {
        let file = format!("proc/{}/limits", running.pid);
        let (check, subject) = ("server-clients", "open files of the server");
        let page = "https://man7.org/linux/man-pages/man2/getrlimit.2.html";
        let limits = match patient.host.read(&file) {
            Ok(limits) => limits,
            Err(error) => {
                return Finding::unreadable(check, subject, &file, &error, "").see(page);
            }
        };
        let soft = limits
            .lines()
            .find_map(|line| line.strip_prefix("Max open files")?.split_whitespace().next());
        let soft: u64 = soft.and_then(|word| word.parse().ok()).unwrap_or(u64::MAX);
        let Some(clients) = running.max_clients else {
            let finding = Finding::new(check, subject, &file, soft);
            return finding.unknown("It does not say how many clients it takes.").see(page);
        };
        let finding =
            Finding::new(check, subject, &file, format!("{soft}, for maxclients {clients}"));
        let finding = match clients + RESERVED_FDS <= soft {
            true => finding.all(Severity::Ok, "Enough for all its clients."),
            false => finding.all(
                Severity::Warning,
                "Every client is an open file: before it has as many as configured, it will refuse \
                 connections.",
            ),
        };
        let cure = format!("prlimit --pid {} --nofile={}", running.pid, clients + RESERVED_FDS);
        finding.cure(&cure, "LimitNOFILE= in the systemd unit").see(page)
    };
    with(patient, look)
}

/// `maxmemory` beside the memory there is.
pub fn memory_limit(patient: &Patient) -> Vec<Finding> {
    let look = |running: &Running| {
        let file = "proc/meminfo";
        let (check, subject) = ("server-memory", "maxmemory of the server");
        let page = "https://docs.kernel.org/admin-guide/cgroup-v2.html#memory";
        let group = limits::read(&patient.host).memory_bytes;
        let there = [group, crate::results::host::memory_bytes(patient.host.root())];
        let (Some(limit), Some(there)) = (running.max_memory, there.into_iter().flatten().min())
        else {
            let finding = Finding::new(check, subject, file, "not known");
            return finding.unknown("Its limit or the memory there is cannot be read.").see(page);
        };
        let value = match limit {
            0 => format!("none, of {}", memory(there)),
            limit => format!("{}, of {}", memory(limit), memory(there)),
        };
        let finding = Finding::new(check, subject, file, value);
        let finding = match limit {
            0 => finding.all(
                Severity::Advice,
                "It grows until the kernel ends it, or until the machine swaps.",
            ),
            limit if limit as f64 > ROOM * there as f64 => finding.all(
                Severity::Warning,
                "Beside the data a server needs memory for clients, for fragmentation and, where \
                 it forks to save, for what is written meanwhile: the kernel will end it before \
                 it comes to its limit.",
            ),
            _ => finding.all(Severity::Ok, "There is room beside it."),
        };
        let cure = format!("CONFIG SET maxmemory {}", (there as f64 * 0.7) as u64);
        finding.cure(&cure, "the same in its configuration file").see(page)
    };
    with(patient, look)
}

/// I/O threads beside the CPUs that the process may use.
pub fn threads(patient: &Patient) -> Vec<Finding> {
    let look = |running: &Running| {
        let file = format!("proc/{}/status", running.pid);
        let (check, subject) = ("server-threads", "I/O threads of the server");
        let page = "https://man7.org/linux/man-pages/man2/sched_setaffinity.2.html";
        let status = patient.host.text(&file).unwrap_or_default();
        let cpus = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
        let cpus = cpus.and_then(|list| cpulist::parse(list.trim()).ok());
        let process = find(&Real::at(patient.host.root()), running.pid);
        let (Some(cpus), Some(process)) = (cpus, process) else {
            let finding = Finding::new(check, subject, &file, "not known");
            return finding.unknown("Its threads and CPUs cannot be read.").see(page);
        };
        let (threads, cpus) =
            (process.io_threads(), cpus.intersection(&patient.machine.online()).len());
        let finding = Finding::new(check, subject, &file, format!("{threads} on {cpus} CPUs"));
        let finding = match threads > cpus {
            true => finding.judged(
                Severity::Advice,
                Severity::Warning,
                "More threads than CPUs. Those of Redis and Valkey wait for each other while they \
                 spin, and one that has no CPU holds up all: the throughput falls to a fraction. \
                 Weft lets those that it has no use for sleep.",
            ),
            false => finding.all(Severity::Ok, "Each may have a CPU."),
        };
        let cure = format!("CONFIG SET io-threads {}, where the server takes it", cpus.max(1));
        finding.cure(&cure, "io-threads in its configuration file").see(page)
    };
    with(patient, look)
}

/// `tcp-backlog` beside what the kernel allows.
pub fn backlog(patient: &Patient) -> Vec<Finding> {
    let look = |running: &Running| {
        let file = "proc/sys/net/core/somaxconn";
        let (check, subject) = ("server-backlog", "tcp-backlog of the server");
        let page = "https://man7.org/linux/man-pages/man2/listen.2.html";
        let most: Option<u64> = patient.host.number(file);
        let (Some(backlog), Some(most)) = (running.backlog, most) else {
            let finding = Finding::new(check, subject, file, "not known");
            return finding.unknown("It or somaxconn cannot be read.").see(page);
        };
        let finding = Finding::new(check, subject, file, format!("{backlog}, of {most}"));
        let finding = match backlog <= most {
            true => finding.all(Severity::Ok, "The kernel grants it."),
            false => finding.all(
                Severity::Warning,
                "The kernel makes it as small as somaxconn: when many clients come back at once, \
                 some wait a second or more for a second try.",
            ),
        };
        super::set(finding, "net.core.somaxconn", &backlog.to_string()).see(page)
    };
    with(patient, look)
}

/// What of it lies in swap.
pub fn swap(patient: &Patient) -> Vec<Finding> {
    let look = |running: &Running| {
        let file = format!("proc/{}/status", running.pid);
        let (check, subject) = ("server-swap", "memory of the server in swap");
        let page = "https://docs.kernel.org/filesystems/proc.html";
        let status = patient.host.text(&file).unwrap_or_default();
        let kib = status
            .lines()
            .find_map(|line| line.strip_prefix("VmSwap:")?.trim().strip_suffix(" kB"));
        let Some(kib) = kib.and_then(|kib| kib.trim().parse::<u64>().ok()) else {
            let finding = Finding::new(check, subject, &file, "not known");
            return finding.unknown("The kernel does not say.").see(page);
        };
        let finding = Finding::new(check, subject, &file, memory(kib << 10));
        let finding = match kib {
            0 => finding.all(Severity::Ok, "None of it."),
            _ => finding.all(
                Severity::Warning,
                "Whoever asks for what lies there waits for a disk, and so do all who wait for that \
                 thread.",
            ),
        };
        finding
            .cure("more memory, a smaller maxmemory, then swapoff -a", "vm.swappiness = 1")
            .see(page)
    };
    with(patient, look)
}

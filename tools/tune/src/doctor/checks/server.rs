//! A running server: its limits and settings compared with those of the host.

use weft_base::cpulist;
use weft_base::limits::RESERVED_FDS;

use super::{CheckInput, Finding};
use crate::apply::{Real, find};
use crate::doctor::finding::Severity;
use crate::doctor::running::Running;
use crate::host::limits;
use crate::report::numbers::memory;

/// The largest good `maxmemory` as a share of all memory. The rest is for client buffers,
/// fragmentation and the kernel.
const ROOM: f64 = 0.9;
/// The `maxmemory` that the advice names, as a share of all memory.
const ADVISED: f64 = 0.7;
/// CPUs used by other processes from which they are reported.
const OTHERS: f64 = 0.2;
/// The share of all CPUs used by other processes from which latency suffers.
const MUCH: f64 = 0.25;

/// CPUs that other processes use now; no finding if they were not measured.
pub fn others(input: &CheckInput) -> Vec<Finding> {
    let Some(neighbours) = &input.neighbours else { return Vec::new() };
    let cpus = input.machine.online().len().max(1);
    let who: Vec<String> = neighbours
        .named
        .iter()
        .map(|(name, pid, used)| format!("{name} ({pid}) {used:.1}"))
        .collect();
    let who = if who.is_empty() { String::new() } else { format!(": {}", who.join(", ")) };
    let value = format!("{:.1} of {cpus} CPUs, for half a second{who}", neighbours.cpus);
    let finding =
        Finding::new("others", "CPU time that other processes use now", "proc/stat", value);
    let why = "A server thread whose CPU is taken waits milliseconds, and its clients with it. \
               Don't trust figures measured meanwhile.";
    let port = input.running.as_ref().map_or("PORT".into(), |running| running.port.to_string());
    let severity = match neighbours.cpus {
        used if used >= MUCH * cpus as f64 => Severity::Warning,
        used if used > OTHERS => Severity::Advice,
        _ => return vec![finding.all(Severity::Ok, "Almost none.").see(STAT)],
    };
    vec![
        finding
            .all(severity, why)
            .fix(
                "Stop the other processes, or give the server its own CPUs",
                &format!("weft-tune plan --port {port}"),
                "set AllowedCPUs= in the systemd units of the other processes",
            )
            .see(STAT),
    ]
}

const STAT: &str =
    "https://docs.kernel.org/filesystems/proc.html#miscellaneous-kernel-statistics-in-proc-stat";

/// Runs a check on the server of `--port`, if there is one.
fn with(input: &CheckInput, check: impl Fn(&Running) -> Finding) -> Vec<Finding> {
    input.running.iter().map(check).collect()
}

/// Whether the server answered.
pub fn answers(input: &CheckInput) -> Vec<Finding> {
    let Some(running) = &input.running else { return Vec::new() };
    let Some(why) = &running.silent else { return Vec::new() };
    let file = format!("proc/{}", running.pid);
    let finding = Finding::new("server-answers", "answer of the server", &file, "none");
    vec![finding.unknown(&format!(
        "Only the process is judged, not the server's settings. The server said: {why}"
    ))]
}

/// `maxclients` compared with the process's limit of open files.
pub fn clients(input: &CheckInput) -> Vec<Finding> {
    let check = |running: &Running| {
        let file = format!("proc/{}/limits", running.pid);
        let (check, subject) = ("server-clients", "open files of the server");
        let page = "https://man7.org/linux/man-pages/man2/getrlimit.2.html";
        let limits = match input.host.read(&file) {
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
            return finding.unknown("The server does not report maxclients.").see(page);
        };
        let finding =
            Finding::new(check, subject, &file, format!("{soft}, for maxclients {clients}"));
        let finding = match clients + RESERVED_FDS <= soft {
            true => finding.all(Severity::Ok, "Enough for all clients."),
            false => finding.all(
                Severity::Warning,
                "Every client is an open file: the server refuses connections before it reaches \
                 maxclients.",
            ),
        };
        let wanted = clients + RESERVED_FDS;
        let change = format!("prlimit --pid {} --nofile={wanted}", running.pid);
        let keep = format!("set LimitNOFILE={wanted} in the systemd unit");
        finding.fix("Raise the server's limit of open files", &change, &keep).see(page)
    };
    with(input, check)
}

/// `maxmemory` compared with the memory of the machine and its control group.
pub fn memory_limit(input: &CheckInput) -> Vec<Finding> {
    let check = |running: &Running| {
        let file = "proc/meminfo";
        let (check, subject) = ("server-memory", "maxmemory of the server");
        let page = "https://docs.kernel.org/admin-guide/cgroup-v2.html#memory";
        let group = limits::read(&input.host).memory_bytes;
        let there = [group, crate::results::host::memory_bytes(input.host.root())];
        let (Some(limit), Some(there)) = (running.max_memory, there.into_iter().flatten().min())
        else {
            let finding = Finding::new(check, subject, file, "not known");
            return finding
                .unknown("Either maxmemory or the machine's memory cannot be read.")
                .see(page);
        };
        let value = match limit {
            0 => format!("none, of {}", memory(there)),
            limit => format!("{}, of {}", memory(limit), memory(there)),
        };
        let finding = Finding::new(check, subject, file, value);
        let finding = match limit {
            0 => finding.all(
                Severity::Warning,
                "Without maxmemory the server grows until the machine swaps or the kernel kills it.",
            ),
            limit if limit as f64 > ROOM * there as f64 => finding.all(
                Severity::Warning,
                "A server also needs memory for client buffers, fragmentation and, if it forks to \
                 save, for pages written meanwhile. The kernel kills it before it reaches maxmemory.",
            ),
            _ => finding.all(Severity::Ok, "Enough memory remains for other purposes."),
        };
        let change = format!("CONFIG SET maxmemory {}mb", (there as f64 * ADVISED) as u64 >> 20);
        let action = "Limit the server's memory";
        finding.fix(action, &change, "set maxmemory in its configuration file").see(page)
    };
    with(input, check)
}

/// I/O threads compared with the CPUs that the process may use.
pub fn threads(input: &CheckInput) -> Vec<Finding> {
    let check = |running: &Running| {
        let file = format!("proc/{}/status", running.pid);
        let (check, subject) = ("server-threads", "I/O threads of the server");
        let page = "https://man7.org/linux/man-pages/man2/sched_setaffinity.2.html";
        let status = input.host.text(&file).unwrap_or_default();
        let cpus = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
        let cpus = cpus.and_then(|list| cpulist::parse(list.trim()).ok());
        let process = find(&Real::at(input.host.root()), running.pid);
        let (Some(cpus), Some(process)) = (cpus, process) else {
            let finding = Finding::new(check, subject, &file, "not known");
            return finding
                .unknown("Either the threads or the CPUs of the process cannot be read.")
                .see(page);
        };
        let (threads, cpus) =
            (process.io_threads(), cpus.intersection(&input.machine.online()).len());
        let finding = Finding::new(check, subject, &file, format!("{threads} on {cpus} CPUs"));
        let finding = match threads > cpus {
            true => finding.judged(
                Severity::Advice,
                Severity::Warning,
                "Threads of Redis and Valkey spin while they wait for each other: one without a CPU \
                 delays all, and throughput collapses. Idle threads of Weft sleep.",
            ),
            false => finding.all(Severity::Ok, "There is a CPU for each thread."),
        };
        let change = format!("CONFIG SET io-threads {}", cpus.max(1));
        let action = "Run no more I/O threads than CPUs";
        finding.fix(action, &change, "set io-threads in its configuration file").see(page)
    };
    with(input, check)
}

/// `tcp-backlog` compared with the kernel's limit.
pub fn backlog(input: &CheckInput) -> Vec<Finding> {
    let check = |running: &Running| {
        let file = "proc/sys/net/core/somaxconn";
        let (check, subject) = ("server-backlog", "tcp-backlog of the server");
        let page = "https://man7.org/linux/man-pages/man2/listen.2.html";
        let most: Option<u64> = input.host.number(file);
        let (Some(backlog), Some(most)) = (running.backlog, most) else {
            let finding = Finding::new(check, subject, file, "not known");
            return finding.unknown("Either tcp-backlog or somaxconn cannot be read.").see(page);
        };
        let finding = Finding::new(check, subject, file, format!("{backlog}, of {most}"));
        let finding = match backlog <= most {
            true => finding.all(Severity::Ok, "The kernel allows it."),
            false => finding.all(
                Severity::Warning,
                "The kernel cuts tcp-backlog to somaxconn: when many clients reconnect at once, \
                 some retry after a second or more.",
            ),
        };
        super::set(finding, "net.core.somaxconn", &backlog.to_string()).see(page)
    };
    with(input, check)
}

/// Memory of the server in swap.
pub fn swap(input: &CheckInput) -> Vec<Finding> {
    let check = |running: &Running| {
        let file = format!("proc/{}/status", running.pid);
        let (check, subject) = ("server-swap", "memory of the server in swap");
        let page = "https://docs.kernel.org/filesystems/proc.html";
        let status = input.host.text(&file).unwrap_or_default();
        let kib = status
            .lines()
            .find_map(|line| line.strip_prefix("VmSwap:")?.trim().strip_suffix(" kB"));
        let Some(kib) = kib.and_then(|kib| kib.trim().parse::<u64>().ok()) else {
            let finding = Finding::new(check, subject, &file, "not known");
            return finding.unknown("The file does not mention swap.").see(page);
        };
        let finding = Finding::new(check, subject, &file, memory(kib << 10));
        let finding = match kib {
            0 => finding.all(Severity::Ok, "None."),
            _ => finding.all(
                Severity::Warning,
                "A request for a swapped key waits for the disk, and so do all clients of its thread.",
            ),
        };
        finding
            .fix(
                "Lower maxmemory or add memory, then empty the swap",
                "swapoff -a && swapon -a",
                "put 'vm.swappiness = 1' into /etc/sysctl.d/90-weft.conf",
            )
            .see(page)
    };
    with(input, check)
}

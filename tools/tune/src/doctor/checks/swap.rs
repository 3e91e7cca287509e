//! Swap.

use super::{CheckInput, Finding};
use crate::doctor::finding::Severity;

const FILE: &str = "proc/meminfo";

/// The highest good `vm.swappiness` for an in-memory server.
const SWAPPINESS: u32 = 10;

/// A line of `/proc/meminfo`, in KiB.
fn kib(meminfo: &str, name: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix(name))?;
    line.trim().strip_suffix("kB")?.trim().parse().ok()
}

/// `vm.swappiness`.
pub fn swappiness(input: &CheckInput) -> Vec<Finding> {
    let name = "vm.swappiness";
    let meminfo = input.host.text(FILE).unwrap_or_default();
    let finding = match super::sysctl(input, "swappiness", name, "Containers may hide it.") {
        Err(finding) => *finding,
        Ok((finding, value)) => match (kib(&meminfo, "SwapTotal:"), value.parse::<u32>()) {
            (_, Err(_)) => finding.unknown("Not a number."),
            (Some(0), Ok(_)) => finding.all(Severity::Ok, "Without effect: there is no swap."),
            (_, Ok(value)) if value <= SWAPPINESS => finding.all(
                Severity::Ok,
                "The kernel drops page cache before it swaps a server's memory.",
            ),
            (_, Ok(_)) => finding.all(
                Severity::Advice,
                "The kernel swaps a server's memory to keep more page cache. A thread waits \
                 milliseconds for a swapped key. 1 to 10 keeps swap for emergencies.",
            ),
        },
    };
    vec![
        super::set(finding, name, "1")
            .see("https://docs.kernel.org/admin-guide/sysctl/vm.html#swappiness"),
    ]
}

/// Swap in use.
pub fn used(input: &CheckInput) -> Vec<Finding> {
    let (check, subject) = ("swap-used", "swap in use");
    let page = "https://docs.kernel.org/filesystems/proc.html#meminfo";
    let text = match input.host.read(FILE) {
        Ok(text) => text,
        Err(error) => {
            return vec![Finding::unreadable(check, subject, FILE, &error, "").see(page)];
        }
    };
    let (Some(total), Some(free)) = (kib(&text, "SwapTotal:"), kib(&text, "SwapFree:")) else {
        let finding = Finding::new(check, subject, FILE, "not in the file");
        return vec![finding.unknown("The file does not mention swap.").see(page)];
    };
    let used = total.saturating_sub(free);
    let value = format!("{} MB of {} MB", used >> 10, total >> 10);
    let finding = Finding::new(check, subject, FILE, value);
    let finding = match (total, used) {
        (0, _) => finding.all(
            Severity::Ok,
            "There is none: the kernel kills a process when memory runs out, so set 'maxmemory'.",
        ),
        (_, 0) => finding.all(Severity::Ok, "None is used."),
        (_, _) => finding
            .all(
                Severity::Warning,
                "Memory of some process is on disk. If it is the server's ('grep VmSwap \
                 /proc/PID/status'), its requests wait for the disk.",
            )
            .fix(
                "Free memory, then empty the swap",
                "swapoff -a && swapon -a",
                "lower the server's 'maxmemory' or vm.swappiness, or set MemorySwapMax=0 in its \
                 systemd unit",
            ),
    };
    vec![finding.see(page)]
}

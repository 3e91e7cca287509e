//! The table of checks.
//!
//! A check is a function that looks at files and returns findings; each family has a file.
//! A new one is a function and a line here.

mod clock;
mod files;
mod frequency;
mod group;
mod interrupts;
mod memory;
mod mitigations;
mod network;
mod numa;
mod server;
mod steal;
mod swap;

use super::Patient;
use super::finding::Finding;

/// One check.
pub struct Check {
    /// Its name, as findings give it and the command line takes it.
    pub name: &'static str,
    /// What it has to say: always something.
    pub look: fn(&Patient) -> Vec<Finding>,
}

/// All checks, in the order of the report where they are equally grave.
pub const TABLE: &[Check] = &[
    Check { name: "thp-enabled", look: memory::huge_pages },
    Check { name: "thp-defrag", look: memory::defrag },
    Check { name: "overcommit", look: memory::overcommit },
    Check { name: "swappiness", look: swap::swappiness },
    Check { name: "swap-used", look: swap::used },
    Check { name: "somaxconn", look: network::somaxconn },
    Check { name: "syn-backlog", look: network::syn_backlog },
    Check { name: "open-files", look: files::open_files },
    Check { name: "file-max", look: files::file_max },
    Check { name: "governor", look: frequency::governor },
    Check { name: "turbo", look: frequency::turbo },
    Check { name: "numa-balancing", look: numa::balancing },
    Check { name: "irqbalance", look: interrupts::irqbalance },
    Check { name: "interrupts", look: interrupts::one_cpu },
    Check { name: "mitigations", look: mitigations::look },
    Check { name: "steal", look: steal::look },
    Check { name: "clocksource", look: clock::look },
    Check { name: "cpu-quota", look: group::cpu_time },
    Check { name: "memory-limit", look: group::memory },
];

/// Checks of what goes on now, and of a running server. They say nothing where nobody looked, or where
/// no server was named.
pub const LIVE: &[Check] = &[
    Check { name: "others", look: server::others },
    Check { name: "server-answers", look: server::answers },
    Check { name: "server-clients", look: server::clients },
    Check { name: "server-memory", look: server::memory_limit },
    Check { name: "server-threads", look: server::threads },
    Check { name: "server-backlog", look: server::backlog },
    Check { name: "server-swap", look: server::swap },
];

/// A variable of sysctl: its value, or the finding that it cannot be read.
fn sysctl(
    patient: &Patient,
    check: &'static str,
    name: &str,
    without: &str,
) -> Result<(Finding, String), Box<Finding>> {
    let file = format!("proc/sys/{}", name.replace('.', "/"));
    match patient.host.read(&file) {
        Ok(value) => {
            let finding = Finding::new(check, name, &file, &value)
                .lasting(patient.sysctl.lasting(name, &value));
            Ok((finding, value))
        }
        Err(error) => Err(Box::new(Finding::unreadable(check, name, &file, &error, without))),
    }
}

/// Adds the commands that set a variable of sysctl.
fn set(finding: Finding, name: &str, value: &str) -> Finding {
    finding.cure(
        &format!("sysctl -w {name}={value}"),
        &format!("the line '{name} = {value}' in /etc/sysctl.d/90-weft.conf"),
    )
}

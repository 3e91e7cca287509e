//! The table of checks.
//!
//! A check is a function that reads files and returns findings; each family has a file.
//! A new check is a function and a line in the table.

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

use super::CheckInput;
use super::finding::Finding;

/// One check.
pub struct Check {
    /// The name in findings and on the command line.
    pub name: &'static str,
    /// The hosts that it applies to.
    pub needs: Needs,
    /// Reads the value and judges it.
    pub check: fn(&CheckInput) -> Vec<Finding>,
}

/// The input that a check needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Needs {
    /// Files of the host only: the check always returns a finding.
    Files,
    /// The live machine or a running server: the check returns nothing without it.
    Live,
}

const fn files(name: &'static str, check: fn(&CheckInput) -> Vec<Finding>) -> Check {
    Check { name, needs: Needs::Files, check }
}

const fn live(name: &'static str, check: fn(&CheckInput) -> Vec<Finding>) -> Check {
    Check { name, needs: Needs::Live, check }
}

/// All checks, the most important first: findings of one severity are printed in this order. First
/// problems that end a server or stop it from saving, then those that stop its threads, then
/// refused connections, then slowness.
pub const TABLE: &[Check] = &[
    live("server-memory", server::memory_limit),
    live("server-swap", server::swap),
    files("swap-used", swap::used),
    files("overcommit", memory::overcommit),
    files("memory-limit", group::memory),
    live("others", server::others),
    files("steal", steal::check),
    files("cpu-quota", group::cpu_time),
    live("server-threads", server::threads),
    live("server-clients", server::clients),
    live("server-backlog", server::backlog),
    files("open-files", files::open_files),
    files("file-max", files::file_max),
    files("somaxconn", network::somaxconn),
    files("syn-backlog", network::syn_backlog),
    files("clocksource", clock::check),
    files("thp-enabled", memory::huge_pages),
    files("thp-defrag", memory::defrag),
    files("governor", frequency::governor),
    files("interrupts", interrupts::one_cpu),
    files("irqbalance", interrupts::irqbalance),
    files("numa-balancing", numa::balancing),
    files("swappiness", swap::swappiness),
    files("turbo", frequency::turbo),
    files("mitigations", mitigations::check),
    live("server-answers", server::answers),
];

/// A variable of sysctl: its value, or a finding that it can't be read.
fn sysctl(
    input: &CheckInput,
    check: &'static str,
    name: &str,
    without: &str,
) -> Result<(Finding, String), Box<Finding>> {
    let file = format!("proc/sys/{}", name.replace('.', "/"));
    match input.host.read(&file) {
        Ok(value) => {
            let finding = Finding::new(check, name, &file, &value)
                .lasting(input.sysctl.lasting(name, &value));
            Ok((finding, value))
        }
        Err(error) => Err(Box::new(Finding::unreadable(check, name, &file, &error, without))),
    }
}

/// Adds the commands that set a variable of sysctl.
fn set(finding: Finding, name: &str, value: &str) -> Finding {
    finding.fix(
        &format!("Set {name} to {value}"),
        &format!("sysctl -w {name}={value}"),
        &format!("put '{name} = {value}' into /etc/sysctl.d/90-weft.conf"),
    )
}

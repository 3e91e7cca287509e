//! Queues of connections that wait to be accepted.

use super::{Finding, Patient};
use crate::doctor::finding::Severity;

/// `tcp-backlog` of all three servers where it is not configured.
const BACKLOG: u64 = 511;

/// `net.core.somaxconn`.
pub fn somaxconn(patient: &Patient) -> Vec<Finding> {
    let why = "The kernel cuts a server's 'tcp-backlog' (511 by default) to this. When many \
               clients connect at once, as after a fail-over, those beyond it are dropped and \
               try again after a second and more.";
    vec![judge(patient, "somaxconn", "net.core.somaxconn", Severity::Warning, why)]
}

/// `net.ipv4.tcp_max_syn_backlog`.
pub fn syn_backlog(patient: &Patient) -> Vec<Finding> {
    let why = "How many connections may be half open. Beyond it the kernel answers with \
               cookies, or, without net.ipv4.tcp_syncookies, not at all.";
    vec![judge(patient, "syn-backlog", "net.ipv4.tcp_max_syn_backlog", Severity::Advice, why)]
}

fn judge(
    patient: &Patient,
    check: &'static str,
    name: &str,
    too_small: Severity,
    why: &str,
) -> Finding {
    let without = "It belongs to the network namespace; a container may not show it.";
    let finding = match super::sysctl(patient, check, name, without) {
        Err(finding) => *finding,
        Ok((finding, value)) => match value.parse::<u64>() {
            Ok(value) if value >= BACKLOG => {
                finding.all(Severity::Ok, "Enough for the default 'tcp-backlog' of 511.")
            }
            Ok(_) => finding.all(too_small, why),
            Err(_) => finding.unknown("This is no number that we know."),
        },
    };
    super::set(finding, name, "4096").see(match check {
        "somaxconn" => "https://docs.kernel.org/networking/ip-sysctl.html (somaxconn)",
        _ => "https://docs.kernel.org/networking/ip-sysctl.html (tcp_max_syn_backlog)",
    })
}

//! Queues of connections that wait for accept.

use super::{CheckInput, Finding};
use crate::doctor::finding::Severity;

/// `tcp-backlog` of all three servers by default.
const BACKLOG: u64 = 511;

/// `net.core.somaxconn`.
pub fn somaxconn(input: &CheckInput) -> Vec<Finding> {
    let why = "The kernel cuts a server's 'tcp-backlog' (511 by default) to this. When many \
               clients connect at once, as after a failover, some retry after a second or more.";
    vec![judge(input, "somaxconn", "net.core.somaxconn", Severity::Warning, why)]
}

/// `net.ipv4.tcp_max_syn_backlog`.
pub fn syn_backlog(input: &CheckInput) -> Vec<Finding> {
    let why = "Limits half-open connections if net.ipv4.tcp_syncookies is 0. With cookies, \
               connections beyond it lose some TCP options.";
    vec![judge(input, "syn-backlog", "net.ipv4.tcp_max_syn_backlog", Severity::Advice, why)]
}

fn judge(
    input: &CheckInput,
    check: &'static str,
    name: &str,
    too_small: Severity,
    why: &str,
) -> Finding {
    let without = "It belongs to the network namespace; containers may hide it.";
    let finding = match super::sysctl(input, check, name, without) {
        Err(finding) => *finding,
        Ok((finding, value)) => match value.parse::<u64>() {
            Ok(value) if value >= BACKLOG => {
                finding.all(Severity::Ok, "Enough for the default 'tcp-backlog' of 511.")
            }
            Ok(_) => finding.all(too_small, why),
            Err(_) => finding.unknown("Not a number."),
        },
    };
    super::set(finding, name, "4096").see(match check {
        "somaxconn" => "https://docs.kernel.org/networking/ip-sysctl.html (somaxconn)",
        _ => "https://docs.kernel.org/networking/ip-sysctl.html (tcp_max_syn_backlog)",
    })
}

//! Automatic NUMA balancing: the kernel moves memory between nodes.

use super::{CheckInput, Finding};
use crate::doctor::finding::Severity;

/// `kernel.numa_balancing`.
pub fn balancing(input: &CheckInput) -> Vec<Finding> {
    let (check, name) = ("numa-balancing", "kernel.numa_balancing");
    let nodes = input.machine.nodes.len();
    let without = "A kernel built without it has no such file.";
    let finding = match super::sysctl(input, check, name, without) {
        Err(finding) if nodes == 1 => {
            let why = format!("{} With one memory node it has no effect.", finding.why);
            finding.unknown(&why)
        }
        Err(finding) => *finding,
        Ok((finding, value)) => match value.parse::<u32>() {
            Ok(0) => finding.all(Severity::Ok, "Off."),
            Ok(_) if nodes == 1 => {
                finding.all(Severity::Ok, "Without effect: there is one memory node.")
            }
            Ok(_) => finding.all(
                Severity::Advice,
                "The kernel unmaps pages to see which node uses them: page faults in the middle of \
                 requests. A server bound to one node gains nothing; one on several nodes may.",
            ),
            Err(_) => finding.unknown("Not a number."),
        },
    };
    vec![
        super::set(finding, name, "0")
            .see("https://docs.kernel.org/admin-guide/sysctl/kernel.html#numa-balancing"),
    ]
}

//! Memory that the kernel moves between nodes.

use super::{Finding, Patient};
use crate::doctor::finding::Severity;

/// `kernel.numa_balancing`.
pub fn balancing(patient: &Patient) -> Vec<Finding> {
    let (check, name) = ("numa-balancing", "kernel.numa_balancing");
    let nodes = patient.machine.nodes.len();
    let without = "A kernel built without it has no such file.";
    let finding = match super::sysctl(patient, check, name, without) {
        Err(finding) if nodes == 1 => {
            let why = format!("{} With one memory node it would have no effect.", finding.why);
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
                "The kernel takes pages away now and then to see who touches them, and moves \
                 them between nodes: page faults in the middle of requests. For a server whose \
                 threads are bound to one node, where its memory is already, it can only cost; \
                 one that is spread over nodes may gain.",
            ),
            Err(_) => finding.unknown("This is no number that we know."),
        },
    };
    vec![
        super::set(finding, name, "0")
            .see("https://docs.kernel.org/admin-guide/sysctl/kernel.html#numa-balancing"),
    ]
}

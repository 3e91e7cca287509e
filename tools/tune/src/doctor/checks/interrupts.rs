//! The CPUs that take interrupts, and irqbalance, which moves them.

use super::{CheckInput, Finding};
use crate::cpus::Cpus;
use crate::doctor::finding::Severity;
use crate::host::net::{self, Interface};

const PAGE: &str = "https://docs.kernel.org/core-api/irq/irq-affinity.html";

/// Whether irqbalance runs, in the visible processes.
pub fn irqbalance(input: &CheckInput) -> Vec<Finding> {
    let (check, subject) = ("irqbalance", "irqbalance");
    let processes: Vec<String> = input
        .host
        .entries("proc")
        .into_iter()
        .filter(|name| name.bytes().all(|byte| byte.is_ascii_digit()))
        .collect();
    let comm = |pid: &String| input.host.text(&format!("proc/{pid}/comm"));
    let running = processes.iter().find(|pid| comm(pid).as_deref() == Some("irqbalance"));
    let finding = match (running, processes.is_empty()) {
        (_, true) => {
            let finding = Finding::new(check, subject, "proc", "no process visible");
            finding.unknown("Other processes are not visible.")
        }
        (None, false) => {
            let finding = Finding::new(check, subject, "proc", "not running, as far as visible");
            finding.all(Severity::Ok, "Interrupts stay on their CPUs.")
        }
        (Some(pid), false) => {
            let file = format!("proc/{pid}/comm");
            Finding::new(check, subject, &file, format!("runs as process {pid}"))
                .all(
                    Severity::Advice,
                    "It moves interrupts between CPUs every ten seconds, also onto the CPUs of a \
                     server's threads, and undoes the placement by 'weft-tune apply'.",
                )
                .fix(
                    "Stop irqbalance, or exclude the interrupts with IRQBALANCE_ARGS=--banirq=N",
                    "systemctl stop irqbalance",
                    "systemctl disable irqbalance",
                )
        }
    };
    vec![finding.see("https://man7.org/linux/man-pages/man1/irqbalance.1.html")]
}

/// Interfaces with several interrupts that all go to one CPU of several.
pub fn one_cpu(input: &CheckInput) -> Vec<Finding> {
    let (check, subject) = ("interrupts", "interrupts of network interfaces");
    let file = "proc/irq";
    let busy: Vec<Interface> = net::read(&input.host)
        .into_iter()
        .filter(|interface| interface.state == "up" && interface.irqs.len() > 1)
        .collect();
    let bound: Vec<(&str, usize)> =
        busy.iter().filter_map(|one| Some((one.name.as_str(), only_cpu(one)?))).collect();
    let one_core = input.machine.cores(&input.machine.online()) == 1;
    let finding = match (busy.is_empty(), bound.is_empty()) {
        (true, _) => Finding::new(check, subject, file, "no interface with several")
            .all(Severity::Ok, "There is nothing to spread."),
        (false, _) if one_core => Finding::new(check, subject, file, "all on one core")
            .all(Severity::Ok, "There is no other core."),
        (false, true) => Finding::new(check, subject, file, "may go to several CPUs")
            .all(Severity::Ok, "'weft-tune topology' shows which CPUs do the work."),
        (false, false) => {
            let names: Vec<String> =
                bound.iter().map(|(name, cpu)| format!("{name} on CPU {cpu}")).collect();
            Finding::new(check, subject, file, names.join(", "))
                .all(
                    Severity::Advice,
                    "One CPU handles all packets of an interface and limits every server. On a \
                     machine of six cores, spreading them gave 20 % more SET and 40 % more GET.",
                )
                .fix(
                    "Spread the interrupts over several CPUs",
                    "weft-tune plan, then weft-tune apply",
                    "install a service that runs the commands of 'weft-tune plan'",
                )
                .lasting("a restart brings back the choice of the driver or of irqbalance")
        }
    };
    vec![finding.see(PAGE)]
}

/// The one CPU that all interrupts of an interface must go to.
fn only_cpu(interface: &Interface) -> Option<usize> {
    let mut all = interface.irqs.iter().map(|irq| irq.affinity.as_ref());
    let first: &Cpus = all.next()??;
    let cpu = first.iter().next()?;
    (first.len() == 1 && all.all(|other| other == Some(first))).then_some(cpu)
}

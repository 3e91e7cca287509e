//! The map: the work of each CPU, node by node.
//!
//! Neighbours with the same work are one line, so that a thousand free CPUs don't hide the ten
//! others.

use std::fmt::Write;

use weft_base::machine::{Cpu, Machine, Node};

use crate::cpus::strided;
use crate::plan::model::{Instance, Plan};

const KIB_PER_GIB: f64 = (1u64 << 20) as f64;

/// The map.
pub fn text(machine: &Machine, plan: &Plan) -> String {
    let mut out = String::new();
    for node in machine.nodes.iter().filter(|node| !node.cpus.is_empty()) {
        write_node(machine, plan, node, &mut out);
    }
    out
}

fn write_node(machine: &Machine, plan: &Plan, node: &Node, out: &mut String) {
    let memory = match node.memory_kib {
        Some(kib) => format!(", {:.1} GiB", kib as f64 / KIB_PER_GIB),
        None => String::new(),
    };
    let _ = writeln!(out, "Node {}: CPUs {}{memory}", node.id, strided(&node.cpus));
    let _ = writeln!(out, "  {:>9}  {:>9}  runs", "CPU", "core");
    let cpus: Vec<&Cpu> = machine.cpus.iter().filter(|cpu| cpu.node == node.id).collect();
    let runs: Vec<String> = cpus.iter().map(|cpu| runs_on(plan, cpu.id)).collect();
    let mut at = 0;
    while at < cpus.len() {
        let same = runs[at..].iter().take_while(|text| **text == runs[at]).count();
        let group = &cpus[at..at + same];
        let numbers = strided(&group.iter().map(|cpu| cpu.id).collect());
        let cores = strided(&group.iter().map(|cpu| cpu.core).collect());
        let _ = writeln!(out, "  {numbers:>9}  {cores:>9}  {}", runs[at]);
        at += same;
    }
}

/// The work on a CPU.
fn runs_on(plan: &Plan, cpu: usize) -> String {
    if !plan.usable.contains(cpu) {
        return "not usable here".to_string();
    }
    let mut runs: Vec<String> = Vec::new();
    if plan.interrupts.contains(cpu) {
        runs.push("interrupts only".to_string());
    }
    for irq in plan.interfaces.iter().flat_map(|interface| &interface.irqs) {
        if irq.cpus.contains(cpu) {
            runs.push(format!("irq {} {}", irq.number, irq.name));
        }
    }
    runs.extend(plan.instances.iter().flat_map(|instance| of_instance(instance, cpu)));
    if runs.is_empty() { "free".to_string() } else { runs.join(", ") }
}

fn of_instance(instance: &Instance, cpu: usize) -> Vec<String> {
    let mut runs = Vec::new();
    let name = &instance.name;
    match instance.io.iter().position(|&own| own == cpu) {
        Some(0) => runs.push(format!("{name} main thread")),
        Some(thread) => runs.push(format!("{name} I/O thread {thread}")),
        None if instance.io.is_empty() && instance.server.contains(cpu) => {
            runs.push(format!("{name} any I/O thread"));
        }
        None => {}
    }
    if instance.background.contains(cpu) {
        runs.push(format!("{name} background"));
    }
    runs
}

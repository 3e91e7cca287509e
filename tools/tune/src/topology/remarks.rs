//! Remarks on totals that disagree: parts of a machine that a reader would otherwise miscount.
//!
//! [`Machine`] puts each CPU into exactly one node, so the kernel's lists of nodes are read here
//! again. Containers often hide a part of the CPUs or of the memory and leave the nodes unchanged;
//! firmware leaves CPUs out of its tables.

use weft_base::machine::Machine;

use crate::cpus::{Cpus, strided};
use crate::host::Host;
use crate::host::limits::Limits;
use crate::report::numbers::memory;

/// A difference between two totals of memory, as a share of the larger one, that is worth a remark.
/// The kernel counts both alike, so any disagreement has a cause; less than this changes no
/// decision.
const MEMORY_DIFFERS: f64 = 0.01;

/// All remarks.
pub fn read(
    host: &Host,
    machine: &Machine,
    memory_bytes: Option<u64>,
    limits: &Limits,
) -> Vec<String> {
    let mut remarks = node_cpus(host, machine);
    remarks.extend(node_memory(machine, memory_bytes));
    remarks.extend(usable_cpus(machine));
    if let Some(cpu) = limits.cpu
        && cpu.cpus() < machine.usable().len() as f64
    {
        let usable = counted(machine.usable().len());
        remarks.push(format!("the control group leaves the time of {:.2} of {usable}", cpu.cpus()));
    }
    if let (Some(limit), Some(all)) = (limits.memory_bytes, memory_bytes)
        && limit < all
    {
        let (limit, all) = (memory(limit), memory(all));
        remarks.push(format!("the control group limits memory to {limit} of {all}"));
    }
    remarks
}

/// Online CPUs in no node or in several, and CPUs of nodes that are not online. Empty on a kernel
/// without files of nodes.
fn node_cpus(host: &Host, machine: &Machine) -> Vec<String> {
    let online = machine.online();
    let folder = |id: usize| format!("sys/devices/system/node/node{id}/cpulist");
    let listed: Vec<(usize, Cpus)> = machine
        .nodes
        .iter()
        .filter_map(|node| Some((node.id, host.list(&folder(node.id))?)))
        .collect();
    if listed.is_empty() {
        return Vec::new();
    }
    let mut remarks = Vec::new();
    let nodes_of = |cpu: usize| listed.iter().filter(|(_, cpus)| cpus.contains(cpu)).count();
    let online_in = |found: fn(usize) -> bool| {
        Cpus(online.iter().filter(|&cpu| found(nodes_of(cpu))).collect())
    };
    let (homeless, shared) = (online_in(|nodes| nodes == 0), online_in(|nodes| nodes > 1));
    if !homeless.is_empty() {
        let (cpus, first) = (strided(&homeless), machine.nodes[0].id);
        remarks.push(format!("no memory node lists CPUs {cpus}: node {first} shows them"));
    }
    if !shared.is_empty() {
        let cpus = strided(&shared);
        remarks.push(format!("several memory nodes list CPUs {cpus}: the first one shows them"));
    }
    for (id, cpus) in &listed {
        let absent = cpus.without(&online);
        if !absent.is_empty() {
            let cpus = strided(&absent);
            remarks.push(format!("node {id} lists CPUs {cpus}, which are not online"));
        }
    }
    remarks
}

/// The memory of all nodes compared with that of the machine.
fn node_memory(machine: &Machine, memory_bytes: Option<u64>) -> Option<String> {
    let all = memory_bytes?;
    let known = |node: &weft_base::machine::Node| node.memory_kib.map(|kib| kib << 10);
    let sum: u64 = machine.nodes.iter().filter_map(known).sum();
    let unknown: Vec<String> = machine
        .nodes
        .iter()
        .filter(|node| known(node).is_none())
        .map(|node| node.id.to_string())
        .collect();
    if !unknown.is_empty() {
        return Some(format!("the memory of node {} is not readable", unknown.join(", ")));
    }
    let differs = all.abs_diff(sum) as f64 > MEMORY_DIFFERS * all.max(sum) as f64;
    differs
        .then(|| format!("the nodes have {} of memory, the machine {}", memory(sum), memory(all)))
}

/// CPUs that this process may not use.
fn usable_cpus(machine: &Machine) -> Option<String> {
    let (online, usable) = (machine.online(), machine.usable());
    if online.intersection(&machine.allowed).is_empty() {
        let cpus = strided(&machine.allowed);
        return Some(format!("the affinity allows CPUs {cpus}, but none of these is online"));
    }
    (usable.len() < online.len()).then(|| {
        format!(
            "affinity or cpuset allow {} of {} that are online",
            usable.len(),
            counted(online.len())
        )
    })
}

fn counted(cpus: usize) -> String {
    format!("{cpus} CPU{}", if cpus == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::super::report;
    use crate::host::Host;
    use weft_testkit::machines::{Layout, Machine, known};

    fn remarks(machine: &Machine) -> Vec<String> {
        report::read(&Host::new(machine.root())).remarks
    }

    #[test]
    #[ignore = "long: cargo xtask test --all"]
    fn machine_whose_totals_agree_has_no_remark() {
        // Limited machines have remarks. The largest one has thousands of files and adds no case.
        let others = ["container", "cgroup-v1", "cgroup-v2", "over-1024"];
        for (name, layout) in known::all().iter().filter(|(name, _)| !others.contains(name)) {
            assert_eq!(remarks(&layout.build()), Vec::<String>::new(), "{name}");
        }
        assert_eq!(remarks(&Machine::empty()), Vec::<String>::new());
    }

    #[test]
    fn remark_names_cpus_in_no_node_in_several_and_offline() {
        let machine = known::interleaved().build();
        let node = |id: usize| format!("sys/devices/system/node/node{id}/cpulist");
        machine.write(&node(0), "0-36:2\n");
        let found = remarks(&machine);
        assert_eq!(found, ["no memory node lists CPUs 38: node 0 shows them"]);
        machine.write(&node(0), "0-38:2,1\n");
        let found = remarks(&machine);
        assert_eq!(found, ["several memory nodes list CPUs 1: the first one shows them"]);
        machine.write(&node(0), "0-38:2,40-43\n");
        assert_eq!(remarks(&machine), ["node 0 lists CPUs 40-43, which are not online"]);
    }

    #[test]
    fn remark_compares_memory_of_nodes_with_the_machine() {
        let machine = known::two_sockets(false).build();
        let total = |gib: u64| format!("MemTotal: {} kB\n", gib << 20);
        machine.write("proc/meminfo", total(16));
        let found = remarks(&machine);
        assert_eq!(found, ["the nodes have 128.0 GiB of memory, the machine 16.0 GiB"]);
        machine.write("proc/meminfo", total(127));
        assert_eq!(remarks(&machine), Vec::<String>::new(), "less than a hundredth");
        machine.remove("sys/devices/system/node/node1/meminfo");
        assert_eq!(remarks(&machine), ["the memory of node 1 is not readable"]);
    }

    #[test]
    fn remark_names_limits_of_this_process() {
        for version in [1, 2] {
            assert_eq!(
                remarks(&known::limited(version).build()),
                [
                    "affinity or cpuset allow 4 of 16 CPUs that are online",
                    "the control group leaves the time of 2.50 of 4 CPUs",
                    "the control group limits memory to 4.0 GiB of 32.0 GiB",
                ]
            );
        }
        let layout = Layout { allowed: Some("70".to_string()), ..known::six_cores() };
        let found = remarks(&layout.build());
        assert_eq!(found, ["the affinity allows CPUs 70, but none of these is online"]);
    }
}

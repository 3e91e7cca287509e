//! A machine as the kernel describes it: CPUs, cores, sockets and memory nodes, and the part that
//! this process may use.
//!
//! Placing threads needs to know which CPUs share a core (each slows the other down) and which
//! share a memory node (crossing it costs time on every cache miss). The kernel has this in a few
//! hundred small files. [`Machine::read`] turns them into one value, and [`Machine::preferred`]
//! derives the order in which threads should take CPUs. The server places its threads in this
//! order, and `weft-tune` plans with the same code, so its plans match the server.
//!
//! ```text
//! machine ── node 0 (memory) ── socket ── core ── CPU, CPU     what the kernel calls a CPU is
//!         └─ node 1 (memory) ── socket ── core ── CPU, CPU     a hardware thread of a core
//! ```
//!
//! Everything is read below a root folder, so that tests can describe other machines. Nothing
//! fails: containers hide parts of `/sys`, virtual machines omit others, and a server must start on
//! all of them. Missing and invalid facts become the plain case: one node, and each CPU its own
//! core.
//!
//! | file below `/sys/devices/system` | says |
//! |---|---|
//! | `cpu/online`, `cpu/present` | which CPUs run, which could |
//! | `cpu/cpuN/topology/core_cpus_list` (`thread_siblings_list` before Linux 5.3) | which CPUs share the core |
//! | `cpu/cpuN/topology/physical_package_id`, `die_id`, `core_id` | the socket; the core, where no list says it |
//! | `cpu/cpuN/cpu_capacity`, `cpufreq/cpuinfo_max_freq` | relative speed |
//! | `node/online`, `node/nodeN/cpulist`, `distance`, `meminfo` | the memory nodes |
//!
//! They are described in the kernel's `Documentation/admin-guide/cputopology.rst` and
//! `Documentation/ABI/stable/sysfs-devices-node`.

mod order;
mod read;

#[cfg(test)]
mod tests;

use crate::cgroup::CpuQuota;
use crate::cpulist::CpuSet;

/// A machine, or its visible part.
///
/// However little could be read: there is at least one CPU and one node, each CPU is in exactly the
/// node that it names, and siblings name each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Machine {
    /// The CPUs that are online, in ascending order of their numbers.
    pub cpus: Vec<Cpu>,
    /// CPUs that are present but offline.
    pub offline: CpuSet,
    /// The memory nodes, in ascending order of their numbers; some may have no CPUs.
    pub nodes: Vec<Node>,
    /// The CPUs on which this process may run: the affinity at its start, which the kernel keeps
    /// within the control group's cpuset.
    pub allowed: CpuSet,
    /// The control group's limit of CPU time, if any.
    pub quota: Option<CpuQuota>,
}

/// A CPU in the kernel's sense: one hardware thread of a core.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cpu {
    /// The kernel's number of the CPU.
    pub id: usize,
    /// The [`Node::id`] of its memory node.
    pub node: usize,
    /// The socket.
    pub package: usize,
    /// The physical core, counted over the whole machine from 0 in the order of first CPUs.
    /// This is not the kernel's `core_id`, which starts anew in each socket and has gaps.
    pub core: usize,
    /// The online CPUs of this core, including itself.
    pub siblings: CpuSet,
    /// The highest frequency, in kHz.
    pub max_khz: Option<u64>,
    /// Speed relative to the machine's fastest CPU, which has 1024; known on few machines.
    pub capacity: Option<u32>,
}

/// A memory node: a memory and the CPUs near it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// The kernel's number of the node. There may be gaps.
    pub id: usize,
    /// Its online CPUs.
    pub cpus: CpuSet,
    /// The cost of reaching each node's memory, by position in [`Machine::nodes`]; 10 is the cost
    /// of the node's own memory. Reported by firmware, not measured.
    pub distances: Vec<u32>,
    /// Size of its memory.
    pub memory_kib: Option<u64>,
    /// Unused memory at the time of reading.
    pub free_kib: Option<u64>,
}

impl Machine {
    /// The online CPUs that this process may use; never empty.
    pub fn usable(&self) -> CpuSet {
        let online = self.online();
        let usable = online.intersection(&self.allowed);
        if usable.is_empty() { online } else { usable }
    }

    /// The online CPUs.
    pub fn online(&self) -> CpuSet {
        self.cpus.iter().map(|cpu| cpu.id).collect()
    }

    /// A CPU by its number, if it is online. O(log CPUs).
    pub fn cpu(&self, id: usize) -> Option<&Cpu> {
        self.cpus.binary_search_by_key(&id, |cpu| cpu.id).ok().map(|at| &self.cpus[at])
    }

    /// A node by its number.
    pub fn node(&self, id: usize) -> Option<&Node> {
        self.nodes.iter().find(|node| node.id == id)
    }

    /// The number of physical cores of `cpus`.
    pub fn cores(&self, cpus: &CpuSet) -> usize {
        let mut cores: Vec<usize> =
            self.cpus.iter().filter(|cpu| cpus.contains(cpu.id)).map(|cpu| cpu.core).collect();
        cores.sort_unstable();
        cores.dedup();
        cores.len()
    }
}

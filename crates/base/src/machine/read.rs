//! Reads a machine from the files of the kernel.
//!
//! Two facts are not taken from the files directly. A core is the set of CPUs with the same list of
//! siblings, not the same `core_id`: that number is the hardware's, repeats over sockets and dies,
//! and is -1 or 0 for every CPU on some virtual machines. And a CPU belongs to the first node that
//! lists it, or to the first node if none does, so that nodes never overlap.

use super::{Cpu, Machine, Node};
use crate::cgroup;
use crate::cpulist::{self, CpuSet};
use crate::topology;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::str::FromStr;

/// Distance of a node to its own memory, in the kernel's units, if no file has it.
const LOCAL_DISTANCE: u32 = 10;

/// Distance to the memory of another node, if no file has it.
const REMOTE_DISTANCE: u32 = 20;

impl Machine {
    /// Reads the machine whose `/proc` and `/sys` are below `root`. `/` is this machine, as the
    /// calling thread sees it.
    ///
    /// Never fails; see the [module](super) for the defaults of unreadable facts. Opens about seven
    /// small files for each CPU, so it is meant for start-up.
    pub fn read(root: &Path) -> Self {
        let files = Files(root);
        let this = root == Path::new("/");
        let affinity = if this { Some(topology::allowed_cpus()) } else { files.allowed() };
        let online = files
            .list("sys/devices/system/cpu/online")
            .filter(|cpus| !cpus.is_empty())
            .or_else(|| affinity.clone())
            .unwrap_or_else(|| CpuSet::from_iter([0]));
        let present = files.list("sys/devices/system/cpu/present").unwrap_or_default();
        let offline = present.iter().filter(|&cpu| !online.contains(cpu)).collect();
        let nodes = files.nodes(&online);
        let cpus = files.cpus(&online, &nodes);
        let allowed = affinity.unwrap_or(online);
        Self { cpus, offline, nodes, allowed, quota: cgroup::cpu_quota(root) }
    }
}

/// The most nodes that a kernel supports. A file with more is not a list of nodes, and each node
/// has a distance to each other.
const MAX_NODES: usize = 1024;

/// The identity of a core, equal for all its CPUs.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum CoreKey {
    /// The lowest CPU of those that list each other as siblings.
    First(usize),
    /// The hardware's numbers of socket, die and core, if there is no such list.
    Numbers(usize, usize, usize),
}

/// The files below a root.
struct Files<'a>(&'a Path);

impl Files<'_> {
    fn text(&self, path: &str) -> Option<String> {
        fs::read_to_string(self.0.join(path)).ok()
    }

    fn number<T: FromStr>(&self, path: &str) -> Option<T> {
        self.text(path)?.trim().parse().ok()
    }

    fn list(&self, path: &str) -> Option<CpuSet> {
        cpulist::parse(&self.text(path)?).ok()
    }

    /// The affinity in `/proc/self/status`.
    fn allowed(&self) -> Option<CpuSet> {
        let status = self.text("proc/self/status")?;
        let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?;
        cpulist::parse(list).ok().filter(|cpus| !cpus.is_empty())
    }

    fn nodes(&self, online: &CpuSet) -> Vec<Node> {
        // Node numbers have the same format as CPU numbers.
        let ids: Vec<usize> = self
            .list("sys/devices/system/node/online")
            .filter(|ids| (1..=MAX_NODES).contains(&ids.len()))
            .unwrap_or_else(|| CpuSet::from_iter([0]))
            .iter()
            .collect();
        let mut homeless: Vec<usize> = online.iter().collect();
        let mut nodes: Vec<Node> = (0..ids.len())
            .map(|at| {
                let mut node = self.node(&ids, at);
                let listed = std::mem::take(&mut node.cpus);
                let (own, rest) = homeless.iter().partition(|&&cpu| listed.contains(cpu));
                node.cpus = Vec::into_iter(own).collect();
                homeless = rest;
                node
            })
            .collect();
        homeless.into_iter().for_each(|cpu| nodes[0].cpus.insert(cpu));
        nodes
    }

    /// The node at a position of the list, with the CPUs that its own file names.
    fn node(&self, ids: &[usize], at: usize) -> Node {
        let id = ids[at];
        let folder = format!("sys/devices/system/node/node{id}");
        let distances = self
            .text(&format!("{folder}/distance"))
            .and_then(|text| text.split_whitespace().map(|word| word.parse().ok()).collect())
            .filter(|distances: &Vec<u32>| distances.len() == ids.len())
            .unwrap_or_else(|| {
                let plain = |other| if other == at { LOCAL_DISTANCE } else { REMOTE_DISTANCE };
                (0..ids.len()).map(plain).collect()
            });
        let memory = match self.text(&format!("{folder}/meminfo")) {
            // `Node 0 MemTotal:       32143 kB`
            Some(text) => Memory::parse(&text, &format!("Node {id} ")),
            // A single node is the whole machine.
            None if ids.len() == 1 => {
                Memory::parse(&self.text("proc/meminfo").unwrap_or_default(), "")
            }
            None => Memory::default(),
        };
        Node {
            id,
            cpus: self.list(&format!("{folder}/cpulist")).unwrap_or_default(),
            distances,
            memory_kib: memory.total,
            free_kib: memory.free,
        }
    }

    fn cpus(&self, online: &CpuSet, nodes: &[Node]) -> Vec<Cpu> {
        let mut node_of: BTreeMap<usize, usize> = BTreeMap::new();
        for node in nodes {
            node_of.extend(node.cpus.iter().map(|cpu| (cpu, node.id)));
        }
        let keys: Vec<CoreKey> = online.iter().map(|cpu| self.core_key(cpu, online)).collect();
        let mut cores: BTreeMap<CoreKey, (usize, CpuSet)> = BTreeMap::new();
        for (cpu, key) in online.iter().zip(&keys) {
            let next = cores.len();
            cores.entry(*key).or_insert_with(|| (next, CpuSet::new())).1.insert(cpu);
        }
        let cpu = |(id, key): (usize, &CoreKey)| {
            let (core, siblings) = &cores[key];
            let folder = format!("sys/devices/system/cpu/cpu{id}");
            Cpu {
                id,
                node: node_of[&id],
                package: self
                    .number(&format!("{folder}/topology/physical_package_id"))
                    .unwrap_or(0),
                core: *core,
                siblings: siblings.clone(),
                max_khz: self.number(&format!("{folder}/cpufreq/cpuinfo_max_freq")),
                capacity: self.number(&format!("{folder}/cpu_capacity")),
            }
        };
        online.iter().zip(&keys).map(cpu).collect()
    }

    fn core_key(&self, cpu: usize, online: &CpuSet) -> CoreKey {
        let folder = format!("sys/devices/system/cpu/cpu{cpu}/topology");
        let siblings = ["core_cpus_list", "thread_siblings_list"]
            .into_iter()
            .find_map(|name| self.list(&format!("{folder}/{name}")))
            .filter(|siblings| siblings.contains(cpu));
        if let Some(first) = siblings.and_then(|cpus| cpus.intersection(online).iter().next()) {
            return CoreKey::First(first);
        }
        let number = |name| self.number::<usize>(&format!("{folder}/{name}"));
        match number("core_id") {
            Some(core) => CoreKey::Numbers(
                number("physical_package_id").unwrap_or(0),
                number("die_id").unwrap_or(0),
                core,
            ),
            None => CoreKey::First(cpu),
        }
    }
}

/// The two relevant lines of a `meminfo`, in KiB.
#[derive(Default)]
struct Memory {
    total: Option<u64>,
    free: Option<u64>,
}

impl Memory {
    fn parse(text: &str, prefix: &str) -> Self {
        let value = |name: &str| {
            let lines =
                text.lines().filter_map(|line| line.strip_prefix(prefix)?.strip_prefix(name));
            lines.map(str::trim).find_map(|rest| rest.strip_suffix("kB")?.trim().parse().ok())
        };
        Self { total: value("MemTotal:"), free: value("MemFree:") }
    }
}

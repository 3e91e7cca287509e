//! The displayed facts, in the form of `--json`.

use std::collections::BTreeMap;

use serde::Serialize;
use weft_base::machine::{self, Machine};

use super::caches::{self, Caches};
use super::remarks;
use crate::cpus::Cpus;
use crate::host::Host;
use crate::host::limits::{self, Limits};
use crate::host::net::{self, Interface};

/// A machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Report {
    /// CPUs that run.
    pub online: Cpus,
    /// CPUs that are switched off.
    pub offline: Cpus,
    /// CPUs that this process may use: its affinity, within its cpuset.
    pub usable: Cpus,
    /// Physical memory that the kernel may use, as reports of sweeps show it.
    pub memory_bytes: Option<u64>,
    /// Memory nodes.
    pub nodes: Vec<Node>,
    /// Sockets with their cores.
    pub sockets: Vec<Socket>,
    /// Caches of all levels.
    pub caches: Vec<Caches>,
    /// Network interfaces.
    pub interfaces: Vec<Interface>,
    /// The limits of control groups.
    pub limits: Limits,
    /// Totals that disagree, as text.
    pub remarks: Vec<String>,
}

/// A memory node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Node {
    /// The kernel's number of the node.
    pub id: usize,
    /// Its CPUs that run.
    pub cpus: Cpus,
    /// Its memory.
    pub memory_kib: Option<u64>,
    /// Its unused part.
    pub free_kib: Option<u64>,
    /// To each node, in the order of the list of nodes.
    pub distances: Vec<u32>,
}

/// A socket.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Socket {
    /// The kernel's number of the socket.
    pub id: usize,
    /// Its CPUs that run.
    pub cpus: Cpus,
    /// Its cores.
    pub cores: Vec<Core>,
}

/// A physical core.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Core {
    /// Counted over the whole machine.
    pub id: usize,
    /// The memory node of its first CPU.
    pub node: usize,
    /// Its CPUs: with SMT several siblings.
    pub cpus: Cpus,
    /// The highest frequency of its first CPU.
    pub max_khz: Option<u64>,
    /// Speed relative to the fastest core, which has 1024; known on few machines.
    pub capacity: Option<u32>,
}

impl Report {
    /// The number of cores.
    pub fn cores(&self) -> usize {
        self.sockets.iter().map(|socket| socket.cores.len()).sum()
    }
}

/// Reads all facts.
pub fn read(host: &Host) -> Report {
    let machine = Machine::read(host.root());
    let online = Cpus(machine.online());
    let memory_bytes = crate::results::host::memory_bytes(host.root());
    let limits = limits::read(host);
    Report {
        remarks: remarks::read(host, &machine, memory_bytes, &limits),
        offline: Cpus(machine.offline.clone()),
        usable: Cpus(machine.usable()),
        memory_bytes,
        nodes: machine.nodes.iter().map(node).collect(),
        sockets: sockets(&machine),
        caches: caches::read(host, &online),
        interfaces: net::read(host),
        limits,
        online,
    }
}

fn node(node: &machine::Node) -> Node {
    Node {
        id: node.id,
        cpus: Cpus(node.cpus.clone()),
        memory_kib: node.memory_kib,
        free_kib: node.free_kib,
        distances: node.distances.clone(),
    }
}

fn sockets(machine: &Machine) -> Vec<Socket> {
    let mut sockets: BTreeMap<usize, Socket> = BTreeMap::new();
    for cpu in &machine.cpus {
        let socket = sockets.entry(cpu.package).or_insert_with(|| Socket {
            id: cpu.package,
            cpus: Cpus::default(),
            cores: Vec::new(),
        });
        socket.cpus.0.insert(cpu.id);
        // CPUs come in ascending order, so the first CPU of a core creates it.
        if cpu.siblings.iter().next() == Some(cpu.id) {
            socket.cores.push(Core {
                id: cpu.core,
                node: cpu.node,
                cpus: Cpus(cpu.siblings.clone()),
                max_khz: cpu.max_khz,
                capacity: cpu.capacity,
            });
        }
    }
    sockets.into_values().collect()
}

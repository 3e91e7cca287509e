//! A short description of a machine, and the files made from it.

use super::Machine;
use super::network::{self, Interface};
use std::collections::BTreeSet;
use std::fmt::Write;

/// The place of a CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The kernel's number of the CPU.
    pub id: usize,
    /// Its memory node.
    pub node: usize,
    /// Its socket.
    pub package: usize,
    /// The `core_id`: CPUs of a socket with the same one are siblings.
    pub core: usize,
    /// `cpuinfo_max_freq`; no file if it is unknown.
    pub max_khz: Option<u64>,
}

/// A control group's limits, as in the files of either version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// 1 or 2.
    pub version: u32,
    /// Below the mount point; `/` for the root of a container.
    pub path: String,
    /// Microseconds of CPU per 100 ms.
    pub quota_us: Option<u64>,
    /// The CPUs of the cpuset.
    pub cpus: Option<String>,
    /// Bytes.
    pub memory: Option<u64>,
}

/// A machine.
#[derive(Clone, Debug, Default)]
pub struct Layout {
    /// CPUs that run.
    pub cpus: Vec<Place>,
    /// CPUs that are switched off.
    pub offline: Vec<usize>,
    /// Total and free memory of each node, in KiB.
    pub memory: Vec<(u64, u64)>,
    /// From each node to each other.
    pub distances: Vec<Vec<u32>>,
    /// `Cpus_allowed_list`; by default all CPUs that run.
    pub allowed: Option<String>,
    /// Last-level cache of a socket, in KiB; 0 leaves out the files of all caches.
    pub cache_kib: u64,
    /// Network interfaces except `lo`.
    pub interfaces: Vec<Interface>,
    /// The control group that the process is in.
    pub group: Option<Group>,
}

impl Layout {
    /// Writes the files.
    pub fn build(&self) -> Machine {
        let machine = Machine::empty();
        self.write_cpus(&machine);
        self.write_nodes(&machine);
        self.write_proc(&machine);
        if let Some(group) = &self.group {
            write_group(&machine, group);
        }
        network::write(&machine, &self.interfaces, &self.online());
        machine
    }

    fn online(&self) -> Vec<usize> {
        self.cpus.iter().map(|cpu| cpu.id).collect()
    }

    fn write_cpus(&self, machine: &Machine) {
        let folder = "sys/devices/system/cpu";
        let all: Vec<usize> = self.online().into_iter().chain(self.offline.clone()).collect();
        machine.write(&format!("{folder}/online"), line(&list(self.online())));
        machine.write(&format!("{folder}/offline"), line(&list(self.offline.clone())));
        machine.write(&format!("{folder}/present"), line(&list(all.clone())));
        machine.write(&format!("{folder}/possible"), line(&list(all)));
        for cpu in &self.cpus {
            let of_core = self.of(|other| (other.package, other.core) == (cpu.package, cpu.core));
            let of_socket = self.of(|other| other.package == cpu.package);
            let folder = format!("{folder}/cpu{}", cpu.id);
            let files = [
                ("topology/physical_package_id", cpu.package.to_string()),
                ("topology/core_id", cpu.core.to_string()),
                ("topology/core_cpus_list", of_core.clone()),
                ("topology/thread_siblings_list", of_core.clone()),
            ];
            for (name, text) in files {
                machine.write(&format!("{folder}/{name}"), line(&text));
            }
            if let Some(khz) = cpu.max_khz {
                machine.write(&format!("{folder}/cpufreq/cpuinfo_max_freq"), format!("{khz}\n"));
            }
            if self.cache_kib > 0 {
                self.write_caches(machine, &folder, &of_core, &of_socket);
            }
        }
    }

    fn write_caches(&self, machine: &Machine, cpu: &str, of_core: &str, of_socket: &str) {
        let caches = [
            (1, "Data", 32, of_core),
            (1, "Instruction", 32, of_core),
            (2, "Unified", 256, of_core),
            (3, "Unified", self.cache_kib, of_socket),
        ];
        for (index, (level, kind, kib, shared)) in caches.into_iter().enumerate() {
            let folder = format!("{cpu}/cache/index{index}");
            machine.write(&format!("{folder}/level"), format!("{level}\n"));
            machine.write(&format!("{folder}/type"), line(kind));
            machine.write(&format!("{folder}/size"), format!("{kib}K\n"));
            machine.write(&format!("{folder}/shared_cpu_list"), line(shared));
        }
    }

    /// The list of the CPUs for which `is_so` holds.
    fn of(&self, is_so: impl Fn(&Place) -> bool) -> String {
        list(self.cpus.iter().filter(|cpu| is_so(cpu)).map(|cpu| cpu.id).collect())
    }

    fn write_nodes(&self, machine: &Machine) {
        let folder = "sys/devices/system/node";
        machine.write(&format!("{folder}/online"), line(&list((0..self.memory.len()).collect())));
        for (node, (total, free)) in self.memory.iter().enumerate() {
            let folder = format!("{folder}/node{node}");
            machine.write(&format!("{folder}/cpulist"), line(&self.of(|cpu| cpu.node == node)));
            let row: Vec<String> = self.distances[node].iter().map(u32::to_string).collect();
            machine.write(&format!("{folder}/distance"), line(&row.join(" ")));
            machine.write(
                &format!("{folder}/meminfo"),
                format!(
                    "Node {node} MemTotal:       {total} kB\nNode {node} MemFree:        {free} kB\n"
                ),
            );
        }
    }

    fn write_proc(&self, machine: &Machine) {
        let allowed = self.allowed.clone().unwrap_or_else(|| list(self.online()));
        machine.write(
            "proc/self/status",
            format!("Name:\tweft\nCpus_allowed_list:\t{allowed}\nMems_allowed_list:\t0\n"),
        );
        let (total, free) =
            self.memory.iter().fold((0, 0), |sum, node| (sum.0 + node.0, sum.1 + node.1));
        machine.write(
            "proc/meminfo",
            format!(
                "MemTotal:       {total} kB\nMemFree:        {free} kB\nMemAvailable:   {free} kB\n\
                 SwapTotal:             0 kB\nSwapFree:              0 kB\n"
            ),
        );
    }
}

fn write_group(machine: &Machine, group: &Group) {
    let Group { version, path, quota_us, cpus, memory } = group;
    let below = path.trim_start_matches('/');
    let file = |controller: &str, name: &str| {
        let folder = ["sys/fs/cgroup", controller, below]
            .into_iter()
            .filter(|part| !part.is_empty())
            .collect::<Vec<_>>()
            .join("/");
        format!("{folder}/{name}")
    };
    let (mut own, mut mounts) = (String::new(), String::new());
    if *version == 2 {
        let _ = writeln!(own, "0::{path}");
        mounts.push_str("29 23 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n");
        let quota = quota_us.map_or("max".to_string(), |us| us.to_string());
        machine.write(&file("", "cpu.max"), format!("{quota} 100000\n"));
        machine.write(&file("", "memory.max"), bytes_or(*memory, "max"));
        if let Some(cpus) = cpus {
            machine.write(&file("", "cpuset.cpus.effective"), line(cpus));
        }
    } else {
        for (at, controller) in ["cpu", "cpuset", "memory"].into_iter().enumerate() {
            let _ = writeln!(own, "{}:{controller}:{path}", at + 2);
            let _ = writeln!(
                mounts,
                "3{at} 31 0:3{at} / /sys/fs/cgroup/{controller} rw - cgroup cgroup rw,{controller}"
            );
        }
        let quota = quota_us.map_or("-1".to_string(), |us| us.to_string());
        machine.write(&file("cpu", "cpu.cfs_quota_us"), line(&quota));
        machine.write(&file("cpu", "cpu.cfs_period_us"), "100000\n");
        // The kernel's value for "none": the largest number of pages, in bytes.
        machine.write(
            &file("memory", "memory.limit_in_bytes"),
            bytes_or(*memory, "9223372036854771712"),
        );
        if let Some(cpus) = cpus {
            machine.write(&file("cpuset", "cpuset.effective_cpus"), line(cpus));
        }
    }
    machine.write("proc/self/cgroup", own);
    machine.write("proc/self/mountinfo", mounts);
}

fn bytes_or(bytes: Option<u64>, none: &str) -> String {
    line(&bytes.map_or(none.to_string(), |bytes| bytes.to_string()))
}

fn line(text: &str) -> String {
    format!("{text}\n")
}

/// Numbers as the kernel lists them: `0-3,8`.
pub(super) fn list(numbers: Vec<usize>) -> String {
    let numbers: BTreeSet<usize> = numbers.into_iter().collect();
    let mut ranges: Vec<(usize, usize)> = Vec::new();
    for number in numbers {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == number => *last = number,
            Some(_) | None => ranges.push((number, number)),
        }
    }
    let range = |(first, last): &(usize, usize)| {
        if first == last { first.to_string() } else { format!("{first}-{last}") }
    };
    ranges.iter().map(range).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_have_the_kernels_form() {
        assert_eq!(list(vec![3, 0, 1, 8, 2]), "0-3,8");
        assert_eq!(list(vec![]), "");
    }
}

//! The limits that control groups set for this process: CPU time, CPUs, memory.
//!
//! The limits of all groups on the path to the root hold at once, so the tightest counts. The files
//! are described in `Documentation/admin-guide/cgroup-v2.rst` and, for the older version, in
//! `Documentation/admin-guide/cgroup-v1/` (`memory.rst`, `cpusets.rst`) and
//! `Documentation/scheduler/sched-bwc.rst`.

use serde::Serialize;
use weft_base::cgroup::{self, Chain, Generation};

use super::Host;
use crate::cpus::Cpus;

/// Version 1 has no word for "no limit" on memory, only the largest number of whole pages; any
/// number from here on means that.
const NO_LIMIT: u64 = 1 << 62;

/// The limits; none means no limit.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Limits {
    /// CPU time.
    pub cpu: Option<CpuTime>,
    /// The CPUs of the cpuset.
    pub cpus: Option<Cpus>,
    /// The most memory, in bytes; beyond it processes are killed.
    pub memory_bytes: Option<u64>,
    /// From here on processes are slowed down to reclaim memory (version 2 only).
    pub memory_high_bytes: Option<u64>,
    /// How often the group used up its time before the period was over.
    pub throttling: Option<Throttling>,
}

/// A limit of CPU time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct CpuTime {
    /// Microseconds of CPU in each period.
    pub quota_us: u64,
    /// Length of the period in microseconds.
    pub period_us: u64,
}

impl CpuTime {
    /// The same as a number of CPUs.
    pub fn cpus(self) -> f64 {
        self.quota_us as f64 / self.period_us as f64
    }
}

/// Counts since the group was created.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Throttling {
    /// Periods in which the group ran.
    pub periods: u64,
    /// Periods in which it was throttled.
    pub throttled: u64,
    /// The throttled time, in microseconds, summed over CPUs.
    pub throttled_us: u64,
}

/// The limits of this process, or of the one whose files are below the root.
pub fn read(host: &Host) -> Limits {
    let quota = cgroup::cpu_quota(host.root());
    let memory = cgroup::chains(host.root(), "memory");
    let limit = |of: fn(Generation) -> Option<&'static str>| {
        let values = each_folder(&memory).filter_map(|(generation, folder)| {
            host.number::<u64>(&format!("{folder}/{}", of(generation)?))
        });
        values.filter(|&bytes| bytes < NO_LIMIT).min()
    };
    Limits {
        cpu: quota.map(|q| CpuTime { quota_us: q.quota_us, period_us: q.period_us }),
        cpus: read_cpuset(host),
        memory_bytes: limit(|generation| match generation {
            Generation::V1 => Some("memory.limit_in_bytes"),
            Generation::V2 => Some("memory.max"),
        }),
        memory_high_bytes: limit(|generation| match generation {
            Generation::V1 => None,
            Generation::V2 => Some("memory.high"),
        }),
        throttling: read_throttling(host),
    }
}

/// Generation and folder of each group, the innermost first.
fn each_folder(chains: &[Chain]) -> impl Iterator<Item = (Generation, String)> + '_ {
    chains.iter().flat_map(|chain| {
        chain.folders.iter().map(|folder| (chain.generation, folder.to_string_lossy().into_owned()))
    })
}

/// The nearest group with such a file: the file already includes the limits of all groups above.
fn read_cpuset(host: &Host) -> Option<Cpus> {
    let chains = cgroup::chains(host.root(), "cpuset");
    each_folder(&chains).find_map(|(generation, folder)| {
        let name = match generation {
            Generation::V1 => "cpuset.effective_cpus",
            Generation::V2 => "cpuset.cpus.effective",
        };
        host.list(&format!("{folder}/{name}")).filter(|cpus| !cpus.is_empty())
    })
}

/// The counts of the group that was throttled most often.
fn read_throttling(host: &Host) -> Option<Throttling> {
    let chains = cgroup::chains(host.root(), "cpu");
    let found = each_folder(&chains).filter_map(|(generation, folder)| {
        let text = host.text(&format!("{folder}/cpu.stat"))?;
        let value = |name: &str| -> Option<u64> {
            text.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok())
        };
        Some(Throttling {
            // Groups without a limit have no periods.
            periods: value("nr_periods ").filter(|&periods| periods > 0)?,
            throttled: value("nr_throttled ")?,
            throttled_us: match generation {
                Generation::V1 => value("throttled_time ")? / 1000,
                Generation::V2 => value("throttled_usec ")?,
            },
        })
    });
    found.max_by_key(|throttling| throttling.throttled)
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_testkit::machines::{Machine, known};

    fn limits(machine: &Machine) -> Limits {
        read(&Host::new(machine.root()))
    }

    #[test]
    fn both_generations_give_the_same_limits() {
        for (version, stat) in [
            (1, "nr_periods 900\nnr_throttled 30\nthrottled_time 5000000\n"),
            (2, "usage_usec 5\nnr_periods 900\nnr_throttled 30\nthrottled_usec 5000\n"),
        ] {
            let machine = known::limited(version).build();
            let cpu = if version == 1 { "cpu/" } else { "" };
            machine.write(&format!("sys/fs/cgroup/{cpu}system.slice/weft.service/cpu.stat"), stat);
            let limits = limits(&machine);
            assert_eq!(limits.cpu, Some(CpuTime { quota_us: 250_000, period_us: 100_000 }));
            assert_eq!(limits.cpu.unwrap().cpus(), 2.5);
            assert_eq!(limits.cpus.unwrap().to_string(), "4-7");
            assert_eq!(limits.memory_bytes, Some(4 << 30));
            let throttling = Throttling { periods: 900, throttled: 30, throttled_us: 5000 };
            assert_eq!(limits.throttling, Some(throttling), "version {version}");
        }
    }

    #[test]
    fn the_tightest_of_all_groups_counts() {
        let machine = known::limited(2).build();
        machine.write("sys/fs/cgroup/system.slice/memory.max", "1000\n");
        machine.write("sys/fs/cgroup/system.slice/memory.high", "900\n");
        machine.write("sys/fs/cgroup/memory.high", "max\n");
        let limits = limits(&machine);
        assert_eq!((limits.memory_bytes, limits.memory_high_bytes), (Some(1000), Some(900)));
    }

    #[test]
    fn no_limits_are_none() {
        assert_eq!(limits(&known::six_cores().build()), Limits::default());
        let mut layout = known::limited(1);
        if let Some(group) = &mut layout.group {
            (group.quota_us, group.memory, group.cpus) = (None, None, None);
        }
        assert_eq!(limits(&layout.build()), Limits::default());
    }
}

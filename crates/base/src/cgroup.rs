//! How much CPU time the control group allows.
//!
//! A container with `--cpus=2` on a 64-core machine still sees 64 CPUs in its affinity mask. The
//! limit is a bandwidth: microseconds of CPU time per period. A process that starts 64 threads
//! there is throttled in most periods. So the default number of I/O threads must take the limit
//! into account.
//!
//! The location of the limit depends on the generation of cgroups:
//!
//! | | version 1, `cpu` controller | version 2 |
//! |---|---|---|
//! | own group | line `N:cpu,cpuacct:/path` in `/proc/self/cgroup` | line `0::/path` |
//! | mounted at | a `cgroup` line with option `cpu` in `/proc/self/mountinfo` | a `cgroup2` line |
//! | limit | `cpu.cfs_quota_us` (-1: none) over `cpu.cfs_period_us` | `cpu.max`: `quota period` or `max period` |
//!
//! Both may be present (a "hybrid" machine). The limits of all ancestors apply too, so the walk
//! goes from the process's group up to the mount point and takes the tightest. Inside a container
//! the mount often shows only a part of the tree, whose name is the mount's root field and must be
//! removed from the path. If the two do not match, the mount point itself is used.
//!
//! Everything is read below a root folder that callers choose, so that tests can describe other
//! machines. Anything missing or unreadable means "no limit known": a server must start on a
//! machine without `/sys`.

use std::fs;
use std::path::{Path, PathBuf};

/// A CPU bandwidth limit: `quota_us` of CPU time in every `period_us` of real time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CpuQuota {
    /// Microseconds of CPU time that may be used per period.
    pub quota_us: u64,
    /// Length of the period in microseconds; never 0.
    pub period_us: u64,
}

impl CpuQuota {
    /// The number of CPUs that this limit allows, rounded up, at least 1.
    pub fn cpus(self) -> usize {
        usize::try_from(self.quota_us.div_ceil(self.period_us).max(1)).unwrap_or(usize::MAX)
    }

    fn is_tighter_than(self, other: Self) -> bool {
        // quota/period compared without division.
        u128::from(self.quota_us) * u128::from(other.period_us)
            < u128::from(other.quota_us) * u128::from(self.period_us)
    }
}

/// The tightest CPU limit of this process and all its visible ancestors, of both generations, or
/// `None` if there is none.
///
/// `root` is prefixed to every path that is read; `/` on a real machine.
pub fn cpu_quota(root: &Path) -> Option<CpuQuota> {
    chains(root, "cpu")
        .iter()
        .flat_map(|chain| {
            chain.folders.iter().filter_map(|folder| read_quota(folder, chain.generation))
        })
        .reduce(|a, b| if b.is_tighter_than(a) { b } else { a })
}

/// The two generations of control groups, which have their limits in different files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Generation {
    /// A tree for each controller.
    V1,
    /// One tree for all.
    V2,
}

/// The groups that limit this process in one tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chain {
    /// The generation, which determines the files.
    pub generation: Generation,
    /// The folder of the process's group first, then those of its visible ancestors. The limits of
    /// all of them apply.
    pub folders: Vec<PathBuf>,
}

/// The folders with the limits of a controller (`cpu`, `cpuset`, `memory`) for this process: at
/// most one chain of each generation. `root` is as for [`cpu_quota`], and part of the folders.
pub fn chains(root: &Path, controller: &str) -> Vec<Chain> {
    let read = |name| fs::read_to_string(root.join(name)).unwrap_or_default();
    let (groups, mounts) = (read("proc/self/cgroup"), read("proc/self/mountinfo"));
    let mounts: Vec<Mount> =
        mounts.lines().filter_map(|line| Mount::parse(line, controller)).collect();
    groups
        .lines()
        .filter_map(|line| Membership::parse(line, controller))
        .filter_map(|group| chain_upwards(root, &group, &mounts))
        .collect()
}

/// One line of `/proc/self/cgroup` that concerns the controller.
struct Membership<'a> {
    generation: Generation,
    path: &'a str,
}

impl<'a> Membership<'a> {
    fn parse(line: &'a str, controller: &str) -> Option<Self> {
        let mut fields = line.splitn(3, ':');
        let (id, controllers, path) = (fields.next()?, fields.next()?, fields.next()?);
        let generation = match (id, controllers) {
            ("0", "") => Generation::V2,
            (_, list) if list.split(',').any(|name| name == controller) => Generation::V1,
            _ => return None,
        };
        Some(Self { generation, path })
    }
}

/// One line of `/proc/self/mountinfo` with a mount of the controller's limits.
struct Mount {
    generation: Generation,
    /// The part of the group tree that is mounted.
    root: String,
    /// The mount point.
    point: String,
}

impl Mount {
    /// `36 35 98:0 /root /point rw,relatime [optional ...] - type source superoptions`
    fn parse(line: &str, controller: &str) -> Option<Self> {
        let (left, right) = line.split_once(" - ")?;
        let mut left = left.split(' ').skip(3);
        let (root, point) = (unescape(left.next()?), unescape(left.next()?));
        let mut right = right.split(' ');
        let generation = match right.next()? {
            "cgroup2" => Generation::V2,
            "cgroup" if right.nth(1)?.split(',').any(|option| option == controller) => {
                Generation::V1
            }
            _ => return None,
        };
        Some(Self { generation, root, point })
    }
}

/// The kernel writes blanks and backslashes in paths as three octal digits.
fn unescape(field: &str) -> String {
    let mut out = Vec::with_capacity(field.len());
    let mut rest = field.as_bytes();
    while let Some((&byte, tail)) = rest.split_first() {
        let octal = tail.get(..3).and_then(|d| std::str::from_utf8(d).ok());
        match octal.and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            Some(decoded) if byte == b'\\' => {
                out.push(decoded);
                rest = &tail[3..];
            }
            Some(_) | None => {
                out.push(byte);
                rest = tail;
            }
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

fn chain_upwards(root: &Path, group: &Membership<'_>, mounts: &[Mount]) -> Option<Chain> {
    let mount = mounts.iter().find(|m| m.generation == group.generation)?;
    let point = root.join(mount.point.trim_start_matches('/'));
    let mut folder = point.join(path_below_mount(group.path, &mount.root));
    let mut folders = vec![folder.clone()];
    while folder != point && folder.pop() {
        folders.push(folder.clone());
    }
    Some(Chain { generation: group.generation, folders })
}

/// The group's path as seen from a mount that shows only the tree below `mount_root`.
fn path_below_mount(path: &str, mount_root: &str) -> PathBuf {
    let below = match mount_root {
        "/" => Some(path),
        // Only whole components count: `/a` is not an ancestor of `/ab`.
        root => path.strip_prefix(root).filter(|rest| rest.is_empty() || rest.starts_with('/')),
    };
    let below = below.unwrap_or("").trim_start_matches('/');
    // A group outside the visible namespace shows as `/../..`, which leads nowhere.
    if below.split('/').any(|part| part == "..") {
        return PathBuf::new();
    }
    PathBuf::from(below)
}

fn read_quota(folder: &Path, generation: Generation) -> Option<CpuQuota> {
    let read = |name: &str| fs::read_to_string(folder.join(name)).ok();
    let (quota, period) = match generation {
        Generation::V2 => {
            let line = read("cpu.max")?;
            let (quota, period) = line.trim().split_once(' ')?;
            (quota.to_owned(), period.to_owned())
        }
        Generation::V1 => (read("cpu.cfs_quota_us")?, read("cpu.cfs_period_us")?),
    };
    // "max" and "-1" are not unsigned numbers, so they correctly parse as no limit.
    let quota_us = quota.trim().parse().ok()?;
    let period_us = period.trim().parse().ok().filter(|&p| p > 0)?;
    Some(CpuQuota { quota_us, period_us })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A machine simulated by a few files.
    struct Machine(tempfile::TempDir);

    impl Machine {
        fn new(files: &[(&str, &str)]) -> Self {
            let folder = tempfile::tempdir().unwrap();
            for (path, text) in files {
                let path = folder.path().join(path);
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::write(path, text).unwrap();
            }
            Self(folder)
        }

        fn quota(&self) -> Option<CpuQuota> {
            cpu_quota(self.0.path())
        }
    }

    fn quota(quota_us: u64, period_us: u64) -> Option<CpuQuota> {
        Some(CpuQuota { quota_us, period_us })
    }

    const V2_MOUNT: &str =
        "29 23 0:26 / /sys/fs/cgroup rw shared:4 - cgroup2 cgroup2 rw,nsdelegate\n";

    #[test]
    fn nothing_readable_means_no_limit() {
        assert_eq!(Machine::new(&[]).quota(), None);
        assert_eq!(
            Machine::new(&[("proc/self/cgroup", "0::/\n"), ("proc/self/mountinfo", V2_MOUNT)])
                .quota(),
            None
        );
    }

    #[test]
    fn version_2_takes_the_tightest_ancestor() {
        let machine = Machine::new(&[
            ("proc/self/cgroup", "0::/system.slice/weft.service\n"),
            ("proc/self/mountinfo", V2_MOUNT),
            ("sys/fs/cgroup/system.slice/weft.service/cpu.max", "max 100000\n"),
            ("sys/fs/cgroup/system.slice/cpu.max", "150000 100000\n"),
            ("sys/fs/cgroup/cpu.max", "800000 100000\n"),
        ]);
        assert_eq!(machine.quota(), quota(150_000, 100_000));
        assert_eq!(machine.quota().unwrap().cpus(), 2);
    }

    #[test]
    fn version_1_in_a_container_sees_its_part_of_the_tree() {
        let machine = Machine::new(&[
            (
                "proc/self/cgroup",
                "5:memory:/docker/abc\n4:cpu,cpuacct:/docker/abc/child\n3:cpuset:/\n",
            ),
            (
                "proc/self/mountinfo",
                "40 31 0:36 /docker/abc /sys/fs/cgroup/cpu\\040x ro - cgroup cgroup rw,cpu,cpuacct\n\
                 41 31 0:37 / /sys/fs/cgroup/cpuset ro - cgroup cgroup rw,cpuset\n",
            ),
            ("sys/fs/cgroup/cpu x/child/cpu.cfs_quota_us", "-1\n"),
            ("sys/fs/cgroup/cpu x/child/cpu.cfs_period_us", "100000\n"),
            ("sys/fs/cgroup/cpu x/cpu.cfs_quota_us", "50000\n"),
            ("sys/fs/cgroup/cpu x/cpu.cfs_period_us", "100000\n"),
        ]);
        assert_eq!(machine.quota(), quota(50_000, 100_000));
        assert_eq!(machine.quota().unwrap().cpus(), 1);
    }

    #[test]
    fn hybrid_machines_obey_both_generations() {
        let machine = Machine::new(&[
            ("proc/self/cgroup", "1:cpu:/a\n0::/b\n"),
            (
                "proc/self/mountinfo",
                "32 31 0:29 / /cg/cpu rw - cgroup cgroup rw,cpu\n41 31 0:38 / /cg/unified rw - cgroup2 cgroup2 rw\n",
            ),
            ("cg/cpu/a/cpu.cfs_quota_us", "400000"),
            ("cg/cpu/a/cpu.cfs_period_us", "100000"),
            ("cg/unified/b/cpu.max", "30000 10000"),
        ]);
        assert_eq!(machine.quota(), quota(30_000, 10_000));
    }

    #[test]
    fn a_group_outside_the_mount_falls_back_to_the_mount_point() {
        for path in ["/../../elsewhere", "/podlet/x"] {
            let machine = Machine::new(&[
                ("proc/self/cgroup", format!("0::{path}\n").as_str()),
                ("proc/self/mountinfo", "29 23 0:26 /pod /cg rw - cgroup2 none rw\n"),
                ("cg/cpu.max", "250000 100000\n"),
                ("cg/let/x/cpu.max", "1 100000\n"),
                ("elsewhere/cpu.max", "1 100000\n"),
            ]);
            assert_eq!(machine.quota(), quota(250_000, 100_000), "{path}");
        }
    }

    #[test]
    fn malformed_files_are_no_limit() {
        for text in ["", "max", "100000", "-5 100000", "1000 0", "x y"] {
            let machine = Machine::new(&[
                ("proc/self/cgroup", "garbage\n0::/\n"),
                ("proc/self/mountinfo", format!("short\n{V2_MOUNT}").as_str()),
                ("sys/fs/cgroup/cpu.max", text),
            ]);
            assert_eq!(machine.quota(), None, "{text:?}");
        }
    }

    #[test]
    fn each_controller_has_its_own_chain() {
        let machine = Machine::new(&[
            ("proc/self/cgroup", "4:memory:/a/b\n3:cpuset:/\n0::/c\n"),
            (
                "proc/self/mountinfo",
                "40 31 0:36 / /m ro - cgroup cgroup rw,memory\n\
                 41 31 0:37 / /s ro - cgroup cgroup rw,cpuset\n",
            ),
        ]);
        let root = machine.0.path();
        let folders = |controller| -> Vec<Vec<PathBuf>> {
            chains(root, controller).into_iter().map(|chain| chain.folders).collect()
        };
        assert_eq!(folders("memory"), [["m/a/b", "m/a", "m"].map(|path| root.join(path))]);
        assert_eq!(folders("cpuset"), [[root.join("s/")]]);
        assert!(folders("cpu").is_empty());
    }

    #[test]
    fn tiny_quotas_are_still_one_cpu() {
        assert_eq!(CpuQuota { quota_us: 0, period_us: 100_000 }.cpus(), 1);
        assert_eq!(CpuQuota { quota_us: 100_001, period_us: 100_000 }.cpus(), 2);
        assert_eq!(CpuQuota { quota_us: 100_000, period_us: 100_000 }.cpus(), 1);
    }
}

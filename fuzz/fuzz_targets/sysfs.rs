//! Files of a machine: for any content, reading ends with a consistent machine.
//!
//! The input is the texts of the files below, in their order, separated by NUL.
#![no_main]

use std::cell::OnceCell;
use std::fs;
use std::path::{Path, PathBuf};

use weft_base::cpulist;
use weft_base::machine::Machine;

const FILES: &[&str] = &[
    "sys/devices/system/cpu/online",
    "sys/devices/system/cpu/present",
    "sys/devices/system/node/online",
    "sys/devices/system/node/node0/cpulist",
    "sys/devices/system/node/node0/distance",
    "sys/devices/system/node/node0/meminfo",
    "sys/devices/system/node/node1/cpulist",
    "sys/devices/system/node/node1/distance",
    "sys/devices/system/cpu/cpu0/topology/core_cpus_list",
    "sys/devices/system/cpu/cpu1/topology/core_id",
    "sys/devices/system/cpu/cpu1/cpu_capacity",
    "proc/self/status",
    "proc/self/cgroup",
    "proc/self/mountinfo",
    "cg/cpu.max",
];

/// Longer lists test nothing more, but each CPU is a folder to look for.
const MOST: usize = 512;

thread_local! {
    static ROOT: OnceCell<PathBuf> = const { OnceCell::new() };
}

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    ROOT.with(|root| run(root.get_or_init(make_root), data));
});

fn make_root() -> PathBuf {
    let root = std::env::temp_dir().join(format!("weft-fuzz-sysfs-{}", std::process::id()));
    for file in FILES {
        let path = root.join(file);
        fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
    }
    root
}

fn run(root: &Path, data: &[u8]) {
    let mut texts = data.split(|&byte| byte == 0);
    for file in FILES {
        let text = texts.next().unwrap_or_default();
        let list = String::from_utf8_lossy(text);
        let list = list.lines().map(|line| line.trim_start_matches("Cpus_allowed_list:"));
        if list.filter_map(|line| cpulist::parse(line).ok()).any(|cpus| cpus.len() > MOST) {
            return;
        }
        fs::write(root.join(file), text).expect("a file");
    }
    let machine = Machine::read(root);
    let usable = machine.usable();
    assert!(!usable.is_empty() && !machine.nodes.is_empty());
    for cpu in &machine.cpus {
        let node = machine.node(cpu.node).expect("the node that it names");
        assert!(node.cpus.contains(cpu.id) && cpu.siblings.contains(cpu.id));
    }
    let order = machine.preferred(&usable, usize::MAX);
    assert_eq!(order.len(), usable.len());
    assert!(order.into_iter().all(|cpu| usable.contains(cpu)));
}

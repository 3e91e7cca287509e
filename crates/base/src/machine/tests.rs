//! Tests reading machines from files, and the order of their CPUs.

use super::{Cpu, Machine};
use crate::cgroup::CpuQuota;
use crate::cpulist::{self, CpuSet};
use proptest::prelude::*;
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::LazyLock;
use weft_testkit::machines::{self, Layout, known};

fn read(layout: &Layout) -> Machine {
    // Caches are most of the files and not used here.
    let layout = Layout { cache_kib: 0, ..layout.clone() };
    Machine::read(layout.build().root())
}

fn list(text: &str) -> CpuSet {
    cpulist::parse(text).unwrap()
}

/// Checks the invariants of [`Machine`].
fn check(machine: &Machine) {
    assert!(!machine.cpus.is_empty() && !machine.nodes.is_empty() && !machine.usable().is_empty());
    assert!(machine.cpus.is_sorted_by(|a, b| a.id < b.id));
    assert!(machine.nodes.is_sorted_by(|a, b| a.id < b.id));
    assert!(machine.online().intersection(&machine.offline).is_empty());
    for cpu in &machine.cpus {
        let homes: Vec<usize> =
            machine.nodes.iter().filter(|n| n.cpus.contains(cpu.id)).map(|n| n.id).collect();
        assert_eq!(homes, [cpu.node], "CPU {}", cpu.id);
        let of_core: CpuSet =
            machine.cpus.iter().filter(|other| other.core == cpu.core).map(|c| c.id).collect();
        assert_eq!(cpu.siblings, of_core, "CPU {}", cpu.id);
    }
    let cores: BTreeSet<usize> = machine.cpus.iter().map(|cpu| cpu.core).collect();
    assert!(cores.iter().copied().eq(0..cores.len()), "cores are counted without gaps");
    for node in &machine.nodes {
        assert_eq!(node.distances.len(), machine.nodes.len());
        assert_eq!(node.cpus, node.cpus.intersection(&machine.online()));
    }
    assert_eq!(machine.cores(&machine.online()), cores.len());
}

#[test]
fn machine_satisfies_its_invariants() {
    for (name, layout) in known::all() {
        println!("{name}");
        let machine = read(&layout);
        check(&machine);
        assert_eq!(machine.cpus.len(), layout.cpus.len());
        for (cpu, place) in machine.cpus.iter().zip(&layout.cpus) {
            assert_eq!((cpu.id, cpu.node, cpu.package), (place.id, place.node, place.package));
            assert_eq!(cpu.max_khz, place.max_khz);
        }
        for (node, &(total, free)) in machine.nodes.iter().zip(&layout.memory) {
            assert_eq!((node.memory_kib, node.free_kib), (Some(total), Some(free)));
        }
        let distances: Vec<Vec<u32>> = machine.nodes.into_iter().map(|n| n.distances).collect();
        assert_eq!(distances, layout.distances);
    }
}

#[test]
fn the_published_machine_of_two_interleaved_nodes() {
    let machine = read(&known::interleaved());
    assert_eq!(machine.nodes[0].cpus, list("0-38:2"));
    assert_eq!(machine.nodes[1].cpus, list("1-39:2"));
    assert_eq!(machine.nodes[1].distances, [21, 10]);
    assert_eq!(machine.nodes[1].memory_kib, Some(32_309 << 10));
    assert_eq!((machine.usable().len(), machine.quota), (40, None));
    // The published list of the faster runs is 0,2,4,6.
    assert_eq!(machine.preferred(&machine.usable(), 4), [0, 2, 4, 6]);
    assert_eq!(machine.preferred(&list("0-7"), 5), [0, 2, 4, 6, 1]);
    // The node with more of the given CPUs.
    assert_eq!(machine.preferred(&list("0-5,7,9"), 4), [1, 3, 5, 7]);
}

#[test]
fn siblings_come_last() {
    let machine = read(&known::two_sockets(true));
    assert_eq!(machine.cpu(0).unwrap().siblings, list("0,24"));
    assert_eq!((machine.cpus.len(), machine.cores(&machine.online())), (48, 24));
    let order = machine.preferred(&machine.online(), 100);
    let expected: Vec<usize> = (0..48).collect();
    assert_eq!(order, expected, "cores of node 0, cores of node 1, their siblings");
    assert_eq!(machine.preferred(&list("0-3,24-27"), 5), [0, 1, 2, 3, 24]);
    // If only the second CPUs of cores are given, those are distinct cores too.
    assert_eq!(machine.preferred(&list("24-27"), 4), [24, 25, 26, 27]);
    // Four cores of node 1 are better than two of node 0 with both their CPUs.
    assert_eq!(machine.preferred(&list("0-1,12-15,24-25"), 8), [12, 13, 14, 15, 0, 1, 24, 25]);
    assert_eq!(read(&known::two_sockets(false)).preferred(&list("0-23"), 13).pop(), Some(12));
}

#[test]
fn cores_with_a_taken_cpu_are_not_free() {
    let machine = read(&known::two_sockets(true));
    let all = machine.online();
    // Node 0's cores are avoided while node 1 has free ones.
    let taken = list("0-5");
    let order = machine.preferred_avoiding(&all, 48, &taken);
    assert_eq!(order.len(), 42);
    assert_eq!(order[..12], (12..24).collect::<Vec<_>>());
    assert_eq!(order[12..18], [6, 7, 8, 9, 10, 11]);
    assert!(order[18..].iter().take(24).all(|&cpu| cpu >= 24));
    assert_eq!(machine.preferred_avoiding(&all, 3, &all), []);
}

#[test]
fn further_nodes_are_ordered_by_distance() {
    let machine = read(&known::over_64());
    let order = machine.preferred(&list("24-47"), 24);
    assert_eq!(order, (24..48).collect::<Vec<_>>(), "nodes 2 and 3 of the second socket");
    // Most cores are on node 3. Node 2 is near to it, and 0 and 1 are equally far.
    let order = machine.preferred(&list("0-1,12-14,24,36-40"), 99);
    assert_eq!(order, [36, 37, 38, 39, 40, 24, 12, 13, 14, 0, 1]);
}

#[test]
fn fast_cores_come_first() {
    let machine = read(&known::hybrid());
    let order = machine.preferred(&machine.online(), 12);
    assert_eq!(order, [4, 6, 8, 10, 0, 1, 2, 3, 5, 7, 9, 11]);
    let fixture = known::hybrid().build();
    // The kernel's own estimate takes precedence if it exists for all CPUs.
    for cpu in 0..12 {
        let capacity = if cpu < 4 { 1024 } else { 1000 };
        fixture
            .write(&format!("sys/devices/system/cpu/cpu{cpu}/cpu_capacity"), capacity.to_string());
    }
    let machine = Machine::read(fixture.root());
    assert_eq!(machine.cpus[4].capacity, Some(1000));
    assert_eq!(machine.preferred(&machine.online(), 6), [0, 1, 2, 3, 4, 6]);
}

#[test]
fn offline_cpus_are_seen_and_never_used() {
    let machine = read(&known::offline());
    assert_eq!(machine.offline, list("4-5,7"));
    assert_eq!(machine.online(), list("0-3,6"));
    assert_eq!(machine.cpu(2).unwrap().siblings, list("2,6"));
    assert!(machine.cpu(4).is_none());
    assert_eq!(machine.preferred(&list("0-7"), 8), [0, 1, 2, 3, 6]);
}

#[test]
fn limits_of_both_generations() {
    let quota = Some(CpuQuota { quota_us: 250_000, period_us: 100_000 });
    for version in [1, 2] {
        let machine = read(&known::limited(version));
        assert_eq!((machine.quota, machine.usable()), (quota, list("4-7")), "{version}");
        assert_eq!(machine.cpus.len(), 16);
    }
    let machine = read(&known::container());
    assert_eq!((machine.usable(), machine.quota.unwrap().cpus()), (list("5"), 1));
}

#[test]
fn more_cpus_than_a_fixed_mask_holds() {
    let machine = read(&known::over_1024());
    assert_eq!((machine.cpus.len(), machine.nodes.len()), (1152, 8));
    assert_eq!(machine.cpu(1151).unwrap().siblings, list("575,1151"));
    let order = machine.preferred(&list("1000-1151"), 4);
    assert_eq!(order, [1008, 1009, 1010, 1011], "node 6 has all of its 72 cores among them");
    assert_eq!(machine.preferred(&machine.online(), 2000).len(), 1152);
}

#[test]
fn unreadable_machine_has_one_cpu() {
    let machine = Machine::read(machines::Machine::empty().root());
    check(&machine);
    let only = Cpu {
        id: 0,
        node: 0,
        package: 0,
        core: 0,
        siblings: list("0"),
        max_khz: None,
        capacity: None,
    };
    assert_eq!(machine.cpus, [only]);
    assert_eq!((machine.usable(), machine.nodes[0].distances.as_slice()), (list("0"), &[10][..]));
    // With only an affinity, its CPUs are assumed.
    let fixture = machines::Machine::empty();
    fixture.write("proc/self/status", "Cpus_allowed_list:\t2-3\n");
    fixture.write("proc/meminfo", "MemTotal:        1000 kB\nMemFree: 10 kB\n");
    let machine = Machine::read(fixture.root());
    assert_eq!((machine.online(), machine.cpus[1].core), (list("2-3"), 1));
    assert_eq!((machine.nodes[0].memory_kib, machine.nodes[0].free_kib), (Some(1000), Some(10)));
}

#[test]
fn numbers_of_the_hardware_stand_in_for_lists_of_siblings() {
    let fixture = Layout { cache_kib: 0, ..known::two_sockets(true) }.build();
    for cpu in 0..48 {
        fixture.remove(&format!("sys/devices/system/cpu/cpu{cpu}/topology/core_cpus_list"));
    }
    assert_eq!(Machine::read(fixture.root()).cpu(13).unwrap().siblings, list("13,37"));
    for cpu in 0..48 {
        fixture.remove(&format!("sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list"));
    }
    let machine = Machine::read(fixture.root());
    check(&machine);
    assert_eq!(machine.cpu(13).unwrap().siblings, list("13,37"));
    // Core numbers repeat in each die.
    for cpu in 0..24 {
        fixture.write(&format!("sys/devices/system/cpu/cpu{cpu}/topology/die_id"), "1\n");
    }
    assert_eq!(Machine::read(fixture.root()).cores(&machine.online()), 48);
    // A CPU without a core number is its own core.
    for cpu in 0..48 {
        fixture.write(&format!("sys/devices/system/cpu/cpu{cpu}/topology/core_id"), "-1\n");
    }
    assert_eq!(Machine::read(fixture.root()).cores(&machine.online()), 48);
}

#[test]
fn invalid_node_files_use_defaults() {
    let fixture = known::two_sockets(false).build();
    let node = |file: &str, text: &str| {
        fixture.write(&format!("sys/devices/system/node/{file}"), text);
        let machine = Machine::read(fixture.root());
        check(&machine);
        machine
    };
    assert_eq!(node("node0/distance", "10\n").nodes[0].distances, [10, 20]);
    assert_eq!(node("node1/distance", "x 10\n").nodes[1].distances, [20, 10]);
    assert_eq!(node("node1/cpulist", "0-23\n").nodes[1].cpus, list("12-23"));
    assert_eq!(node("node0/cpulist", "garbage\n").nodes[0].cpus, CpuSet::new());
    assert_eq!(node("node1/cpulist", "\n").nodes[0].cpus, list("0-23"));
    // A gap in the numbers, and a node with memory only.
    let machine = node("online", "1,3\n");
    assert_eq!((machine.nodes[0].id, machine.nodes[1].id), (1, 3));
    assert_eq!(
        (machine.node(3).unwrap().cpus.len(), machine.node(3).unwrap().memory_kib),
        (0, None)
    );
    assert_eq!(node("online", "0-65535\n").nodes.len(), 1);
}

#[test]
fn reads_this_machine() {
    let machine = Machine::read(Path::new("/"));
    check(&machine);
    // Another test may confine another thread, but not this one.
    assert_eq!(machine.allowed, crate::topology::allowed_cpus());
    let order = machine.preferred(&machine.usable(), usize::MAX);
    assert_eq!(order.iter().copied().collect::<CpuSet>(), machine.usable());
}

/// Texts similar to the contents of the files.
fn near_miss() -> impl Strategy<Value = String> {
    prop_oneof![
        "[0-9,:x \n-]{0,12}",
        "-?[0-9]{1,21}\n",
        "[0-9]{1,2}-[0-9]{1,3}(,[0-9]{1,2})?\n",
        "Node [0-3] Mem(Total|Free): +-?[0-9]{0,22} kB\n",
        "\\PC{0,20}",
    ]
}

/// All machines but the largest, read once.
static MACHINES: LazyLock<Vec<Machine>> = LazyLock::new(|| {
    let small = known::all().into_iter().filter(|(_, layout)| layout.cpus.len() < 1000);
    small.map(|(_, layout)| read(&layout)).collect()
});

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn any_file_content_is_accepted(
        texts in prop::collection::vec((0..14usize, 0..3usize, near_miss()), 1..12),
        threads in 0..20usize,
    ) {
        let fixture = Layout { cache_kib: 0, ..known::offline() }.build();
        for (file, number, text) in texts {
            fixture.write(&path(file, number), text);
        }
        let machine = Machine::read(fixture.root());
        check(&machine);
        let order = machine.preferred(&machine.usable(), threads);
        prop_assert_eq!(order.len(), threads.min(machine.usable().len()));
    }

    #[test]
    fn order_has_each_cpu_once_and_prefers_free_cores(
        which in 0..MACHINES.len(),
        from in prop::collection::btree_set(0..96usize, 0..60),
        taken in prop::collection::btree_set(0..96usize, 0..20),
        threads in 0..60usize,
    ) {
        let machine = &MACHINES[which];
        let (from, taken): (CpuSet, CpuSet) = (from.into_iter().collect(), taken.into_iter().collect());
        let order = machine.preferred_avoiding(&from, threads, &taken);
        let chosen: CpuSet = order.iter().copied().collect();
        prop_assert_eq!(chosen.len(), order.len());
        prop_assert!(chosen.intersection(&taken).is_empty());
        prop_assert_eq!(chosen.intersection(&from).intersection(&machine.online()), chosen.clone());
        let free: CpuSet = machine.online().intersection(&from).iter()
            .filter(|&cpu| !taken.contains(cpu)).collect();
        prop_assert_eq!(order.len(), threads.min(free.len()));
        // A core is shared, with each other or with taken CPUs, only when none is free.
        let whole: CpuSet = free.iter()
            .filter(|&cpu| machine.cpu(cpu).unwrap().siblings.intersection(&taken).is_empty())
            .collect();
        prop_assert!(machine.cores(&chosen.intersection(&whole)) == order.len().min(machine.cores(&whole)));
        // All on one node if one has enough free cores.
        let nodes_hold = machine.nodes.iter().map(|n| machine.cores(&n.cpus.intersection(&whole))).max();
        if nodes_hold >= Some(order.len()) {
            let homes: BTreeSet<usize> = order.iter().map(|&cpu| machine.cpu(cpu).unwrap().node).collect();
            prop_assert!(homes.len() <= 1);
        }
    }
}

/// The path of one of the files that are read.
fn path(file: usize, number: usize) -> String {
    let cpu = format!("sys/devices/system/cpu/cpu{number}");
    let node = format!("sys/devices/system/node/node{number}");
    match file {
        0 => "sys/devices/system/cpu/online".to_string(),
        1 => "sys/devices/system/cpu/present".to_string(),
        2 => format!("{cpu}/topology/core_cpus_list"),
        3 => format!("{cpu}/topology/core_id"),
        4 => format!("{cpu}/topology/physical_package_id"),
        5 => format!("{cpu}/cpufreq/cpuinfo_max_freq"),
        6 => format!("{cpu}/cpu_capacity"),
        7 => "sys/devices/system/node/online".to_string(),
        8 => format!("{node}/cpulist"),
        9 => format!("{node}/distance"),
        10 => format!("{node}/meminfo"),
        11 => "proc/self/status".to_string(),
        12 => "proc/self/cgroup".to_string(),
        _ => "proc/self/mountinfo".to_string(),
    }
}

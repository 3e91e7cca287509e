//! The machines of the tests.
//!
//! The first three are those of published measurements of binding servers to CPUs; the comments
//! have the published facts, and the rest (interrupt numbers, counts) is plausible. The others are
//! difficult cases.

use super::{Group, Interface, Irq, Layout, Place};

const GIB: u64 = 1 << 20;

/// Every machine here by name, for tests of rules that must hold on all of them.
pub fn all() -> Vec<(&'static str, Layout)> {
    vec![
        ("interleaved", interleaved()),
        ("two-sockets", two_sockets(false)),
        ("two-sockets-smt", two_sockets(true)),
        ("six-cores", six_cores()),
        ("container", container()),
        ("offline", offline()),
        ("cgroup-v1", limited(1)),
        ("cgroup-v2", limited(2)),
        ("hybrid", hybrid()),
        ("virtual", virtual_machine()),
        ("over-64", over_64()),
        ("over-1024", over_1024()),
    ]
}

/// 40 CPUs, 2 nodes: even CPUs on node 0 (32143 MB), odd ones on node 1 (32309 MB), distances
/// 10 and 21. As two sockets of 20 cores, with an interface of 4 queues on node 0.
///
/// Redis 6 with 4 threads on one node: 15 % more than over both.
pub fn interleaved() -> Layout {
    Layout {
        cpus: (0..40).map(|id| place(id, id % 2, id % 2, id / 2)).collect(),
        memory: vec![(32_143 << 10, 20_000 << 10), (32_309 << 10, 30_000 << 10)],
        distances: flat(2, 21),
        cache_kib: 25_600,
        interfaces: vec![card("eth0", "ixgbe", 0, 100, 4, "0-39")],
        ..Layout::default()
    }
}

/// 2 sockets of 12 cores, each a node; with SMT 48 CPUs, of which 24 to 47 are the second
/// ones of cores 0 to 23. An interface of 8 queues on node 1.
pub fn two_sockets(smt: bool) -> Layout {
    let threads = if smt { 2 } else { 1 };
    Layout {
        cpus: (0..24 * threads).map(|id| place(id, id % 24 / 12, id % 24 / 12, id % 12)).collect(),
        memory: vec![(64 * GIB, 60 * GIB), (64 * GIB, 62 * GIB)],
        distances: flat(2, 21),
        cache_kib: 30_720,
        interfaces: vec![card("ens1f0", "i40e", 1, 120, 8, "0-23")],
        ..Layout::default()
    }
}

/// Six cores without SMT (Xeon E5645), 16 GB, one interface of 1 Gbit/s (BCM5709) whose
/// interrupts all go to CPU 1.
///
/// Three Redis masters: interrupts on CPUs 0-1 and the masters on 2-3, 4-5 and 3-5, or
/// interrupts over all CPUs and the masters on 0-1, 2-3 and 4-5: 20 % more SET, 40 % more GET.
pub fn six_cores() -> Layout {
    let mut interface = card("eth0", "bnx2", 0, 60, 4, "1");
    interface.speed = 1000;
    interface.node = None;
    for irq in &mut interface.irqs {
        irq.counted = (1, 1_000_000);
    }
    Layout {
        cpus: (0..6).map(|id| place(id, 0, 0, id)).collect(),
        memory: vec![(16 * GIB, 9 * GIB)],
        distances: flat(1, 0),
        cache_kib: 12_288,
        interfaces: vec![interface],
        ..Layout::default()
    }
}

/// A container with one CPU of eight, and a quota of one; its interface is one end of a virtual
/// pair.
pub fn container() -> Layout {
    Layout {
        cpus: (0..8).map(|id| place(id, 0, 0, id)).collect(),
        memory: vec![(32 * GIB, 8 * GIB)],
        distances: flat(1, 0),
        allowed: Some("5".to_string()),
        cache_kib: 16_384,
        interfaces: vec![Interface {
            name: "eth0".to_string(),
            speed: 10_000,
            rx: vec!["00".to_string()],
            tx: vec![None],
            ..Interface::default()
        }],
        group: Some(Group {
            version: 2,
            path: "/".to_string(),
            quota_us: Some(100_000),
            cpus: Some("5".to_string()),
            memory: Some(1 << 30),
        }),
        ..Layout::default()
    }
}

/// Eight CPUs of four cores, of which 4, 5 and 7 are off: core 2 is left with both CPUs,
/// the others with one.
pub fn offline() -> Layout {
    let cpus = [0, 1, 2, 3, 6].map(|id| place(id, 0, 0, id % 4));
    Layout {
        cpus: cpus.to_vec(),
        offline: vec![4, 5, 7],
        memory: vec![(8 * GIB, 4 * GIB)],
        distances: flat(1, 0),
        cache_kib: 8192,
        ..Layout::default()
    }
}

/// 16 CPUs, of which the control group gives 4 to 7 and time for two and a half, in the files
/// of version 1 or 2.
pub fn limited(version: u32) -> Layout {
    Layout {
        cpus: (0..16).map(|id| place(id, id / 8, id / 8, id % 8)).collect(),
        memory: vec![(16 * GIB, 8 * GIB), (16 * GIB, 8 * GIB)],
        distances: flat(2, 20),
        allowed: Some("4-7".to_string()),
        cache_kib: 16_384,
        interfaces: vec![card("eth0", "mlx5_core", 0, 40, 2, "0-15")],
        group: Some(Group {
            version,
            path: "/system.slice/weft.service".to_string(),
            quota_us: Some(250_000),
            cpus: Some("4-7".to_string()),
            memory: Some(4 << 30),
        }),
        ..Layout::default()
    }
}

/// Four slow cores (CPUs 0 to 3) and four fast ones with two CPUs each (4 to 11).
pub fn hybrid() -> Layout {
    let slow = (0..4).map(|id| Place { max_khz: Some(3_700_000), ..place(id, 0, 0, id) });
    let fast = (4..12).map(|id| Place { max_khz: Some(5_000_000), ..place(id, 0, 0, 4 + id / 2) });
    Layout {
        cpus: slow.chain(fast).collect(),
        memory: vec![(32 * GIB, 16 * GIB)],
        distances: flat(1, 0),
        cache_kib: 24_576,
        ..Layout::default()
    }
}

/// Two CPUs of a virtual machine: interrupts with the name of the virtio device instead of the
/// interface, queues without a transmit mask, no frequencies, no speed.
pub fn virtual_machine() -> Layout {
    let irq = |number, name: &str, affinity: &str, counted| Irq {
        number,
        name: name.to_string(),
        affinity: affinity.to_string(),
        counted,
    };
    Layout {
        cpus: (0..2).map(|id| Place { max_khz: None, ..place(id, 0, 0, id) }).collect(),
        memory: vec![(4 * GIB, 2 * GIB)],
        distances: flat(1, 0),
        cache_kib: 36_608,
        interfaces: vec![Interface {
            name: "eth0".to_string(),
            driver: Some("virtio_net".to_string()),
            node: None,
            pci: Some("0000:00:03.0".to_string()),
            child: Some("virtio2".to_string()),
            speed: -1,
            rx: vec!["0".to_string()],
            tx: vec![None],
            irqs: vec![
                irq(37, "virtio2-config", "0-1", (0, 0)),
                irq(38, "virtio2-input.0", "1", (1, 15_401)),
                irq(39, "virtio2-output.0", "0", (0, 13_126)),
            ],
        }],
        ..Layout::default()
    }
}

/// 96 CPUs: 2 sockets of 24 cores with SMT, each socket cut into two nodes.
pub fn over_64() -> Layout {
    let near = |a: usize, b: usize| match (a == b, a / 2 == b / 2) {
        (true, _) => 10,
        (false, true) => 12,
        (false, false) => 21,
    };
    Layout {
        cpus: (0..96).map(|id| place(id, id % 48 / 12, id % 48 / 24, id % 24)).collect(),
        memory: vec![(48 * GIB, 40 * GIB); 4],
        distances: (0..4).map(|a| (0..4).map(|b| near(a, b)).collect()).collect(),
        cache_kib: 36_864,
        interfaces: vec![card("ens3", "ena", 2, 200, 8, "0-95")],
        ..Layout::default()
    }
}

/// 1152 CPUs: 8 sockets of 72 cores with SMT, each a node; more than the C library's fixed set of
/// 1024 CPUs can hold.
pub fn over_1024() -> Layout {
    Layout {
        cpus: (0..1152).map(|id| place(id, id % 576 / 72, id % 576 / 72, id % 72)).collect(),
        memory: vec![(256 * GIB, 250 * GIB); 8],
        distances: flat(8, 32),
        // No test reads the sixteen cache files of each CPU.
        cache_kib: 0,
        ..Layout::default()
    }
}

fn place(id: usize, node: usize, package: usize, core: usize) -> Place {
    Place { id, node, package, core, max_khz: Some(3_000_000) }
}

/// All other nodes at the same distance.
fn flat(nodes: usize, other: u32) -> Vec<Vec<u32>> {
    (0..nodes).map(|a| (0..nodes).map(|b| if a == b { 10 } else { other }).collect()).collect()
}

/// A PCI card with as many queues as interrupts, the first of which is `first_irq`.
fn card(
    name: &str,
    driver: &str,
    node: i32,
    first_irq: u32,
    queues: usize,
    affinity: &str,
) -> Interface {
    let irqs = (0..queues).map(|queue| Irq {
        number: first_irq + queue as u32,
        name: format!("{name}-TxRx-{queue}"),
        affinity: affinity.to_string(),
        counted: (queue % 2, 1000 * (queue as u64 + 1)),
    });
    Interface {
        name: name.to_string(),
        driver: Some(driver.to_string()),
        node: Some(node),
        pci: Some("0000:01:00.0".to_string()),
        child: None,
        speed: 10_000,
        rx: vec!["00000000".to_string(); queues],
        tx: (0..queues).map(|queue| Some(format!("{:08x}", 1u32 << queue))).collect(),
        irqs: irqs.collect(),
    }
}

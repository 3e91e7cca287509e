//! Machines as text and as JSON.

use serde_json::Value;
use weft_testkit::machines::{Layout, Machine, known};

use super::{report, text};
use crate::host::Host;

fn shown(machine: &Machine) -> String {
    text::print(&report::read(&Host::new(machine.root())))
}

fn json(layout: &Layout) -> Value {
    let machine = layout.build();
    serde_json::to_value(report::read(&Host::new(machine.root()))).unwrap()
}

#[test]
fn the_published_machine_of_two_interleaved_nodes() {
    let mut layout = known::interleaved();
    layout.interfaces[0].irqs.truncate(1);
    layout.interfaces[0].rx.truncate(1);
    layout.interfaces[0].tx.truncate(1);
    assert_eq!(
        shown(&layout.build()),
        "\
40 CPUs on 40 cores in 2 sockets, 2 memory nodes; no SMT
  online   0-39
  usable   0-39 (all)
  memory   62.9 GiB

Memory nodes
  node 0   CPUs 0-38:2; 31.4 GiB, 19.5 GiB free
  node 1   CPUs 1-39:2; 31.6 GiB, 29.3 GiB free
  distances    0    1
          0   10   21
          1   21   10

Sockets
  socket 0   20 cores, CPUs 0-38:2
    up to 3000 MHz
  socket 1   20 cores, CPUs 1-39:2
    up to 3000 MHz

Caches
  L1d      32 KiB x 40, each of 1 CPU
  L1i      32 KiB x 40, each of 1 CPU
  L2      256 KiB x 40, each of 1 CPU
  L3    25600 KiB x 2, each of 20 CPUs

Network interfaces
  eth0: up, 10000 Mbit/s, ixgbe, at 0000:01:00.0, node 0
    irq 100 eth0-TxRx-0: CPUs 0-39, now 0; 1000 so far
    rx-0: RPS off
    tx-0: XPS CPUs 0
  lo: unknown, no device
    rx-0: RPS off
    tx-0: no XPS

Limits of control groups
  none
"
    );
}

#[test]
fn a_limited_part_of_a_machine() {
    for version in [1, 2] {
        let machine = known::limited(version).build();
        let text = shown(&machine);
        assert!(text.contains("  online   0-15\n  usable   4-7\n"), "{text}");
        let remark = "\n  memory   32.0 GiB\n  remark   affinity or cpuset allow 4 of 16 CPUs";
        assert!(text.contains(remark), "{text}");
        assert!(
            text.ends_with(
                "\nLimits of control groups\n  CPU time 2.50 CPUs (250000 us in 100000 us)\n  \
                 CPUs     4-7\n  memory   4.0 GiB\n"
            ),
            "{text}"
        );
    }
    let machine = known::limited(2).build();
    let group = "sys/fs/cgroup/system.slice/weft.service";
    machine.write(&format!("{group}/memory.high"), "1048576\n");
    machine
        .write(&format!("{group}/cpu.stat"), "nr_periods 8\nnr_throttled 3\nthrottled_usec 4200\n");
    let text = shown(&machine);
    assert!(text.contains("  throttled in 3 of 8 periods, 4 ms\n"), "{text}");
    assert!(text.contains("  slowed from 1 MiB\n"), "{text}");
}

#[test]
fn regular_siblings_are_printed_once() {
    let text = shown(&known::two_sockets(true).build());
    assert!(
        text.starts_with(
            "48 CPUs on 24 cores in 2 sockets, 2 memory nodes; SMT with up to 2 CPUs on a core\n"
        ),
        "{text}"
    );
    assert!(
        text.contains(
            "  socket 1   12 cores, CPUs 12-23,36-47\n    siblings: each CPU n with n+24\n"
        ),
        "{text}"
    );
    assert!(text.contains("  L2      256 KiB x 24, each of 2 CPUs\n"), "{text}");
    let text = shown(&known::offline().build());
    assert!(text.contains("  online   0-3,6\n  offline  4-5,7\n"), "{text}");
    assert!(text.contains("    siblings: 2+6\n"), "{text}");
    let text = shown(&known::hybrid().build());
    assert!(
        text.contains("    up to 3700 MHz: CPUs 0-3\n    up to 5000 MHz: CPUs 4-11\n"),
        "{text}"
    );
}

#[test]
#[ignore = "long: cargo xtask test --all"]
fn a_thousand_cpus_fit_on_a_page() {
    let text = shown(&known::over_1024().build());
    assert!(text.starts_with("1152 CPUs on 576 cores in 8 sockets, 8 memory nodes;"), "{text}");
    assert!(text.contains("    siblings: each CPU n with n+576\n"), "{text}");
    assert!(text.lines().count() < 60 && text.lines().all(|line| line.len() < 100), "{text}");
}

#[test]
fn a_machine_that_hides_everything() {
    let text = shown(&Machine::empty());
    assert!(text.starts_with("1 CPU on 1 core in 1 socket, 1 memory node; no SMT\n"), "{text}");
    assert!(text.contains("  node 0   CPUs 0\n"), "{text}");
    assert!(!text.contains("Caches") && !text.contains("interfaces"), "{text}");
}

#[test]
fn json_has_the_same_facts() {
    let machine = json(&known::two_sockets(true));
    assert_eq!(machine["online"], "0-47");
    assert_eq!(machine["nodes"][1]["distances"], serde_json::json!([21, 10]));
    assert_eq!(machine["nodes"][1]["cpus"], "12-23,36-47");
    assert_eq!(machine["nodes"][0]["memory_kib"], 64 << 20);
    assert_eq!(machine["remarks"], serde_json::json!([]));
    assert_eq!(machine["sockets"][1]["cores"][0]["cpus"], "12,36");
    assert_eq!(machine["sockets"][1]["cores"][0]["id"], 12);
    assert_eq!(machine["caches"][3]["level"], 3);
    assert_eq!(machine["caches"][3]["shared_by"][0], "0-11,24-35");
    let interface = &machine["interfaces"][0];
    assert_eq!((&interface["name"], &interface["node"]), (&"ens1f0".into(), &1.into()));
    assert_eq!(interface["irqs"][7]["number"], 127);
    assert_eq!(interface["irqs"][7]["affinity"], "0-23");
    assert_eq!(interface["irqs"][7]["counts"]["1"], 8000);
    assert_eq!(interface["queues"][0]["direction"], "rx");
    assert_eq!(interface["queues"][9]["cpus"], "1");
    assert_eq!(machine["limits"]["cpu"], Value::Null);
    let limited = json(&known::container());
    assert_eq!((&limited["usable"], &limited["limits"]["cpus"]), (&"5".into(), &"5".into()));
    assert_eq!(limited["limits"]["cpu"]["quota_us"], 100_000);
    assert_eq!(limited["limits"]["memory_bytes"], 1 << 30);
    assert_eq!(limited["remarks"][0], "affinity or cpuset allow 1 of 8 CPUs that are online");
}

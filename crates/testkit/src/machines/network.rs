//! Network interfaces: their queues, interrupts and devices.

use super::Machine;
use std::fmt::Write;

/// A network interface.
#[derive(Clone, Debug, Default)]
pub struct Interface {
    /// Such as `eth0`.
    pub name: String,
    /// The driver's name; none for a virtual interface.
    pub driver: Option<String>,
    /// The `numa_node` of the device.
    pub node: Option<i32>,
    /// The address on the PCI bus; none for a virtual interface.
    pub pci: Option<String>,
    /// The device below the PCI device that owns the interface, such as `virtio2`.
    pub child: Option<String>,
    /// Mbit/s.
    pub speed: i64,
    /// Receive queues, each with its `rps_cpus`.
    pub rx: Vec<String>,
    /// Transmit queues, each with its `xps_cpus`; none if the kernel refuses to read it.
    pub tx: Vec<Option<String>>,
    /// Its interrupts.
    pub irqs: Vec<Irq>,
}

/// An interrupt.
#[derive(Clone, Debug)]
pub struct Irq {
    /// As in `/proc/irq`.
    pub number: u32,
    /// As in the last column of `/proc/interrupts`.
    pub name: String,
    /// `smp_affinity_list`.
    pub affinity: String,
    /// The CPU that took all of them, and their number.
    pub counted: (usize, u64),
}

/// Writes the interfaces, including `lo`, and the interrupts.
pub fn write(machine: &Machine, interfaces: &[Interface], online: &[usize]) {
    let lo = Interface {
        name: "lo".to_string(),
        speed: -1,
        rx: vec!["0".to_string()],
        tx: vec![None],
        ..Interface::default()
    };
    for interface in interfaces.iter().chain([&lo]) {
        write_interface(machine, interface);
    }
    let mut table: String =
        online.iter().map(|cpu| format!("{:>11}", format!("CPU{cpu}"))).collect();
    table.insert_str(0, "    ");
    table.push('\n');
    for irq in interfaces.iter().flat_map(|interface| &interface.irqs) {
        let folder = format!("proc/irq/{}", irq.number);
        machine.write(&format!("{folder}/smp_affinity_list"), format!("{}\n", irq.affinity));
        machine.write(&format!("{folder}/effective_affinity_list"), format!("{}\n", irq.counted.0));
        let _ = write!(table, "{:>4}:", irq.number);
        for cpu in online {
            let count = if *cpu == irq.counted.0 { irq.counted.1 } else { 0 };
            let _ = write!(table, "{count:>11}");
        }
        let _ = writeln!(table, "  PCI-MSI {}-edge      {}", irq.number * 8, irq.name);
    }
    let zeros = format!("{:>11}", 0).repeat(online.len());
    let _ = writeln!(table, " LOC:{zeros}   Local timer interrupts\n ERR:          0");
    machine.write("proc/interrupts", table);
}

fn write_interface(machine: &Machine, interface: &Interface) {
    let Interface { name, driver, node, pci, child, .. } = interface;
    // As the kernel does: /sys/class/net has links to the devices.
    let own = match (pci, child) {
        (None, _) => format!("sys/devices/virtual/net/{name}"),
        (Some(pci), None) => format!("sys/devices/pci0000:00/{pci}/net/{name}"),
        (Some(pci), Some(child)) => format!("sys/devices/pci0000:00/{pci}/{child}/net/{name}"),
    };
    machine.link(&format!("sys/class/net/{name}"), &format!("../../../{own}"));
    let (state, type_) = if name == "lo" { ("unknown", "772") } else { ("up", "1") };
    for (file, text) in [("operstate", state), ("type", type_)] {
        machine.write(&format!("{own}/{file}"), format!("{text}\n"));
    }
    machine.write(&format!("{own}/speed"), format!("{}\n", interface.speed));
    for (queue, rps) in interface.rx.iter().enumerate() {
        machine.write(&format!("{own}/queues/rx-{queue}/rps_cpus"), format!("{rps}\n"));
        machine.write(&format!("{own}/queues/rx-{queue}/rps_flow_cnt"), "0\n");
    }
    for (queue, xps) in interface.tx.iter().enumerate() {
        machine.write(&format!("{own}/queues/tx-{queue}/tx_timeout"), "0\n");
        if let Some(xps) = xps {
            machine.write(&format!("{own}/queues/tx-{queue}/xps_cpus"), format!("{xps}\n"));
        }
    }
    let Some(pci) = pci else { return };
    let device = format!("sys/devices/pci0000:00/{pci}");
    machine.write(&format!("{device}/numa_node"), format!("{}\n", node.unwrap_or(-1)));
    for irq in &interface.irqs {
        machine.write(&format!("{device}/msi_irqs/{}", irq.number), "msix\n");
    }
    let (owner, up) = match child {
        Some(child) => (format!("{device}/{child}"), "../../../../bus"),
        None => (device, "../../../bus"),
    };
    let last = owner.rsplit('/').next().unwrap_or_default().to_string();
    machine.link(&format!("{own}/device"), &format!("../../../{last}"));
    if let Some(driver) = driver {
        let bus = if child.is_some() { "virtio" } else { "pci" };
        machine.write(&format!("sys/bus/{bus}/drivers/{driver}/uevent"), "");
        machine.link(&format!("{owner}/driver"), &format!("{up}/{bus}/drivers/{driver}"));
    }
}

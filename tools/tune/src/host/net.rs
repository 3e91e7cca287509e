//! Network interfaces: their devices, queues and interrupts.
//!
//! Which interrupts belong to an interface is not written anywhere in one place. The device
//! has a folder `msi_irqs`, but the device that owns the interface may be a child of it (as
//! `virtio2` is of a PCI device), so the way leads up to the first PCI device and no further:
//! above it are bridges with interrupts of their own. Cards with several ports share one such
//! folder; an interrupt whose name holds another interface's name is that one's. And where
//! there is no device to ask, names in `/proc/interrupts` are all there is.
//!
//! Files: `Documentation/ABI/testing/sysfs-class-net*` and `sysfs-bus-pci`,
//! `Documentation/core-api/irq/irq-affinity.rst`, `Documentation/networking/scaling.rst`
//! (RPS, XPS) in the kernel's sources.

use std::collections::BTreeMap;

use serde::Serialize;

use super::Host;
use crate::cpus::Cpus;

/// A network interface.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Interface {
    /// Such as `eth0`.
    pub name: String,
    /// The kernel's word: `up`, `down`, `unknown` (as `lo` always is) ...
    pub state: String,
    /// Mbit/s, if known.
    pub speed_mbit: Option<u32>,
    /// The driver's name; none for a software interface.
    pub driver: Option<String>,
    /// The address of its PCI device.
    pub pci: Option<String>,
    /// The memory node that its device is attached to.
    pub node: Option<usize>,
    /// Its receive queues, then its transmit queues.
    pub queues: Vec<Queue>,
    /// Its interrupts, by number.
    pub irqs: Vec<Irq>,
}

/// The direction of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Direction {
    /// `rx`: from the network.
    Rx,
    /// `tx`: to the network.
    Tx,
}

/// A queue of an interface.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Queue {
    /// Its direction.
    pub direction: Direction,
    /// Counted from 0 in each direction.
    pub index: usize,
    /// Receiving: the CPUs that process received packets (RPS); the empty set is the CPU that took
    /// the interrupt. Sending: the CPUs that use the queue (XPS); the empty set leaves it to a
    /// hash. None if the kernel doesn't report it, as for a single transmit queue, where there is
    /// no choice.
    pub cpus: Option<Cpus>,
}

impl Queue {
    /// The name of its folder: `rx-0`.
    pub fn name(&self) -> String {
        match self.direction {
            Direction::Rx => format!("rx-{}", self.index),
            Direction::Tx => format!("tx-{}", self.index),
        }
    }
}

/// An interrupt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Irq {
    /// As in `/proc/irq`.
    pub number: u32,
    /// The driver's name for it; several names if it is shared.
    pub name: String,
    /// The CPUs that may take it.
    pub affinity: Option<Cpus>,
    /// The CPU that takes it, on kernels that report that.
    pub effective: Option<Cpus>,
    /// The number that each CPU took since boot, without zeros.
    pub counts: BTreeMap<usize, u64>,
}

impl Irq {
    /// The number since boot, over all online CPUs.
    pub fn total(&self) -> u64 {
        self.counts.values().fold(0, |sum, count| sum.saturating_add(*count))
    }
}

/// All network interfaces, by name.
pub fn read(host: &Host) -> Vec<Interface> {
    let table = parse_interrupts(&host.text("proc/interrupts").unwrap_or_default());
    let names = host.entries("sys/class/net");
    let names: Vec<&str> = names
        .iter()
        .map(String::as_str)
        // /sys/class/net/bonding_masters is a file.
        .filter(|name| host.exists(&format!("sys/class/net/{name}/operstate")))
        .collect();
    names.iter().map(|name| read_one(host, name, &names, &table)).collect()
}

fn read_one(host: &Host, name: &str, all: &[&str], table: &Interrupts) -> Interface {
    let folder = format!("sys/class/net/{name}");
    let device = host.real(&format!("{folder}/device"));
    let pci = device.as_deref().and_then(pci_device);
    let in_pci = |file: &str| Some(format!("{}/{file}", pci?));
    Interface {
        name: name.to_string(),
        state: host.text(&format!("{folder}/operstate")).unwrap_or_default(),
        speed_mbit: host.number(&format!("{folder}/speed")),
        driver: host.link_name(&format!("{folder}/device/driver")),
        pci: pci.and_then(|path| path.rsplit('/').next()).map(str::to_string),
        node: in_pci("numa_node").and_then(|path| host.number(&path)),
        queues: read_queues(host, &folder),
        irqs: irq_numbers(host, name, all, pci, table)
            .into_iter()
            .map(|number| read_irq(host, number, table))
            .collect(),
    }
}

fn read_queues(host: &Host, folder: &str) -> Vec<Queue> {
    let read = |entry: String| {
        let (direction, file) = match entry.split_once('-')?.0 {
            "rx" => (Direction::Rx, "rps_cpus"),
            "tx" => (Direction::Tx, "xps_cpus"),
            _ => return None,
        };
        let index = entry.split_once('-')?.1.parse().ok()?;
        let cpus = host.mask(&format!("{folder}/queues/{entry}/{file}"));
        Some(Queue { direction, index, cpus })
    };
    host.entries(&format!("{folder}/queues")).into_iter().filter_map(read).collect()
}

fn read_irq(host: &Host, number: u32, table: &Interrupts) -> Irq {
    let folder = format!("proc/irq/{number}");
    let (name, counts) = table.get(&number).cloned().unwrap_or_default();
    Irq {
        number,
        name,
        affinity: host.list(&format!("{folder}/smp_affinity_list")),
        effective: host.list(&format!("{folder}/effective_affinity_list")),
        counts,
    }
}

/// The numbers of an interface's interrupts that are in use.
fn irq_numbers(
    host: &Host,
    name: &str,
    all: &[&str],
    pci: Option<&str>,
    table: &Interrupts,
) -> Vec<u32> {
    let named = |number: &u32, interface: &str| {
        table.get(number).is_some_and(|(irq, _)| names_interface(irq, interface))
    };
    let of_another = |number: &u32| all.iter().any(|other| *other != name && named(number, other));
    let of_device = pci.map(|pci| device_irqs(host, pci)).unwrap_or_default();
    let mut numbers: Vec<u32> = of_device
        .into_iter()
        // A driver requests more than it uses; without the table all count.
        .filter(|number| table.is_empty() || table.contains_key(number))
        .filter(|number| named(number, name) || !of_another(number))
        .collect();
    if numbers.is_empty() {
        numbers = table.keys().copied().filter(|number| named(number, name)).collect();
    }
    numbers.sort_unstable();
    numbers
}

/// The interrupts of a PCI device: its message interrupts, or else its single line.
fn device_irqs(host: &Host, pci: &str) -> Vec<u32> {
    let messages = host.entries(&format!("{pci}/msi_irqs"));
    let messages: Vec<u32> = messages.iter().filter_map(|name| name.parse().ok()).collect();
    if !messages.is_empty() {
        return messages;
    }
    host.number(&format!("{pci}/irq")).filter(|&number| number > 0).into_iter().collect()
}

/// The nearest PCI device above a device: the path up to its last component of the form
/// `0000:00:03.0`.
fn pci_device(device: &str) -> Option<&str> {
    let mut path = device;
    loop {
        let (above, last) = path.rsplit_once('/')?;
        if is_pci_address(last) {
            return Some(path);
        }
        path = above;
    }
}

/// `domain:bus:device.function`, in hexadecimal digits.
fn is_pci_address(name: &str) -> bool {
    let hex = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_hexdigit());
    let parts: Vec<&str> = name.split([':', '.']).collect();
    parts.len() == 4 && parts.iter().all(|part| hex(part)) && name.rsplit_once('.').is_some()
}

/// Whether a driver's name for an interrupt contains this interface: `eth0`, `eth0-TxRx-3`,
/// `i40e-eth0-TxRx-3`, but not `eth01`.
fn names_interface(irq: &str, interface: &str) -> bool {
    let of_word = |c: char| c.is_ascii_alphanumeric();
    irq.match_indices(interface).any(|(at, _)| {
        let (before, after) = (&irq[..at], &irq[at + interface.len()..]);
        !before.ends_with(of_word) && !after.starts_with(of_word)
    })
}

/// Name and counts of each numbered interrupt.
type Interrupts = BTreeMap<u32, NameAndCounts>;
pub type NameAndCounts = (String, BTreeMap<usize, u64>);

/// Reads `/proc/interrupts`: a heading with the CPUs, then for each interrupt its number, a
/// count for each CPU, the controller, the hardware's number and kind, and the names.
fn parse_interrupts(text: &str) -> Interrupts {
    let mut lines = text.lines();
    let cpus = parse_heading(lines.next().unwrap_or_default());
    lines.filter_map(|line| parse_interrupt(line, &cpus)).collect()
}

/// The CPUs of the columns of `/proc/interrupts` and `/proc/softirqs`.
pub fn parse_heading(heading: &str) -> Vec<usize> {
    heading.split_whitespace().map_while(|word| word.strip_prefix("CPU")?.parse().ok()).collect()
}

/// One line of `/proc/interrupts`; none if it has no number.
pub fn parse_interrupt(line: &str, cpus: &[usize]) -> Option<(u32, NameAndCounts)> {
    let (number, rest) = line.split_once(':')?;
    let number = number.trim().parse().ok()?;
    let mut words = rest.split_whitespace();
    let mut counts = BTreeMap::new();
    for &cpu in cpus {
        let count = words.next()?.parse().ok()?;
        if count > 0 {
            counts.insert(cpu, count);
        }
    }
    let _controller = words.next();
    let names: Vec<&str> = words.skip_while(|word| is_kind(word)).collect();
    Some((number, (names.join(" "), counts)))
}

/// `5-edge`, `524288-fasteoi`, or in two words `27 Level`.
fn is_kind(word: &str) -> bool {
    let kind = word.trim_start_matches(|c: char| c.is_ascii_digit());
    let kind = kind.strip_prefix('-').unwrap_or(kind).to_ascii_lowercase();
    matches!(kind.as_str(), "" | "edge" | "level" | "fasteoi" | "none" | "percpu")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use weft_testkit::machines::{Machine, known};

    fn interface(machine: &Machine, name: &str) -> Interface {
        let all = read(&Host::new(machine.root()));
        all.into_iter().find(|interface| interface.name == name).unwrap()
    }

    fn numbers(interface: &Interface) -> Vec<u32> {
        interface.irqs.iter().map(|irq| irq.number).collect()
    }

    #[test]
    fn a_card_with_queues() {
        let machine = known::six_cores().build();
        let eth0 = interface(&machine, "eth0");
        assert_eq!(eth0.driver.as_deref(), Some("bnx2"));
        assert_eq!(eth0.pci.as_deref(), Some("0000:01:00.0"));
        assert_eq!((eth0.speed_mbit, eth0.node, eth0.state.as_str()), (Some(1000), None, "up"));
        assert_eq!(numbers(&eth0), [60, 61, 62, 63]);
        let irq = &eth0.irqs[1];
        assert_eq!((irq.name.as_str(), irq.total()), ("eth0-TxRx-1", 1_000_000));
        assert_eq!(irq.affinity.as_ref().unwrap().to_string(), "1");
        assert_eq!(irq.counts, BTreeMap::from([(1, 1_000_000)]));
        let names: Vec<String> = eth0.queues.iter().map(Queue::name).collect();
        assert_eq!(names, ["rx-0", "rx-1", "rx-2", "rx-3", "tx-0", "tx-1", "tx-2", "tx-3"]);
        assert!(eth0.queues[0].cpus.as_ref().unwrap().is_empty(), "RPS is off");
        assert_eq!(eth0.queues[6].cpus.as_ref().unwrap().to_string(), "2");
        let lo = interface(&machine, "lo");
        assert_eq!((lo.driver, lo.speed_mbit, lo.irqs.len()), (None, None, 0));
        assert_eq!(interface(&known::two_sockets(false).build(), "ens1f0").node, Some(1));
    }

    #[test]
    fn a_child_of_the_pci_device() {
        let eth0 = interface(&known::virtual_machine().build(), "eth0");
        assert_eq!(eth0.driver.as_deref(), Some("virtio_net"));
        assert_eq!(numbers(&eth0), [37, 38, 39]);
        assert_eq!(eth0.irqs[1].name, "virtio2-input.0");
        assert_eq!((eth0.speed_mbit, eth0.queues[1].cpus.as_ref()), (None, None));
    }

    #[test]
    fn software_has_no_device() {
        let eth0 = interface(&known::container().build(), "eth0");
        assert_eq!((eth0.driver, eth0.pci, eth0.irqs.len(), eth0.queues.len()), (None, None, 0, 2));
    }

    #[test]
    fn two_ports_of_one_device_share_its_folder() {
        let machine = known::six_cores().build();
        machine.link("sys/class/net/eth1", "../../devices/pci0000:00/0000:01:00.0/net/eth1");
        let own = "sys/devices/pci0000:00/0000:01:00.0/net/eth1";
        machine.write(&format!("{own}/operstate"), "up\n");
        machine.link(&format!("{own}/device"), "../../../0000:01:00.0");
        let text = machine.text("proc/interrupts").replace("eth0-TxRx-3", "eth1-TxRx-0");
        machine.write("proc/interrupts", text.replace("eth0-TxRx-0", "bnx2-async"));
        assert_eq!(numbers(&interface(&machine, "eth0")), [60, 61, 62], "60 is of the card");
        assert_eq!(numbers(&interface(&machine, "eth1")), [60, 63]);
    }

    #[test]
    fn without_messages_there_is_one_line_and_without_that_the_name() {
        let machine = known::six_cores().build();
        let device = "sys/devices/pci0000:00/0000:01:00.0";
        machine.remove(&format!("{device}/msi_irqs"));
        machine.write(&format!("{device}/irq"), "62\n");
        assert_eq!(numbers(&interface(&machine, "eth0")), [62]);
        machine.write(&format!("{device}/irq"), "0\n");
        assert_eq!(numbers(&interface(&machine, "eth0")), [60, 61, 62, 63]);
        // A driver may allocate messages that it does not use.
        machine.write(&format!("{device}/msi_irqs/61"), "msix\n");
        machine.write(&format!("{device}/msi_irqs/99"), "msix\n");
        assert_eq!(numbers(&interface(&machine, "eth0")), [61]);
    }

    #[test]
    fn bridges_above_are_ignored() {
        let path = "sys/devices/pci0000:00/0000:00:1c.0/0000:01:00.0/virtio2";
        assert_eq!(pci_device(path), Some("sys/devices/pci0000:00/0000:00:1c.0/0000:01:00.0"));
        assert_eq!(pci_device("sys/devices/platform/soc/eth.0"), None);
    }

    #[test]
    fn the_table_of_interrupts() {
        let table = parse_interrupts(
            "           CPU0       CPU3\n\
             \x20 9:          5          7   IO-APIC   9-fasteoi   acpi, other\n\
             \x2027:          0          2     GICv3  27 Level     arch timer\n\
             \x2028:          1          0  none\n\
             LOC:          1          2   Local timer interrupts\n\
             ERR:          0\n\
             30:         12\n",
        );
        let line = |number| table.get(number).map(|(name, counts)| (name.as_str(), counts.clone()));
        assert_eq!(line(&9), Some(("acpi, other", BTreeMap::from([(0, 5), (3, 7)]))));
        assert_eq!(line(&27), Some(("arch timer", BTreeMap::from([(3, 2)]))));
        assert_eq!(line(&28), Some(("", BTreeMap::from([(0, 1)]))));
        assert_eq!(table.len(), 3, "a line that ends early says nothing");
    }

    #[test]
    fn names_of_interrupts() {
        for name in ["eth0", "eth0-TxRx-3", "i40e-eth0-TxRx-3", "eth0:rx", "a, eth0"] {
            assert!(names_interface(name, "eth0"), "{name}");
        }
        for name in ["eth01", "veth0", "eth", "virtio2-input.0", ""] {
            assert!(!names_interface(name, "eth0"), "{name}");
        }
    }

    proptest! {
        #[test]
        fn no_text_breaks_the_table(text in "(CPU[0-9] ?){0,3}\n([0-9]{1,11}: {0,2}[0-9a-z \\-]{0,20}\n){0,4}\\PC{0,30}") {
            parse_interrupts(&text);
        }
    }
}

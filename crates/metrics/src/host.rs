//! The CPUs and network interfaces of the machine, as the kernel counts them. All counters only grow.
//!
//! | file | says |
//! |---|---|
//! | `/proc/stat` | the time of each CPU |
//! | `/proc/softirqs` | soft interrupts for packets, on each CPU |
//! | `/proc/interrupts` | interrupts of each device, on each CPU |
//! | `/sys/class/net/NAME/device`, its `msi_irqs` | which of them are those of an interface |
//! | `/proc/net/dev` | bytes of each interface |
//!
//! In a container, CPUs and interrupts are those of the whole machine, and interfaces are the container's.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// A number for each CPU.
pub type ByCpu<T> = BTreeMap<usize, T>;

/// Seconds that a CPU has spent.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CpuTime {
    pub user: f64,
    pub system: f64,
    /// In interrupts, hard and soft.
    pub interrupt: f64,
    /// Taken away by the host of a virtual machine.
    pub stolen: f64,
    pub idle: f64,
}

/// A network interface.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Interface {
    pub name: String,
    /// Its interrupts, by CPU; empty for software such as `lo`.
    pub interrupts: ByCpu<u64>,
    pub received_bytes: u64,
    pub sent_bytes: u64,
}

/// Everything at one moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Reading {
    pub cpus: ByCpu<CpuTime>,
    /// Soft interrupts for received and for sent packets.
    pub packets: ByCpu<(u64, u64)>,
    pub interfaces: Vec<Interface>,
}

/// Reads below a root folder.
#[derive(Clone, Debug)]
pub struct Host(PathBuf);

impl Default for Host {
    fn default() -> Host {
        Host::below(Path::new("/"))
    }
}

impl Host {
    pub fn below(root: &Path) -> Host {
        Host(root.to_owned())
    }

    fn text(&self, path: &str) -> String {
        fs::read_to_string(self.0.join(path)).unwrap_or_default()
    }

    /// Reads everything now. A missing file leaves its part empty.
    pub fn read(&self) -> Reading {
        let table = interrupts(&self.text("proc/interrupts"));
        let mut interfaces = traffic(&self.text("proc/net/dev"));
        let names: Vec<String> =
            interfaces.iter().map(|interface| interface.name.clone()).collect();
        for interface in &mut interfaces {
            let of_device = self.device_interrupts(&interface.name);
            for (number, (label, counts)) in &table {
                let named = |name: &String| names_interface(label, name);
                let is_own = match named(&interface.name) {
                    true => true,
                    // Ports of one card share a folder of interrupts.
                    false => of_device.contains(number) && !names.iter().any(named),
                };
                if is_own {
                    counts
                        .iter()
                        .for_each(|(cpu, n)| *interface.interrupts.entry(*cpu).or_default() += n);
                }
            }
        }
        Reading {
            cpus: cpu_times(&self.text("proc/stat")),
            packets: soft_interrupts(&self.text("proc/softirqs")),
            interfaces,
        }
    }

    /// The interrupts of the nearest PCI device above the interface's device, which may be a child of it.
    fn device_interrupts(&self, name: &str) -> Vec<u32> {
        let Ok(device) = fs::canonicalize(self.0.join(format!("sys/class/net/{name}/device")))
        else {
            return Vec::new();
        };
        let pci = device.ancestors().find(|path| {
            let last = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            is_pci_address(last)
        });
        let Some(pci) = pci else { return Vec::new() };
        let messages = fs::read_dir(pci.join("msi_irqs")).into_iter().flatten();
        let numbers: Vec<u32> =
            messages.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect();
        if !numbers.is_empty() {
            return numbers;
        }
        let line = fs::read_to_string(pci.join("irq")).unwrap_or_default();
        line.trim().parse().ok().filter(|number| *number > 0).into_iter().collect()
    }
}

/// `0000:00:03.0`
fn is_pci_address(name: &str) -> bool {
    let parts: Vec<&str> = name.split([':', '.']).collect();
    parts.len() == 4
        && name.contains('.')
        && parts.iter().all(|part| !part.is_empty() && part.bytes().all(|b| b.is_ascii_hexdigit()))
}

/// Whether a driver's name for an interrupt contains this interface: `eth0-TxRx-3`, but not `eth01`.
fn names_interface(label: &str, name: &str) -> bool {
    let of_word = |c: char| c.is_ascii_alphanumeric();
    label.match_indices(name).any(|(at, _)| {
        !label[..at].ends_with(of_word) && !label[at + name.len()..].starts_with(of_word)
    })
}

/// The CPUs of the columns of `/proc/interrupts` and `/proc/softirqs`.
fn heading(line: &str) -> Vec<usize> {
    line.split_whitespace().map_while(|word| word.strip_prefix("CPU")?.parse().ok()).collect()
}

/// Names and counts of the numbered interrupts.
fn interrupts(text: &str) -> BTreeMap<u32, (String, ByCpu<u64>)> {
    let mut lines = text.lines();
    let cpus = heading(lines.next().unwrap_or_default());
    let parsed = lines.filter_map(|line| {
        let (number, rest) = line.split_once(':')?;
        let number = number.trim().parse().ok()?;
        let mut words = rest.split_whitespace();
        let counts: Vec<u64> =
            words.by_ref().take(cpus.len()).map_while(|w| w.parse().ok()).collect();
        let by_cpu = cpus.iter().copied().zip(counts).filter(|(_, count)| *count > 0).collect();
        Some((number, (words.collect::<Vec<_>>().join(" "), by_cpu)))
    });
    parsed.collect()
}

fn soft_interrupts(text: &str) -> ByCpu<(u64, u64)> {
    let mut lines = text.lines();
    let cpus = heading(lines.next().unwrap_or_default());
    let mut counts: ByCpu<(u64, u64)> = cpus.iter().map(|cpu| (*cpu, (0, 0))).collect();
    for (name, numbers) in lines.filter_map(|line| line.trim_start().split_once(':')) {
        let numbers = numbers.split_ascii_whitespace().map(|number| number.parse().unwrap_or(0));
        for (cpu, number) in cpus.iter().zip(numbers) {
            let Some(count) = counts.get_mut(cpu) else { continue };
            match name {
                "NET_RX" => count.0 = number,
                "NET_TX" => count.1 = number,
                _ => {}
            }
        }
    }
    counts
}

fn cpu_times(text: &str) -> ByCpu<CpuTime> {
    let hertz = rustix::param::clock_ticks_per_second().max(1) as f64;
    let lines = text.lines().filter_map(|line| line.strip_prefix("cpu")?.split_once(' '));
    let parsed = lines.filter_map(|(cpu, times)| {
        let cpu = cpu.parse().ok()?;
        let mut times = times.split_ascii_whitespace().map(|ticks| ticks.parse::<u64>().ok());
        // user, nice, system, idle, iowait, irq, softirq, steal
        let mut next = || times.next().flatten().unwrap_or(0) as f64 / hertz;
        let (user, system, idle) = (next() + next(), next(), next() + next());
        let (interrupt, stolen) = (next() + next(), next());
        Some((cpu, CpuTime { user, system, interrupt, stolen, idle }))
    });
    parsed.collect()
}

/// `/proc/net/dev`: two lines of headings, then eight columns of received and eight of sent data.
fn traffic(text: &str) -> Vec<Interface> {
    let lines = text.lines().filter_map(|line| line.split_once(':'));
    let parsed = lines.filter_map(|(name, numbers)| {
        let numbers: Vec<u64> =
            numbers.split_ascii_whitespace().map_while(|number| number.parse().ok()).collect();
        Some(Interface {
            name: name.trim().to_owned(),
            interrupts: ByCpu::new(),
            received_bytes: *numbers.first()?,
            sent_bytes: *numbers.get(8)?,
        })
    });
    parsed.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    fn write(root: &Path, path: &str, text: &str) {
        let path = root.join(path);
        fs::create_dir_all(path.parent().expect("a folder")).expect("created");
        fs::write(path, text).expect("written");
    }

    #[test]
    fn interrupts_belong_to_the_interface_of_their_device() {
        let dir = tempfile::tempdir().expect("a folder");
        let root = dir.path();
        write(
            root,
            "proc/stat",
            "cpu  9 9\ncpu0 100 0 50 700 0 5 5 1\ncpu2 1 1 1 1 1 1 1 1\nintr 5\n",
        );
        write(root, "proc/softirqs", "  CPU0 CPU2\n  NET_TX: 1 2\n  NET_RX: 30 40\n TIMER: 7 7\n");
        write(
            root,
            "proc/interrupts",
            "   CPU0 CPU2\n 9: 5 7 IO-APIC 9-fasteoi acpi\n 37: 10 0 PCI-MSI 1-edge virtio2-input.0\n \
             38: 1 20 PCI-MSI 2-edge virtio2-output.0\n 40: 3 3 PCI-MSI 3-edge eth1-TxRx-0\nLOC: 1 2\n",
        );
        let net = "Inter-| Receive\n face |bytes\n eth0: 100 1 0 0 0 0 0 0 200 2 0 0 0 0 0 0\n \
                   eth1: 1 1 0 0 0 0 0 0 2 2 0 0 0 0 0 0\n    lo: 5 1 0 0 0 0 0 0 5 1 0 0 0 0 0 0\n";
        write(root, "proc/net/dev", net);
        let pci = "sys/devices/pci0000:00/0000:00:03.0";
        for number in [37, 38, 39, 40] {
            write(root, &format!("{pci}/msi_irqs/{number}"), "msix\n");
        }
        write(root, &format!("{pci}/virtio2/net/eth0/operstate"), "up\n");
        fs::create_dir_all(root.join("sys/class/net/eth0")).expect("a folder");
        symlink(root.join(format!("{pci}/virtio2")), root.join("sys/class/net/eth0/device"))
            .expect("a link");
        let reading = Host::below(root).read();
        let cpu = reading.cpus[&0];
        assert!(cpu.user > cpu.system && cpu.interrupt > cpu.stolen && cpu.idle > cpu.user);
        assert_eq!(reading.packets, ByCpu::from([(0, (30, 1)), (2, (40, 2))]));
        let by_name = |name: &str| reading.interfaces.iter().find(|i| i.name == name).expect(name);
        assert_eq!(by_name("eth0").interrupts, ByCpu::from([(0, 11), (2, 20)]));
        assert_eq!(by_name("eth1").interrupts, ByCpu::from([(0, 3), (2, 3)]));
        assert!(by_name("lo").interrupts.is_empty());
        assert_eq!((by_name("eth0").received_bytes, by_name("eth0").sent_bytes), (100, 200));
    }

    #[test]
    fn missing_files_leave_their_part_empty() {
        let dir = tempfile::tempdir().expect("a folder");
        assert_eq!(Host::below(dir.path()).read(), Reading::default());
    }
}

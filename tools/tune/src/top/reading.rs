//! The kernel's counters of a process and of its machine, at one moment.
//!
//! All of them only grow, so two readings and the time between them give rates. Files:
//! `Documentation/filesystems/proc.rst` and `Documentation/scheduler/sched-stats.rst` of the kernel.

use std::collections::BTreeMap;

use weft_base::machine::Machine;

use crate::host::{Host, net};

/// A number for each CPU.
pub type ByCpu<T> = BTreeMap<usize, T>;

/// The facts of a machine that don't change while it is watched.
#[derive(Clone, Debug)]
pub struct Fixed {
    /// The memory node of each CPU.
    pub nodes: ByCpu<usize>,
    /// The interrupts of each network interface that has some.
    pub interrupts: BTreeMap<String, Vec<u32>>,
}

impl Fixed {
    /// Reads them.
    pub fn read(host: &Host) -> Fixed {
        let machine = Machine::read(host.root());
        let interrupts = net::read(host).into_iter().map(|interface| {
            (interface.name, interface.irqs.iter().map(|irq| irq.number).collect())
        });
        Fixed {
            nodes: machine.cpus.iter().map(|cpu| (cpu.id, cpu.node)).collect(),
            interrupts: interrupts.collect(),
        }
    }
}

/// Counters of a machine.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Reading {
    /// The threads of the server, by id; empty if it has ended.
    pub threads: BTreeMap<u32, Thread>,
    /// Seconds that each CPU spent.
    pub cpus: ByCpu<CpuTime>,
    /// Soft interrupts for received and sent packets.
    pub soft: ByCpu<(u64, u64)>,
    /// By name.
    pub interfaces: BTreeMap<String, Interface>,
}

/// Counters of a thread.
#[derive(Clone, Debug, PartialEq)]
pub struct Thread {
    /// Up to 15 bytes.
    pub name: String,
    /// Its start, in ticks since boot: ids are reused.
    pub started: u64,
    /// Seconds on a CPU.
    pub used: f64,
    /// Seconds ready to run, while another thread had the CPU; not on all kernels.
    pub waited: Option<f64>,
    /// The CPU that it ran on last.
    pub cpu: usize,
    /// Switches because it waited for something.
    pub voluntary: u64,
    /// Switches because the kernel took the CPU away.
    pub involuntary: u64,
}

/// Seconds of a CPU.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CpuTime {
    /// In programs.
    pub user: f64,
    /// In the kernel, for programs.
    pub system: f64,
    /// In interrupts, hard and soft.
    pub interrupt: f64,
    /// Taken away by the host of a virtual machine.
    pub stolen: f64,
    /// Without work.
    pub idle: f64,
}

impl CpuTime {
    /// All its time.
    pub fn total(&self) -> f64 {
        self.user + self.system + self.interrupt + self.stolen + self.idle
    }
}

/// Counters of a network interface.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Interface {
    /// Its interrupts, by the CPU that took them.
    pub interrupts: ByCpu<u64>,
    /// Received bytes and packets.
    pub received: (u64, u64),
    /// Sent bytes and packets.
    pub sent: (u64, u64),
}

/// Reads everything now. `pid` is the server's.
pub fn read(host: &Host, fixed: &Fixed, pid: u32) -> Reading {
    let interrupts = host.text("proc/interrupts").unwrap_or_default();
    let mut interfaces = traffic(&host.text("proc/net/dev").unwrap_or_default());
    let count = |numbers: &Vec<u32>| count_interrupts(&interrupts, numbers);
    for (name, interface) in &mut interfaces {
        interface.interrupts = fixed.interrupts.get(name).map(count).unwrap_or_default();
    }
    Reading {
        threads: threads(host, pid),
        cpus: cpu_times(&host.text("proc/stat").unwrap_or_default()),
        soft: soft_interrupts(&host.text("proc/softirqs").unwrap_or_default()),
        interfaces,
    }
}

/// Seconds since the start of a process; none if there is no such process.
pub fn age(host: &Host, pid: u32) -> Option<f64> {
    let fields = host.text(&format!("proc/{pid}/stat"))?;
    let started = Stat::parse(&fields)?.started as f64 / ticks();
    let up: f64 = host.text("proc/uptime")?.split(' ').next()?.parse().ok()?;
    Some(up - started)
}

/// Units of CPU times in `/proc`, per second.
fn ticks() -> f64 {
    rustix::param::clock_ticks_per_second() as f64
}

fn threads(host: &Host, pid: u32) -> BTreeMap<u32, Thread> {
    let folder = format!("proc/{pid}/task");
    let tids = host.entries(&folder).into_iter().filter_map(|name| name.parse().ok());
    // A thread that ends meanwhile is left out.
    tids.filter_map(|tid| Some((tid, thread(host, &format!("{folder}/{tid}"))?))).collect()
}

fn thread(host: &Host, folder: &str) -> Option<Thread> {
    let text = host.text(&format!("{folder}/stat"))?;
    let stat = Stat::parse(&text)?;
    // In nanoseconds, where `stat` counts hundredths of a second.
    let precise = host.text(&format!("{folder}/schedstat"));
    let mut precise = precise.iter().flat_map(|text| text.split(' ')).map(str::parse::<u64>);
    let mut seconds = || Some(precise.next()?.ok()? as f64 / 1e9);
    let used = seconds().unwrap_or(stat.used as f64 / ticks());
    let status = host.text(&format!("{folder}/status")).unwrap_or_default();
    let switches = |name: &str| {
        let value = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        value.and_then(|value| value.trim().parse().ok()).unwrap_or(0)
    };
    Some(Thread {
        name: stat.name.to_string(),
        started: stat.started,
        used,
        waited: seconds(),
        cpu: stat.cpu,
        voluntary: switches("voluntary_ctxt_switches"),
        involuntary: switches("nonvoluntary_ctxt_switches"),
    })
}

/// The fields of `/proc/PID/stat` that matter here.
struct Stat<'a> {
    name: &'a str,
    /// Ticks on a CPU.
    used: u64,
    /// Ticks since boot.
    started: u64,
    cpu: usize,
}

impl Stat<'_> {
    fn parse(text: &str) -> Option<Stat<'_>> {
        // The name before the last parenthesis may contain anything; fields count from 3 after it.
        let (before, after) = text.rsplit_once(')')?;
        let fields: Vec<&str> = after.split_ascii_whitespace().collect();
        let field = |number: usize| fields.get(number - 3)?.parse::<u64>().ok();
        Some(Stat {
            name: before.split_once('(')?.1,
            used: field(14)? + field(15)?,
            started: field(22)?,
            cpu: usize::try_from(field(39)?).ok()?,
        })
    }
}

fn cpu_times(stat: &str) -> ByCpu<CpuTime> {
    let lines = stat.lines().filter_map(|line| line.strip_prefix("cpu")?.split_once(' '));
    let lines = lines.filter_map(|(cpu, times)| {
        let cpu = cpu.parse().ok()?;
        let mut times = times.split_ascii_whitespace().map(|ticks| ticks.parse::<u64>().ok());
        // user, nice, system, idle, iowait, irq, softirq, steal; user includes guests. Old kernels
        // have fewer.
        let mut next = || times.next().flatten().unwrap_or(0) as f64 / ticks();
        let (user, system, idle) = (next() + next(), next(), next() + next());
        let (interrupt, stolen) = (next() + next(), next());
        Some((cpu, CpuTime { user, system, interrupt, stolen, idle }))
    });
    lines.collect()
}

fn soft_interrupts(text: &str) -> ByCpu<(u64, u64)> {
    let mut lines = text.lines();
    let cpus = net::parse_heading(lines.next().unwrap_or_default());
    let mut counts: ByCpu<(u64, u64)> = cpus.iter().map(|cpu| (*cpu, (0, 0))).collect();
    for (name, numbers) in lines.filter_map(|line| line.trim_start().split_once(':')) {
        let numbers = numbers.split_ascii_whitespace().map(|number| number.parse().unwrap_or(0));
        for (count, number) in counts.values_mut().zip(numbers) {
            match name {
                "NET_RX" => count.0 = number,
                "NET_TX" => count.1 = number,
                _ => {}
            }
        }
    }
    counts
}

/// The interrupts with these numbers. The table has hundreds of lines on large machines, so other
/// lines are not parsed.
fn count_interrupts(table: &str, numbers: &[u32]) -> ByCpu<u64> {
    let mut sums = ByCpu::new();
    let mut lines = table.lines();
    let cpus = net::parse_heading(lines.next().unwrap_or_default());
    for line in lines {
        let number = line.split_once(':').and_then(|(number, _)| number.trim().parse().ok());
        if !number.is_some_and(|number: u32| numbers.contains(&number)) {
            continue;
        }
        let Some((_, (_, counts))) = net::parse_interrupt(line, &cpus) else { continue };
        for (cpu, count) in counts {
            *sums.entry(cpu).or_default() += count;
        }
    }
    sums
}

/// `/proc/net/dev`: two lines of headings, then eight columns of received and eight of sent data.
fn traffic(text: &str) -> BTreeMap<String, Interface> {
    let lines = text.lines().filter_map(|line| line.split_once(':'));
    let lines = lines.filter_map(|(name, numbers)| {
        let numbers: Vec<u64> =
            numbers.split_ascii_whitespace().map_while(|number| number.parse().ok()).collect();
        let at = |column: usize| numbers.get(column).copied();
        let interface = Interface {
            interrupts: ByCpu::new(),
            received: (at(0)?, at(1)?),
            sent: (at(8)?, at(9)?),
        };
        Some((name.trim().to_string(), interface))
    });
    lines.collect()
}

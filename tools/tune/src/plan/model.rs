//! A plan, in the form of its file.
//!
//! A plan is complete in itself: `apply` uses only the plan and the given processes and does not
//! look at the machine again, so that it does what the operator read and agreed to. Threads of
//! servers appear in it by role, not by id.

use anyhow::{Context, bail};
use serde::{Deserialize, Serialize};

use crate::apply::ProcessId;
use crate::cpus::Cpus;

/// The form of the file; one that is not known is refused.
pub const VERSION: u32 = 1;

/// Where interrupts go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Scheme {
    /// CPUs for nothing else.
    Dedicated,
    /// Over the CPUs of the servers.
    Spread,
    /// Left as they are.
    None,
}

/// Where everything goes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// [`VERSION`].
    pub version: u32,
    /// Where interrupts go.
    pub scheme: Scheme,
    /// Why that scheme.
    pub reason: String,
    /// The CPUs that could be used.
    pub usable: Cpus,
    /// CPUs for interrupts only.
    pub interrupts: Cpus,
    /// The servers.
    pub instances: Vec<Instance>,
    /// Network interfaces whose interrupts are placed.
    pub interfaces: Vec<Interface>,
    /// Requests that could not be met, and other remarks.
    pub notes: Vec<String>,
}

/// The kind of a server, which decides which settings it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// Threads come and go while it runs; it neither forks nor, so far, saves.
    Weft,
    /// Redis, Valkey and what else forks to save.
    Forking,
}

/// A server's place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Instance {
    /// For people: `instance 1`, or what it was found by.
    pub name: String,
    /// I/O threads, the main thread among them.
    pub threads: usize,
    /// The CPU of each I/O thread, the main thread's first. Empty where there are fewer CPUs
    /// than threads: they share `server` then.
    pub io: Vec<usize>,
    /// `server_cpulist`: all CPUs of the I/O threads.
    pub server: Cpus,
    /// `bio_cpulist`, `bgsave_cpulist` and `aof_rewrite_cpulist`: everything else it does.
    pub background: Cpus,
    /// The process that it was planned for.
    pub process: Option<ProcessId>,
    /// The kind of the running server, if one runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<Kind>,
}

impl Instance {
    /// All CPUs that a thread of it may run on; the argument of `taskset` for the process.
    pub fn mask(&self) -> Cpus {
        self.server.and(&self.background)
    }
}

/// A network interface's interrupts and queues.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Interface {
    /// Such as `eth0`.
    pub name: String,
    /// Its interrupts.
    pub irqs: Vec<Irq>,
    /// CPUs that process packets of its receive queues (RPS); the empty set is the CPU that takes
    /// the interrupt.
    pub receive: Vec<Queue>,
    /// CPUs that send by its transmit queues (XPS).
    pub transmit: Vec<Queue>,
}

/// An interrupt's place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Irq {
    /// As in `/proc/irq`.
    pub number: u32,
    /// As in `/proc/interrupts`.
    pub name: String,
    /// Which CPUs take it.
    pub cpus: Cpus,
}

/// A queue's CPUs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Queue {
    /// `rx-0`, `tx-3`, as in `/sys/class/net/*/queues`.
    pub name: String,
    /// Which CPUs serve it.
    pub cpus: Cpus,
}

impl Plan {
    /// The plan in a file.
    ///
    /// # Errors
    /// Where it is no plan, or one of another form.
    pub fn parse(text: &str) -> anyhow::Result<Plan> {
        #[derive(Deserialize)]
        struct Form {
            version: u32,
        }
        let form: Form = serde_json::from_str(text).context("this is no plan")?;
        if form.version != VERSION {
            bail!("the plan has form {}, this program knows form {VERSION}", form.version);
        }
        let plan: Plan = serde_json::from_str(text).context("this is no plan")?;
        plan.check()?;
        Ok(plan)
    }

    /// The text of its file.
    pub fn to_json(&self) -> String {
        let mut text = serde_json::to_string_pretty(self).expect("a plan has nothing but text");
        text.push('\n');
        text
    }

    /// A plan may have been edited: what would be applied must make sense, and names that
    /// become paths must not lead elsewhere.
    fn check(&self) -> anyhow::Result<()> {
        for instance in &self.instances {
            let name = &instance.name;
            if instance.server.is_empty() || instance.background.is_empty() {
                bail!("{name} has no CPUs in the plan");
            }
            if !instance.io.is_empty() && instance.io.len() != instance.threads {
                bail!("{name} has {} threads and {} CPUs", instance.threads, instance.io.len());
            }
            if let Some(cpu) = instance.io.iter().find(|&&cpu| !instance.server.contains(cpu)) {
                bail!("{name} has a thread on CPU {cpu}, which is not in its list");
            }
        }
        let queues = self.interfaces.iter().flat_map(|i| i.receive.iter().chain(&i.transmit));
        let names = self.interfaces.iter().map(|interface| &interface.name);
        for name in names.chain(queues.map(|queue| &queue.name)) {
            if name.is_empty() || name.contains('/') || name == ".." || name == "." {
                bail!("{name:?} is no name of an interface or a queue");
            }
        }
        for irq in self.interfaces.iter().flat_map(|interface| &interface.irqs) {
            if irq.cpus.is_empty() {
                bail!("interrupt {} has no CPUs in the plan", irq.number);
            }
        }
        Ok(())
    }
}

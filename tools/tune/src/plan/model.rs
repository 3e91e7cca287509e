//! A plan, in the form of its file.
//!
//! A plan is self-contained: `apply` uses only the plan and the given processes and does not read
//! the machine again. So it does exactly the plan that the operator has read and agreed to. Threads
//! of servers appear in it by role, not by id.

use anyhow::{Context, bail};
use serde::{Deserialize, Serialize};

use crate::apply::ProcessId;
use crate::cpus::Cpus;

/// The version of the format; unknown ones are refused.
pub const VERSION: u32 = 1;

/// The placement of interrupts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Scheme {
    /// On dedicated CPUs.
    Dedicated,
    /// Over the CPUs of the servers.
    Spread,
    /// Unchanged.
    None,
}

/// The placement of everything.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// [`VERSION`].
    pub version: u32,
    /// The placement of interrupts.
    pub scheme: Scheme,
    /// The reason for that scheme.
    pub reason: String,
    /// The usable CPUs.
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
    /// Its threads change while it runs; it doesn't fork.
    Weft,
    /// Redis, Valkey and others that fork to save.
    Forking,
}

/// A server's place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Instance {
    /// For people: `instance 1`, or the option that found it.
    pub name: String,
    /// I/O threads, including the main thread.
    pub threads: usize,
    /// The CPU of each I/O thread, the main thread's first. Empty if there are fewer CPUs than
    /// threads: then they share `server`.
    pub io: Vec<usize>,
    /// `server_cpulist`: all CPUs of the I/O threads.
    pub server: Cpus,
    /// `bio_cpulist`, `bgsave_cpulist` and `aof_rewrite_cpulist`: all other work.
    pub background: Cpus,
    /// The process that it was planned for.
    pub process: Option<ProcessId>,
    /// The kind of the running server, if one runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<Kind>,
}

impl Instance {
    /// All CPUs of its threads; the argument of `taskset` for the process.
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
    /// The CPUs that take it.
    pub cpus: Cpus,
}

/// A queue's CPUs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Queue {
    /// `rx-0`, `tx-3`, as in `/sys/class/net/*/queues`.
    pub name: String,
    /// The CPUs that serve it.
    pub cpus: Cpus,
}

impl Plan {
    /// Reads a plan from a file's text.
    ///
    /// # Errors
    /// If it is not a plan, or has another version.
    pub fn parse(text: &str) -> anyhow::Result<Plan> {
        #[derive(Deserialize)]
        struct Form {
            version: u32,
        }
        let form: Form = serde_json::from_str(text).context("this is not a plan")?;
        if form.version != VERSION {
            bail!("the plan has form {}, this program knows form {VERSION}", form.version);
        }
        let plan: Plan = serde_json::from_str(text).context("this is not a plan")?;
        plan.check()?;
        Ok(plan)
    }

    /// The text of its file.
    pub fn to_json(&self) -> String {
        let mut text = serde_json::to_string_pretty(self).expect("a plan has nothing but text");
        text.push('\n');
        text
    }

    /// A plan may have been edited: its values must be valid, and names that become paths must not
    /// lead elsewhere.
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
                bail!("{name:?} is not a name of an interface or a queue");
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

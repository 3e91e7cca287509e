//! The changes of a plan: a list of steps, each with one value before and after.
//!
//! A step is a thread's mask or a file's text. Both are stored as text, because a restored value
//! must equal the old one digit for digit; they are compared as sets of CPUs.

use std::fmt;
use std::io;

use serde::{Deserialize, Serialize};
use weft_base::cpulist;

use super::processes::{self, Process, ProcessId, Role, Thread};
use super::system::System;
use crate::cpus::{self, Cpus};
use crate::plan::{Instance, Interface, Plan};

/// How a value spells a set of CPUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Spelling {
    /// `0-3,8`
    List,
    /// `0000010f`
    Mask,
}

impl Spelling {
    /// The set, or `None` if the text is invalid.
    pub fn parse(self, text: &str) -> Option<Cpus> {
        match self {
            Spelling::List => cpulist::parse(text).ok().map(Cpus),
            Spelling::Mask => cpus::parse_mask(text),
        }
    }

    fn print(self, cpus: &Cpus) -> String {
        match self {
            Spelling::List => cpus.to_string(),
            Spelling::Mask => cpus.mask(),
        }
    }
}

/// The target of a change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum Target {
    /// A thread's affinity.
    Thread {
        /// The thread's process.
        process: ProcessId,
        /// Its own id.
        tid: u32,
        /// When it started.
        started: u64,
        /// Its name, for people.
        name: String,
    },
    /// A file of the kernel.
    File {
        /// From the root of the machine, without the first slash.
        path: String,
        /// How CPUs are spelled in it.
        spelling: Spelling,
    },
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Target::Thread { process, tid, name, .. } => {
                write!(f, "thread {tid} ({name}) of process {}", process.pid)
            }
            Target::File { path, .. } => write!(f, "/{path}"),
        }
    }
}

/// One value to change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Step {
    /// The target.
    pub target: Target,
    /// The value before the change.
    pub before: String,
    /// The value to set.
    pub after: String,
}

/// The reason why a value can't be read or set.
#[derive(Debug)]
pub enum Trouble {
    /// The thread has ended; its process runs.
    ThreadEnded,
    /// The process has ended, or its id was reused.
    ProcessEnded,
    /// Anything else.
    Failed(io::Error),
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Trouble::ThreadEnded => f.write_str("the thread has ended"),
            Trouble::ProcessEnded => {
                f.write_str("the process has ended, and another may have its id")
            }
            Trouble::Failed(error) => write!(f, "{error}"),
        }
    }
}

impl Target {
    /// The process of a thread, or the file.
    pub fn owner(&self) -> String {
        match self {
            Target::Thread { process, .. } => format!("process {}", process.pid),
            Target::File { .. } => self.to_string(),
        }
    }

    fn spelling(&self) -> Spelling {
        match self {
            Target::Thread { .. } => Spelling::List,
            Target::File { spelling, .. } => *spelling,
        }
    }

    /// Whether two values are the same set of CPUs; or the same text if one is invalid.
    pub fn same(&self, one: &str, other: &str) -> bool {
        match (self.spelling().parse(one), self.spelling().parse(other)) {
            (Some(one), Some(other)) => one == other,
            (Some(_), None) | (None, Some(_)) => false,
            (None, None) => one == other,
        }
    }

    /// The present value.
    ///
    /// # Errors
    /// [`Trouble`]
    pub fn read(&self, system: &dyn System) -> Result<String, Trouble> {
        match self {
            Target::Thread { tid, .. } => {
                self.check_thread(system)?;
                let mask = system.affinity(*tid).map_err(|error| self.explain(system, error))?;
                Ok(mask.to_string())
            }
            Target::File { path, .. } => {
                let text = system.read(path).map_err(Trouble::Failed)?;
                Ok(text.trim_end_matches('\n').to_string())
            }
        }
    }

    /// Sets the value.
    ///
    /// # Errors
    /// [`Trouble`]
    pub fn write(&self, system: &mut dyn System, value: &str) -> Result<(), Trouble> {
        match self {
            Target::Thread { tid, .. } => {
                self.check_thread(system)?;
                let mask =
                    cpulist::parse(value).map_err(|e| Trouble::Failed(io::Error::other(e)))?;
                system.confine(*tid, &mask).map_err(|error| self.explain(system, error))
            }
            Target::File { path, .. } => system.write(path, value).map_err(Trouble::Failed),
        }
    }

    /// Checks that the thread is still the intended one.
    fn check_thread(&self, system: &dyn System) -> Result<(), Trouble> {
        let Target::Thread { process, tid, started, .. } = self else { return Ok(()) };
        if processes::started(system, process.pid, *tid) == Some(*started) {
            return Ok(());
        }
        Err(match processes::runs(system, *process) {
            true => Trouble::ThreadEnded,
            false => Trouble::ProcessEnded,
        })
    }

    /// Explains an error of a call on a thread: it may have ended between the check and the call.
    fn explain(&self, system: &dyn System, error: io::Error) -> Trouble {
        self.check_thread(system).err().unwrap_or(Trouble::Failed(error))
    }
}

/// The values that a plan sets, target by target. Threads come first: they fail for lack of rights
/// before anything of the whole machine is touched.
///
/// `processes` are those of the plan's instances, in its order.
pub fn wanted(plan: &Plan, processes: &[Process]) -> Vec<(Target, String)> {
    let threads = plan.instances.iter().zip(processes).flat_map(|(i, p)| wanted_of(i, p));
    threads.chain(plan.interfaces.iter().flat_map(interface_targets)).collect()
}

/// The part of [`wanted`] that concerns one process.
pub fn wanted_of(instance: &Instance, process: &Process) -> Vec<(Target, String)> {
    process.threads.iter().map(|thread| thread_target(instance, process, thread)).collect()
}

fn thread_target(instance: &Instance, process: &Process, thread: &Thread) -> (Target, String) {
    let target = Target::Thread {
        process: process.id,
        tid: thread.tid,
        started: thread.started,
        name: thread.name.clone(),
    };
    (target, place_of(instance, thread.role).to_string())
}

/// The CPUs of a thread of an instance.
fn place_of(instance: &Instance, role: Role) -> Cpus {
    match role {
        // More threads than planned share the whole list.
        Role::Io(number) => match instance.io.get(number) {
            Some(&cpu) => Cpus::from_iter([cpu]),
            None => instance.server.clone(),
        },
        Role::Snapshot | Role::Background => instance.background.clone(),
        Role::Unknown => instance.mask(),
    }
}

fn interface_targets(interface: &Interface) -> Vec<(Target, String)> {
    let file = |path: String, spelling: Spelling, cpus: &Cpus| {
        (Target::File { path, spelling }, spelling.print(cpus))
    };
    let queues = |queues: &[crate::plan::Queue], kind: &str| {
        let folder = format!("sys/class/net/{}/queues", interface.name);
        let one = |queue: &crate::plan::Queue| {
            file(format!("{folder}/{}/{kind}_cpus", queue.name), Spelling::Mask, &queue.cpus)
        };
        queues.iter().map(one).collect::<Vec<_>>()
    };
    let irqs = interface.irqs.iter().map(|irq| {
        file(format!("proc/irq/{}/smp_affinity_list", irq.number), Spelling::List, &irq.cpus)
    });
    irqs.chain(queues(&interface.receive, "rps"))
        .chain(queues(&interface.transmit, "xps"))
        .collect()
}

/// The steps from the present state to the plan. Steps that change nothing are recorded and checked
/// too. Threads that have ended are left out.
///
/// # Errors
/// As text, if a value can't be read.
pub fn observe(system: &dyn System, wanted: Vec<(Target, String)>) -> Result<Vec<Step>, String> {
    let mut steps = Vec::with_capacity(wanted.len());
    for (target, after) in wanted {
        match target.read(system) {
            Ok(before) => steps.push(Step { target, before, after }),
            Err(Trouble::ThreadEnded) => {}
            Err(trouble @ (Trouble::ProcessEnded | Trouble::Failed(_))) => {
                return Err(format!("cannot read {target}: {trouble}"));
            }
        }
    }
    Ok(steps)
}

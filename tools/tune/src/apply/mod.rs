//! `weft-tune apply`: carries a plan out on running servers.
//!
//! Works on any server whose thread names show their purpose, without restarting it. `weft-tune
//! revert` restores every value:
//!
//! | file | holds |
//! |---|---|
//! | [`system`] | the machine, as a trait that tests replace |
//! | [`processes`] | processes, their threads and their roles |
//! | [`steps`] | the changes of a plan on given processes, value by value |
//! | [`journal`] | the state file |
//! | [`engine`] | doing and undoing the steps |
//!
//! Children that a server forks to save or rewrite start with the mask of its main thread. That
//! can't be changed from outside; the configuration lines of the plan do it.

mod engine;
#[cfg(test)]
mod fake;
mod journal;
mod processes;
mod steps;
mod system;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};

pub use engine::{Undone, deviations, undo};
pub use journal::{Before, End, History, Journal, Record, boot, default_path, load, lock};
pub use processes::{Process, ProcessId, find, listening_on, ports_of};
pub use steps::{Step, observe, wanted};
pub use system::{Real, System};

use crate::plan::Plan;

/// Carries a plan out on running servers: their threads, interrupts and queues.
///
/// Without --yes it prints what it would do. The state before is recorded first, and a step
/// that fails undoes those before it.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The plan, as written by `plan --out`
    plan: PathBuf,

    #[command(flatten)]
    servers: Servers,

    /// Do it
    #[arg(long)]
    yes: bool,

    /// Where the state before is recorded [default: weft-tune/placement in the user's state
    /// folder]
    #[arg(long, value_name = "FILE")]
    state: Option<PathBuf>,
}

/// Which running servers are the instances of a plan.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct Servers {
    /// The process of the next instance; once for each
    #[arg(long, value_name = "PID", conflicts_with = "port")]
    pub pid: Vec<u32>,

    /// The same by the TCP port that it listens on
    #[arg(long, value_name = "PORT")]
    pub port: Vec<u16>,
}

impl Servers {
    /// Whether no server is named.
    pub fn is_empty(&self) -> bool {
        self.pid.is_empty() && self.port.is_empty()
    }

    /// The named processes, in that order.
    ///
    /// # Errors
    /// If no process has that id or port, or one is named twice.
    pub fn find(&self, system: &dyn System) -> anyhow::Result<Vec<Process>> {
        let mut pids = self.pid.clone();
        for &port in &self.port {
            pids.push(listening_on(system, port).map_err(anyhow::Error::msg)?);
        }
        if let Some(twice) = (1..pids.len()).find(|&at| pids[..at].contains(&pids[at])) {
            bail!("process {} is named twice", pids[twice]);
        }
        let found = |pid| find(system, pid).with_context(|| format!("there is no process {pid}"));
        pids.into_iter().map(found).collect()
    }
}

/// The processes of a plan's instances: the named ones, or those that it was made for.
///
/// # Errors
/// If their number differs from that of the instances, or one has ended.
pub fn processes_of(
    system: &dyn System,
    plan: &Plan,
    servers: &Servers,
) -> anyhow::Result<Vec<Process>> {
    if !servers.is_empty() {
        let found = servers.find(system)?;
        if found.len() != plan.instances.len() {
            bail!(
                "the plan has {} instances, {} servers are named",
                plan.instances.len(),
                found.len()
            );
        }
        return Ok(found);
    }
    let one = |instance: &crate::plan::Instance| {
        let name = &instance.name;
        let id = instance.process.with_context(|| {
            format!("the plan does not say which process {name} is: name it with --pid or --port")
        })?;
        let process = find(system, id.pid).filter(|process| process.id == id);
        process.with_context(|| format!("process {} of {name} has ended since", id.pid))
    };
    plan.instances.iter().map(one).collect()
}

/// Reads a plan from a file.
///
/// # Errors
/// If it can't be read or is not a plan.
pub fn read_plan(path: &Path) -> anyhow::Result<Plan> {
    let text = std::fs::read_to_string(path).with_context(|| format!("{}", path.display()))?;
    Plan::parse(&text).with_context(|| format!("{}", path.display()))
}

/// The named state file, or the default.
///
/// # Errors
/// If there is no default.
pub fn state_path(named: Option<PathBuf>) -> anyhow::Result<PathBuf> {
    named.map_or_else(default_path, Ok)
}

/// The subcommand.
///
/// # Errors
/// If the plan was not carried out. Then everything is as before, except for values that the error names.
pub fn run(args: Args) -> anyhow::Result<()> {
    let system = &mut Real::new();
    let plan = read_plan(&args.plan)?;
    let processes = processes_of(system, &plan, &args.servers)?;
    remark(system, &plan, &processes);
    let steps = observe(system, wanted(&plan, &processes)).map_err(anyhow::Error::msg)?;
    if !args.yes {
        print_steps(&steps);
        println!("Nothing has been changed. With --yes it is done.");
        return Ok(());
    }
    let state = state_path(args.state)?;
    let _lock = lock(&state)?;
    let ids = processes.iter().map(|process| process.id).collect();
    let before = Before::new(boot(system)?, plan, ids, steps);
    let done = carry_out(system, &state, before)?;
    println!(
        "{} values changed, {} were right already, {} threads ended meanwhile; all read back.",
        done.changed, done.unchanged, done.ended
    );
    println!("The state before is in {}.", state.display());
    Ok(())
}

/// Records and does everything.
fn carry_out(
    system: &mut dyn System,
    state: &Path,
    mut before: Before,
) -> anyhow::Result<engine::Done> {
    let mut journal = Journal::create(state, &before)?;
    engine::carry_out(system, &mut journal, &mut before).map_err(|failure| {
        let outcome = match failure.left.as_slice() {
            [] => "everything is as before".to_string(),
            left => format!(
                "not everything could be put back: {}; `weft-tune revert` tries again",
                left.join("; ")
            ),
        };
        anyhow::anyhow!("{}; {outcome}", failure.reason)
    })
}

fn print_steps(steps: &[Step]) {
    let (same, others): (Vec<&Step>, Vec<&Step>) =
        steps.iter().partition(|step| step.target.same(&step.before, &step.after));
    for step in others {
        let before = if step.before.is_empty() { "empty" } else { &step.before };
        println!("{}: {before} -> {}", step.target, step.after);
    }
    if !same.is_empty() {
        println!("{} values are right already.", same.len());
    }
}

/// Prints remarks on things that the plan does not cover to standard error.
fn remark(system: &dyn System, plan: &Plan, processes: &[Process]) {
    for (instance, process) in plan.instances.iter().zip(processes) {
        let (planned, has) = (instance.threads, process.io_threads());
        if planned != has {
            eprintln!(
                "weft-tune: {} was planned with {planned} I/O threads, process {} has {has}",
                instance.name, process.id.pid
            );
        }
    }
    if !plan.interfaces.is_empty() && processes::irqbalance_runs(system) {
        eprintln!("weft-tune: irqbalance runs and will move the interrupts again: stop it first");
    }
}

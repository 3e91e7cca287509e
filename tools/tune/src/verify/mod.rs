//! `weft-tune verify`: checks whether the system still matches a plan.
//!
//! Servers start threads, administrators run `taskset`, daemons move interrupts: a placement
//! decays. This compares every value with the plan, including threads that were started since, and
//! names each that differs.

use std::path::PathBuf;

use anyhow::{Context, bail};

use crate::apply::{self, End, History, Process, Real, Servers, System};
use crate::plan::Plan;

/// Compares the system with a plan; exit status 1 if anything differs.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The plan; without it, the one that was applied last
    plan: Option<PathBuf>,

    #[command(flatten)]
    servers: Servers,

    /// The state file of `apply`
    #[arg(long, value_name = "FILE")]
    state: Option<PathBuf>,
}

/// The subcommand.
///
/// # Errors
/// If anything differs, or can't be read.
pub fn run(args: Args) -> anyhow::Result<()> {
    let system = &Real::new();
    let wrong = match args.plan {
        Some(path) => {
            let plan = apply::read_plan(&path)?;
            let processes = apply::processes_of(system, &plan, &args.servers)?;
            compare(system, &plan, &processes)?
        }
        None => {
            if !args.servers.is_empty() {
                bail!("servers are named for a plan, and no plan is");
            }
            let state = apply::state_path(args.state)?;
            let history = apply::load(&state)?;
            let history = history.with_context(|| {
                format!("nothing has been applied: there is no {}", state.display())
            })?;
            compare_history(system, &history)?
        }
    };
    for wrong in &wrong.values {
        println!("{wrong}");
    }
    match wrong.values.len() {
        0 => {
            println!("{} values are as planned.", wrong.of);
            Ok(())
        }
        1 => bail!("1 value of {} differs from the plan", wrong.of),
        many => bail!("{many} values of {} differ from the plan", wrong.of),
    }
}

/// The differences, and the number of compared values.
#[derive(Debug, PartialEq, Eq)]
pub struct Deviations {
    /// Each difference as text.
    pub values: Vec<String>,
    /// The number of compared values.
    pub of: usize,
}

/// Compares with a plan.
///
/// # Errors
/// If a value can't be read.
pub fn compare(
    system: &dyn System,
    plan: &Plan,
    processes: &[Process],
) -> anyhow::Result<Deviations> {
    let wanted = apply::wanted(plan, processes);
    let steps = apply::observe(system, wanted).map_err(anyhow::Error::msg)?;
    Ok(Deviations { values: apply::deviations(system, &steps), of: steps.len() })
}

/// Compares with the applied plan of a state file.
///
/// # Errors
/// If nothing is applied now.
pub fn compare_history(system: &dyn System, history: &History) -> anyhow::Result<Deviations> {
    let before = &history.before;
    if apply::boot(system)? != before.boot {
        bail!("the machine has restarted since the plan was applied; nothing of it is left");
    }
    if history.end == Some(End::Reverted) {
        bail!("the plan was reverted, or its apply failed and was undone");
    }
    let mut plan = before.plan.clone();
    let (mut gone, mut processes) = (Vec::new(), Vec::new());
    let mut ids = before.processes.iter();
    plan.instances.retain(|instance| {
        let Some(&id) = ids.next() else { return false };
        let process = apply::find(system, id.pid).filter(|process| process.id == id);
        let runs = process.is_some();
        if !runs {
            gone.push(format!("process {} of {} has ended", id.pid, instance.name));
        }
        processes.extend(process);
        runs
    });
    let mut deviations = compare(system, &plan, &processes)?;
    deviations.of += gone.len();
    deviations.values.splice(..0, gone);
    if history.end.is_none() {
        eprintln!("weft-tune: apply was stopped in the middle; `weft-tune revert` undoes it");
    }
    Ok(deviations)
}

//! `weft-tune revert`: restores the values before `apply`, one for one.
//!
//! It needs only the state file. It doesn't matter whether `apply` was complete: every change was
//! announced there before it was made. Doing it twice, or after an interruption, has the same
//! result as doing it once.

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};

use crate::apply::{self, End, History, Journal, Real, Record, System, Undone};

/// Restores the state before `apply`, even if that was killed in the middle.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The state file of `apply`
    #[arg(long, value_name = "FILE")]
    state: Option<PathBuf>,
}

/// The subcommand.
///
/// # Errors
/// If nothing was recorded, or not everything could be restored.
pub fn run(args: Args) -> anyhow::Result<()> {
    let system = &mut Real::new();
    let state = apply::state_path(args.state)?;
    let _lock = apply::lock(&state)?;
    let history = apply::load(&state)?;
    let history = history.with_context(|| format!("nothing is recorded in {}", state.display()))?;
    let boot = apply::boot(system)?;
    let outcome = match (history.end, boot == history.before.boot) {
        (Some(End::Reverted), _) => Outcome::AlreadyReverted,
        (Some(End::Applied) | None, false) => Outcome::StartedAnew,
        (Some(End::Applied) | None, true) => {
            Outcome::Undone(revert(system, &mut Journal::append(&state)?, &history)?)
        }
    };
    report(outcome, &state)
}

enum Outcome {
    AlreadyReverted,
    StartedAnew,
    Undone(Undone),
}

/// Undoes a history, and records the end if everything was restored.
///
/// # Errors
/// If the state file can't be written.
pub fn revert(
    system: &mut dyn System,
    record: &mut dyn Record,
    history: &History,
) -> std::io::Result<Undone> {
    let undone = apply::undo(system, &history.before, &history.begun);
    if undone.left.is_empty() {
        record.end(End::Reverted)?;
    }
    Ok(undone)
}

fn report(outcome: Outcome, state: &Path) -> anyhow::Result<()> {
    let undone = match outcome {
        Outcome::AlreadyReverted => {
            println!("The changes recorded in {} are reverted already.", state.display());
            return Ok(());
        }
        Outcome::StartedAnew => {
            println!("The machine has restarted since; nothing of the plan is left.");
            return Ok(());
        }
        Outcome::Undone(undone) => undone,
    };
    for change in &undone.changed_by_others {
        eprintln!("weft-tune: another program changed a value since: {change}; restored as well");
    }
    println!(
        "{} values put back and read again, {} were as before, {} threads have ended.",
        undone.restored, undone.unchanged, undone.ended
    );
    match undone.left.as_slice() {
        [] => Ok(()),
        left => bail!("not put back: {}", left.join("; ")),
    }
}

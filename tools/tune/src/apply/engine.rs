//! Executes the steps of a plan, and undoes them.
//!
//! The order within a step makes it safe to be killed at any time: announce it in the state file,
//! do it, read it back. Every change is announced before it happens, and the state file has had the
//! old values since before the first step.
//!
//! Undo goes backwards over all announced steps and restores the old value wherever another one is
//! found. It can be repeated and interrupted at any time.
//!
//! Servers start threads at any time. A new thread has the mask of the thread that started it,
//! which after the first step is a mask of the plan. So `carry_out` searches for new threads at the
//! end, and `undo` searches for later ones; the value "before" of such a thread is that of its
//! process's first thread.

use std::io;

use super::journal::{Before, End, Record};
use super::processes::{self, ProcessId};
use super::steps::{self, Step, Target, Trouble};
use super::system::System;

/// How often to search for threads that were started meanwhile. Each search may find more, but no
/// program starts threads forever.
const LOOKS: usize = 5;

/// The failure of a plan.
#[derive(Debug, PartialEq, Eq)]
pub struct Failure {
    /// The reason of the failure.
    pub reason: String,
    /// Old values that could not be restored; mostly none.
    pub left: Vec<String>,
}

/// The result of carrying out a plan.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Done {
    /// Changed values.
    pub changed: usize,
    /// Values that were already right.
    pub unchanged: usize,
    /// Threads that ended meanwhile.
    pub ended: usize,
}

enum Outcome {
    Changed,
    Unchanged,
    Ended,
}

/// Does all steps of `before`, which has been recorded; undoes them if one fails.
///
/// # Errors
/// [`Failure`], after everything was undone that could be.
pub fn carry_out(
    system: &mut dyn System,
    record: &mut dyn Record,
    before: &mut Before,
) -> Result<Done, Failure> {
    let mut begun = Vec::new();
    match try_to_carry_out(system, record, before, &mut begun) {
        Ok(done) => Ok(done),
        Err(reason) => {
            let mut left = undo(system, before, &begun).left;
            if left.is_empty() {
                left.extend(
                    record.end(End::Reverted).err().map(|error| format!("state file: {error}")),
                );
            }
            Err(Failure { reason, left })
        }
    }
}

fn try_to_carry_out(
    system: &mut dyn System,
    record: &mut dyn Record,
    before: &mut Before,
    begun: &mut Vec<usize>,
) -> Result<Done, String> {
    let mut done = Done::default();
    let announce = |error: io::Error| format!("cannot write the state file: {error}");
    for _ in 0..LOOKS {
        for at in begun.len()..before.steps.len() {
            record.begin(at).map_err(announce)?;
            begun.push(at);
            match perform(system, &before.steps[at])? {
                Outcome::Changed => done.changed += 1,
                Outcome::Unchanged => done.unchanged += 1,
                Outcome::Ended => done.ended += 1,
            }
        }
        let new_threads = new_threads(system, before)?;
        if new_threads.is_empty() {
            break;
        }
        for step in new_threads {
            record.add_step(&step).map_err(announce)?;
            before.steps.push(step);
        }
    }
    let wrong = deviations(system, &before.steps);
    match wrong.first() {
        Some(wrong) => Err(format!("{wrong} after everything was done: something else changes it")),
        None => record.end(End::Applied).map_err(announce).map(|()| done),
    }
}

/// Does one step and reads it back.
fn perform(system: &mut dyn System, step: &Step) -> Result<Outcome, String> {
    let target = &step.target;
    let failed = |trouble: Trouble| format!("cannot set {target} to {}: {trouble}", step.after);
    let is_right = |system: &dyn System| match target.read(system) {
        Ok(value) => Ok(Some((target.same(&value, &step.after), value))),
        Err(Trouble::ThreadEnded) => Ok(None),
        Err(trouble @ (Trouble::ProcessEnded | Trouble::Failed(_))) => Err(failed(trouble)),
    };
    match is_right(system)? {
        None => return Ok(Outcome::Ended),
        Some((true, _)) => return Ok(Outcome::Unchanged),
        Some((false, _)) => {}
    }
    match target.write(system, &step.after) {
        Ok(()) => {}
        Err(Trouble::ThreadEnded) => return Ok(Outcome::Ended),
        Err(trouble @ (Trouble::ProcessEnded | Trouble::Failed(_))) => return Err(failed(trouble)),
    }
    match is_right(system)? {
        None => Ok(Outcome::Ended),
        Some((true, _)) => Ok(Outcome::Changed),
        Some((false, value)) => {
            let why = "the system does not allow all of these CPUs";
            Err(format!("{target} was set to {} and is {value}: {why}", step.after))
        }
    }
}

/// Steps for threads that have no step yet.
fn new_threads(system: &dyn System, before: &Before) -> Result<Vec<Step>, String> {
    let mut found = Vec::new();
    for (instance, &id) in before.plan.instances.iter().zip(&before.processes) {
        let process = processes::find(system, id.pid).filter(|process| process.id == id);
        let process = process.ok_or_else(|| format!("process {} has ended", id.pid))?;
        let wanted = steps::wanted_of(instance, &process).into_iter();
        let wanted = wanted.filter(|(target, _)| !before.steps.iter().any(|s| s.target == *target));
        for mut step in steps::observe(system, wanted.collect())? {
            if let Some(inherited) = inherited(before, id, &step.before) {
                step.before = inherited;
            }
            found.push(step);
        }
    }
    Ok(found)
}

/// The mask that a thread, started while a plan was applied, would have without the plan. If its
/// mask is one that the plan gave to a thread of its process, it inherited it, and this returns
/// that thread's mask before. The first thread is checked first, since it starts most threads.
fn inherited(before: &Before, id: ProcessId, mask: &str) -> Option<String> {
    let gave = |step: &&Step| {
        let target = &step.target;
        belongs(step, id) && target.same(&step.after, mask) && !target.same(&step.before, mask)
    };
    let mut givers: Vec<&Step> = before.steps.iter().filter(gave).collect();
    givers.sort_by_key(|step| !is_first_thread(step, id));
    givers.first().map(|step| step.before.clone())
}

fn belongs(step: &Step, id: ProcessId) -> bool {
    matches!(&step.target, Target::Thread { process, .. } if *process == id)
}

fn is_first_thread(step: &Step, id: ProcessId) -> bool {
    matches!(&step.target, Target::Thread { process, tid, .. } if *process == id && *tid == id.pid)
}

/// All values that differ from the steps, as text.
pub fn deviations(system: &dyn System, steps: &[Step]) -> Vec<String> {
    let of = |step: &Step| match step.target.read(system) {
        Ok(value) if step.target.same(&value, &step.after) => None,
        Ok(value) => Some(format!("{} is {}, not {}", step.target, shown(&value), step.after)),
        Err(Trouble::ThreadEnded) => None,
        // Reported once, not for each of its threads.
        Err(Trouble::ProcessEnded) => {
            Some(format!("{}: {}", step.target.owner(), Trouble::ProcessEnded))
        }
        Err(Trouble::Failed(error)) => Some(format!("{}: {error}", step.target)),
    };
    let mut wrong: Vec<String> = steps.iter().filter_map(of).collect();
    wrong.dedup();
    wrong
}

fn shown(value: &str) -> &str {
    if value.is_empty() { "empty" } else { value }
}

/// The result of undoing.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Undone {
    /// Restored values.
    pub restored: usize,
    /// Values that already were as before.
    pub unchanged: usize,
    /// Threads that have ended, with or without their process.
    pub ended: usize,
    /// Values that were neither ours nor the old ones; they are restored too.
    pub changed_by_others: Vec<String>,
    /// Values that could not be restored.
    pub left: Vec<String>,
}

/// Restores the old values of the begun steps, the last first.
pub fn undo(system: &mut dyn System, before: &Before, begun: &[usize]) -> Undone {
    let mut undone = Undone::default();
    for &at in begun.iter().rev() {
        undo_step(system, &before.steps[at], &mut undone);
    }
    if !begun.is_empty() {
        undo_new_threads(system, before, &mut undone);
    }
    undone
}

fn undo_step(system: &mut dyn System, step: &Step, undone: &mut Undone) {
    let target = &step.target;
    let now = match target.read(system) {
        Ok(now) => now,
        Err(Trouble::ThreadEnded | Trouble::ProcessEnded) => return undone.ended += 1,
        Err(Trouble::Failed(error)) => return undone.left.push(format!("{target}: {error}")),
    };
    if target.same(&now, &step.before) {
        return undone.unchanged += 1;
    }
    if !target.same(&now, &step.after) {
        undone.changed_by_others.push(format!("{target} was {}", shown(&now)));
    }
    match target.write(system, &step.before).and_then(|()| target.read(system)) {
        Ok(now) if target.same(&now, &step.before) => undone.restored += 1,
        Ok(now) => {
            undone.left.push(format!("{target} is {}, not {}", shown(&now), step.before));
        }
        Err(Trouble::ThreadEnded | Trouble::ProcessEnded) => undone.ended += 1,
        Err(Trouble::Failed(error)) => undone.left.push(format!("{target}: {error}")),
    }
}

/// Handles threads that were started since, with a mask that they can only have from the plan.
fn undo_new_threads(system: &mut dyn System, before: &Before, undone: &mut Undone) {
    for (instance, &id) in before.plan.instances.iter().zip(&before.processes) {
        for _ in 0..LOOKS {
            let Some(process) = processes::find(system, id.pid).filter(|found| found.id == id)
            else {
                break;
            };
            let wanted = steps::wanted_of(instance, &process).into_iter();
            let unknown =
                wanted.filter(|(target, _)| !before.steps.iter().any(|s| s.target == *target));
            let found = steps::observe(system, unknown.collect()).unwrap_or_default();
            let pinned: Vec<Step> = found
                .into_iter()
                .filter_map(|step| {
                    let old = inherited(before, id, &step.before)?;
                    Some(Step { before: old, after: step.before, ..step })
                })
                .collect();
            if pinned.is_empty() {
                break;
            }
            pinned.iter().for_each(|step| undo_step(system, step, undone));
        }
    }
}

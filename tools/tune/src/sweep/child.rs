//! Starts servers and generators with their CPUs, and ends them with the sweep.
//!
//! Two things must be set in the new process before the program runs: its CPUs, and that the kernel
//! ends it when the sweep is killed (a leftover server would disturb the next sweep). Doing that
//! between fork and exec needs unsafe code. So this program starts itself with this hidden command,
//! which sets both and then executes the program. Both settings survive exec.

use anyhow::{Context, Result, ensure};
use clap::Parser;
use rustix::process::{Pid, Signal, getppid, set_parent_process_death_signal};
use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use weft_base::{cpulist, topology};

/// Executes another program.
#[derive(Debug, Parser)]
pub struct Args {
    /// CPUs to run on; any when empty.
    #[arg(long, default_value = "")]
    cpus: String,
    /// The parent process; the program ends with it.
    #[arg(long)]
    parent: i32,
    /// The program to execute.
    #[arg(last = true, required = true)]
    program: Vec<OsString>,
}

/// Doesn't return on success.
///
/// # Errors
/// If the CPUs are missing, the parent is gone, or the program can't be run.
pub fn run(args: Args) -> Result<()> {
    let cpus = cpulist::parse(&args.cpus)?;
    topology::set_thread_affinity(&cpus)
        .with_context(|| format!("cannot run on CPUs {}", args.cpus))?;
    set_parent_process_death_signal(Some(Signal::KILL))?;
    // It may have ended before the kernel got this setting.
    ensure!(getppid() == Pid::from_raw(args.parent), "the sweep is gone");
    let [program, rest @ ..] = &args.program[..] else { return Ok(()) };
    let error = Command::new(program).args(rest).exec();
    Err(error).with_context(|| format!("cannot run {}", Path::new(program).display()))
}

/// A command that runs `program` in this way, in its own process group, so that a Ctrl-C on the
/// terminal reaches the sweep only.
///
/// # Errors
/// If this program can't find its own path.
pub fn command(program: &Path, cpus: &str) -> Result<Command> {
    let own = std::env::current_exe().context("cannot find this program")?;
    let mut command = Command::new(own);
    command.args(["child", "--cpus", cpus, "--parent", &std::process::id().to_string(), "--"]);
    command.arg(program).process_group(0);
    Ok(command)
}

//! `weft-tune`: inspects machines and tunes them, for any Redis-like server.
//!
//! Each subcommand is a folder with an `Args` for the command line and a `run`; this file only
//! lists them. Results go to standard output, remarks to standard error, and the exit status is 0
//! for success, 1 for failure, 2 for a wrong command line.

mod advise;
mod apply;
mod cpus;
mod doctor;
mod host;
mod password;
mod plan;
mod report;
mod results;
mod revert;
mod stats;
mod sweep;
mod top;
mod topology;
mod verify;

use clap::{CommandFactory, Parser, Subcommand};
use std::process::ExitCode;

/// Looks at a machine and at the servers on it.
#[derive(Debug, Parser)]
#[command(name = "weft-tune", version, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Advise(advise::Args),
    Report(report::Args),
    Sweep(sweep::Args),
    /// Becomes another program; used by `sweep` itself.
    #[command(hide = true)]
    Child(sweep::child::Args),
    Top(top::Args),
    Topology(topology::Args),
    Doctor(doctor::Args),
    Plan(plan::Args),
    Apply(apply::Args),
    Verify(verify::Args),
    Revert(revert::Args),
    /// Writes man pages and shell completions.
    InstallDocs {
        /// Folder below which they are put, such as /usr/local/share or ~/.local/share.
        dir: std::path::PathBuf,
    },
}

fn install_docs(dir: &std::path::Path) -> anyhow::Result<()> {
    for path in weft_manual::install(Cli::command(), dir)? {
        println!("{}", path.display());
    }
    Ok(())
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    let done: anyhow::Result<()> = match cli.command {
        Command::InstallDocs { dir } => install_docs(&dir),
        Command::Advise(args) => advise::run(args),
        Command::Report(args) => report::run(args),
        Command::Sweep(args) => sweep::run(args),
        Command::Child(args) => sweep::child::run(args),
        Command::Top(args) => top::run(args),
        Command::Topology(args) => topology::run(args),
        Command::Doctor(args) => doctor::run(args),
        Command::Plan(args) => plan::run(args),
        Command::Apply(args) => apply::run(args),
        Command::Verify(args) => verify::run(args),
        Command::Revert(args) => revert::run(args),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("weft-tune: {error:#}");
            ExitCode::FAILURE
        }
    }
}

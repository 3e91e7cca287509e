//! `weft-tune doctor`: what a host does to an in-memory server, and what to do about it.
//!
//! Each check reads a file or two, says what stands there, whether that is good, why it
//! matters, which command changes it at once, and whether the present value would outlast a
//! restart. What cannot be read is said to be so and never guessed. The verdict is given twice
//! where it differs: servers that fork to save (Redis, Valkey) suffer from things that Weft,
//! which does not fork, does not mind, and Weft asks for huge pages where they avoid them.
//!
//! | file | holds |
//! |---|---|
//! | [`finding`] | what a check says |
//! | [`checks`] | the table of checks, a file for each tight family |
//! | [`neighbours`] | who else uses the CPUs, by two looks |
//! | [`running`] | the server of `--port` |
//! | [`sysctl`] | what the files of sysctl would set at the next start |
//! | [`text`] | the text for people |

mod checks;
mod finding;
mod neighbours;
mod running;
mod sysctl;
mod text;

#[cfg(test)]
mod tests;

use std::io::{self, Write};
use std::path::PathBuf;

use anyhow::{bail, ensure};
use clap::builder::PossibleValuesParser;
use weft_base::machine::Machine;

use crate::host::Host;
use finding::{Finding, Severity};
use neighbours::Neighbours;
use running::Running;
use sysctl::Sysctl;

/// Examines what the host does to a server, and says what to do about it.
///
/// Changes nothing. Most limits are those of the shell that it runs in: run it the way the
/// server is run.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Print JSON
    #[arg(long)]
    json: bool,

    /// Read the files of the host below this folder
    #[arg(long, value_name = "DIR", default_value = "/", value_parser = crate::host::folder)]
    root: PathBuf,

    /// Which servers run here
    #[arg(long, value_enum, default_value_t = Server::Any)]
    server: Server,

    /// Judge the server that listens on this port of this machine as well: its limits, memory,
    /// threads
    #[arg(long, value_name = "PORT")]
    port: Option<u16>,

    /// Run only this check; may be repeated
    #[arg(long, value_name = "NAME", value_parser = names())]
    check: Vec<String>,

    /// Exit with status 1 when there are warnings
    #[arg(long)]
    strict: bool,
}

/// For whom findings are judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Server {
    /// Either: the graver judgement counts
    Any,
    /// Weft
    Weft,
    /// Redis or Valkey
    Redis,
}

/// What checks look at.
pub struct Patient {
    /// The files.
    pub host: Host,
    /// The machine.
    pub machine: Machine,
    /// What is set at start.
    pub sysctl: Sysctl,
    /// The server that is to be judged.
    pub running: Option<Running>,
    /// Who else uses the CPUs; none where nobody looked.
    pub neighbours: Option<Neighbours>,
}

impl Patient {
    /// The host with these files.
    pub fn new(host: Host) -> Patient {
        let machine = Machine::read(host.root());
        let sysctl = Sysctl::read(&host);
        Patient { host, machine, sysctl, running: None, neighbours: None }
    }
}

/// The names of the checks.
fn names() -> PossibleValuesParser {
    PossibleValuesParser::new(checks::TABLE.iter().chain(checks::LIVE).map(|check| check.name))
}

/// All findings, or those of the named checks, the gravest first.
pub fn examine(patient: &Patient, server: Server, only: &[String]) -> Vec<Finding> {
    let mut found: Vec<Finding> = checks::TABLE
        .iter()
        .chain(checks::LIVE)
        .filter(|check| only.is_empty() || only.iter().any(|name| name == check.name))
        .flat_map(|check| (check.look)(patient))
        .collect();
    found.sort_by_key(|finding| std::cmp::Reverse(finding.severity(server)));
    found
}

/// What stands in the way of good figures on this host, a line for each warning.
pub fn warnings() -> Vec<String> {
    let mut patient = Patient::new(Host::new(std::path::Path::new("/")));
    patient.neighbours = neighbours::watch(&patient.host, &[std::process::id()]);
    examine(&patient, Server::Any, &[])
        .iter()
        .filter(|finding| finding.severity(Server::Any) == Severity::Warning)
        .map(|finding| {
            let value = finding.value.as_deref().unwrap_or("not known");
            format!("host: {}: {value} ({})", finding.subject, finding.file)
        })
        .collect()
}

/// Runs the command.
///
/// # Errors
/// When the output cannot be written, or with `--strict` when there are warnings.
pub fn run(args: Args) -> anyhow::Result<()> {
    let mut patient = Patient::new(Host::new(&args.root));
    let here = args.root == std::path::Path::new("/");
    ensure!(here || args.port.is_none(), "--port asks a server of this machine, --root is another");
    patient.running = args.port.map(|port| running::find(&patient.host, port)).transpose()?;
    // who runs the server is no neighbour
    let own: Vec<u32> =
        patient.running.iter().map(|running| running.pid).chain([std::process::id()]).collect();
    if here && (args.check.is_empty() || args.check.iter().any(|name| name == "others")) {
        patient.neighbours = neighbours::watch(&patient.host, &own);
    }
    let kind = patient.running.as_ref().and_then(|running| running.kind);
    let server = kind.filter(|_| args.server == Server::Any).unwrap_or(args.server);
    let found = examine(&patient, server, &args.check);
    let out = match args.json {
        true => serde_json::to_string_pretty(&found)? + "\n",
        false => text::print(&found, server),
    };
    io::stdout().write_all(out.as_bytes())?;
    let warnings =
        found.iter().filter(|finding| finding.severity(server) == Severity::Warning).count();
    if args.strict && warnings > 0 {
        bail!("warnings: {warnings}");
    }
    Ok(())
}

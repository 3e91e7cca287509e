//! `weft-tune doctor`: problems of a host and its server, and how to solve them.
//!
//! Each check reads one or two files and judges the value. A problem names the action, the command,
//! the reason, and whether the present value survives a restart. A value that can't be read is
//! reported and never guessed. Weft and the servers that fork to save (Redis, Valkey) get separate
//! judgements: forking servers suffer from settings that don't matter to Weft, and Weft requests
//! huge pages.
//!
//! Problems come first, the most important first: by severity, then by the order of
//! [`checks::TABLE`]. `--verbose` adds details and the checks that passed.
//!
//! | file | holds |
//! |---|---|
//! | [`finding`] | the result of a check |
//! | [`checks`] | the table of checks, a file for each family |
//! | [`neighbours`] | the CPU time of other processes, measured for half a second |
//! | [`running`] | the server of `--port` |
//! | [`sysctl`] | the values that the files of sysctl set at the next start |
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
use checks::Needs;
use finding::{Finding, Severity};
use neighbours::Neighbours;
use running::Running;
use sysctl::Sysctl;

/// Finds problems of this host and its server, and says how to solve them.
///
/// Prints the problems, the most important first: what to do, then why. Changes nothing. Most
/// limits belong to the calling shell, so start it the way you start the server.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Print details and the checks that passed, too
    #[arg(short, long)]
    verbose: bool,

    /// Print all findings as JSON
    #[arg(long, conflicts_with = "verbose")]
    json: bool,

    /// Read the files of the host below this folder
    #[arg(long, value_name = "DIR", default_value = "/", value_parser = crate::host::folder)]
    root: PathBuf,

    /// The kind of server on this host
    #[arg(long, value_enum, default_value_t = Server::Any)]
    server: Server,

    /// Also check the server on this port of this machine: its limits, memory, threads
    #[arg(long, value_name = "PORT")]
    port: Option<u16>,

    /// Run only this check; may be repeated
    #[arg(long, value_name = "NAME", value_parser = names())]
    check: Vec<String>,

    /// Exit with status 1 when there are warnings
    #[arg(long)]
    strict: bool,
}

/// The kind of server that findings are judged for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Server {
    /// Either: the more serious judgement counts
    Any,
    /// Weft
    Weft,
    /// Redis or Valkey
    Redis,
}

/// The input of the checks.
pub struct CheckInput {
    /// The files.
    pub host: Host,
    /// The machine.
    pub machine: Machine,
    /// The values that sysctl sets at the next start.
    pub sysctl: Sysctl,
    /// The server of `--port`.
    pub running: Option<Running>,
    /// The CPU time of other processes; none if it was not measured.
    pub neighbours: Option<Neighbours>,
}

impl CheckInput {
    /// The host with these files.
    pub fn new(host: Host) -> CheckInput {
        let machine = Machine::read(host.root());
        let sysctl = Sysctl::read(&host);
        CheckInput { host, machine, sysctl, running: None, neighbours: None }
    }

    /// Whether there is more to check than files.
    fn is_live(&self) -> bool {
        self.running.is_some() || self.neighbours.is_some()
    }
}

/// The names of the checks.
fn names() -> PossibleValuesParser {
    PossibleValuesParser::new(checks::TABLE.iter().map(|check| check.name))
}

/// All findings, or those of the named checks, the most important first.
pub fn examine(input: &CheckInput, server: Server, only: &[String]) -> Vec<Finding> {
    let mut found: Vec<Finding> = checks::TABLE
        .iter()
        .filter(|check| check.needs == Needs::Files || input.is_live())
        .filter(|check| only.is_empty() || only.iter().any(|name| name == check.name))
        .flat_map(|check| (check.check)(input))
        .collect();
    // A stable sort: the order of the table decides within a severity.
    found.sort_by_key(|finding| std::cmp::Reverse(finding.severity(server)));
    found
}

/// The warnings that affect measurements on this host, a line for each.
pub fn warnings() -> Vec<String> {
    let mut input = CheckInput::new(Host::new(std::path::Path::new("/")));
    input.neighbours = neighbours::measure(&input.host, &[std::process::id()]);
    examine(&input, Server::Any, &[])
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
/// If the output can't be written, or with `--strict` if there are warnings.
pub fn run(args: Args) -> anyhow::Result<()> {
    let mut input = CheckInput::new(Host::new(&args.root));
    let here = args.root == std::path::Path::new("/");
    ensure!(here || args.port.is_none(), "--port needs this machine, --root names another");
    input.running = args.port.map(|port| running::find(&input.host, port)).transpose()?;
    // The server and this program don't count as other processes.
    let own: Vec<u32> =
        input.running.iter().map(|running| running.pid).chain([std::process::id()]).collect();
    if here && (args.check.is_empty() || args.check.iter().any(|name| name == "others")) {
        input.neighbours = neighbours::measure(&input.host, &own);
    }
    let kind = input.running.as_ref().and_then(|running| running.kind);
    let server = kind.filter(|_| args.server == Server::Any).unwrap_or(args.server);
    let found = examine(&input, server, &args.check);
    let out = match args.json {
        true => serde_json::to_string_pretty(&found)? + "\n",
        false => text::print(&found, server, args.verbose),
    };
    io::stdout().write_all(out.as_bytes())?;
    if let Some(running) = input.running.as_ref()
        && let Some(error) = &running.silent
    {
        let port = running.port;
        eprintln!("weft-tune: port {port}: settings not checked, the server said: {error}");
    }
    let warnings =
        found.iter().filter(|finding| finding.severity(server) == Severity::Warning).count();
    if args.strict && warnings > 0 {
        bail!("warnings: {warnings}");
    }
    Ok(())
}

//! `weft-tune topology`: what a machine is made of, as far as it matters to a server.
//!
//! What `numactl -H`, `lscpu`, `ethtool -l` and a walk through `/proc/irq` and
//! `/sys/fs/cgroup` would tell together, of any machine whose files are below a folder. The
//! text is for people; JSON has the same facts under stable names, with lists of CPUs written
//! as everywhere (`0-3,8`).

mod caches;
mod report;
mod text;

#[cfg(test)]
mod tests;

use std::io::{self, Write};
use std::path::PathBuf;

use crate::host::Host;

/// Shows nodes, sockets, cores, caches, memory, network interfaces and limits.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Print JSON
    #[arg(long)]
    json: bool,

    /// Read the files of the machine below this folder
    #[arg(long, value_name = "DIR", default_value = "/", value_parser = crate::host::folder)]
    root: PathBuf,
}

/// Runs the command.
///
/// # Errors
/// When the output cannot be written; what cannot be read is left out.
pub fn run(args: Args) -> anyhow::Result<()> {
    let report = report::read(&Host::new(&args.root));
    let out = match args.json {
        true => serde_json::to_string_pretty(&report)? + "\n",
        false => text::print(&report),
    };
    io::stdout().write_all(out.as_bytes())?;
    Ok(())
}

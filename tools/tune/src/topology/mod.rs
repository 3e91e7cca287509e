//! `weft-tune topology`: the parts of a machine that matter to a server.
//!
//! It shows the facts of `numactl -H`, `lscpu`, `ethtool -l`, `/proc/irq` and `/sys/fs/cgroup`
//! together, for any machine whose files are below a folder, with remarks if totals disagree. The
//! text is for people; JSON has the same facts under stable names, with the usual lists of CPUs
//! (`0-3,8`).

mod caches;
mod remarks;
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
/// If the output can't be written. Facts that can't be read are left out.
pub fn run(args: Args) -> anyhow::Result<()> {
    let report = report::read(&Host::new(&args.root));
    let out = match args.json {
        true => serde_json::to_string_pretty(&report)? + "\n",
        false => text::print(&report),
    };
    io::stdout().write_all(out.as_bytes())?;
    Ok(())
}

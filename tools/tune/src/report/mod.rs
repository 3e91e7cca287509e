//! `weft-tune report`: results of experiments, for people and for programs.
//!
//! One or more results files become a self-contained HTML page, Markdown, CSV or JSON, all made
//! from the same [`Summary`](summary::Summary), so that they cannot disagree. The comparison of
//! servers comes first, with the state of the machine, which decides whether to trust it. Nothing
//! is dropped: outliers, runs that the generator limited and runs that failed are marked in place.

mod chart;
mod data;
mod html;
mod machine;
mod markdown;
pub mod numbers;
mod ratio;
pub mod summary;
pub mod tables;

use anyhow::{Context, Result, ensure};
use clap::Parser;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::results::{Sweep, published};
use summary::Summary;

/// Draws and tabulates recorded sweeps.
#[derive(Debug, Parser)]
pub struct Args {
    /// Results files of `weft-tune sweep`.
    results: Vec<PathBuf>,
    /// Also show the published sweep of Redis 6.2.1 with 1 to 11 io-threads.
    #[arg(long)]
    published: bool,
    /// Write a page for browsers that needs nothing from the network; `-` is standard output.
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Write Markdown; to standard output when no form is chosen.
    #[arg(long, value_name = "FILE")]
    markdown: Option<PathBuf>,
    /// Write one line for each cell of the grid with the figures of its runs.
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
    /// Write everything, single runs included.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Title of the page.
    #[arg(long, default_value = "io-threads and throughput")]
    title: String,
}

/// Reads, summarizes, writes.
///
/// # Errors
/// If a file can't be read or written.
pub fn run(args: Args) -> Result<()> {
    let sweeps = read_sweeps(&args.results, args.published)?;
    let summary = Summary::of(sweeps);
    ensure!(!summary.series.is_empty(), "nothing was measured yet: no cell is recorded");
    let mut written = false;
    for (file, form) in [
        (&args.html, html::page as fn(&Summary, &str) -> String),
        (&args.markdown, markdown::text),
        (&args.csv, data::csv),
        (&args.json, data::json),
    ] {
        if let Some(file) = file {
            write(file, &form(&summary, &args.title))?;
            written = true;
        }
    }
    if !written {
        write(Path::new("-"), &markdown::text(&summary, &args.title))?;
    }
    Ok(())
}

/// The sweeps of these files, and the published ones on request; damage of a file is reported on
/// standard error.
///
/// # Errors
/// If there is none, or one can't be read.
pub fn read_sweeps(files: &[PathBuf], with_published: bool) -> Result<Vec<Sweep>> {
    ensure!(!files.is_empty() || with_published, "no results: name a file, or give --published");
    let mut sweeps = files.iter().map(|file| Sweep::read(file)).collect::<Result<Vec<Sweep>>>()?;
    for sweep in &sweeps {
        for remark in &sweep.remarks {
            eprintln!("weft-tune: {}: {remark}", sweep.source);
        }
    }
    if with_published {
        sweeps.extend(published::sweeps());
    }
    Ok(sweeps)
}

fn write(file: &Path, text: &str) -> Result<()> {
    if file == Path::new("-") {
        return match io::stdout().write_all(text.as_bytes()) {
            // The reader has closed the pipe.
            Err(e) if e.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            other => other.context("cannot write to standard output"),
        };
    }
    fs::write(file, text).with_context(|| format!("cannot write {}", file.display()))?;
    eprintln!("wrote {}", file.display());
    Ok(())
}

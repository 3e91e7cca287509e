//! `weft-tune top`: a page in the terminal about a running server.
//!
//! For Weft, Valkey and Redis: from INFO, from a PING of its own, and from the kernel's files, if
//! the server is on this machine. Changes nothing.
//!
//! ```text
//! sampler ── Sample ──► rates ── Report ──► page      what a terminal shows
//! INFO, PING,            pure               text      --once
//! /proc, /sys                               JSON      --once --json
//! ```
//!
//! | file | holds |
//! |---|---|
//! | [`options`], [`connection`] | how to reach the server, and failures in words |
//! | [`info`], [`reading`] | the two sources: fields of INFO, counters of the kernel |
//! | [`sampler`] | takes samples |
//! | [`rates`] | two samples become a report |
//! | [`report`] | the report: the names and units of the JSON |
//! | [`facts`], [`text`] | lines of text from a report |
//! | [`page`] | the state of the page, its keys, its drawing |
//! | [`terminal`] | the only part that knows of a terminal |

mod connection;
mod facts;
mod info;
mod options;
mod page;
mod rates;
mod reading;
mod report;
mod sampler;
mod terminal;
mod text;

#[cfg(test)]
mod tests;

use std::env;
use std::io::{self, Write};
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Context;

use crate::host::Host;
use options::ServerArgs;
use page::Page;
use page::style::Palette;
use rates::Rates;
use report::Report;
use sampler::Sampler;

/// The shortest and the longest interval, in seconds.
const INTERVALS: (f64, f64) = (0.1, 3600.0);

/// Shows a running server: requests, latency, threads, CPUs, interrupts.
///
/// For Weft, Valkey and Redis. Threads and CPUs are shown if the server runs on this machine. The
/// server's user needs the commands INFO and PING. Press ? for the keys.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    server: ServerArgs,

    /// Time between two samples
    #[arg(short, long, value_name = "SECONDS", default_value_t = 1.0, value_parser = interval)]
    interval: f64,

    /// Measure for one interval, print the result and exit
    #[arg(long)]
    once: bool,

    /// Print JSON
    #[arg(long, requires = "once")]
    json: bool,
}

fn interval(text: &str) -> Result<f64, String> {
    let (least, most) = INTERVALS;
    let seconds: f64 = text.parse().map_err(|_| "not a number".to_string())?;
    let is_valid = (least..=most).contains(&seconds);
    if is_valid { Ok(seconds) } else { Err(format!("from {least} to {most} s")) }
}

/// Runs the command.
///
/// # Errors
/// If the server can't be reached or refuses INFO, or the output fails. Once the page is shown, a
/// lost server is only reported on it.
pub fn run(args: Args) -> anyhow::Result<()> {
    let interval = Duration::from_secs_f64(args.interval);
    let target = args.server.resolve().map_err(anyhow::Error::msg)?;
    let mut sampler = Sampler::connect(target, Host::new(Path::new("/")))?;
    // The first sample shows that INFO is permitted.
    let first = sampler.sample(Instant::now())?;
    if args.once {
        let mut rates = Rates::new(sampler.fixed().clone());
        rates.add(first);
        let second = sampler.sample(Instant::now() + interval)?;
        let report = rates.add(second).context("the server was restarted meanwhile")?;
        return print(&report, args.json);
    }
    let has_colors = env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    terminal::show(sampler, Page::new(Palette::new(has_colors)), interval)
}

fn print(report: &Report, json: bool) -> anyhow::Result<()> {
    let out = match json {
        true => serde_json::to_string_pretty(report)? + "\n",
        false => text::print(report),
    };
    io::stdout().write_all(out.as_bytes())?;
    Ok(())
}

//! `weft-tune advise`: recommends a configuration from recorded sweeps, or from a short one that it
//! runs itself.
//!
//! It answers two questions for each server. *Which configuration is best?* It answers this from
//! the measurements alone ([`recommend`]), whatever law they follow. *What would more threads
//! gain?* The scaling law fitted to each command ([`usl`]) answers that, with its reliability
//! ([`trust`]): the points outside the law, the error of the lower points' law on the upper ones,
//! the number of CPUs.

mod laws;
mod recommend;
mod text;
mod trust;
mod usl;

use anyhow::{Context, Result, bail, ensure};
use clap::Parser;
use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use weft_base::cpulist;

use crate::report::read_sweeps;
use crate::report::summary::{Series, Summary};
use crate::results::grid::ServerSpec;
use crate::results::{Reads, Threads};
use crate::sweep::client::Client;
use crate::sweep::server::setting;
use crate::sweep::{self, Short};
use laws::{Request, SeriesLaws};
use recommend::{Advice, Now, Spread, advise};

/// Recommends io-threads, reads and placement from recorded sweeps, or from a short one of its own.
#[derive(Debug, Parser)]
pub struct Args {
    /// Results files of `weft-tune sweep`.
    results: Vec<PathBuf>,
    /// First run a short sweep of this server, some minutes long; any that takes the options of
    /// redis-server. May be repeated.
    #[arg(long = "server", value_name = "NAME=PROGRAM", value_parser = sweep::server)]
    servers: Vec<ServerSpec>,
    /// Where that sweep is recorded; the same command continues a stopped sweep.
    #[arg(long, value_name = "FILE", default_value = "advise.jsonl")]
    record: PathBuf,
    /// Measure each cell of that sweep for so many seconds.
    #[arg(long, value_name = "N", default_value_t = 1.0)]
    seconds: f64,
    /// The load generator of that sweep; as of `weft-tune sweep`.
    #[arg(long, value_name = "PROGRAM")]
    generator: Option<String>,
    /// Also advise on the published sweep of Redis 6.2.1.
    #[arg(long)]
    published: bool,
    /// Fit the law to these numbers of threads only, such as 1-6 or 1,2,4; all that follow it
    /// otherwise.
    #[arg(long, value_name = "LIST", value_parser = numbers)]
    fit_threads: Option<Numbers>,
    /// Predict for these numbers of threads; 1.5 and 2 times the most measured otherwise.
    #[arg(long, value_name = "LIST", value_parser = numbers)]
    predict: Option<Numbers>,
    /// Ask the server on this port of this machine for its present configuration [default: the
    /// configuration that the server of the sweep reported].
    #[arg(long, value_name = "PORT", conflicts_with_all = ["now", "now_reads"])]
    port: Option<u16>,
    /// io-threads that are configured now: a number, or auto.
    #[arg(long, value_name = "N")]
    now: Option<Threads>,
    /// io-threads-do-reads that is configured now.
    #[arg(long, value_name = "yes|no")]
    now_reads: Option<Reads>,
    /// How much commands matter, such as GET:8,SET:2; commands not named do not matter.
    #[arg(long, value_name = "LIST")]
    weights: Option<String>,
    /// Seed of the intervals.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Also write everything as JSON.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// A list on the command line; a separate type, or clap takes it for many options.
#[derive(Clone, Debug)]
struct Numbers(Vec<u32>);

fn numbers(text: &str) -> Result<Numbers, String> {
    let set = cpulist::parse(text).map_err(|e| e.to_string().replace("a CPU", "a number"))?;
    if set.is_empty() || set.contains(0) {
        return Err("numbers of threads from 1 are expected".into());
    }
    Ok(Numbers(set.iter().map(|n| n as u32).collect()))
}

/// Everything about one server of one sweep.
#[derive(Debug, serde::Serialize)]
pub struct ServerAdvice {
    /// Its source.
    pub source: String,
    /// Name of the server.
    pub server: String,
    /// The recommended configuration.
    pub advice: Advice,
    /// The spread of single runs, as a share; none without repeats and laws.
    pub spread: Option<f64>,
    /// The laws of each series.
    pub laws: Vec<SeriesLaws>,
}

/// Reads, fits, recommends, prints.
///
/// # Errors
/// If a file can't be read or written, or an option does not fit the sweep.
pub fn run(args: Args) -> Result<()> {
    let weights = args.weights.as_deref().map(weights).transpose()?;
    let mut files = args.results.clone();
    if !args.servers.is_empty() {
        let short = Short {
            servers: args.servers.clone(),
            output: args.record.clone(),
            generator: args.generator.clone(),
            seconds: args.seconds,
        };
        short.run()?;
        files.push(args.record.clone());
    }
    let summary = Summary::of(read_sweeps(&files, args.published)?);
    ensure!(!summary.series.is_empty(), "nothing was measured yet: no cell is recorded");
    if let Some(unknown) =
        weights.iter().flat_map(BTreeMap::keys).find(|name| !summary.commands.contains(name))
    {
        bail!("--weights: {unknown} was not measured");
    }
    let running = args.port.map(ask).transpose()?;
    let servers = servers(&summary);
    ensure!(
        running.is_none() || servers.len() == 1,
        "--port asks one server, and there are {} in the results",
        servers.len()
    );
    let mut found = Vec::new();
    for (sweep, server) in servers {
        let now = running.clone().unwrap_or_else(|| now(&args, &summary, sweep, &server));
        found.push(on_server(&args, &summary, sweep, &server, &now, weights.as_ref())?);
    }
    print!("{}", text::of(&found));
    if let Some(file) = &args.json {
        let mut text = serde_json::to_string_pretty(&found)?;
        text.push('\n');
        fs::write(file, text).with_context(|| format!("cannot write {}", file.display()))?;
    }
    Ok(())
}

/// The servers with series, in their order.
fn servers(summary: &Summary) -> Vec<(usize, String)> {
    let mut servers: Vec<(usize, String)> = Vec::new();
    for series in &summary.series {
        let server = (series.sweep, series.server.clone());
        if !servers.contains(&server) {
            servers.push(server);
        }
    }
    servers
}

/// Reads the configuration of a running server.
fn ask(port: u16) -> Result<Now> {
    let asked = || format!("cannot ask the server on port {port} for its configuration");
    let mut client = Client::connect(port).with_context(asked)?;
    let io_threads = setting(&mut client, "io-threads").with_context(asked)?;
    let reads = setting(&mut client, "io-threads-do-reads");
    let source = format!("as the server on port {port} says");
    Ok(Now { io_threads: Some(io_threads), reads, own_reads: None, source })
}

/// The present configuration by the command line, or else as the server of the sweep reported it
/// before its first cell.
fn now(args: &Args, summary: &Summary, sweep: usize, server: &str) -> Now {
    let programs = &summary.sweeps[sweep].header.servers;
    let program = programs.iter().find(|program| program.name == server);
    let own_reads = program.and_then(|program| program.own_reads);
    if args.now.is_some() || args.now_reads.is_some() {
        let source = "as --now says".to_string();
        return Now { io_threads: args.now, reads: args.now_reads, own_reads, source };
    }
    let io_threads = program.and_then(|program| program.own_io_threads);
    let source = "as the server says when the sweep sets nothing".to_string();
    Now { io_threads, reads: own_reads, own_reads, source }
}

fn on_server(
    args: &Args,
    summary: &Summary,
    sweep: usize,
    server: &str,
    now: &Now,
    weights: Option<&BTreeMap<String, f64>>,
) -> Result<ServerAdvice> {
    let of_server = |series: &&Series| series.sweep == sweep && series.server == server;
    let series: Vec<&Series> = summary.series.iter().filter(of_server).collect();
    let request = Request {
        fit: args.fit_threads.as_ref().map(|list| &list.0[..]),
        predict: args.predict.as_ref().map(|list| &list.0[..]),
        seed: args.seed,
        cpus: summary.sweeps[sweep].header.host.cpus,
    };
    let laws: Vec<SeriesLaws> = series
        .iter()
        .map(|series| laws::of(series, &summary.commands_of(&[series]), &request))
        .collect();
    let spread = Spread::of_repeats(&series).or_else(|| laws::spread(&laws));
    let weight = |command: &str| match weights {
        Some(weights) => weights.get(command).copied().unwrap_or(0.0),
        None => 1.0,
    };
    let advice = advise(&series, now, spread, weight)
        .with_context(|| format!("{server}: every run has failed"))?;
    Ok(ServerAdvice {
        source: summary.sweeps[sweep].source.clone(),
        server: server.into(),
        advice,
        spread: spread.map(|spread| spread.variance.sqrt()),
        laws,
    })
}

fn weights(text: &str) -> Result<BTreeMap<String, f64>> {
    let mut weights = BTreeMap::new();
    for item in text.split(',') {
        let (name, weight) = item.split_once(':').unwrap_or((item, "1"));
        let value: f64 =
            weight.parse().ok().filter(|w: &f64| *w > 0.0 && w.is_finite()).with_context(|| {
                format!("--weights: '{item}' is not a command and a number such as GET:8")
            })?;
        weights.insert(name.trim().to_ascii_uppercase(), value);
    }
    Ok(weights)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_and_weights_are_read() {
        assert_eq!(numbers("1-3,8").unwrap().0, [1, 2, 3, 8]);
        assert!(numbers("0-3").is_err() && numbers("").is_err() && numbers("a").is_err());
        let weights = super::weights("get:8,SET").unwrap();
        assert_eq!((weights["GET"], weights["SET"]), (8.0, 1.0));
        for wrong in ["GET:x", "GET:0", "GET:-1", "GET:inf"] {
            assert!(super::weights(wrong).is_err(), "{wrong}");
        }
    }
}

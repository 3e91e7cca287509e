//! `weft-tune sweep`: runs a grid of settings, servers and commands, and records each cell.
//!
//! A cell is one run of one command on a fresh server. Cells run one after the other, with repeats
//! outermost and shuffled within each repeat, so that a machine that changes meanwhile affects all
//! settings alike. Each is on the disk before the next begins ([`crate::results`]); the same
//! command on the same file continues a stopped sweep.
//!
//! The warnings of `weft-tune doctor` for this host are printed first and recorded with the
//! results.
//!
//! A failed cell does not end the sweep: it is recorded with the last lines of the server's log,
//! and the exit status reports failed cells. A failure that affects every cell is found before the
//! first.

mod cell;
pub mod child;
pub mod client;
mod generator;
mod locate;
mod plan;
mod proc;
mod progress;
mod run;
pub mod server;
mod stop;

use anyhow::{Context, Result, bail, ensure};
use clap::Parser;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use crate::doctor;
use crate::results::append::Recorder;
use crate::results::grid::{Grid, Placement, ServerSpec, Span};
use crate::results::host::Host;
use crate::results::model::{FORMAT, Header};
use crate::results::{Reads, Threads};
use cell::Bench;
use generator::Generator;
use progress::Progress;
use stop::Stop;

/// Measures servers over a grid of settings and records every run.
#[derive(Debug, Parser)]
#[command(
    after_help = "A grid file is TOML with the names of these options, and tables [[server]] \
    (name, program, config, args) and [[placement]] (name, server-cpus, bench-cpus). Options on the command line replace those of the file. The same command on the same results file continues a stopped sweep."
)]
pub struct Args {
    /// Where results are recorded.
    #[arg(long, short, value_name = "FILE", default_value = "sweep.jsonl")]
    output: PathBuf,
    /// The grid as TOML.
    #[arg(long, value_name = "FILE")]
    grid: Option<PathBuf>,
    /// A server to measure; any that takes the options of redis-server. May be repeated.
    #[arg(long = "server", value_name = "NAME=PROGRAM", value_parser = server)]
    servers: Vec<ServerSpec>,
    /// io-threads: numbers, and auto for servers that know it [default: 1,2,4].
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    io_threads: Vec<Threads>,
    /// io-threads-do-reads: off, on, both, or own, which leaves it to the server [default: own].
    #[arg(long, value_name = "LIST", value_parser = reads_list)]
    reads: Option<ReadsList>,
    /// Lengths of values in bytes [default: 64].
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    data_sizes: Vec<u32>,
    /// Tests of the generator [default: GET,HSET,LPOP,LPUSH,MSET,SADD,SET,SPOP,ZADD].
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    commands: Vec<String>,
    /// Numbers of connections [default: 50].
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    clients: Vec<u32>,
    /// Numbers of requests in flight on each connection [default: 1].
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pipeline: Vec<u32>,
    /// Runs of each cell [default: 3].
    #[arg(long, value_name = "N")]
    repeats: Option<u32>,
    /// Measure each cell for so many requests, or for a time such as 2s [default: 2s].
    #[arg(long, value_name = "REQUESTS|SECONDSs")]
    measure: Option<Span>,
    /// Run each cell so long before it is measured [default: 20000].
    #[arg(long, value_name = "REQUESTS|SECONDSs")]
    warmup: Option<Span>,
    /// Threads of the generator [default: 2].
    #[arg(long, value_name = "N")]
    generator_threads: Option<u32>,
    /// Draw keys and members from that many; 0 names the same key in each request
    /// [default: 100000].
    #[arg(long, value_name = "N")]
    keyspace: Option<u64>,
    /// Elements stored before commands that take some away (LPOP, SPOP ...) [default: as many as
    /// a cell takes, a million for cells that run for a time].
    #[arg(long, value_name = "N")]
    prefill: Option<u64>,
    /// Shuffles the order of the cells [default: 1].
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// CPUs for the servers: a list such as 0-3,8, or a node such as node0 [default: any].
    #[arg(long, value_name = "CPUS")]
    server_cpus: Option<String>,
    /// CPUs for the generator [default: any].
    #[arg(long, value_name = "CPUS")]
    bench_cpus: Option<String>,
    /// The load generator: weft-benchmark, valkey-benchmark or redis-benchmark; otherwise the first
    /// one in the folder of this program, in PEERS_BIN or on PATH.
    #[arg(long, value_name = "PROGRAM")]
    generator: Option<String>,
    /// Port for the servers; a free one for each cell otherwise.
    #[arg(long)]
    port: Option<u16>,
    /// A cell that takes longer has failed, in seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = 600)]
    cell_limit: u64,
    /// Continue the file. This is always done; with this option a missing file is an error.
    #[arg(long)]
    resume: bool,
    /// Run cells again that have failed.
    #[arg(long)]
    retry_failed: bool,
    /// Only say what would be run.
    #[arg(long)]
    dry_run: bool,
    /// No progress on standard error.
    #[arg(long, short)]
    quiet: bool,
}

/// Reads `NAME=PROGRAM`.
pub fn server(text: &str) -> Result<ServerSpec, String> {
    match text.split_once('=') {
        Some((name, program)) if !name.is_empty() && !program.is_empty() => Ok(ServerSpec {
            name: name.into(),
            program: program.into(),
            io_threads: None,
            config: None,
            args: Vec::new(),
        }),
        Some(_) | None => Err("NAME=PROGRAM is expected, such as valkey=valkey-server".into()),
    }
}

/// A list on the command line, of which one word stands for two values; a separate type, or clap
/// takes it for many options.
#[derive(Clone, Debug)]
struct ReadsList(Vec<Reads>);

fn reads_list(text: &str) -> Result<ReadsList, String> {
    let mut list = Vec::new();
    for word in text.split(',') {
        match word {
            "both" => list.extend([Reads::Off, Reads::On]),
            _ => list.push(word.parse().map_err(|_| "own, off, on or both is expected")?),
        }
    }
    Ok(ReadsList(list))
}

/// Runs the sweep, or the rest of it.
///
/// # Errors
/// If the grid is invalid, a program is missing, the file can't be used, the disk is full, cells have failed, or
/// the sweep was stopped. Recorded cells are kept.
pub fn run(args: Args) -> Result<()> {
    let grid = grid_of(&args)?;
    if args.dry_run {
        let cells = grid.cells().len();
        print!("{}", toml::to_string(&grid)?);
        let seconds = progress::guess(&grid) * cells as f64;
        println!("# {cells} cells, about {}", progress::time(seconds));
        return Ok(());
    }
    let output = args.output.clone();
    let Recorded { cells, failed } = record(args, grid)?;
    ensure!(
        failed == 0,
        "{failed} of {cells} cells have failed, recorded in {}; --retry-failed runs them again",
        output.display()
    );
    println!("{cells} cells are recorded in {}", output.display());
    println!("weft-tune report {} --html report.html shows them", output.display());
    Ok(())
}

/// The content of the file after all cells.
struct Recorded {
    cells: usize,
    failed: usize,
}

/// Runs the remaining cells of a grid.
fn record(args: Args, grid: Grid) -> Result<Recorded> {
    ensure!(
        !args.resume || args.output.exists(),
        "nothing to resume: {} is not there",
        args.output.display()
    );
    let stop = Stop::on_signals()?;
    let generator = generator::find(args.generator.as_deref())?;
    generator.check(&grid)?;
    let bench = Bench::prepare(grid, &*generator, &stop, args.port, args.cell_limit)?;
    let grid = bench.grid();
    let header = header(grid, &bench, &*generator)?;
    let (mut recorder, found) = Recorder::open(&args.output, &header)?;
    for remark in found.remarks.iter().chain(&header.remarks).filter(|_| !args.quiet) {
        eprintln!("weft-tune: {remark}");
    }
    let left = plan::left(plan::order(grid), &found.cells, args.retry_failed);
    let mut progress = Progress::new(grid, &found.cells, &left, args.quiet);
    for key in left {
        progress.begin(&key);
        let Some(cell) = bench.run(&key)? else {
            bail!(
                "stopped; {} cells are recorded in {}, the same command continues from there",
                progress.done(),
                args.output.display()
            );
        };
        recorder.append(&cell)?;
        progress.end(&cell);
    }
    Ok(Recorded { cells: progress.done(), failed: progress.failed() })
}

/// Numbers of I/O threads of a short sweep, as far as there are CPUs; at least the first four, so
/// that a law can be fitted.
const SHORT_THREADS: [u32; 12] = [1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64];

/// A sweep that takes some minutes: reads and writes of short values, over the thread counts that
/// fit this machine and the server's own choice, with each server's default for reads.
#[derive(Clone, Debug)]
pub struct Short {
    /// The servers.
    pub servers: Vec<ServerSpec>,
    /// The path of its results.
    pub output: PathBuf,
    /// As in `--generator`.
    pub generator: Option<String>,
    /// Seconds of measurement of each cell.
    pub seconds: f64,
}

impl Short {
    /// Runs it, or the rest of it. Failed cells are only reported.
    ///
    /// # Errors
    /// As of `weft-tune sweep`, and if every cell has failed.
    pub fn run(self) -> Result<()> {
        let cpus = std::thread::available_parallelism().map_or(1, |n| n.get() as u32).max(4);
        let counts = SHORT_THREADS.into_iter().filter(|n| *n <= cpus).map(Threads::Count);
        let args = Args {
            output: self.output,
            servers: self.servers,
            generator: self.generator,
            io_threads: counts.chain([Threads::Auto]).collect(),
            commands: vec!["GET".into(), "SET".into()],
            measure: Some(Span::Seconds(self.seconds)),
            warmup: Some(Span::Seconds(self.seconds / 4.0)),
            ..Args::parse_from(["sweep"])
        };
        let grid = grid_of(&args)?;
        let Recorded { cells, failed } = record(args, grid)?;
        ensure!(failed < cells, "all {cells} cells have failed");
        if failed > 0 {
            eprintln!("weft-tune: {failed} of {cells} cells have failed and are left out");
        }
        Ok(())
    }
}

/// The grid of the file, with the options of the command line.
fn grid_of(args: &Args) -> Result<Grid> {
    let mut grid = match &args.grid {
        Some(file) => {
            let text = fs::read_to_string(file)
                .with_context(|| format!("cannot read {}", file.display()))?;
            toml::from_str(&text).with_context(|| format!("{} is not a grid", file.display()))?
        }
        None => Grid::default(),
    };
    fn list<T: Clone>(of_grid: &mut Vec<T>, given: &[T]) {
        if !given.is_empty() {
            *of_grid = given.to_vec();
        }
    }
    fn value<T>(of_grid: &mut T, given: Option<T>) {
        if let Some(given) = given {
            *of_grid = given;
        }
    }
    list(&mut grid.servers, &args.servers);
    list(&mut grid.io_threads, &args.io_threads);
    if let Some(reads) = &args.reads {
        grid.io_threads_do_reads = reads.0.clone();
    }
    list(&mut grid.data_sizes, &args.data_sizes);
    list(&mut grid.commands, &args.commands);
    list(&mut grid.clients, &args.clients);
    list(&mut grid.pipeline, &args.pipeline);
    value(&mut grid.repeats, args.repeats);
    value(&mut grid.measure, args.measure);
    value(&mut grid.warmup, args.warmup);
    value(&mut grid.generator_threads, args.generator_threads);
    value(&mut grid.keyspace, args.keyspace);
    value(&mut grid.seed, args.seed);
    grid.prefill = args.prefill.or(grid.prefill);
    if args.server_cpus.is_some() || args.bench_cpus.is_some() {
        grid.placements = vec![Placement {
            name: "bound".into(),
            server_cpus: args.server_cpus.clone().unwrap_or_default(),
            bench_cpus: args.bench_cpus.clone().unwrap_or_default(),
        }];
    }
    grid.completed()
}

fn header(grid: &Grid, bench: &Bench, generator: &dyn Generator) -> Result<Header> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let (servers, mut remarks) = bench.programs()?;
    remarks.extend(doctor::warnings());
    Ok(Header {
        format: FORMAT,
        // 0 stands for "not run by this program".
        created: now.as_secs().max(1),
        recorded_by: format!("weft-tune {}", env!("CARGO_PKG_VERSION")),
        host: Host::read(Path::new("/")),
        servers,
        generator: locate::program(generator.name(), generator.program())?,
        grid: grid.clone(),
        remarks,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grid(line: &str) -> Result<Grid> {
        let words = ["sweep"].into_iter().chain(line.split(' '));
        grid_of(&Args::try_parse_from(words)?)
    }

    #[test]
    fn options_make_a_grid() {
        let grid = grid(
            "--server a=redis-server --server b=/x/y --io-threads 1,2 --reads off,on --commands \
             get,set --measure 2s --warmup 100 --server-cpus 0 --bench-cpus 1",
        )
        .unwrap();
        assert_eq!(grid.servers.len(), 2);
        assert_eq!(grid.io_threads_do_reads, [Reads::Off, Reads::On]);
        assert_eq!(grid.io_threads, [Threads::Count(1), Threads::Count(2)]);
        assert_eq!(grid.commands, ["GET", "SET"]);
        assert_eq!((grid.measure, grid.warmup), (Span::Seconds(2.0), Span::Requests(100)));
        assert_eq!(grid.placements[0].server_cpus, "0");
    }

    #[test]
    fn command_line_overrides_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("grid.toml");
        fs::write(&file, "io-threads = [8]\nrepeats = 5\nserver = [{name='a', program='b'}]\n")
            .unwrap();
        let grid = grid(&format!("--grid {} --io-threads 1", file.display())).unwrap();
        assert_eq!((&grid.io_threads[..], grid.repeats), (&[Threads::Count(1)][..], 5));
    }

    #[test]
    fn servers_keep_their_settings_by_default() {
        let found = grid("--server a=b").unwrap();
        assert_eq!(found.io_threads_do_reads, [Reads::Own]);
        assert!(found.keyspace > 1000, "one key would have all threads at one shard");
        let found = grid("--server a=b --io-threads 1,auto --reads both").unwrap();
        assert_eq!(found.io_threads, [Threads::Count(1), Threads::Auto]);
        assert_eq!(found.io_threads_do_reads, [Reads::Off, Reads::On]);
        assert!(grid("--server a=b --reads on,both").is_err(), "on is listed twice");
    }

    /// The help is written by hand; this checks its defaults.
    #[test]
    fn help_names_the_defaults() {
        let help = <Args as clap::CommandFactory>::command().render_long_help().to_string();
        let help = help.split_whitespace().collect::<Vec<_>>().join(" ");
        let default = Grid::default();
        fn list<T: ToString>(of: &[T]) -> String {
            of.iter().map(T::to_string).collect::<Vec<_>>().join(",")
        }
        for (option, value) in [
            ("--io-threads", list(&default.io_threads)),
            ("--reads", list(&default.io_threads_do_reads)),
            ("--data-sizes", list(&default.data_sizes)),
            ("--commands", list(&default.commands)),
            ("--clients", list(&default.clients)),
            ("--pipeline", list(&default.pipeline)),
            ("--repeats", default.repeats.to_string()),
            ("--measure", default.measure.to_string()),
            ("--warmup", default.warmup.to_string()),
            ("--generator-threads", default.generator_threads.to_string()),
            ("--keyspace", default.keyspace.to_string()),
            ("--seed", default.seed.to_string()),
        ] {
            let of_option = help.split_once(&format!(" {option} ")).expect(option).1;
            let of_option = of_option.split(" --").next().unwrap();
            let expected = format!("[default: {value}]");
            assert!(of_option.contains(&expected), "{option}: {expected}: {of_option}");
        }
        assert!(help.contains("both"), "{help}");
    }

    #[test]
    fn wrong_options_are_refused() {
        for line in ["--server a", "--server =b", "--reads maybe --server a=b", "--measure x"] {
            assert!(grid(line).is_err(), "{line}");
        }
        assert!(grid("--repeats 1").is_err(), "no server");
    }
}

//! The published sweep that is included: Redis 6.2.1 with 1 to 11 io-threads.
//!
//! `data/redis-6.2.1-io-threads-sweep.csv` has published figures, means of three runs, for
//! comparison: io-threads-do-reads off and on, values of 64 and 65 bytes, Hyper-Threading off and
//! on, nine commands. Its first lines name the host. Hyper-Threading is a property of the host, so
//! its two settings become two experiments, each with its own server name.

use std::collections::BTreeSet;

use super::file::Sweep;
use super::grid::{Grid, Placement, ServerSpec, Span};
use super::host::Host;
use super::model::{Cell, FORMAT, Header, Key, Measured, Outcome, Program};
use super::setting::{Reads, Threads};

const CSV: &str = include_str!("../../data/redis-6.2.1-io-threads-sweep.csv");
const SOURCE: &str = "published sweep of Redis 6.2.1";
/// Requests of a run, from the file's first lines.
const REQUESTS: u64 = 1_000_000;
/// Each figure is the mean of this many runs.
const RUNS: u32 = 3;

/// The two experiments: Hyper-Threading off, then on.
///
/// # Panics
/// If the included file is invalid; a test checks it.
pub fn sweeps() -> Vec<Sweep> {
    let mut reader = csv::ReaderBuilder::new().comment(Some(b'#')).from_reader(CSV.as_bytes());
    let rows: Vec<csv::StringRecord> =
        reader.records().map(|row| row.expect("the shipped figures are a table")).collect();
    ["off", "on"].into_iter().map(|ht| sweep(ht, rows.iter().filter(|row| &row[1] == ht))).collect()
}

fn sweep<'a>(ht: &str, rows: impl Iterator<Item = &'a csv::StringRecord>) -> Sweep {
    let server = format!("Redis 6.2.1 HT {ht}");
    let number = |text: &str| text.parse().expect("the shipped figures are numbers");
    let cells: Vec<Cell> = rows
        .map(|row| Cell {
            key: Key {
                server: server.clone(),
                placement: "published".into(),
                io_threads: Threads::Count(number(&row[3])),
                reads: if &row[0] == "on" { Reads::On } else { Reads::Off },
                data_bytes: number(&row[2]),
                command: row[4].to_string(),
                clients: 50,
                pipeline: 1,
                repeat: 1,
            },
            started: None,
            took: None,
            outcome: Outcome::Measured(Measured {
                rps: row[5].parse().expect("the shipped figures are numbers"),
                requests: REQUESTS,
                mean_of: RUNS,
                latency_ms: None,
                server_cpu_us: None,
                server_switches: None,
                generator_busy: None,
                others_cpus: None,
            }),
            remarks: Vec::new(),
        })
        .collect();
    let header = header(ht, &server, &cells);
    Sweep { source: format!("{SOURCE}, HT {ht}"), header, cells, remarks: Vec::new() }
}

fn header(ht: &str, server: &str, cells: &[Cell]) -> Header {
    let threads: BTreeSet<Threads> = cells.iter().map(|cell| cell.key.io_threads).collect();
    let sizes: BTreeSet<u32> = cells.iter().map(|cell| cell.key.data_bytes).collect();
    let reads: BTreeSet<Reads> = cells.iter().map(|cell| cell.key.reads).collect();
    let commands: BTreeSet<&str> = cells.iter().map(|cell| cell.key.command.as_str()).collect();
    Header {
        format: FORMAT,
        created: 0,
        recorded_by: "published".into(),
        host: Host {
            cpu_model: "Intel Xeon E5-2670 v3 2.30 GHz, 12 cores, two sockets".into(),
            cpus: Some(if ht == "on" { 48 } else { 24 }),
            nodes: Some(2),
            smt: Some(ht == "on"),
            turbo: Some(false),
            ..Host::default()
        },
        servers: vec![program(server, "6.2.1")],
        generator: program("redis-benchmark", "6.2.1"),
        grid: Grid {
            io_threads: threads.into_iter().collect(),
            io_threads_do_reads: reads.into_iter().collect(),
            data_sizes: sizes.into_iter().collect(),
            commands: commands.into_iter().map(String::from).collect(),
            clients: vec![50],
            pipeline: vec![1],
            repeats: 1,
            measure: Span::Requests(REQUESTS),
            warmup: Span::Requests(0),
            generator_threads: 11,
            keyspace: 0,
            prefill: None,
            seed: 0,
            servers: vec![ServerSpec {
                name: server.into(),
                program: "redis-server".into(),
                io_threads: None,
                config: None,
                args: Vec::new(),
            }],
            placements: vec![Placement {
                name: "published".into(),
                server_cpus: "CPU 0".into(),
                bench_cpus: "CPU 1".into(),
            }],
        },
        remarks: CSV
            .lines()
            .map_while(|line| line.strip_prefix('#'))
            .map(|line| line.trim().to_string())
            .chain([format!(
                "Published figures, each the mean of {RUNS} runs; CPU time and latency were not \
                 published."
            )])
            .collect(),
    }
}

fn program(name: &str, version: &str) -> Program {
    Program {
        name: name.into(),
        version: version.into(),
        bytes: None,
        modified: None,
        own_io_threads: None,
        own_reads: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shipped_figures_are_all_there() {
        let sweeps = sweeps();
        assert_eq!(sweeps.iter().map(|s| s.cells.len()).collect::<Vec<_>>(), [396, 99]);
        let grid = &sweeps[0].header.grid;
        assert_eq!(grid.io_threads, (1..=11).map(Threads::Count).collect::<Vec<_>>());
        assert_eq!(grid.data_sizes, [64, 65]);
        assert_eq!(grid.commands, super::super::grid::PUBLISHED);
        assert_eq!(grid.cells().len(), 396);
        assert_eq!(sweeps[1].header.host.smt, Some(true));
    }

    #[test]
    fn a_figure_is_where_it_belongs() {
        let sweeps = sweeps();
        let rps = |sweep: usize, reads: bool, data_bytes, io_threads, command: &str| {
            let reads = if reads { Reads::On } else { Reads::Off };
            let found = sweeps[sweep].cells.iter().find(|cell| {
                let key = &cell.key;
                (key.reads, key.data_bytes, key.io_threads)
                    == (reads, data_bytes, Threads::Count(io_threads))
                    && key.command == command
            });
            found.and_then(Cell::measured).map(|measured| measured.rps)
        };
        assert_eq!(rps(0, false, 64, 1, "GET"), Some(64521.81));
        assert_eq!(rps(0, true, 65, 10, "SPOP"), Some(266595.59));
        assert_eq!(rps(1, false, 64, 11, "ZADD"), Some(142836.73));
        assert_eq!(rps(1, true, 64, 1, "GET"), None);
    }
}

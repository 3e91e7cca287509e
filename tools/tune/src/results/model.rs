//! The lines of a results file.
//!
//! Every figure that a source may lack is an `Option`: the published sweep has requests per second
//! only, and a generator may not report its latency. A missing figure is absent, never zero.

use serde::{Deserialize, Serialize};

use super::grid::Grid;
use super::host::Host;
use super::setting::{Reads, Threads};

/// The version of the format. Readers refuse newer ones.
///
/// 2: `auto` for io-threads, `own` for io-threads-do-reads; version 1 can still be read.
pub const FORMAT: u32 = 2;

/// One line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Line {
    /// The first line only.
    Header(Box<Header>),
    /// Any other line.
    Cell(Box<Cell>),
}

/// The conditions of the measurement.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Header {
    /// [`FORMAT`] of the writer.
    pub format: u32,
    /// The start of the experiment, in seconds since 1970.
    pub created: u64,
    /// Version of the program that recorded it.
    pub recorded_by: String,
    /// The machine.
    pub host: Host,
    /// The servers, in the order of the grid.
    pub servers: Vec<Program>,
    /// The load generator.
    pub generator: Program,
    /// The grid of the experiment.
    pub grid: Grid,
    /// Remarks for readers of the figures.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub remarks: Vec<String>,
}

/// A program of the experiment. Size and time distinguish a rebuilt program of the same version.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Program {
    /// Its name in the grid.
    pub name: String,
    /// The version that it reports.
    pub version: String,
    /// Size of the executable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
    /// The last change of the executable, in seconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub modified: Option<u64>,
    /// For a server: its io-threads if the sweep does not set them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub own_io_threads: Option<Threads>,
    /// For a server: its io-threads-do-reads if the sweep does not set it; absent if it does not
    /// report it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub own_reads: Option<Reads>,
}

/// Identifies a cell: a point of the grid and the repeat.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Key {
    /// Name of the server in the grid.
    pub server: String,
    /// Name of the placement in the grid.
    pub placement: String,
    /// `io-threads`.
    pub io_threads: Threads,
    /// `io-threads-do-reads`.
    pub reads: Reads,
    /// Length of values in bytes.
    pub data_bytes: u32,
    /// The command, in capitals.
    pub command: String,
    /// Connections of the generator.
    pub clients: u32,
    /// Requests in flight on each connection.
    pub pipeline: u32,
    /// From 1.
    pub repeat: u32,
}

/// One run of one cell.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Cell {
    /// Its key.
    pub key: Key,
    /// Its start, in seconds since 1970; absent if not recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started: Option<f64>,
    /// Its whole time, in seconds: start of the server, preparation, measurement.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub took: Option<f64>,
    /// The outcome.
    pub outcome: Outcome,
    /// Remarks on this run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub remarks: Vec<String>,
}

impl Cell {
    /// The figures, if there are any.
    pub fn measured(&self) -> Option<&Measured> {
        match &self.outcome {
            Outcome::Measured(measured) => Some(measured),
            Outcome::Failed { .. } => None,
        }
    }
}

/// The outcome of a cell.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// It ran.
    Measured(Measured),
    /// It did not.
    Failed {
        /// The reason.
        reason: String,
        /// The last lines that the server logged.
        log: Vec<String>,
    },
}

/// The figures of one run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Measured {
    /// Requests per second.
    pub rps: f64,
    /// Requests measured.
    pub requests: u64,
    /// The number of runs whose mean the figures are; 1 unless another source averaged them.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub mean_of: u32,
    /// Measured by the generator.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency_ms: Option<Latency>,
    /// CPU time of the server in microseconds per request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server_cpu_us: Option<CpuTime>,
    /// Context switches of the server in the measured part.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server_switches: Option<Switches>,
    /// How busy the busiest thread of the generator was, from 0 to 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generator_busy: Option<f64>,
    /// CPUs that other processes used meanwhile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub others_cpus: Option<f64>,
}

/// A generator thread busier than this limits the result.
pub const CLIENT_LIMIT: f64 = 0.9;

impl Measured {
    /// Whether the generator limited the result, so that the server may be faster.
    pub fn client_limited(&self) -> bool {
        self.generator_busy.is_some_and(|busy| busy >= CLIENT_LIMIT)
    }
}

/// Milliseconds from a request to its reply.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Latency {
    /// Mean.
    pub mean: f64,
    /// Smallest.
    pub min: f64,
    /// Median.
    pub p50: f64,
    /// 95th percentile.
    pub p95: f64,
    /// 99th percentile.
    pub p99: f64,
    /// Largest.
    pub max: f64,
}

/// CPU time of server and generator.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct CpuTime {
    /// In user mode.
    pub user: f64,
    /// In the kernel, for the program.
    pub system: f64,
}

impl CpuTime {
    /// Both.
    pub fn total(self) -> f64 {
        self.user + self.system
    }
}

/// Context switches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Switches {
    /// The thread had no work.
    pub voluntary: u64,
    /// Another thread got the CPU.
    pub involuntary: u64,
}

fn one() -> u32 {
    1
}

fn is_one(n: &u32) -> bool {
    *n == 1
}

#[cfg(test)]
mod tests {
    use super::*;

    pub fn cell() -> Cell {
        Cell {
            key: Key {
                server: "a".into(),
                placement: "default".into(),
                io_threads: Threads::Count(2),
                reads: Reads::Off,
                data_bytes: 64,
                command: "GET".into(),
                clients: 50,
                pipeline: 1,
                repeat: 1,
            },
            started: Some(1.5),
            took: None,
            outcome: Outcome::Measured(Measured {
                rps: 1000.25,
                requests: 10,
                mean_of: 1,
                latency_ms: None,
                server_cpu_us: Some(CpuTime { user: 1.0, system: 2.5 }),
                server_switches: None,
                generator_busy: Some(0.9),
                others_cpus: None,
            }),
            remarks: vec![],
        }
    }

    #[test]
    fn a_line_reads_back_as_it_was_written() {
        let line = Line::Cell(Box::new(cell()));
        let text = serde_json::to_string(&line).unwrap();
        assert!(!text.contains('\n') && text.starts_with("{\"cell\":"), "{text}");
        assert_eq!(serde_json::from_str::<Line>(&text).unwrap(), line);
    }

    #[test]
    fn the_limit_of_the_client_counts_from_nine_tenths() {
        let Outcome::Measured(mut measured) = cell().outcome else { panic!("it was measured") };
        assert!(measured.client_limited());
        measured.generator_busy = Some(0.899);
        assert!(!measured.client_limited());
        measured.generator_busy = None;
        assert!(!measured.client_limited());
    }
}

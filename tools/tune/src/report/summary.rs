//! The data of tables and charts: points made of runs, and series made of points.
//!
//! A *point* is all runs of one server with one number of threads and one command under one set of
//! conditions. A *series* is the points of one server under one set of conditions, for all numbers
//! of threads and all commands. Series that share value size, clients and pipeline depth are shown
//! together; these three make a *load*.
//!
//! Outliers. Three runs alone can't show that one of them is an outlier, so the spread is taken
//! over all points of the server in the file: the median of the distances of runs from the median
//! of their point, as a share of it, times 1.4826 (which makes it a standard deviation if the
//! spread is normal). A run is an outlier if it is further away than 3.5 of these and further than
//! 3 %. Outliers stay in all means; they are marked.

use serde::Serialize;
use std::collections::BTreeMap;

use crate::results::model::{Cell, Latency, Measured, Outcome};
use crate::results::{Reads, Sweep, Threads};
use crate::stats::{deviation, mean, median};

/// Distances beyond which a run is an outlier: in spreads, and as a share.
const FAR: (f64, f64) = (3.5, 0.03);
/// From the median distance to a standard deviation.
const NORMAL: f64 = 1.4826;
/// The rule, for readers of reports.
pub const OUTLIER_RULE: &str = "An outlier is a run that is more than 3 % and more than 3.5 \
    spreads away from the median of its runs; the spread is 1.4826 times the median distance from \
    that median over all runs of the server. Outliers are not left out.";

/// All data of some sweeps.
#[derive(Debug)]
pub struct Summary {
    /// As read from the files.
    pub sweeps: Vec<Sweep>,
    /// In the order of the files, then of the grid.
    pub series: Vec<Series>,
    /// All commands, in the order in which they first appear.
    pub commands: Vec<String>,
    /// Runs that failed.
    pub failures: Vec<Failure>,
}

/// The load; runs of one load are comparable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Load {
    /// Length of values.
    pub data_bytes: u32,
    /// Connections.
    pub clients: u32,
    /// Requests in flight on each.
    pub pipeline: u32,
}

impl std::fmt::Display for Load {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{} B values, {} clients, pipeline {}",
            self.data_bytes, self.clients, self.pipeline
        )
    }
}

/// The points of one server under one set of conditions.
#[derive(Debug, Serialize)]
pub struct Series {
    /// Index of the sweep.
    pub sweep: usize,
    /// Name for people; no two series of one load share it.
    pub label: String,
    /// Name of the server in the grid.
    pub server: String,
    /// Name of the placement.
    pub placement: String,
    /// io-threads-do-reads.
    pub reads: Reads,
    /// The load of its points.
    pub load: Load,
    /// By threads, then command.
    #[serde(serialize_with = "as_list")]
    pub points: BTreeMap<(Threads, String), Point>,
}

/// The runs of one cell of the grid.
#[derive(Debug, Default, Serialize)]
pub struct Point {
    /// In the order of the file.
    pub runs: Vec<Run>,
    /// The number of failed runs.
    pub failed: u32,
}

/// One run.
#[derive(Clone, Debug, Serialize)]
pub struct Run {
    /// The number of the repeat.
    pub repeat: u32,
    /// Seconds since the first run of the sweep; absent if unknown.
    pub at: Option<f64>,
    /// Its figures.
    #[serde(flatten)]
    pub measured: Measured,
    /// By the rule of this file.
    pub outlier: bool,
    /// The generator limited this run.
    pub client_limited: bool,
    /// Remarks recorded when it ran.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub remarks: Vec<String>,
}

/// A run that failed.
#[derive(Debug, Serialize)]
pub struct Failure {
    /// Name of the series, threads, command and repeat, for people.
    pub cell: String,
    /// The reason.
    pub reason: String,
    /// The last lines of the server's log.
    pub log: Vec<String>,
}

impl Point {
    /// Requests per second of each run.
    pub fn rps(&self) -> Vec<f64> {
        self.runs.iter().map(|run| run.measured.rps).collect()
    }

    /// Mean requests per second; none without runs.
    pub fn mean(&self) -> Option<f64> {
        (!self.runs.is_empty()).then(|| mean(&self.rps()))
    }

    /// Standard deviation of the requests per second; none below two runs.
    pub fn deviation(&self) -> Option<f64> {
        deviation(&self.rps())
    }

    /// Median of the requests per second; none without runs.
    pub fn median(&self) -> Option<f64> {
        (!self.runs.is_empty()).then(|| median(&self.rps()))
    }

    /// A figure of each run that has it.
    pub fn each(&self, figure: impl Fn(&Measured) -> Option<f64>) -> Vec<f64> {
        self.runs.iter().filter_map(|run| figure(&run.measured)).collect()
    }

    /// Mean of a figure over the runs that have it.
    pub fn mean_of(&self, figure: impl Fn(&Measured) -> Option<f64>) -> Option<f64> {
        let values = self.each(figure);
        (!values.is_empty()).then(|| mean(&values))
    }

    /// Mean CPU time of the server in microseconds per request.
    pub fn cpu(&self) -> Option<f64> {
        self.mean_of(|measured| measured.server_cpu_us.map(|cpu| cpu.total()))
    }

    /// Mean of a percentile.
    pub fn latency(&self, of: fn(&Latency) -> f64) -> Option<f64> {
        self.mean_of(|measured| measured.latency_ms.as_ref().map(of))
    }

    /// Whether any run is an outlier.
    pub fn has_outlier(&self) -> bool {
        self.runs.iter().any(|run| run.outlier)
    }

    /// Whether the generator limited any run.
    pub fn is_client_limited(&self) -> bool {
        self.runs.iter().any(|run| run.client_limited)
    }
}

impl Series {
    /// The numbers of threads, ascending.
    pub fn threads(&self) -> Vec<Threads> {
        let mut threads: Vec<Threads> = self.points.keys().map(|(threads, _)| *threads).collect();
        threads.dedup();
        threads
    }

    /// The point with this many threads and this command.
    pub fn point(&self, threads: Threads, command: &str) -> Option<&Point> {
        self.points.get(&(threads, command.to_string()))
    }

    /// All points of a command with their threads.
    pub fn of<'a>(&'a self, command: &'a str) -> impl Iterator<Item = (Threads, &'a Point)> {
        let wanted = self.points.iter().filter(move |((_, name), _)| name == command);
        wanted.map(|((threads, _), point)| (*threads, point))
    }

    /// The commands of this list that it ran.
    pub fn commands_of<'a>(&self, commands: &[&'a str]) -> Vec<&'a str> {
        commands.iter().copied().filter(|command| self.of(command).next().is_some()).collect()
    }

    /// The median with this many threads, in percent of that with the fewest.
    pub fn relative(&self, threads: Threads, command: &str) -> Option<f64> {
        let base = self.point(self.base()?, command)?.median()?;
        Some(100.0 * self.point(threads, command)?.median()? / base)
    }

    /// The fewest threads of the series, the base of comparisons.
    pub fn base(&self) -> Option<Threads> {
        self.threads().first().copied()
    }
}

impl Summary {
    /// Gathers the cells of some sweeps.
    pub fn of(sweeps: Vec<Sweep>) -> Self {
        let mut summary =
            Self { sweeps: Vec::new(), series: Vec::new(), commands: Vec::new(), failures: vec![] };
        for (i, sweep) in sweeps.iter().enumerate() {
            let first = sweep.cells.iter().filter_map(|cell| cell.started).reduce(f64::min);
            for command in &sweep.header.grid.commands {
                if !summary.commands.contains(command) {
                    summary.commands.push(command.clone());
                }
            }
            for cell in &sweep.cells {
                summary.add(i, cell, first);
            }
        }
        summary.sweeps = sweeps;
        summary.order();
        summary.name();
        summary.mark_outliers();
        summary
    }

    /// Adds a cell to its point, and creates its series if it is missing.
    fn add(&mut self, sweep: usize, cell: &Cell, first: Option<f64>) {
        let key = &cell.key;
        let load =
            Load { data_bytes: key.data_bytes, clients: key.clients, pipeline: key.pipeline };
        let at = self.series.iter().position(|s| {
            (s.sweep, s.reads, s.load) == (sweep, key.reads, load)
                && (&s.server, &s.placement) == (&key.server, &key.placement)
        });
        let at = at.unwrap_or_else(|| {
            self.series.push(Series {
                sweep,
                label: String::new(),
                server: key.server.clone(),
                placement: key.placement.clone(),
                reads: key.reads,
                load,
                points: BTreeMap::new(),
            });
            self.series.len() - 1
        });
        let point =
            self.series[at].points.entry((key.io_threads, key.command.clone())).or_default();
        match &cell.outcome {
            Outcome::Measured(measured) => point.runs.push(Run {
                repeat: key.repeat,
                at: cell.started.zip(first).map(|(started, first)| started - first),
                measured: measured.clone(),
                outlier: false,
                client_limited: measured.client_limited(),
                remarks: cell.remarks.clone(),
            }),
            Outcome::Failed { reason, log } => {
                point.failed += 1;
                self.failures.push(Failure {
                    cell: format!(
                        "{}, {load}, io-threads {}, reads {}, {}, repeat {}",
                        key.server, key.io_threads, key.reads, key.command, key.repeat
                    ),
                    reason: reason.clone(),
                    log: log.clone(),
                });
            }
        }
    }

    /// The loads, ascending.
    pub fn loads(&self) -> Vec<Load> {
        let mut loads: Vec<Load> = self.series.iter().map(|series| series.load).collect();
        loads.sort();
        loads.dedup();
        loads
    }

    /// The series of a load, in the order of display.
    pub fn series_of(&self, load: Load) -> Vec<&Series> {
        self.series.iter().filter(|series| series.load == load).collect()
    }

    /// The commands that any of these series ran.
    pub fn commands_of(&self, series: &[&Series]) -> Vec<&str> {
        let ran = |command: &&String| series.iter().any(|s| s.of(command).next().is_some());
        self.commands.iter().filter(ran).map(String::as_str).collect()
    }

    /// Cells run in shuffled order; series have the order of their grids.
    fn order(&mut self) {
        let sweeps = &self.sweeps;
        self.series.sort_by_key(|series| {
            let grid = &sweeps[series.sweep].header.grid;
            let server = grid.servers.iter().position(|s| s.name == series.server);
            let placement = grid.placements.iter().position(|p| p.name == series.placement);
            (series.sweep, series.load, server, placement, series.reads)
        });
        for series in &mut self.series {
            for point in series.points.values_mut() {
                point.runs.sort_by_key(|run| run.repeat);
            }
        }
    }

    /// Names series by their differences, and by their reads setting: a figure with the reads of a
    /// server switched off doesn't describe the server in normal use.
    fn name(&mut self) {
        let several_placements = self.sweeps.iter().any(|s| s.header.grid.placements.len() > 1);
        let doubled: Vec<bool> = self
            .series
            .iter()
            .map(|s| {
                self.series.iter().any(|other| other.sweep != s.sweep && other.server == s.server)
            })
            .collect();
        for (series, doubled) in self.series.iter_mut().zip(doubled) {
            let mut label = series.server.clone();
            if doubled {
                label += &format!(" ({})", self.sweeps[series.sweep].source);
            }
            if several_placements {
                label += &format!(" @ {}", series.placement);
            }
            let header = &self.sweeps[series.sweep].header;
            let program = header.servers.iter().find(|server| server.name == series.server);
            label += &match (series.reads, program.and_then(|program| program.own_reads)) {
                (Reads::Own, Some(own)) => format!(", reads {own} (its own choice)"),
                (Reads::Own, None) => ", reads as it chooses".to_string(),
                (set, Some(own)) if set == own => format!(", reads {set} (the default)"),
                (set, _) => format!(", reads {set}"),
            };
            series.label = label;
        }
    }

    /// Marks the outliers, by the rule of this file.
    fn mark_outliers(&mut self) {
        let mut distances: BTreeMap<(usize, String), Vec<f64>> = BTreeMap::new();
        for series in &self.series {
            let of_server = distances.entry((series.sweep, series.server.clone())).or_default();
            for point in series.points.values().filter(|point| point.runs.len() > 2) {
                let middle = median(&point.rps());
                of_server.extend(point.rps().iter().map(|rps| (rps / middle - 1.0).abs()));
            }
        }
        for series in &mut self.series {
            let spread = NORMAL * median(&distances[&(series.sweep, series.server.clone())]);
            for point in series.points.values_mut().filter(|point| point.runs.len() > 2) {
                let middle = median(&point.rps());
                for run in &mut point.runs {
                    let distance = (run.measured.rps / middle - 1.0).abs();
                    run.outlier = distance > FAR.1 && distance > FAR.0 * spread;
                }
            }
        }
    }
}

/// JSON has no keys with two parts.
fn as_list<S: serde::Serializer>(
    points: &BTreeMap<(Threads, String), Point>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    #[derive(Serialize)]
    struct Entry<'a> {
        io_threads: Threads,
        command: &'a str,
        median_rps: Option<f64>,
        mean_rps: Option<f64>,
        deviation_rps: Option<f64>,
        #[serde(flatten)]
        point: &'a Point,
    }
    serializer.collect_seq(points.iter().map(|((io_threads, command), point)| Entry {
        io_threads: *io_threads,
        command,
        median_rps: point.median(),
        mean_rps: point.mean(),
        deviation_rps: point.deviation(),
        point,
    }))
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use crate::results::published;

    /// A sweep of one server and command: the requests per second of each run by threads.
    pub fn sweep(runs: &[(u32, &[f64])]) -> Sweep {
        let mut sweep = published::sweeps().swap_remove(0);
        let template = sweep.cells[0].clone();
        sweep.cells.clear();
        for (threads, runs) in runs {
            for (i, rps) in runs.iter().enumerate() {
                let mut cell = template.clone();
                cell.key.io_threads = Threads::Count(*threads);
                cell.key.repeat = i as u32 + 1;
                if let Outcome::Measured(measured) = &mut cell.outcome {
                    measured.rps = *rps;
                    measured.mean_of = 1;
                }
                sweep.cells.push(cell);
            }
        }
        sweep
    }

    #[test]
    fn the_published_means_and_percentages_come_out() {
        let summary = Summary::of(published::sweeps());
        assert_eq!(summary.loads().len(), 2);
        assert_eq!(summary.series.len(), 5);
        let off = &summary.series_of(summary.loads()[0])[0];
        assert_eq!(off.label, "Redis 6.2.1 HT off, reads off");
        let at = Threads::Count;
        assert_eq!(off.point(at(8), "GET").unwrap().median(), Some(176_537.07));
        // 176537.07 / 64521.81 and 98364.30 / 50002.71, by hand.
        assert_eq!(format!("{:.1}", off.relative(at(8), "GET").unwrap()), "273.6");
        assert_eq!(format!("{:.1}", off.relative(at(10), "MSET").unwrap()), "196.7");
        assert_eq!(off.relative(at(1), "GET"), Some(100.0));
    }

    #[test]
    fn outliers_are_marked_and_stay_in_the_mean() {
        let quiet: &[f64] = &[100.0, 101.0, 99.5];
        let summary = Summary::of(vec![sweep(&[
            (1, quiet),
            (2, quiet),
            (3, quiet),
            (4, &[100.0, 101.0, 60.0]),
        ])]);
        let series = &summary.series[0];
        assert_eq!(series.point(Threads::Count(4), "GET").unwrap().mean(), Some(87.0));
        let marks: Vec<bool> =
            series.points.values().flat_map(|point| point.runs.iter().map(|r| r.outlier)).collect();
        assert_eq!(marks.iter().filter(|&&m| m).count(), 1);
        assert!(marks[11]);
        // If every point varies as much, none is an outlier.
        let wild: &[f64] = &[100.0, 120.0, 80.0];
        let summary = Summary::of(vec![sweep(&[(1, wild), (2, wild), (3, wild)])]);
        assert!(!summary.series[0].points.values().any(Point::has_outlier));
    }

    #[test]
    fn equal_names_of_two_files_get_a_distinction() {
        let (mut a, mut b) = (sweep(&[(1, &[1.0])]), sweep(&[(1, &[1.0])]));
        (a.source, b.source) = ("a".into(), "b".into());
        let summary = Summary::of(vec![a, b]);
        assert_ne!(summary.series[0].label, summary.series[1].label);
    }
}

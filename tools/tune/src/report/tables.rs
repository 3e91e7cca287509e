//! The tables of a report, before they become HTML or Markdown.
//!
//! A cell stores its number with its text, so that pages can sort by it, and has the marks of its
//! runs.

use super::numbers::{compact, range, significant};
use super::ratio::{Ratio, Row, Versus};
use super::summary::{Point, Series, Summary};
use crate::results::model::Measured;
use crate::results::{Reads, Threads};
use crate::stats::median;

/// A run of this point is an outlier.
pub const OUTLIER: char = '‡';
/// The generator limited a run of this point.
pub const LIMITED: char = '†';
/// A run of this point failed.
pub const FAILED: char = '✗';

/// If a larger share of the cells has a mark, it is reported once for all of them.
const COMMON: f64 = 1.0 / 3.0;
/// The most cells without such a mark that are listed one by one.
const NAMED: usize = 6;

/// A table for people.
#[derive(Debug)]
pub struct Table {
    /// Its subject; empty if the heading above has it.
    pub title: String,
    /// Marks of most of its cells, as text.
    pub notes: Vec<String>,
    /// The first column has the names of the rows.
    pub columns: Vec<String>,
    /// As many cells as columns.
    pub rows: Vec<Vec<Cell>>,
}

/// One cell.
#[derive(Clone, Debug, Default)]
pub struct Cell {
    /// The text, without marks.
    pub text: String,
    /// From the lowest run to the highest, or an interval; may be empty.
    pub band: String,
    /// Its sort key; none sorts last.
    pub value: Option<f64>,
    /// [`OUTLIER`], [`LIMITED`], [`FAILED`].
    pub marks: String,
}

/// One kind of figure, for all tables and charts of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Figure {
    /// Requests per second.
    Rps,
    /// In percent of the fewest threads.
    Relative,
    /// CPU of the server per request, microseconds.
    Cpu,
    /// Median latency, milliseconds.
    P50,
    /// 99th percentile of the latency, milliseconds.
    P99,
}

impl Figure {
    /// All figures, in the order of reports.
    pub const ALL: [Self; 5] = [Self::Rps, Self::Relative, Self::Cpu, Self::P50, Self::P99];

    /// For titles.
    pub fn name(self) -> &'static str {
        match self {
            Self::Rps => "Requests per second",
            Self::Relative => "Scaling, % of the fewest threads",
            Self::Cpu => "Server CPU per request, µs",
            Self::P50 => "Median latency, ms",
            Self::P99 => "99th percentile of latency, ms",
        }
    }

    /// The figure of a point of a series: the median of its runs.
    pub fn of(self, series: &Series, threads: Threads, command: &str) -> Option<f64> {
        match self {
            Self::Relative => series.relative(threads, command),
            Self::Rps | Self::Cpu | Self::P50 | Self::P99 => {
                let runs = self.runs(series, threads, command);
                (!runs.is_empty()).then(|| median(&runs))
            }
        }
    }

    /// The lowest and the highest run; none below two runs.
    pub fn band(self, series: &Series, threads: Threads, command: &str) -> Option<(f64, f64)> {
        let runs = self.runs(series, threads, command);
        let (low, high) =
            (runs.iter().copied().reduce(f64::min)?, runs.iter().copied().reduce(f64::max)?);
        (runs.len() > 1).then_some((low, high))
    }

    /// The figure of each run; empty if single runs have no such figure.
    fn runs(self, series: &Series, threads: Threads, command: &str) -> Vec<f64> {
        let Some(point) = series.point(threads, command) else { return Vec::new() };
        let latency = |measured: &Measured| measured.latency_ms;
        match self {
            Self::Rps => point.rps(),
            Self::Relative => Vec::new(),
            Self::Cpu => point.each(|measured| measured.server_cpu_us.map(|cpu| cpu.total())),
            Self::P50 => point.each(|measured| Some(latency(measured)?.p50)),
            Self::P99 => point.each(|measured| Some(latency(measured)?.p99)),
        }
    }

    /// The value as text.
    pub fn text(self, value: f64) -> String {
        match self {
            Self::Rps => compact(value),
            Self::Relative => format!("{value:.0}"),
            Self::Cpu | Self::P50 | Self::P99 => significant(value),
        }
    }
}

/// The marks of the runs of a point.
pub fn marks(point: &Point) -> String {
    [
        (OUTLIER, point.has_outlier()),
        (LIMITED, point.is_client_limited()),
        (FAILED, point.failed > 0),
    ]
    .into_iter()
    .filter_map(|(mark, set)| set.then_some(mark))
    .collect()
}

/// A figure of one series: rows are threads, columns are commands. None if no point has it.
pub fn of_figure(figure: Figure, series: &Series, commands: &[&str]) -> Option<Table> {
    let title = match (figure, series.base()) {
        (Figure::Relative, Some(base)) => {
            format!("{}; {} = 100 %", series.label, base.counted())
        }
        (Figure::Relative | Figure::Rps | Figure::Cpu | Figure::P50 | Figure::P99, _) => {
            series.label.clone()
        }
    };
    let mut rows = rows(&series.threads(), commands, |threads, command| {
        let value = figure.of(series, threads, command);
        let band = figure.band(series, threads, command);
        Cell {
            text: value.map_or("–".into(), |value| figure.text(value)),
            band: band.map_or(String::new(), |(low, high)| range(low, high)),
            value,
            marks: series.point(threads, command).map(marks).unwrap_or_default(),
        }
    });
    let any = rows.iter().flatten().skip(1).any(|cell| !cell.marks.is_empty())
        || rows.iter().any(|row| row[1..].iter().any(|cell| cell.value.is_some()));
    if !any {
        return None;
    }
    let notes = gather_marks(&mut rows, commands);
    Some(Table { title, notes, columns: columns("io-threads", commands), rows })
}

/// Removes marks that many cells have, and returns them as text.
fn gather_marks(rows: &mut [Vec<Cell>], commands: &[&str]) -> Vec<String> {
    let all = rows.iter().map(|row| row.len() - 1).sum::<usize>();
    let mut notes = Vec::new();
    for (mark, words) in [
        (LIMITED, "limited by the load generator, so the server may be faster"),
        (OUTLIER, "with an outlier among the runs"),
        (FAILED, "with a run that failed"),
    ] {
        let has = |cell: &&Cell| cell.marks.contains(mark);
        let count = rows.iter().flat_map(|row| &row[1..]).filter(has).count();
        if count < 2 || count as f64 <= COMMON * all as f64 {
            continue;
        }
        let without: Vec<String> = rows
            .iter()
            .flat_map(|row| row[1..].iter().zip(commands).map(move |pair| (&row[0].text, pair)))
            .filter(|(_, (cell, _))| !cell.marks.contains(mark))
            .map(|(threads, (_, command))| format!("{command} with {threads}"))
            .collect();
        notes.push(match without.len() {
            0 => format!("All cells: {words}."),
            1..=NAMED => format!("All cells but {}: {words}.", without.join(", ")),
            _ => format!("{count} of {all} cells: {words}."),
        });
        rows.iter_mut().flatten().for_each(|cell| cell.marks.retain(|other| other != mark));
    }
    notes
}

/// The ratios of two servers: the last row, each at its best, comes first.
pub fn of_versus(versus: &Versus, commands: &[&str]) -> Table {
    let (first, second) = (&versus.first.server, &versus.second.server);
    let cell = |ratio: Option<Ratio>| Cell {
        text: ratio.map_or("–".into(), |ratio| ratio.text()),
        band: ratio.map_or(String::new(), |ratio| ratio.band()),
        value: ratio.map(|ratio| ratio.factor),
        marks: String::new(),
    };
    let row = |row: &Row| {
        let name = match row.best {
            true => format!("best: {} and {}", row.threads.0, row.threads.1),
            false => row.threads.0.to_string(),
        };
        let name = Cell { value: Some(rank(row.threads.0)), text: name, ..Cell::default() };
        let commands = row.commands.iter().map(|ratio| cell(*ratio));
        [name, cell(row.all)].into_iter().chain(commands).chain([cell(row.cpu)]).collect()
    };
    let names = ["io-threads", "all commands"].into_iter().chain(commands.iter().copied());
    let title = match versus.setting.as_str() {
        "" => format!("{first} to {second}"),
        setting => format!("{first} to {second}, {setting}"),
    };
    Table {
        title,
        notes: Vec::new(),
        columns: names.chain(["CPU per request"]).map(String::from).collect(),
        rows: versus
            .best()
            .into_iter()
            .chain(versus.rows.iter().filter(|row| !row.best))
            .map(row)
            .collect(),
    }
}

/// Series that differ in io-threads-do-reads only: off, on.
pub fn reads_pairs<'a>(series: &[&'a Series]) -> Vec<(&'a Series, &'a Series)> {
    let off = series.iter().filter(|s| s.reads == Reads::Off);
    off.filter_map(|off| {
        let on = series.iter().find(|on| {
            on.reads == Reads::On
                && (on.sweep, &on.server, &on.placement) == (off.sweep, &off.server, &off.placement)
        })?;
        Some((*off, *on))
    })
    .collect()
}

/// Throughput with reads on, in percent of that with reads off.
pub fn reads_ratio(off: &Series, on: &Series, threads: Threads, command: &str) -> Option<f64> {
    let median = |series: &Series| series.point(threads, command)?.median();
    Some(100.0 * median(on)? / median(off)?)
}

/// Reads on compared with off: rows are threads, columns are commands.
pub fn of_reads(off: &Series, on: &Series, commands: &[&str]) -> Table {
    let mut rows = rows(&off.threads(), commands, |threads, command| {
        let value = reads_ratio(off, on, threads, command);
        let both = [off, on].into_iter().filter_map(|s| s.point(threads, command));
        let mut marks: String = both.map(marks).collect();
        marks = [OUTLIER, LIMITED, FAILED].into_iter().filter(|&m| marks.contains(m)).collect();
        let text = value.map_or("–".into(), |value| format!("{value:.0}"));
        Cell { text, value, marks, ..Cell::default() }
    });
    let notes = gather_marks(&mut rows, commands);
    let title = format!("{}; reads off = 100 %", on.server);
    Table { title, notes, columns: columns("io-threads", commands), rows }
}

/// The spread of the runs and the generator's spare time: one row for each series.
pub fn of_quality(series: &[&Series]) -> Table {
    let names = [
        "series",
        "runs",
        "failed",
        "outliers",
        "client-limited",
        "median spread of runs, %",
        "busiest generator thread, %",
        "context switches per 1000 requests",
        "CPUs used by others",
    ];
    let rows = series.iter().map(|series| quality_row(series)).collect();
    let columns = names.map(String::from).to_vec();
    Table { title: String::new(), notes: Vec::new(), columns, rows }
}

fn quality_row(series: &Series) -> Vec<Cell> {
    let points = || series.points.values();
    let runs = || points().flat_map(|point| &point.runs);
    let count = |n: usize| Cell { text: n.to_string(), value: Some(n as f64), ..Cell::default() };
    let maybe = |value: Option<f64>| Cell {
        text: value.map_or("–".into(), |value| format!("{value:.1}")),
        value,
        ..Cell::default()
    };
    let spreads: Vec<f64> =
        points().filter_map(|point| Some(100.0 * point.deviation()? / point.mean()?)).collect();
    let busy = runs().filter_map(|run| run.measured.generator_busy).reduce(f64::max);
    let switches: Vec<f64> = runs()
        .filter_map(|run| {
            let switches = run.measured.server_switches?;
            let all = switches.voluntary + switches.involuntary;
            Some(1000.0 * all as f64 / run.measured.requests as f64)
        })
        .collect();
    let others: Vec<f64> = runs().filter_map(|run| run.measured.others_cpus).collect();
    vec![
        Cell { text: series.label.clone(), ..Cell::default() },
        count(runs().count()),
        count(points().map(|point| point.failed as usize).sum()),
        count(runs().filter(|run| run.outlier).count()),
        count(runs().filter(|run| run.client_limited).count()),
        maybe((!spreads.is_empty()).then(|| crate::stats::median(&spreads))),
        maybe(busy.map(|busy| 100.0 * busy)),
        maybe((!switches.is_empty()).then(|| crate::stats::mean(&switches))),
        maybe((!others.is_empty()).then(|| crate::stats::mean(&others))),
    ]
}

/// The time, host and programs of a sweep, in a line.
pub fn what(sweep: &crate::results::Sweep) -> String {
    let header = &sweep.header;
    let servers = header.servers.iter().map(|server| match short_version(&server.version) {
        Some(version) => format!("{} {version}", server.name),
        None => server.name.clone(),
    });
    let cpus = header.host.cpus.map_or(String::new(), |cpus| format!(", {cpus} CPUs"));
    let on = match header.created {
        0 => String::new(),
        seconds => format!("{}; ", date(seconds)),
    };
    let servers = servers.collect::<Vec<_>>().join(", ");
    format!("{on}{servers}; {}{cpus}", header.host.cpu_model)
}

/// The number in a server's version text: `v=9.1.2`, or the first word of digits and dots.
fn short_version(text: &str) -> Option<String> {
    let words =
        text.split_whitespace().map(|word| word.trim_start_matches("v=").trim_start_matches('v'));
    let is_number =
        |word: &&str| word.contains('.') && word.starts_with(|c: char| c.is_ascii_digit());
    words.into_iter().find(is_number).map(String::from)
}

/// The day of a time since 1970 in UTC, as in 2026-11-22; by Hinnant's `civil_from_days`.
fn date(seconds: u64) -> String {
    let days = (seconds / 86_400) as i64 + 719_468;
    let era = days.div_euclid(146_097);
    let day_of_era = days.rem_euclid(146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    format!("{year}-{month:02}-{day:02}")
}

/// Facts about a sweep that a reader needs to judge it and to repeat it.
pub fn of_host(summary: &Summary, sweep: usize) -> Vec<(String, String)> {
    let header = &summary.sweeps[sweep].header;
    let mut rows: Vec<(String, String)> =
        header.host.rows().into_iter().map(|(name, value)| (name.to_string(), value)).collect();
    for server in &header.servers {
        rows.push((format!("server {}", server.name), server.version.clone()));
    }
    rows.push((
        "generator".into(),
        format!("{} {}", header.generator.name, header.generator.version),
    ));
    for placement in &header.grid.placements {
        let cpus = |list: &str| if list.is_empty() { "any".to_string() } else { list.to_string() };
        rows.push((
            format!("placement {}", placement.name),
            format!(
                "server on {}, load on {}",
                cpus(&placement.server_cpus),
                cpus(&placement.bench_cpus)
            ),
        ));
    }
    let grid = &header.grid;
    rows.push(("each cell".into(), format!("{} measured", span(grid.measure))));
    let keys = match grid.keyspace {
        0 => "one and the same".to_string(),
        keys => format!("drawn from {}", super::numbers::grouped(keys as f64)),
    };
    rows.push(("keys".into(), keys));
    rows.push(("order".into(), format!("shuffled by seed {}, repeats outermost", grid.seed)));
    if header.created == 0 {
        // Unknown for a sweep of another tool.
        rows.retain(|(name, _)| name != "order" && name != "keys");
    }
    rows
}

fn span(span: crate::results::grid::Span) -> String {
    use crate::results::grid::Span;
    match span {
        Span::Requests(n) => format!("{n} requests"),
        Span::Seconds(s) => format!("{s} s"),
    }
}

/// Warnings that readers need before they trust a sweep.
pub fn warnings(summary: &Summary, sweep: usize) -> Vec<String> {
    let sweep = &summary.sweeps[sweep];
    let mut warnings = sweep.remarks.clone();
    warnings.extend(sweep.header.remarks.iter().cloned());
    let mut remarks: Vec<(String, String)> = sweep
        .cells
        .iter()
        .flat_map(|cell| cell.remarks.iter().map(|r| (cell.key.server.clone(), r.clone())))
        .collect();
    remarks.sort();
    let all = remarks.clone();
    remarks.dedup();
    for remark in remarks {
        let times = all.iter().filter(|other| **other == remark).count();
        warnings.push(format!("{}: {} ({times} runs)", remark.0, remark.1));
    }
    let missing = sweep.header.grid.cells().len().saturating_sub(sweep.cells.len());
    if missing > 0 {
        warnings.push(format!("{missing} cells of the grid have not been run."));
    }
    warnings
}

fn columns(first: &str, commands: &[&str]) -> Vec<String> {
    [first].iter().chain(commands).map(|name| name.to_string()).collect()
}

/// The sort key of numbers of threads; other settings come after them.
fn rank(threads: Threads) -> f64 {
    threads.count().map_or(f64::MAX, f64::from)
}

fn rows(
    threads: &[Threads],
    commands: &[&str],
    cell: impl Fn(Threads, &str) -> Cell,
) -> Vec<Vec<Cell>> {
    let row = |&threads: &Threads| {
        let name =
            Cell { text: threads.to_string(), value: Some(rank(threads)), ..Cell::default() };
        [name].into_iter().chain(commands.iter().map(|command| cell(threads, command))).collect()
    };
    threads.iter().map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::published;

    #[test]
    fn days_and_versions_are_read() {
        for (seconds, day) in
            [(0, "1970-01-01"), (951_782_400, "2000-02-29"), (1_795_305_600, "2026-11-22")]
        {
            assert_eq!(date(seconds), day);
        }
        for (text, version) in [
            ("Valkey server v=9.1.2 sha=0 malloc=jemalloc", Some("9.1.2")),
            ("weft-server 0.1.0", Some("0.1.0")),
            ("Weft server v=0.1.0 bits=64", Some("0.1.0")),
            ("unknown", None),
        ] {
            assert_eq!(short_version(text).as_deref(), version);
        }
    }

    #[test]
    fn mark_on_most_cells_is_printed_once() {
        let cell = |marks: &str| Cell { text: "1".into(), marks: marks.into(), ..Cell::default() };
        let mut rows: Vec<Vec<Cell>> = (0..4)
            .map(|i| {
                let limited = if i == 0 { "" } else { "†" };
                vec![cell(""), cell(limited), cell(limited), cell("†"), cell("†‡")]
            })
            .collect();
        rows[3][4].marks = "†‡✗".into();
        let notes = gather_marks(&mut rows, &["GET", "SET", "SADD", "ZADD"]);
        assert_eq!(notes.len(), 1, "{notes:?}");
        assert!(notes[0].starts_with("All cells but GET with 1, SET with 1: limited"), "{notes:?}");
        let left: String = rows.iter().flatten().map(|cell| cell.marks.as_str()).collect();
        assert_eq!(left, "‡‡‡‡✗", "few enough to stand where they belong");
    }

    #[test]
    fn a_band_goes_from_the_lowest_run_to_the_highest() {
        use crate::report::summary::tests::sweep;
        let runs: &[f64] = &[101_000.0, 99_000.0, 102_500.0];
        let summary = Summary::of(vec![sweep(&[(1, runs), (2, &[7.0])])]);
        let table = of_figure(Figure::Rps, &summary.series[0], &["GET"]).unwrap();
        let cell = &table.rows[0][1];
        assert_eq!((cell.text.as_str(), cell.band.as_str()), ("101k", "99.0–102k"));
        assert_eq!(table.rows[1][1].band, "", "one run has none");
    }

    #[test]
    fn the_published_tables_come_out() {
        let summary = Summary::of(published::sweeps());
        let load = summary.loads()[0];
        let series = summary.series_of(load);
        let commands = summary.commands_of(&series);
        let table = of_figure(Figure::Rps, series[0], &commands).unwrap();
        assert_eq!(table.columns.len(), 10);
        assert_eq!(table.rows.len(), 11);
        assert_eq!((table.columns[1].as_str(), table.rows[0][1].text.as_str()), ("GET", "64.5k"));
        let table = of_figure(Figure::Relative, series[0], &commands).unwrap();
        assert!(table.title.ends_with("1 thread = 100 %"), "{}", table.title);
        assert_eq!(
            (table.rows[0][5].text.as_str(), table.rows[7][1].text.as_str()),
            ("100", "274")
        );
        assert!(of_figure(Figure::Cpu, series[0], &commands).is_none());
        let pairs = reads_pairs(&series);
        assert_eq!(pairs.len(), 1);
        let table = of_reads(pairs[0].0, pairs[0].1, &commands);
        // 181796.14 / 144614.00, by hand.
        assert_eq!(table.rows[3][1].text, "126");
    }
}

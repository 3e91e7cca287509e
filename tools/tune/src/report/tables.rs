//! The tables of a report, before they become HTML or Markdown.
//!
//! A cell keeps its number beside its text, so that pages can sort by it, and carries the marks
//! of the runs behind it.

use super::summary::{Point, Series, Summary, on_off};

/// A run of this point is an outlier.
pub const OUTLIER: char = '‡';
/// The generator limited a run of this point.
pub const LIMITED: char = '†';
/// A run of this point failed.
pub const FAILED: char = '✗';

/// CPUs used by others from which on a run was disturbed.
const OTHERS: f64 = 0.2;

/// A table for people.
#[derive(Debug)]
pub struct Table {
    /// What it shows.
    pub title: String,
    /// The first names the rows.
    pub columns: Vec<String>,
    /// As many cells as columns.
    pub rows: Vec<Vec<Cell>>,
}

/// One cell.
#[derive(Clone, Debug, Default)]
pub struct Cell {
    /// As shown, without marks.
    pub text: String,
    /// What it sorts by; none sorts last.
    pub value: Option<f64>,
    /// [`OUTLIER`], [`LIMITED`], [`FAILED`].
    pub marks: String,
}

/// One kind of figure, for all tables and charts of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Figure {
    /// Mean requests per second.
    Mean,
    /// In per cent of the fewest threads.
    Relative,
    /// CPU of the server per request, microseconds.
    Cpu,
    /// Median latency, milliseconds.
    P50,
    /// 99th percentile of the latency, milliseconds.
    P99,
}

impl Figure {
    /// All, in the order of reports.
    pub const ALL: [Self; 5] = [Self::Mean, Self::Relative, Self::Cpu, Self::P50, Self::P99];

    /// For titles.
    pub fn name(self) -> &'static str {
        match self {
            Self::Mean => "Requests per second",
            Self::Relative => "Relative throughput, %",
            Self::Cpu => "Server CPU per request, µs",
            Self::P50 => "Median latency, ms",
            Self::P99 => "99th percentile of latency, ms",
        }
    }

    /// Of a point of a series.
    pub fn of(self, series: &Series, threads: u32, command: &str) -> Option<f64> {
        let point = series.point(threads, command)?;
        match self {
            Self::Mean => point.mean(),
            Self::Relative => series.relative(threads, command),
            Self::Cpu => point.cpu(),
            Self::P50 => point.latency(|latency| latency.p50),
            Self::P99 => point.latency(|latency| latency.p99),
        }
    }

    /// As shown in tables.
    pub fn text(self, value: f64) -> String {
        match self {
            Self::Mean => grouped(value),
            Self::Relative => format!("{value:.1}"),
            Self::Cpu => format!("{value:.2}"),
            Self::P50 | Self::P99 => format!("{value:.3}"),
        }
    }
}

/// A number with two decimals and its thousands apart.
pub fn grouped(value: f64) -> String {
    let text = format!("{:.2}", value.abs());
    let (whole, rest) = text.split_once('.').unwrap_or((&text, ""));
    let mut out = String::new();
    for (i, digit) in whole.chars().enumerate() {
        if i > 0 && (whole.len() - i) % 3 == 0 {
            out.push(',');
        }
        out.push(digit);
    }
    let sign = if value < 0.0 { "-" } else { "" };
    format!("{sign}{out}.{rest}")
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

/// A figure of one series: rows threads, columns commands. None when no point has it.
pub fn of_figure(figure: Figure, series: &Series, commands: &[&str]) -> Option<Table> {
    let title = match (figure, series.base()) {
        (Figure::Relative, Some(base)) => {
            format!(
                "{}, {base} {} = 100 %",
                series.label,
                if base == 1 { "thread" } else { "threads" }
            )
        }
        (Figure::Relative | Figure::Mean | Figure::Cpu | Figure::P50 | Figure::P99, _) => {
            series.label.clone()
        }
    };
    let rows = rows(&series.threads(), commands, |threads, command| Cell {
        value: figure.of(series, threads, command),
        text: figure.of(series, threads, command).map_or("–".into(), |value| figure.text(value)),
        marks: series.point(threads, command).map(marks).unwrap_or_default(),
    });
    let any = rows.iter().flatten().skip(1).any(|cell| !cell.marks.is_empty())
        || rows.iter().any(|row| row[1..].iter().any(|cell| cell.value.is_some()));
    any.then(|| Table { title, columns: columns("io-threads", commands), rows })
}

/// Series that differ in io-threads-do-reads only: off, on.
pub fn reads_pairs<'a>(series: &[&'a Series]) -> Vec<(&'a Series, &'a Series)> {
    let off = series.iter().filter(|s| !s.reads);
    off.filter_map(|off| {
        let on = series.iter().find(|on| {
            on.reads
                && (on.sweep, &on.server, &on.placement) == (off.sweep, &off.server, &off.placement)
        })?;
        Some((*off, *on))
    })
    .collect()
}

/// Throughput with reads on threads, in per cent of that without.
pub fn reads_ratio(off: &Series, on: &Series, threads: u32, command: &str) -> Option<f64> {
    let mean = |series: &Series| series.point(threads, command)?.mean();
    Some(100.0 * mean(on)? / mean(off)?)
}

/// Reads on against off: rows threads, columns commands.
pub fn of_reads(off: &Series, on: &Series, commands: &[&str]) -> Table {
    let rows = rows(&off.threads(), commands, |threads, command| {
        let value = reads_ratio(off, on, threads, command);
        let both = [off, on].into_iter().filter_map(|s| s.point(threads, command));
        let mut marks: String = both.map(marks).collect();
        marks = [OUTLIER, LIMITED, FAILED].into_iter().filter(|&m| marks.contains(m)).collect();
        Cell { text: value.map_or("–".into(), |value| format!("{value:.1}")), value, marks }
    });
    let title = format!("{}: reads on, {} = 100 %", on.server, "reads off");
    Table { title, columns: columns("io-threads", commands), rows }
}

/// How restless the runs are and how much the generator had to spare: one row a series.
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
    Table { title: "Quality of the runs".into(), columns: names.map(String::from).to_vec(), rows }
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

/// What must be known about a sweep to judge it and to run it again.
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
    rows.push(("order".into(), format!("shuffled by seed {}, repeats outermost", grid.seed)));
    if header.created == 0 {
        rows.pop(); // a sweep of somebody else: nobody knows
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

/// What readers must know about a sweep before they believe it.
pub fn warnings(summary: &Summary, sweep: usize) -> Vec<String> {
    let sweep = &summary.sweeps[sweep];
    let mut warnings = sweep.remarks.clone();
    warnings.extend(sweep.header.remarks.iter().cloned());
    for placement in &sweep.header.grid.placements {
        if !placement.keeps_apart() {
            warnings.push(format!(
                "Placement {}: server and load were not bound to different CPUs; they took CPU \
                 time from each other.",
                placement.name
            ));
        }
    }
    let others = |cell: &crate::results::Cell| cell.measured()?.others_cpus;
    let disturbed = sweep.cells.iter().filter(|cell| others(cell).is_some_and(|n| n > OTHERS));
    let disturbed = disturbed.count();
    if disturbed > 0 {
        warnings.push(format!(
            "In {disturbed} of {} runs other processes used more than {OTHERS} CPUs; the machine \
             was not quiet.",
            sweep.cells.len()
        ));
    }
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

/// For the heading of pairs.
pub fn reads_title(series: &Series) -> String {
    format!("{}, reads {}", series.server, on_off(series.reads))
}

fn columns(first: &str, commands: &[&str]) -> Vec<String> {
    [first].iter().chain(commands).map(|name| name.to_string()).collect()
}

fn rows(threads: &[u32], commands: &[&str], cell: impl Fn(u32, &str) -> Cell) -> Vec<Vec<Cell>> {
    let row = |&threads: &u32| {
        let name =
            Cell { text: threads.to_string(), value: Some(f64::from(threads)), ..Cell::default() };
        [name].into_iter().chain(commands.iter().map(|command| cell(threads, command))).collect()
    };
    threads.iter().map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::published;

    #[test]
    fn numbers_are_grouped() {
        for (value, text) in [
            (0.0, "0.00"),
            (999.994, "999.99"),
            (1234.5, "1,234.50"),
            (-1234567.0, "-1,234,567.00"),
        ] {
            assert_eq!(grouped(value), text);
        }
    }

    #[test]
    fn the_published_tables_come_out() {
        let summary = Summary::of(published::sweeps());
        let load = summary.loads()[0];
        let series = summary.beside(load);
        let commands = summary.commands_of(&series);
        let table = of_figure(Figure::Mean, series[0], &commands).unwrap();
        assert_eq!(table.columns.len(), 10);
        assert_eq!(table.rows.len(), 11);
        assert_eq!(
            (table.columns[1].as_str(), table.rows[0][1].text.as_str()),
            ("GET", "64,521.81")
        );
        let table = of_figure(Figure::Relative, series[0], &commands).unwrap();
        assert!(table.title.ends_with("1 thread = 100 %"), "{}", table.title);
        assert_eq!(
            (table.rows[0][5].text.as_str(), table.rows[7][1].text.as_str()),
            ("100.0", "273.6")
        );
        assert!(of_figure(Figure::Cpu, series[0], &commands).is_none());
        let pairs = reads_pairs(&series);
        assert_eq!(pairs.len(), 1);
        let table = of_reads(pairs[0].0, pairs[0].1, &commands);
        // 181796.14 / 144614.00, by hand
        assert_eq!(table.rows[3][1].text, "125.7");
    }
}

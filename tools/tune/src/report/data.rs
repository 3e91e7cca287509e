//! The report for programs: CSV and JSON.

use serde::Serialize;

use super::summary::{OUTLIER_RULE, Series, Summary};
use super::tables;
use crate::results::{Header, Threads};

const COLUMNS: [&str; 25] = [
    "source",
    "server",
    "version",
    "placement",
    "io_threads_do_reads",
    "data_bytes",
    "clients",
    "pipeline",
    "io_threads",
    "command",
    "runs",
    "failed",
    "rps_median",
    "rps_mean",
    "rps_deviation",
    "rps_min",
    "rps_max",
    "relative_percent",
    "cpu_user_us",
    "cpu_system_us",
    "p50_ms",
    "p99_ms",
    "generator_busy",
    "outliers",
    "client_limited",
];

/// One line for each cell of the grid. Missing figures are empty.
pub fn csv(summary: &Summary, _title: &str) -> String {
    let mut writer = csv::Writer::from_writer(Vec::new());
    let mut write = |row: &[String]| writer.write_record(row).expect("memory takes every record");
    write(&COLUMNS.map(String::from));
    for series in &summary.series {
        for (threads, command) in series.points.keys() {
            write(&row(summary, series, *threads, command));
        }
    }
    let bytes = writer.into_inner().expect("memory can be flushed");
    String::from_utf8(bytes).expect("text was written")
}

fn row(summary: &Summary, series: &Series, threads: Threads, command: &str) -> Vec<String> {
    let header = &summary.sweeps[series.sweep].header;
    let version = header.servers.iter().find(|server| server.name == series.server);
    let point = &series.points[&(threads, command.to_string())];
    let rps = point.rps();
    let number = |value: Option<f64>| value.map(|v| v.to_string()).unwrap_or_default();
    vec![
        summary.sweeps[series.sweep].source.clone(),
        series.server.clone(),
        version.map(|server| server.version.clone()).unwrap_or_default(),
        series.placement.clone(),
        series.reads.to_string(),
        series.load.data_bytes.to_string(),
        series.load.clients.to_string(),
        series.load.pipeline.to_string(),
        threads.to_string(),
        command.into(),
        rps.len().to_string(),
        point.failed.to_string(),
        number(point.median()),
        number(point.mean()),
        number(point.deviation()),
        number(rps.iter().copied().reduce(f64::min)),
        number(rps.iter().copied().reduce(f64::max)),
        number(series.relative(threads, command)),
        number(point.mean_of(|measured| Some(measured.server_cpu_us?.user))),
        number(point.mean_of(|measured| Some(measured.server_cpu_us?.system))),
        number(point.latency(|latency| latency.p50)),
        number(point.latency(|latency| latency.p99)),
        number(point.mean_of(|measured| measured.generator_busy)),
        point.runs.iter().filter(|run| run.outlier).count().to_string(),
        point.runs.iter().filter(|run| run.client_limited).count().to_string(),
    ]
}

/// All data, single runs included.
pub fn json(summary: &Summary, title: &str) -> String {
    #[derive(Serialize)]
    struct Source<'a> {
        source: &'a str,
        notes: Vec<String>,
        #[serde(flatten)]
        header: &'a Header,
    }
    #[derive(Serialize)]
    struct Whole<'a> {
        title: &'a str,
        outlier_rule: &'a str,
        sweeps: Vec<Source<'a>>,
        series: &'a [Series],
        failures: &'a [super::summary::Failure],
    }
    let sweeps = summary.sweeps.iter().enumerate().map(|(i, sweep)| Source {
        source: &sweep.source,
        notes: tables::warnings(summary, i),
        header: &sweep.header,
    });
    let whole = Whole {
        title,
        outlier_rule: OUTLIER_RULE,
        sweeps: sweeps.collect(),
        series: &summary.series,
        failures: &summary.failures,
    };
    let mut text = serde_json::to_string_pretty(&whole).expect("figures can be written");
    text.push('\n');
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::published;

    #[test]
    fn csv_has_a_line_for_each_cell() {
        let text = csv(&Summary::of(published::sweeps()), "");
        let mut reader = csv::Reader::from_reader(text.as_bytes());
        let rows: Vec<csv::StringRecord> = reader.records().map(Result::unwrap).collect();
        assert_eq!(rows.len(), 495);
        let eight = rows.iter().find(|row| &row[8] == "8" && &row[9] == "GET").unwrap();
        assert_eq!((&eight[12], &eight[13], &eight[18]), ("176537.07", "176537.07", ""));
        assert!(eight[17].starts_with("273.60"));
    }

    #[test]
    fn json_holds_single_runs() {
        let text = json(&Summary::of(published::sweeps()), "A title");
        let value: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(value["title"], "A title");
        assert_eq!(value["series"].as_array().unwrap().len(), 5);
        let point = &value["series"][0]["points"][0];
        assert_eq!((&point["io_threads"], &point["command"]), (&1.into(), &"GET".into()));
        assert_eq!(point["runs"][0]["rps"], 64521.81);
    }
}

//! The texts of LATENCY DOCTOR and LATENCY GRAPH.

use std::fmt::Write;
use weft_config::Id;
use weft_state::latency::Series;
use weft_state::server::Server;

/// Describes the recorded spikes and suggests remedies.
pub fn doctor(srv: &Server) -> String {
    let threshold = srv.statistics.latency.threshold_ms();
    if threshold == 0 {
        return "Latency monitoring is off, so there are no data. CONFIG SET \
                latency-monitor-threshold <milliseconds> switches it on: choose the longest \
                delay that your clients can accept.\n"
            .into();
    }
    let events = srv.statistics.latency.events();
    if events.values().all(|series| series.samples.is_empty()) {
        return format!("No event has taken {threshold} ms or more so far.\n");
    }
    let mut text = format!("Events of {threshold} ms or more:\n\n");
    for (n, (name, series)) in events.iter().enumerate() {
        let _ = writeln!(text, "{}. {name}: {}", n + 1, describe(series));
    }
    text.push_str("\nSuggestions:\n\n");
    for advice in advice(srv, threshold, events.keys().map(String::as_str)) {
        let _ = writeln!(text, "- {advice}");
    }
    text
}

/// `3 spikes, 12 ms on average, 7 ms mean deviation, one each 30.0 s, worst ever 80 ms`
fn describe(series: &Series) -> String {
    let count = series.samples.len() as i64;
    let sum: i64 = series.samples.iter().map(|(_, ms)| ms).sum();
    let average = sum / count.max(1);
    let deviation: i64 = series.samples.iter().map(|(_, ms)| (ms - average).abs()).sum();
    let (first, last) = match (series.samples.front(), series.samples.back()) {
        (Some((first, _)), Some((last, _))) => (*first, *last),
        _ => (0, 0),
    };
    let apart = (last - first) as f64 / (count - 1).max(1) as f64;
    format!(
        "{count} spikes, {average} ms on average, {} ms mean deviation, one each {apart:.1} s, \
         worst ever {} ms",
        deviation / count.max(1),
        series.max_ms,
    )
}

fn advice<'a>(
    srv: &Server,
    threshold: i64,
    mut events: impl Iterator<Item = &'a str>,
) -> Vec<String> {
    let mut advice = Vec::new();
    if events.any(|name| name.ends_with("command")) {
        let logged = srv.config().int(Id::COMMANDLOG_EXECUTION_SLOWER_THAN);
        let threshold_us = threshold.saturating_mul(1000);
        if logged < 0 || logged > threshold_us {
            advice.push(format!(
                "The slow log omits commands that count as spikes. To include them: CONFIG SET \
                 slowlog-log-slower-than {threshold_us}."
            ));
        }
        advice.push("SLOWLOG GET lists the slow commands with their arguments.".into());
        advice.push(
            "Replace commands that process many elements at once (KEYS, SMEMBERS, a full LRANGE \
             ...) with commands that iterate (SCAN, SSCAN ...)."
                .into(),
        );
        advice.push(
            "Split very large values into smaller keys: large values are slow to write, to read \
             and to send."
                .into(),
        );
    }
    advice.push(
        "Check the machine for swapping (vmstat), CPU time used by other guests (steal time), \
         power saving, and more I/O threads than processors."
            .into(),
    );
    advice
}

/// Rows of a graph.
const ROWS: i64 = 8;
/// Columns of a graph: the latest samples.
const COLUMNS: usize = 80;

/// The latest samples as columns, oldest on the left, each above its age.
pub fn graph(name: &str, series: &Series, now_s: i64) -> String {
    let skip = series.samples.len().saturating_sub(COLUMNS);
    let shown: Vec<(i64, i64)> = series.samples.iter().skip(skip).copied().collect();
    let high = shown.iter().map(|(_, ms)| *ms).max().unwrap_or(0);
    let low = shown.iter().map(|(_, ms)| *ms).min().unwrap_or(0);
    let mut text = format!(
        "{name} - high {high} ms, low {low} ms (all time high {} ms)\n{}\n",
        series.max_ms,
        "-".repeat(COLUMNS)
    );
    for row in (1..=ROWS).rev() {
        let mark = |(_, ms): &(i64, i64)| if height(*ms, low, high) >= row { '#' } else { ' ' };
        text.extend(shown.iter().map(mark));
        text.push('\n');
    }
    let ages: Vec<Vec<char>> =
        shown.iter().map(|(at, _)| age(now_s - at).chars().collect()).collect();
    let deepest = ages.iter().map(Vec::len).max().unwrap_or(0);
    text.push('\n');
    for depth in 0..deepest {
        text.extend(ages.iter().map(|age| age.get(depth).copied().unwrap_or(' ')));
        text.push('\n');
    }
    text
}

/// The height of a column in rows, from 1 for the lowest sample to [`ROWS`] for the highest.
fn height(ms: i64, low: i64, high: i64) -> i64 {
    1 + (ms - low) * (ROWS - 1) / (high - low).max(1)
}

/// `5s`, `3m`, `2h` or `4d`, written downwards below its column.
fn age(seconds: i64) -> String {
    match seconds.max(0) {
        s @ 0..60 => format!("{s}s"),
        s @ 60..3600 => format!("{}m", s / 60),
        s @ 3600..86400 => format!("{}h", s / 3600),
        s => format!("{}d", s / 86400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn series(samples: &[(i64, i64)]) -> Series {
        let max_ms = samples.iter().map(|(_, ms)| *ms).max().unwrap_or(0);
        Series { samples: samples.iter().copied().collect(), max_ms, ..Series::default() }
    }

    #[test]
    fn graph_has_columns_and_ages() {
        let text = graph("command", &series(&[(0, 10), (3540, 80), (3595, 45)]), 3600);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "command - high 80 ms, low 10 ms (all time high 80 ms)");
        assert_eq!((lines[2], lines[9]), (" # ", "###"));
        assert_eq!(&lines[11..], ["115", "hms"]);
        assert_eq!((age(-3), age(86400 * 9)), ("0s".into(), "9d".into()));
    }

    #[test]
    fn one_sample_is_described() {
        let text = describe(&series(&[(7, 20)]));
        assert!(text.starts_with("1 spikes, 20 ms on average, 0 ms mean"), "{text}");
        assert!(describe(&series(&[(0, 10), (30, 20), (60, 30)])).contains("one each 30.0 s"));
    }
}

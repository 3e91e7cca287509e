//! The long format of `--full`: the report of the reference, with more figures in its summary.

use std::fmt::Write;

use hdrhistogram::Histogram;

use super::MS;
use super::lines::{NONE, notices, pace};
use crate::options::Options;
use crate::result::TestResult;
use crate::run::Outcome;
use crate::session::{Config, Session};
use crate::suite::Test;

/// Steps of the cumulative distribution, in nanoseconds: fine ones first, then coarse ones.
const FINE: u64 = 100_000;
const COARSE: u64 = 1_000_000;
const FINE_UNTIL: u64 = 2_000_000;

/// The report of a test.
pub fn full(
    test: &Test,
    session: &Session,
    options: &Options,
    outcome: &Outcome,
    result: &TestResult,
) -> String {
    let mut out = String::new();
    head(&mut out, test, session, options, result);
    if let Some(target) = result.target_rps {
        rates(&mut out, target, &outcome.rates);
    }
    let all = outcome.total.all();
    out.push_str("\nLatency by percentile distribution:\n");
    percentiles(&mut out, &all);
    out.push_str("\nCumulative distribution of latencies:\n");
    cumulative(&mut out, &all);
    summary(&mut out, result);
    out
}

fn head(out: &mut String, test: &Test, session: &Session, options: &Options, result: &TestResult) {
    // Writing to a string can't fail.
    let at = match options.versus {
        Some(_) => format!(" at {}", session.name()),
        None => String::new(),
    };
    let _ = writeln!(out, "====== {}{at} ======", test.title);
    let _ =
        writeln!(out, "  {} requests completed in {:.2} seconds", result.requests, result.seconds);
    let _ = writeln!(out, "  {} parallel clients", options.clients);
    let _ = writeln!(out, "  {} bytes payload", test.data_size);
    let _ = writeln!(out, "  keep alive: {}", i32::from(options.keepalive));
    match &session.cluster {
        None => {
            if let [Some((save, appendonly))] = &session.config[..] {
                let _ = writeln!(out, "  host configuration \"save\": {save}");
                let _ = writeln!(out, "  host configuration \"appendonly\": {appendonly}");
            }
        }
        Some(cluster) => {
            let nodes = cluster.nodes().len();
            let _ = writeln!(out, "  cluster mode: yes ({nodes} {})", cluster.roles());
            node_configurations(out, &session.config);
        }
    }
    let threads = result.generator.busy.len();
    if threads > 1 || options.threads.is_some() {
        let _ = writeln!(out, "  multi-thread: yes\n  threads: {threads}");
    } else {
        out.push_str("  multi-thread: no\n");
    }
}

fn node_configurations(out: &mut String, config: &[Config]) {
    for (node, config) in config.iter().enumerate() {
        let Some((save, appendonly)) = config else { continue };
        let save = if save.is_empty() { "NONE" } else { save };
        let _ = writeln!(out, "  node [{node}] configuration:");
        let _ = writeln!(out, "    save: {save}\n    appendonly: {appendonly}");
    }
}

fn table(out: &mut String, names: [&str; 6], values: [f64; 6]) {
    for name in names {
        let _ = write!(out, " {name:>9}");
    }
    // Both lines are indented by four.
    let line = values.iter().map(|value| format!(" {value:>9.3}")).collect::<String>();
    let _ = write!(out, "\n   {line}\n");
}

fn rates(out: &mut String, target: f64, rates: &[f64]) {
    let mut histogram = super::super::tally::histogram(3);
    rates.iter().for_each(|rate| histogram.saturating_record(*rate as u64));
    let quantile = |q| histogram.value_at_quantile(q) as f64;
    let low = if rates.is_empty() { 0.0 } else { histogram.min() as f64 };
    let _ = writeln!(out, "\nRPS Summary:\n  target RPS: {target:.2}");
    out.push_str("  RPS distribution (reqs/sec):\n   ");
    table(
        out,
        ["avg", "min", "p50", "p95", "p99", "max"],
        [
            histogram.mean(),
            low,
            quantile(0.5),
            quantile(0.95),
            quantile(0.99),
            histogram.max() as f64,
        ],
    );
}

fn percentiles(out: &mut String, all: &Histogram<u64>) {
    let (mut cumulative, mut printed) = (0, None);
    for step in all.iter_quantiles(1) {
        cumulative += step.count_since_last_iteration();
        if printed == Some(cumulative) && cumulative != all.len() {
            continue;
        }
        printed = Some(cumulative);
        let (percent, ms) =
            (step.quantile_iterated_to() * 100.0, step.value_iterated_to() as f64 / MS);
        let _ =
            writeln!(out, "{percent:3.3}% <= {ms:.3} milliseconds (cumulative count {cumulative})");
    }
}

fn cumulative(out: &mut String, all: &Histogram<u64>) {
    let (mut step_end, mut sum) = (FINE, 0);
    let mut line = |step_end: u64, sum: u64| {
        let percent = sum as f64 / all.len().max(1) as f64 * 100.0;
        let ms = step_end as f64 / MS;
        let _ = writeln!(out, "{percent:3.3}% <= {ms:.3} milliseconds (cumulative count {sum})");
    };
    let mut printed = None;
    for bucket in all.iter_recorded() {
        let value = all.lowest_equivalent(bucket.value_iterated_to());
        while value > step_end {
            // A step without a reply is left out.
            if printed != Some(sum) {
                line(step_end, sum);
                printed = Some(sum);
            }
            step_end += if step_end < FINE_UNTIL {
                FINE
            } else {
                // Straight to the step that holds the bucket.
                COARSE.max((value - step_end) / COARSE * COARSE)
            };
        }
        sum += bucket.count_at_value();
    }
    if !all.is_empty() {
        line(step_end, sum);
    }
}

fn summary(out: &mut String, result: &TestResult) {
    let l = result.latency_ms.unwrap_or(NONE);
    let _ = writeln!(out, "\nSummary:");
    let _ = writeln!(out, "  throughput summary: {:.2} requests per second", result.rps);
    out.push_str("  latency summary (msec):\n   ");
    table(
        out,
        ["avg", "min", "p50", "p95", "p99", "max"],
        [l.avg, l.min, l.p50, l.p95, l.p99, l.max],
    );
    let _ = writeln!(out, "  p99.9: {:.3} msec", l.p999);
    if result.commands.len() > 1 {
        for command in &result.commands {
            let l = command.latency_ms.unwrap_or(NONE);
            let _ = writeln!(
                out,
                "  {}: {} requests, p50={:.3} p99={:.3} max={:.3} msec",
                command.command, command.requests, l.p50, l.p99, l.max
            );
        }
    }
    let _ = writeln!(out, "  loop: {}", pace(result));
    match &result.server_cpu {
        Some(used) => {
            let _ = writeln!(
                out,
                "  server CPU: {:.3} us per request ({:.3} user, {:.3} system)",
                used.user_us + used.system_us,
                used.user_us,
                used.system_us
            );
        }
        None => out.push_str("  server CPU: not known\n"),
    }
    let busy: Vec<String> =
        result.generator.busy.iter().map(|busy| format!("{:.0} %", busy * 100.0)).collect();
    let _ = writeln!(
        out,
        "  generator: busy {}, CPU {:.3} us per request",
        busy.join(", "),
        result.generator.cpu_us
    );
    for notice in notices(result) {
        let _ = writeln!(out, "  {notice}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tally::histogram;

    fn of(values_us: &[u64]) -> Histogram<u64> {
        let mut all = histogram(3);
        values_us.iter().for_each(|us| all.record(us * 1000).unwrap());
        all
    }

    #[test]
    fn steps_are_fine_then_coarse() {
        let mut out = String::new();
        cumulative(&mut out, &of(&[50, 150, 160, 900, 2500, 250_000]));
        let lines: Vec<&str> = out.lines().map(|line| line.split(" mil").next().unwrap()).collect();
        assert_eq!(
            lines,
            [
                "16.667% <= 0.100",
                "50.000% <= 0.200",
                "66.667% <= 0.900",
                "83.333% <= 3.000",
                "100.000% <= 250.000"
            ]
        );
    }

    #[test]
    fn percentiles_end_with_all() {
        let mut out = String::new();
        percentiles(&mut out, &of(&[100, 200, 300, 400]));
        assert!(out.starts_with("0.000% <= 0.100 milliseconds (cumulative count 1)\n"), "{out}");
        assert!(out.ends_with("(cumulative count 4)\n"), "{out}");
    }

    #[test]
    fn nothing_has_no_distribution() {
        let mut out = String::new();
        cumulative(&mut out, &of(&[]));
        assert_eq!(out, "");
    }
}

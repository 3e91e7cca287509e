//! The short formats: a line for each test.

use crate::result::{Comparison, GeneratorUse, Latency, Loop, Ratio, TestResult};

/// The first line of CSV.
pub const CSV_HEADER: &str = "\"test\",\"rps\",\"avg_latency_ms\",\"min_latency_ms\",\
    \"p50_latency_ms\",\"p95_latency_ms\",\"p99_latency_ms\",\"max_latency_ms\"";

/// Figures of nothing.
pub(super) const NONE: Latency =
    Latency { min: 0.0, avg: 0.0, p50: 0.0, p95: 0.0, p99: 0.0, p999: 0.0, max: 0.0 };

/// A line of CSV.
pub fn csv(result: &TestResult) -> String {
    let l = result.latency_ms.unwrap_or(NONE);
    format!(
        "\"{}\",\"{:.2}\",\"{:.3}\",\"{:.3}\",\"{:.3}\",\"{:.3}\",\"{:.3}\",\"{:.3}\"",
        result.test, result.rps, l.avg, l.min, l.p50, l.p95, l.p99, l.max
    )
}

/// The line of `-q`.
pub fn quiet(result: &TestResult) -> String {
    let p50 = result.latency_ms.unwrap_or(NONE).p50;
    format!("{}: {:.2} requests per second, p50={p50:.3} msec", result.test, result.rps)
}

/// What must be known beside the figures: for standard error where the format has no place.
pub fn notices(result: &TestResult) -> Vec<String> {
    let mut notices = Vec::new();
    if result.generator.client_limited {
        let busiest = result.generator.busy.iter().copied().fold(0.0, f64::max);
        notices.push(format!(
            "client-limited: a generator thread was busy for {:.0} % of the time (limit {:.0} %); \
             the rate is the generator's, not the server's",
            busiest * 100.0,
            GeneratorUse::LIMIT * 100.0
        ));
    }
    if let Some(target) = result.target_rps
        && result.rps < target * 0.99
    {
        notices.push(format!("the rate asked for, {target:.0} per second, was not reached"));
    }
    if !result.errors.is_empty() {
        let kinds = result.errors.iter().map(|(kind, count)| format!("{kind} {count}"));
        notices.push(format!("errors: {}", kinds.collect::<Vec<_>>().join(", ")));
    }
    if result.redirected > 0 {
        notices.push(format!("{} requests were redirected", result.redirected));
    }
    notices
}

/// The pace of a test in words.
pub(super) fn pace(result: &TestResult) -> &'static str {
    match result.load {
        Loop::Open => "open (latency counts from when a request was due)",
        Loop::Closed => "closed (requests wait for replies, so stalls hide requests; see --rps)",
    }
}

/// Two servers side by side.
pub fn versus(of: &Comparison) -> String {
    let line = |what: &str, ratio: &Ratio| {
        let verdict = match (ratio.differs(), ratio.ratio > 1.0) {
            (false, _) => "no difference shown",
            (true, true) => "the first has more",
            (true, false) => "the second has more",
        };
        format!(
            "  {what}: {:.4} ({:.0} % interval {:.4} to {:.4}, {} rounds): {verdict}\n",
            ratio.ratio,
            of.confidence * 100.0,
            ratio.low,
            ratio.high,
            of.rounds
        )
    };
    let mut text = format!("{}: {} to {}\n", of.test, of.first, of.second);
    text.push_str(&line("requests per second", &of.rps));
    if let Some(cpu) = &of.server_cpu {
        text.push_str(&line("server CPU per request", cpu));
    }
    text
}

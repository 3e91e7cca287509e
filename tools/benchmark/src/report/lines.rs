//! The short formats: a line for each test.

use crate::result::{Comparison, GeneratorUse, Latency, Loop, Ratio, TestResult};

/// The first line of CSV. With two servers, a column for the server comes last, so that the others
/// are where scripts look for them.
pub fn csv_header(with_server: bool) -> String {
    let server = if with_server { ",\"server\"" } else { "" };
    format!("{CSV_HEADER}{server}")
}

const CSV_HEADER: &str = "\"test\",\"rps\",\"avg_latency_ms\",\"min_latency_ms\",\
    \"p50_latency_ms\",\"p95_latency_ms\",\"p99_latency_ms\",\"max_latency_ms\"";

/// The figures without a sample.
pub(super) const NONE: Latency =
    Latency { min: 0.0, avg: 0.0, p50: 0.0, p95: 0.0, p99: 0.0, p999: 0.0, max: 0.0 };

/// A line of CSV; with the server's name when it is one of two.
pub fn csv(result: &TestResult, server: Option<&str>) -> String {
    let l = result.latency_ms.unwrap_or(NONE);
    let server = server.map(|name| format!(",\"{}\"", name.replace('"', "\"\"")));
    format!(
        "\"{}\",\"{:.2}\",\"{:.3}\",\"{:.3}\",\"{:.3}\",\"{:.3}\",\"{:.3}\",\"{:.3}\"{}",
        result.test,
        result.rps,
        l.avg,
        l.min,
        l.p50,
        l.p95,
        l.p99,
        l.max,
        server.unwrap_or_default()
    )
}

/// The line of `-q`; with the server's name when it is one of two.
pub fn quiet(result: &TestResult, server: Option<&str>) -> String {
    let p50 = result.latency_ms.unwrap_or(NONE).p50;
    let server = server.map(|name| format!(" at {name}")).unwrap_or_default();
    format!("{}{server}: {:.2} requests per second, p50={p50:.3} msec", result.test, result.rps)
}

/// Remarks on the figures: on standard error if the format has no place for them.
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
    notices.extend(other_notices(result));
    notices
}

/// The remarks without that on the generator.
pub(super) fn other_notices(result: &TestResult) -> Vec<String> {
    let mut notices = Vec::new();
    if let Some(target) = result.target_rps
        && (result.rps < target * 0.99 || result.unsent > 0)
    {
        let unsent = match result.unsent {
            0 => String::new(),
            unsent => format!(
                ": {unsent} requests that were due were not sent before the time was over, and are \
                 in no latency"
            ),
        };
        notices
            .push(format!("the rate asked for, {target:.0} per second, was not reached{unsent}"));
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

/// A comparison of two servers: a sentence for the throughput, one for the CPU time.
pub fn versus(of: &Comparison) -> String {
    let mut text = format!("{}: {}\n", of.test, sentence(of, &of.rps, Word::SPEED));
    if let Some(cpu) = &of.server_cpu {
        text.push_str(&format!("{}: {}\n", of.test, sentence(of, cpu, Word::CPU)));
    }
    text
}

/// The words for a figure of two servers.
struct Word {
    verb: &'static str,
    more: &'static str,
    less: &'static str,
    none: &'static str,
}

impl Word {
    const SPEED: Self = Self { verb: "is", more: "faster", less: "slower", none: "speed" };
    const CPU: Self = Self {
        verb: "uses",
        more: "more CPU per request",
        less: "less CPU per request",
        none: "CPU per request",
    };
}

/// "A is 46 % faster than B (35 to 58 %; 99 % interval of 10 rounds)". For a difference within
/// chance it prints that, and the interval.
fn sentence(of: &Comparison, ratio: &Ratio, word: Word) -> String {
    let Comparison { first, second, rounds, confidence, .. } = of;
    let percent = |factor: f64| (100.0 * (factor - 1.0)).abs().round();
    let interval = format!("{} % interval of {rounds} rounds", share(*confidence));
    if !ratio.differs() {
        return format!(
            "no difference in {} is shown between {first} and {second} ({} to {}; {interval})",
            word.none,
            bound(ratio.low),
            bound(ratio.high)
        );
    }
    let (comparative, near, far) = match ratio.ratio > 1.0 {
        true => (word.more, ratio.low, ratio.high),
        false => (word.less, ratio.high, ratio.low),
    };
    format!(
        "{first} {} {:.0} % {comparative} than {second} ({:.0} to {:.0} %; {interval})",
        word.verb,
        percent(ratio.ratio),
        percent(near),
        percent(far)
    )
}

/// An end of an interval that contains 1. A far end is meaningless and not shown as a percentage.
fn bound(factor: f64) -> String {
    match factor {
        factor if factor >= 10.0 => format!("{factor:.0} times"),
        factor => format!("{:+.0} %", 100.0 * (factor - 1.0)),
    }
}

/// A share below 1, with enough digits to differ from 1.
fn share(part: f64) -> String {
    let text = format!("{:.6}", part * 100.0);
    text.trim_end_matches('0').trim_end_matches('.').to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn comparison(rps: Ratio, server_cpu: Option<Ratio>) -> Comparison {
        Comparison {
            test: "GET".into(),
            first: "a 1 (h:1)".into(),
            second: "b 2 (h:2)".into(),
            rounds: 10,
            confidence: 0.99,
            rps,
            server_cpu,
        }
    }

    #[test]
    fn a_comparison_is_a_sentence() {
        let rps = Ratio { ratio: 1.46, low: 1.35, high: 1.58 };
        let cpu = Ratio { ratio: 0.8, low: 0.75, high: 0.85 };
        let text = versus(&comparison(rps, Some(cpu)));
        assert_eq!(
            text,
            "GET: a 1 (h:1) is 46 % faster than b 2 (h:2) (35 to 58 %; 99 % interval of 10 \
             rounds)\nGET: a 1 (h:1) uses 20 % less CPU per request than b 2 (h:2) (15 to 25 %; \
             99 % interval of 10 rounds)\n"
        );
        let rps = Ratio { ratio: 1.01, low: 0.97, high: 1.05 };
        let text = versus(&comparison(rps, None));
        assert!(text.contains("no difference in speed is shown between a 1"), "{text}");
        assert!(text.contains("(-3 % to +5 %;"), "{text}");
        let rps = Ratio { ratio: 0.5, low: 0.4, high: 0.6 };
        let text = versus(&comparison(rps, None));
        assert!(text.contains("is 50 % slower than b 2 (h:2) (40 to 60 %;"), "{text}");
    }
}

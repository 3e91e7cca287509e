//! Results as text: the table, the formats of the reference, and the figures of all of them.

mod full;
mod lines;
mod progress;
mod table;

pub use full::full;
pub use lines::{csv, csv_header, notices, quiet, versus};
pub use progress::{ComparisonProgress, Progress};
pub use table::{Remarks, Table};

use hdrhistogram::Histogram;

use crate::cpu::ServerCpu;
use crate::options::Options;
use crate::result::{CommandResult, GeneratorUse, Latency, Loop, ServerUse, TestResult};
use crate::run::Outcome;
use crate::session::Session;
use crate::suite::Test;

/// Nanoseconds per millisecond.
const MS: f64 = 1e6;

/// The figures of a histogram; none when it is empty.
pub fn latency(of: &Histogram<u64>) -> Option<Latency> {
    let quantile = |q| of.value_at_quantile(q) as f64 / MS;
    (!of.is_empty()).then(|| Latency {
        min: of.min() as f64 / MS,
        avg: of.mean() / MS,
        p50: quantile(0.5),
        p95: quantile(0.95),
        p99: quantile(0.99),
        p999: quantile(0.999),
        max: of.max() as f64 / MS,
    })
}

/// The result of a run.
pub fn result(test: &Test, session: &Session, options: &Options, outcome: &Outcome) -> TestResult {
    let requests = outcome.total.replies();
    let source = session.cpu.as_ref().map_or("info", ServerCpu::source);
    let busy: Vec<f64> = outcome.usage.iter().map(|usage| usage.busy()).collect();
    let commands =
        test.kinds.iter().zip(&outcome.total.latencies).map(|(kind, latencies)| CommandResult {
            command: kind.name.clone(),
            requests: latencies.len(),
            latency_ms: latency(latencies),
        });
    TestResult {
        test: test.title.clone(),
        server: session.target.to_string(),
        server_version: session.version.clone(),
        unsent: outcome.total.unsent,
        requests,
        seconds: outcome.elapsed_ns as f64 / 1e9,
        rps: outcome.rps(),
        load: if options.rate.is_some() { Loop::Open } else { Loop::Closed },
        target_rps: options.rate,
        latency_ms: latency(&outcome.total.all()),
        commands: commands.collect(),
        server_cpu: outcome.server_cpu.filter(|_| requests > 0).map(|used| ServerUse {
            user_us: used.user_us / requests as f64,
            system_us: used.system_us / requests as f64,
            source,
        }),
        generator: GeneratorUse {
            client_limited: busy.iter().any(|busy| *busy > GeneratorUse::LIMIT),
            busy,
            cpu_us: outcome.own_cpu_us(),
        },
        errors: outcome.total.errors.clone(),
        redirected: outcome.total.redirected,
    }
}

//! The result of a call, as `--json` prints it: one document for other programs to read.
//!
//! The field `format` is 1 and grows when a field changes its meaning or is removed; new fields may
//! be added at any time. Times are in the unit of the name's suffix. Unknown values are null.

use std::collections::BTreeMap;

use serde::Serialize;

/// The version of this form.
pub const FORMAT: u32 = 1;

/// A whole call.
#[derive(Clone, Debug, Serialize)]
pub struct Document {
    pub format: u32,
    /// `weft-benchmark` and its version.
    pub tool: String,
    /// The start, in seconds since the Unix epoch.
    pub started: f64,
    /// The options of the call.
    pub settings: Settings,
    /// One for each test and server, in the order in which they ran.
    pub tests: Vec<TestResult>,
    /// For `--vs`: one for each test, and one for all tests if there are several.
    pub comparisons: Vec<Comparison>,
    /// Tests of the default suite that a server doesn't support.
    pub skipped: Vec<Skipped>,
    /// The reason for an early end; earlier tests are included.
    pub error: Option<String>,
}

/// The options of the call.
#[derive(Clone, Debug, Serialize)]
pub struct Settings {
    /// host:port or the path of a socket.
    pub server: String,
    pub versus: Option<String>,
    pub clients: usize,
    pub pipeline: usize,
    /// Generator threads.
    pub threads: usize,
    /// Requests per test; null if time is the limit.
    pub requests: Option<u64>,
    pub duration_s: Option<f64>,
    pub warmup_s: f64,
    pub keep_alive: bool,
    /// Protocol version, 2 or 3.
    pub resp: u8,
    pub cluster: bool,
    /// Over TLS.
    pub tls: bool,
    pub db: i64,
    /// Bound of the random numbers; null when keys are constant.
    pub keyspace: Option<u64>,
    /// Distribution of keys, as in `--keys`.
    pub keys: String,
    /// Mean size of values in bytes.
    pub data_bytes: usize,
    pub verify: bool,
    pub seed: u64,
}

/// One test against one server.
#[derive(Clone, Debug, Serialize)]
pub struct TestResult {
    /// The title, as in CSV.
    pub test: String,
    /// host:port or the path of a socket.
    pub server: String,
    /// The server's name and version; null when it does not report them.
    pub server_version: Option<String>,
    /// Requests with a good reply, without the warm-up.
    pub requests: u64,
    /// From the beginning of counting to the last reply.
    pub seconds: f64,
    pub rps: f64,
    /// `closed`: the next request waits for the last reply, so stalls hide requests. `open`:
    /// requests follow the clock, and latency counts from their due time.
    #[serde(rename = "loop")]
    pub load: Loop,
    /// The requested rate of an open loop.
    pub target_rps: Option<f64>,
    /// Requests of an open loop that were due but not sent before the end.
    pub unsent: u64,
    /// Null if no request was answered.
    pub latency_ms: Option<Latency>,
    /// By kind of request; one entry unless the test is a mix.
    pub commands: Vec<CommandResult>,
    /// CPU time of the server per request; null if unknown.
    pub server_cpu: Option<ServerUse>,
    pub generator: GeneratorUse,
    /// Errors of the server by their first word; `type` and `content` for wrong replies.
    pub errors: BTreeMap<String, u64>,
    /// Requests that a cluster redirected; they are among `requests`.
    pub redirected: u64,
}

/// How requests are paced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Loop {
    Open,
    Closed,
}

/// Latencies in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Latency {
    pub min: f64,
    pub avg: f64,
    pub p50: f64,
    pub p95: f64,
    pub p99: f64,
    #[serde(rename = "p99.9")]
    pub p999: f64,
    pub max: f64,
}

/// A kind of request within a test.
#[derive(Clone, Debug, Serialize)]
pub struct CommandResult {
    pub command: String,
    pub requests: u64,
    pub latency_ms: Option<Latency>,
}

/// CPU of the server, in microseconds per request.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct ServerUse {
    pub user_us: f64,
    pub system_us: f64,
    /// `info`: reported by the server. `proc`: read from its process on this machine.
    pub source: &'static str,
}

/// The resources that the generator used.
#[derive(Clone, Debug, Serialize)]
pub struct GeneratorUse {
    /// Share of the time in which a thread could not have sent more, from 0 to 1, by thread.
    pub busy: Vec<f64>,
    /// A thread was busy for more than 90 %: the rate is the generator's, not the server's.
    pub client_limited: bool,
    /// CPU time in microseconds per request, of all threads.
    pub cpu_us: f64,
}

/// A test that was not run.
#[derive(Clone, Debug, Serialize)]
pub struct Skipped {
    pub test: String,
    /// host:port or the path of a socket.
    pub server: String,
    pub reason: String,
}

/// A comparison of two servers.
#[derive(Clone, Debug, Serialize)]
pub struct Comparison {
    /// Its title, or `all tests`.
    pub test: String,
    /// Name and place of the first server.
    pub first: String,
    /// Name and place of the second server.
    pub second: String,
    pub rounds: u32,
    /// Of the intervals, between 0 and 1.
    pub confidence: f64,
    /// Requests per second of the first server, divided by those of the second.
    pub rps: Ratio,
    /// The same for the server's CPU time per request; null if one is unknown.
    pub server_cpu: Option<Ratio>,
}

/// A ratio with its confidence interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Ratio {
    pub ratio: f64,
    pub low: f64,
    pub high: f64,
}

impl Ratio {
    /// Whether the interval excludes 1.
    pub fn differs(&self) -> bool {
        self.low > 1.0 || self.high < 1.0
    }
}

impl GeneratorUse {
    /// A thread busier than this limits the rate.
    pub const LIMIT: f64 = 0.9;
}

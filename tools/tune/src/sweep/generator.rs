//! Load generators with one interface.
//!
//! Both print their results at the end: weft-benchmark as JSON, valkey-benchmark and
//! redis-benchmark as CSV. The options that the sweep needs are the same in both.

use anyhow::{Context, Result, bail, ensure};
use serde::Deserialize;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::locate;
use crate::results::grid::{Grid, Span};
use crate::results::model::Latency;

/// The load to send.
#[derive(Clone, Debug)]
pub struct Job {
    /// The server's port on this machine.
    pub port: u16,
    /// Name of the test.
    pub command: String,
    /// The amount of requests.
    pub span: Span,
    /// Connections.
    pub clients: u32,
    /// Requests in flight on each.
    pub pipeline: u32,
    /// Length of values.
    pub data_bytes: u32,
    /// Threads of the generator.
    pub threads: u32,
    /// The number of keys; 0: one key.
    pub keyspace: u64,
    /// Sequential keys instead of random ones.
    pub sequential: bool,
}

/// The generator's figures.
#[derive(Clone, Debug, PartialEq)]
pub struct Found {
    /// Requests per second.
    pub rps: f64,
    /// Answered requests; computed from rate and time if the generator doesn't report them.
    pub requests: u64,
    /// As far as reported.
    pub latency: Option<Latency>,
    /// The busy share of the busiest thread, as reported by the generator, from 0 to 1.
    pub busy: Option<f64>,
    /// A remark for readers of the figures.
    pub remark: Option<&'static str>,
}

/// A load generator.
pub trait Generator {
    /// For people and for the header of the results.
    fn name(&self) -> &'static str;

    /// Its path.
    fn program(&self) -> &Path;

    /// The option for the output format, in addition to [`options`].
    fn form(&self) -> &'static str;

    /// Parses its results.
    ///
    /// # Errors
    /// If they have no result of the job.
    fn parse(&self, output: &str, job: &Job) -> Result<Found>;

    /// Checks before the first cell that it supports the grid.
    ///
    /// # Errors
    /// With the first unsupported setting.
    fn check(&self, grid: &Grid) -> Result<()> {
        check_threads(grid)
    }
}

fn check_threads(grid: &Grid) -> Result<()> {
    for clients in &grid.clients {
        ensure!(
            grid.generator_threads <= *clients,
            "generator-threads: {} threads are more than {clients} clients",
            grid.generator_threads
        );
    }
    Ok(())
}

/// The options of a job.
pub fn options(job: &Job) -> Vec<String> {
    let mut options: Vec<String> = ["-h", "127.0.0.1", "-p"].map(String::from).to_vec();
    let mut add = |words: &[&str]| options.extend(words.iter().map(|word| word.to_string()));
    add(&[&job.port.to_string(), "-t", &job.command.to_ascii_lowercase()]);
    add(&["-c", &job.clients.to_string(), "-P", &job.pipeline.to_string()]);
    add(&["-d", &job.data_bytes.to_string()]);
    // One thread is not passed: valkey-benchmark's multi-threaded mode is slower with one.
    if job.threads > 1 {
        add(&["--threads", &job.threads.to_string()]);
    }
    match job.span {
        Span::Requests(requests) => add(&["-n", &requests.to_string()]),
        Span::Seconds(seconds) => add(&["--duration", &seconds.to_string()]),
    }
    if job.keyspace > 0 {
        add(&["-r", &job.keyspace.to_string()]);
    }
    if job.sequential {
        add(&["--sequential"]);
    }
    options
}

/// The requested generator, or the best one that is installed.
///
/// # Errors
/// If there is none.
pub fn find(asked: Option<&str>) -> Result<Box<dyn Generator>> {
    if let Some(asked) = asked {
        return Ok(of_path(locate::find(asked)?));
    }
    for name in [Weft::NAME, Classic::NAME, "redis-benchmark"] {
        if let Ok(path) = locate::find(name) {
            return Ok(of_path(path));
        }
    }
    bail!(
        "there is no load generator: no weft-benchmark, valkey-benchmark or redis-benchmark in the folder of this program, in PEERS_BIN or on PATH; name one with --generator"
    )
}

/// By the name of the file; an unknown generator is used with the old options.
fn of_path(program: PathBuf) -> Box<dyn Generator> {
    let name = program.file_name().unwrap_or_default().to_string_lossy();
    if name.starts_with(Weft::NAME) {
        Box::new(Weft { program })
    } else {
        Box::new(Classic { program })
    }
}

/// weft-benchmark.
struct Weft {
    program: PathBuf,
}

impl Weft {
    const NAME: &str = "weft-benchmark";
}

/// The part of its document that is read here.
#[derive(Deserialize)]
struct Document {
    tests: Vec<Test>,
    error: Option<String>,
}

#[derive(Deserialize)]
struct Test {
    test: String,
    requests: u64,
    rps: f64,
    latency_ms: Option<TestLatency>,
    generator: Busy,
}

#[derive(Deserialize)]
struct TestLatency {
    min: f64,
    avg: f64,
    p50: f64,
    p95: f64,
    p99: f64,
    max: f64,
}

#[derive(Deserialize)]
struct Busy {
    busy: Vec<f64>,
}

/// The error of weft-benchmark for an unknown name.
const NO_TEST: &str = "There is no test";

impl Generator for Weft {
    fn name(&self) -> &'static str {
        Self::NAME
    }

    fn program(&self) -> &Path {
        &self.program
    }

    fn form(&self) -> &'static str {
        "--json"
    }

    fn parse(&self, output: &str, job: &Job) -> Result<Found> {
        let document: Document =
            serde_json::from_str(output).context("the generator printed no result")?;
        if let Some(error) = document.error {
            bail!("the generator stopped: {error}");
        }
        let test = document.tests.into_iter().rfind(|test| is_of(&test.test, &job.command));
        let test = test.with_context(|| unknown(job))?;
        Ok(Found {
            rps: test.rps,
            requests: test.requests,
            latency: test.latency_ms.map(|latency| Latency {
                mean: latency.avg,
                min: latency.min,
                p50: latency.p50,
                p95: latency.p95,
                p99: latency.p99,
                max: latency.max,
            }),
            busy: test.generator.busy.into_iter().reduce(f64::max),
            remark: None,
        })
    }

    /// It also checks the names of the tests, before it connects to a server.
    fn check(&self, grid: &Grid) -> Result<()> {
        check_threads(grid)?;
        let names = grid.commands.join(",").to_ascii_lowercase();
        let nobody = ["-s", "/dev/null", "-n", "1", "-t"];
        let output = Command::new(&self.program).args(nobody).arg(&names).output();
        let output = output.with_context(|| format!("can't run {}", self.program.display()))?;
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(!said.contains(NO_TEST), "{}", said.trim_end());
        Ok(())
    }
}

/// With threads, valkey-benchmark checks every 250 ms whether all requests are done and counts the
/// time until then. Below this many seconds that is more than 5 %.
const ROUGH: f64 = 5.0;
const ROUGHLY: &str = "with threads the generator counts time in steps of 0.25 s, and this run was \
    shorter than 5 s: measure for a time, or more requests";

/// valkey-benchmark and redis-benchmark.
struct Classic {
    program: PathBuf,
}

impl Classic {
    const NAME: &str = "valkey-benchmark";
}

impl Generator for Classic {
    fn name(&self) -> &'static str {
        let name = self.program.file_name().unwrap_or_default().to_string_lossy();
        if name.contains("redis") { "redis-benchmark" } else { Self::NAME }
    }

    fn program(&self) -> &Path {
        &self.program
    }

    fn form(&self) -> &'static str {
        "--csv"
    }

    fn parse(&self, output: &str, job: &Job) -> Result<Found> {
        let mut reader = csv::ReaderBuilder::new()
            .has_headers(false)
            .flexible(true)
            .from_reader(output.as_bytes());
        let row = reader
            .records()
            .filter_map(Result::ok)
            .filter(|row| row.get(0).is_some_and(|name| is_of(name, &job.command)))
            .last()
            .with_context(|| unknown(job))?;
        let number = |column: usize| row.get(column)?.parse::<f64>().ok().filter(|n| n.is_finite());
        let rps = number(1).filter(|rps| *rps > 0.0).with_context(|| unknown(job))?;
        // The columns are rps, avg, min, p50, p95, p99, max; old versions print rps only.
        let latency = || {
            Some(Latency {
                mean: number(2)?,
                min: number(3)?,
                p50: number(4)?,
                p95: number(5)?,
                p99: number(6)?,
                max: number(7)?,
            })
        };
        let requests = match job.span {
            Span::Requests(requests) => requests,
            Span::Seconds(seconds) => (rps * seconds).round() as u64,
        };
        let counted = matches!(job.span, Span::Requests(_)) && job.threads > 1;
        let rounded = counted && requests as f64 / rps < ROUGH;
        let remark = rounded.then_some(ROUGHLY);
        Ok(Found { rps, requests, latency: latency(), busy: None, remark })
    }
}

/// Whether a title such as `MSET (10 keys)` belongs to a test.
fn is_of(title: &str, command: &str) -> bool {
    let name = title.split_once(" (").map_or(title, |(name, _)| name);
    name.eq_ignore_ascii_case(command)
}

fn unknown(job: &Job) -> String {
    format!("the generator printed no result for {}: does it know this test?", job.command)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(command: &str, span: Span) -> Job {
        Job {
            port: 7000,
            command: command.into(),
            span,
            clients: 50,
            pipeline: 4,
            data_bytes: 64,
            threads: 2,
            keyspace: 0,
            sequential: false,
        }
    }

    const CSV: &str = "\"test\",\"rps\",\"avg_latency_ms\",\"min_latency_ms\",\"p50_latency_ms\",\
        \"p95_latency_ms\",\"p99_latency_ms\",\"max_latency_ms\"\n\
        \"LPUSH (needed to benchmark LRANGE)\",\"1.00\",\"1\",\"1\",\"1\",\"1\",\"1\",\"1\"\n\
        \"LRANGE_100 (first 100 elements)\",\"40000.50\",\"0.8\",\"0.2\",\"0.7\",\"1.3\",\"1.7\",\"1.8\"\n";

    #[test]
    fn the_old_form_is_read() {
        let generator = of_path("/x/valkey-benchmark".into());
        let found = generator.parse(CSV, &job("LRANGE_100", Span::Seconds(2.0))).unwrap();
        assert_eq!((found.rps, found.requests, found.busy), (40000.5, 80001, None));
        let latency = found.latency.unwrap();
        assert_eq!((latency.mean, latency.min, latency.p99, latency.max), (0.8, 0.2, 1.7, 1.8));
        assert_eq!(found.remark, None);
        let found = generator.parse("\"GET\",\"5.0\"\n", &job("get", Span::Requests(9))).unwrap();
        assert_eq!((found.requests, found.latency, found.remark), (9, None, Some(ROUGHLY)));
        let alone = Job { threads: 1, ..job("get", Span::Requests(9)) };
        assert_eq!(generator.parse("\"GET\",\"5.0\"\n", &alone).unwrap().remark, None);
        for text in ["", CSV, "\"GET\",\"nan\"", "\"GET\",\"0.00\""] {
            let error = generator.parse(text, &job("GET", Span::Requests(1))).unwrap_err();
            assert!(error.to_string().contains("no result for GET"), "{text}: {error}");
        }
        assert_eq!(of_path("/x/redis8-benchmark".into()).name(), "redis-benchmark");
    }

    #[test]
    fn the_new_form_is_read() {
        let generator = of_path("/x/weft-benchmark".into());
        assert_eq!((generator.name(), generator.form()), ("weft-benchmark", "--json"));
        let text = r#"{"format":1,"tests":[{"test":"MSET (10 keys)","requests":100,"rps":50.5,
            "latency_ms":{"min":0.1,"avg":0.2,"p50":0.3,"p95":0.4,"p99":0.5,"p99.9":0.6,"max":0.7},
            "generator":{"busy":[0.5,0.95],"client_limited":true,"cpu_us":1.0}}],"error":null}"#;
        let found = generator.parse(text, &job("MSET", Span::Requests(1))).unwrap();
        assert_eq!((found.rps, found.requests, found.busy), (50.5, 100, Some(0.95)));
        assert_eq!(found.latency.unwrap().mean, 0.2);
        let stopped = text.replace("\"error\":null", "\"error\":\"connection lost\"");
        let error = generator.parse(&stopped, &job("MSET", Span::Requests(1))).unwrap_err();
        assert!(error.to_string().contains("connection lost"));
        assert!(generator.parse("", &job("MSET", Span::Requests(1))).is_err());
    }

    #[test]
    fn options_describe_the_job() {
        let line = options(&job("GET", Span::Requests(10))).join(" ");
        assert_eq!(line, "-h 127.0.0.1 -p 7000 -t get -c 50 -P 4 -d 64 --threads 2 -n 10");
        let job =
            Job { threads: 1, keyspace: 5, sequential: true, ..job("GET", Span::Seconds(1.0)) };
        let line = options(&job).join(" ");
        assert!(line.ends_with("-d 64 --duration 1 -r 5 --sequential"), "{line}");
    }
}

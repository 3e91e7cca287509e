//! Turns the parsed options into checked ones: defaults, limits, contradictions.

use std::time::Duration;

use super::fuzz::{self, Fuzz};
use super::raw::{Raw, ReadFrom};
use super::tls;
use crate::keys::KeyDistribution;
use crate::sizes::{MAX, SizeDistribution};
use crate::suite;
use weft_connection::tls::TlsOptions;
use weft_connection::uri;

/// The most generator threads, as in the reference.
const MAX_THREADS: i64 = 500;

/// The address of a server.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Target {
    /// Host and port.
    Tcp(String, u16),
    /// The path of a socket.
    Unix(String),
}

impl std::fmt::Display for Target {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Target::Tcp(host, port) => write!(f, "{host}:{port}"),
            Target::Unix(path) => f.write_str(path),
        }
    }
}

/// The amount of work of a test.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Amount {
    Requests(u64),
    Time(Duration),
}

/// The output format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Output {
    /// One table, a row for each test.
    Table,
    /// The report of the reference for each test.
    Full,
    Quiet,
    Csv,
    Json,
}

/// The checked options.
#[derive(Clone, Debug)]
pub struct Options {
    pub target: Target,
    /// The second server of `--vs`.
    pub versus: Option<Target>,
    pub rounds: u32,
    /// Between 0 and 1.
    pub confidence: f64,
    /// User and password.
    pub login: Option<(Option<String>, String)>,
    pub db: i64,
    pub resp3: bool,
    pub tracking: bool,
    pub mptcp: bool,
    /// None without TLS.
    pub tls: Option<TlsOptions>,
    pub clients: usize,
    /// None: as many as needed.
    pub threads: Option<usize>,
    pub keepalive: bool,
    pub pipeline: usize,
    pub amount: Amount,
    pub warmup: Duration,
    /// Requests per second of an open loop.
    pub rate: Option<f64>,
    /// Whether placeholders are replaced, and the numbers' bound.
    pub keyspace: Option<u64>,
    pub keys: KeyDistribution,
    pub sizes: SizeDistribution,
    pub seed: u64,
    pub preload: bool,
    pub verify: bool,
    pub keep_going: bool,
    /// None outside of cluster mode.
    pub cluster: Option<ReadFrom>,
    pub output: Output,
    /// Significant digits of latencies.
    pub precision: u8,
    pub repeat: bool,
    pub idle: bool,
    /// Random commands instead of tests.
    pub fuzz: Option<Fuzz>,
    pub stdin: bool,
    /// Names, in lower case; none for all.
    pub tests: Option<Vec<String>>,
    pub mix: Option<String>,
    pub functions: u32,
    pub function_keys: u32,
    pub hdr: Option<std::path::PathBuf>,
    pub command: Vec<Vec<u8>>,
    /// Remarks for standard error.
    pub warnings: Vec<String>,
}

impl Options {
    /// Checks the parsed options.
    ///
    /// # Errors
    /// With a message about a contradiction or an impossible request.
    pub fn new(raw: Raw) -> Result<Options, String> {
        refuse(&raw)?;
        let mut warnings = Vec::new();
        let fuzz = fuzz::parse(&raw)?;
        if fuzz.is_some() {
            let without_effect = fuzz::without_effect(&raw).into_iter();
            warnings.extend(
                without_effect.map(|name| format!("WARNING: {name} has no effect with --fuzz.")),
            );
        }
        let uri = raw.uri.as_deref().map(uri::parse).transpose()?.unwrap_or_default();
        let tls = tls::resolve(&raw, uri.tls, &mut warnings)?;
        let target = match &raw.socket {
            Some(path) => Target::Unix(path.clone()),
            None => Target::Tcp(uri.host.unwrap_or(raw.host), uri.port.unwrap_or(raw.port)),
        };
        if raw.mptcp && matches!(target, Target::Unix(_)) {
            return Err("Options --mptcp is only supported by TCP".into());
        }
        let password = uri.password.or(raw.password);
        let user = uri.user.or(raw.user);
        let command: Vec<Vec<u8>> =
            raw.command.into_iter().map(std::os::unix::ffi::OsStringExt::into_vec).collect();
        if !command.is_empty() && raw.tests.is_some() {
            warnings.push("WARNING: Option -t is ignored.".to_string());
        }
        if !command.is_empty() && raw.mix.is_some() {
            return Err("--mix and a command are mutually exclusive.".into());
        }
        if raw.errors {
            warnings.push("WARNING: -e has no effect: an error ends the run.".to_string());
        }
        if raw.keepalive == 0 {
            warnings.push(
                "WARNING: Keepalive disabled: ports may run out; see net.ipv4.tcp_tw_reuse."
                    .to_string(),
            );
        }
        let threads = match raw.threads {
            None | Some(..=0) => None,
            Some(threads) if threads > MAX_THREADS => {
                warnings
                    .push(format!("WARNING: Too many threads, limiting threads to {MAX_THREADS}."));
                Some(MAX_THREADS as usize)
            }
            Some(threads) => Some(threads as usize),
        };
        let keys = match (raw.keys, raw.sequential) {
            (Some(keys), false) => keys,
            (None, false) => KeyDistribution::Uniform,
            (None | Some(KeyDistribution::Sequential), true) => KeyDistribution::Sequential,
            (Some(_), true) => {
                return Err("Options --sequential and --keys are mutually exclusive.".into());
            }
        };
        let keyspace = raw.keyspace.map(|keys| keys.max(0) as u64);
        if keyspace.is_none() && (raw.keys.is_some() || raw.preload) {
            return Err("Options --keys and --preload need -r.".into());
        }
        if raw.preload && raw.cluster {
            return Err("--preload can't fill the keys of a cluster: they hold tags.".into());
        }
        let versus = raw.vs.as_deref().map(second_server).transpose()?;
        if versus.is_some() && (raw.cluster || raw.repeat || raw.idle) {
            return Err("--vs can't be combined with --cluster, -l or -I.".into());
        }
        if !(raw.confidence > 0.0 && raw.confidence < 100.0) || raw.rounds < 2 {
            return Err("--vs needs 2 rounds at least and a confidence below 100 percent.".into());
        }
        if versus.is_some() && raw.hdr.is_some() {
            return Err("--hdr records one server: it can't be combined with --vs.".into());
        }
        Ok(Options {
            target,
            versus,
            rounds: raw.rounds,
            confidence: raw.confidence / 100.0,
            login: password.map(|password| (user, password)),
            db: uri.db.or(raw.dbnum).unwrap_or(0),
            resp3: raw.resp3,
            tracking: raw.enable_tracking,
            mptcp: raw.mptcp,
            tls,
            clients: at_least_one("-c", raw.clients)? as usize,
            threads,
            keepalive: raw.keepalive != 0,
            pipeline: raw.pipeline.max(1) as usize,
            amount: amount(raw.requests, raw.duration)?,
            warmup: seconds(raw.warmup.max(0.0))?,
            rate: (raw.rps > 0).then_some(raw.rps as f64),
            keyspace,
            keys,
            sizes: raw
                .sizes
                .unwrap_or_else(|| SizeDistribution::fixed((raw.data.max(1) as usize).min(MAX))),
            seed: raw.seed.map_or_else(seed_by_time, |seed| seed as u64),
            preload: raw.preload,
            verify: raw.verify,
            keep_going: raw.keep_going,
            cluster: raw.cluster.then_some(raw.rfr),
            output: if raw.json {
                Output::Json
            } else if raw.csv {
                Output::Csv
            } else if raw.quiet {
                Output::Quiet
            } else if raw.full {
                Output::Full
            } else {
                Output::Table
            },
            precision: if raw.precision < 0 { 3 } else { raw.precision.min(4) as u8 },
            repeat: raw.repeat,
            idle: raw.idle,
            fuzz,
            stdin: raw.stdin,
            tests: raw.tests.as_deref().map(|text| tests(text, &command)).transpose()?,
            mix: raw.mix,
            functions: raw.num_functions.max(0) as u32,
            function_keys: raw.num_keys_in_fcall.max(0) as u32,
            hdr: raw.hdr,
            command,
            warnings,
        })
    }
}

/// The names of `-t`; if a command is given they are ignored, whatever they are.
fn tests(text: &str, command: &[Vec<u8>]) -> Result<Vec<String>, String> {
    let names: Vec<String> = text.split(',').map(str::to_ascii_lowercase).collect();
    match suite::unknown(&names) {
        Some(name) if command.is_empty() => {
            Err(format!("There is no test {name:?}. There are:\n{}", suite::list_of_tests()))
        }
        _ => Ok(names),
    }
}

fn amount(requests: Option<i64>, duration: Option<f64>) -> Result<Amount, String> {
    match (requests, duration) {
        (Some(_), Some(_)) => Err("Options -n and --duration are mutually exclusive.".into()),
        (_, Some(duration)) if duration > 0.0 => Ok(Amount::Time(seconds(duration)?)),
        (_, Some(_)) => Err("Option --duration needs a number of seconds above 0.".into()),
        (None, _) => Ok(Amount::Requests(100_000)),
        (Some(requests), None) => at_least_one("-n", requests).map(Amount::Requests),
    }
}

/// A number of which 0 makes no sense. The reference replaces 0 by another number, and measures
/// something else than the user requested.
fn at_least_one(option: &str, number: i64) -> Result<u64, String> {
    let number = u64::try_from(number).ok().filter(|number| *number > 0);
    number.ok_or_else(|| format!("Option {option} takes a number from 1 on."))
}

fn seconds(seconds: f64) -> Result<Duration, String> {
    Duration::try_from_secs_f64(seconds).map_err(|_| format!("{seconds} seconds are too many"))
}

/// Refuses known options that this tool can't support.
fn refuse(raw: &Raw) -> Result<(), String> {
    if raw.rdma {
        return Err("RDMA is not built in.".into());
    }
    Ok(())
}

fn second_server(text: &str) -> Result<Target, String> {
    if text.starts_with('/') {
        return Ok(Target::Unix(text.to_string()));
    }
    let wrong = || format!("--vs takes host:port or the path of a socket, not {text:?}.");
    let (host, port) = text.rsplit_once(':').ok_or_else(wrong)?;
    let host = host.strip_prefix('[').and_then(|h| h.strip_suffix(']')).unwrap_or(host);
    Ok(Target::Tcp(host.to_string(), port.parse().map_err(|_| wrong())?))
}

fn seed_by_time() -> u64 {
    std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .map_or(0, |since| since.as_nanos() as u64)
}

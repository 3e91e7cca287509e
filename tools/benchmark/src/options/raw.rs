//! The options as parsed by clap.

use std::path::PathBuf;

use clap::{ArgAction, Parser, ValueEnum};

use crate::keys::KeyDistribution;
use crate::sizes::SizeDistribution;

const ABOUT: &str = "\
Puts load on a Redis-compatible server, and prints requests/s, latency and CPU";

/// Text after the options.
pub const COMMANDS: &str = "\
Without -t, --mix or a command, a set of default tests runs. Several commands are separated with ';' as in `SET foo bar ';' GET foo`. A number N before a \
command repeats it N times. In the arguments of commands these placeholders are replaced:

 __rand_int__    a number of 12 digits below the one of -r; several in one command differ
 __rand_1st__    the same, but several in one command are alike; also __rand_2nd__ to __rand_9th__
 __data__        data of the size of -d or --sizes
 {tag}           in cluster mode, a tag that leads to the node of the connection";

/// The nodes of a cluster that get requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ReadFrom {
    /// Primaries only.
    No,
    /// Replicas only.
    Yes,
    /// All nodes.
    All,
}

fn port(text: &str) -> Result<u16, String> {
    text.parse().map_err(|_| "Invalid server port.".to_string())
}

/// The command line, before the checks for contradictions.
#[derive(Clone, Debug, Parser)]
#[command(
    name = "weft-benchmark",
    version,
    about = ABOUT,
    override_usage = "weft-benchmark [OPTIONS] [--] [COMMAND ARGS...]",
    disable_help_flag = true,
    disable_version_flag = true,
    max_term_width = 100
)]
pub struct Raw {
    /// Server hostname. Without a value: print a short help
    #[arg(short = 'h', value_name = "hostname", default_value = "127.0.0.1")]
    pub host: String,
    /// Server port
    #[arg(short = 'p', value_name = "port", default_value = "6379", value_parser = port)]
    pub port: u16,
    /// Server socket (overrides host and port)
    #[arg(short = 's', value_name = "socket")]
    pub socket: Option<String>,
    /// Password
    #[arg(short = 'a', value_name = "password")]
    pub password: Option<String>,
    /// User of the password; needs -a
    #[arg(long, value_name = "username")]
    pub user: Option<String>,
    /// Server URI: valkey://user:password@host:port/dbnum; all but the host may be left out, and
    /// valkeys:// is TLS
    #[arg(short = 'u', value_name = "uri")]
    pub uri: Option<String>,
    /// Number of parallel connections
    #[arg(short = 'c', value_name = "clients", default_value_t = 50)]
    pub clients: i64,
    /// Total number of requests [default: 100000]
    #[arg(short = 'n', value_name = "requests")]
    pub requests: Option<i64>,
    /// Run each test for this time instead of a number of requests; may be a fraction
    #[arg(long, value_name = "seconds")]
    pub duration: Option<f64>,
    /// Run each test for this time before anything is counted
    #[arg(long, value_name = "seconds", default_value_t = 0.0)]
    pub warmup: f64,
    /// Data size of values in bytes
    #[arg(short = 'd', value_name = "size", default_value_t = 3)]
    pub data: i64,
    /// SELECT this database
    #[arg(long, value_name = "db")]
    pub dbnum: Option<i64>,
    /// Start sessions in RESP3
    #[arg(short = '3')]
    pub resp3: bool,
    /// Number of generator threads [default: as many as the connections and the CPUs warrant]
    #[arg(long, value_name = "num")]
    pub threads: Option<i64>,
    /// Cluster mode. Keys of own commands must contain "{tag}"
    #[arg(long)]
    pub cluster: bool,
    /// Read from replicas in cluster mode
    #[arg(long, value_name = "mode", value_enum, default_value = "no")]
    pub rfr: ReadFrom,
    /// Send CLIENT TRACKING on before the benchmark
    #[arg(long)]
    pub enable_tracking: bool,
    /// 1 = keep alive, 0 = reconnect
    #[arg(short = 'k', value_name = "boolean", default_value_t = 1)]
    pub keepalive: i64,
    /// Random keys, members and scores: numbers from 0 to keyspacelen-1
    #[arg(short = 'r', value_name = "keyspacelen")]
    pub keyspace: Option<i64>,
    /// Numbers one after the other rather than random; the same as --keys seq
    #[arg(long)]
    pub sequential: bool,
    /// Pipeline: requests in flight on each connection
    #[arg(short = 'P', value_name = "numreq", default_value_t = 1)]
    pub pipeline: i64,
    /// Quiet. Just show query/sec values
    #[arg(short = 'q')]
    pub quiet: bool,
    /// Significant digits of latencies, 0 to 4
    #[arg(long, value_name = "digits", default_value_t = 3)]
    pub precision: i64,
    /// Output in CSV format
    #[arg(long)]
    pub csv: bool,
    /// Loop. Run the tests forever
    #[arg(short = 'l')]
    pub repeat: bool,
    /// Only run these tests, separated by commas; ignored when a command is given. They are listed
    /// at the end
    #[arg(short = 't', value_name = "tests")]
    pub tests: Option<String>,
    /// Idle mode. Just open the connections and wait
    #[arg(short = 'I')]
    pub idle: bool,
    /// Read the last argument from standard input
    #[arg(short = 'x')]
    pub stdin: bool,
    /// Requests per second, as an open loop: latency counts from when a request was due. 0 is no
    /// rate: a closed loop
    #[arg(long, value_name = "requests", default_value_t = 0)]
    pub rps: i64,
    /// Seed of the random numbers [default: by time]
    #[arg(long, value_name = "num")]
    pub seed: Option<i64>,
    /// Functions in the library that the test function_load loads
    #[arg(long, value_name = "num", default_value_t = 10)]
    pub num_functions: i64,
    /// Keys of FCALL in the test fcall
    #[arg(long, value_name = "num", default_value_t = 1)]
    pub num_keys_in_fcall: i64,
    /// Accepted for old scripts; an error always ends the run, unless --keep-going
    #[arg(short = 'e')]
    pub errors: bool,
    /// Use multipath TCP
    #[arg(long)]
    pub mptcp: bool,

    /// Send random commands, made from the server's description of its commands. For tests only:
    /// they change the server's data
    #[arg(long)]
    pub fuzz: bool,
    /// Modes of --fuzz, separated by commas: malformed-commands (wrong commands, too),
    /// config-commands (CONFIG SET, too) [default: right commands only]
    #[arg(long, value_name = "modes")]
    pub fuzz_mode: Option<String>,
    /// Log level of --fuzz: none, error, info, debug (every command and reply) [default: info]
    #[arg(long, value_name = "level")]
    pub fuzz_loglevel: Option<String>,

    /// Establish a TLS connection
    #[arg(long, help_heading = "TLS")]
    pub tls: bool,
    /// Server name indication: the name sent to the server
    #[arg(long, value_name = "host", help_heading = "TLS")]
    pub sni: Option<String>,
    /// CA certificates to verify the server with. Names are not compared
    #[arg(long, value_name = "file", help_heading = "TLS")]
    pub cacert: Option<PathBuf>,
    /// Directory of CA certificates [default of both: the roots of the system]
    #[arg(long, value_name = "dir", help_heading = "TLS")]
    pub cacertdir: Option<PathBuf>,
    /// Skip the verification of certificates
    #[arg(long, help_heading = "TLS")]
    pub insecure: bool,
    /// Client certificate to authenticate with
    #[arg(long, value_name = "file", help_heading = "TLS")]
    pub cert: Option<PathBuf>,
    /// Private key of --cert
    #[arg(long, value_name = "file", help_heading = "TLS")]
    pub key: Option<PathBuf>,
    /// Ciphers of TLS 1.2, the preferred ones first, in OpenSSL's words: see ciphers(1ssl)
    #[arg(long, value_name = "list", help_heading = "TLS")]
    pub tls_ciphers: Option<String>,
    /// Cipher suites of TLS 1.3, the preferred ones first, separated by colons
    #[arg(long, value_name = "list", help_heading = "TLS")]
    pub tls_ciphersuites: Option<String>,

    /// Mix of tests in one run, as in GET:8,SET:2
    #[arg(long, value_name = "tests", help_heading = "Beyond valkey-benchmark")]
    pub mix: Option<String>,
    /// Sizes of values: 64:7,1024-2048:2,65536:1 (weights), or lognormal:MEDIAN:SIGMA
    #[arg(long, value_name = "sizes", help_heading = "Beyond valkey-benchmark")]
    pub sizes: Option<SizeDistribution>,
    /// Distribution of keys: uniform, zipf:S, gauss:SD, seq, hot:KEYS:TRAFFIC
    #[arg(long, value_name = "distribution", help_heading = "Beyond valkey-benchmark")]
    pub keys: Option<KeyDistribution>,
    /// SET every key of -r first, unmeasured
    #[arg(long, help_heading = "Beyond valkey-benchmark")]
    pub preload: bool,
    /// Compare the content of replies with the written values
    #[arg(long, help_heading = "Beyond valkey-benchmark")]
    pub verify: bool,
    /// Count errors by kind instead of ending at the first
    #[arg(long, help_heading = "Beyond valkey-benchmark")]
    pub keep_going: bool,
    /// Print the long report of each test: settings, percentile distribution, summary
    #[arg(long, help_heading = "Beyond valkey-benchmark")]
    pub full: bool,
    /// Output one JSON document
    #[arg(long, help_heading = "Beyond valkey-benchmark")]
    pub json: bool,
    /// Write the latencies of every second to this file, as an HDR histogram log
    #[arg(long, value_name = "file", help_heading = "Beyond valkey-benchmark")]
    pub hdr: Option<PathBuf>,
    /// Run against this server as well, in turns, and print the ratio: first server to this one
    #[arg(long, value_name = "host:port", help_heading = "Beyond valkey-benchmark")]
    pub vs: Option<String>,
    /// Rounds of --vs, each with its share of the requests or the duration
    #[arg(
        long,
        value_name = "num",
        default_value_t = 10,
        help_heading = "Beyond valkey-benchmark"
    )]
    pub rounds: u32,
    /// Confidence of the interval of --vs, in percent
    #[arg(
        long,
        value_name = "percent",
        default_value_t = 99.0,
        help_heading = "Beyond valkey-benchmark"
    )]
    pub confidence: f64,

    /// Use RDMA (not built in)
    #[arg(long, help_heading = "Recognized and refused")]
    pub rdma: bool,

    /// Write man page and completions below a folder such as /usr/local/share and exit
    #[arg(long, value_name = "folder", help_heading = "Beyond valkey-benchmark")]
    pub install_docs: Option<PathBuf>,

    /// Output this help and exit
    #[arg(long, action = ArgAction::HelpShort)]
    help: Option<bool>,
    /// Output version and exit
    #[arg(short = 'v', long, action = ArgAction::Version)]
    version: Option<bool>,

    #[arg(trailing_var_arg = true, hide = true)]
    pub command: Vec<std::ffi::OsString>,
}

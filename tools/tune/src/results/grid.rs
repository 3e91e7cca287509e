//! The grid of an experiment: the varied settings, the fixed ones, the time of each cell.
//!
//! The same form is read from a TOML file, written into the header of the results, and printed by
//! the report so that a reader can run it again:
//!
//! ```toml
//! io-threads = [1, 2, 4, "auto"]
//! io-threads-do-reads = ["own", false, true]
//! data-sizes = [64, 65]
//! commands = ["GET", "SET"]
//! repeats = 3
//! measure = "2s"
//! warmup = 20000
//!
//! [[server]]
//! name = "valkey"
//! program = "valkey-server"
//!
//! [[placement]]
//! name = "one node"
//! server-cpus = "0-3"
//! bench-cpus = "4-7"
//! ```

use anyhow::{Result, bail, ensure};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;
use weft_base::cpulist;

use super::model::Key;
use super::setting::{Reads, Threads};

/// The commands of the published sweep, in the order of display.
pub const PUBLISHED: [&str; 9] =
    ["GET", "HSET", "LPOP", "LPUSH", "MSET", "SADD", "SET", "SPOP", "ZADD"];

/// The most I/O threads of any server.
const THREADS: u32 = 1024;
/// The default number of keys: enough that threads seldom use the same one, few enough to store
/// them quickly.
pub const KEYS: u64 = 100_000;

/// The grid of a sweep.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct Grid {
    /// `io-threads`.
    pub io_threads: Vec<Threads>,
    /// `io-threads-do-reads`.
    pub io_threads_do_reads: Vec<Reads>,
    /// Lengths of values in bytes.
    pub data_sizes: Vec<u32>,
    /// Names of the generator's tests, in capitals.
    pub commands: Vec<String>,
    /// Connections.
    pub clients: Vec<u32>,
    /// Requests in flight on each connection.
    pub pipeline: Vec<u32>,
    /// Runs of each cell.
    pub repeats: u32,
    /// The time or length of a measurement.
    pub measure: Span,
    /// The time or length of the run before it, unmeasured.
    pub warmup: Span,
    /// Threads of the generator.
    pub generator_threads: u32,
    /// The number of random keys and members; 0: the same key in each request.
    pub keyspace: u64,
    /// Elements stored before commands that remove some. By default as many as a cell will take, at
    /// most a million for cells that run for a time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prefill: Option<u64>,
    /// The seed that shuffles the cells.
    pub seed: u64,
    /// The servers.
    #[serde(rename = "server", default)]
    pub servers: Vec<ServerSpec>,
    /// The CPUs of servers and load; by default one placement that binds nothing.
    #[serde(rename = "placement", default)]
    pub placements: Vec<Placement>,
}

/// A server to start.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct ServerSpec {
    /// Name in tables and charts.
    pub name: String,
    /// Path, or a name on PATH.
    pub program: String,
    /// `io-threads` of this server, instead of those of the grid.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub io_threads: Option<Vec<Threads>>,
    /// A configuration file, the first argument.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config: Option<String>,
    /// Options after those of the sweep.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub args: Vec<String>,
}

/// CPUs for the server and for the load, as lists (`0-3,8`) or nodes (`node0`); empty: any.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Placement {
    /// Name in tables and charts.
    pub name: String,
    /// Of the server.
    #[serde(default)]
    pub server_cpus: String,
    /// Of the generator.
    #[serde(default)]
    pub bench_cpus: String,
}

impl Placement {
    /// Whether both sides are bound, to different CPUs. Nodes count as bound.
    pub fn keeps_apart(&self) -> bool {
        if self.server_cpus.is_empty() || self.bench_cpus.is_empty() {
            return false;
        }
        match (cpulist::parse(&self.server_cpus), cpulist::parse(&self.bench_cpus)) {
            (Ok(server), Ok(bench)) => server.intersection(&bench).is_empty(),
            (Err(_), _) | (_, Err(_)) => self.server_cpus != self.bench_cpus,
        }
    }
}

impl Default for Placement {
    fn default() -> Self {
        Self { name: "anywhere".into(), server_cpus: String::new(), bench_cpus: String::new() }
    }
}

impl Default for Grid {
    fn default() -> Self {
        Self {
            io_threads: [1, 2, 4].map(Threads::Count).to_vec(),
            io_threads_do_reads: vec![Reads::Own],
            data_sizes: vec![64],
            commands: PUBLISHED.map(String::from).to_vec(),
            clients: vec![50],
            pipeline: vec![1],
            repeats: 3,
            measure: Span::Seconds(2.0),
            warmup: Span::Requests(20_000),
            generator_threads: 2,
            keyspace: KEYS,
            prefill: None,
            seed: 1,
            servers: Vec::new(),
            placements: Vec::new(),
        }
    }
}

/// A length: `"2s"`, or a number of requests.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "SpanText", into = "SpanText")]
pub enum Span {
    /// That many requests; 0 is none.
    Requests(u64),
    /// That many seconds.
    Seconds(f64),
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Requests(n) => write!(f, "{n}"),
            Self::Seconds(s) => write!(f, "{s}s"),
        }
    }
}

impl FromStr for Span {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("'{text}' is neither a number of requests nor seconds such as 2s");
        match text.strip_suffix('s') {
            Some(seconds) => match seconds.parse::<f64>() {
                Ok(s) if s.is_finite() && (0.0..=86_400.0).contains(&s) => Ok(Self::Seconds(s)),
                Ok(_) | Err(_) => Err(wrong()),
            },
            None => text.parse().map(Self::Requests).map_err(|_| wrong()),
        }
    }
}

/// The written forms of a [`Span`].
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum SpanText {
    Number(u64),
    Text(String),
}

impl TryFrom<SpanText> for Span {
    type Error = String;

    fn try_from(text: SpanText) -> Result<Self, String> {
        match text {
            SpanText::Number(n) => Ok(Self::Requests(n)),
            SpanText::Text(text) => text.parse(),
        }
    }
}

impl From<Span> for SpanText {
    fn from(span: Span) -> Self {
        match span {
            Span::Requests(n) => Self::Number(n),
            Span::Seconds(_) => Self::Text(span.to_string()),
        }
    }
}

impl Grid {
    /// Adds defaults, and checks the rest.
    ///
    /// # Errors
    /// With the first invalid setting.
    pub fn completed(mut self) -> Result<Self> {
        if self.placements.is_empty() {
            self.placements.push(Placement::default());
        }
        for command in &mut self.commands {
            command.make_ascii_uppercase();
        }
        self.check()?;
        Ok(self)
    }

    fn check(&self) -> Result<()> {
        ensure!(!self.servers.is_empty(), "no server to measure: give --server NAME=PROGRAM");
        distinct("server", self.servers.iter().map(|s| &s.name))?;
        distinct("placement", self.placements.iter().map(|p| &p.name))?;
        distinct("commands", &self.commands)?;
        distinct("io-threads-do-reads", &self.io_threads_do_reads)?;
        for list in [&self.io_threads].into_iter().chain(self.own_threads()) {
            distinct("io-threads", list)?;
            let counts = list.iter().filter_map(|threads| threads.count());
            if let Some(wrong) = counts.into_iter().find(|n| *n == 0 || *n > THREADS) {
                bail!("io-threads: {wrong} is not between 1 and {THREADS}");
            }
        }
        for (what, list, most) in [
            ("data-sizes", &self.data_sizes, 1 << 29),
            ("clients", &self.clients, 1_000_000),
            ("pipeline", &self.pipeline, 1_000_000),
        ] {
            distinct(what, list)?;
            if let Some(wrong) = list.iter().find(|&&n| n == 0 || n > most) {
                bail!("{what}: {wrong} is not between 1 and {most}");
            }
        }
        ensure!(self.repeats > 0, "repeats: at least 1");
        ensure!(self.generator_threads > 0, "generator-threads: at least 1");
        ensure!(
            !matches!(self.measure, Span::Requests(0)) && self.measure != Span::Seconds(0.0),
            "measure: nothing would be measured"
        );
        Ok(())
    }

    /// The lists of single servers.
    fn own_threads(&self) -> impl Iterator<Item = &Vec<Threads>> {
        self.servers.iter().filter_map(|server| server.io_threads.as_ref())
    }

    /// `io-threads` of a server.
    pub fn threads_of<'a>(&'a self, server: &'a ServerSpec) -> &'a [Threads] {
        server.io_threads.as_ref().unwrap_or(&self.io_threads)
    }

    /// Every cell, repeats outermost, otherwise in the order of the lists.
    pub fn cells(&self) -> Vec<Key> {
        let mut cells = Vec::new();
        for repeat in 1..=self.repeats {
            for server in &self.servers {
                for placement in &self.placements {
                    self.cells_of(server, &placement.name, repeat, &mut cells);
                }
            }
        }
        cells
    }

    fn cells_of(&self, server: &ServerSpec, placement: &str, repeat: u32, cells: &mut Vec<Key>) {
        for &io_threads in self.threads_of(server) {
            for &reads in &self.io_threads_do_reads {
                for &data_bytes in &self.data_sizes {
                    for &clients in &self.clients {
                        for &pipeline in &self.pipeline {
                            cells.extend(self.commands.iter().map(|command| Key {
                                server: server.name.clone(),
                                placement: placement.into(),
                                io_threads,
                                reads,
                                data_bytes,
                                command: command.clone(),
                                clients,
                                pipeline,
                                repeat,
                            }));
                        }
                    }
                }
            }
        }
    }
}

/// Refuses empty lists and repeated values, which would make two cells one.
fn distinct<T: PartialEq + fmt::Debug>(
    what: &str,
    list: impl IntoIterator<Item = T>,
) -> Result<()> {
    let list: Vec<T> = list.into_iter().collect();
    ensure!(!list.is_empty(), "{what}: the list is empty");
    for (i, value) in list.iter().enumerate() {
        ensure!(!list[..i].contains(value), "{what}: {value:?} is listed twice");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = r#"
        io-threads = [1, 2]
        io-threads-do-reads = [false, true]
        data-sizes = [64, 65]
        commands = ["get", "set"]
        repeats = 3
        measure = "2s"
        warmup = 100
        [[server]]
        name = "a"
        program = "redis-server"
        args = ["--maxmemory", "1gb"]
        [[server]]
        name = "b"
        program = "valkey-server"
        [[placement]]
        name = "near"
        server-cpus = "0"
        bench-cpus = "1"
    "#;

    fn grid() -> Grid {
        toml::from_str::<Grid>(TEXT).unwrap().completed().unwrap()
    }

    #[test]
    fn a_grid_is_the_product_of_its_lists() {
        let cells = grid().cells();
        assert_eq!(cells.len(), 2 * 2 * 2 * 2 * 2 * 3);
        assert!(cells.windows(2).all(|pair| pair[0].repeat <= pair[1].repeat));
        let distinct: std::collections::HashSet<_> = cells.iter().collect();
        assert_eq!(distinct.len(), cells.len());
        assert_eq!((cells[0].command.as_str(), cells[0].clients), ("GET", 50));
    }

    #[test]
    fn a_server_may_have_threads_of_its_own() {
        let text = r#"
            io-threads = [1, 2, "auto"]
            io-threads-do-reads = ["own", "off"]
            commands = ["get"]
            repeats = 1
            server = [{ name = "a", program = "a" },
                      { name = "b", program = "b", io-threads = [4] }]
        "#;
        let grid = toml::from_str::<Grid>(text).unwrap().completed().unwrap();
        let cells = grid.cells();
        assert_eq!(cells.len(), 3 * 2 + 2);
        assert!(cells[..6].iter().any(|key| key.io_threads == Threads::Auto));
        assert!(cells[6..].iter().all(|key| key.io_threads == Threads::Count(4)));
        let written = toml::to_string(&grid).unwrap();
        assert_eq!(toml::from_str::<Grid>(&written).unwrap(), grid, "{written}");
    }

    #[test]
    fn the_experiment_that_must_be_shown_has_972_cells() {
        let text = r#"
            io-threads = [1, 2, 4]
            io-threads-do-reads = [false, true]
            data-sizes = [64, 65]
            server = [{ name = "weft", program = "a" }, { name = "valkey", program = "b" },
                      { name = "redis", program = "c" }]
        "#;
        let grid: Grid = toml::from_str(text).unwrap();
        assert_eq!(grid.completed().unwrap().cells().len(), 972);
    }

    #[test]
    fn the_published_experiment_is_a_grid() {
        let text = include_str!("../../../../benches/published.toml");
        let grid = toml::from_str::<Grid>(text).unwrap().completed().unwrap();
        assert_eq!(grid.commands, PUBLISHED);
        assert_eq!(grid.cells().len(), 3 * 8 * 2 * 9 * 3);
    }

    #[test]
    fn grid_reads_back_as_written() {
        let written = toml::to_string(&grid()).unwrap();
        assert_eq!(toml::from_str::<Grid>(&written).unwrap(), grid(), "{written}");
        let json = serde_json::to_string(&grid()).unwrap();
        assert_eq!(serde_json::from_str::<Grid>(&json).unwrap(), grid());
    }

    #[test]
    fn invalid_grid_is_refused_by_name() {
        for (text, named) in [
            ("", "server"),
            ("io-threads = []", "io-threads"),
            ("io-threads = [0]", "io-threads"),
            ("io-threads = [2, 2]", "io-threads"),
            ("repeats = 0", "repeats"),
            ("measure = 0", "measure"),
            ("measure = \"0s\"", "measure"),
            ("commands = [\"get\", \"GET\"]", "commands"),
            ("generator-threads = 0", "generator-threads"),
        ] {
            let server =
                if named == "server" { "" } else { "server = [{ name = \"a\", program = \"a\" }]" };
            let grid: Grid = toml::from_str(&format!("{text}\n{server}")).unwrap();
            let error = grid.completed().unwrap_err().to_string();
            assert!(error.contains(named), "{text}: {error}");
        }
        assert!(toml::from_str::<Grid>("io-thread = [1]").is_err());
        assert!(toml::from_str::<Grid>("measure = \"2 minutes\"").is_err());
    }

    #[test]
    fn spans_are_requests_or_seconds() {
        assert_eq!("2s".parse(), Ok(Span::Seconds(2.0)));
        assert_eq!("0.5s".parse(), Ok(Span::Seconds(0.5)));
        assert_eq!("1000".parse(), Ok(Span::Requests(1000)));
        for wrong in ["", "s", "-1", "-1s", "nans", "infs", "2m", "99999999s"] {
            assert!(wrong.parse::<Span>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn placements_know_whether_they_keep_server_and_load_apart() {
        let placement = |server: &str, bench: &str| Placement {
            name: "x".into(),
            server_cpus: server.into(),
            bench_cpus: bench.into(),
        };
        assert!(placement("0-3", "4-7").keeps_apart() && placement("node0", "node1").keeps_apart());
        assert!(!placement("0-3", "3").keeps_apart() && !placement("", "1").keeps_apart());
        assert!(!placement("node0", "node0").keeps_apart());
    }
}

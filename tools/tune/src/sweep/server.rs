//! Servers under test: their programs, their supported directives, and one process for each cell.

use anyhow::{Context, Result, anyhow, bail};
use std::fs::{self, File};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::str::FromStr;
use std::thread;
use std::time::{Duration, Instant};
use tempfile::TempDir;

use super::child;
use super::client::{Client, Reply};
use super::locate;
use super::stop::Stop;
use crate::results::grid::ServerSpec;
use crate::results::model::Program;
use crate::results::{Reads, Threads};

/// The time that a server may take until it answers.
const START: Duration = Duration::from_secs(30);
/// The time between two attempts.
const STEP: Duration = Duration::from_millis(10);
/// Stored last lines of a log.
const LOG_LINES: usize = 12;
/// Attempts to find a port that no other program takes meanwhile.
const PORTS: usize = 4;

/// The two directives that a sweep sets.
const IO_THREADS: &str = "io-threads";
const READS: &str = "io-threads-do-reads";

/// A server's support of a directive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Support {
    /// It accepts the directive and reports it.
    Full,
    /// It accepts the directive, but CONFIG GET doesn't have it: it has no effect any more.
    WithoutEffect,
    /// It does not start with the directive.
    Unsupported,
}

impl Support {
    /// The remark on it in a record; none if supported.
    pub fn remark(self, directive: &str) -> Option<String> {
        match self {
            Self::Full => None,
            Self::WithoutEffect => Some(format!(
                "{directive} is taken but not named by CONFIG GET: it may have no effect"
            )),
            Self::Unsupported => {
                Some(format!("{directive} is unknown to this server and was left out"))
            }
        }
    }
}

/// A server of the grid.
#[derive(Debug)]
pub struct Server {
    spec: ServerSpec,
    program: PathBuf,
    config: Option<PathBuf>,
    io_threads: Support,
    reads: Support,
    /// Its own defaults.
    own: Own,
}

/// The defaults of a server, if the sweep sets nothing.
#[derive(Clone, Copy, Debug, Default)]
struct Own {
    io_threads: Option<Threads>,
    reads: Option<Reads>,
}

/// The settings of a cell's server.
#[derive(Clone, Copy, Debug)]
pub struct Wanted<'a> {
    /// io-threads; none: the server's own.
    pub io_threads: Option<Threads>,
    /// io-threads-do-reads.
    pub reads: Reads,
    /// CPUs; any when empty.
    pub cpus: &'a str,
    /// Port; a free one if absent.
    pub port: Option<u16>,
}

impl Server {
    /// Finds a server and asks for its supported directives.
    ///
    /// # Errors
    /// If it is missing or does not start at all.
    pub fn prepare(spec: &ServerSpec, port: Option<u16>, stop: &Stop) -> Result<Self> {
        let program =
            locate::find(&spec.program).with_context(|| format!("server {}", spec.name))?;
        let config = spec.config.as_ref().map(std::path::absolute).transpose()?;
        let mut server = Self {
            spec: spec.clone(),
            program,
            config,
            io_threads: Support::Full,
            reads: Support::Full,
            own: Own::default(),
        };
        let one = Some(Threads::Count(1));
        let wanted = Wanted { io_threads: one, reads: Reads::Off, cpus: "", port };
        let running = loop {
            match server.start(&wanted, stop) {
                Ok(running) => break running,
                // A server's error names the unknown directive; the shorter name is part of the
                // longer one.
                Err(e) if server.reads == Support::Full && e.log_names(READS) => {
                    server.reads = Support::Unsupported;
                }
                Err(e) if server.io_threads == Support::Full && e.log_names(IO_THREADS) => {
                    server.io_threads = Support::Unsupported;
                }
                Err(e) => bail!("server {} does not start: {e}", spec.name),
            }
        };
        let mut client = Client::connect(running.port)?;
        for (directive, knows) in [(IO_THREADS, &mut server.io_threads), (READS, &mut server.reads)]
        {
            if *knows == Support::Full
                && client.ask(&["CONFIG", "GET", directive])? == Reply::List(Vec::new())
            {
                *knows = Support::WithoutEffect;
            }
        }
        drop((client, running));
        server.own = server.ask_own(port, stop)?;
        Ok(server)
    }

    /// The settings that it reports with its own defaults.
    fn ask_own(&self, port: Option<u16>, stop: &Stop) -> Result<Own> {
        let wanted = Wanted { io_threads: None, reads: Reads::Own, cpus: "", port };
        let running = self.start(&wanted, stop).map_err(|e| {
            anyhow!("server {} does not start with its defaults: {e}", self.spec.name)
        })?;
        let mut client = Client::connect(running.port)?;
        Ok(Own { io_threads: setting(&mut client, IO_THREADS), reads: setting(&mut client, READS) })
    }

    /// Whether it accepts `auto` for the number of its threads.
    pub fn takes_auto(&self, port: Option<u16>, stop: &Stop) -> bool {
        let io_threads = Some(Threads::Auto);
        let wanted = Wanted { io_threads, reads: Reads::Own, cpus: "", port };
        self.io_threads != Support::Unsupported && self.start(&wanted, stop).is_ok()
    }

    /// For the header of the results.
    ///
    /// # Errors
    /// If it can't be run.
    pub fn program(&self) -> Result<Program> {
        let program = locate::program(&self.spec.name, &self.program)?;
        let Own { io_threads, reads } = self.own;
        Ok(Program { own_io_threads: io_threads, own_reads: reads, ..program })
    }

    /// Remarks on this server for these values of io-threads-do-reads: none on a directive that the
    /// sweep does not set.
    pub fn remarks(&self, reads: &[Reads]) -> Vec<String> {
        let set = reads.iter().any(|reads| *reads != Reads::Own);
        let reads = self.reads.remark(READS).filter(|_| set);
        [self.io_threads.remark(IO_THREADS), reads].into_iter().flatten().collect()
    }

    /// Starts one for a cell and waits until it answers.
    ///
    /// # Errors
    /// If it does not answer, with its last log lines.
    pub fn start(&self, wanted: &Wanted, stop: &Stop) -> Result<Running, Failure> {
        let mut last = None;
        for _ in 0..if wanted.port.is_some() { 1 } else { PORTS } {
            match self.start_once(wanted, stop) {
                Err(e) if e.log.iter().any(|line| line.contains("already in use")) => {
                    last = Some(e);
                }
                other => return other,
            }
        }
        Err(last.unwrap_or_else(|| Failure::new("there is no free port", Vec::new())))
    }

    fn start_once(&self, wanted: &Wanted, stop: &Stop) -> Result<Running, Failure> {
        let mut running = self.spawn(wanted).map_err(|e| Failure::new(format!("{e:#}"), vec![]))?;
        let end = Instant::now() + START;
        loop {
            if let Some(why) = running.ended() {
                return Err(Failure::new(format!("the server {why}"), running.log()));
            }
            let pong = Client::connect(running.port).and_then(|mut client| client.ask(&["PING"]));
            if matches!(&pong, Ok(Reply::Text(text)) if text == "PONG") {
                return Ok(running);
            }
            if Instant::now() > end || stop.asked() {
                let why = pong.err().map(|e| format!(": {e:#}")).unwrap_or_default();
                return Err(Failure::new(
                    format!("the server does not answer{why}"),
                    running.log(),
                ));
            }
            thread::sleep(STEP);
        }
    }

    fn spawn(&self, wanted: &Wanted) -> Result<Running> {
        let dir = TempDir::with_prefix("weft-tune-")?;
        let port = match wanted.port {
            Some(port) => port,
            None => TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port(),
        };
        let log = File::create(dir.path().join("log"))?;
        let mut command = child::command(&self.program, wanted.cpus)?;
        command.args(&self.config);
        command.args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--daemonize", "no"]);
        // Nothing on disk: a sweep measures threads. Options of the grid may change that.
        command.args(["--save", "", "--appendonly", "no", "--logfile", ""]);
        if let Some(threads) = wanted.io_threads.filter(|_| self.io_threads != Support::Unsupported)
        {
            command.args(["--io-threads", &threads.to_string()]);
        }
        match wanted.reads {
            Reads::Own => {}
            Reads::Off | Reads::On if self.reads == Support::Unsupported => {}
            Reads::Off => {
                command.args(["--io-threads-do-reads", "no"]);
            }
            Reads::On => {
                command.args(["--io-threads-do-reads", "yes"]);
            }
        }
        let child = command
            .args(&self.spec.args)
            .current_dir(dir.path())
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()
            .context("cannot start the server")?;
        Ok(Running { child, port, dir })
    }
}

/// The value of a directive on a running server; none if the server doesn't have it, or returns an
/// unknown value.
pub fn setting<T: FromStr>(client: &mut Client, directive: &str) -> Option<T> {
    match client.ask(&["CONFIG", "GET", directive]).ok()? {
        Reply::List(pair) => match pair.get(1)? {
            Reply::Text(value) => value.parse().ok(),
            Reply::Number(_) | Reply::List(_) | Reply::Null => None,
        },
        Reply::Text(_) | Reply::Number(_) | Reply::Null => None,
    }
}

/// A server process. Killed on drop, its folder removed.
#[derive(Debug)]
pub struct Running {
    child: Child,
    /// On 127.0.0.1.
    pub port: u16,
    dir: TempDir,
}

impl Running {
    /// Its process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Its folder, also for files of the generator.
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// How it ended; none while it runs.
    pub fn ended(&mut self) -> Option<String> {
        match self.child.try_wait() {
            Ok(None) => None,
            Ok(Some(status)) => Some(format!("ended: {status}")),
            Err(e) => Some(format!("is lost: {e}")),
        }
    }

    /// The last lines of its log.
    pub fn log(&self) -> Vec<String> {
        last_lines(&self.dir.path().join("log"))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // An error means that it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The last lines of a file that are not empty.
pub fn last_lines(file: &Path) -> Vec<String> {
    let text = fs::read(file).map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    let text = text.unwrap_or_default();
    let lines: Vec<&str> =
        text.lines().map(str::trim_end).filter(|line| !line.is_empty()).collect();
    lines[lines.len().saturating_sub(LOG_LINES)..].iter().map(|line| line.to_string()).collect()
}

/// The reason why a cell has no figures.
#[derive(Debug, PartialEq, Eq)]
pub struct Failure {
    /// For people.
    pub reason: String,
    /// Last lines of the server.
    pub log: Vec<String>,
}

impl Failure {
    /// A failure with this reason.
    pub fn new(reason: impl Into<String>, log: Vec<String>) -> Self {
        Self { reason: reason.into(), log }
    }

    /// Whether the server rejected this directive, as in `>>> 'io-threads "4"'`.
    fn log_names(&self, directive: &str) -> bool {
        self.log.iter().any(|line| {
            line.split(|c: char| !(c.is_ascii_alphanumeric() || c == '-'))
                .any(|word| word.trim_start_matches('-') == directive)
        })
    }
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.reason)?;
        self.log.iter().try_for_each(|line| write!(f, "\n  | {line}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_complaint_names_its_directive_and_no_other() {
        let failure = Failure::new("x", vec![">>> 'io-threads-do-reads \"no\"'".into()]);
        assert!(failure.log_names(READS) && !failure.log_names(IO_THREADS));
        let failure = Failure::new("x", vec!["unknown option --io-threads 4".into()]);
        assert!(failure.log_names(IO_THREADS) && !failure.log_names(READS));
    }

    #[test]
    fn logs_are_cut_to_their_last_lines() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let text: String = (0..50).map(|i| format!("line {i}\n\n")).collect();
        fs::write(file.path(), text).unwrap();
        let lines = last_lines(file.path());
        assert_eq!((lines.len(), lines[11].as_str()), (LOG_LINES, "line 49"));
        assert!(last_lines(Path::new("/no/such/file")).is_empty());
    }
}

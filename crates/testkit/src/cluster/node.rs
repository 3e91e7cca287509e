//! A process of a cluster: its ports and its folder outlive it, so other nodes know it again.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use super::ports::{BUS, node_port};
use crate::client::Client;

/// The number of PINGs to a starting node, 20 ms apart: 30 seconds in all.
const ASKS: usize = 1500;
const ASK: Duration = Duration::from_millis(20);
/// How long a reply of a node may take before it counts as not answering.
const PATIENCE: Duration = Duration::from_secs(5);

const CONFIG: &str = "node.conf";

/// See the module's documentation. Killed on drop.
pub struct Node {
    program: PathBuf,
    args: Vec<String>,
    env: Vec<(String, String)>,
    port: u16,
    dir: TempDir,
    child: Option<Child>,
    is_stopped: bool,
}

impl Node {
    /// A node that is not started yet.
    pub fn new(program: &Path) -> Node {
        let dir = TempDir::with_prefix("weft-node-").expect("a temporary folder");
        // For CONFIG REWRITE, which tools use.
        fs::write(dir.path().join(CONFIG), "").expect("the folder is writable");
        let (port, program) = (node_port(), program.to_path_buf());
        Node {
            program,
            args: Vec::new(),
            env: Vec::new(),
            port,
            dir,
            child: None,
            is_stopped: false,
        }
    }

    /// Arguments of the next start, after those for port and folder.
    pub fn set_args(&mut self, args: Vec<String>) {
        self.args = args;
    }

    /// Environment variables of the next start.
    pub fn set_env(&mut self, env: Vec<(String, String)>) {
        self.env = env;
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    /// `HOST:PORT`
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// Its folder, in which it runs.
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// Starts the process without waiting for anything.
    #[track_caller]
    pub fn spawn(&mut self) {
        assert!(self.child.is_none(), "the node runs already");
        let log = File::options().create(true).append(true).open(self.dir.path().join("log"));
        let log = log.expect("a log");
        let child = Command::new(&self.program)
            .arg(CONFIG)
            .args(["--port", &self.port.to_string(), "--bind", "127.0.0.1", "--save", ""])
            .args(["--cluster-enabled", "yes", "--cluster-port", &(self.port + BUS).to_string()])
            .args(&self.args)
            .envs(self.env.iter().map(|(name, value)| (name, value)))
            .current_dir(self.dir.path())
            .stdin(Stdio::null())
            .stdout(log.try_clone().expect("a descriptor"))
            .stderr(log)
            .spawn();
        self.child = Some(child.expect("the program starts"));
        self.is_stopped = false;
    }

    /// Waits until the process answers and has loaded its data.
    ///
    /// # Panics
    /// If it ends instead.
    #[track_caller]
    pub fn wait_until_up(&mut self) {
        for _ in 0..ASKS {
            let child = self.child.as_mut().expect("the node was started");
            if let Some(status) = child.try_wait().expect("a child") {
                panic!("{} ended with {status}:\n{}", self.program.display(), self.log_tail(20));
            }
            if let Some(mut client) = self.try_client()
                && let Ok(pong) = client.try_cmd(&["PING"])
                && !pong.value.error().is_some_and(|error| error.starts_with("LOADING"))
            {
                return;
            }
            std::thread::sleep(ASK);
        }
        panic!("{} does not answer:\n{}", self.program.display(), self.log_tail(20));
    }

    #[track_caller]
    pub fn start(&mut self) {
        self.spawn();
        self.wait_until_up();
    }

    /// A new connection, if the process listens.
    pub fn try_client(&self) -> Option<Client> {
        let mut client = Client::try_tcp(self.port).ok()?;
        client.set_timeout(PATIENCE);
        Some(client)
    }

    /// A new connection.
    #[track_caller]
    pub fn client(&self) -> Client {
        Client::tcp(self.port)
    }

    /// Whether the process was started, and neither killed nor stopped.
    pub fn is_running(&self) -> bool {
        self.child.is_some() && !self.is_stopped
    }

    /// Whether the process has ended by itself.
    pub fn has_ended(&mut self) -> Option<ExitStatus> {
        self.child.as_mut()?.try_wait().expect("a child")
    }

    pub fn pid(&self) -> Option<u32> {
        self.child.as_ref().map(Child::id)
    }

    /// Kills it as a crash does.
    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
        self.is_stopped = false;
    }

    /// Ends it with SIGTERM and waits for its end.
    #[track_caller]
    pub fn terminate(&mut self) {
        self.signal(Signal::TERM);
        if let Some(mut child) = self.child.take() {
            let _ = child.wait();
        }
    }

    /// SIGSTOP: the process keeps its connections and does nothing. Its threads stop some time after the signal was
    /// sent, so this waits for them.
    #[track_caller]
    pub fn stop(&mut self) {
        self.signal(Signal::STOP);
        self.is_stopped = true;
        let pid = self.pid().expect("the node runs");
        while !has_stopped(pid) {
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// SIGCONT.
    #[track_caller]
    pub fn resume(&mut self) {
        self.signal(Signal::CONT);
        self.is_stopped = false;
    }

    #[track_caller]
    pub fn signal(&self, signal: Signal) {
        let child = self.child.as_ref().expect("the node runs");
        let pid = Pid::from_raw(child.id().cast_signed()).expect("a process id");
        kill_process(pid, signal).expect("the process exists");
    }

    pub fn log(&self) -> String {
        let bytes = fs::read(self.dir.path().join("log")).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// The last lines of the log.
    pub fn log_tail(&self, lines: usize) -> String {
        let log = self.log();
        let skipped = log.lines().count().saturating_sub(lines);
        log.lines().skip(skipped).map(|line| format!("{line}\n")).collect()
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.kill();
        if std::thread::panicking() {
            eprintln!("--- log of the node on port {}\n{}---", self.port, self.log_tail(12));
            keep_log(self.port, &self.log());
        }
    }
}

/// Whether all threads of a process have stopped.
fn has_stopped(pid: u32) -> bool {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let mut states = tasks.filter_map(|task| {
        let stat = fs::read_to_string(task.path().join("stat")).ok()?;
        // The state follows the name, which is in parentheses.
        stat.rsplit_once(") ").and_then(|(_, fields)| fields.chars().next())
    });
    states.all(|state| matches!(state, 'T' | 't' | 'Z' | 'X'))
}

/// `CLUSTER_LOGS` is a folder that gets the logs of nodes of a failed test.
fn keep_log(port: u16, log: &str) {
    if let Some(folder) = std::env::var_os("CLUSTER_LOGS") {
        let _ = fs::write(Path::new(&folder).join(format!("node-{port}.log")), log);
    }
}

//! A server process for one test: started on a free port, stopped with the test.
//!
//! Each server has its own folder, which is its working directory and holds its log. If the test
//! panics, the end of the log is printed, since the panic message alone seldom shows why a server
//! didn't answer.
//!
//! The kernel assigns a free port, which is released again, so another process can take it in
//! between. A server that ends before it answers is therefore started again on another port, a few
//! times. So is a server whose port another one answers on.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Resource, Rlimit, Signal, kill_process};
use tempfile::TempDir;

use crate::client::Client;
use crate::locate;
use crate::process::Process;
use crate::value::Value;

const STARTS: usize = 3;
/// The number of PINGs to a starting server, 20 ms apart: 30 seconds in all.
const ASKS: usize = 1500;
const LOG_LINES: usize = 20;

/// A running server. Killed on drop.
pub struct Server {
    name: &'static str,
    child: Child,
    port: u16,
    dir: TempDir,
    /// The arguments of the test, for [`Server::restart`].
    args: Vec<String>,
    program: PathBuf,
    descriptors: Option<u32>,
}

impl Server {
    /// The server under test with these arguments added.
    ///
    /// # Panics
    /// If it can't be built or started.
    #[track_caller]
    pub fn weft(args: &[&str]) -> Server {
        Server::start("weft", locate::weft(), args)
    }

    /// Valkey, if it is installed.
    #[track_caller]
    pub fn valkey(args: &[&str]) -> Option<Server> {
        Some(Server::start("valkey", &locate::valkey()?, args))
    }

    /// Redis 8, if it is installed.
    #[track_caller]
    pub fn redis8(args: &[&str]) -> Option<Server> {
        Some(Server::start("redis8", &locate::redis8()?, args))
    }

    /// Any program that takes the options of redis-server.
    ///
    /// # Panics
    /// If it doesn't answer PING, with its log.
    #[track_caller]
    pub fn start(name: &'static str, program: &Path, args: &[&str]) -> Server {
        Server::start_with(name, program, args, None)
    }

    /// Like [`Server::start`], with this limit of open descriptors.
    #[track_caller]
    pub fn with_descriptors(
        name: &'static str,
        program: &Path,
        args: &[&str],
        descriptors: u32,
    ) -> Server {
        Server::start_with(name, program, args, Some(descriptors))
    }

    #[track_caller]
    fn start_with(
        name: &'static str,
        program: &Path,
        args: &[&str],
        descriptors: Option<u32>,
    ) -> Server {
        let dir = TempDir::with_prefix("weft-test-").expect("a temporary folder");
        let args: Vec<String> = args.iter().map(|arg| arg.to_string()).collect();
        let mut failure = String::new();
        for _ in 0..STARTS {
            let port = free_port();
            let child = spawn(program, port, dir.path(), &args, descriptors);
            let (program, args) = (program.to_path_buf(), args.clone());
            match wait_for_ping(child, port, Ready::Loaded) {
                Ok(child) => return Server { name, child, port, dir, args, program, descriptors },
                Err(why) => failure = why,
            }
        }
        panic!("{name} does not start: {failure}\n{}", tail(&dir.path().join("log")));
    }

    /// Ends this server and starts it again: same folder, same arguments, another port.
    #[track_caller]
    pub fn restart(&mut self) {
        self.kill();
        self.port = free_port();
        let (dir, descriptors) = (self.dir.path(), self.descriptors);
        let child = spawn(&self.program, self.port, dir, &self.args, descriptors);
        match wait_for_ping(child, self.port, Ready::Loaded) {
            Ok(child) => self.child = child,
            Err(why) => panic!("{} does not start again: {why}\n{}", self.name, self.log_tail()),
        }
    }

    /// Like [`Server::restart`] with other arguments, for a server that may still be loading when
    /// this returns.
    #[track_caller]
    pub fn restart_loading(&mut self, args: &[&str]) {
        self.kill();
        self.port = free_port();
        self.args = args.iter().map(|arg| arg.to_string()).collect();
        let (dir, descriptors) = (self.dir.path(), self.descriptors);
        let child = spawn(&self.program, self.port, dir, &self.args, descriptors);
        match wait_for_ping(child, self.port, Ready::Answering) {
            Ok(child) => self.child = child,
            Err(why) => panic!("{} does not start again: {why}\n{}", self.name, self.log_tail()),
        }
    }

    /// Waits until the server has loaded its files: until then it refuses commands.
    #[track_caller]
    pub fn wait_until_loaded(&self) {
        let mut client = self.client();
        let is_loading =
            |reply: Value| matches!(reply, Value::Error(e) if e.starts_with(b"LOADING"));
        while is_loading(client.cmd(&["GET", "key"])) {
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// The kind of server, for messages.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// The port on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Its working directory, removed with the server.
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// The process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Its `/proc` figures.
    pub fn process(&self) -> Process {
        Process(self.pid())
    }

    /// A new connection.
    #[track_caller]
    pub fn client(&self) -> Client {
        Client::tcp(self.port)
    }

    /// Whether the process still runs.
    pub fn is_alive(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// The server's output so far.
    pub fn log(&self) -> String {
        fs::read(self.log_path())
            .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
            .unwrap_or_default()
    }

    /// The last lines of [`Server::log`].
    pub fn log_tail(&self) -> String {
        tail(&self.log_path())
    }

    fn log_path(&self) -> PathBuf {
        self.dir.path().join("log")
    }

    /// Stops the server with SIGTERM and waits for its end.
    #[track_caller]
    pub fn stop_term(&mut self) -> ExitStatus {
        self.signal(Signal::TERM);
        self.wait()
    }

    /// Lowers the limit of open descriptors; open ones stay. It can't be raised again.
    #[track_caller]
    pub fn limit_descriptors(&self, most: u64) {
        let pid = Pid::from_raw(self.pid() as i32).expect("a process id is not 0");
        let old = rustix::process::prlimit(
            Some(pid),
            Resource::Nofile,
            Rlimit { current: Some(most), maximum: Some(most) },
        );
        old.expect("our own child can be limited");
    }

    /// Sends a signal to the process.
    #[track_caller]
    pub fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(self.pid() as i32).expect("a process id is not 0");
        kill_process(pid, signal).expect("our own child can be signalled");
    }

    /// Waits until the process ends.
    ///
    /// # Panics
    /// If it hasn't ended within five minutes.
    #[track_caller]
    pub fn wait(&mut self) -> ExitStatus {
        let deadline = Instant::now() + Duration::from_secs(300);
        loop {
            if let Some(status) = self.child.try_wait().expect("our own child can be waited for") {
                return status;
            }
            assert!(Instant::now() < deadline, "{} does not end", self.name);
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// Kills the process with SIGKILL.
    pub fn kill(&mut self) {
        // An error means that it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
        if std::thread::panicking() {
            eprintln!("--- last lines of {}'s log\n{}---", self.name, self.log_tail());
        }
    }
}

/// A free port.
pub fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    listener.local_addr().expect("a bound socket has an address").port()
}

fn spawn(
    program: &Path,
    port: u16,
    dir: &Path,
    args: &[String],
    descriptors: Option<u32>,
) -> Child {
    let log = File::options().create(true).append(true).open(dir.join("log")).expect("a log file");
    let port = port.to_string();
    let own = ["--port", &port, "--bind", "127.0.0.1", "--save", ""].map(OsStr::new);
    let mut command = match descriptors {
        None => Command::new(program),
        // The shell replaces itself with the server, so the process id is the server's.
        Some(most) => {
            let mut shell = Command::new("sh");
            let script = r#"ulimit -n "$0" && exec "$@""#;
            shell.args(["-c", script, &most.to_string()]).arg(program);
            shell
        }
    };
    command
        .args(own)
        .args(args)
        .current_dir(dir)
        .stdin(Stdio::null())
        .stdout(log.try_clone().expect("a descriptor"))
        .stderr(log)
        .spawn()
        .unwrap_or_else(|e| panic!("cannot run {}: {e}", program.display()))
}

/// The state to wait for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ready {
    Answering,
    /// It has also loaded its data.
    Loaded,
}

/// Waits until the server answers a PING, or refuses it with an error: a server that requires a
/// password has started too.
fn wait_for_ping(mut child: Child, port: u16, ready: Ready) -> Result<Child, String> {
    for _ in 0..ASKS {
        match child.try_wait() {
            Ok(None) => {}
            Ok(Some(status)) => return Err(format!("ended with {status}")),
            Err(e) => return Err(e.to_string()),
        }
        let asked = Client::try_tcp(port).and_then(|mut client| {
            let answer = client.try_cmd(&["PING"])?.value;
            if ready == Ready::Loaded && is_loading(&answer) {
                return Err(std::io::ErrorKind::WouldBlock.into());
            }
            Ok(client.try_cmd(&["INFO", "server"])?.value)
        });
        match asked {
            Ok(info) if is_of_another(&info, child.id()) => {
                let _ = child.kill();
                let _ = child.wait();
                return Err(format!("another server has taken port {port}"));
            }
            Ok(_) => return Ok(child),
            Err(_) => {}
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    let _ = child.kill();
    let _ = child.wait();
    Err("no answer to PING".to_string())
}

fn is_loading(answer: &Value) -> bool {
    matches!(answer, Value::Error(text) if text.starts_with(b"LOADING"))
}

/// Whether this INFO comes from a process other than `pid`. A server that refuses INFO may be ours.
fn is_of_another(info: &Value, pid: u32) -> bool {
    let text = info.bytes().map(String::from_utf8_lossy).unwrap_or_default();
    let found = text.lines().find_map(|line| line.strip_prefix("process_id:"));
    found.is_some_and(|found| found.trim() != pid.to_string())
}

/// The last lines of the log; if it has a crash report, from its beginning.
fn tail(path: &Path) -> String {
    let log = fs::read(path).unwrap_or_default();
    let log = String::from_utf8_lossy(&log);
    let lines: Vec<&str> = log.lines().collect();
    let crash = lines.iter().position(|line| line.contains("BUG REPORT START"));
    let from = crash.unwrap_or(usize::MAX).min(lines.len().saturating_sub(LOG_LINES));
    lines[from..].iter().map(|line| format!("{line}\n")).collect()
}

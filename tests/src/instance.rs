//! A server with a configuration file that it may rewrite, which can be stopped and restarted on
//! the same port. Failover tests need this, because other servers know the server by its address.

use rustix::process::{Pid, Signal, kill_process};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use tempfile::TempDir;
use weft_testkit::client::Client;
use weft_testkit::server::free_port;

/// See the module documentation. The process is killed on drop.
pub struct Instance {
    program: PathBuf,
    /// Arguments after the name of the configuration file.
    args: Vec<String>,
    port: u16,
    folder: TempDir,
    child: Option<Child>,
    is_stopped: bool,
}

impl Instance {
    /// A server of `program` with these configuration lines, and with `args` after the file name.
    /// It is not started yet.
    pub fn new(program: &Path, lines: &[String], args: &[&str]) -> Instance {
        let folder = TempDir::with_prefix("weft-test-").expect("a temporary folder");
        let port = free_port();
        let own =
            format!("port {port}\nbind 127.0.0.1\ndir {}\nlogfile log\n", folder.path().display());
        let conf = [&own[..], &lines.join("\n"), "\n"].concat();
        std::fs::write(folder.path().join("server.conf"), conf).expect("a file");
        let args = args.iter().map(|arg| arg.to_string()).collect();
        let program = program.to_path_buf();
        Instance { program, args, port, folder, child: None, is_stopped: false }
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    /// The current text of the configuration file.
    pub fn conf(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("server.conf")).unwrap_or_default()
    }

    pub fn log(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("log")).unwrap_or_default()
    }

    /// The last lines of the server's log.
    pub fn log_tail(&self, lines: usize) -> String {
        let log = self.log();
        let skipped = log.lines().count().saturating_sub(lines);
        log.lines().skip(skipped).map(|line| format!("{line}\n")).collect()
    }

    /// Starts the server and waits until it answers and has loaded its data.
    #[track_caller]
    pub fn start(&mut self) {
        assert!(self.child.is_none(), "the server is already running");
        let out = File::create(self.folder.path().join("out")).expect("a file");
        let child = Command::new(&self.program)
            .arg(self.folder.path().join("server.conf"))
            .args(&self.args)
            .current_dir(self.folder.path())
            .stdin(Stdio::null())
            .stderr(out.try_clone().expect("a descriptor"))
            .stdout(out)
            .spawn();
        self.child = Some(child.expect("the program starts"));
        for _ in 0..1500 {
            if let Some(mut client) = self.try_client()
                && let Ok(pong) = client.try_cmd(&["PING"])
                && !pong.value.error().is_some_and(|error| error.starts_with("LOADING"))
            {
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        panic!("{} does not start:\n{}", self.program.display(), self.log());
    }

    /// Connects a client; `None` if the server does not listen.
    pub fn try_client(&self) -> Option<Client> {
        let mut client = Client::try_tcp(self.port).ok()?;
        client.set_timeout(Duration::from_secs(2));
        Some(client)
    }

    fn signal(&self, signal: Signal) {
        let child = self.child.as_ref().expect("the server is running");
        let pid = Pid::from_raw(child.id() as i32).expect("a process id");
        kill_process(pid, signal).expect("the process exists");
    }

    pub fn is_running(&self) -> bool {
        self.child.is_some() && !self.is_stopped
    }

    /// Sends SIGKILL and waits until the process has exited.
    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
        self.is_stopped = false;
    }

    /// Sends SIGTERM and waits until the process has exited.
    pub fn terminate(&mut self) {
        self.signal(Signal::TERM);
        if let Some(mut child) = self.child.take() {
            let _ = child.wait();
        }
    }

    /// Sends SIGSTOP: the process keeps its connections but does not run.
    pub fn stop(&mut self) {
        self.signal(Signal::STOP);
        self.is_stopped = true;
    }

    /// Sends SIGCONT.
    pub fn resume(&mut self) {
        self.signal(Signal::CONT);
        self.is_stopped = false;
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("---- {} on port {}", self.program.display(), self.port);
            eprint!("{}", self.log_tail(12));
        }
        self.kill();
    }
}

//! etcd for one test: some members on free loopback ports, with a folder that goes with the test.
//!
//! The program is found by `ETCD_BIN` (a program or its folder), else next to the peers, else on `PATH`. `.ci/peers`
//! puts Debian's next to the peers.

use crate::locate;
use crate::server::free_port;
use rustix::process::{Pid, Signal, kill_process};
use std::fs::File;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use tempfile::TempDir;

/// Ports are free when they are chosen. Another process may take one before etcd does.
const STARTS: usize = 3;
/// The number of looks at a condition, 20 ms apart: a minute.
const LOOKS: usize = 3000;
const LOOK: Duration = Duration::from_millis(20);

/// The members of an etcd. Killed on drop.
pub struct Etcd {
    program: PathBuf,
    dir: TempDir,
    members: Vec<Member>,
    args: Vec<String>,
    /// `http`, or `https` if the arguments are those of TLS.
    scheme: &'static str,
}

struct Member {
    child: Option<Child>,
    client_port: u16,
    peer_port: u16,
}

impl Etcd {
    /// Starts etcd and waits until every member answers; `None` if it isn't installed.
    ///
    /// # Panics
    /// If it doesn't start.
    #[track_caller]
    pub fn start(members: usize) -> Option<Etcd> {
        let etcd = Etcd::start_with(members, "http", &[])?;
        etcd.wait_until("every member has a leader", || {
            (0..members).all(|member| etcd.is_healthy(member))
        });
        Some(etcd)
    }

    /// Starts etcd with these arguments added; doesn't wait until it answers.
    #[track_caller]
    pub fn start_with(members: usize, scheme: &'static str, args: &[&str]) -> Option<Etcd> {
        let program = locate::etcd()?;
        for _ in 0..STARTS {
            let new = |_| Member { child: None, client_port: free_port(), peer_port: free_port() };
            let mut etcd = Etcd {
                program: program.clone(),
                dir: tempfile::tempdir().expect("a temporary folder"),
                members: (0..members).map(new).collect(),
                args: args.iter().map(|arg| arg.to_string()).collect(),
                scheme,
            };
            for member in 0..members {
                etcd.spawn(member);
            }
            if (0..members).all(|member| etcd.listens(member)) {
                return Some(etcd);
            }
        }
        panic!("etcd does not start");
    }

    /// `HOST:PORT` of the members, as an address of a store lists them.
    pub fn endpoints(&self) -> String {
        let all: Vec<String> =
            (0..self.members.len()).map(|member| self.endpoint(member)).collect();
        all.join(",")
    }

    pub fn endpoint(&self, member: usize) -> String {
        format!("127.0.0.1:{}", self.members[member].client_port)
    }

    fn spawn(&mut self, member: usize) {
        let url = |port: u16| format!("http://127.0.0.1:{port}");
        let peer = |(i, m): (usize, &Member)| format!("m{i}={}", url(m.peer_port));
        let cluster: Vec<String> = self.members.iter().enumerate().map(peer).collect();
        let Member { client_port, peer_port, .. } = self.members[member];
        let client = format!("{}://127.0.0.1:{client_port}", self.scheme);
        let name = format!("m{member}");
        let log = self.dir.path().join(format!("{name}.log"));
        let log = File::options().create(true).append(true).open(log).expect("a log");
        let child = Command::new(&self.program)
            .env_remove("ETCD_BIN")
            .args(["--name", &name, "--data-dir"])
            .arg(self.dir.path().join(&name))
            .args(["--listen-client-urls", &client, "--advertise-client-urls", &client])
            .args(["--listen-peer-urls", &url(peer_port)])
            .args(["--initial-advertise-peer-urls", &url(peer_port)])
            .args(["--initial-cluster", &cluster.join(",")])
            .args(&self.args)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .expect("etcd can be executed");
        self.members[member].child = Some(child);
    }

    /// Waits until a member accepts connections; false if it has ended.
    fn listens(&mut self, member: usize) -> bool {
        for _ in 0..LOOKS {
            let Member { child, client_port, .. } = &mut self.members[member];
            if TcpStream::connect(("127.0.0.1", *client_port)).is_ok() {
                return true;
            }
            let child = child.as_mut().expect("spawned");
            if child.try_wait().expect("a child").is_some() {
                return false;
            }
            std::thread::sleep(LOOK);
        }
        false
    }

    /// Whether a member answers and knows a leader.
    pub fn is_healthy(&self, member: usize) -> bool {
        let answer = self.request(member, "GET", "/health", "");
        answer.is_ok_and(|answer| answer.contains(r#""health":"true""#))
    }

    /// The leader, by what the member `asked` says; `None` if there is none or it doesn't answer.
    pub fn leader(&self, asked: usize) -> Option<usize> {
        let id = |member: usize| {
            let status = self.request(member, "POST", "/v3/maintenance/status", "{}").ok()?;
            let field = |name: &str| {
                let (_, rest) = status.split_once(&format!(r#""{name}":""#))?;
                rest.split_once('"').map(|(value, _)| value.to_string())
            };
            Some((field("member_id")?, field("leader").unwrap_or_default()))
        };
        let (_, leader) = id(asked)?;
        let is_running = |member: &usize| self.members[*member].child.is_some();
        (0..self.members.len())
            .filter(is_running)
            .find(|m| id(*m).is_some_and(|(own, _)| own == leader))
    }

    /// Forgets history up to a revision.
    #[track_caller]
    pub fn compact(&self, revision: u64) {
        let body = format!(r#"{{"revision":"{revision}","physical":true}}"#);
        self.post("/v3/kv/compaction", &body);
    }

    /// Sends a request of its JSON gateway to the first member.
    #[track_caller]
    pub fn post(&self, path: &str, body: &str) -> String {
        self.request(0, "POST", path, body).expect("etcd answers")
    }

    fn request(&self, member: usize, method: &str, path: &str, body: &str) -> io::Result<String> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.members[member].client_port))?;
        stream.set_read_timeout(Some(Duration::from_secs(10)))?;
        // Version 1.0: the answer ends with the connection.
        write!(stream, "{method} {path} HTTP/1.0\r\nContent-Length: {}\r\n\r\n{body}", body.len())?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        Ok(answer)
    }

    /// Sends a signal, such as SIGSTOP and SIGCONT.
    #[track_caller]
    pub fn signal(&self, member: usize, signal: Signal) {
        let child = self.members[member].child.as_ref().expect("it runs");
        let pid = Pid::from_raw(child.id().cast_signed()).expect("a process id");
        kill_process(pid, signal).expect("it runs");
    }

    /// Kills a member as a crash does.
    pub fn kill(&mut self, member: usize) {
        if let Some(mut child) = self.members[member].child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// Starts a killed member again, with its data and ports; waits until it accepts connections.
    #[track_caller]
    pub fn restart(&mut self, member: usize) {
        self.spawn(member);
        assert!(self.listens(member), "etcd does not start again:\n{}", self.log(member));
    }

    /// The log of a member.
    pub fn log(&self, member: usize) -> String {
        std::fs::read_to_string(self.dir.path().join(format!("m{member}.log"))).unwrap_or_default()
    }

    /// The process id of a running member.
    pub fn pid(&self, member: usize) -> Option<u32> {
        self.members[member].child.as_ref().map(Child::id)
    }

    /// Waits for a state.
    ///
    /// # Panics
    /// If it isn't reached in a minute.
    #[track_caller]
    pub fn wait_until(&self, state: &str, is_reached: impl Fn() -> bool) {
        for _ in 0..LOOKS {
            if is_reached() {
                return;
            }
            std::thread::sleep(LOOK);
        }
        panic!("not reached: {state}");
    }
}

impl Drop for Etcd {
    fn drop(&mut self) {
        for member in 0..self.members.len() {
            self.kill(member);
        }
    }
}

//! A temporary machine for one page: folders, ports and programs instead of those that the page names.
//!
//! A page says port 6379 and `/var/lib/weft`. The test runs it with a free port and a temporary folder, so texts are replaced
//! in commands and in shown output. Programs are found through small scripts, which add the port where a command relies on
//! the default one.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};
use tempfile::TempDir;
use weft_testkit::{locate, server::free_port};

/// Longer than any block takes: only a hang lasts this long.
const PATIENCE: Duration = Duration::from_secs(120);

/// Ports in the pages.
const PORTS: [u16; 6] = [6379, 6380, 6381, 7000, 7001, 9121];

/// Folders in the pages. Commands run in the first.
const FOLDERS: [&str; 6] =
    ["/var/lib/weft", "/etc/weft", "/etc/redis", "/backup", "/usr/local/bin", "/tmp/try"];

/// Finds a program by its name.
type Find = fn(&str) -> Option<PathBuf>;

/// Programs that may be missing, and where to look for them.
const OPTIONAL: [(&str, Find); 9] = [
    ("valkey-cli", locate::peer),
    ("valkey-server", locate::peer),
    ("valkey-sentinel", locate::peer),
    ("weft-benchmark", tool),
    ("weft-tune", tool),
    ("openssl", locate::program),
    ("curl", locate::program),
    ("jq", locate::program),
    ("taskset", locate::program),
];

/// A tool: in `WEFT_TOOLS`, or next to the server under test.
fn tool(name: &str) -> Option<PathBuf> {
    let dir = match std::env::var_os("WEFT_TOOLS") {
        Some(dir) => PathBuf::from(dir),
        None => locate::weft().parent()?.to_path_buf(),
    };
    Some(dir.join(name)).filter(|path| path.is_file())
}

pub struct Session {
    dir: TempDir,
    ports: BTreeMap<u16, u16>,
    servers: BTreeMap<u16, Child>,
    /// Process groups of commands, which may have left processes in the background.
    groups: Vec<Pid>,
}

/// The result of some commands.
pub struct Ran {
    pub succeeded: bool,
    pub output: String,
    pub errors: String,
}

impl Session {
    pub fn new() -> Session {
        let dir = TempDir::with_prefix("weft-guide-").expect("a temporary folder");
        let ports = PORTS.map(|port| (port, free_port())).into();
        let session = Session { dir, ports, servers: BTreeMap::new(), groups: Vec::new() };
        for folder in FOLDERS {
            fs::create_dir_all(session.place(folder)).expect("a folder");
        }
        let port = session.ports[&6379];
        session.script("weft-server", locate::weft(), &format!(
            "case \" $* \" in *' --port '* | *' --check-'* | *' --help '* | *' --version '* | *' --install-docs '*)\n\
             exec -a \"$(basename \"$0\")\" \"$program\" \"$@\";; esac\n\
             [[ $0 == */weft-server ]] || exec -a \"$(basename \"$0\")\" \"$program\" \"$@\"\n\
             exec \"$program\" \"$@\" --port {port}\n"
        ));
        for (name, find) in OPTIONAL {
            let Some(program) = find(name) else { continue };
            let default = match name {
                "valkey-cli" | "weft-benchmark" => format!("exec \"$program\" -p {port} \"$@\"\n"),
                "weft-tune" => format!(
                    "[[ ${{1:-}} != top ]] || exec \"$program\" \"$@\" -p {port}\nexec \"$program\" \"$@\"\n"
                ),
                _ => "exec \"$program\" \"$@\"\n".to_string(),
            };
            session.script(name, &program, &format!(
                "case \" $* \" in *' -p '* | *' --port '* | *' -u '*) exec \"$program\" \"$@\";; esac\n{default}"
            ));
        }
        session
    }

    fn script(&self, name: &str, program: &Path, body: &str) {
        let path = self.place("/usr/local/bin").join(name);
        let text = format!("#!/bin/bash\nprogram={}\n{body}", program.display());
        fs::write(&path, text).expect("a script");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("our file");
    }

    /// The temporary folder that replaces this one.
    fn place(&self, folder: &str) -> PathBuf {
        self.dir.path().join(folder.trim_start_matches('/'))
    }

    /// A program that the commands need and this machine lacks.
    pub fn missing(&self, text: &str) -> Option<&'static str> {
        let is_word = |c: char| c.is_alphanumeric() || c == '-' || c == '_';
        let mut words = text.split(|c| !is_word(c));
        words.find_map(|word| {
            let (name, find) = OPTIONAL.iter().find(|(name, _)| *name == word)?;
            find(name).is_none().then_some(*name)
        })
    }

    /// The text with the ports and folders of this session.
    pub fn replace(&self, text: &str) -> String {
        let mut replaced = String::new();
        let mut number = String::new();
        for c in text.chars().chain(['\0']) {
            if c.is_ascii_digit() {
                number.push(c);
                continue;
            }
            let port = number.parse().ok().and_then(|number: u16| self.ports.get(&number));
            replaced += &port.map_or(number.clone(), u16::to_string);
            number.clear();
            replaced.push(c);
        }
        replaced.pop();
        for folder in FOLDERS {
            replaced = replaced.replace(folder, &self.place(folder).to_string_lossy());
        }
        replaced
    }

    fn command(&self, text: &str) -> Command {
        let path = std::env::var("PATH").unwrap_or_default();
        let mut command = Command::new("bash");
        command
            .args(["-e", "-c", &self.replace(text)])
            .env("PATH", format!("{}:{path}", self.place("/usr/local/bin").display()))
            .env("HOME", self.dir.path())
            .env("CA_PASS", "pass-phrase")
            .env_remove("WEFT_SERVER")
            .current_dir(self.place(FOLDERS[0]))
            .stdin(Stdio::null())
            .process_group(0);
        command
    }

    /// Writes a file into the folder where commands run.
    pub fn write(&self, name: &str, text: &str) -> Result<(), String> {
        fs::write(self.place(FOLDERS[0]).join(name), self.replace(text)).map_err(|e| e.to_string())
    }

    /// Runs commands to their end. Their output goes to files, since a pipe stays open for processes in the background.
    pub fn run(&mut self, text: &str) -> Ran {
        let [output, errors] = ["output", "errors"].map(|name| self.dir.path().join(name));
        let mut command = self.command(text);
        command.stdout(File::create(&output).expect("a file"));
        command.stderr(File::create(&errors).expect("a file"));
        let mut child = command.spawn().expect("bash");
        let group = Pid::from_child(&child);
        self.groups.push(group);
        let begin = Instant::now();
        let succeeded = loop {
            if let Some(status) = child.try_wait().expect("our child") {
                break status.success();
            }
            if begin.elapsed() > PATIENCE {
                let _ = kill_process_group(group, Signal::KILL);
            }
            std::thread::sleep(Duration::from_millis(5));
        };
        let read = |path| String::from_utf8_lossy(&fs::read(path).expect("our file")).into_owned();
        Ran { succeeded, output: read(&output), errors: read(&errors) }
    }

    /// Starts a server; ends the one before it on the same port.
    pub fn serve(&mut self, text: &str) -> Result<(), String> {
        let words: Vec<&str> = text.split_whitespace().collect();
        let port = |option| words.windows(2).find(|pair| pair[0] == option).map(|pair| pair[1]);
        // A plain PING gets an answer from a TLS port, too: an alert.
        let named = port("--tls-port").or(port("--port"));
        let port = named.map_or(Ok(6379), str::parse).map_err(|e| format!("{named:?}: {e}"))?;
        let port = self.ports.get(&port).copied().unwrap_or(port);
        if let Some(mut old) = self.servers.remove(&port) {
            stop(&mut old);
        }
        let log = self.dir.path().join(format!("log-{port}"));
        let mut command = self.command(&format!("exec {text}"));
        command.stdout(File::create(&log).expect("a file"));
        command.stderr(Stdio::null());
        let child = command.spawn().expect("bash");
        self.servers.insert(port, child);
        let child = self.servers.get_mut(&port).expect("just inserted");
        let begin = Instant::now();
        while !answers(port) {
            let is_over = child.try_wait().expect("our child").is_some();
            if is_over || begin.elapsed() > PATIENCE {
                let log = fs::read_to_string(&log).unwrap_or_default();
                return Err(format!("the server doesn't answer:\n{log}"));
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(())
    }

    /// Starts a server with these directives, and ends it.
    pub fn configure(&mut self, text: &str) -> Result<(), String> {
        let file = self.dir.path().join("block.conf");
        // On the command line, since a block may name a port that is in use here.
        let port = free_port();
        fs::write(&file, self.replace(text)).expect("a file");
        let folder = tempfile::tempdir_in(self.dir.path()).expect("a folder");
        let result = self.serve(&format!(
            "weft-server {} --dir {} --port {port}",
            file.display(),
            folder.path().display()
        ));
        if let Some(mut server) = self.servers.remove(&port) {
            stop(&mut server);
        }
        result
    }

    /// Sends lines to the server on port 6379. Returns the first error reply.
    pub fn send(&self, text: &str) -> Result<(), String> {
        let mut client = weft_testkit::Client::tcp(self.ports[&6379]);
        for line in text.lines().map(|line| self.replace(line)) {
            let words: Vec<&str> = line.split_whitespace().collect();
            let reply = client.try_cmd(&words).map_err(|e| format!("{line}: {e:?}"))?.value;
            if let Some(error) = reply.error() {
                return Err(format!("{line}: {error}"));
            }
        }
        Ok(())
    }
}

/// Whether a server answers on this port and has loaded its files.
fn answers(port: u16) -> bool {
    let Ok(mut stream) = TcpStream::connect(("127.0.0.1", port)) else { return false };
    let mut reply = [0; 16];
    let _ = stream.set_read_timeout(Some(PATIENCE));
    let read = stream.write_all(b"PING\r\n").and_then(|()| stream.read(&mut reply));
    read.is_ok_and(|read| read > 0) && !reply.starts_with(b"-LOADING")
}

fn stop(server: &mut Child) {
    let _ = server.kill();
    let _ = server.wait();
}

impl Drop for Session {
    fn drop(&mut self) {
        self.servers.values_mut().for_each(stop);
        for group in &self.groups {
            let _ = kill_process_group(*group, Signal::KILL);
        }
    }
}

//! Four kinds of new users, each with the real binaries: a developer who replaces Redis on a
//! laptop, an operator with Debian's configuration, a performance engineer with the tools, and a
//! contributor.
//!
//! The server is `WEFT_SERVER`, or the one built with this test. The tools are in `WEFT_TOOLS`, or
//! were built with this test. Messages that the reference also prints are compared with it, if it
//! is installed.

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use tempfile::TempDir;
use weft_testkit::server::free_port;
use weft_testkit::{Client, Server, locate, skipped};

/// The settings of Debian's package, with placeholders for port and folder.
const DEBIAN: &str = include_str!("../data/debian.conf");

/// The configuration of the container image.
const CONTAINER: &str = include_str!("../../packaging/container.conf");

/// Longer than any step takes: only a hang lasts this long.
const PATIENCE: Duration = Duration::from_secs(30);

fn folder() -> TempDir {
    TempDir::with_prefix("weft-journey-").expect("a temporary folder")
}

/// Runs a program to its end in this folder.
fn run_in(dir: &Path, program: &Path, args: &[&str]) -> Output {
    let mut command = Command::new(program);
    command.args(args).current_dir(dir).stdin(Stdio::null());
    command.output().unwrap_or_else(|e| panic!("{}: {e}", program.display()))
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn until<T>(what: &str, mut find: impl FnMut() -> Option<T>) -> T {
    let begin = Instant::now();
    loop {
        if let Some(found) = find() {
            return found;
        }
        assert!(begin.elapsed() < PATIENCE, "timed out: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// A start that must fail with exit code 1. Returns both output streams together. A server that
/// starts is ended after ten seconds.
#[track_caller]
fn refused(dir: &Path, args: &[&str]) -> String {
    let server = locate::weft().to_str().expect("valid UTF-8");
    let output = run_in(dir, Path::new("timeout"), &[&["10", server], args].concat());
    let said = text(&output.stdout) + &text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{args:?}: {said}");
    said
}

// The developer with a laptop.

#[test]
fn modes_of_valkey_cli_work() {
    let Some(cli) = locate::peer("valkey-cli") else {
        return skipped::note("modes_of_valkey_cli_work", "no valkey-cli in PEERS_BIN or PATH");
    };
    let server = Server::weft(&["--maxmemory-policy", "allkeys-lfu"]);
    let mut client = server.client();
    for n in 0..300 {
        client.ok(&["SET", &format!("string:{n}"), &"x".repeat(n + 1)]);
    }
    client.cmd(&["RPUSH", "list", "a", "b", "c"]);
    client.cmd(&["HSET", "hash", "f", "v"]);
    for _ in 0..100 {
        client.cmd(&["GET", "string:7"]);
    }
    let port = server.port().to_string();
    let ask = |args: &[&str]| {
        let output = run_in(server.dir(), &cli, &[&["-p", &port], args].concat());
        let said = text(&output.stdout);
        assert!(output.status.success(), "{args:?}: {said}{}", text(&output.stderr));
        assert!(!said.contains("ERR") && !text(&output.stderr).contains("ERR"), "{args:?}: {said}");
        said
    };
    for (mode, expected) in [
        (&["--bigkeys"][..], "Biggest string found"),
        (&["--memkeys"], "Sampled 302 keys"),
        (&["--hotkeys"], "string:7"),
        (&["--scan", "--pattern", "string:29*"], "string:299"),
        (&["--csv", "LRANGE", "list", "0", "-1"], "\"a\",\"b\",\"c\""),
        (&["-3", "--json", "HGETALL", "hash"], "{\"f\":\"v\"}"),
        (&["-r", "2", "PING"], "PONG\nPONG"),
        (&["INFO", "keyspace"], "db0:keys=302"),
    ] {
        let said = ask(mode);
        assert!(said.contains(expected), "{mode:?}: {said}");
    }
    // Commands of cluster mode get their own errors, not those of unknown commands.
    assert_eq!(client.cmd(&["READONLY"]).text(), "OK");
    assert_eq!(client.cmd(&["READWRITE"]).text(), "OK");
    for cluster in [&["CLUSTER", "INFO"][..], &["ASKING"]] {
        let reply = client.try_cmd(cluster).expect("a reply").value;
        let expected = "ERR This instance has cluster support disabled";
        assert_eq!(reply.error().as_deref(), Some(expected), "{cluster:?}: {reply}");
    }
}

#[test]
fn misspelled_option_is_refused_with_a_suggestion() {
    let dir = folder();
    for (args, meant) in [
        (&["--prot", "7000"][..], "Did you mean '--port'?"),
        (&["--port=7000"], "Did you mean '--port 7000'?"),
        (&["-p", "7000"], "Did you mean '--port'?"),
        (&["--maxmemory-polcy", "noeviction"], "Did you mean '--maxmemory-policy'?"),
    ] {
        let said = refused(dir.path(), args);
        assert!(said.ends_with(&format!("{meant}\n")), "{args:?}: {said}");
        assert!(said.contains("Reading the command line"), "{args:?}: {said}");
        assert!(!said.contains("at line"), "a command line has no lines: {said}");
    }
    let help = run_in(dir.path(), locate::weft(), &["--help"]);
    assert!(help.status.success() && text(&help.stdout).contains("Usage: weft-server"));
}

// The operator.

#[test]
fn debian_configuration_starts_a_daemon() {
    let dir = folder();
    let port = free_port();
    let here = dir.path().to_str().expect("valid UTF-8");
    let file = dir.path().join("redis.conf");
    let config = DEBIAN.replace("@PORT@", &port.to_string()).replace("@DIR@", here);
    fs::write(&file, config).expect("a file");
    let output = run_in(dir.path(), locate::weft(), &[file.to_str().expect("valid UTF-8")]);
    let log = || fs::read_to_string(dir.path().join("redis-server.log")).unwrap_or_default();
    assert!(output.status.success(), "{}{}", text(&output.stderr), log());
    assert!(output.stdout.is_empty() && output.stderr.is_empty(), "a daemon is quiet: {output:?}");
    // The process that was started has exited; the daemon is another process.
    let pid = until("a pid file", || {
        let text = fs::read_to_string(dir.path().join("redis-server.pid")).ok()?;
        Pid::from_raw(text.trim().parse().ok()?)
    });
    let _end = KillOnDrop(pid);
    let mut client = until("the daemon answers", || Client::try_tcp(port).ok());
    let info = client.cmd(&["INFO", "server"]).text();
    let field = format!("process_id:{}\r", pid.as_raw_nonzero());
    assert!(info.contains(&field), "{field}: {info}");
    client.ok(&["SET", "k", "v"]);
    assert_eq!(client.cmd(&["CONFIG", "GET", "daemonize"]).items()[1].text(), "yes");
    let process = weft_testkit::process::Process(pid.as_raw_nonzero().get() as u32);
    let threads = process.thread_names().join(" ");
    assert!(threads.contains("jemalloc"), "a thread returns freed memory: {threads}");
    client.ok(&["CONFIG", "SET", "appendonly", "yes"]);
    let manifest = dir.path().join("appendonlydir/appendonly.aof.manifest");
    until("the AOF exists", || manifest.exists().then_some(()));
    client.ok(&["CONFIG", "SET", "appendonly", "no"]);
    kill_process(pid, Signal::TERM).expect("our daemon");
    until("the daemon has exited", || test_kill_process(pid).is_err().then_some(()));
    assert!(log().contains("ready to exit, bye bye"), "{}", log());
    assert!(!dir.path().join("redis-server.pid").exists());
    assert!(dir.path().join("dump.rdb").exists(), "the file of the last save: {}", log());
}

/// The configuration of the container image, except for the folder, which exists only there.
#[test]
fn container_configuration_starts() {
    let dir = folder();
    let here = dir.path().to_str().expect("valid UTF-8");
    let file = dir.path().join("container.conf");
    fs::write(&file, CONTAINER.replace("dir /data", &format!("dir {here}"))).expect("a file");
    let server = Server::weft(&["--include", file.to_str().expect("valid UTF-8")]);
    let mut client = server.client();
    assert_eq!(client.cmd(&["CONFIG", "GET", "bind"]).items()[1].text(), "* -::*");
    assert_eq!(client.cmd(&["CONFIG", "GET", "protected-mode"]).items()[1].text(), "no");
    assert_eq!(client.cmd(&["CONFIG", "GET", "dir"]).items()[1].text(), here);
}

/// Kills a daemon, which is not a child process, by its process id.
struct KillOnDrop(Pid);

impl Drop for KillOnDrop {
    fn drop(&mut self) {
        let _ = kill_process(self.0, Signal::KILL);
    }
}

#[test]
fn protection_takes_effect_at_the_start() {
    let dir = folder();
    for (protection, reason) in [
        (&["--aclfile", "users.acl"][..], "users.acl': No such file or directory"),
        (&["--user", "alice", "+nosuch"], "Unknown command or category name in ACL"),
        (&["--tls-port", "1"], "tls-cert-file"),
    ] {
        let port = free_port().to_string();
        let said = refused(dir.path(), &[&["--port", &port], protection].concat());
        assert!(said.contains(reason), "{protection:?}: {said}");
    }
    for protection in [&["--requirepass", "sesame"][..], &["--user", "default", "off"]] {
        let closed = Server::weft(protection);
        let reply = closed.client().try_cmd(&["GET", "k"]).expect("a reply").value;
        assert_eq!(reply.error().as_deref(), Some("NOAUTH Authentication required."));
    }
}

#[test]
fn start_failures_are_logged_once_with_the_path() {
    let dir = folder();
    let log = dir.path().join("weft.log");
    let log_arg = log.to_str().expect("valid UTF-8");
    let taken = Server::weft(&[]);
    let port = taken.port().to_string();
    let cases: &[(&[&str], &str)] = &[
        (&["--port", &port], "Address already in use"),
        (&["--port", "0", "--unixsocket", "/nonexistent/socket"], "/nonexistent/socket"),
        (&["--dir", "/nonexistent"], "/nonexistent"),
        (&["--port", "0"], "not listen anywhere"),
        (&["--aclfile", "/nonexistent/users.acl"], "/nonexistent/users.acl"),
        (&["--nosuchdirective", "1"], "nosuchdirective"),
    ];
    for (args, expected) in cases {
        let _ = fs::remove_file(&log);
        let said = refused(dir.path(), &[&["--logfile", log_arg], *args].concat());
        let logged = fs::read_to_string(&log).unwrap_or_default();
        assert!(said.contains(expected), "{args:?} on the terminal: {said}");
        let lines = logged.lines().filter(|line| line.contains(expected)).count();
        assert_eq!(lines, 1, "{args:?} in the log: {logged}");
    }
    // Without a log file the log is printed, and no message is repeated.
    let said = refused(dir.path(), &["--port", &port]);
    assert_eq!(said.matches("Address already in use").count(), 1, "{said}");
    let said = refused(dir.path(), &["--logfile", "/nonexistent/weft.log"]);
    assert!(said.contains("'/nonexistent/weft.log': No such file or directory"), "{said}");
}

/// Runs the server as a user that can't raise limits. Returns its exit code if it exited, its log,
/// and the time.
fn with_few_descriptors(most: u64, args: &[&str]) -> (Option<i32>, String, Duration) {
    let dir = folder();
    let mut command = Command::new("sh");
    let script = format!("ulimit -n {most} && exec \"$0\" \"$@\"");
    command.args(["-c", &script]).arg(locate::weft()).args(args).args(["--logfile", "log"]);
    command.current_dir(dir.path()).stdin(Stdio::null()).stdout(Stdio::null());
    if rustix::process::geteuid().is_root() {
        fs::set_permissions(dir.path(), std::os::unix::fs::PermissionsExt::from_mode(0o777))
            .expect("our folder");
        command.uid(65534).gid(65534);
    }
    let begin = Instant::now();
    let mut child = command.stderr(Stdio::null()).spawn().expect("a shell");
    let log = || fs::read_to_string(dir.path().join("log")).unwrap_or_default();
    let code =
        until("the server is ready or has exited", || match child.try_wait().expect("our child") {
            Some(status) => Some(status.code()),
            None => log().contains("Ready to accept").then_some(None),
        });
    let took = begin.elapsed();
    let _ = child.kill();
    let _ = child.wait();
    (code, log(), took)
}

#[test]
fn low_descriptor_limits_are_handled() {
    if !can_be_run_by_others(locate::weft()) {
        return skipped::note(
            "low_descriptor_limits_are_handled",
            "the server can't be run by another user",
        );
    }
    let port = free_port().to_string();
    // After the log line "Exiting." the server must exit.
    let (code, log, _) = with_few_descriptors(20, &["--port", &port]);
    assert_eq!(code, Some(1), "{log}");
    assert_eq!(log.matches("ulimit -n' of 20 is not enough").count(), 1, "{log}");
    assert!(log.trim_end().ends_with("Exiting."), "{log}");
    let (code, log, _) = with_few_descriptors(1000, &["--port", &port]);
    assert_eq!(code, None, "{log}");
    assert!(log.contains("maxclients has been reduced to"), "{log}");
    // Billions of clients must not cause hundreds of millions of system calls.
    let (code, log, took) =
        with_few_descriptors(1000, &["--port", &port, "--maxclients", "4294967295"]);
    assert_eq!(code, None, "{log}");
    assert!(log.contains("maxclients has been reduced to"), "{log}");
    assert!(took < PATIENCE, "{took:?}");
}

/// Whether other users may run the program.
fn can_be_run_by_others(program: &Path) -> bool {
    if !rustix::process::geteuid().is_root() {
        return true;
    }
    let mut probe = Command::new(program);
    probe.arg("--version").uid(65534).gid(65534).stdout(Stdio::null()).stderr(Stdio::null());
    probe.status().is_ok_and(|status| status.success())
}

// The performance engineer.

/// A tool: in `WEFT_TOOLS`, or next to the server under test.
fn tool(name: &str) -> Option<PathBuf> {
    let dir = match std::env::var_os("WEFT_TOOLS") {
        Some(dir) => PathBuf::from(dir),
        None => locate::weft().parent().expect("a parent folder").to_path_buf(),
    };
    let path = dir.join(name);
    if !path.is_file() {
        skipped::note_here(&format!("no {name} in WEFT_TOOLS or next to the server"));
        return None;
    }
    Some(path)
}

#[test]
fn tools_work_with_a_server() {
    let (Some(benchmark), Some(tune)) = (tool("weft-benchmark"), tool("weft-tune")) else { return };
    let server = Server::weft(&[]);
    let port = server.port().to_string();
    let output = run_in(
        server.dir(),
        &benchmark,
        &["-p", &port, "-t", "get,set", "-n", "2000", "-c", "4", "-P", "4", "--csv"],
    );
    let said = text(&output.stdout);
    assert!(output.status.success(), "{said}{}", text(&output.stderr));
    for test in ["\"GET\"", "\"SET\""] {
        let rows = said.lines().filter(|line| line.starts_with(test)).count();
        assert_eq!(rows, 1, "{test}: {said}");
    }
    let output = run_in(server.dir(), &tune, &["topology"]);
    assert!(output.status.success() && !output.stdout.is_empty(), "{}", text(&output.stderr));
    // The exit code of doctor is its finding; both are valid here.
    let output = run_in(server.dir(), &tune, &["doctor"]);
    assert!(matches!(output.status.code(), Some(0 | 1)), "{}", text(&output.stderr));
    assert!(!output.stdout.is_empty());
}

// The contributor, and packagers.

#[test]
fn manual_pages_and_completions_are_valid() {
    let dir = folder();
    let share = dir.path().join("share");
    let share_arg = share.to_str().expect("valid UTF-8");
    let mut written = vec![(locate::weft().to_path_buf(), vec!["--install-docs", share_arg])];
    if let Some(benchmark) = tool("weft-benchmark") {
        written.push((benchmark, vec!["--install-docs", share_arg]));
    }
    if let Some(tune) = tool("weft-tune") {
        written.push((tune, vec!["install-docs", share_arg]));
    }
    for (program, args) in &written {
        let output = run_in(dir.path(), program, args);
        assert!(output.status.success(), "{}", text(&output.stderr));
        let paths: Vec<PathBuf> = text(&output.stdout).lines().map(PathBuf::from).collect();
        assert!(paths.len() >= 4 && paths.iter().all(|path| path.is_file()), "{paths:?}");
    }
    let page = share.join("man/man5/weft.conf.5");
    let conf = fs::read_to_string(&page).expect("a page");
    assert!(conf.contains(".B maxmemory 0") && conf.contains("NO EFFECT YET"));
    let bash = share.join("bash-completion/completions/weft-server");
    let script = format!(
        ". {} && COMP_WORDS=(weft-server --maxmemory-policy allkeys-l) COMP_CWORD=2 && _weft_server \
         && echo \"${{COMPREPLY[@]}}\"",
        bash.display()
    );
    let output = run_in(dir.path(), Path::new("/bin/bash"), &["-c", &script]);
    assert_eq!(text(&output.stdout), "allkeys-lru allkeys-lfu\n", "{}", text(&output.stderr));
    if let Some(man) = locate::program("man") {
        for entry in walk(&share.join("man")) {
            let page = entry.to_str().expect("valid UTF-8");
            let output = run_in(dir.path(), &man, &["--warnings", "-l", page]);
            assert!(output.status.success() && output.stderr.is_empty(), "{page}: {output:?}");
            assert!(text(&output.stdout).contains("NAME"), "{page}");
        }
    }
}

/// All files in a folder and its subfolders.
fn walk(dir: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir).expect("a folder").map(|entry| entry.expect("an entry").path());
    entries.flat_map(|path| if path.is_dir() { walk(&path) } else { vec![path] }).collect()
}

/// Both servers refuse the same invalid starts, and our message contains the reference's message.
#[test]
fn reference_refuses_the_same_starts() {
    let Some(valkey) = locate::valkey() else {
        return skipped::note_here("no valkey-server in PEERS_BIN or PATH");
    };
    let dir = folder();
    for args in [
        &["--prot", "7000"][..],
        &["--port", "x"],
        &["--dir", "/nonexistent"],
        &["--maxmemory", "1gx"],
    ] {
        let theirs = run_in(dir.path(), &valkey, args);
        assert_eq!(theirs.status.code(), Some(1), "{args:?}");
        let reason = text(&theirs.stderr).lines().last().unwrap_or_default().to_string();
        let ours = refused(dir.path(), args);
        assert!(ours.contains(&reason), "{args:?}: {reason}: {ours}");
    }
}

//! Planted passwords appear in no log, MONITOR, SLOWLOG, COMMANDLOG, INFO, CLIENT LIST or crash report.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use weft_testkit::server::free_port;
use weft_testkit::{Client, Server};
use weft_tests::scene::{client, send, until};

/// Part of every planted password.
const MARK: &str = "planted";

/// Requests with a password, right and wrong ones.
const REQUESTS: &[&[&str]] = &[
    &["AUTH", "planted-1"],
    &["AUTH", "default", "planted-1"],
    &["AUTH", "planted-wrong"],
    &["AUTH", "someone", "planted-wrong"],
    &["AUTH", "default", "planted-1", "planted-3"],
    &["HELLO", "3", "AUTH", "default", "planted-1"],
    &["HELLO", "2", "SETNAME", "auth", "AUTH", "default", "planted-wrong"],
    &["HELLO", "2", "AUTH", "default", "planted-1", "SETNAME", "n"],
    &["HELLO", "9", "AUTH", "default", "planted-1"],
    &["ACL", "SETUSER", "u", "on", ">planted-2", "<planted-3", "+get"],
    &["ACL", "SETUSER", "u", "nosuch", ">planted-2"],
    &["ACL", "SETUSER", "u", "#planted"],
    &["CONFIG", "SET", "requirepass", "planted-1"],
    &["config", "set", "hz", "11", "REQUIREPASS", "planted-1"],
    &["CONFIG", "SET", "masterauth", "planted-4", "tls-key-file-pass", "planted-5"],
    &["CONFIG", "SET", "primaryauth", "planted-4", "tls-client-key-file-pass", "planted-5"],
    &["CONFIG", "SET", "requirepass", "planted-1", "nosuch", "1"],
    &["CONFIG", "SET", "nosuch", "1", "requirepass", "planted-1"],
    &["CONFIG", "SET", "hz", "10", "requirepass"],
    &["MULTI"],
    &["CONFIG", "SET", "requirepass", "planted-1"],
    &["AUTH", "planted-1"],
    &["EXEC"],
    &["AUTH", "planted-1"],
    &["EVAL", "return redis.pcall('auth', ARGV[1])", "0", "x"],
];

fn migrate(port: &str) -> [Vec<&str>; 4] {
    let with = |option: &[&'static str]| {
        let start = ["MIGRATE", "127.0.0.1", port, "k", "0", "100", "COPY"];
        [&start[..], option].concat()
    };
    [
        with(&["AUTH", "planted-6"]),
        with(&["AUTH2", "user", "planted-6"]),
        with(&["auth2", "planted-6"]),
        with(&["REPLACE", "AUTH", "planted-6", "nosuch"]),
    ]
}

fn outputs(admin: &mut Client) -> Vec<(&'static str, String)> {
    let asks: [(&str, &[&str]); 10] = [
        ("SLOWLOG", &["SLOWLOG", "GET", "-1"]),
        ("COMMANDLOG slow", &["COMMANDLOG", "GET", "-1", "slow"]),
        ("COMMANDLOG large-request", &["COMMANDLOG", "GET", "-1", "large-request"]),
        ("COMMANDLOG large-reply", &["COMMANDLOG", "GET", "-1", "large-reply"]),
        ("INFO", &["INFO", "everything"]),
        ("CLIENT LIST", &["CLIENT", "LIST"]),
        ("LATENCY", &["LATENCY", "DOCTOR"]),
        ("MEMORY", &["MEMORY", "STATS"]),
        ("ACL LOG", &["ACL", "LOG"]),
        ("COMMAND", &["COMMAND", "DOCS", "AUTH"]),
    ];
    asks.iter()
        .map(|(name, ask)| {
            let reply = admin.try_cmd(ask).expect("a reply");
            (*name, String::from_utf8_lossy(&reply.raw).into_owned())
        })
        .collect()
}

#[test]
fn passwords_appear_in_no_output() {
    let mut server = Server::weft(&[
        "--requirepass",
        "planted-1",
        "--masterauth",
        "planted-4",
        "--loglevel",
        "debug",
        "--slowlog-log-slower-than",
        "0",
        "--slowlog-max-len",
        "1000",
        "--commandlog-request-larger-than",
        "0",
        "--commandlog-reply-larger-than",
        "0",
        "--enable-debug-command",
        "yes",
        "--acllog-max-len",
        "1000",
        "--hide-user-data-from-log",
        "no",
        "--set-proc-title",
        "yes",
    ]);
    let mut admin = client(&server);
    admin.ok(&["AUTH", "planted-1"]);
    let mut monitor = client(&server);
    monitor.ok(&["AUTH", "planted-1"]);
    monitor.ok(&["MONITOR"]);
    let mut user = client(&server);
    user.ok(&["AUTH", "planted-1"]);
    user.ok(&["SET", "k", "v"]);
    for request in REQUESTS {
        user.try_cmd(request).expect("a reply");
    }
    let port = free_port().to_string();
    for request in migrate(&port) {
        user.try_cmd(&request).expect("a reply");
    }
    // A primary that doesn't exist, with masterauth.
    user.ok(&["REPLICAOF", "127.0.0.1", &port]);
    until("the log says so", || server.log().contains("onnecting to PRIMARY"));
    user.ok(&["REPLICAOF", "NO", "ONE"]);
    user.ok(&["SET", "last", "v"]);
    let mut shown = Vec::new();
    let mut lines = String::new();
    while !lines.contains("\"last\"") {
        lines += &monitor.read_reply().expect("a line").value.text();
        lines.push('\n');
    }
    assert!(lines.to_lowercase().contains("\"migrate\""), "{lines}");
    shown.push(("MONITOR", lines));
    shown.extend(outputs(&mut admin));
    send(&mut admin, &["DEBUG", "SEGFAULT"]);
    server.wait();
    let log = server.log();
    assert!(log.contains("BUG REPORT"), "no crash report: {log}");
    shown.push(("the log", log));
    for (name, text) in &shown {
        let found: Vec<&str> = text.lines().filter(|line| line.contains(MARK)).collect();
        assert!(found.is_empty(), "{name}: {found:#?}");
    }
    let slow = &shown[1].1;
    assert!(slow.contains("(redacted)") && slow.contains("AUTH2"), "{slow}");
}

/// A file with passwords stays readable for its owner only, also if it was removed meanwhile.
#[test]
fn rewritten_configuration_is_private() {
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().join("weft.conf");
    fs::write(&path, "requirepass planted-1\n").expect("a file");
    fs::set_permissions(&path, PermissionsExt::from_mode(0o600)).expect("its owner");
    let program = weft_testkit::locate::weft();
    let port = free_port();
    let mut child = std::process::Command::new(program)
        .arg(&path)
        .args(["--port", &port.to_string(), "--dir", dir.path().to_str().expect("valid UTF-8")])
        .stdout(std::process::Stdio::null())
        .spawn()
        .expect("it runs");
    until("it listens", || Client::try_tcp(port).is_ok());
    let mut admin = Client::tcp(port);
    admin.ok(&["AUTH", "planted-1"]);
    let mode = || fs::metadata(&path).expect("a file").permissions().mode() & 0o777;
    admin.ok(&["CONFIG", "REWRITE"]);
    assert_eq!(mode(), 0o600);
    fs::remove_file(&path).expect("it was there");
    admin.ok(&["CONFIG", "REWRITE"]);
    assert_eq!(mode(), 0o600);
    assert!(fs::read_to_string(&path).expect("a file").contains("planted-1"));
    send(&mut admin, &["SHUTDOWN", "NOSAVE"]);
    child.wait().expect("it ends");
}

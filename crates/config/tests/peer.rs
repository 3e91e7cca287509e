//! The same configuration commands to this crate and to a real Valkey 9.1.
//!
//! Needs `valkey-server`, in the directory that PEERS_BIN names or on PATH;
//! without it the tests say so and pass. Differences that are meant are listed
//! here with their reasons.

mod common;

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use common::set;
use weft_config::{Config, Id, LoadArgs, LoadError};

/// Answered by this server only: dropped by the reference, kept for old files.
const OURS: [&str; 22] = [
    "aof-checksum",
    "aof-zeros-ahead",
    "aof-load-corrupt-tail-max-size",
    "dynamic-hz",
    "gopher-enabled",
    "io-threads-do-reads",
    "lua-replicate-commands",
    "metrics-bind",
    "metrics-port",
    "sanitize-dump-payload",
    "snapshot-max-write-delay",
    "snapshot-memory-limit",
    "unauthenticated-client-timeout",
    "unauthenticated-clients-percent",
    "cluster-store",
    "cluster-store-ca-cert-file",
    "cluster-store-cert-file",
    "cluster-store-key-file",
    "cluster-store-outage",
    "cluster-store-password",
    "cluster-store-user",
    "cluster-write-quorum",
];

/// Defaults that differ.
const OTHER_DEFAULTS: [(&str, &str); 7] = [
    ("bind", "only this machine here"),
    ("io-threads", "auto here"),
    ("syslog-ident", "the name of the server"),
    // Set to start the peer out of everybody's way:
    ("dir", ""),
    ("port", ""),
    ("save", ""),
    ("unixsocket", ""),
];

/// Directives whose values are not compared, because the reference does more
/// than remember them, or is meant to differ.
const NOT_COMPARED: [(&str, &str); 13] = [
    ("io-threads", "other bounds, and auto"),
    ("dynamic-hz", "accepted with any value by the reference"),
    ("io-threads-do-reads", "likewise"),
    ("lua-replicate-commands", "likewise"),
    ("sanitize-dump-payload", "likewise"),
    ("locale-collate", "asks the system's locales"),
    ("bind", "binds"),
    ("rdma-bind", "the peer is built without RDMA"),
    ("rdma-port", "likewise"),
    ("maxclients", "asks for open files"),
    ("requirepass", "locks this test out"),
    ("dir", "depends on the file system"),
    ("repl-backlog-size", "raised to a minimum where replication applies it"),
];

/// Values that most directives refuse, each in its way.
const VALUES: [&str; 14] = [
    "",
    "notanumber!",
    "-99999999999999",
    "99999999999999",
    "1.5",
    "1x",
    "yes no",
    "101%",
    "-1",
    "07",
    "1 2 3",
    "5 5",
    "KEA",
    "normal 1 1 1x",
];

fn valkey_server() -> Option<PathBuf> {
    let named = std::env::var_os("PEERS_BIN").map(PathBuf::from);
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut directories = named.into_iter().chain(std::env::split_paths(&path).collect::<Vec<_>>());
    let found = directories.find_map(|directory| {
        let program = directory.join("valkey-server");
        program.is_file().then_some(program)
    });
    if found.is_none() {
        weft_testkit::skipped::note_here("no valkey-server in PEERS_BIN or PATH");
    }
    found
}

/// A Valkey on a Unix socket in a directory of its own.
struct Peer {
    child: Child,
    connection: BufReader<UnixStream>,
    _directory: tempfile::TempDir,
}

impl Peer {
    fn start() -> Option<Peer> {
        let program = valkey_server()?;
        let directory = tempfile::tempdir().unwrap();
        let socket = directory.path().join("socket");
        let mut child = Command::new(program)
            .args(["--port", "0", "--save", "", "--dir"])
            .arg(directory.path())
            .arg("--unixsocket")
            .arg(&socket)
            .stdout(Stdio::null())
            .stdin(Stdio::null())
            .spawn()
            .unwrap();
        loop {
            if let Ok(stream) = UnixStream::connect(&socket) {
                let connection = BufReader::new(stream);
                return Some(Peer { child, connection, _directory: directory });
            }
            assert!(child.try_wait().unwrap().is_none(), "the peer did not start");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Sends a command; the reply is its strings, or one string.
    fn send(&mut self, words: &[&str]) -> Vec<String> {
        let mut request = format!("*{}\r\n", words.len());
        for word in words {
            request += &format!("${}\r\n{word}\r\n", word.len());
        }
        self.connection.get_mut().write_all(request.as_bytes()).unwrap();
        self.reply()
    }

    fn reply(&mut self) -> Vec<String> {
        let mut line = String::new();
        self.connection.read_line(&mut line).unwrap();
        let line = line.trim_end();
        let length = || line[1..].parse::<usize>().unwrap();
        match line.as_bytes()[0] {
            b'*' => (0..length()).flat_map(|_| self.reply()).collect(),
            b'$' => {
                let mut text = vec![0; length() + 2];
                self.connection.read_exact(&mut text).unwrap();
                text.truncate(length());
                vec![String::from_utf8(text).unwrap()]
            }
            _ => vec![line[1..].to_string()],
        }
    }

    fn get(&mut self, pattern: &str) -> BTreeMap<String, String> {
        let reply = self.send(&["CONFIG", "GET", pattern]);
        reply.as_chunks::<2>().0.iter().cloned().map(|[name, value]| (name, value)).collect()
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn answers(config: &Config, pattern: &str) -> BTreeMap<String, String> {
    let text = |bytes| String::from_utf8(bytes).unwrap();
    config.get(&[pattern.as_bytes()]).into_iter().map(|(n, value)| (n, text(value))).collect()
}

fn listed(list: &[(&str, &str)], name: &str) -> bool {
    list.iter().any(|(listed, _)| *listed == name)
}

#[test]
fn the_same_directives_with_the_same_defaults() {
    let Some(mut peer) = Peer::start() else { return };
    let mut theirs = peer.get("*");
    let mut ours = answers(&Config::default(), "*");
    for name in OURS {
        assert!(ours.remove(name).is_some() && !theirs.contains_key(name), "{name}");
    }
    for (name, _) in OTHER_DEFAULTS {
        assert_ne!(ours.remove(name).unwrap(), theirs.remove(name).unwrap(), "{name}");
    }
    let differ = |name: &&String| ours.get(*name) != theirs.get(*name);
    let differing: Vec<&String> = ours.keys().chain(theirs.keys()).filter(differ).collect();
    assert!(differing.is_empty(), "{differing:?}");
    // Hidden ones too.
    let hidden = |id: &Id| id.directive().flags.contains(weft_config::Flags::HIDDEN);
    for id in Id::all().filter(hidden) {
        let theirs = peer.get(id.name());
        let dropped = matches!(id.directive().status, weft_config::Status::Obsolete(_));
        assert!(dropped || !theirs.is_empty(), "{}", id.name());
        if !theirs.is_empty() {
            assert_eq!(answers(&Config::default(), id.name()), theirs);
        }
    }
}

#[test]
fn config_set_answers_the_same() {
    let Some(mut peer) = Peer::start() else { return };
    let mut config = Config::default();
    let names: Vec<String> = peer.get("*").into_keys().collect();
    assert!(names.len() > 230);
    let mut compared = 0;
    for name in names.iter().filter(|name| !listed(&NOT_COMPARED, name)) {
        for value in VALUES {
            let theirs = peer.send(&["CONFIG", "SET", name, value]).remove(0);
            let ours = match common_set(&mut config, name, value) {
                Ok(()) => "OK".to_string(),
                Err(reply) => reply,
            };
            assert_eq!(ours, theirs, "CONFIG SET {name} '{value}'");
            if theirs == "OK" {
                assert_eq!(answers(&config, name), peer.get(name), "{name} '{value}'");
            }
            compared += 1;
        }
    }
    assert!(compared > 3000);
}

/// CONFIG SET by a client that may not change protected directives.
fn common_set(config: &mut Config, name: &str, value: &str) -> Result<(), String> {
    let flags = Id::from_name(name.as_bytes()).unwrap().directive().flags;
    if flags.contains(weft_config::Flags::PROTECTED) {
        let permit = weft_config::Permit { protected: false, loading: false };
        let pairs: [(&[u8], &[u8]); 1] = [(name.as_bytes(), value.as_bytes())];
        return match config.set(&pairs, permit, &mut |_, _| Ok(())) {
            Err(weft_config::SetError::Refused(reply)) => Err(reply),
            other => panic!("{other:?}"),
        };
    }
    set(config, &[(name, value)])
}

/// Ends a command line that must not start a server. Twice, because the option
/// before it may take the first for its arguments.
const UNKNOWN: [&str; 4] = ["--nosuchdirective", "1", "--nosuchdirective", "1"];

/// The line and the reason with which the reference refuses a command line.
fn refusal(program: &PathBuf, directory: &std::path::Path, arguments: &[&str]) -> (String, String) {
    let output = Command::new(program)
        .args(arguments)
        .args(UNKNOWN)
        .current_dir(directory)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    let mut lines = text.lines().rev();
    let reason = lines.next().unwrap_or_default().to_string();
    let line = lines.next().unwrap_or_default();
    let line = line.strip_prefix(">>> '").and_then(|line| line.strip_suffix('\''));
    (line.unwrap_or_else(|| panic!("{arguments:?}: {text}")).to_string(), reason)
}

/// The same from this crate.
fn our_refusal(arguments: &[&str]) -> (String, String) {
    let all = arguments.iter().chain(&UNKNOWN).map(std::ffi::OsString::from);
    let weft_config::Cli::Run(args) = weft_config::cli::parse(all) else { panic!() };
    match Config::load(&args) {
        Err(LoadError::Line { text, reason, .. }) => (text, reason),
        other => panic!("{arguments:?}: {other:?}"),
    }
}

#[test]
fn command_lines_are_refused_in_the_same_place_for_the_same_reason() {
    let Some(program) = valkey_server() else { return };
    let directory = tempfile::tempdir().unwrap();
    let mut lines: Vec<Vec<&str>> = vec![
        vec!["-x"],
        vec!["--port", "1", "2"],
        vec!["--port 6380 --timeout 5"],
        vec!["--port 6380", "--timeout", "x"],
        vec!["--save", "900 1"],
        vec!["--save", "900", "1", "--timeout", "x"],
        vec!["--save", "--timeout", "x"],
        vec!["--save \"\"", "--timeout", "x"],
        vec!["--requirepass", "--foo"],
        vec!["--port=1"],
        vec!["--port"],
        vec!["--port '1"],
        vec!["--port", "\"1"],
        vec!["--bind", "1 2", " 3"],
        vec!["--shutdown-on-sigint", "now save"],
        vec!["--shutdown-on-sigint", "save", "nosave"],
        vec!["--notify-keyspace-events", "K", "E"],
        vec!["--unixsocketperm", "7777"],
        vec!["--unixsocketperm", "-1"],
        vec!["--replicaof", "a b"],
        vec!["--replicaof", "a", "99999"],
        vec!["--replicaof", "no", "one"],
        vec!["--rename-command", "a"],
        vec!["--include"],
    ];
    let names: Vec<(String, Id)> = Id::all().map(|id| (format!("--{}", id.name()), id)).collect();
    for (option, id) in &names {
        // CONFIG SET compares those that can be set.
        let immutable = id.directive().flags.contains(weft_config::Flags::IMMUTABLE);
        let ours = OURS.contains(&id.name());
        if immutable && !ours && !listed(&NOT_COMPARED, id.name()) {
            for value in ["notanumber!", "-99999999999999", "99999999999999", ""] {
                lines.push(vec![option, value]);
            }
            lines.push(vec![option]);
        }
    }
    assert!(lines.len() > 200);
    for arguments in lines {
        let theirs = refusal(&program, directory.path(), &arguments);
        // Dumps of CONFIG GET contain an empty primary; we accept it.
        if arguments != ["--replicaof", ""] {
            assert_eq!(our_refusal(&arguments), theirs, "{arguments:?}");
        }
    }
}

#[test]
fn reference_reads_our_files() {
    let Some(program) = valkey_server() else { return };
    let directory = tempfile::tempdir().unwrap();
    let mut config = Config::default();
    set(
        &mut config,
        &[
            ("requirepass", "a b\"'\\\r\n\u{1}\u{e9}"),
            ("save", "900 1 300 10"),
            ("client-output-buffer-limit", "replica 5mb 0 3"),
            ("maxmemory", "1536mb"),
            ("maxmemory-clients", "5%"),
            ("shutdown-on-sigint", "now force"),
            ("oom-score-adj-values", "-1 0 1"),
            ("latency-tracking-info-percentiles", "50 99.99"),
            ("notify-keyspace-events", "KEA"),
            ("bind", "127.0.0.1 -::1"),
        ],
    )
    .unwrap();
    let text = config.rewritten(b"# mine\nunixsocketperm 700\n");
    let file = directory.path().join("weft.conf");
    std::fs::write(&file, &text).unwrap();
    let (line, reason) =
        refusal(&program, directory.path(), &[file.to_str().unwrap(), "--port", "0"]);
    assert_eq!(line, "nosuchdirective \"1\"", "{reason}");
    let args = LoadArgs { file: Some(file), ..LoadArgs::default() };
    assert_eq!(Config::load(&args).unwrap().str(Id::REQUIREPASS), "a b\"'\\\r\n\u{1}\u{e9}");
}

//! Failures are reported, and end with status 1.

mod common;

use std::io::{Read, Write};
use std::net::TcpListener;
use std::process::{Command, Output};
use std::time::Duration;

use common::{OURS, describe, move_slot, ours, start, text};
use weft_testkit::Server;

#[track_caller]
fn fails_with(output: &Output, words: &str) {
    assert_eq!(output.status.code(), Some(1), "{}", describe(output));
    let error = text(&output.stderr);
    assert!(error.contains(words), "{words:?} is not in {error:?}");
}

/// A server that sends the same reply to everything, on every connection.
fn fixed_reply_server(answer: &'static str) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = listener.local_addr().expect("an address").port();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            std::thread::spawn(move || {
                let mut input = [0; 4096];
                while let Ok(1..) = stream.read(&mut input) {
                    if stream.write_all(answer.as_bytes()).is_err() {
                        return;
                    }
                }
            });
        }
    });
    port
}

#[test]
fn refused_connection() {
    let port = weft_testkit::server::free_port();
    let words = format!("Could not connect to server at 127.0.0.1:{port}: Connection refused");
    fails_with(&ours(port, "-t get"), &words);
}

#[test]
fn more_clients_than_the_limit() {
    let server = Server::weft(&["--maxclients", "300"]);
    let output = ours(server.port(), "-t get -c 1000 -n 1000");
    fails_with(&output, "max number of clients reached");
    let error = text(&output.stderr);
    let count = error.lines().find_map(|line| {
        line.split_once(" of 1000 connections were made; the server")?.0.parse::<u32>().ok()
    });
    // The tool itself needs a few.
    assert!(count.is_some_and(|count| (290..=300).contains(&count)), "{error}");
    let limited = Command::new("sh")
        .args(["-c", "ulimit -n 100; exec \"$@\"", "sh", OURS, "-p"])
        .arg(server.port().to_string())
        .args(["-t", "get", "-c", "200"])
        .output()
        .unwrap();
    fails_with(&limited, " of 200 connections were made; this process may open 100 files");
}

#[test]
fn wrong_options_take_two_lines() {
    for line in ["--nosuch", "-n abc", "-c 0", "--durat 5"] {
        let output = ours(1, line);
        fails_with(&output, "");
        let error = text(&output.stderr);
        assert!(output.stdout.is_empty() && (1..=2).contains(&error.lines().count()), "{error}");
    }
    fails_with(&ours(1, "-t nosuch"), "ping_mbulk");
}

#[test]
fn a_server_that_goes_away() {
    let mut server = Server::weft(&[]);
    let child = start(server.port(), "-t get --duration 30 --json");
    std::thread::sleep(Duration::from_millis(700));
    server.kill();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let error = text(&output.stderr);
    assert!(
        ["closed the connection", "Connection reset", "Broken pipe"]
            .iter()
            .any(|words| error.contains(words)),
        "{error}"
    );
    let document: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(document["error"].as_str().is_some_and(|said| error.contains(said)), "{document}");
}

/// The first test of a run that measures nothing and reports that.
fn only_errors(port: u16, line: &str, kind: &str) -> serde_json::Value {
    let output = ours(port, &format!("--json {line}"));
    fails_with(&output, &format!("only errors: {kind}"));
    let document: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    document["tests"][0].clone()
}

#[test]
fn errors_of_the_server_end_it_or_are_counted() {
    let server = Server::weft(&[]);
    server.client().cmd(&["RPUSH", "list", "x"]);
    fails_with(&ours(server.port(), "-n 10 incr list"), "Error from server: WRONGTYPE ");
    let test = &only_errors(server.port(), "-n 100 --keep-going incr list", "WRONGTYPE");
    assert_eq!((&test["errors"]["WRONGTYPE"], &test["requests"]), (&100.into(), &0.into()));
    let output = ours(server.port(), "-n 100 -q --keep-going -- incr list ; ping");
    assert!(output.status.success() && text(&output.stderr).contains("errors: WRONGTYPE 50"));
}

#[test]
fn replies_of_a_wrong_type() {
    let port = fixed_reply_server(":1\r\n");
    fails_with(
        &ours(port, "-n 10 -c 1 -t set"),
        "Wrong type of reply to SET: integer, expected was simple string",
    );
    let test = &only_errors(port, "-n 10 -c 1 -t set --keep-going", "type");
    assert_eq!(test["errors"]["type"], 10);
}

#[test]
fn malformed_reply_ends_the_run() {
    fails_with(
        &ours(fixed_reply_server("HTTP/1.1 400\r\n"), "-n 10 -c 1 -t set"),
        "Protocol error, got \"H\"",
    );
    let twice = fixed_reply_server("+OK\r\n+OK\r\n");
    fails_with(&ours(twice, "-n 10 -c 1 -t set"), "a reply without a request");
}

#[test]
fn content_of_other_keys() {
    let server = Server::weft(&[]);
    server.client().ok(&["SET", "key:000000000000", "value of another client"]);
    let line = "-n 20 -r 1 -d 24 -t get";
    assert!(ours(server.port(), line).status.success());
    fails_with(
        &ours(server.port(), &format!("{line} --verify")),
        "Wrong content in the reply to GET",
    );
    let test = &only_errors(server.port(), &format!("{line} --verify --keep-going"), "content");
    assert_eq!(test["errors"]["content"], 20);
    assert!(ours(server.port(), "-n 20 -r 1 -d 24 -t set,get --verify -q").status.success());
}

#[test]
fn a_full_disk() {
    if !std::path::Path::new("/dev/full").exists() {
        weft_testkit::skipped::note("a_full_disk", "no /dev/full");
        return;
    }
    let server = Server::weft(&[]);
    fails_with(&ours(server.port(), "-n 1000 -t get --hdr /dev/full"), "No space left");
}

#[test]
fn wrong_passwords_and_databases() {
    let server = Server::weft(&["--requirepass", "pw"]);
    fails_with(&ours(server.port(), "-n 10 -t get"), "NOAUTH");
    fails_with(&ours(server.port(), "-n 10 -t get -a no"), "WRONGPASS");
    fails_with(&ours(server.port(), "-n 10 -t get -a pw --dbnum 99"), "out of range");
    assert!(ours(server.port(), "-n 10 -t get -a pw --dbnum 3 -q").status.success());
}

#[test]
fn slots_that_move() {
    let started = [(); 2].map(|()| Server::valkey(&["--cluster-enabled", "yes"]));
    let [Some(first), Some(second)] = started else {
        weft_testkit::skipped::note("slots_that_move", "no valkey-server in PEERS_BIN or PATH");
        return;
    };
    let (mut a, mut b) = (first.client(), second.client());
    a.ok(&["CLUSTER", "ADDSLOTSRANGE", "0", "9999"]);
    b.ok(&["CLUSTER", "ADDSLOTSRANGE", "10000", "16383"]);
    a.ok(&["CLUSTER", "MEET", "127.0.0.1", &second.port().to_string()]);
    for client in [&mut a, &mut b] {
        while !client.cmd(&["CLUSTER", "INFO"]).text().contains("cluster_slots_ok:16384") {
            std::thread::sleep(Duration::from_millis(20));
        }
        while !client.cmd(&["CLUSTER", "INFO"]).text().contains("cluster_state:ok") {
            std::thread::sleep(Duration::from_millis(20));
        }
    }
    let child = start(first.port(), "--cluster -c 4 --duration 3 --json get key:{tag}");
    std::thread::sleep(Duration::from_millis(700));
    let ids = [a.cmd(&["CLUSTER", "MYID"]).text(), b.cmd(&["CLUSTER", "MYID"]).text()];
    // From now on the replies redirect: ASK.
    for slot in 0..50 {
        let slot = slot.to_string();
        b.ok(&["CLUSTER", "SETSLOT", &slot, "IMPORTING", &ids[0]]);
        a.ok(&["CLUSTER", "SETSLOT", &slot, "MIGRATING", &ids[1]]);
    }
    // Moved permanently: MOVED.
    (50..400).for_each(|slot| move_slot(slot, &mut a, &mut b));
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", describe(&output));
    let document: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let test = &document["tests"][0];
    assert!(test["redirected"].as_u64().unwrap() > 0, "{test}");
    assert_eq!(test["errors"], serde_json::json!({}));
}

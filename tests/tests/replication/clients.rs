//! The view of a replica's clients: refused commands, expired keys, and the configuration.

use std::os::unix::fs::PermissionsExt;
use weft_testkit::{Server, Value, skip_without};
use weft_tests::persistence::until;
use weft_tests::replication::{FakePrimary, NO_KEYS, info, replicate_from, wait_for_link};

/// Commands of all kinds get the same replies as from the reference.
#[test]
fn replies_of_a_replica_match_the_reference() {
    let theirs = Server::valkey(&["--save", ""]);
    if skip_without("replies_of_a_replica_match_the_reference", &theirs, "valkey-server") {
        return;
    }
    let servers = [Server::weft(&["--save", ""]), theirs.expect("not skipped")];
    let script: &[&[&str]] = &[
        &["GET", "a"],
        &["SET", "a", "b"],
        &["BLPOP", "a", "0"],
        &["PUBLISH", "a", "b"],
        &["PFCOUNT", "a"],
        &["MULTI"],
        &["GET", "a"],
        &["SET", "a", "b"],
        &["EXEC"],
        &["MULTI"],
        &["GET", "a"],
        &["EXEC"],
        &["CONFIG", "GET", "replicaof"],
        &["CONFIG", "SET", "replica-serve-stale-data", "no"],
        &["GET", "a"],
        &["SET", "a", "b"],
        &["PING"],
        &["MULTI"],
        &["GET", "a"],
        &["EXEC"],
        &["DBSIZE"],
        &["SELECT", "1"],
        &["CONFIG", "SET", "replica-read-only", "no"],
        &["SET", "a", "b"],
        &["CONFIG", "SET", "replica-serve-stale-data", "yes"],
        &["SET", "a", "b"],
        &["GET", "a"],
        &["CONFIG", "SET", "replica-read-only", "yes"],
        &["DEL", "a"],
        &["REPLICAOF", "127.0.0.1", "1"],
        &["REPLICAOF", "a", "b"],
        &["REPLICAOF", "a", "-1"],
        &["REPLICAOF", "a", "70000"],
        &["REPLICAOF", "a"],
        &["SLAVEOF", "no", "one"],
        &["SLAVEOF", "no", "one"],
        &["DEL", "a"],
    ];
    let answers = servers.each_ref().map(|server| {
        let mut client = server.client();
        // No server listens on this port.
        client.ok(&["REPLICAOF", "127.0.0.1", "1"]);
        script.iter().map(|words| client.cmd(words)).collect::<Vec<Value>>()
    });
    for ((words, ours), theirs) in script.iter().zip(&answers[0]).zip(&answers[1]) {
        assert_eq!(ours, theirs, "{words:?}");
    }
    let fields = servers.each_ref().map(|server| {
        let mut client = server.client();
        client.ok(&["REPLICAOF", "127.0.0.1", "1"]);
        let text = client.cmd(&["INFO", "replication"]).text();
        let name = |line: &str| line.split(':').next().unwrap_or_default().to_string();
        text.lines().map(name).collect::<Vec<String>>()
    });
    assert_eq!(fields[0], fields[1]);
}

/// A client is blocked when its server becomes a replica. Serving it would be a write, so the
/// stream does not serve it.
#[test]
fn stream_does_not_serve_blocked_clients() {
    let fake = FakePrimary::new();
    let replica = Server::weft(&["--save", ""]);
    let (mut client, mut waiting) = (replica.client(), replica.client());
    waiting.send_raw(b"BLPOP l 0\r\n").expect("sent");
    until("a waiting client", || info(&mut client, "blocked_clients") == "1");
    replicate_from(&replica, &fake.port());
    let mut link = fake.copy(NO_KEYS, 0);
    link.wait_for_ack(0);
    let at = link.write(&["SELECT", "0"]) + link.write(&["RPUSH", "l", "x"]);
    link.wait_for_ack(at);
    assert_eq!(client.cmd(&["LLEN", "l"]).int(), 1);
}

/// Expired keys are hidden, and removed when the primary deletes them.
#[test]
fn expired_keys_are_hidden_until_the_primary_deletes_them() {
    let fake = FakePrimary::new();
    let replica = Server::weft(&["--save", ""]);
    let mut client = replica.client();
    replicate_from(&replica, &fake.port());
    let mut link = fake.copy(NO_KEYS, 0);
    link.wait_for_ack(0);
    let mut at = link.write(&["SELECT", "0"]);
    at += link.write(&["SET", "k", "v", "PXAT", "1000"]);
    at += link.write(&["SET", "n", "5", "PXAT", "1000"]);
    at += link.write(&["HSET", "h", "f", "v", "g", "w"]);
    at += link.write(&["HPEXPIREAT", "h", "1000", "FIELDS", "1", "f"]);
    link.wait_for_ack(at);
    for _ in 0..2 {
        assert!(client.cmd(&["GET", "k"]).is_null());
        assert_eq!(client.cmd(&["EXISTS", "k", "n"]).int(), 0);
        assert_eq!(client.cmd(&["KEYS", "*"]).items().len(), 1);
        assert!(client.cmd(&["RANDOMKEY"]).bytes() == Some(b"h"));
        assert!(client.cmd(&["HGET", "h", "f"]).is_null());
        assert_eq!(client.cmd(&["DBSIZE"]).int(), 3, "the keys exist");
        std::thread::sleep(std::time::Duration::from_millis(300));
    }
    // For the primary's commands they still exist.
    at += link.write(&["INCR", "n"]);
    at += link.write(&["PERSIST", "n"]);
    at += link.write(&["DEL", "k"]);
    link.wait_for_ack(at);
    assert_eq!(client.cmd(&["GET", "n"]).text(), "6");
    assert_eq!(client.cmd(&["DBSIZE"]).int(), 2);
    assert_eq!(info(&mut client, "expired_keys"), "0");
    // A writable replica deletes expired keys when it writes them.
    at += link.write(&["SET", "m", "5", "PXAT", "1000"]);
    link.wait_for_ack(at);
    client.ok(&["CONFIG", "SET", "replica-read-only", "no"]);
    assert_eq!(client.cmd(&["INCR", "m"]).int(), 1);
    client.ok(&["CONFIG", "SET", "replica-read-only", "yes"]);
    // A primary removes expired keys.
    at += link.write(&["SET", "k", "v", "PXAT", "1000"]);
    link.wait_for_ack(at);
    client.ok(&["REPLICAOF", "NO", "ONE"]);
    until("expiry", || client.cmd(&["DBSIZE"]).int() == 3);
}

/// CLIENT PAUSE also delays the primary's stream; MONITOR shows the stream.
#[test]
fn pause_delays_the_stream() {
    let fake = FakePrimary::new();
    let replica = Server::weft(&[]);
    let (mut client, mut monitor) = (replica.client(), replica.client());
    replicate_from(&replica, &fake.port());
    let mut link = fake.copy(NO_KEYS, 0);
    link.wait_for_ack(0);
    let mut at = link.write(&["SELECT", "0"]) + link.write(&["SET", "k", "1"]);
    link.wait_for_ack(at);
    monitor.ok(&["MONITOR"]);
    client.ok(&["CLIENT", "PAUSE", "100000", "WRITE"]);
    let paused = at;
    at += link.write(&["SET", "k", "2"]);
    for _ in 0..2 {
        // Once a second.
        link.wait_for_ack(paused);
    }
    assert_eq!(client.cmd(&["GET", "k"]).text(), "1");
    client.ok(&["CLIENT", "UNPAUSE"]);
    link.wait_for_ack(at);
    assert_eq!(client.cmd(&["GET", "k"]).text(), "2");
    let wanted = format!("[0 127.0.0.1:{}] \"SET\" \"k\" \"2\"", fake.port());
    while !monitor.read_frame().expect("a line").value.to_string().contains(&wanted) {}
    // A change of role does not wait for the end of a pause.
    client.ok(&["CLIENT", "PAUSE", "100000", "WRITE"]);
    link.write(&["SET", "k", "3"]);
    client.ok(&["REPLICAOF", "NO", "ONE"]);
    assert_eq!(client.cmd(&["GET", "k"]).text(), "2");
}

/// Only the primary evicts.
#[test]
fn replica_does_not_evict() {
    let fake = FakePrimary::new();
    let args = ["--save", "", "--maxmemory", "1", "--maxmemory-policy", "allkeys-lru"];
    let replica = Server::weft(&args);
    let mut client = replica.client();
    replicate_from(&replica, &fake.port());
    let mut link = fake.copy(NO_KEYS, 0);
    link.wait_for_ack(0);
    let mut at = link.write(&["SELECT", "0"]);
    for n in 0..100 {
        at += link.write(&["SET", &format!("k{n}"), "v"]);
    }
    link.wait_for_ack(at);
    for n in 0..100 {
        assert_eq!(client.cmd(&["GET", &format!("k{n}")]).text(), "v");
    }
    assert_eq!(client.cmd(&["DBSIZE"]).int(), 100);
    client.ok(&["CONFIG", "SET", "replica-ignore-maxmemory", "no"]);
    until("eviction", || {
        client.cmd(&["GET", "k0"]);
        client.cmd(&["DBSIZE"]).int() < 100
    });
}

/// The commands that Sentinel sends. CONFIG REWRITE saves the new role.
#[test]
fn reconfiguration_by_sentinel_works() {
    let fake = FakePrimary::new();
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("weft.conf");
    std::fs::write(&file, "save \"\"\n").expect("a file");
    // The file name must be the first argument.
    let script = folder.path().join("server");
    let (program, path) = (weft_testkit::locate::weft().display(), file.display());
    std::fs::write(&script, format!("#!/bin/sh\nexec '{program}' '{path}' \"$@\"\n"))
        .expect("a file");
    let permitted = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(&script, permitted).expect("the script exists");
    let server = Server::start("weft", &script, &[]);
    let mut client = server.client();
    for words in [
        &["MULTI"][..],
        &["SLAVEOF", "127.0.0.1", &fake.port()],
        &["CONFIG", "REWRITE"],
        &["CLIENT", "KILL", "TYPE", "pubsub"],
    ] {
        client.cmd(words);
    }
    let done = client.cmd(&["EXEC"]);
    assert!(done.items().iter().all(|item| item.error().is_none()), "{done}");
    let mut link = fake.copy(NO_KEYS, 0);
    link.wait_for_ack(0);
    wait_for_link(&mut client);
    let text = std::fs::read_to_string(&file).expect("the file");
    let line = format!("replicaof 127.0.0.1 {}", fake.port());
    assert!(text.lines().any(|found| found == line), "{text}");
    client.ok(&["REPLICAOF", "NO", "ONE"]);
    client.ok(&["CONFIG", "REWRITE"]);
    let text = std::fs::read_to_string(&file).expect("the file");
    assert!(!text.contains("replicaof"), "{text}");
}

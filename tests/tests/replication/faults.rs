//! Replication faults found by comparison with Valkey. Each test failed before its fix.

use std::time::Duration;
use weft_testkit::{Client, Server};
use weft_tests::persistence::{PATIENCE, until};

/// A field of INFO.
fn info(client: &mut Client, section: &str, field: &str) -> String {
    let text = client.cmd(&["INFO", section]).text();
    let line = text.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
    line.unwrap_or_else(|| panic!("{field} in {text}")).to_string()
}

/// A linked primary and replica; clients may write to the replica.
fn pair(options: &[&str]) -> (Server, Server) {
    let debug = ["--enable-debug-command", "yes"];
    let primary = Server::weft(
        &[&debug[..], &["--repl-diskless-sync-delay", "0", "--appendonly", "yes"]].concat(),
    );
    let port = primary.port().to_string();
    let follow = ["--replicaof", &format!("127.0.0.1 {port}"), "--replica-read-only", "no"];
    let replica = Server::weft(&[&debug[..], &follow, options].concat());
    wait_for_link(&mut replica.client());
    (primary, replica)
}

fn wait_for_link(client: &mut Client) {
    until("the link", || info(client, "replication", "master_link_status") == "up");
}

fn tracked(client: &mut Client) -> String {
    info(client, "stats", "slave_expires_tracked_keys")
}

/// Gives keys an expiry by different commands. Returns the number of keys.
fn write_expiring(client: &mut Client, ttl: &str) -> usize {
    let commands: &[&[&str]] = &[
        &["SET", "set", "v", "PX", ttl],
        &["PSETEX", "psetex", ttl, "v"],
        &["SET", "expire", "v"],
        &["PEXPIRE", "expire", ttl],
        &["SET", "getex", "v"],
        &["GETEX", "getex", "PX", ttl],
        &["SET", "source", "v", "PX", ttl],
        &["COPY", "source", "copy"],
        &["RPUSH", "list", "v"],
        &["PEXPIRE", "list", ttl],
        &["RENAME", "source", "renamed"],
        &["SELECT", "3"],
        &["SET", "other", "v", "PX", ttl],
        &["SELECT", "0"],
        &["MULTI"],
        &["SET", "exec", "v", "PX", ttl],
        &["EXEC"],
    ];
    for command in commands {
        assert_eq!(client.cmd(command).error(), None, "{command:?}");
    }
    let dump = client.cmd(&["DUMP", "list"]);
    let dump = dump.bytes().expect("a payload");
    client.ok(&[b"RESTORE", &b"restored"[..], ttl.as_bytes(), dump]);
    10
}

/// Regression: these keys were never removed, and `slave_expires_tracked_keys` was always 0.
#[test]
fn writable_replica_removes_its_own_expired_keys() {
    let (primary, replica) = pair(&["--appendonly", "yes"]);
    let mut client = replica.client();
    client.ok(&["DEBUG", "SET-ACTIVE-EXPIRE", "0"]);
    let written = write_expiring(&mut client, "100");
    // The primary removes the keys that it has written.
    let mut writer = primary.client();
    writer.ok(&["DEBUG", "SET-ACTIVE-EXPIRE", "0"]);
    writer.ok(&["SET", "of-primary", "v", "PX", "50"]);
    assert_eq!(writer.cmd(&["WAIT", "1", "0"]).int(), 1);
    assert_eq!(tracked(&mut client), written.to_string());
    client.ok(&["DEBUG", "SET-ACTIVE-EXPIRE", "1"]);
    until("all keys are removed", || tracked(&mut client) == "0");
    assert_eq!(info(&mut client, "stats", "expired_keys"), written.to_string());
    assert_eq!(client.cmd(&["DBSIZE"]).int(), 1);
    client.ok(&["SELECT", "3"]);
    assert_eq!(client.cmd(&["DBSIZE"]).int(), 0);
    // The deletions are in the AOF.
    let mut replica = replica;
    client.cmd(&["WAITAOF", "0", "0", "0"]);
    replica.restart();
    replica.wait_until_loaded();
    let mut client = replica.client();
    assert_eq!(client.cmd(&["EXISTS", "set", "expire", "copy", "restored"]).int(), 0);
}

#[test]
fn tracking_of_an_expiring_key_ends_with_its_expiry() {
    let (primary, replica) = pair(&["--save", ""]);
    let (mut writer, mut client) = (primary.client(), replica.client());
    let mut set = |key: &str| client.ok(&["SET", key, "v", "EX", "1000"]);
    ["a", "b", "c", "d", "e"].into_iter().for_each(&mut set);
    client.ok(&["SELECT", "1"]);
    client.ok(&["SET", "f", "v", "EX", "1000"]);
    assert_eq!(tracked(&mut client), "6");
    client.ok(&["SWAPDB", "0", "1"]);
    // Now a to e are in database 1, f is in 0.
    assert_eq!(client.cmd(&["PERSIST", "a"]).int(), 1);
    assert_eq!(client.cmd(&["DEL", "b"]).int(), 1);
    assert_eq!(tracked(&mut client), "4");
    // A change of the value only.
    client.cmd(&["APPEND", "c", "w"]);
    assert_eq!(tracked(&mut client), "4");
    // From here on the key is the primary's. The TTL differs: the same millisecond would be no
    // change.
    writer.ok(&["SELECT", "1"]);
    writer.ok(&["SET", "c", "v", "EX", "2000"]);
    assert_eq!(writer.cmd(&["WAIT", "1", "0"]).int(), 1);
    until("the write", || tracked(&mut client) == "3");
    client.ok(&["FLUSHDB"]);
    assert_eq!(tracked(&mut client), "1");
    // A read-only replica tracks no new keys, until it is writable again.
    client.ok(&["CONFIG", "SET", "replica-read-only", "yes"]);
    assert_eq!(tracked(&mut client), "1");
    client.ok(&["CONFIG", "SET", "replica-read-only", "no"]);
    client.ok(&["SET", "g", "v", "EX", "1000"]);
    assert_eq!(tracked(&mut client), "2");
    // A primary removes all expired keys, so it tracks none.
    client.ok(&["REPLICAOF", "NO", "ONE"]);
    assert_eq!(tracked(&mut client), "0");
    client.ok(&["SET", "h", "v", "EX", "1000"]);
    assert_eq!(tracked(&mut client), "0");
}

/// Regression: PFCOUNT stores its estimate, and advanced the replication offset while writes were
/// paused.
#[test]
fn pfcount_waits_for_the_end_of_a_pause_of_writes() {
    let (primary, replica) = pair(&[]);
    let (mut client, mut other) = (primary.client(), primary.client());
    client.cmd(&["PFADD", "h", "a", "b"]);
    client.cmd(&["PFADD", "g", "a"]);
    assert_eq!(client.cmd(&["WAIT", "1", "0"]).int(), 1);
    other.ok(&["CLIENT", "PAUSE", "100000", "WRITE"]);
    let before = info(&mut other, "replication", "master_repl_offset");
    let mut multi = primary.client();
    // A paused client executes no further request: the second one of each waits in its buffer. Both
    // replies arrive only after the pause.
    client.send_raw(b"PFCOUNT h\r\nINFO replication\r\n").expect("sent");
    multi.send_raw(b"MULTI\r\nPFCOUNT g\r\nEXEC\r\nINFO replication\r\n").expect("sent");
    assert_eq!(multi.read_reply().expect("a reply").value.text(), "OK");
    for held in [&mut client, &mut multi] {
        held.set_timeout(Duration::from_millis(500));
        assert!(held.read_reply().is_err(), "PFCOUNT was answered during the pause");
        held.set_timeout(PATIENCE);
    }
    assert_eq!(info(&mut other, "replication", "master_repl_offset"), before);
    other.ok(&["CLIENT", "UNPAUSE"]);
    assert_eq!(client.read_reply().expect("a reply").value.int(), 2);
    // Like in the reference, the command was paused before it was queued.
    assert_eq!(multi.read_reply().expect("a reply").value.text(), "QUEUED");
    assert_eq!(multi.read_reply().expect("a reply").value.items()[0].int(), 1);
    for served in [&mut client, &mut multi] {
        assert!(served.read_reply().is_ok());
    }
    assert_ne!(info(&mut other, "replication", "master_repl_offset"), before);
    drop(replica);
}

/// The server's clock in milliseconds.
fn now_ms(client: &mut Client) -> i64 {
    let time = client.cmd(&["TIME"]);
    let part = |at: usize| time.items()[at].text().parse::<i64>().expect("a number");
    part(0) * 1000 + part(1) / 1000
}

/// Regression: DEBUG RELOAD skipped expired keys without a DEL to replicas and the AOF. If such a
/// key was written again, they added to the old value.
#[test]
fn keys_skipped_by_a_reload_are_deleted_everywhere() {
    let (mut primary, replica) = pair(&[]);
    let mut client = primary.client();
    client.ok(&["DEBUG", "SET-ACTIVE-EXPIRE", "0"]);
    client.cmd(&["RPUSH", "list", "old"]);
    let at = now_ms(&mut client) + 20;
    client.cmd(&["PEXPIREAT", "list", &at.to_string()]);
    client.ok(&["SET", "kept", "v"]);
    // Reading the key would remove it.
    until("the expiry time", || now_ms(&mut client) > at);
    client.ok(&["DEBUG", "RELOAD"]);
    client.cmd(&["RPUSH", "list", "new"]);
    assert_eq!(client.cmd(&["WAITAOF", "1", "0", "0"]).items()[0].int(), 1);
    assert_eq!(client.cmd(&["WAIT", "1", "0"]).int(), 1);
    assert_eq!(replica.client().cmd(&["LRANGE", "list", "0", "-1"]).items().len(), 1);
    primary.kill();
    primary.restart();
    primary.wait_until_loaded();
    assert_eq!(primary.client().cmd(&["LRANGE", "list", "0", "-1"]).items().len(), 1);
}

/// Regression: replicas were counted only if the client waited for some.
#[test]
fn waitaof_counts_replicas_also_without_waiting() {
    let log = ["--appendonly", "yes"];
    // For a writable replica it is unknown which part of the stream is on its disk.
    let (primary, _replica) = pair(&[&log[..], &["--replica-read-only", "yes"]].concat());
    let mut client = primary.client();
    client.ok(&["SET", "a", "1"]);
    let counts = |reply: &weft_testkit::Value| [reply.items()[0].int(), reply.items()[1].int()];
    assert_eq!(counts(&client.cmd(&["WAITAOF", "1", "1", "0"])), [1, 1]);
    for wanted in ["0", "1"] {
        assert_eq!(counts(&client.cmd(&["WAITAOF", wanted, "0", "0"])), [1, 1], "{wanted}");
    }
}

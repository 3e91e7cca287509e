//! `cluster-write-quorum`: replies of writes leave when the cluster has confirmed the writes.
//!
//! `DEBUG CLUSTER-QUORUM` and `DEBUG CLUSTER-CONFIRM` take the place of the cluster's store.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Duration;
use weft_testkit::client::encode;
use weft_testkit::{Client, Server};
use weft_tests::replicas::RawReplica;
use weft_tests::scene::{
    client, id, pause_slow_lane, reply, reply_within, send, send_all, until, until_blocked,
    until_in_slow_lane,
};

const ON: &[&str] = &["DEBUG", "CLUSTER-QUORUM", "1"];
const OFF: &[&str] = &["DEBUG", "CLUSTER-QUORUM", "0"];
const ABANDON: &[&str] = &["DEBUG", "CLUSTER-ABANDON"];
const GET_ACK: &str = "*3\r\n$8\r\nREPLCONF\r\n$6\r\nGETACK\r\n$1\r\n*\r\n";

/// A node with a quorum, and without replicas.
fn node(args: &[&str]) -> (Server, Client) {
    const OPTIONS: [&str; 6] = [
        "--cluster-enabled",
        "yes",
        "--enable-debug-command",
        "yes",
        "--repl-diskless-sync-delay",
        "0",
    ];
    let all = [&OPTIONS[..], args].concat();
    let server = Server::weft(&all);
    let mut admin = client(&server);
    admin.ok(&["CLUSTER", "ADDSLOTSRANGE", "0", "16383"]);
    admin.ok(ON);
    (server, admin)
}

/// The digest of a string, by a server without a quorum.
fn digest_of(value: &str) -> String {
    static KNOWN: Mutex<BTreeMap<String, String>> = Mutex::new(BTreeMap::new());
    let mut known = KNOWN.lock().expect("no thread panics with it");
    if let Some(digest) = known.get(value) {
        return digest.clone();
    }
    let server = Server::weft(&["--enable-debug-command", "yes"]);
    let mut plain = client(&server);
    plain.ok(&["SET", "k", value]);
    let digest = plain.cmd(&["DEBUG", "DIGEST-VALUE", "k"]).items()[0].text();
    known.insert(value.to_string(), digest.clone());
    digest
}

/// Whether the key has this string. Without a read, whose reply would wait.
fn holds(admin: &mut Client, key: &str, value: &str) -> bool {
    admin.cmd(&["DEBUG", "DIGEST-VALUE", key]).items()[0].text() == digest_of(value)
}

/// Whether the key exists, without a read.
fn exists(admin: &mut Client, key: &str) -> bool {
    admin.cmd(&["DEBUG", "OBJECT", key]).error().is_none()
}

fn confirm(admin: &mut Client) -> i64 {
    admin.cmd(&["DEBUG", "CLUSTER-CONFIRM", "end"]).int()
}

#[track_caller]
fn waits(client: &mut Client) {
    assert_eq!(reply_within(client, Duration::from_millis(50)), None);
}

#[track_caller]
fn is_closed(client: &mut Client) {
    let got = client.read_to_close().expect("the server closes the connection");
    assert_eq!(String::from_utf8_lossy(&got), "");
}

#[test]
fn writes_and_reads_of_them_wait_until_they_are_confirmed() {
    let (server, mut admin) = node(&[]);
    let mut writer = client(&server);
    send(&mut writer, &["SET", "k", "1"]);
    until("the write has executed", || holds(&mut admin, "k", "1"));
    waits(&mut writer);
    // A client that acts on the value must not see one that a failover takes back.
    let mut readers = [client(&server), client(&server)];
    send(&mut readers[0], &["GET", "k"]);
    send(&mut readers[1], &["EVAL_RO", "return redis.call('GET', KEYS[1])", "1", "k"]);
    readers.iter_mut().for_each(waits);
    // An earlier offset confirms nothing.
    admin.cmd(&["DEBUG", "CLUSTER-CONFIRM", "0"]);
    waits(&mut writer);
    confirm(&mut admin);
    assert!(reply(&mut writer).is_ok());
    readers.iter_mut().for_each(|reader| assert_eq!(reply(reader).text(), "1"));
    assert_eq!(readers[0].cmd(&["GET", "k"]).text(), "1", "nothing to confirm");
    // An earlier confirmation does not cover later writes.
    send(&mut writer, &["SET", "k", "2"]);
    until("the write has executed", || holds(&mut admin, "k", "2"));
    waits(&mut writer);
    // Pipelines: the replies keep their order.
    let mut pipelined = client(&server);
    send_all(&mut pipelined, &[&["GET", "k"], &["SET", "k", "3"], &["GET", "k"]]);
    until("the write has executed", || holds(&mut admin, "k", "3"));
    waits(&mut pipelined);
    confirm(&mut admin);
    assert!(reply(&mut writer).is_ok());
    assert_eq!(reply(&mut pipelined).text(), "2");
    assert!(reply(&mut pipelined).is_ok());
    assert_eq!(reply(&mut pipelined).text(), "3");
    // A write without an effect has nothing to confirm.
    assert_eq!(admin.cmd(&["DEL", "none"]).int(), 0);
}

#[test]
fn each_way_to_write_waits() {
    let (server, mut admin) = node(&[]);
    let mut blocked = client(&server);
    send(&mut blocked, &["BLPOP", "l", "0"]);
    until_blocked(&mut admin, 1);
    let script = "return redis.call('SET', KEYS[1], 'x')";
    let mut writers: Vec<Client> = (0..4).map(|_| client(&server)).collect();
    let mut bytes = encode(&["MULTI"]);
    (0..2500).for_each(|n| bytes.extend(encode(&["SET", &format!("{{long}}{n}"), "x"])));
    writers[3].send_raw(&bytes).expect("the server reads");
    (0..=2500).for_each(|_| assert!(reply(&mut writers[3]).error().is_none()));
    send_all(&mut writers[0], &[&["MULTI"], &["SET", "a", "1"], &["EXEC"]]);
    send(&mut writers[1], &["EVAL", script, "1", "b"]);
    send(&mut writers[2], &["RPUSH", "l", "x"]);
    pause_slow_lane(&mut admin, true);
    send(&mut writers[3], &["EXEC"]);
    until_in_slow_lane(&mut admin, 1);
    pause_slow_lane(&mut admin, false);
    until("all have executed", || {
        ["{long}0", "a", "b"].iter().all(|key| exists(&mut admin, key)) && !exists(&mut admin, "l")
    });
    waits(&mut blocked);
    for (n, writer) in writers.iter_mut().enumerate() {
        if n == 0
            && let Some(early) = reply_within(writer, Duration::from_millis(50))
        {
            // MULTI was executed in an earlier batch than the others.
            assert!(early.is_ok());
        }
        waits(writer);
    }
    confirm(&mut admin);
    assert_eq!(reply(&mut blocked).items()[1].text(), "x");
    assert_eq!(reply(&mut writers[2]).int(), 1);
    assert_eq!(reply(&mut writers[3]).items().len(), 2500);
    assert!(reply(&mut writers[1]).is_ok());
}

#[test]
fn abandoned_replies_never_leave() {
    let (server, mut admin) = node(&[]);
    let (mut writer, mut reader) = (client(&server), client(&server));
    send(&mut writer, &["SET", "k", "1"]);
    until("the write has executed", || holds(&mut admin, "k", "1"));
    send(&mut reader, &["GET", "k"]);
    waits(&mut reader);
    // The confirmation is too late, though it may arrive before the end of the connection.
    send_all(&mut admin, &[ABANDON, &["DEBUG", "CLUSTER-CONFIRM", "1000000"]]);
    assert!(reply(&mut admin).is_ok());
    reply(&mut admin);
    is_closed(&mut writer);
    is_closed(&mut reader);
    let mut next = client(&server);
    send(&mut next, &["SET", "k", "2"]);
    until("the write has executed", || holds(&mut admin, "k", "2"));
    waits(&mut next);
    confirm(&mut admin);
    assert!(reply(&mut next).is_ok());
}

#[test]
fn confirmation_after_the_lease_does_not_count() {
    let (server, mut admin) = node(&[]);
    for again in [false, true] {
        let mut writer = client(&server);
        send(&mut writer, &["INCR", "n"]);
        let own = id(&mut client(&server));
        assert_ne!(own, "0");
        let executed = if again { "2" } else { "1" };
        until("the write has executed", || holds(&mut admin, "n", executed));
        admin.ok(&["DEBUG", "CLUSTER-LEASE", "0"]);
        if again {
            admin.ok(&["DEBUG", "CLUSTER-LEASE", "600000"]);
        }
        confirm(&mut admin);
        is_closed(&mut writer);
        admin.ok(&["DEBUG", "CLUSTER-LEASE", "600000"]);
    }
}

#[test]
fn without_a_quorum_writes_leave_at_once() {
    let (server, mut admin) = node(&[]);
    let mut writer = client(&server);
    send(&mut writer, &["SET", "k", "1"]);
    waits(&mut writer);
    admin.ok(OFF);
    assert!(reply(&mut writer).is_ok());
    writer.ok(&["SET", "k", "2"]);
    admin.ok(ON);
    send(&mut writer, &["SET", "k", "3"]);
    waits(&mut writer);
    confirm(&mut admin);
    assert!(reply(&mut writer).is_ok());
}

#[test]
fn both_disk_and_quorum_must_have_the_write() {
    let (server, mut admin) = node(&["--appendonly", "yes", "--appendfsync", "always"]);
    admin.ok(&["DEBUG", "AOF-FLUSH-SLEEP", "300000"]);
    let mut writer = client(&server);
    send(&mut writer, &["SET", "k", "1"]);
    until("the write has executed", || holds(&mut admin, "k", "1"));
    confirm(&mut admin);
    waits(&mut writer);
    assert!(reply(&mut writer).is_ok());
    send(&mut writer, &["SET", "k", "2"]);
    std::thread::sleep(Duration::from_millis(400));
    waits(&mut writer);
    confirm(&mut admin);
    assert!(reply(&mut writer).is_ok());
}

/// Connects as a replica, and reads its copy.
fn raw_replica(server: &Server) -> (RawReplica, u64) {
    let mut replica = RawReplica::new(server);
    let (_, offset) = replica.full_sync();
    replica.read_copy();
    (replica, offset)
}

/// Reads the stream up to the next question. Returns the bytes including it.
fn read_to_question(replica: &mut RawReplica) -> u64 {
    let mut got = Vec::new();
    while !got.ends_with(GET_ACK.as_bytes()) {
        got.extend(replica.take(1));
    }
    got.len() as u64
}

#[test]
fn replicas_are_asked_once_until_they_answer() {
    let (server, mut admin) = node(&[]);
    let (mut replica, begin) = raw_replica(&server);
    replica.send(&["REPLCONF", "ACK", &begin.to_string()]);
    let mut writers: Vec<Client> = (0..3).map(|_| client(&server)).collect();
    send(&mut writers[0], &["SET", "a", "1"]);
    let first = begin + read_to_question(&mut replica);
    // Further writes don't cause a question while the first one is unanswered.
    for (n, writer) in writers.iter_mut().enumerate().skip(1) {
        send(writer, &["SET", &format!("key{n}"), "1"]);
    }
    until("they have executed", || exists(&mut admin, "key1") && exists(&mut admin, "key2"));
    writers.iter_mut().for_each(waits);
    admin.cmd(&["DEBUG", "CLUSTER-CONFIRM", &first.to_string()]);
    assert!(reply(&mut writers[0]).is_ok());
    // The others are in the stream before the next question, and the only one.
    let text = {
        let mut got = Vec::new();
        while !got.ends_with(GET_ACK.as_bytes()) {
            got.extend(replica.take(1));
        }
        String::from_utf8(got).expect("commands")
    };
    assert!(text.contains("key1") && text.contains("key2"), "{text}");
    assert_eq!(text.matches("GETACK").count(), 1, "{text}");
    let second = first + text.len() as u64;
    waits(&mut writers[1]);
    admin.cmd(&["DEBUG", "CLUSTER-CONFIRM", &second.to_string()]);
    assert!(reply(&mut writers[1]).is_ok() && reply(&mut writers[2]).is_ok());
}

/// A confirmation releases exactly the writes that the stream has up to its offset.
#[test]
fn confirmation_releases_only_what_it_covers() {
    let (server, mut admin) = node(&[]);
    let mut writers: Vec<Client> = (0..50).map(|_| client(&server)).collect();
    let mut ends = Vec::new();
    for (n, writer) in writers.iter_mut().enumerate() {
        send(writer, &["SET", &format!("key{n}"), "1"]);
        until("it has executed", || exists(&mut admin, &format!("key{n}")));
        // INFO reads the log into the stream.
        let text = admin.cmd(&["INFO", "replication"]).text();
        let offset = text.lines().find_map(|line| line.strip_prefix("master_repl_offset:"));
        ends.push(offset.expect("an offset").trim().parse::<u64>().expect("a number"));
    }
    for (n, end) in ends.iter().enumerate() {
        admin.cmd(&["DEBUG", "CLUSTER-CONFIRM", &end.to_string()]);
        assert!(reply(&mut writers[n]).is_ok());
        if let Some(next) = writers.get_mut(n + 1) {
            assert_eq!(reply_within(next, Duration::from_millis(2)), None);
        }
    }
}

//! Full syncs to replicas: other servers get all data, from memory and from disk, together and
//! separately.

use std::time::Duration;
use weft_testkit::{Server, locate};
use weft_tests::persistence::until;
use weft_tests::replicas::{
    Link, RawReplica, fill, number, replica_programs, start_replica, wait_for_same_data,
    wait_until_caught_up,
};

const WEFT: [&str; 6] =
    ["--repl-diskless-sync-delay", "0", "--enable-debug-command", "yes", "--io-threads", "3"];

fn weft(more: &[&str]) -> Server {
    Server::weft(&[&WEFT[..], more].concat())
}

#[test]
fn full_sync_sends_all_data_to_peers() {
    for (seed, (name, program)) in replica_programs().into_iter().enumerate() {
        for diskless in ["yes", "no"] {
            let weft = weft(&["--repl-diskless-sync", diskless]);
            // No RDB version that Redis requests has fields with an expiry.
            fill(&weft, seed as u64, name == "valkey");
            let replica = start_replica(name, &program, weft.port(), &[]);
            wait_until_caught_up(&weft, &replica);
            wait_for_same_data(&weft, &replica);
            // And later writes.
            fill(&weft, 77 + seed as u64, name == "valkey");
            wait_until_caught_up(&weft, &replica);
            wait_for_same_data(&weft, &replica);
            let syncs = number(&mut weft.client(), "stats", "sync_full");
            assert_eq!(syncs, 1, "{name} {diskless}");
        }
    }
}

#[test]
fn copy_that_a_replica_can_not_read_is_not_sent() {
    let weft = weft(&[]);
    let mut client = weft.client();
    client.cmd(&["HSET", "hash", "field", "value"]);
    client.cmd(&["HEXPIRE", "hash", "1000", "FIELDS", "1", "field"]);
    let mut old = RawReplica::new(&weft);
    assert_eq!(old.ask(&["REPLCONF", "capa", "eof"]), "+OK");
    old.send(&["PSYNC", "?", "-1"]);
    old.read_to_end();
    assert!(weft.log().contains("can't be written in version 11"), "{}", weft.log_tail());
    // A replica with a newer version gets them.
    let mut new = RawReplica::new(&weft);
    new.full_sync();
    assert!(new.read_copy().starts_with(b"VALKEY080"));
    client.cmd(&["DEL", "hash"]);
    let mut old = RawReplica::new(&weft);
    assert_eq!(old.ask(&["REPLCONF", "capa", "eof"]), "+OK");
    assert!(old.ask(&["PSYNC", "?", "-1"]).starts_with("+FULLRESYNC"));
    assert!(old.read_copy().starts_with(b"REDIS0011"));
}

#[test]
#[ignore = "long: cargo xtask test --all"]
fn replicas_that_connect_together_share_a_copy() {
    for diskless in ["yes", "no"] {
        let weft = weft(&[
            "--repl-diskless-sync",
            diskless,
            "--repl-diskless-sync-delay",
            "1000",
            "--repl-diskless-sync-max-replicas",
            "5",
            "--rdb-key-save-delay",
            "20000",
        ]);
        let mut client = weft.client();
        for n in 0..200 {
            client.ok(&["SET", &format!("key:{n}"), &"x".repeat(1000)]);
        }
        let mut all: Vec<RawReplica> = (0..5).map(|_| RawReplica::new(&weft)).collect();
        for raw in &mut all {
            assert_eq!(raw.ask(&["REPLCONF", "capa", "eof", "capa", "psync2"]), "+OK");
            raw.send(&["PSYNC", "?", "-1"]);
        }
        let lines: Vec<String> = all.iter_mut().map(RawReplica::line).collect();
        assert!(lines[0].starts_with("+FULLRESYNC"), "{lines:?}");
        let copies: Vec<Vec<u8>> = all.iter_mut().map(RawReplica::read_copy).collect();
        assert!(copies.iter().all(|copy| *copy == copies[0] && copy.len() > 2000), "{diskless}");
        assert_eq!(weft.log().matches("Starting BGSAVE for SYNC").count(), 1, "{}", weft.log());
        assert_eq!(number(&mut client, "stats", "sync_full"), 5);
        assert_eq!(number(&mut client, "persistence", "rdb_bgsave_in_progress"), 0);
        // The stream continues for all of them, from the same offset.
        for raw in &mut all {
            raw.send(&["REPLCONF", "ACK", "0"]);
        }
        client.ok(&["SET", "behind", "it"]);
        for raw in &mut all {
            let want =
                "*2\r\n$6\r\nSELECT\r\n$1\r\n0\r\n*3\r\n$3\r\nSET\r\n$6\r\nbehind\r\n$2\r\nit\r\n";
            assert_eq!(String::from_utf8_lossy(&raw.take(want.len())), want);
        }
    }
}

#[test]
#[ignore = "long: cargo xtask test --all"]
fn replica_that_does_not_read_does_not_block_the_copy_of_others() {
    for diskless in ["yes", "no"] {
        let weft = weft(&[
            "--repl-diskless-sync",
            diskless,
            "--repl-diskless-sync-delay",
            "1000",
            "--repl-diskless-sync-max-replicas",
            "2",
            "--repl-timeout",
            // Long enough for the other one to read its copy on a busy machine.
            "8",
        ]);
        let mut client = weft.client();
        let value = "x".repeat(1 << 20);
        for n in 0..48 {
            client.ok(&["SET", &format!("key:{n}"), &format!("{value}{n}")]);
        }
        client.ok(&["CONFIG", "SET", "rdbcompression", "no"]);
        let (mut stuck, mut other) = (RawReplica::new(&weft), RawReplica::new(&weft));
        for raw in [&mut stuck, &mut other] {
            assert_eq!(raw.ask(&["REPLCONF", "capa", "eof", "capa", "psync2"]), "+OK");
            raw.send(&["PSYNC", "?", "-1"]);
        }
        assert!(other.line().starts_with("+FULLRESYNC"));
        assert!(other.read_copy().len() > 48 << 20, "{diskless}");
        until("the stuck replica is dropped", || {
            other.send(&["REPLCONF", "ACK", "0"]);
            number(&mut client, "replication", "connected_slaves") == 1
        });
        assert!(
            weft.log().contains("Disconnecting timedout replica (full sync)"),
            "{}",
            weft.log()
        );
        assert_eq!(client.cmd(&["DBSIZE"]).int(), 48);
        drop(stuck);
    }
}

#[test]
fn copy_without_replicas_is_cancelled() {
    for diskless in ["yes", "no"] {
        let weft = weft(&["--repl-diskless-sync", diskless, "--rdb-key-save-delay", "100000"]);
        let mut client = weft.client();
        for n in 0..1000 {
            client.ok(&["SET", &format!("key:{n}"), "value"]);
        }
        let mut gone = RawReplica::new(&weft);
        gone.full_sync();
        assert_eq!(number(&mut client, "persistence", "rdb_bgsave_in_progress"), 1);
        assert!(client.cmd(&["BGSAVE"]).to_string().contains("already in progress"));
        drop(gone);
        until("the end of the copy", || {
            number(&mut client, "persistence", "rdb_bgsave_in_progress") == 0
        });
        // The next replica gets a copy.
        client.ok(&["CONFIG", "SET", "rdb-key-save-delay", "0"]);
        let mut next = RawReplica::new(&weft);
        next.full_sync();
        assert!(next.read_copy().len() > 1000);
        assert_eq!(client.cmd(&["CLIENT", "KILL", "TYPE", "replica"]).int(), 1);
        next.read_to_end();
        until("it is gone", || number(&mut client, "replication", "connected_slaves") == 0);
    }
}

/// The file of BGSAVE contains the replication offset, so a server that starts from it needs only a
/// partial sync.
#[test]
fn server_started_from_a_file_does_a_partial_sync() {
    let Some(program) = locate::valkey() else {
        return weft_testkit::skipped::note_here("valkey-server");
    };
    let weft = weft(&[]);
    fill(&weft, 5, true);
    let first = start_replica("valkey", &program, weft.port(), &[]);
    fill(&weft, 6, true);
    wait_until_caught_up(&weft, &first);
    let mut client = weft.client();
    client.cmd(&["BGSAVE"]);
    until("the file", || number(&mut client, "persistence", "rdb_bgsave_in_progress") == 0);
    client.ok(&["SET", "later", "than the file"]);
    let folder = weft.dir().to_str().expect("a path in ASCII");
    let second = start_replica("valkey", &program, weft.port(), &["--dir", folder]);
    wait_until_caught_up(&weft, &second);
    wait_for_same_data(&weft, &second);
    assert_eq!(number(&mut client, "stats", "sync_full"), 1);
    assert_eq!(number(&mut client, "stats", "sync_partial_ok"), 1);
}

#[test]
fn broken_link_during_a_copy_does_no_harm() {
    let Some(program) = locate::valkey() else {
        return weft_testkit::skipped::note_here("valkey-server");
    };
    let weft = weft(&["--rdb-key-save-delay", "3000"]);
    fill(&weft, 9, true);
    let link = Link::to(weft.port());
    let replica = start_replica("valkey", &program, link.port(), &[]);
    for _ in 0..3 {
        std::thread::sleep(Duration::from_millis(300));
        link.cut();
    }
    wait_until_caught_up(&weft, &replica);
    wait_for_same_data(&weft, &replica);
}

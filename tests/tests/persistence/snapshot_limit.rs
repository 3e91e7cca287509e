//! Snapshots at their memory limit: writes that would make one hold more wait, all else goes on, and the
//! snapshot comes to its end. DEBUG PAUSE-SNAPSHOT holds the walkers where they are.

use std::time::Duration;
use weft_testkit::{Client, Server};
use weft_tests::persistence::{info, no_rewrite, until};
use weft_tests::replicas::{Raw, caught_up, follower, same_data};
use weft_tests::scene::{reply, reply_within, send};

const KEYS: usize = 4000;

/// A server whose snapshots may hold little, with small keys. Writes wait for ever unless `more` says otherwise.
fn server(more: &[&str]) -> Server {
    let mut args = vec!["--enable-debug-command", "yes"];
    args.extend(["--snapshot-memory-limit", "100kb", "--snapshot-max-write-delay", "1000000"]);
    args.extend_from_slice(more);
    let server = Server::weft(&args);
    let mut client = server.client();
    for n in 0..KEYS {
        client.ok(&["SET", &format!("k{n}"), "before"]);
    }
    server
}

fn pause(client: &mut Client, is_on: bool) {
    client.ok(&["DEBUG", "PAUSE-SNAPSHOT", if is_on { "1" } else { "0" }]);
}

fn number(client: &mut Client, field: &str) -> usize {
    info(client, field).parse().expect("a number")
}

/// Writes keys from `from` on until a write waits: its client, whose answer is still to come, and which.
fn fill(server: &Server, from: usize) -> (Client, usize) {
    let (mut writer, mut asks) = (server.client(), server.client());
    for n in from..KEYS {
        send(&mut writer, &["SET", &format!("k{n}"), "after"]);
        let mut answered = false;
        until("an answer, or a client that waits", || {
            answered = reply_within(&mut writer, Duration::from_millis(1)).is_some();
            answered || number(&mut asks, "snapshot_waiting_clients") > 0
        });
        if !answered {
            return (writer, n);
        }
    }
    panic!("no write ever waits");
}

/// What waits, what does not, and what INFO says of it.
#[test]
fn only_writes_of_keys_that_are_not_saved_wait() {
    let mut weft = server(&[]);
    let mut client = weft.client();
    pause(&mut client, true);
    client.cmd(&["BGSAVE"]);
    let (mut writer, n) = fill(&weft, 0);
    let held = format!("k{n}");
    assert!(n > 100, "{n}");
    assert_eq!(client.cmd(&["GET", &held]).text(), "before");
    client.ok(&["SET", "k0", "again"]);
    // In a transaction nothing waits but EXEC, and reads of others do not.
    let mut other = weft.client();
    other.ok(&["MULTI"]);
    assert_eq!(other.cmd(&["SET", &format!("k{}", n + 1), "after"]).text(), "QUEUED");
    send(&mut other, &["EXEC"]);
    let mut third = weft.client();
    send(&mut third, &["COPY", "k0", &format!("k{}", n + 2), "REPLACE"]);
    until("three that wait", || number(&mut client, "snapshot_waiting_clients") == 3);
    assert_eq!(number(&mut client, "snapshot_delayed_writes"), 3);
    // One that goes waits no longer.
    drop(third);
    until("two that wait", || number(&mut client, "snapshot_waiting_clients") == 2);
    let limit = number(&mut client, "snapshot_memory_limit");
    assert_eq!(limit, 100 << 10);
    assert!(number(&mut client, "current_cow_size") <= limit);
    assert_eq!(client.cmd(&["DBSIZE"]).int(), KEYS as i64);

    pause(&mut client, false);
    assert_eq!(reply(&mut writer).text(), "OK");
    assert_eq!(reply(&mut other).items().len(), 1);
    until("the end of the save", || info(&mut client, "rdb_bgsave_in_progress") == "0");
    assert_eq!(info(&mut client, "rdb_last_bgsave_status"), "ok");
    assert_eq!(number(&mut client, "snapshot_waiting_clients"), 0);
    assert_eq!(number(&mut client, "snapshot_expired_write_delays"), 0);
    assert!(number(&mut client, "rdb_last_cow_size") <= limit);
    weft.restart_loading(&[]);
    let mut client = weft.client();
    until("the data", || info(&mut client, "loading") == "0");
    for n in 0..KEYS {
        assert_eq!(client.cmd(&["GET", &format!("k{n}")]).text(), "before");
    }
}

/// What needs every key, or the server's end, is not kept waiting by those who wait, nor are they by it.
#[test]
fn what_needs_all_keys_goes_on_while_writes_wait() {
    let weft = server(&[]);
    let mut client = weft.client();
    pause(&mut client, true);
    client.cmd(&["BGSAVE"]);
    let (mut writer, _) = fill(&weft, 0);
    client.ok(&["SWAPDB", "1", "2"]);
    client.ok(&["CONFIG", "SET", "maxmemory", "1", "maxmemory-policy", "allkeys-random"]);
    until("eviction", || client.cmd(&["DBSIZE"]).int() < KEYS as i64 / 2);
    client.ok(&["CONFIG", "SET", "maxmemory", "0"]);
    client.ok(&["FLUSHALL"]);
    // It may have been refused for its memory before; what comes after FLUSHALL need not be kept.
    let _ = reply(&mut writer);
    pause(&mut client, false);
    until("no save", || info(&mut client, "rdb_bgsave_in_progress") == "0");

    for n in 0..KEYS {
        client.ok(&["SET", &format!("k{n}"), "before"]);
    }
    pause(&mut client, true);
    client.cmd(&["BGSAVE"]);
    let (writer, _) = fill(&weft, 0);
    send(&mut client, &["SHUTDOWN", "NOSAVE"]);
    until("the end of the server", || Client::try_tcp(weft.port()).is_err());
    drop(writer);
}

/// A write goes on when its time is over, and the snapshot holds more and comes to its end.
#[test]
fn a_write_goes_on_when_its_time_is_over() {
    let weft = server(&["--snapshot-max-write-delay", "1"]);
    let mut client = weft.client();
    pause(&mut client, true);
    client.cmd(&["BGSAVE"]);
    for n in 0..KEYS {
        client.ok(&["SET", &format!("k{n}"), "after"]);
    }
    assert!(number(&mut client, "snapshot_expired_write_delays") > 0);
    let limit = number(&mut client, "snapshot_memory_limit");
    assert!(limit > 100 << 10 && number(&mut client, "current_cow_size") <= limit);
    pause(&mut client, false);
    until("the end of the save", || info(&mut client, "rdb_bgsave_in_progress") == "0");
    assert_eq!(info(&mut client, "rdb_last_bgsave_status"), "ok");
    assert_eq!(number(&mut client, "snapshot_memory_limit"), 0);
}

/// A rewrite, and the first base of a log, under writes of all keys.
#[test]
fn a_rewrite_comes_to_its_end() {
    let mut weft = server(&[]);
    let mut client = weft.client();
    pause(&mut client, true);
    client.ok(&["CONFIG", "SET", "appendonly", "yes"]);
    until("the cut", || number(&mut client, "snapshot_memory_limit") > 0);
    let (mut writer, n) = fill(&weft, 0);
    pause(&mut client, false);
    assert_eq!(reply(&mut writer).text(), "OK");
    for n in n + 1..KEYS {
        writer.ok(&["SET", &format!("k{n}"), "after"]);
    }
    no_rewrite(&mut client);
    assert_eq!(info(&mut client, "aof_last_bgrewrite_status"), "ok");
    // The restart kills the server, and `everysec` promises nothing of the last second.
    assert_eq!(writer.cmd(&["WAITAOF", "1", "0", "0"]).items()[0].int(), 1);
    weft.restart_loading(&["--appendonly", "yes"]);
    let mut client = weft.client();
    until("the data", || info(&mut client, "loading") == "0");
    for n in 0..KEYS {
        assert_eq!(client.cmd(&["GET", &format!("k{n}")]).text(), "after");
    }
}

/// A replica that takes nothing of its copy holds nobody up: a file takes the rest, and the snapshot ends.
#[test]
fn a_replica_that_takes_nothing_keeps_no_write_waiting() {
    let weft = server(&["--repl-diskless-sync", "yes", "--repl-diskless-sync-delay", "0"]);
    let mut client = weft.client();
    // More than sockets hold.
    let long = "v".repeat(64 << 10);
    for n in 0..400 {
        client.ok(&["SET", &format!("long{n}"), &format!("{n}{long}")]);
    }
    client.ok(&["CONFIG", "SET", "rdbcompression", "no"]);
    let mut replica = Raw::new(&weft);
    let _ = replica.full();
    until("the cut", || number(&mut client, "snapshot_memory_limit") > 0);
    for n in 0..KEYS {
        client.ok(&["SET", &format!("k{n}"), "after"]);
    }
    until("the end of the snapshot", || number(&mut client, "snapshot_memory_limit") == 0);
    assert_eq!(number(&mut client, "snapshot_spilled_syncs"), 1);
    assert_eq!(number(&mut client, "snapshot_expired_write_delays"), 0);
    // It gets all of its copy, if late.
    let copy = replica.copy();
    assert!(copy.len() > 400 * long.len(), "{}", copy.len());
}

/// Nobody waits any more when the link of a replica goes whose stream waited.
#[test]
fn a_stream_that_waited_ends_with_its_link() {
    let primary = server(&[]);
    let more = ["--snapshot-memory-limit", "100kb", "--snapshot-max-write-delay", "1000000"];
    let replica = follower("weft", weft_testkit::locate::weft(), primary.port(), &more);
    caught_up(&primary, &replica);
    let mut at_replica = replica.client();
    pause(&mut at_replica, true);
    at_replica.cmd(&["BGSAVE"]);
    let mut client = primary.client();
    for n in 0..KEYS {
        client.ok(&["SET", &format!("k{n}"), "after"]);
    }
    until("the stream waits", || number(&mut at_replica, "snapshot_waiting_clients") == 1);
    at_replica.ok(&["REPLICAOF", "NO", "ONE"]);
    until("it waits no more", || number(&mut at_replica, "snapshot_waiting_clients") == 0);
    pause(&mut at_replica, false);
    until("the end of the save", || info(&mut at_replica, "rdb_bgsave_in_progress") == "0");
    assert_eq!(info(&mut at_replica, "rdb_last_bgsave_status"), "ok");
}

/// A replica that takes a snapshot applies the stream of its primary in time.
#[test]
fn the_stream_of_a_primary_waits_too() {
    let primary = server(&[]);
    let more = ["--snapshot-memory-limit", "100kb", "--snapshot-max-write-delay", "1000000"];
    let program = weft_testkit::locate::weft();
    let replica = follower("weft", program, primary.port(), &more);
    caught_up(&primary, &replica);
    let mut at_replica = replica.client();
    pause(&mut at_replica, true);
    at_replica.cmd(&["BGSAVE"]);
    let mut client = primary.client();
    for n in 0..KEYS {
        client.ok(&["SET", &format!("k{n}"), "after"]);
    }
    until("the stream waits", || number(&mut at_replica, "snapshot_waiting_clients") == 1);
    assert_eq!(at_replica.cmd(&["GET", &format!("k{}", KEYS - 1)]).text(), "before");
    pause(&mut at_replica, false);
    until("the end of the save", || info(&mut at_replica, "rdb_bgsave_in_progress") == "0");
    assert_eq!(info(&mut at_replica, "rdb_last_bgsave_status"), "ok");
    caught_up(&primary, &replica);
    same_data(&primary, &replica);
}

/// A write that waited and is then refused waits no longer, alone or in a transaction.
#[test]
fn refused_write_waits_for_the_snapshot_no_longer() {
    let weft = server(&[]);
    let (mut client, mut other) = (weft.client(), weft.client());
    for (name, on, off, code) in
        [("min-replicas-to-write", "1", "0", "NOREPLICAS"), ("maxmemory", "1", "0", "OOM")]
    {
        pause(&mut client, true);
        client.cmd(&["BGSAVE"]);
        let (mut writer, n) = fill(&weft, 0);
        other.ok(&["MULTI"]);
        assert_eq!(other.cmd(&["SET", &format!("k{}", n + 1), "after"]).text(), "QUEUED");
        send(&mut other, &["EXEC"]);
        until("two that wait", || number(&mut client, "snapshot_waiting_clients") == 2);
        client.ok(&["CONFIG", "SET", name, on]);
        // Those that wait look again.
        client.ok(&["CLIENT", "PAUSE", "600000", "WRITE"]);
        client.ok(&["CLIENT", "UNPAUSE"]);
        let refused = reply(&mut writer).error().expect("it is refused");
        assert!(refused.starts_with(code), "{refused}");
        let refused = reply(&mut other).error().expect("it is refused");
        assert!(refused.contains(code), "{refused}");
        assert_eq!(number(&mut client, "snapshot_waiting_clients"), 0, "{code}");
        client.ok(&["CONFIG", "SET", name, off]);
        pause(&mut client, false);
        until("the end of the save", || info(&mut client, "rdb_bgsave_in_progress") == "0");
    }
}

//! Snapshots at their memory limit: writes that would need more memory wait, other commands
//! continue, and the snapshot completes. DEBUG PAUSE-SNAPSHOT stops the snapshot threads.

use std::time::Duration;
use weft_testkit::{Client, Server};
use weft_tests::persistence::{info, until, wait_for_rewrite_end};
use weft_tests::replicas::{RawReplica, start_replica, wait_for_same_data, wait_until_caught_up};
use weft_tests::scene::{reply, reply_within, send};

const KEYS: usize = 4000;

/// A server with small keys and a low memory limit for snapshots. Writes wait forever unless `more`
/// says otherwise.
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

/// Writes keys from `from` on until a write waits. Returns the waiting client and the number of the
/// key.
fn fill(server: &Server, from: usize) -> (Client, usize) {
    let (mut writer, mut asks) = (server.client(), server.client());
    for n in from..KEYS {
        send(&mut writer, &["SET", &format!("k{n}"), "after"]);
        let mut answered = false;
        until("a reply or a waiting client", || {
            answered = reply_within(&mut writer, Duration::from_millis(1)).is_some();
            answered || number(&mut asks, "snapshot_waiting_clients") > 0
        });
        if !answered {
            return (writer, n);
        }
    }
    panic!("no write waits");
}

/// Which commands wait, and the fields of INFO.
#[test]
fn only_writes_of_unsaved_keys_wait() {
    let mut weft = server(&[]);
    let mut client = weft.client();
    pause(&mut client, true);
    client.cmd(&["BGSAVE"]);
    let (mut writer, n) = fill(&weft, 0);
    let held = format!("k{n}");
    assert!(n > 100, "{n}");
    assert_eq!(client.cmd(&["GET", &held]).text(), "before");
    client.ok(&["SET", "k0", "again"]);
    // Of a transaction only EXEC waits, and reads of other clients do not.
    let mut other = weft.client();
    other.ok(&["MULTI"]);
    assert_eq!(other.cmd(&["SET", &format!("k{}", n + 1), "after"]).text(), "QUEUED");
    send(&mut other, &["EXEC"]);
    let mut third = weft.client();
    send(&mut third, &["COPY", "k0", &format!("k{}", n + 2), "REPLACE"]);
    until("three waiting clients", || number(&mut client, "snapshot_waiting_clients") == 3);
    assert_eq!(number(&mut client, "snapshot_delayed_writes"), 3);
    // A client that disconnects waits no longer.
    drop(third);
    until("two waiting clients", || number(&mut client, "snapshot_waiting_clients") == 2);
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
    until("the data are loaded", || info(&mut client, "loading") == "0");
    for n in 0..KEYS {
        assert_eq!(client.cmd(&["GET", &format!("k{n}")]).text(), "before");
    }
}

/// Commands on all keys and SHUTDOWN do not wait for waiting writes, and do not block them.
#[test]
fn commands_on_all_keys_continue_while_writes_wait() {
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
    // The write may have been refused for lack of memory, and writes after FLUSHALL need no copy.
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
    until("the server exits", || Client::try_tcp(weft.port()).is_err());
    drop(writer);
}

/// A write continues after the maximum delay. The snapshot then exceeds its limit and completes.
#[test]
fn write_continues_after_the_maximum_delay() {
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

/// A rewrite, and the first base of an AOF, while all keys are written.
#[test]
fn rewrite_completes_at_the_memory_limit() {
    let mut weft = server(&[]);
    let mut client = weft.client();
    pause(&mut client, true);
    client.ok(&["CONFIG", "SET", "appendonly", "yes"]);
    until("the snapshot begins", || number(&mut client, "snapshot_memory_limit") > 0);
    let (mut writer, n) = fill(&weft, 0);
    pause(&mut client, false);
    assert_eq!(reply(&mut writer).text(), "OK");
    for n in n + 1..KEYS {
        writer.ok(&["SET", &format!("k{n}"), "after"]);
    }
    wait_for_rewrite_end(&mut client);
    assert_eq!(info(&mut client, "aof_last_bgrewrite_status"), "ok");
    // The restart kills the server, and `everysec` may lose the last second.
    assert_eq!(writer.cmd(&["WAITAOF", "1", "0", "0"]).items()[0].int(), 1);
    weft.restart_loading(&["--appendonly", "yes"]);
    let mut client = weft.client();
    until("the data are loaded", || info(&mut client, "loading") == "0");
    for n in 0..KEYS {
        assert_eq!(client.cmd(&["GET", &format!("k{n}")]).text(), "after");
    }
}

/// A replica that reads nothing of its copy delays no write: the rest of the copy goes to a file,
/// and the snapshot ends.
#[test]
fn replica_that_does_not_read_delays_no_write() {
    let weft = server(&["--repl-diskless-sync", "yes", "--repl-diskless-sync-delay", "0"]);
    let mut client = weft.client();
    // More than the socket buffers hold.
    let long = "v".repeat(64 << 10);
    for n in 0..400 {
        client.ok(&["SET", &format!("long{n}"), &format!("{n}{long}")]);
    }
    client.ok(&["CONFIG", "SET", "rdbcompression", "no"]);
    let mut replica = RawReplica::new(&weft);
    let _ = replica.full_sync();
    until("the snapshot begins", || number(&mut client, "snapshot_memory_limit") > 0);
    for n in 0..KEYS {
        client.ok(&["SET", &format!("k{n}"), "after"]);
    }
    until("the end of the snapshot", || number(&mut client, "snapshot_memory_limit") == 0);
    assert_eq!(number(&mut client, "snapshot_spilled_syncs"), 1);
    assert_eq!(number(&mut client, "snapshot_expired_write_delays"), 0);
    // The replica gets the whole copy, though late.
    let copy = replica.read_copy();
    assert!(copy.len() > 400 * long.len(), "{}", copy.len());
}

/// The stream of a primary waits, and its link ends: no client is counted as waiting any more.
#[test]
#[ignore = "long: cargo xtask test --all"]
fn waiting_stream_ends_with_its_link() {
    let primary = server(&[]);
    let more = ["--snapshot-memory-limit", "100kb", "--snapshot-max-write-delay", "1000000"];
    let replica = start_replica("weft", weft_testkit::locate::weft(), primary.port(), &more);
    wait_until_caught_up(&primary, &replica);
    let mut at_replica = replica.client();
    pause(&mut at_replica, true);
    at_replica.cmd(&["BGSAVE"]);
    let mut client = primary.client();
    for n in 0..KEYS {
        client.ok(&["SET", &format!("k{n}"), "after"]);
    }
    until("the stream waits", || number(&mut at_replica, "snapshot_waiting_clients") == 1);
    at_replica.ok(&["REPLICAOF", "NO", "ONE"]);
    until("no waiting client", || number(&mut at_replica, "snapshot_waiting_clients") == 0);
    pause(&mut at_replica, false);
    until("the end of the save", || info(&mut at_replica, "rdb_bgsave_in_progress") == "0");
    assert_eq!(info(&mut at_replica, "rdb_last_bgsave_status"), "ok");
}

/// On a replica with a snapshot, the stream of the primary waits, too, and is applied afterwards.
#[test]
#[ignore = "long: cargo xtask test --all"]
fn stream_of_a_primary_also_waits() {
    let primary = server(&[]);
    let more = ["--snapshot-memory-limit", "100kb", "--snapshot-max-write-delay", "1000000"];
    let program = weft_testkit::locate::weft();
    let replica = start_replica("weft", program, primary.port(), &more);
    wait_until_caught_up(&primary, &replica);
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
    wait_until_caught_up(&primary, &replica);
    wait_for_same_data(&primary, &replica);
}

/// A waiting write that is then refused waits no longer, alone or in a transaction.
#[test]
fn refused_write_no_longer_waits_for_the_snapshot() {
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
        until("two waiting clients", || number(&mut client, "snapshot_waiting_clients") == 2);
        client.ok(&["CONFIG", "SET", name, on]);
        // The end of a pause makes the waiting clients retry.
        client.ok(&["CLIENT", "PAUSE", "600000", "WRITE"]);
        client.ok(&["CLIENT", "UNPAUSE"]);
        let refused = reply(&mut writer).error().expect("SET is refused");
        assert!(refused.starts_with(code), "{refused}");
        let refused = reply(&mut other).error().expect("EXEC is refused");
        assert!(refused.contains(code), "{refused}");
        assert_eq!(number(&mut client, "snapshot_waiting_clients"), 0, "{code}");
        client.ok(&["CONFIG", "SET", name, off]);
        pause(&mut client, false);
        until("the end of the save", || info(&mut client, "rdb_bgsave_in_progress") == "0");
    }
}

//! Servers of a pair exit and start again: they do a partial sync if their files allow it, and
//! never from an offset that they do not have.
//!
//! In the end both have the same keys and the same offset. If the file is complete, or the other
//! side's backlog covers the rest, there is no full sync.

use std::time::Duration;
use weft_testkit::{Client, Value, locate};
use weft_tests::instance::Instance;
use weft_tests::persistence::until;

/// How the server ends.
#[derive(Clone, Copy, Debug, PartialEq)]
enum End {
    /// SIGTERM, which saves.
    Term,
    /// SIGKILL just after a save.
    Saved,
    /// SIGKILL some writes after a save.
    Killed,
}

/// Which server of the pair.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Side {
    Primary,
    Replica,
}

fn client(instance: &Instance) -> Client {
    let mut client = Client::tcp(instance.port());
    client.set_timeout(Duration::from_secs(30));
    client
}

fn info(instance: &Instance, field: &str) -> String {
    let Value::Bulk(text) = client(instance).cmd(&["INFO", "everything"]) else {
        panic!("INFO is text")
    };
    let text = String::from_utf8_lossy(&text).into_owned();
    let line = text.lines().find_map(|line| line.strip_prefix(&format!("{field}:")));
    line.unwrap_or_default().to_string()
}

/// Writes with known values, in several databases and in transactions.
fn write(client: &mut Client, from: usize, count: usize) {
    for n in from..from + count {
        client.ok(&["SELECT", &(n % 3).to_string()]);
        client.ok(&["SET", &format!("key:{n}"), &n.to_string()]);
        client.ok(&["MULTI"]);
        client.cmd(&["RPUSH", "list", &n.to_string()]);
        client.cmd(&["HSET", "hash", &format!("f{n}"), &n.to_string()]);
        client.cmd(&["EXEC"]);
    }
}

fn agree(primary: &Instance, replica: &Instance) {
    until("the link is up", || info(replica, "master_link_status") == "up");
    until("the offsets are equal", || {
        info(primary, "master_repl_offset") == info(replica, "slave_repl_offset")
    });
    let digest = |instance: &Instance| client(instance).cmd(&["DEBUG", "DIGEST"]);
    assert_eq!(digest(primary), digest(replica));
}

/// Where the data are stored.
#[derive(Clone, Copy, Debug, PartialEq)]
enum File {
    Snapshot,
    Log,
}

fn restart(side: Side, end: End, file: File) {
    let keeps = match file {
        File::Snapshot => "save 3600 1",
        File::Log => "appendonly yes",
    };
    let lines = [keeps, "repl-diskless-sync-delay 0", "enable-debug-command yes"];
    let lines = lines.map(String::from).to_vec();
    let mut primary = Instance::new(locate::weft(), &lines, &[]);
    primary.start();
    let mut lines = lines;
    lines.push(format!("replicaof 127.0.0.1 {}", primary.port()));
    let mut replica = Instance::new(locate::weft(), &lines, &[]);
    replica.start();
    until("the link is up", || info(&replica, "master_link_status") == "up");
    write(&mut client(&primary), 0, 50);
    agree(&primary, &replica);
    let (own, other) = match side {
        Side::Primary => (&mut primary, &mut replica),
        Side::Replica => (&mut replica, &mut primary),
    };
    match file {
        File::Snapshot if end != End::Term => drop(client(own).cmd(&["SAVE"])),
        File::Snapshot => {}
        // The AOF must be written, and contain its replication offset.
        File::Log => {
            client(own).cmd(&["BGREWRITEAOF"]);
            until("the rewrite", || info(own, "aof_rewrite_in_progress") == "0");
            std::thread::sleep(Duration::from_millis(if end == End::Saved { 1500 } else { 0 }));
        }
    }
    if end == End::Killed {
        // The file is older than the other server's data.
        let port = match side {
            Side::Primary => own.port(),
            Side::Replica => other.port(),
        };
        write(&mut Client::tcp(port), 50, 20);
        until("both have the writes", || {
            let field =
                if side == Side::Primary { "slave_repl_offset" } else { "master_repl_offset" };
            let own_field =
                if side == Side::Primary { "master_repl_offset" } else { "slave_repl_offset" };
            info(other, field) == info(own, own_field)
        });
    }
    let copies = |instance: &Instance| info(instance, "sync_full");
    let before = if side == Side::Replica { copies(other) } else { "0".into() };
    match end {
        End::Term => own.terminate(),
        End::Saved | End::Killed => own.kill(),
    }
    own.start();
    agree(&primary, &replica);
    write(&mut client(&primary), 100, 30);
    agree(&primary, &replica);
    let base: u32 = before.parse().expect("a number");
    if file == File::Log && end == End::Killed {
        // The last of its writes may be lost, or not.
        return;
    }
    // If the primary has lost writes that its replica has, it must refuse a partial sync.
    let copied = u32::from(side == Side::Primary && end == End::Killed);
    assert_eq!(copies(&primary), (base + copied).to_string(), "copies; {side:?} {end:?} {file:?}");
}

fn restarts(side: Side, file: File) {
    for end in [End::Term, End::Saved, End::Killed] {
        restart(side, end, file);
    }
}

#[test]
fn replica_resumes_from_its_snapshot() {
    restarts(Side::Replica, File::Snapshot);
}

#[test]
fn replica_resumes_from_its_aof() {
    restarts(Side::Replica, File::Log);
}

#[test]
fn replica_resumes_if_the_snapshot_of_its_primary_is_complete() {
    restarts(Side::Primary, File::Snapshot);
}

#[test]
#[ignore = "long: cargo xtask test --all"]
fn replica_resumes_if_the_aof_of_its_primary_is_complete() {
    restarts(Side::Primary, File::Log);
}

/// A replica that resumes must not keep keys that its primary skipped at the load.
#[test]
fn keys_that_expire_while_the_primary_is_down_are_removed_on_the_replica() {
    let lines = ["save 3600 1", "repl-diskless-sync-delay 0", "enable-debug-command yes"];
    let mut lines = lines.map(String::from).to_vec();
    let mut primary = Instance::new(locate::weft(), &lines, &[]);
    primary.start();
    lines.push(format!("replicaof 127.0.0.1 {}", primary.port()));
    let mut replica = Instance::new(locate::weft(), &lines, &[]);
    replica.start();
    until("the link is up", || info(&replica, "master_link_status") == "up");
    client(&primary).ok(&["SET", "counter", "10", "PX", "400"]);
    client(&primary).ok(&["SET", "other", "1"]);
    agree(&primary, &replica);
    primary.terminate();
    std::thread::sleep(Duration::from_millis(600));
    primary.start();
    // The counter starts anew on the primary, so it must on the replica.
    assert_eq!(client(&primary).cmd(&["INCR", "counter"]), Value::Integer(1));
    agree(&primary, &replica);
    assert_eq!(client(&replica).cmd(&["GET", "counter"]), Value::Bulk(b"1".to_vec()));
}

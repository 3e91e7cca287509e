//! Servers of a pair that end and start again: they go on where their files let them, and never from a place
//! that they do not have.
//!
//! In the end both have the same keys and the same offset, whatever happened; and where the file is of the
//! very end, or the backlog of the other side covers what came after it, nothing is copied.

use std::time::Duration;
use weft_testkit::{Client, Value, locate};
use weft_tests::instance::Instance;
use weft_tests::persistence::until;

/// How it ends.
#[derive(Clone, Copy, Debug, PartialEq)]
enum End {
    /// SIGTERM, by which what there is is saved.
    Term,
    /// SIGKILL right behind a save.
    Saved,
    /// SIGKILL some writes behind a save.
    Killed,
}

/// Which of the two.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Who {
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

/// Writes that say what they are, in several databases and transactions.
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

/// Where the data are kept.
#[derive(Clone, Copy, Debug, PartialEq)]
enum File {
    Snapshot,
    Log,
}

fn restart(who: Who, end: End, file: File) {
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
    let (own, other) = match who {
        Who::Primary => (&mut primary, &mut replica),
        Who::Replica => (&mut replica, &mut primary),
    };
    match file {
        File::Snapshot if end != End::Term => drop(client(own).cmd(&["SAVE"])),
        File::Snapshot => {}
        // The log must have been written, and say where it is.
        File::Log => {
            client(own).cmd(&["BGREWRITEAOF"]);
            until("the rewrite", || info(own, "aof_rewrite_in_progress") == "0");
            std::thread::sleep(Duration::from_millis(if end == End::Saved { 1500 } else { 0 }));
        }
    }
    if end == End::Killed {
        // So the file is behind what the other one has.
        let port = match who {
            Who::Primary => own.port(),
            Who::Replica => other.port(),
        };
        write(&mut Client::tcp(port), 50, 20);
        until("the writes are at both", || {
            let field =
                if who == Who::Primary { "slave_repl_offset" } else { "master_repl_offset" };
            let own_field =
                if who == Who::Primary { "master_repl_offset" } else { "slave_repl_offset" };
            info(other, field) == info(own, own_field)
        });
    }
    let copies = |instance: &Instance| info(instance, "sync_full");
    let before = if who == Who::Replica { copies(other) } else { "0".into() };
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
        // It may have lost the last of its writes, or not.
        return;
    }
    // A primary that has lost writes which its replica has must not let it go on.
    let copied = u32::from(who == Who::Primary && end == End::Killed);
    assert_eq!(copies(&primary), (base + copied).to_string(), "copies; {who:?} {end:?} {file:?}");
}

fn restarts(who: Who, file: File) {
    for end in [End::Term, End::Saved, End::Killed] {
        restart(who, end, file);
    }
}

#[test]
fn a_replica_goes_on_from_its_snapshot() {
    restarts(Who::Replica, File::Snapshot);
}

#[test]
fn a_replica_goes_on_from_its_log() {
    restarts(Who::Replica, File::Log);
}

#[test]
fn a_primary_lets_its_replica_go_on_if_its_snapshot_has_everything() {
    restarts(Who::Primary, File::Snapshot);
}

#[test]
fn a_primary_lets_its_replica_go_on_if_its_log_has_everything() {
    restarts(Who::Primary, File::Log);
}

/// A replica that goes on must not keep what its primary has left out.
#[test]
fn what_expires_while_the_primary_is_away_is_gone_at_the_replica() {
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
    // Here it begins at nothing, so it must there.
    assert_eq!(client(&primary).cmd(&["INCR", "counter"]), Value::Integer(1));
    agree(&primary, &replica);
    assert_eq!(client(&replica).cmd(&["GET", "counter"]), Value::Bulk(b"1".to_vec()));
}

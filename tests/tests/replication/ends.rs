//! Shutdown of a server whose replicas lag: which clients wait, and how it is aborted.

use rustix::process::Signal;
use weft_testkit::{Client, Server};
use weft_tests::replicas::{RawReplica, fields};
use weft_tests::scene::{LongCommand, on_both, reply, reply_within, send, until, until_blocked};

const ARGS: [&str; 6] =
    ["--save", "", "--shutdown-timeout", "1000", "--repl-diskless-sync-delay", "0"];
const SHORT: std::time::Duration = std::time::Duration::from_millis(200);
const FAILED: &str = "-ERR Errors trying to SHUTDOWN. Check logs.";

/// A replica that has its copy and acknowledges nothing after it. Also returns the offset of the
/// copy.
fn replica_of(server: &Server) -> (RawReplica, u64) {
    let mut replica = RawReplica::new(server);
    let (_, at) = replica.full_sync();
    replica.read_copy();
    replica.send(&["REPLCONF", "ACK", &at.to_string()]);
    let mut client = server.client();
    until("the replica is online", || {
        fields(&mut client, "replication").get("slave0").is_some_and(|s| s.contains("state=online"))
    });
    client.ok(&["SET", "written", "1"]);
    (replica, at)
}

/// Milliseconds until the server no longer waits for replicas.
fn left(client: &mut Client) -> Option<i64> {
    fields(client, "server").get("shutdown_in_milliseconds").map(|n| n.parse().expect("a number"))
}

fn wait_for_shutdown_to_begin(client: &mut Client) {
    until("the shutdown waits", || left(client).is_some());
}

/// CLIENT LIST lines of clients that sent SHUTDOWN.
fn shutdown_clients(client: &mut Client) -> Vec<String> {
    let lines = client.cmd(&["CLIENT", "LIST"]).text();
    lines.lines().filter(|line| line.contains("cmd=shutdown")).map(str::to_string).collect()
}

fn assert_unanswered(client: &mut Client) {
    assert!(reply_within(client, SHORT).is_none());
}

#[test]
fn shutdown_waits_for_replicas_and_pauses_writes() {
    on_both(&ARGS, &[], |server| {
        let _replica = replica_of(server);
        let mut admin = server.client();
        assert_eq!(left(&mut admin), None);
        let mut asks = server.client();
        send(&mut asks, &["SHUTDOWN"]);
        wait_for_shutdown_to_begin(&mut admin);
        assert!((1..=1_000_000).contains(&left(&mut admin).expect("the shutdown waits")));
        until_blocked(&mut admin, 1);
        let clients = fields(&mut admin, "clients");
        assert_eq!(clients["paused_reason"], "shutdown_in_progress");
        assert_eq!(clients["paused_actions"], "write");
        let mut writes = server.client();
        send(&mut writes, &["SET", "held", "back"]);
        assert!(admin.cmd(&["GET", "held"]).is_null(), "reads are not paused");
        // CLIENT UNPAUSE does not end this pause.
        admin.ok(&["CLIENT", "PAUSE", "1", "WRITE"]);
        admin.ok(&["CLIENT", "UNPAUSE"]);
        assert_unanswered(&mut writes);
        // Later SHUTDOWN commands wait for the same shutdown, whatever their options.
        let mut others = [
            &["SHUTDOWN", "NOW"][..],
            &["SHUTDOWN", "NOSAVE", "FORCE"],
            &["SHUTDOWN", "SAVE", "NOW", "FORCE"],
        ]
        .map(|words| {
            let mut client = server.client();
            send(&mut client, words);
            client
        });
        until("four clients wait", || shutdown_clients(&mut admin).len() == 4);
        server.signal(Signal::TERM);
        others.iter_mut().for_each(assert_unanswered);
        // CLIENT UNBLOCK does not unblock these clients.
        let all = shutdown_clients(&mut admin);
        assert!(all.iter().all(|line| line.contains(" flags=b ")), "{all:?}");
        let id = all[0].strip_prefix("id=").and_then(|rest| rest.split(' ').next()).expect("an id");
        assert_eq!(admin.cmd(&["CLIENT", "UNBLOCK", id]).int(), 0);
        assert_eq!(admin.cmd(&["CLIENT", "KILL", "ID", id]).int(), 1);
        assert_eq!(shutdown_clients(&mut admin).len(), 3);
        assert!(left(&mut admin).is_some(), "the shutdown continues without its client");
        admin.ok(&["SHUTDOWN", "ABORT"]);
        let errors = [asks]
            .into_iter()
            .chain(others)
            .filter_map(|mut client| client.read_reply().ok())
            .map(|errors| errors.value.to_string())
            .collect::<Vec<_>>();
        assert_eq!(errors, [FAILED; 3]);
        assert!(reply(&mut writes).is_ok());
        assert_eq!(left(&mut admin), None);
        assert_eq!(fields(&mut admin, "clients")["paused_reason"], "none");
        assert_eq!(admin.cmd(&["SHUTDOWN", "ABORT"]).to_string(), "-ERR No shutdown in progress.");
        // A shutdown requested by a signal can also be aborted.
        server.signal(Signal::TERM);
        wait_for_shutdown_to_begin(&mut admin);
        admin.ok(&["SHUTDOWN", "ABORT"]);
        assert_eq!(left(&mut admin), None);
        admin.ok(&["SET", "written", "2"]);
    });
}

#[test]
fn server_exits_when_replicas_have_everything() {
    on_both(&ARGS, &[], |server| {
        let (mut replica, _) = replica_of(server);
        let mut admin = server.client();
        let mut asks = server.client();
        send(&mut asks, &["SHUTDOWN"]);
        wait_for_shutdown_to_begin(&mut admin);
        // After an abort, a new shutdown is possible.
        admin.ok(&["SHUTDOWN", "ABORT"]);
        assert_eq!(reply(&mut asks).to_string(), FAILED);
        // By another client: the reference ignores a second one from the same client.
        let mut asks = server.client();
        send(&mut asks, &["SHUTDOWN"]);
        wait_for_shutdown_to_begin(&mut admin);
        let all = fields(&mut admin, "replication")["master_repl_offset"].clone();
        replica.send(&["REPLCONF", "ACK", &all]);
        assert!(server.wait().success());
        assert_eq!(asks.read_to_close().expect("the connection is closed"), b"");
    });
}

#[test]
fn shutdown_now_does_not_wait_for_replicas() {
    on_both(&ARGS, &[], |server| {
        let _replica = replica_of(server);
        let mut asks = server.client();
        send(&mut asks, &["SHUTDOWN", "NOW"]);
        assert!(server.wait().success());
    });
}

/// The role changes during the wait: clients that sent SHUTDOWN get the same error as other blocked
/// clients.
#[test]
fn shutdown_is_unblocked_when_the_role_changes() {
    on_both(&ARGS, &[], |server| {
        let _replica = replica_of(server);
        let mut admin = server.client();
        let mut asks = server.client();
        send(&mut asks, &["SHUTDOWN"]);
        wait_for_shutdown_to_begin(&mut admin);
        admin.ok(&["REPLICAOF", "127.0.0.1", "1"]);
        assert!(reply(&mut asks).to_string().starts_with("-UNBLOCKED force unblock"));
        assert_eq!(asks.read_to_close().expect("the connection is closed"), b"");
    });
}

/// Long commands block only commands that need their keys.
#[test]
fn shutdown_does_not_wait_for_long_commands() {
    let mut server = Server::weft(&["--save", ""]);
    let longs = ["a", "b", "c", "d"].map(|tag| LongCommand::with_tag(&server, tag));
    let runners = longs.map(|long| long.begin(&server, 20.0));
    let mut asks = server.client();
    send(&mut asks, &["SHUTDOWN", "NOSAVE"]);
    assert!(server.wait().success());
    for mut runner in runners {
        assert_eq!(
            runner.read_to_close().expect("the connection is closed"),
            b"",
            "the long command was cut off"
        );
    }
}

//! A primary fails over, becomes a replica, or shuts down: no acknowledged write is lost, and
//! blocked clients get an error.

use rustix::process::Signal;
use std::time::Duration;
use weft_testkit::{Client, Server, locate, skipped};
use weft_tests::persistence::until;
use weft_tests::replicas::{
    fields, number, start_replica, wait_for_same_data, wait_until_caught_up,
};
use weft_tests::scene::{on_both, reply, send, until_blocked};

const BOTH: [&str; 4] = ["--repl-diskless-sync-delay", "0", "--enable-debug-command", "yes"];

fn role(server: &Server) -> String {
    fields(&mut server.client(), "replication")["role"].clone()
}

/// Increments a key until the server refuses writes. Returns the last acknowledged value.
fn increments(mut client: Client, key: &str) -> i64 {
    let mut last = 0;
    loop {
        match client.try_cmd(&["INCR", key]) {
            Ok(reply) if reply.value.error().is_none() => last = reply.value.int(),
            Ok(_) | Err(_) => return last,
        }
    }
}

#[test]
fn failover_there_and_back_loses_nothing() {
    let Some(program) = locate::valkey() else { return skipped::note_here("valkey-server") };
    let weft = Server::weft(&[&BOTH[..], &["--io-threads", "4"]].concat());
    let valkey =
        start_replica("valkey", &program, weft.port(), &["--repl-diskless-sync-delay", "0"]);
    wait_until_caught_up(&weft, &valkey);
    for round in 0..3 {
        for (from, to) in [(&weft, &valkey), (&valkey, &weft)] {
            let keys: Vec<String> =
                (0..4).map(|n| format!("{}:{round}:{n}", from.name())).collect();
            std::thread::scope(|scope| {
                let writers: Vec<_> = keys
                    .iter()
                    .map(|key| (key, from.client()))
                    .map(|(key, client)| (key, scope.spawn(move || increments(client, key))))
                    .collect();
                std::thread::sleep(Duration::from_millis(200));
                from.client().ok(&["FAILOVER"]);
                until("the roles are swapped", || role(to) == "master" && role(from) == "slave");
                for (key, writer) in writers {
                    let acknowledged = writer.join().expect("a writer");
                    let has = to.client().cmd(&["GET", key]).text();
                    assert_eq!(has, acknowledged.to_string(), "{key} at {}", to.name());
                }
            });
            wait_until_caught_up(to, from);
            wait_for_same_data(to, from);
        }
    }
    let mut client = weft.client();
    assert_eq!(number(&mut client, "stats", "sync_full"), 1);
}

#[test]
fn blocked_clients_get_an_error_when_the_role_changes() {
    on_both(&BOTH, &[], |server| {
        let (mut key, mut stream, mut elsewhere) =
            (server.client(), server.client(), server.client());
        send(&mut key, &["BLPOP", "list", "0"]);
        send(&mut stream, &["XREAD", "BLOCK", "0", "STREAMS", "stream", "$"]);
        elsewhere.ok(&["CLIENT", "CAPA", "REDIRECT"]);
        send(&mut elsewhere, &["BZPOPMIN", "zset", "0"]);
        let mut replicas = server.client();
        send(&mut replicas, &["WAIT", "1", "0"]);
        let mut admin = server.client();
        until_blocked(&mut admin, 4);
        admin.ok(&["REPLICAOF", "127.0.0.1", "1"]);
        for mut client in [key, stream, replicas] {
            assert_eq!(
                reply(&mut client).to_string(),
                "-UNBLOCKED force unblock from blocking operation, instance state changed (master -> \
                 replica?)"
            );
            assert_eq!(client.read_to_close().expect("the connection is closed"), b"");
        }
        assert_eq!(reply(&mut elsewhere).to_string(), "-REDIRECT 127.0.0.1:1");
        assert_eq!(elsewhere.cmd(&["PING"]).to_string(), "+PONG");
        until_blocked(&mut admin, 0);
        let refused = admin.cmd(&["WAIT", "0", "0"]).to_string();
        assert!(
            refused.starts_with("-ERR WAIT cannot be used with replica instances."),
            "{refused}"
        );
    });
}

/// SHUTDOWN waits until replicas have all writes.
#[test]
fn shutdown_waits_for_replicas() {
    let Some(program) = locate::valkey() else { return skipped::note_here("valkey-server") };
    let mut weft = Server::weft(&[&BOTH[..], &["--save", "", "--shutdown-timeout", "60"]].concat());
    let replica = start_replica("valkey", &program, weft.port(), &[]);
    wait_until_caught_up(&weft, &replica);
    replica.signal(Signal::STOP);
    let mut client = weft.client();
    client.ok(&["SET", "last", "written"]);
    send(&mut client, &["SHUTDOWN"]);
    until("the server waits", || weft.log().contains("Waiting for replicas before shutting down"));
    assert!(weft.is_alive());
    replica.signal(Signal::CONT);
    weft.wait();
    assert!(weft.log().contains("1 of 1 replicas are in sync"), "{}", weft.log());
    assert_eq!(replica.client().cmd(&["GET", "last"]).text(), "written");
}

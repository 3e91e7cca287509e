//! Clients of a replica whose data are replaced by a copy: their watches, waits and transactions.

use weft_testkit::{Client, Server};
use weft_tests::persistence::until;
use weft_tests::replication::{FakePrimary, ONE_KEY, info, replicate_from, wait_for_link};
use weft_tests::scene::{reply, send, until_blocked};

const WAYS: [&str; 3] = ["disabled", "swapdb", "flush-before-load"];

fn replica(way: &str) -> Server {
    Server::weft(&["--save", "", "--repl-diskless-load", way, "--io-threads", "2"])
}

/// A copy adds one watched key and removes another: both transactions fail, and a transaction that
/// watches a third key succeeds.
#[test]
fn copy_breaks_watches_of_keys_that_it_adds_or_removes() {
    for way in WAYS {
        let server = replica(way);
        let mut client = server.client();
        client.ok(&["SET", "own", "1"]);
        let mut watchers: Vec<(&str, Client)> = ["old", "own", "neither"]
            .into_iter()
            .map(|key| {
                let mut watcher = server.client();
                watcher.ok(&["WATCH", key]);
                (key, watcher)
            })
            .collect();
        let fake = FakePrimary::new();
        replicate_from(&server, &fake.port());
        let _link = fake.copy(ONE_KEY, 7);
        wait_for_link(&mut client);
        for (key, watcher) in &mut watchers {
            watcher.ok(&["MULTI"]);
            watcher.cmd(&["GET", key]);
            let answer = watcher.cmd(&["EXEC"]);
            assert_eq!(answer.is_null(), *key != "neither", "{way} {key}: {answer}");
        }
    }
}

/// A client blocked on a stream is served when a full sync creates its entries.
#[test]
fn blocked_reader_is_served_after_a_copy() {
    let primary = Server::weft(&["--save", "", "--repl-diskless-sync-delay", "0"]);
    let mut writer = primary.client();
    writer.cmd(&["XADD", "stream", "7-0", "field", "value"]);
    for way in WAYS {
        let server = replica(way);
        let mut client = server.client();
        // The server is a replica before the client blocks.
        let fake = FakePrimary::new();
        replicate_from(&server, &fake.port());
        until("the new role", || info(&mut client, "role") == "slave");
        let mut waiting = server.client();
        send(&mut waiting, &["XREAD", "BLOCK", "0", "STREAMS", "stream", "5-0"]);
        until_blocked(&mut client, 1);
        client.ok(&["REPLICAOF", "127.0.0.1", &primary.port().to_string()]);
        wait_for_link(&mut client);
        assert!(reply(&mut waiting).to_string().contains("7-0"), "{way}");
    }
}

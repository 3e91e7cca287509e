//! Effects on the clients of a replica when a copy replaces its data: clients that wait for keys,
//! watch them or track them.

use std::path::Path;
use weft_testkit::{Client, Server};
use weft_tests::replication::{FakePrimary, replicate_from, wait_for_link};
use weft_tests::scene::{on_both, reply, send, until_blocked};

/// An RDB file with the result of these commands.
fn copy_of(commands: &[&[&str]]) -> Vec<u8> {
    let server = Server::weft(&["--save", "", "--dbfilename", "copy.rdb"]);
    let mut client = server.client();
    for words in commands {
        assert!(client.cmd(words).error().is_none(), "{words:?}");
    }
    client.ok(&["SAVE"]);
    std::fs::read(Path::new(server.dir()).join("copy.rdb")).expect("a file")
}

/// A client that watches a key.
fn watching(server: &Server, key: &str) -> Client {
    let mut client = server.client();
    client.ok(&["WATCH", key]);
    client
}

/// Whether a transaction of the watching client runs.
fn is_carried_out(client: &mut Client) -> bool {
    client.ok(&["MULTI"]);
    client.cmd(&["PING"]);
    !client.cmd(&["EXEC"]).is_null()
}

/// `replica` gets a copy, and then another one with the same replication id. If `serves_all`,
/// clients blocked on keys of the second copy are served. In any case a blocked consumer gets an
/// error, because its group is gone.
fn changes(replica: &Server, serves_all: bool) {
    let name = replica.name();
    let fake = FakePrimary::new();
    replicate_from(replica, &fake.port());
    let before = copy_of(&[
        &["XGROUP", "CREATE", "grouped", "group", "$", "MKSTREAM"],
        &["SET", "old", "1"],
        &["SET", "both", "1"],
    ]);
    let mut link = fake.copy(&before, 0);
    link.wait_for_ack(0);
    wait_for_link(&mut replica.client());
    let (mut reader, mut popper, mut consumer, mut idle) =
        (replica.client(), replica.client(), replica.client(), replica.client());
    send(&mut reader, &["XREAD", "BLOCK", "0", "STREAMS", "stream", "0"]);
    send(&mut popper, &["BLPOP", "list", "0"]);
    let group = ["XREADGROUP", "GROUP", "group", "me", "BLOCK", "0", "STREAMS", "grouped", ">"];
    send(&mut consumer, &group);
    send(&mut idle, &["BLPOP", "none", "0"]);
    let mut admin = replica.client();
    until_blocked(&mut admin, 4);
    let mut watching_new = watching(replica, "string");
    let mut watching_old = watching(replica, "old");
    let mut watching_both = watching(replica, "both");
    let mut watching_none = watching(replica, "none");
    let mut cache = replica.client();
    cache.hello(3);
    cache.ok(&["CLIENT", "TRACKING", "ON"]);
    assert_eq!(cache.cmd(&["GET", "old"]).text(), "1");
    let after = copy_of(&[
        &["XADD", "stream", "1-1", "field", "value"],
        &["RPUSH", "list", "a", "b"],
        &["SET", "string", "1"],
        &["SET", "both", "1"],
    ]);
    drop(link);
    let mut link = fake.copy(&after, 100);
    link.wait_for_ack(100);
    wait_for_link(&mut admin);
    let no_group = reply(&mut consumer).to_string();
    assert!(no_group.starts_with("-NOGROUP "), "{no_group} at {name}");
    if serves_all {
        assert!(reply(&mut reader).to_string().contains("value"), "at {name}");
        assert_eq!(reply(&mut popper).items()[1].text(), "a", "at {name}");
        assert_eq!(admin.cmd(&["LRANGE", "list", "0", "-1"]).items().len(), 1, "at {name}");
        until_blocked(&mut admin, 1);
        assert!(!is_carried_out(&mut watching_new), "at {name}");
    }
    assert!(!is_carried_out(&mut watching_old), "at {name}");
    assert!(!is_carried_out(&mut watching_both), "at {name}");
    assert!(is_carried_out(&mut watching_none), "at {name}");
    let push = cache.read_frame().expect("a push").value.to_string();
    assert!(push.contains("invalidate"), "{push} at {name}");
    assert!(cache.cmd(&["GET", "old"]).is_null());
}

#[test]
fn blocked_clients_retry_when_a_copy_is_swapped_in() {
    let args = ["--save", "", "--replica-read-only", "no", "--repl-diskless-load", "swapdb"];
    on_both(&args, &[], |replica| changes(replica, true));
}

/// The reference serves such clients only after the next write to the key.
#[test]
fn blocked_clients_retry_when_a_copy_is_loaded() {
    for load in ["disabled", "flush-before-load"] {
        let args = ["--save", "", "--replica-read-only", "no", "--repl-diskless-load", load];
        on_both(&args, &["--io-threads", "2"], |replica| {
            changes(replica, replica.name() == "weft");
        });
    }
}

/// The elements they get are removed in the AOF, too: they do not come back after a restart.
#[test]
fn elements_served_from_a_copy_are_logged() {
    let args = ["--save", "", "--replica-read-only", "no", "--appendonly", "yes"];
    let mut replica = Server::weft(&args);
    changes(&replica, true);
    let mut client = replica.client();
    client.ok(&["REPLICAOF", "NO", "ONE"]);
    replica.stop_term();
    replica.restart();
    let left = replica.client().cmd(&["LRANGE", "list", "0", "-1"]);
    assert_eq!(left.items().len(), 1, "{left}");
}

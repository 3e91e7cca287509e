//! A replica gets a copy of its primary's data: from all peers, in all load modes, and from
//! primaries that fail.

use weft_testkit::rng::Rng;
use weft_testkit::{Client, Server, skip_without};
use weft_tests::contents;
use weft_tests::persistence::until;
use weft_tests::replication::{
    FakePrimary, ID, NO_KEYS, ONE_KEY, info, peers, replicate_from, wait_for_link,
    wait_for_same_data, wait_until_caught_up,
};

const DEBUG: [&str; 2] = ["--enable-debug-command", "yes"];

/// A replica that loads in this mode, with a key of its own.
fn replica(mode: &str) -> Server {
    let args = ["--repl-diskless-load", mode, "--rdb-version-check", "relaxed"];
    let server = Server::weft(&[&DEBUG[..], &args].concat());
    server.client().ok(&["SET", "own", "1"]);
    server
}

/// Writes keys of all types, some with an expiry.
fn fill(client: &mut Client, rng: &mut Rng) {
    for db in ["0", "9"] {
        client.ok(&["SELECT", db]);
        for n in 0..120 {
            let key = format!("key{n}").into_bytes();
            for words in contents::value(rng, &key) {
                assert!(client.cmd(&words).error().is_none());
            }
            if n % 3 == 0 {
                client.cmd(&[b"PEXPIRE", &key[..], b"100000000"]);
            }
        }
        contents::fill_stream(client, rng, "stream");
        for n in 0..100 {
            client.cmd(&["SET", &format!("short{n}"), "v", "PX", "1"]);
        }
    }
    client.ok(&["SELECT", "0"]);
}

#[test]
fn copy_from_every_peer_in_every_mode() {
    let mut rng = Rng::new(11);
    for (name, program) in peers() {
        // Redis 8 computes the digest of fields with an expiry differently.
        let has_fields = name == "valkey-server";
        let ways = ["disabled", "on-empty-db", "swapdb", "flush-before-load"];
        for (n, mode) in ways.into_iter().enumerate() {
            let diskless = if n % 2 == 0 { "yes" } else { "no" };
            let mut args =
                vec!["--repl-diskless-sync", diskless, "--repl-diskless-sync-delay", "0"];
            if name != "redis6-server" {
                args.extend(DEBUG);
            }
            let primary = Server::start(name, &program, &args);
            let mut client = primary.client();
            fill(&mut client, &mut rng);
            if has_fields {
                client.cmd(&["HSET", "fields", "a", "1", "b", "2", "c", "3"]);
                client.cmd(&["HPEXPIRE", "fields", "100000000", "FIELDS", "1", "a"]);
                client.cmd(&["HPEXPIRE", "fields", "1", "FIELDS", "1", "c"]);
            }
            let replica = replica(mode);
            replicate_from(&replica, &primary.port().to_string());
            let mut other = replica.client();
            wait_for_link(&mut other);
            assert!(other.cmd(&["GET", "own"]).is_null(), "{name} {mode}: the old key is gone");
            client.ok(&["MULTI"]);
            for words in [&["SET", "after", "1"][..], &["SELECT", "3"], &["SET", "far", "2"]] {
                client.cmd(words);
            }
            client.cmd(&["EXEC"]);
            client.ok(&["SELECT", "0"]);
            wait_until_caught_up(&mut client, &mut other);
            wait_for_same_data(&mut client, &mut other);
            for field in ["master_replid", "second_repl_offset"] {
                assert_eq!(info(&mut client, field), info(&mut other, field), "{name} {mode}");
            }
            for key in ["key0", "key3", "key6"] {
                let [ours, theirs] =
                    [&mut client, &mut other].map(|client| client.cmd(&["PEXPIRETIME", key]));
                // PEXPIRETIME does not exist before Redis 7.
                assert!(theirs == ours || ours.error().is_some(), "{name} {mode} {key}");
            }
            let files = std::fs::read_dir(replica.dir()).expect("the folder exists");
            let temporary =
                files.flatten().any(|f| f.file_name().to_string_lossy().starts_with("temp-"));
            assert!(!temporary, "{name} {mode}: a temporary file is left");
        }
    }
}

/// A primary dies in the middle of a copy. The load mode decides whether the old data stay. The
/// next copy is loaded completely.
#[test]
#[ignore = "long: cargo xtask test --all"]
fn primary_that_dies_during_a_copy_does_no_harm() {
    for (mode, keeps) in
        [("disabled", true), ("on-empty-db", true), ("swapdb", true), ("flush-before-load", false)]
    {
        let fake = FakePrimary::new();
        let replica = replica(mode);
        let mut client = replica.client();
        replicate_from(&replica, &fake.port());
        for _ in 0..2 {
            let (mut link, words) = fake.handshake();
            assert_eq!(words[0], "PSYNC");
            link.raw(format!("+FULLRESYNC {ID} 7\r\n${}\r\n", ONE_KEY.len()).as_bytes());
            link.raw(&ONE_KEY[..15]);
            // Bytes may still be in transit, and are read before the end of the connection.
            if !keeps {
                until("the old data are dropped", || client.cmd(&["GET", "own"]).error().is_some());
            }
        }
        // The replica notices the end of the link, and connects again.
        let (mut link, _) = fake.handshake();
        let own = client.cmd(&["GET", "own"]);
        assert_eq!(own.bytes().is_some(), keeps, "{mode}: {own}");
        link.raw(b"-LOADING wait\r\n");
        let mut link = fake.copy(ONE_KEY, 7);
        wait_for_link(&mut client);
        assert_eq!(client.cmd(&["GET", "old"]).text(), "data");
        assert!(client.cmd(&["GET", "own"]).is_null());
        link.wait_for_ack(7);
        // The stream continues.
        let sent = link.write(&["SELECT", "0"]) + link.write(&["SET", "new", "1"]);
        link.wait_for_ack(7 + sent);
        drop(link);
        let (_, words) = fake.handshake();
        assert_eq!(words[1..], [ID.to_string(), (8 + sent).to_string()]);
        assert_eq!(client.cmd(&["GET", "new"]).text(), "1");
    }
}

/// The old data are served while a copy is received into a file.
#[test]
fn old_data_are_served_until_the_copy_is_complete() {
    let fake = FakePrimary::new();
    let replica = replica("disabled");
    let mut client = replica.client();
    replicate_from(&replica, &fake.port());
    let (mut link, _) = fake.handshake();
    link.raw(format!("+FULLRESYNC {ID} 0\r\n${}\r\n", ONE_KEY.len()).as_bytes());
    link.raw(&ONE_KEY[..12]);
    until("the copy", || info(&mut client, "master_sync_in_progress") == "1");
    assert_eq!(client.cmd(&["GET", "own"]).text(), "1");
    assert_eq!(info(&mut client, "master_link_status"), "down");
    // A promotion meanwhile keeps the old data.
    client.ok(&["REPLICAOF", "NO", "ONE"]);
    assert_eq!(client.cmd(&["GET", "own"]).text(), "1");
    client.ok(&["SET", "own", "2"]);
    assert_eq!(info(&mut client, "role"), "master");
    assert!(link.try_request().is_none(), "the link is closed");
}

/// A file of an unknown version is refused before the old data are dropped.
#[test]
fn copy_of_an_unknown_version_keeps_the_old_data() {
    for mode in ["disabled", "swapdb", "flush-before-load"] {
        let fake = FakePrimary::new();
        let server = Server::weft(&["--repl-diskless-load", mode]);
        let mut client = server.client();
        client.ok(&["SET", "own", "1"]);
        replicate_from(&server, &fake.port());
        for _ in 0..2 {
            let (mut link, _) = fake.handshake();
            let file = b"REDIS0099\xff\0\0\0\0\0\0\0\0";
            link.raw(format!("+FULLRESYNC {ID} 0\r\n${}\r\n", file.len()).as_bytes());
            link.raw(file);
            assert!(link.try_request().is_none(), "{mode}: the copy is refused");
        }
        until("the end of loading", || client.cmd(&["GET", "own"]).error().is_none());
        assert_eq!(client.cmd(&["GET", "own"]).text(), "1", "{mode}");
    }
}

/// Invalid data at any point of the protocol end the attempt, and do no other harm.
#[test]
#[ignore = "long: cargo xtask test --all"]
fn invalid_data_from_the_primary_do_no_harm() {
    let fake = FakePrimary::new();
    let server = Server::weft(&["--save", ""]);
    let mut client = server.client();
    client.ok(&["SET", "own", "1"]);
    replicate_from(&server, &fake.port());
    let noise = Rng::new(3).bytes(5000);
    for bytes in [&b"-ERR go away\r\n"[..], b"$5\r\nhello\r\n", &noise, b""] {
        let mut link = fake.accept();
        link.raw(bytes);
        link.raw(b"\r\n");
        drop(link);
    }
    for answer in [
        &b"+FULLRESYNC what\r\n$99999999999999999999\r\n"[..],
        b"+FULLRESYNC 0011 0\r\n*3\r\n",
        b"+CONTINUE 00112233445566778899aabbccddeeff00112233\r\n*1\r\n:1\r\n",
        b"-NOMASTERLINK not now\r\n",
        b"-LOADING still\r\n",
        b"+FULLRESYNC 00112233445566778899aabbccddeeff00112233 0\r\n$18\r\nthis is no file...",
    ] {
        let (mut link, _) = fake.handshake();
        link.raw(answer);
        // The replica may acknowledge its offset, or ask by SYNC, before it closes the link.
        while let Some(words) = link.try_request() {
            assert!(words == ["SYNC"] || words[..2] == ["REPLCONF", "ACK"], "{words:?}");
            if words == ["SYNC"] {
                break;
            }
        }
    }
    assert_eq!(client.cmd(&["GET", "own"]).text(), "1");
    // After an invalid stream the replica requests a new copy.
    let mut link = fake.copy(NO_KEYS, 0);
    link.wait_for_ack(0);
    link.raw(b"*1\r\n:1\r\n");
    while link.try_request().is_some() {}
    let (mut link, words) = fake.handshake();
    assert_eq!(words[1..], ["?", "-1"]);
    // A primary without PSYNC is asked by SYNC.
    link.raw(b"-ERR unknown command\r\n");
    assert_eq!(link.request(), ["SYNC"]);
    link.raw(format!("${}\r\n", ONE_KEY.len()).as_bytes());
    link.raw(ONE_KEY);
    wait_for_link(&mut client);
    assert_eq!(client.cmd(&["GET", "old"]).text(), "data");
    link.write(&["SELECT", "0"]);
    link.write(&["SET", "more", "1"]);
    until("the write", || !client.cmd(&["GET", "more"]).is_null());
}

/// First a wrong password, then the right one.
#[test]
fn primaryauth_is_used_and_may_be_changed() {
    let theirs = Server::valkey(&["--requirepass", "secret", "--repl-diskless-sync-delay", "0"]);
    if skip_without("primaryauth_is_used_and_may_be_changed", &theirs, "valkey-server") {
        return;
    }
    let theirs = theirs.expect("not skipped");
    let port = theirs.port().to_string();
    let server = Server::weft(&["--primaryauth", "wrong", "--replicaof", "127.0.0.1", &port]);
    let mut client = server.client();
    until("the failed AUTH", || server.log().contains("Unable to AUTH to PRIMARY"));
    assert_eq!(info(&mut client, "master_link_status"), "down");
    client.ok(&["CONFIG", "SET", "masterauth", "secret"]);
    wait_for_link(&mut client);
    client.ok(&["CONFIG", "SET", "masteruser", "default"]);
    theirs.client().cmd(&["AUTH", "secret"]);
    let mut primary = theirs.client();
    primary.ok(&["AUTH", "secret"]);
    primary.cmd(&["CLIENT", "KILL", "TYPE", "replica"]);
    primary.ok(&["SET", "a", "b"]);
    until("the write", || client.cmd(&["GET", "a"]).bytes() == Some(b"b"));
}

/// The file of a Valkey replica contains its offset: a server that starts from it does a partial
/// sync.
#[test]
fn server_started_from_a_file_of_a_replica_does_a_partial_sync() {
    let args = ["--repl-diskless-sync-delay", "0", "--save", ""];
    let primary = Server::valkey(&[&DEBUG[..], &args].concat());
    if skip_without(
        "server_started_from_a_file_of_a_replica_does_a_partial_sync",
        &primary,
        "valkey-server",
    ) {
        return;
    }
    let primary = primary.expect("not skipped");
    let (mut client, port) = (primary.client(), primary.port().to_string());
    let theirs = Server::valkey(&args).expect("not skipped");
    replicate_from(&theirs, &port);
    client.ok(&["SELECT", "5"]);
    client.ok(&["SET", "a", "1"]);
    let mut replica = theirs.client();
    wait_until_caught_up(&mut client, &mut replica);
    replica.ok(&["SAVE"]);
    let mut ours = Server::weft(&[&DEBUG[..], &["--save", ""]].concat());
    ours.kill();
    std::fs::copy(theirs.dir().join("dump.rdb"), ours.dir().join("dump.rdb")).expect("a file");
    // In the selected database, without another SELECT.
    client.ok(&["SET", "b", "2"]);
    let before = info(&mut client, "sync_full");
    ours.restart_loading(&["--replicaof", "127.0.0.1", &port, "--enable-debug-command", "yes"]);
    ours.wait_until_loaded();
    let mut own = ours.client();
    wait_until_caught_up(&mut client, &mut own);
    wait_for_same_data(&mut client, &mut own);
    own.ok(&["SELECT", "5"]);
    assert_eq!(own.cmd(&["GET", "b"]).text(), "2");
    assert_eq!(info(&mut client, "sync_full"), before, "no other copy");
}

/// A copy with the same replication id is loaded next to the old data, which are served until it is
/// complete.
#[test]
fn old_data_of_the_same_replication_id_are_served_during_the_load() {
    let fake = FakePrimary::new();
    let replica = replica("swapdb");
    let mut client = replica.client();
    replicate_from(&replica, &fake.port());
    let mut link = fake.copy(ONE_KEY, 5);
    link.wait_for_ack(5);
    let sent = link.write(&["SELECT", "0"]) + link.write(&["SET", "old", "changed"]);
    link.wait_for_ack(5 + sent);
    drop(link);
    let (mut link, _) = fake.handshake();
    link.raw(format!("+FULLRESYNC {ID} 500\r\n${}\r\n", ONE_KEY.len()).as_bytes());
    link.raw(&ONE_KEY[..20]);
    until("the copy", || info(&mut client, "async_loading") == "1");
    assert_eq!(client.cmd(&["GET", "old"]).text(), "changed");
    for words in [&["SAVE"][..], &["REPLICAOF", "NO", "ONE"]] {
        let refused = client.cmd(words).error().unwrap_or_default();
        assert!(refused.starts_with("LOADING"), "{words:?}: {refused}");
    }
    link.raw(&ONE_KEY[20..]);
    link.wait_for_ack(500);
    assert_eq!(client.cmd(&["GET", "old"]).text(), "data");
    assert_eq!(info(&mut client, "async_loading"), "0");
}

/// A replica with an append-only file has the same data after a restart, whatever the load mode.
#[test]
fn aof_is_rewritten_after_a_copy() {
    for mode in ["disabled", "swapdb", "flush-before-load"] {
        let fake = FakePrimary::new();
        let args = ["--appendonly", "yes", "--appendfsync", "always", "--repl-diskless-load", mode];
        let mut replica = Server::weft(&[&DEBUG[..], &args].concat());
        let mut client = replica.client();
        client.ok(&["SET", "own", "1"]);
        replicate_from(&replica, &fake.port());
        let mut link = fake.copy(ONE_KEY, 0);
        link.wait_for_ack(0);
        let mut at = link.write(&["SELECT", "0"]);
        for words in [&["MULTI"][..], &["SET", "new", "1"], &["INCR", "new"], &["EXEC"]] {
            at += link.write(words);
        }
        link.wait_for_ack(at);
        until("the base", || {
            info(&mut client, "aof_rewrite_in_progress") == "0"
                && info(&mut client, "aof_rewrite_scheduled") == "0"
                && std::fs::read_dir(replica.dir().join("appendonlydir"))
                    .expect("the folder exists")
                    .flatten()
                    .any(|file| file.file_name().to_string_lossy().contains("2.base"))
        });
        let before = client.cmd(&["DEBUG", "DIGEST"]);
        replica.restart();
        let mut client = replica.client();
        assert_eq!(client.cmd(&["DEBUG", "DIGEST"]), before, "{mode}");
        assert_eq!(
            client.cmd(&["MGET", "old", "new", "own"]).to_string().matches("null").count(),
            1
        );
    }
}

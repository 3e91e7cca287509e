//! Functions in files and on replicas, of this server and of its peers.

use std::path::Path;
use weft_testkit::{Client, Server, locate, skipped};
use weft_tests::persistence::wait_for_rewrite_end;
use weft_tests::replication::{replicate_from, wait_for_link, wait_until_caught_up};
use weft_tests::scene::client;

/// A library with a function of the same name, which sets its key to its argument and returns `result`.
fn library(name: &str, result: u32) -> String {
    // Long enough for compression.
    format!(
        "#!lua name={name}\n-- {}\nredis.register_function('{name}', function(keys, args) \
         if keys[1] then redis.call('set', keys[1], args[1]) end return {result} end)",
        "comment ".repeat(100)
    )
}

fn load(client: &mut Client, name: &str, result: u32) {
    let loaded = client.cmd(&["FUNCTION", "LOAD", "REPLACE", &library(name, result)]);
    assert_eq!(loaded.text(), name);
}

fn names(client: &mut Client) -> Vec<String> {
    let list = client.cmd(&["FUNCTION", "LIST"]);
    let mut names: Vec<_> = list.items().iter().map(|item| item.items()[1].text()).collect();
    names.sort();
    names
}

/// The programs of other servers that are there, with their names.
fn peers() -> Vec<(&'static str, std::path::PathBuf)> {
    let named = [("valkey", "valkey-server"), ("redis8", "redis8-server")];
    let found = named.into_iter().filter_map(|(name, program)| {
        let path = locate::peer(program);
        if path.is_none() {
            skipped::note_here(&format!("no {program} in PEERS_BIN or PATH"));
        }
        Some((name, path?))
    });
    found.collect()
}

/// Loads functions, saves them into a file, and starts `to` with it.
fn check_file(from: &Server, to: &'static str, program: &Path) {
    let mut asks = client(from);
    load(&mut asks, "first", 1);
    load(&mut asks, "second", 2);
    asks.ok(&["SET", "k", "v"]);
    asks.ok(&["FLUSHALL"]);
    asks.ok(&["SAVE"]);
    let dir = from.dir().to_str().expect("a path in ASCII").to_owned();
    let loaded = Server::start(to, program, &["--dir", &dir]);
    let mut other = client(&loaded);
    let what = format!("{} to {to}", from.name());
    assert_eq!(names(&mut other), ["first", "second"], "{what}");
    assert_eq!(other.cmd(&["FCALL", "second", "1", "k", "v"]).int(), 2, "{what}");
    assert_eq!(other.cmd(&["GET", "k"]).text(), "v");
}

#[test]
fn functions_are_in_snapshots() {
    for compress in ["yes", "no"] {
        let args = ["--rdbcompression", compress];
        check_file(&Server::weft(&args), "weft", locate::weft());
        for (name, program) in peers() {
            check_file(&Server::start(name, &program, &args), "weft", locate::weft());
        }
        if let Some(valkey) = locate::valkey() {
            check_file(&Server::weft(&args), "valkey", &valkey);
        }
    }
}

/// Payloads of FUNCTION DUMP.
#[test]
fn functions_move_to_and_from_peers() {
    for (name, program) in peers() {
        // Redis 8 reads no payload of version 80.
        let servers = [Server::weft(&[]), Server::start(name, &program, &[])];
        let [ours, theirs] = servers.each_ref().map(client);
        let mut pairs = vec![(theirs, ours)];
        if name == "valkey" {
            let [ours, theirs] = servers.each_ref().map(client);
            pairs.push((ours, theirs));
        }
        for (mut from, mut to) in pairs {
            from.ok(&["FUNCTION", "FLUSH"]);
            load(&mut from, "first", 1);
            load(&mut from, "second", 2);
            let dump = from.cmd(&["FUNCTION", "DUMP"]);
            let dump = dump.bytes().expect("a payload");
            load(&mut to, "old", 3);
            to.ok(&[&b"FUNCTION"[..], b"RESTORE", dump, b"REPLACE"]);
            assert_eq!(names(&mut to), ["first", "old", "second"], "{name}");
            to.ok(&[&b"FUNCTION"[..], b"RESTORE", dump, b"FLUSH"]);
            assert_eq!(names(&mut to), ["first", "second"], "{name}");
            assert_eq!(to.cmd(&["FCALL", "second", "0"]).int(), 2, "{name}");
        }
    }
}

#[test]
fn changes_of_functions_are_in_the_append_only_file() {
    for preamble in ["yes", "no"] {
        let args = ["--appendonly", "yes", "--appendfsync", "always", "--save", ""];
        let args = [&args[..], &["--aof-use-rdb-preamble", preamble]].concat();
        let mut server = Server::weft(&args);
        let mut asks = client(&server);
        load(&mut asks, "first", 1);
        load(&mut asks, "second", 2);
        asks.ok(&["FUNCTION", "DELETE", "first"]);
        assert!(asks.cmd(&["FUNCTION", "LOAD", "#!lua name=broken\nx("]).error().is_some());
        let dump = asks.cmd(&["FUNCTION", "DUMP"]);
        asks.ok(&["FUNCTION", "FLUSH"]);
        asks.ok(&[&b"FUNCTION"[..], b"RESTORE", dump.bytes().expect("a payload")]);
        drop(asks);
        server.restart();
        server.wait_until_loaded();
        let mut asks = client(&server);
        assert_eq!(names(&mut asks), ["second"]);
        asks.cmd(&["BGREWRITEAOF"]);
        wait_for_rewrite_end(&mut asks);
        load(&mut asks, "third", 3);
        asks.ok(&["MULTI"]);
        asks.cmd(&["FUNCTION", "LOAD", "REPLACE", &library("second", 4)]);
        asks.cmd(&["FCALL", "second", "1", "k", "v"]);
        asks.cmd(&["EXEC"]);
        drop(asks);
        server.restart();
        server.wait_until_loaded();
        let mut asks = client(&server);
        assert_eq!(names(&mut asks), ["second", "third"], "preamble {preamble}");
        assert_eq!(asks.cmd(&["FCALL", "second", "0"]).int(), 4);
        assert_eq!(asks.cmd(&["GET", "k"]).text(), "v");
    }
}

fn check_replica(primary: &Server, replica: &Server) {
    let what = format!("{} to {}", primary.name(), replica.name());
    let (mut first, mut second) = (client(primary), client(replica));
    load(&mut first, "copied", 1);
    load(&mut first, "deleted", 1);
    load(&mut second, "old", 1);
    replicate_from(replica, &primary.port().to_string());
    wait_for_link(&mut second);
    assert_eq!(names(&mut second), ["copied", "deleted"], "{what}");
    first.ok(&["FUNCTION", "DELETE", "deleted"]);
    load(&mut first, "streamed", 2);
    first.ok(&["MULTI"]);
    first.cmd(&["FUNCTION", "LOAD", "REPLACE", &library("copied", 3)]);
    first.cmd(&["FCALL", "copied", "1", "k", "v"]);
    first.cmd(&["EXEC"]);
    wait_until_caught_up(&mut first, &mut second);
    assert_eq!(names(&mut second), ["copied", "streamed"], "{what}");
    assert_eq!(second.cmd(&["GET", "k"]).text(), "v", "{what}");
    for words in [&["FCALL", "copied", "0"][..], &["FUNCTION", "FLUSH"]] {
        let error = second.cmd(words).error().unwrap_or_default();
        assert!(error.starts_with("READONLY "), "{what}: {error}");
    }
    second.ok(&["REPLICAOF", "NO", "ONE"]);
    assert_eq!(second.cmd(&["FCALL", "copied", "0"]).int(), 3, "{what}");
}

#[test]
fn functions_are_replicated_from_and_to_peers() {
    for diskless in ["yes", "no"] {
        let args = ["--repl-diskless-sync", diskless, "--repl-diskless-sync-delay", "0"];
        let primary = || Server::weft(&args);
        check_replica(&primary(), &Server::weft(&[]));
        for (name, program) in peers() {
            check_replica(&primary(), &Server::start(name, &program, &[]));
            check_replica(&Server::start(name, &program, &args), &Server::weft(&[]));
        }
    }
}

#[test]
fn reload_keeps_functions() {
    let server = Server::weft(&["--enable-debug-command", "yes"]);
    let mut client = client(&server);
    load(&mut client, "kept", 1);
    client.ok(&["DEBUG", "RELOAD"]);
    assert_eq!(client.cmd(&["FCALL", "kept", "0"]).int(), 1);
    assert!(client.cmd(&["DEBUG", "RELOAD", "NOFLUSH", "NOSAVE"]).error().is_some());
    client.ok(&["DEBUG", "RELOAD", "NOFLUSH", "MERGE"]);
    assert_eq!(names(&mut client), ["kept"]);
}

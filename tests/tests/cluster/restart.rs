//! The map survives a crash, and belongs to one server.

use std::process::{Command, Stdio};
use weft_testkit::{Server, locate};

/// Nothing listens on the bus port. It is the same for all servers here.
const ARGS: [&str; 4] = ["--cluster-enabled", "yes", "--cluster-port", "7"];

/// CLUSTER NODES without the port, which another start may change.
fn nodes(server: &Server) -> String {
    let text = server.client().cmd(&["CLUSTER", "NODES"]).text();
    text.replace(&format!(":{}@", server.port()), ":PORT@")
}

#[test]
fn map_is_the_same_after_a_kill() {
    let mut server = Server::weft(&ARGS);
    let mut client = server.client();
    client.ok(&["CLUSTER", "ADDSLOTSRANGE", "0", "16383"]);
    client.ok(&["CLUSTER", "DELSLOTS", "5", "7"]);
    client.ok(&["CLUSTER", "SET-CONFIG-EPOCH", "9"]);
    let shard = client.cmd(&["CLUSTER", "MYSHARDID"]).text();
    let before = nodes(&server);
    assert!(before.contains(" 9 connected 0-4 6 8-16383\n"), "{before}");
    server.restart();
    assert_eq!(nodes(&server), before);
    assert_eq!(server.client().cmd(&["CLUSTER", "MYSHARDID"]).text(), shard);
    server.client().ok(&["CLUSTER", "RESET", "HARD"]);
    let reset = nodes(&server);
    assert_ne!(reset[..40], before[..40]);
    server.restart();
    assert_eq!(nodes(&server), reset);
}

#[test]
fn keys_are_served_after_a_restart() {
    let mut server = Server::weft(&["--cluster-enabled", "yes", "--appendonly", "yes"]);
    let mut client = server.client();
    client.ok(&["CLUSTER", "ADDSLOTSRANGE", "0", "16383"]);
    client.ok(&["SET", "key", "value"]);
    drop(client);
    assert!(server.stop_term().success());
    server.restart();
    assert_eq!(server.client().cmd(&["GET", "key"]).text(), "value");
}

fn start(dir: &str, file: &str) -> String {
    let output = Command::new(locate::weft())
        .args(["--port", "0", "--unixsocket", "s", "--dir", dir, "--bind", "127.0.0.1"])
        .args(["--cluster-enabled", "yes", "--cluster-config-file", file])
        .stdin(Stdio::null())
        .output()
        .expect("the server can be started");
    assert!(!output.status.success(), "it has started");
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

#[test]
fn file_that_cannot_be_used_stops_the_start() {
    let server = Server::weft(&ARGS);
    let dir = server.dir().to_str().expect("a plain path");
    let output = start(dir, "nodes.conf");
    assert!(output.contains("already used by a different Cluster node"), "{output}");

    std::fs::write(server.dir().join("broken"), "nonsense\n").expect("the folder is writable");
    let output = start(dir, "broken");
    assert!(output.contains("line 1: a node has at least eight fields"), "{output}");

    let node = |n: u8, myself: &str| {
        let id = n.to_string().repeat(40);
        format!("{id} 127.0.0.1:1@2,,tls-port=0,shard-id={id} {myself}master - 0 0 0 connected\n")
    };
    let two = node(1, "myself,") + &node(2, "");
    std::fs::write(server.dir().join("two"), two).expect("the folder is writable");
    let output = start(dir, "two");
    assert!(output.contains("names 2 nodes"), "{output}");
}

#[test]
fn change_that_cannot_be_written_is_refused() {
    let server = Server::weft(&ARGS);
    let mut client = server.client();
    client.ok(&["CLUSTER", "ADDSLOTS", "1"]);
    // The folder is gone, so no new file can take the name.
    let moved = server.dir().with_extension("moved");
    std::fs::rename(server.dir(), &moved).expect("the folder can be renamed");
    let error = client.cmd(&["CLUSTER", "ADDSLOTS", "2"]).error();
    let slots = client.cmd(&["CLUSTER", "SLOTS"]);
    client.ok(&["CONFIG", "SET", "cluster-config-save-behavior", "best-effort"]);
    client.ok(&["CLUSTER", "ADDSLOTS", "3"]);
    std::fs::rename(&moved, server.dir()).expect("the folder can be renamed");
    client.ok(&["CLUSTER", "SAVECONFIG"]);
    assert!(error.is_some_and(|e| e.contains("error saving the cluster node config")));
    assert_eq!(slots.items().len(), 1, "the refused change is not in force");
    assert!(nodes(&server).ends_with(" 1 3\n"));
}

//! Nodes that reach each other by their TLS ports alone: `tls-cluster`, `tls-replication`.

#[path = "../tls/certs.rs"]
#[expect(dead_code, reason = "the tests of TLS use more of it")]
mod certs;

use certs::Certs;
use std::time::{Duration, Instant};
use weft_testkit::client::Client;
use weft_testkit::cluster::slot::key_in;
use weft_testkit::cluster::{Cluster, Kind, PATIENCE, Settings};

fn settings(certs: &Certs) -> Settings {
    let files = ["server.crt", "server.key", "ca.crt"].map(|name| certs.text(name));
    let [cert, key, ca] = files.each_ref().map(String::as_str);
    let settings = Settings { tls: true, ..Settings::of(4) };
    settings
        .with(&["--tls-cert-file", cert, "--tls-key-file", key, "--tls-ca-cert-file", ca])
        .with(&["--tls-cluster", "yes", "--tls-replication", "yes"])
        // Not the address by which nodes meet: a node asks the other one for its id.
        .with(&["--bind", "127.0.0.1 127.0.0.9", "--cluster-announce-ip", "127.0.0.9"])
}

/// Publishes on one node until a subscriber of another one has a message.
fn publish(from: &mut Client, to: &mut Client) {
    to.set_timeout(Duration::from_millis(100));
    let begin = Instant::now();
    loop {
        from.cmd(&["PUBLISH", "channel", "message"]);
        if to.read_frame().is_ok() {
            return;
        }
        assert!(begin.elapsed() < PATIENCE, "no message");
    }
}

#[test]
#[ignore = "long: cargo xtask test --all"]
fn nodes_use_their_tls_ports() {
    let certs = Certs::new();
    // Node 3 is a replica of node 0.
    let Some(cluster) = Cluster::formed(Kind::Weft, 3, settings(&certs)) else { return };
    cluster.settle_replicas();
    let port = cluster.tls_port(0).expect("it has one");
    let mut clients: Vec<Client> = (0..4).map(|node| cluster.client(node)).collect();
    let info = clients[3].cmd(&["INFO", "replication"]).text();
    assert!(info.contains(&format!("master_port:{port}\r\n")), "{info}");

    let mut subscriber = cluster.client(1);
    subscriber.cmd(&["SUBSCRIBE", "channel"]);
    publish(&mut clients[0], &mut subscriber);

    let key = key_in(100, "moved");
    clients[0].ok(&["SET", &key, "v"]);
    let target = clients[1].cmd(&["CLUSTER", "MYID"]).text();
    clients[0].ok(&["CLUSTER", "MIGRATESLOTS", "SLOTSRANGE", "100", "100", "NODE", &target]);
    cluster.wait_until("the slot has moved", || cluster.owner(100) == Some(1));
    assert_eq!(clients[1].cmd(&["GET", &key]).text(), "v");

    // Without another port, everything continues.
    for client in &mut clients {
        client.ok(&["CONFIG", "SET", "port", "0"]);
    }
    clients[3].ok(&["CLUSTER", "FAILOVER"]);
    let begin = Instant::now();
    while !clients[3].cmd(&["ROLE"]).to_string().contains("master")
        || !clients[0].cmd(&["INFO", "replication"]).text().contains("master_link_status:up")
    {
        assert!(begin.elapsed() < PATIENCE, "the replica doesn't get the role");
        std::thread::sleep(Duration::from_millis(50));
    }
    publish(&mut clients[3], &mut subscriber);
    let nodes = clients[2].cmd(&["CLUSTER", "NODES"]).text();
    assert_eq!(nodes.matches("127.0.0.9:0@").count(), 4, "{nodes}");
}

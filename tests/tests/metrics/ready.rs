//! `/readyz` follows the state of the server.

use weft_testkit::{Server, server::free_port};
use weft_tests::scene::until;
use weft_tests::watched::Watched;

fn state(watched: &Watched) -> (u16, String) {
    let response = watched.get("/readyz");
    (response.status, response.body.trim().to_owned())
}

#[test]
fn not_ready_while_loading() {
    let mut watched = Watched::start(&["--enable-debug-command", "yes"]);
    watched.server.client().ok(&["DEBUG", "POPULATE", "20000"]);
    watched.server.client().ok(&["SAVE"]);
    let port = watched.port.to_string();
    // Ten seconds in all.
    watched.server.restart_loading(&["--metrics-port", &port, "--key-load-delay", "500"]);
    assert_eq!(state(&watched), (503, "loading".into()));
    assert_eq!(watched.get("/healthz").status, 200);
    assert_eq!(watched.metrics().value("redis_loading_dump_file"), 1.0);
    watched.server.client().ok(&["CONFIG", "SET", "key-load-delay", "0"]);
    watched.server.wait_until_loaded();
    assert_eq!(state(&watched), (200, "ok".into()));
    assert_eq!(watched.metrics().value("redis_loading_dump_file"), 0.0);
}

#[test]
fn replica_is_ready_while_in_sync() {
    let port = free_port().to_string();
    let replica = Watched::start(&["--replicaof", "127.0.0.1", &port]);
    let not_in_sync = (503, "replica is not in sync with its primary".to_owned());
    assert_eq!(state(&replica), not_in_sync);
    let mut primary = Server::weft(&[]);
    let mut client = replica.server.client();
    client.ok(&["REPLICAOF", "127.0.0.1", &primary.port().to_string()]);
    until("the replica is in sync", || state(&replica) == (200, "ok".into()));
    primary.kill();
    until("the replica has lost its primary", || state(&replica) == not_in_sync);
    client.ok(&["REPLICAOF", "NO", "ONE"]);
    assert_eq!(state(&replica), (200, "ok".into()));
}

#[test]
fn primary_of_a_cluster_needs_a_lease() {
    let node = Watched::start(&["--cluster-enabled", "yes", "--enable-debug-command", "yes"]);
    let mut client = node.server.client();
    assert_eq!(state(&node), (200, "ok".into()));
    client.ok(&["DEBUG", "CLUSTER-LEASE", "0"]);
    assert_eq!(state(&node), (503, "primary holds no lease".into()));
    assert_eq!(node.metrics().value("weft_cluster_lease_held"), 0.0);
    client.ok(&["DEBUG", "CLUSTER-LEASE", "3600000"]);
    assert_eq!(state(&node), (200, "ok".into()));
    let metrics = node.metrics();
    assert_eq!(metrics.value("weft_cluster_lease_held"), 1.0);
    assert!(metrics.value("weft_cluster_lease_left_seconds") > 3000.0);
}

//! A script that runs for several leases delays a change of the role, but neither the lease nor what the others decide.

use std::time::{Duration, Instant};
use weft_testkit::client::{Client, encode};
use weft_testkit::cluster::slot::key_in;
use weft_testkit::cluster::{Cluster, Kind, Settings};

/// A slot of the first primary, and one whose keys a script on the first doesn't hold.
const SLOT: u16 = 100;
const OTHER: u16 = 1000;
const TIMEOUT_MS: u64 = 2000;

fn formed(nodes: usize) -> Option<Cluster> {
    let settings = Settings { timeout_ms: TIMEOUT_MS, ..Settings::of(nodes) };
    let cluster =
        Cluster::formed(Kind::Weft, 3, settings.with(&["--busy-reply-threshold", "100"]))?;
    cluster.settle_replicas();
    Some(cluster)
}

/// Starts a script without an end.
fn keep_busy(cluster: &Cluster, node: usize) -> Client {
    let key = key_in(SLOT, "busy");
    let mut client = cluster.client(node);
    client.ok(&["READONLY"]);
    client.send_raw(&encode(&["EVAL_RO", "while true do end", "1", &key])).expect("sent");
    let mut reader = cluster.client(node);
    reader.ok(&["READONLY"]);
    cluster.wait_until("the script is busy", || {
        let error = reader.cmd(&["GET", &key]).error();
        error.is_some_and(|error| error.starts_with("BUSY"))
    });
    client
}

/// Checks for three leases that the others see the node's lease.
fn watch_lease(cluster: &Cluster, node: usize, observer: usize, mut also: impl FnMut()) {
    let begin = Instant::now();
    while begin.elapsed() < Duration::from_millis(3 * TIMEOUT_MS) {
        let view = cluster.view(observer);
        let line = view.by_port(cluster.announced(node)).expect("a known node");
        assert!(!line.is_failing() && line.is_connected, "{line:?}");
        also();
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// A primary acknowledges during the script. A failover that is ordered meanwhile happens or doesn't; the next one does.
#[test]
#[ignore = "long: cargo xtask test --all"]
fn busy_primary_keeps_its_lease() {
    let Some(cluster) = formed(6) else { return };
    let primary = cluster.owner(SLOT).expect("all slots have an owner");
    let replica = cluster.replicas_of(primary)[0];
    let other = (0..3).find(|node| *node != primary).expect("three primaries");
    let script = keep_busy(&cluster, primary);
    let mut writer = cluster.client(primary);
    watch_lease(&cluster, primary, other, || writer.ok(&["SET", &key_in(OTHER, "seen"), "v"]));

    cluster.client(replica).ok(&["CLUSTER", "FAILOVER"]);
    watch_lease(&cluster, primary, other, || {});
    cluster.client(primary).ok(&["SCRIPT", "KILL"]);
    drop(script);
    cluster.settle();
    let mut session = cluster.session();
    let key = key_in(OTHER, "seen");
    assert_eq!(session.until_done(&key, &["GET", &key]).text(), "v");

    let old = cluster.owner(SLOT).expect("all slots have an owner");
    let new = cluster.replicas_of(old)[0];
    cluster.client(new).ok(&["CLUSTER", "FAILOVER"]);
    cluster.wait_until("the replica leads", || cluster.owner(SLOT) == Some(new));
    cluster.settle();
    assert_eq!(session.until_done(&key, &["GET", &key]).text(), "v");
}

/// A replica that gets the role during its script has it for good, and serves afterwards.
#[test]
#[ignore = "long: cargo xtask test --all"]
fn busy_replica_gets_the_role() {
    let Some(cluster) = formed(6) else { return };
    let primary = cluster.owner(SLOT).expect("all slots have an owner");
    let replica = cluster.replicas_of(primary)[0];
    let other = (0..3).find(|node| *node != primary).expect("three primaries");
    let key = key_in(OTHER, "seen");
    cluster.session().until_done(&key, &["SET", &key, "v"]);
    let script = keep_busy(&cluster, replica);
    cluster.client(replica).ok(&["CLUSTER", "FAILOVER"]);
    cluster.wait_until("the role changes", || {
        let view = cluster.view(other);
        view.by_port(cluster.announced(replica)).is_some_and(|line| line.is_primary())
    });
    watch_lease(&cluster, replica, other, || {});
    cluster.client(replica).ok(&["SCRIPT", "KILL"]);
    drop(script);
    cluster.settle();
    assert_eq!(cluster.owner(SLOT), Some(replica));
    let mut session = cluster.session();
    assert_eq!(session.until_done(&key, &["GET", &key]).text(), "v");
    session.until_done(&key, &["SET", &key, "w"]);
}

/// The primary of a busy replica dies: the replica stays alive, and takes over after its script.
#[test]
#[ignore = "long: cargo xtask test --all"]
fn busy_replica_takes_over_afterwards() {
    let Some(mut cluster) = formed(6) else { return };
    let primary = cluster.owner(SLOT).expect("all slots have an owner");
    let replica = cluster.replicas_of(primary)[0];
    let other = (0..3).find(|node| *node != primary).expect("three primaries");
    let script = keep_busy(&cluster, replica);
    cluster.nodes[primary].kill();
    watch_lease(&cluster, replica, other, || {});
    cluster.client(replica).ok(&["SCRIPT", "KILL"]);
    drop(script);
    cluster.wait_until("the replica leads", || cluster.owner(SLOT) == Some(replica));
    let key = key_in(OTHER, "seen");
    cluster.session().until_done(&key, &["SET", &key, "v"]);
    cluster.nodes[primary].start();
    cluster.settle();
}

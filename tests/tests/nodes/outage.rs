//! `cluster-store-outage continue`: primaries serve without etcd while all replicas that may be promoted promise not to be.

use crate::load::{Load, Outcome};
use rustix::process::Signal;
use std::time::{Duration, Instant};
use weft_testkit::cluster::proxy::Link;
use weft_testkit::cluster::slot::key_in;
use weft_testkit::cluster::{Cluster, Kind, Settings};
use weft_tests::env_or;

const LEASE: Duration = Duration::from_secs(2);
const SLOT: u16 = 100;
/// Of another shard.
const OTHER_SLOT: u16 = 6000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outage {
    Hangs,
    Killed,
}

impl Outage {
    fn begin(self, cluster: &mut Cluster) {
        let etcd = cluster.etcd.as_mut().expect("etcd");
        match self {
            Outage::Hangs => etcd.signal(0, Signal::STOP),
            Outage::Killed => etcd.kill(0),
        }
    }

    fn end(self, cluster: &mut Cluster) {
        let etcd = cluster.etcd.as_mut().expect("etcd");
        match self {
            Outage::Hangs => etcd.signal(0, Signal::CONT),
            Outage::Killed => etcd.restart(0),
        }
    }
}

/// Three primaries with a replica each, which continue.
fn formed(quorum: &str, cut_nodes: bool) -> Option<Cluster> {
    let settings = Settings { timeout_ms: LEASE.as_millis() as u64, cut_nodes, ..Settings::of(6) };
    let args = ["--cluster-store-outage", "continue", "--cluster-write-quorum", quorum];
    let cluster = Cluster::formed(Kind::Weft, 3, settings.with_weft(&args))?;
    cluster.settle_replicas();
    Some(cluster)
}

fn shape(cluster: &Cluster) -> Vec<String> {
    cluster.settle();
    cluster.view(0).shape()
}

#[track_caller]
fn expect_all_kept(load: Load) -> Outcome {
    let outcome = load.finish();
    println!("{outcome:?}");
    assert!(outcome.lost.is_empty() && outcome.errors.is_empty(), "{outcome:?}");
    outcome
}

/// Whether a write on `SLOT` is acknowledged at this node.
fn acknowledges(cluster: &Cluster, node: usize) -> bool {
    acknowledges_in(cluster, node, SLOT)
}

fn acknowledges_in(cluster: &Cluster, node: usize, slot: u16) -> bool {
    let Some(mut client) = cluster.nodes[node].try_client() else { return false };
    client.set_timeout(Duration::from_secs(1));
    client.try_cmd(&["SET", &key_in(slot, "probe"), "v"]).is_ok_and(|reply| reply.value.is_ok())
}

fn leads(cluster: &Cluster, node: usize) -> bool {
    cluster.try_view(node).is_some_and(|view| view.myself().is_primary())
}

fn primary_and_replica(cluster: &Cluster) -> (usize, usize) {
    let primary = cluster.owner(SLOT).expect("all slots have an owner");
    (primary, cluster.replicas_of(primary)[0])
}

#[test]
#[ignore = "long: cargo xtask test --all"]
fn primaries_continue_without_a_gap() {
    for (outage, quorum) in [(Outage::Hangs, "1"), (Outage::Killed, "0")] {
        let Some(mut cluster) = formed(quorum, false) else { return };
        let before = shape(&cluster);
        let load = Load::start(&cluster);
        outage.begin(&mut cluster);
        let (begin, length) =
            (Instant::now(), Duration::from_secs(env_or("CLUSTER_OUTAGE_SECONDS", 10)));
        while begin.elapsed() < length {
            let acknowledged = load.acknowledged();
            std::thread::sleep(LEASE / 2);
            assert!(load.acknowledged() > acknowledged, "{outage:?}\n{}", cluster.describe());
        }
        let outcome = expect_all_kept(load);
        assert_eq!((outcome.refused, outcome.unanswered), (0, 0), "{outage:?}: a gap");
        let load = Load::start(&cluster);
        outage.end(&mut cluster);
        std::thread::sleep(LEASE * 3);
        assert_eq!(shape(&cluster), before, "no failover");
        let outcome = expect_all_kept(load);
        assert_eq!((outcome.refused, outcome.unanswered), (0, 0), "{outage:?}: a gap after it");
    }
}

/// Without the promise of its replica, a primary stops. With it, it serves again, still without etcd.
#[test]
#[ignore = "long: cargo xtask test --all"]
fn primary_cut_from_its_replica_stops_in_an_outage() {
    for quorum in ["0", "1"] {
        let Some(mut cluster) = formed(quorum, true) else { return };
        let before = shape(&cluster);
        let load = Load::start(&cluster);
        let (primary, _) = primary_and_replica(&cluster);
        Outage::Hangs.begin(&mut cluster);
        std::thread::sleep(LEASE * 2);
        for link in [Link::Silent, Link::Refused] {
            assert!(acknowledges(&cluster, primary), "{}", cluster.describe());
            cluster.link_to_node(primary, link);
            let begin = Instant::now();
            cluster.wait_until("it stops", || !acknowledges(&cluster, primary));
            let took = begin.elapsed();
            println!("quorum {quorum}, {link:?}: stopped after {took:?}");
            assert!(took < LEASE + Duration::from_secs(2), "{took:?}");
            std::thread::sleep(LEASE);
            assert!(!acknowledges(&cluster, primary));
            cluster.link_to_node(primary, Link::Open);
            cluster.wait_until("it serves again", || acknowledges(&cluster, primary));
        }
        Outage::Hangs.end(&mut cluster);
        assert_eq!(shape(&cluster), before);
        expect_all_kept(load);
    }
}

/// A replica that restarts is another member: it can't promise for the one that is listed.
#[test]
#[ignore = "long: cargo xtask test --all"]
fn primary_stops_when_its_replica_is_killed_in_an_outage() {
    for quorum in ["0", "1"] {
        let Some(mut cluster) = formed(quorum, false) else { return };
        let before = shape(&cluster);
        let load = Load::start(&cluster);
        let (primary, replica) = primary_and_replica(&cluster);
        Outage::Killed.begin(&mut cluster);
        std::thread::sleep(LEASE * 2);
        assert!(acknowledges(&cluster, primary), "{}", cluster.describe());
        let begin = Instant::now();
        cluster.nodes[replica].kill();
        cluster.wait_until("it stops", || !acknowledges(&cluster, primary));
        println!("quorum {quorum}: stopped after {:?}", begin.elapsed());
        assert!(begin.elapsed() < LEASE + Duration::from_secs(2));
        cluster.nodes[replica].spawn();
        std::thread::sleep(LEASE);
        assert!(!acknowledges(&cluster, primary));
        let other = cluster.owner(OTHER_SLOT).expect("all slots have an owner");
        assert!(acknowledges_in(&cluster, other, OTHER_SLOT), "the other shards continue");
        Outage::Killed.end(&mut cluster);
        cluster.nodes[replica].wait_until_up();
        assert_eq!(shape(&cluster), before);
        expect_all_kept(load);
    }
}

/// No node can be promoted without etcd. With it, the replica takes over when its promise has ended.
#[test]
#[ignore = "long: cargo xtask test --all"]
fn primary_killed_in_an_outage_is_replaced_after_it() {
    let Some(mut cluster) = formed("1", false) else { return };
    let load = Load::start(&cluster);
    let (primary, replica) = primary_and_replica(&cluster);
    Outage::Hangs.begin(&mut cluster);
    std::thread::sleep(LEASE * 2);
    assert!(acknowledges(&cluster, primary));
    cluster.nodes[primary].kill();
    let begin = Instant::now();
    while begin.elapsed() < LEASE * 3 {
        assert!(!leads(&cluster, replica), "promoted without etcd");
        std::thread::sleep(LEASE / 8);
    }
    Outage::Hangs.end(&mut cluster);
    cluster.wait_until("the replica leads", || leads(&cluster, replica));
    cluster.nodes[primary].start();
    cluster.settle();
    expect_all_kept(load);
}

/// A primary that is stopped, and continued when its successor leads, acknowledges nothing.
#[test]
#[ignore = "long: cargo xtask test --all"]
fn primary_stopped_in_an_outage_is_fenced() {
    let Some(mut cluster) = formed("1", false) else { return };
    let load = Load::start(&cluster);
    let (primary, replica) = primary_and_replica(&cluster);
    Outage::Hangs.begin(&mut cluster);
    std::thread::sleep(LEASE * 2);
    assert!(acknowledges(&cluster, primary));
    cluster.nodes[primary].stop();
    Outage::Hangs.end(&mut cluster);
    cluster.wait_until("the replica leads", || leads(&cluster, replica));
    cluster.nodes[primary].resume();
    assert!(!acknowledges(&cluster, primary), "two primaries");
    cluster.settle();
    assert!(!cluster.view(primary).myself().is_primary());
    expect_all_kept(load);
}

/// Commands that change the map are refused once a node has lost its lease. They don't wait for etcd to be executed when their
/// clients have given up.
#[test]
fn commands_in_an_outage_change_nothing() {
    let settings = Settings { timeout_ms: LEASE.as_millis() as u64, ..Settings::of(6) };
    let Some(mut cluster) = Cluster::formed(Kind::Weft, 3, settings) else { return };
    cluster.settle_replicas();
    let before = shape(&cluster);
    let (primary, replica) = primary_and_replica(&cluster);
    Outage::Killed.begin(&mut cluster);
    let state = |node: usize| cluster.client(node).cmd(&["CLUSTER", "INFO"]).text();
    cluster.wait_until("the primary is down", || state(primary).contains("cluster_state:fail"));
    for (node, command) in [
        (replica, &["FAILOVER"][..]),
        (replica, &["FAILOVER", "FORCE"]),
        (replica, &["FAILOVER", "TAKEOVER"]),
        (primary, &["DELSLOTS", "100"]),
        (primary, &["FLUSHSLOTS"]),
    ] {
        let mut client = cluster.client(node);
        let words = [&["CLUSTER"][..], command].concat();
        cluster.wait_until("the node has lost its lease", || {
            client.cmd(&["INFO", "cluster"]).text().contains("weft_lease_ms:0\r\n")
        });
        let error = client.cmd(&words).error().expect("it is refused");
        assert!(error.contains("store of the cluster doesn't answer"), "{words:?}: {error}");
    }
    Outage::Killed.end(&mut cluster);
    assert_eq!(shape(&cluster), before);
}

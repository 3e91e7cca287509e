//! Faults of etcd and of the network: no false failover, no lost write, and the documented behaviour without etcd.

use crate::load::{Load, Outcome};
use rustix::process::Signal;
use std::time::{Duration, Instant};
use weft_testkit::Value;
use weft_testkit::client::encode;
use weft_testkit::cluster::proxy::Link;
use weft_testkit::cluster::slot::key_in;
use weft_testkit::cluster::{Cluster, Kind, Settings};
use weft_testkit::rng::Rng;
use weft_tests::env_or;
use weft_tests::scene::info;

const LEASE: Duration = Duration::from_secs(2);
const SLOT: u16 = 100;

fn settings() -> Settings {
    Settings { timeout_ms: LEASE.as_millis() as u64, cut_store: true, ..Settings::of(6) }
}

fn formed(settings: Settings) -> Option<Cluster> {
    Cluster::formed(Kind::Weft, 3, settings)
}

/// Ids, roles and slots as all nodes see them.
fn shape(cluster: &Cluster) -> Vec<String> {
    cluster.settle();
    cluster.view(0).shape()
}

/// Lets the load run for some leases.
fn run_for(leases: u32) {
    std::thread::sleep(LEASE * leases);
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
    let Some(mut client) = cluster.nodes[node].try_client() else { return false };
    client.set_timeout(Duration::from_secs(1));
    client.try_cmd(&["SET", &key_in(SLOT, "probe"), "v"]).is_ok_and(|reply| reply.value.is_ok())
}

#[test]
#[ignore = "long: cargo xtask test --all"]
fn killed_leader_of_etcd_causes_no_failover() {
    let Some(mut cluster) = formed(Settings { stores: 3, ..settings() }) else { return };
    let before = shape(&cluster);
    let load = Load::start(&cluster);
    for _ in 0..2 {
        let etcd = cluster.etcd.as_mut().expect("etcd");
        let leader = (0..3).find_map(|member| etcd.leader(member)).expect("a leader");
        etcd.kill(leader);
        run_for(4);
        cluster.etcd.as_mut().expect("etcd").restart(leader);
        run_for(1);
        assert_eq!(shape(&cluster), before);
    }
    let outcome = expect_all_kept(load);
    assert_eq!((outcome.refused, outcome.unanswered), (0, 0), "the lease outlives an election");
}

#[test]
#[ignore = "long: cargo xtask test --all"]
fn slow_store_causes_no_failover() {
    let Some(cluster) = formed(settings()) else { return };
    let before = shape(&cluster);
    for node in 0..6 {
        cluster.link_to_store(node, Link::Slow(Duration::from_millis(200)));
    }
    let load = Load::start(&cluster);
    run_for(5);
    assert_eq!(shape(&cluster), before);
    let outcome = expect_all_kept(load);
    assert_eq!((outcome.refused, outcome.unanswered), (0, 0));
}

/// Watches end; nodes read the map again and follow it.
#[test]
#[ignore = "long: cargo xtask test --all"]
fn map_is_followed_after_compactions_and_closed_watches() {
    let Some(cluster) = formed(settings()) else { return };
    let load = Load::start(&cluster);
    for round in 0..3 {
        for node in 0..6 {
            cluster.link_to_store(node, if round == 1 { Link::Refused } else { Link::Silent });
        }
        let etcd = cluster.etcd.as_ref().expect("etcd");
        let status = etcd.post("/v3/maintenance/status", "{}");
        let (_, rest) = status.split_once(r#""revision":""#).expect("a revision");
        let revision = rest.split('"').next().and_then(|n| n.parse().ok()).expect("a revision");
        etcd.compact(revision);
        for node in 0..6 {
            cluster.link_to_store(node, Link::Open);
        }
        cluster.settle();
        let old = cluster.owner(SLOT).expect("all slots have an owner");
        let new = cluster.replicas_of(old)[0];
        cluster.client(new).ok(&["CLUSTER", "FAILOVER"]);
        cluster.wait_until("the replica leads", || cluster.owner(SLOT) == Some(new));
        cluster.settle();
    }
    expect_all_kept(load);
}

/// `cluster-store-outage stop`: no acknowledgement without a lease, and reads of replicas continue.
#[test]
#[ignore = "long: cargo xtask test --all"]
fn outage_stops_acknowledgements() {
    let Some(cluster) = formed(settings().with_weft(&["--cluster-write-quorum", "1"])) else {
        return;
    };
    let primary = cluster.owner(SLOT).expect("all slots have an owner");
    let replica = cluster.replicas_of(primary)[0];
    let key = key_in(SLOT, "seen");
    cluster.client(primary).ok(&["SET", &key, "v"]);
    let load = Load::start(&cluster);
    cluster.etcd.as_ref().expect("etcd").signal(0, Signal::STOP);
    std::thread::sleep(LEASE + LEASE / 2);
    let before = load.acknowledged();
    let outage = Duration::from_secs(env_or("CLUSTER_OUTAGE_SECONDS", 10));
    let begin = Instant::now();
    while begin.elapsed() < outage {
        assert!(!acknowledges(&cluster, primary), "it has no lease");
        let mut client = cluster.client(replica);
        client.ok(&["READONLY"]);
        assert_eq!(client.cmd(&["GET", &key]).text(), "v");
        for node in 0..6 {
            let mut client = cluster.client(node);
            assert_eq!(client.cmd(&["PING"]).text(), "PONG");
            client.cmd(&["CLUSTER", "INFO"]).text();
            client.cmd(&["CONFIG", "GET", "port"]).items();
        }
        std::thread::sleep(Duration::from_millis(200));
    }
    assert_eq!(load.acknowledged(), before);
    cluster.etcd.as_ref().expect("etcd").signal(0, Signal::CONT);
    cluster.settle();
    expect_all_kept(load);
}

/// A primary without etcd stops before its successor is made, and returns as a replica.
#[test]
#[ignore = "long: cargo xtask test --all"]
fn primary_cut_from_etcd_is_fenced_before_its_successor_leads() {
    let settings = Settings { nodes: 9, ..settings() };
    let Some(cluster) = formed(settings.with_weft(&["--cluster-write-quorum", "1"])) else {
        return;
    };
    for link in [Link::Silent, Link::Refused] {
        let old = cluster.owner(SLOT).expect("all slots have an owner");
        let replicas = cluster.replicas_of(old);
        let load = Load::start(&cluster);
        cluster.link_to_store(old, link);
        cluster.wait_until("a replica leads", || {
            replicas.iter().any(|&replica| acknowledges(&cluster, replica))
        });
        assert!(!acknowledges(&cluster, old), "{link:?}: two primaries");
        cluster.link_to_store(old, Link::Open);
        cluster.settle();
        assert!(!cluster.view(old).myself().is_primary());
        expect_all_kept(load);
    }
}

/// With a quorum, a primary without a link to its replica waits, until the list or the primary changes.
#[test]
#[ignore = "long: cargo xtask test --all"]
fn primary_cut_from_its_replica_acknowledges_nothing_alone() {
    let settings = Settings { cut_nodes: true, ..settings() };
    let Some(cluster) = formed(settings.with_weft(&["--cluster-write-quorum", "1"])) else {
        return;
    };
    let load = Load::start(&cluster);
    let primary = cluster.owner(SLOT).expect("all slots have an owner");
    for link in [Link::Silent, Link::Refused] {
        cluster.link_to_node(primary, link);
        cluster.wait_until("writes wait", || !acknowledges(&cluster, primary));
        cluster.link_to_node(primary, Link::Open);
        cluster.settle();
        cluster.wait_until("writes are acknowledged", || acknowledges(&cluster, primary));
    }
    expect_all_kept(load);
}

/// The returning primary reports the writes that a failover lost without a quorum.
#[test]
#[ignore = "long: cargo xtask test --all"]
fn asynchronous_loss_is_reported() {
    let Some(cluster) = formed(Settings { cut_nodes: true, ..settings() }) else { return };
    let old = cluster.owner(SLOT).expect("all slots have an owner");
    let new = cluster.replicas_of(old)[0];
    let mut client = cluster.client(old);
    let kept: Vec<String> = (0..100).map(|n| key_in(SLOT, &format!("kept:{n}"))).collect();
    for key in &kept {
        client.ok(&["SET", key, "v"]);
    }
    cluster.wait_until("the replica has all", || cluster.client(new).cmd(&["DBSIZE"]).int() >= 100);
    cluster.link_to_node(old, Link::Silent);
    let lost: Vec<String> = (0..100).map(|n| key_in(SLOT, &format!("lost:{n}"))).collect();
    let bytes: usize = lost.iter().map(|key| encode(&["SET", key, "v"]).len()).sum();
    for key in &lost {
        client.ok(&["SET", key, "v"]);
    }
    // The replica must not have missed the stream for longer than its data count as fresh.
    cluster.link_to_store(old, Link::Refused);
    cluster.wait_until("the replica leads", || acknowledges(&cluster, new));
    assert!(!acknowledges(&cluster, old), "two primaries");
    cluster.link_to_store(old, Link::Open);
    cluster.link_to_node(old, Link::Open);
    cluster.settle();
    let discarded = info(&mut cluster.client(old), "weft_discarded_bytes");
    println!("{discarded} bytes discarded of at least {bytes}");
    assert!(discarded >= bytes as u64, "{discarded} of {bytes}");
    let mut session = cluster.session();
    for key in &kept {
        assert_eq!(session.until_done(key, &["GET", key]).text(), "v");
    }
    assert!(lost.iter().all(|key| session.until_done(key, &["GET", key]).is_null()));
}

/// Faults of all kinds, one after the other and at once: a quorum loses nothing.
#[test]
#[ignore = "long: cargo xtask test --all"]
fn quorum_loses_nothing_in_random_faults() {
    let settings = Settings { nodes: 9, cut_nodes: true, ..settings() };
    // Members of a shard may be killed together.
    let settings = settings.with(&["--appendonly", "yes", "--appendfsync", "always"]);
    let Some(mut cluster) = formed(settings.with_weft(&["--cluster-write-quorum", "1"])) else {
        return;
    };
    let seed = env_or("CLUSTER_SEED", 1);
    let mut rng = Rng::new(seed);
    for round in 0..env_or("CLUSTER_FAULTS", 10) {
        let load = Load::start(&cluster);
        let faults: Vec<usize> = (0..1 + rng.below(2)).map(|_| rng.below(6)).collect();
        let mut hit = Vec::new();
        for &fault in &faults {
            let primary = cluster.owner((rng.below(16384)) as u16);
            let any = rng.below(9);
            let node = primary.filter(|_| rng.percent(70)).unwrap_or(any);
            if hit.contains(&node) || !cluster.nodes[node].is_running() {
                continue;
            }
            hit.push(node);
            strike(&mut cluster, node, fault);
        }
        println!("seed {seed}, round {round}: faults {faults:?} of nodes {hit:?}");
        std::thread::sleep(LEASE.mul_f64(0.25 + rng.below(8) as f64 / 4.0));
        for &node in &hit {
            heal(&mut cluster, node);
        }
        cluster.settle();
        expect_all_kept(load);
    }
}

fn strike(cluster: &mut Cluster, node: usize, fault: usize) {
    match fault {
        0 => cluster.nodes[node].kill(),
        1 => cluster.nodes[node].stop(),
        2 => cluster.link_to_store(node, Link::Silent),
        3 => cluster.link_to_store(node, Link::AnswersHeld),
        4 => cluster.link_to_node(node, Link::Silent),
        _ => {
            cluster.link_to_node(node, Link::Refused);
            cluster.link_to_store(node, Link::Refused);
        }
    }
}

fn heal(cluster: &mut Cluster, node: usize) {
    cluster.link_to_store(node, Link::Open);
    cluster.link_to_node(node, Link::Open);
    let running = &mut cluster.nodes[node];
    match running.pid() {
        None => running.start(),
        Some(_) if !running.is_running() => running.resume(),
        Some(_) => {}
    }
}

/// A node that has missed everything sees the map within a second.
#[test]
#[ignore = "long: cargo xtask test --all"]
fn change_reaches_all_nodes() {
    let Some(cluster) = formed(settings()) else { return };
    let id = cluster.id(0);
    let epoch = |node: usize| {
        let info = cluster.client(node).cmd(&["CLUSTER", "INFO"]).text();
        let line = info.lines().find(|line| line.starts_with("cluster_current_epoch:"));
        line.map(str::to_string)
    };
    for slot in ["0", "1", "2"] {
        let second = cluster.id(1);
        assert_eq!(
            cluster.client(0).cmd(&["CLUSTER", "SETSLOT", slot, "NODE", &second]),
            Value::Simple(b"OK".to_vec()),
            "{id}"
        );
        let slot: u16 = slot.parse().expect("a slot");
        cluster.wait_within(Duration::from_secs(1), "all nodes have the same map", || {
            (0..6).all(|node| cluster.view(node).owner(slot).is_some_and(|line| line.id == second))
        });
        assert!((1..6).all(|node| epoch(node) == epoch(0)));
    }
}

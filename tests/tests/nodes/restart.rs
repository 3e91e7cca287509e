//! Restarts of all nodes at once: same ids, same map, same data.

use crate::load::Load;
use crate::on_each;
use rustix::process::Signal;
use std::collections::BTreeMap;
use std::time::Duration;
use weft_testkit::cluster::{Cluster, Kind, Settings};
use weft_testkit::rng::Rng;
use weft_tests::env_or;

on_each!(everything_returns_after_a_restart);

/// Ids, roles and slots, and each shard's id.
fn map(cluster: &Cluster) -> (Vec<String>, BTreeMap<String, String>) {
    let shards = |i: usize| {
        let mut client = cluster.client(i);
        let id = client.cmd(&["CLUSTER", "MYID"]).text();
        (id, client.cmd(&["CLUSTER", "MYSHARDID"]).text())
    };
    (cluster.view(0).shape(), (0..cluster.nodes.len()).map(shards).collect())
}

fn everything_returns_after_a_restart(kind: Kind) {
    let args = ["--appendonly", "yes", "--appendfsync", "always"];
    let Some(mut cluster) = Cluster::formed(kind, 3, Settings::of(6).with(&args)) else { return };
    let mut rng = Rng::new(env_or("CLUSTER_SEED", 1));
    let before = map(&cluster);
    for round in 0..env_or("CLUSTER_RESTARTS", 3) {
        let load = Load::start(&cluster);
        cluster.wait_until("some writes", || load.acknowledged() > 200);
        let is_orderly = rng.percent(50);
        // All at once: a node that waited for another's end would be replaced.
        let mut order: Vec<usize> = (0..6).collect();
        for i in (1..order.len()).rev() {
            order.swap(i, rng.below(i + 1));
        }
        if is_orderly {
            order.iter().for_each(|&i| cluster.nodes[i].signal(Signal::TERM));
        }
        for &i in &order {
            match is_orderly {
                true => cluster.nodes[i].terminate(),
                false => cluster.nodes[i].kill(),
            }
        }
        for i in (1..order.len()).rev() {
            order.swap(i, rng.below(i + 1));
        }
        for &i in &order {
            cluster.nodes[i].spawn();
        }
        for node in &mut cluster.nodes {
            node.wait_until_up();
        }
        cluster.settle();
        let outcome = load.finish();
        println!("{kind:?}, round {round}, orderly: {is_orderly}: {outcome:?}");
        assert!(outcome.lost.is_empty() && outcome.errors.is_empty(), "{outcome:?}");
        assert_eq!(map(&cluster), before, "round {round}, orderly: {is_orderly}");
    }
}

/// A node that shuts down gives its lease up: neither another node nor its next process waits for the end of the lease.
#[test]
fn leases_of_nodes_that_shut_down_delay_nothing() {
    // Longer than any wait of this test.
    let settings = Settings { timeout_ms: 300_000, ..Settings::of(6) };
    let Some(mut cluster) = Cluster::formed(Kind::Weft, 3, settings) else { return };
    cluster.settle_replicas();
    let before = map(&cluster);
    cluster.nodes[0].terminate();
    let port = cluster.nodes[0].port();
    cluster.wait_until("the others see that it has no lease", || {
        cluster.view(1).by_port(port).is_some_and(|line| line.is_failing())
    });
    for node in &mut cluster.nodes[1..] {
        node.terminate();
    }
    for node in &mut cluster.nodes {
        node.spawn();
    }
    for node in &mut cluster.nodes {
        node.wait_until_up();
    }
    cluster.settle();
    assert_eq!(map(&cluster), before);
}

/// A machine that loses power takes etcd along. Everything starts again in any order: nodes that start before etcd wait for it.
#[test]
#[ignore = "long: cargo xtask test --all"]
fn everything_returns_with_etcd() {
    let args = ["--appendonly", "yes", "--appendfsync", "always"];
    let settings = Settings::of(6).with(&args);
    let Some(mut cluster) = Cluster::formed(Kind::Weft, 3, settings) else { return };
    let mut rng = Rng::new(env_or("CLUSTER_SEED", 1));
    let before = map(&cluster);
    for round in 0..env_or("CLUSTER_RESTARTS", 3) {
        let load = Load::start(&cluster);
        cluster.wait_until("some writes", || load.acknowledged() > 200);
        // Number 6 is etcd.
        let mut order: Vec<usize> = (0..7).collect();
        rng.shuffle(&mut order);
        for &i in &order {
            match cluster.nodes.get_mut(i) {
                Some(node) => node.kill(),
                None => cluster.etcd.as_mut().expect("etcd").kill(0),
            }
        }
        rng.shuffle(&mut order);
        for &i in &order {
            match cluster.nodes.get_mut(i) {
                Some(node) => node.spawn(),
                None => cluster.etcd.as_mut().expect("etcd").restart(0),
            }
            std::thread::sleep(Duration::from_millis(rng.below(200) as u64));
        }
        for node in &mut cluster.nodes {
            node.wait_until_up();
        }
        cluster.settle();
        let outcome = load.finish();
        println!("round {round}, {order:?}: {outcome:?}");
        assert!(outcome.lost.is_empty() && outcome.errors.is_empty(), "{outcome:?}");
        assert_eq!(map(&cluster), before, "round {round}");
    }
}

//! Failovers: acknowledged writes stay as promised, and the cluster serves again.

use crate::load::Load;
use crate::on_each;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use weft_testkit::client::encode;
use weft_testkit::cluster::node::Node;
use weft_testkit::cluster::proxy::Link;
use weft_testkit::cluster::session::Answer;
use weft_testkit::cluster::slot::key_in;
use weft_testkit::cluster::{Cluster, Kind, PATIENCE, Settings};
use weft_testkit::rng::Rng;
use weft_testkit::{Client, Value};
use weft_tests::env_or;

on_each!(
    killed_primaries_are_replaced,
    ordered_failovers_lose_nothing,
    forced_failovers_take_the_role,
    lonely_primary_serves_after_a_kill,
);

const TIMEOUT_MS: u64 = 2000;

fn settings(nodes: usize) -> Settings {
    Settings { timeout_ms: TIMEOUT_MS, ..Settings::of(nodes) }
}

/// A slot of the shard of primary `i` of three.
fn slot_of_shard(i: usize) -> u16 {
    (i * 5461 + 100) as u16
}

/// The time until a write on this slot is acknowledged.
fn writable_after(cluster: &Cluster, slot: u16, begin: Instant) -> Duration {
    let key = key_in(slot, "probe");
    let mut session = cluster.session();
    loop {
        if let Answer::Done(value) = session.cmd(&key, &["SET", &key, "v"])
            && value.is_ok()
        {
            return begin.elapsed();
        }
        assert!(begin.elapsed() < PATIENCE, "slot {slot} stays down\n{}", cluster.describe());
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn killed_primaries_are_replaced(kind: Kind) {
    kill_primaries(kind, settings(6), false);
}

/// All listed replicas have each acknowledged write. A second replica takes the place of the promoted one.
#[test]
#[ignore = "long: cargo xtask test --all"]
fn killed_primaries_lose_nothing_with_a_quorum() {
    kill_primaries(Kind::Weft, settings(9).with_weft(&["--cluster-write-quorum", "1"]), true);
}

fn kill_primaries(kind: Kind, settings: Settings, keeps_all: bool) {
    let Some(mut cluster) = Cluster::formed(kind, 3, settings) else { return };
    let mut rng = Rng::new(env_or("CLUSTER_SEED", 1));
    let load = Load::start(&cluster);
    let mut times = Vec::new();
    for _ in 0..env_or("CLUSTER_KILLS", 3) {
        cluster.settle_replicas();
        let slot = slot_of_shard(rng.below(3));
        let victim = cluster.owner(slot).expect("all slots have an owner");
        let begin = Instant::now();
        cluster.nodes[victim].kill();
        times.push(writable_after(&cluster, slot, begin));
        cluster.nodes[victim].start();
        cluster.settle();
        assert!(!cluster.view(victim).myself().is_primary(), "it returns as a replica");
    }
    let outcome = load.finish();
    times.sort_unstable();
    println!("{kind:?}: writable after {times:?}; {} lost of {outcome:?}", outcome.lost.len());
    assert!(outcome.errors.is_empty(), "{outcome:?}");
    assert!(!keeps_all || outcome.lost.is_empty(), "{outcome:?}");
    let limit = env_or("CLUSTER_LIMIT_MS", u64::MAX);
    assert!(times.iter().all(|time| time.as_millis() <= u128::from(limit)), "{times:?}");
}

/// No majority of primaries is needed: the store decides.
#[test]
#[ignore = "long: cargo xtask test --all"]
fn most_primaries_at_once_are_replaced() {
    for primaries in [1, 3] {
        let Some(mut cluster) = Cluster::formed(Kind::Weft, primaries, settings(2 * primaries))
        else {
            return;
        };
        // A primary that dies before its replica is on the list waits to be restarted.
        cluster.settle_replicas();
        let begin = Instant::now();
        for node in 0..primaries {
            cluster.nodes[node].kill();
        }
        for shard in 0..primaries {
            writable_after(&cluster, (shard * 16384 / primaries) as u16, begin);
        }
        println!("{primaries} shards: writable after {:?}", begin.elapsed());
        for node in 0..primaries {
            cluster.nodes[node].start();
        }
        cluster.settle();
    }
}

/// CLUSTER FAILOVER waits until the replica has everything.
fn ordered_failovers_lose_nothing(kind: Kind) {
    let Some(cluster) = Cluster::formed(kind, 3, settings(6)) else { return };
    let mut rng = Rng::new(env_or("CLUSTER_SEED", 1));
    let load = Load::start(&cluster);
    for _ in 0..env_or("CLUSTER_FAILOVERS", 5) {
        let slot = slot_of_shard(rng.below(3));
        let old = cluster.owner(slot).expect("all slots have an owner");
        let new = cluster.replicas_of(old)[0];
        cluster.client(new).ok(&["CLUSTER", "FAILOVER"]);
        cluster.wait_until("the replica leads", || cluster.view(new).myself().is_primary());
        cluster.settle();
        assert_eq!(cluster.owner(slot), Some(new));
        assert!(!cluster.view(old).myself().is_primary());
    }
    let outcome = load.finish();
    println!("{kind:?}: {outcome:?}");
    assert!(outcome.lost.is_empty() && outcome.errors.is_empty(), "{outcome:?}");
    // A primary's FAILOVER is refused.
    let primary = cluster.owner(0).expect("all slots have an owner");
    let error = cluster.client(primary).cmd(&["CLUSTER", "FAILOVER"]).error();
    assert_eq!(error.as_deref(), Some("ERR You should send CLUSTER FAILOVER to a replica"));
}

/// The primary redirects clients to the replica as soon as it has given its role away. If the replica hasn't seen that, their
/// requests wait there: it doesn't redirect them back.
#[test]
#[ignore = "long: cargo xtask test --all"]
fn requests_wait_at_a_replica_that_is_about_to_lead() {
    let settings = Settings { cut_store: true, timeout_ms: 20_000, ..Settings::of(2) };
    let Some(cluster) = Cluster::formed(Kind::Weft, 1, settings) else { return };
    for _ in 0..3 {
        cluster.settle_replicas();
        let old = cluster.owner(0).expect("all slots have an owner");
        let new = cluster.replicas_of(old)[0];
        cluster.link_to_store(new, Link::Slow(Duration::from_millis(300)));
        let mut operator = cluster.client(new);
        operator.send_raw(&encode(&["CLUSTER", "FAILOVER"])).expect("the node reads");
        let (mut of_old, mut of_new) = (cluster.client(old), cluster.client(new));
        of_new.ok(&["READONLY"]);
        let redirect = format!("MOVED 0 127.0.0.1:{}", cluster.nodes[new].port());
        let key = key_in(0, "k");
        let is_redirected = || match of_old.cmd(&["SET", &key, "v"]).error() {
            None => false,
            Some(error) => error == redirect || panic!("{error}"),
        };
        cluster.wait_until("the primary has given its role away", is_redirected);
        // It answers reads meanwhile.
        assert_eq!(of_new.cmd(&["EXISTS", "none"]).int(), 0);
        of_new.ok(&["SET", &key, "v"]);
        assert!(cluster.view(new).myself().is_primary());
        cluster.link_to_store(new, Link::Open);
    }
}

/// Sets a flag on drop, so that threads end after a failure, too.
struct SetAtEnd<'a>(&'a AtomicBool);

impl Drop for SetAtEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// A shard of two nodes, and their ports.
fn primary_and_replica() -> Option<(Cluster, Vec<u16>)> {
    let settings = Settings { timeout_ms: 20_000, ..Settings::of(2) };
    let cluster = Cluster::formed(Kind::Weft, 1, settings)?;
    cluster.settle_replicas();
    let ports = cluster.nodes.iter().map(Node::port).collect();
    Some((cluster, ports))
}

/// Gives the role to and fro.
fn order_failovers(cluster: &Cluster, times: u64) {
    for _ in 0..times {
        let old = cluster.owner(0).expect("all slots have an owner");
        let new = cluster.replicas_of(old)[0];
        cluster.client(new).ok(&["CLUSTER", "FAILOVER"]);
        cluster.wait_until("the replica leads", || cluster.owner(0) == Some(new));
        cluster.settle_replicas();
    }
}

/// While roles change, clients are redirected or wait, and both nodes answer reads of clients that said READONLY.
#[test]
#[ignore = "long: cargo xtask test --all"]
fn ordered_failovers_refuse_no_client() {
    let Some((cluster, ports)) = primary_and_replica() else { return };
    let is_over = AtomicBool::new(false);
    let writer = |node: usize| {
        let mut client = Client::tcp(ports[node]);
        while !is_over.load(Ordering::Relaxed) {
            let error = client.cmd(&["SET", "key", "v"]).error();
            if let Some(error) = error {
                let port = error
                    .strip_prefix("MOVED 12539 127.0.0.1:")
                    .unwrap_or_else(|| panic!("{error}"));
                client = Client::tcp(port.parse().expect("a port"));
            }
        }
    };
    let reader = |node: usize| {
        let mut client = Client::tcp(ports[node]);
        client.ok(&["READONLY"]);
        while !is_over.load(Ordering::Relaxed) {
            assert_eq!(client.cmd(&["EXISTS", "none"]).int(), 0);
        }
    };
    thread::scope(|scope| {
        let _end = SetAtEnd(&is_over);
        let clients: Vec<_> = (0..2)
            .flat_map(|node| [scope.spawn(move || writer(node)), scope.spawn(move || reader(node))])
            .collect();
        order_failovers(&cluster, env_or("CLUSTER_FAILOVERS", 6));
        is_over.store(true, Ordering::Relaxed);
        clients.into_iter().for_each(|client| client.join().expect("no client is refused"));
    });
}

/// While roles change, subscribers of a shard channel stay connected, on both nodes and with messages from both.
#[test]
#[ignore = "long: cargo xtask test --all"]
fn ordered_failovers_close_no_subscriber() {
    let Some((cluster, ports)) = primary_and_replica() else { return };
    let is_over = AtomicBool::new(false);
    let publish = |node: usize, message: &str| {
        Client::tcp(ports[node]).cmd(&["SPUBLISH", "channel", message]);
    };
    let publisher = |node: usize| {
        let mut client = Client::tcp(ports[node]);
        while !is_over.load(Ordering::Relaxed) {
            client.cmd(&["SPUBLISH", "channel", "message"]);
        }
    };
    let subscriber = |node: usize| {
        let mut client = Client::tcp(ports[node]);
        client.send_raw(&encode(&["SSUBSCRIBE", "channel"])).expect("sent");
        loop {
            let pushed = client.read_frame().expect("it stays connected").value;
            assert_eq!(pushed.error(), None);
            if pushed.items().last().and_then(Value::bytes) == Some(b"end") {
                return;
            }
        }
    };
    thread::scope(|scope| {
        let _end = SetAtEnd(&is_over);
        let subscribers: Vec<_> = (0..6).map(|n| scope.spawn(move || subscriber(n % 2))).collect();
        (0..4).for_each(|n| _ = scope.spawn(move || publisher(n % 2)));
        order_failovers(&cluster, env_or("CLUSTER_FAILOVERS", 10));
        is_over.store(true, Ordering::Relaxed);
        cluster.wait_until("all subscribers have the last message", || {
            publish(cluster.owner(0).expect("all slots have an owner"), "end");
            subscribers.iter().all(|subscriber| subscriber.is_finished())
        });
        subscribers.into_iter().for_each(|subscriber| subscriber.join().expect("not closed"));
    });
}

/// FORCE and TAKEOVER of a replica whose primary runs, and of one whose primary is gone.
fn forced_failovers_take_the_role(kind: Kind) {
    // A replica that may not decide by itself.
    let args = ["--cluster-replica-no-failover", "yes"];
    let Some(mut cluster) = Cluster::formed(kind, 3, settings(6).with(&args)) else { return };
    for (mode, kills) in
        [("FORCE", false), ("TAKEOVER", false), ("TAKEOVER", true), ("FORCE", true)]
    {
        let slot = slot_of_shard(1);
        let old = cluster.owner(slot).expect("all slots have an owner");
        let new = cluster.replicas_of(old)[0];
        if kills {
            cluster.nodes[old].kill();
            cluster.wait_until("the primary counts as failed", || {
                let view = cluster.view(new);
                view.by_port(cluster.announced(old)).is_some_and(|line| line.has("fail"))
            });
            assert!(!cluster.view(new).myself().is_primary(), "it waits for an order");
        }
        cluster.client(new).ok(&["CLUSTER", "FAILOVER", mode]);
        cluster.wait_until("the replica leads", || cluster.owner(slot) == Some(new));
        if kills {
            cluster.nodes[old].start();
        }
        // FORCE needs a replica that its primary has listed.
        cluster.settle_replicas();
        assert_eq!(cluster.owner(slot), Some(new), "{mode}, primary killed: {kills}");
        assert!(!cluster.view(old).myself().is_primary());
    }
}

/// A shard without replicas waits for its primary.
fn lonely_primary_serves_after_a_kill(kind: Kind) {
    let args = ["--appendonly", "yes", "--appendfsync", "always"];
    let Some(mut cluster) = Cluster::formed(kind, 3, settings(3).with(&args)) else { return };
    let load = Load::start(&cluster);
    for node in 0..3 {
        cluster.nodes[node].kill();
        cluster.nodes[node].start();
        cluster.settle();
        assert!(cluster.view(node).myself().owns(slot_of_shard(node)));
    }
    let outcome = load.finish();
    println!("{kind:?}: {outcome:?}");
    assert!(outcome.lost.is_empty() && outcome.errors.is_empty(), "{outcome:?}");
}

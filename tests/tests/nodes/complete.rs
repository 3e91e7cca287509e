//! A primary with a quorum that restarts with complete data leads again without TAKEOVER; one whose data may be incomplete doesn't.

use crate::load::{Load, Outcome};
use std::path::{Path, PathBuf};
use std::time::Duration;
use weft_testkit::cluster::slot::key_in;
use weft_testkit::cluster::{Cluster, Kind, Settings};
use weft_testkit::rng::Rng;
use weft_tests::env_or;

const LEASE: Duration = Duration::from_secs(2);
const SLOT: u16 = 100;

/// One shard, in which one replica must have each write.
fn formed(nodes: usize, sync: &str) -> Option<Cluster> {
    let settings = Settings { timeout_ms: LEASE.as_millis() as u64, ..Settings::of(nodes) };
    let settings = settings.with(&["--appendonly", "yes", "--appendfsync", sync]);
    let cluster =
        Cluster::formed(Kind::Weft, 1, settings.with_weft(&["--cluster-write-quorum", "1"]))?;
    cluster.settle_replicas();
    Some(cluster)
}

fn manifest(cluster: &Cluster, node: usize) -> PathBuf {
    cluster.nodes[node].dir().join("appendonlydir/appendonly.aof.manifest")
}

/// Whether the files of a node name a primary.
fn is_marked(cluster: &Cluster, node: usize) -> bool {
    let text = std::fs::read_to_string(manifest(cluster, node)).unwrap_or_default();
    text.contains("# weft-led ")
}

/// Whether a write on `SLOT` is acknowledged at this node.
fn acknowledges(cluster: &Cluster, node: usize) -> bool {
    let Some(mut client) = cluster.nodes[node].try_client() else { return false };
    client.set_timeout(Duration::from_secs(1));
    client.try_cmd(&["SET", &key_in(SLOT, "probe"), "v"]).is_ok_and(|reply| reply.value.is_ok())
}

fn any_acknowledges(cluster: &Cluster) -> bool {
    cluster.running().into_iter().any(|node| acknowledges(cluster, node))
}

fn kill_all(cluster: &mut Cluster) {
    cluster.nodes.iter_mut().filter(|node| node.is_running()).for_each(|node| node.kill());
}

fn start_all(cluster: &mut Cluster) {
    cluster.nodes.iter_mut().filter(|node| !node.is_running()).for_each(|node| node.spawn());
    cluster.nodes.iter_mut().for_each(|node| node.wait_until_up());
}

/// No node leads within some leases: an operator must decide.
#[track_caller]
fn expect_takeover_needed(cluster: &Cluster, primary: usize) {
    let begin = std::time::Instant::now();
    while begin.elapsed() < LEASE * 5 {
        assert!(!any_acknowledges(cluster), "{}", cluster.describe());
        std::thread::sleep(LEASE / 4);
    }
    cluster.client(primary).ok(&["CLUSTER", "FAILOVER", "TAKEOVER"]);
    cluster.wait_until("it leads after TAKEOVER", || any_acknowledges(cluster));
}

#[track_caller]
fn expect_all_kept(load: Load) -> Outcome {
    let outcome = load.finish();
    println!("{outcome:?}");
    assert!(outcome.lost.is_empty() && outcome.errors.is_empty(), "{outcome:?}");
    outcome
}

/// The second primary dies before another replica is listed.
#[test]
#[ignore = "long: cargo xtask test --all"]
fn two_kills_need_no_takeover() {
    let Some(mut cluster) = formed(3, "always") else { return };
    for round in 0..env_or("CLUSTER_KILLS", 2) {
        cluster.settle_replicas();
        let load = Load::start(&cluster);
        cluster.wait_until("some writes", || load.acknowledged() > 200);
        let first = cluster.owner(SLOT).expect("all slots have an owner");
        cluster.nodes[first].kill();
        let others = cluster.running();
        let leads = |node: usize| cluster.try_view(node).is_some_and(|v| v.myself().is_primary());
        let mut second = None;
        cluster.wait_until("a replica leads", || {
            second = others.iter().copied().find(|node| leads(*node) && is_marked(&cluster, *node));
            second.is_some()
        });
        let second = second.expect("it leads");
        cluster.nodes[second].kill();
        println!("round {round}: killed {first}, then {second}");
        start_all(&mut cluster);
        cluster.wait_until("a node serves", || any_acknowledges(&cluster));
        cluster.settle();
        expect_all_kept(load);
    }
}

/// The second kill comes at any moment, also between a promotion and its mark: then, and only then, an operator must decide.
#[test]
#[ignore = "long: cargo xtask test --all"]
fn kills_at_any_moment_lose_nothing() {
    let Some(mut cluster) = formed(3, "always") else { return };
    let seed = env_or("CLUSTER_SEED", 1);
    let (mut rng, mut takeovers) = (Rng::new(seed), 0);
    let rounds = env_or("CLUSTER_KILLS", 10);
    for round in 0..rounds {
        cluster.settle_replicas();
        let load = Load::start(&cluster);
        cluster.wait_until("some writes", || load.acknowledged() > 50 + rng.below(200) as u64);
        let first = cluster.owner(SLOT).expect("all slots have an owner");
        cluster.nodes[first].kill();
        std::thread::sleep(LEASE.mul_f64(rng.below(20) as f64 / 10.0));
        let others = cluster.running();
        let second = cluster.owner(SLOT).unwrap_or(others[rng.below(others.len())]);
        cluster.nodes[second].kill();
        if rng.percent(50) {
            kill_all(&mut cluster);
        }
        start_all(&mut cluster);
        let begin = std::time::Instant::now();
        while !any_acknowledges(&cluster) && begin.elapsed() < LEASE * 10 {
            std::thread::sleep(LEASE / 8);
        }
        if !any_acknowledges(&cluster) {
            takeovers += 1;
            println!("round {round}: TAKEOVER\n{}", cluster.describe());
            let lines = |node: &usize| {
                cluster.try_view(*node).is_some_and(|view| view.myself().is_primary())
            };
            let primary = (0..3).find(lines).expect("a primary by its own word");
            cluster.client(primary).ok(&["CLUSTER", "FAILOVER", "TAKEOVER"]);
            cluster.wait_until("it leads", || any_acknowledges(&cluster));
        }
        println!(
            "seed {seed}, round {round}: killed {first}, {second}; serves after {:?}",
            begin.elapsed()
        );
        cluster.settle();
        expect_all_kept(load);
    }
    println!("{takeovers} of {rounds} rounds needed TAKEOVER");
}

/// Without `appendfsync always`, and with files that were copied, data may lack writes.
#[test]
#[ignore = "long: cargo xtask test --all"]
fn data_that_may_lack_writes_need_takeover() {
    let Some(mut cluster) = formed(2, "everysec") else { return };
    let primary = cluster.owner(SLOT).expect("all slots have an owner");
    assert!(acknowledges(&cluster, primary) && !is_marked(&cluster, primary));
    kill_all(&mut cluster);
    start_all(&mut cluster);
    expect_takeover_needed(&cluster, primary);

    // A copy may be older than the last confirmed write, whatever its mark says.
    cluster.settle_replicas();
    let primary = cluster.owner(SLOT).expect("all slots have an owner");
    cluster.client(primary).ok(&["CONFIG", "SET", "appendfsync", "always"]);
    cluster.wait_until("the files are marked", || is_marked(&cluster, primary));
    kill_all(&mut cluster);
    let folder = manifest(&cluster, primary).parent().map(Path::to_path_buf).expect("a folder");
    for file in std::fs::read_dir(&folder).expect("a folder") {
        let path = file.expect("a file").path();
        let copy = path.with_extension("copy");
        std::fs::copy(&path, &copy).expect("copied");
        std::fs::rename(&copy, &path).expect("moved");
    }
    start_all(&mut cluster);
    expect_takeover_needed(&cluster, primary);
}

/// The mark follows the directives before they are in force.
#[test]
#[ignore = "long: cargo xtask test --all"]
fn mark_follows_the_directives() {
    let Some(mut cluster) = formed(2, "always") else { return };
    let primary = cluster.owner(SLOT).expect("all slots have an owner");
    cluster.wait_until("the files are marked", || is_marked(&cluster, primary));
    let changes = [
        ("appendfsync", "everysec", "always"),
        ("no-appendfsync-on-rewrite", "yes", "no"),
        ("appendonly", "no", "yes"),
        ("appendfsync", "no", "always"),
    ];
    for (name, other, back) in changes {
        let mut client = cluster.client(primary);
        client.ok(&["CONFIG", "SET", name, other]);
        cluster.wait_until("the mark is gone", || !is_marked(&cluster, primary));
        client.ok(&["CONFIG", "SET", name, back]);
        cluster.wait_until("the mark is back", || is_marked(&cluster, primary));
    }
    let mut client = cluster.client(primary);
    for rewrites in 0..3 {
        assert!(acknowledges(&cluster, primary));
        client.cmd(&["BGREWRITEAOF"]);
        cluster.wait_until("it is rewritten", || {
            let info = client.cmd(&["INFO", "persistence"]).text();
            info.contains("aof_rewrite_in_progress:0") && info.contains("aof_rewrite_scheduled:0")
        });
        assert!(is_marked(&cluster, primary), "after {rewrites} rewrites");
    }
    kill_all(&mut cluster);
    start_all(&mut cluster);
    cluster.wait_until("a node serves", || any_acknowledges(&cluster));
}

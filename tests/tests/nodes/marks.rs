//! Failovers in the middle of a move by SETSLOT and MIGRATE: no key is lost, none is there twice, and the move ends well.

use crate::on_each;
use weft_testkit::cluster::cli::Cli;
use weft_testkit::cluster::slot::key_in;
use weft_testkit::cluster::{Cluster, Kind, Settings};

on_each!(move_continues_after_failovers, fix_ends_a_move_after_a_kill);

const KEYS: usize = 10;
/// A slot of the shard to which the others move.
const TARGET: u16 = 8000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    Source,
    Target,
}

fn scene(kind: Kind) -> Option<Cluster> {
    Cluster::formed(kind, 3, Settings { timeout_ms: 2000, ..Settings::of(6) })
}

fn keys(slot: u16) -> Vec<String> {
    (0..KEYS).map(|n| key_in(slot, &format!("mark:{n}"))).collect()
}

fn owner(cluster: &Cluster, slot: u16) -> usize {
    cluster.owner(slot).expect("all slots have an owner")
}

/// The node on a side of the move.
fn node_of(cluster: &Cluster, slot: u16, side: Side) -> usize {
    owner(cluster, if side == Side::Source { slot } else { TARGET })
}

/// Moves keys from the present owner of the slot to the other shard.
fn migrate(cluster: &Cluster, slot: u16, names: &[String]) {
    let [source, target] = [Side::Source, Side::Target].map(|side| node_of(cluster, slot, side));
    let port = cluster.nodes[target].port().to_string();
    let mut command = vec!["MIGRATE", "127.0.0.1", &port, "", "0", "5000", "KEYS"];
    command.extend(names.iter().map(String::as_str));
    let mut client = cluster.client(source);
    client.ok(&command);
    // Asynchronous replication may lose what no replica has.
    assert!(client.cmd(&["WAIT", "1", "5000"]).int() >= 1);
    let mut client = cluster.client(target);
    let key = key_in(TARGET, "wait");
    client.ok(&["SET", &key, "v"]);
    assert!(client.cmd(&["WAIT", "1", "5000"]).int() >= 1);
}

/// Whether a node shows this mark of the slot.
fn shows(cluster: &Cluster, node: usize, mark: &str) -> bool {
    cluster.try_view(node).is_some_and(|view| view.myself().moving.iter().any(|of| of == mark))
}

/// Both shards show the marks at all their nodes, with the present primary of the other one.
fn expect_marks(cluster: &Cluster, slot: u16) {
    let [source, target] = [Side::Source, Side::Target].map(|side| node_of(cluster, slot, side));
    for (node, mark) in [
        (source, format!("[{slot}->-{}]", cluster.id(target))),
        (target, format!("[{slot}-<-{}]", cluster.id(source))),
    ] {
        cluster.wait_until(&mark, || shows(cluster, node, &mark));
        for replica in cluster.replicas_of(node) {
            cluster.wait_until(&format!("{mark} at a replica"), || shows(cluster, replica, &mark));
        }
    }
}

/// Begins a move, up to half of the keys.
fn begin(cluster: &Cluster, slot: u16) {
    let mut session = cluster.session();
    for key in keys(slot) {
        assert!(session.until_done(&key, &["SET", &key, "v"]).is_ok());
    }
    let [source, target] = [Side::Source, Side::Target].map(|side| node_of(cluster, slot, side));
    let (from, to, text) = (cluster.id(source), cluster.id(target), slot.to_string());
    cluster.client(target).ok(&["CLUSTER", "SETSLOT", &text, "IMPORTING", &from]);
    cluster.client(source).ok(&["CLUSTER", "SETSLOT", &text, "MIGRATING", &to]);
    expect_marks(cluster, slot);
    migrate(cluster, slot, &keys(slot)[..KEYS / 2]);
}

/// Another node becomes the primary of a shard.
fn fail_over(cluster: &mut Cluster, old: usize, kills: bool) {
    let slot = cluster.view(old).myself().slots[0].0;
    if kills {
        cluster.nodes[old].kill();
        let entry = cluster.running()[0];
        cluster.wait_until("a replica leads", || {
            let view = cluster.view(entry);
            let owner = view.owner(slot).and_then(|line| cluster.by_port(line.port));
            owner.is_some_and(|owner| owner != old)
        });
        cluster.nodes[old].start();
    } else {
        let new = cluster.replicas_of(old)[0];
        cluster.client(new).ok(&["CLUSTER", "FAILOVER"]);
        cluster.wait_until("the replica leads", || cluster.view(new).myself().is_primary());
    }
    cluster.settle_replicas();
    assert_ne!(owner(cluster, slot), old);
}

/// Each key is found where clients look for it, and can't be created a second time.
fn check_keys(cluster: &Cluster, slot: u16, when: &str) {
    let mut session = cluster.session();
    for key in keys(slot) {
        let value = session.until_done(&key, &["GET", &key]);
        assert_eq!(value.bytes(), Some(&b"v"[..]), "{when}: {key}\n{}", cluster.describe());
        let created = session.until_done(&key, &["SET", &key, "second", "NX"]);
        assert_eq!(created.bytes(), None, "{when}: {created}");
    }
}

/// The keys of the slot that each primary has.
fn counts(cluster: &Cluster, slot: u16) -> usize {
    let primaries = (0..6).filter(|&i| cluster.view(i).myself().is_primary());
    let count = |i| {
        cluster.client(i).cmd(&["CLUSTER", "COUNTKEYSINSLOT", &slot.to_string()]).int() as usize
    };
    primaries.map(count).sum()
}

fn check_end(cluster: &Cluster, slot: u16, when: &str) {
    cluster.settle();
    check_keys(cluster, slot, when);
    assert_eq!(counts(cluster, slot), KEYS, "{when}: each key is there once");
    for node in (0..6).filter(|&i| cluster.view(i).myself().is_primary()) {
        let moving = cluster.view(node).myself().moving.clone();
        assert!(moving.is_empty(), "{when}: {moving:?}");
    }
}

fn move_continues_after_failovers(kind: Kind) {
    let Some(mut cluster) = scene(kind) else { return };
    cluster.settle_replicas();
    let cases =
        [(Side::Source, false), (Side::Target, false), (Side::Source, true), (Side::Target, true)];
    for (n, (side, kills)) in cases.into_iter().enumerate() {
        let (slot, when) = (100 + n as u16, format!("{side:?}, killed: {kills}"));
        begin(&cluster, slot);
        let old = node_of(&cluster, slot, side);
        fail_over(&mut cluster, old, kills);
        expect_marks(&cluster, slot);
        check_keys(&cluster, slot, &when);

        migrate(&cluster, slot, &keys(slot)[KEYS / 2..]);
        check_keys(&cluster, slot, &when);
        let [source, target] =
            [Side::Source, Side::Target].map(|side| node_of(&cluster, slot, side));
        let (to, text) = (cluster.id(target), slot.to_string());
        for node in [target, source] {
            cluster.client(node).ok(&["CLUSTER", "SETSLOT", &text, "NODE", &to]);
        }
        check_end(&cluster, slot, &when);
        assert_eq!(owner(&cluster, slot), target, "{when}");
    }
}

/// In Valkey, a killed target that returns as a replica keeps its mark, and fix can't remove it.
fn fix_ends_a_move_after_a_kill(kind: Kind) {
    let Some(cli) = Cli::find() else { return };
    let Some(mut cluster) = scene(kind) else { return };
    cluster.settle_replicas();
    let sides: &[Side] = match kind {
        Kind::Valkey => &[Side::Source],
        Kind::Weft => &[Side::Source, Side::Target],
    };
    for (n, side) in sides.iter().enumerate() {
        let (slot, when) = (200 + n as u16, format!("{side:?}"));
        begin(&cluster, slot);
        let old = node_of(&cluster, slot, *side);
        fail_over(&mut cluster, old, true);
        check_keys(&cluster, slot, &when);
        let entry = cluster.nodes[owner(&cluster, 16000)].address();
        cli.run(&["fix", &entry, "--cluster-yes"]);
        check_end(&cluster, slot, &when);
    }
}

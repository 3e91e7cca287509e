//! `valkey-cli --cluster` from the first command to the last one, as operators use it.

use crate::load::Load;
use crate::on_each;
use weft_testkit::Server;
use weft_testkit::cluster::cli::Cli;
use weft_testkit::cluster::session::Session;
use weft_testkit::cluster::slot::{key_in, slot_of};
use weft_testkit::cluster::{Cluster, Kind, Settings};
use weft_testkit::rng::Rng;
use weft_tests::env_or;

on_each!(
    create_check_info_call,
    add_and_delete_nodes,
    reshard_and_rebalance,
    fix_after_a_kill_in_setslot,
    import_from_a_standalone_server,
);

const KEYS: usize = 2000;

/// Nodes and the tool; `None` if one of them isn't installed.
fn scene(kind: Kind, nodes: usize) -> Option<(Cluster, Cli)> {
    let cli = Cli::find()?;
    Some((Cluster::start(kind, Settings::of(nodes))?, cli))
}

/// `valkey-cli --cluster create` with all nodes.
fn create(cluster: &Cluster, cli: &Cli, replicas: usize) -> String {
    let addresses: Vec<String> = cluster.nodes.iter().map(|node| address_of(node.port())).collect();
    let mut args = vec!["create"];
    args.extend(addresses.iter().map(String::as_str));
    let replicas = replicas.to_string();
    args.extend(["--cluster-replicas", &replicas, "--cluster-yes"]);
    let printed = cli.run(&args).expect_ok();
    cluster.settle();
    printed
}

/// With the bus port: MEET gets it from here.
fn address_of(port: u16) -> String {
    format!("127.0.0.1:{port}")
}

fn fill(session: &mut Session) {
    for n in 0..KEYS {
        let key = format!("key:{n}");
        assert!(session.until_done(&key, &["SET", &key, &n.to_string()]).is_ok());
    }
}

fn check_keys(session: &mut Session) {
    for n in 0..KEYS {
        let key = format!("key:{n}");
        assert_eq!(
            session.until_done(&key, &["GET", &key]).bytes(),
            Some(n.to_string().as_bytes()),
            "{key}"
        );
    }
}

/// The number of keys of all primaries: a key that is there twice counts twice.
fn count(cluster: &Cluster) -> usize {
    let primaries =
        cluster.running().into_iter().filter(|&i| cluster.view(i).myself().is_primary());
    primaries.map(|i| cluster.client(i).cmd(&["DBSIZE"]).int() as usize).sum()
}

/// `check` finds nothing.
fn check(cluster: &Cluster, cli: &Cli, node: usize) -> String {
    let printed = cli.run(&["check", &cluster.nodes[node].address()]).expect_ok();
    assert!(printed.contains("[OK] All nodes agree about slots configuration."), "{printed}");
    assert!(printed.contains("[OK] All 16384 slots covered."), "{printed}");
    for bad in ["[WARNING]", "[ERR]"] {
        assert!(!printed.contains(bad), "{printed}");
    }
    printed
}

fn create_check_info_call(kind: Kind) {
    let Some((cluster, cli)) = scene(kind, 6) else { return };
    let printed = create(&cluster, &cli, 1);
    assert!(printed.contains("[OK] All nodes agree about slots configuration."), "{printed}");
    assert_eq!(cluster.view(0).primaries().count(), 3);
    let mut session = cluster.session();
    fill(&mut session);
    for node in 0..6 {
        check(&cluster, &cli, node);
    }
    let info = cli.run(&["info", &cluster.nodes[5].address()]).expect_ok();
    assert!(info.contains(&format!("[OK] {KEYS} keys in 3 primaries.")), "{info}");
    let entry = cluster.nodes[1].address();
    let called = cli.run(&["call", &entry, "CONFIG", "SET", "maxmemory-samples", "6"]).expect_ok();
    assert_eq!(called.matches(": OK").count(), 6, "{called}");
    let called = cli.run(&["call", &entry, "dbsize", "--cluster-only-primaries"]).expect_ok();
    assert_eq!(called.matches("127.0.0.1:").count(), 3, "{called}");
    let set = cli.run(&["set-timeout", &entry, "3000"]).expect_ok();
    assert!(set.contains("6 OK, 0 ERR"), "{set}");
    for node in 0..6 {
        let value = cluster.client(node).cmd(&["CONFIG", "GET", "cluster-node-timeout"]);
        assert_eq!(value.items()[1].text(), "3000");
    }
    // Nodes with a map are refused.
    let again = cli.run(&[
        "create",
        &entry,
        &cluster.nodes[2].address(),
        &cluster.nodes[3].address(),
        "--cluster-yes",
    ]);
    let said = again.expect_failure();
    assert!(said.contains("is not empty"), "{said}");
    check_keys(&mut session);
}

fn add_and_delete_nodes(kind: Kind) {
    let Some((mut cluster, cli)) = scene(kind, 3) else { return };
    create(&cluster, &cli, 0);
    fill(&mut cluster.session());
    let entry = cluster.nodes[0].address();

    let added = cluster.add_node();
    cluster.nodes[added].wait_until_up();
    let library = "#!lua name=lib\nserver.register_function('f', function() return 7 end)";
    assert!(cluster.client(0).cmd(&["FUNCTION", "LOAD", library]).error().is_none());
    cli.run(&["add-node", &cluster.nodes[added].address(), &entry]).expect_ok();
    cluster.settle();
    let functions = cluster.client(added).cmd(&["FUNCTION", "LIST"]);
    assert_eq!(functions.items().len(), 1, "functions are copied to a new node: {functions}");

    let replica = cluster.add_node();
    cluster.nodes[replica].wait_until_up();
    let primary = cluster.id(1);
    let address = cluster.nodes[replica].address();
    cli.run(&["add-node", &address, &entry, "--cluster-replica", "--cluster-primary-id", &primary])
        .expect_ok();
    cluster.settle();
    assert_eq!(cluster.replicas_of(1), [replica]);
    check(&cluster, &cli, replica);

    // A node with slots can't be deleted.
    let refused = cli.run(&["del-node", &entry, &primary]).expect_failure();
    assert!(refused.contains("is not empty"), "{refused}");
    for node in [replica, added] {
        let id = cluster.id(node);
        cli.run(&["del-node", &entry, &id]).expect_ok();
        cluster.wait_until("the node is forgotten", || {
            (0..3).all(|i| cluster.try_view(i).is_some_and(|view| !view.ids().contains(&id)))
        });
        // The tool resets a deleted node.
        let view = cluster.view(node);
        assert_eq!((view.0.len(), view.myself().count()), (1, 0), "{view:?}");
    }
    cluster.settle_among(&[0, 1, 2]);
    check(&cluster, &cli, 0);
    check_keys(&mut cluster.session());
}

fn reshard_and_rebalance(kind: Kind) {
    let Some((mut cluster, cli)) = scene(kind, 3) else { return };
    create(&cluster, &cli, 0);
    let mut session = cluster.session();
    fill(&mut session);
    let entry = cluster.nodes[0].address();
    let (first, second) = (cluster.id(0), cluster.id(1));
    let moved = [
        "--cluster-from",
        &first,
        "--cluster-to",
        &second,
        "--cluster-slots",
        "300",
        "--cluster-yes",
    ];
    let load = Load::start(&cluster);
    cli.run(&[&["reshard", &entry][..], &moved].concat()).expect_ok();
    let outcome = load.finish();
    println!("{kind:?}: {outcome:?}");
    assert!(outcome.lost.is_empty() && outcome.errors.is_empty(), "{outcome:?}");
    cluster.settle();
    assert_eq!(cluster.view(1).myself().count(), 5461 + 1 + 300);
    check_keys(&mut session);
    let all = count(&cluster);
    assert!((KEYS..=KEYS + Load::KEYS).contains(&all), "{all} keys");
    check(&cluster, &cli, 2);

    let added = cluster.add_node();
    cluster.nodes[added].wait_until_up();
    cli.run(&["add-node", &cluster.nodes[added].address(), &entry]).expect_ok();
    cluster.settle();
    // A tenth of a share.
    let weight = format!("{}=0.1", cluster.id(added));
    let rebalance =
        ["rebalance", &entry, "--cluster-use-empty-primaries", "--cluster-weight", &weight];
    cli.run(&[&rebalance[..], &["--cluster-simulate"]].concat()).expect_ok();
    assert_eq!(cluster.view(added).myself().count(), 0);
    cli.run(&rebalance).expect_ok();
    cluster.settle();
    // The tool rounds by the order of ids.
    assert!((526..=530).contains(&cluster.view(added).myself().count()));
    let mut session = cluster.session();
    check_keys(&mut session);
    assert_eq!(count(&cluster), all);
    check(&cluster, &cli, added);
    let nothing = format!("{}=0", cluster.id(added));
    // By MIGRATESLOTS: the tool's word for it ends with a zero byte.
    let back = ["rebalance", &entry, "--cluster-weight", &nothing];
    cli.run(&[&back[..], &["--cluster-use-atomic-slot-migration"]].concat()).expect_ok();
    cluster.wait_until("the node has no slot", || {
        let view = cluster.view(0);
        view.by_port(cluster.announced(added)).is_some_and(|line| line.slots.is_empty())
    });
    check_keys(&mut session);
    assert_eq!(count(&cluster), all);
}

/// A tool that was killed, or whose nodes were, leaves nothing that fix doesn't correct. In Valkey, a killed target
/// that returns as a replica keeps its mark of a slot, and fix can't remove it.
#[test]
#[ignore = "long: cargo xtask test --all"]
fn interrupted_reshards_lose_nothing() {
    let Some(cli) = Cli::find() else { return };
    let settings = Settings::of(9).with_weft(&["--cluster-write-quorum", "1"]);
    let settings = settings.with(&["--appendonly", "yes", "--appendfsync", "always"]);
    let Some(mut cluster) = Cluster::formed(Kind::Weft, 3, settings) else { return };
    fill(&mut cluster.session());
    let mut rng = Rng::new(env_or("CLUSTER_SEED", 1));
    for round in 0..env_or("CLUSTER_RESHARDS", 4usize) {
        let load = Load::start(&cluster);
        let primaries: Vec<usize> =
            (0..9).filter(|&i| cluster.view(i).myself().is_primary()).collect();
        let (from, to) = (primaries[round % 3], primaries[(round + 1) % 3]);
        let (first, second) = (cluster.id(from), cluster.id(to));
        let entry = cluster.nodes[from].address();
        let moved = [
            "--cluster-from",
            &first,
            "--cluster-to",
            &second,
            "--cluster-slots",
            "200",
            "--cluster-yes",
        ];
        let running = cli.begin(&[&["reshard", &entry][..], &moved].concat());
        let before = cluster.view(to).myself().count();
        let some = before + 1 + rng.below(60);
        cluster.wait_until("some slots have moved", || cluster.view(to).myself().count() >= some);
        let victim = [None, Some(from), Some(to)][round % 3];
        if let Some(victim) = victim {
            cluster.nodes[victim].kill();
        }
        running.kill();
        if let Some(victim) = victim {
            cluster.nodes[victim].start();
        }
        cluster.settle();
        let entry = cluster.nodes[primaries[(round + 2) % 3]].address();
        for _ in 0..2 {
            cli.run(&["fix", &entry, "--cluster-yes"]);
            cluster.settle();
        }
        check(&cluster, &cli, primaries[(round + 2) % 3]);
        check_keys(&mut cluster.session());
        let outcome = load.finish();
        println!("round {round}: {outcome:?}");
        assert!(outcome.lost.is_empty() && outcome.errors.is_empty(), "{outcome:?}");
    }
}

/// The steps of a migration after which its tool was killed.
const STEPS: [&str; 5] =
    ["importing alone", "migrating alone", "both", "half of the keys", "owner knows alone"];

fn fix_after_a_kill_in_setslot(kind: Kind) {
    let Some((cluster, cli)) = scene(kind, 3) else { return };
    create(&cluster, &cli, 0);
    let mut session = cluster.session();
    fill(&mut session);
    let (from, to) = (cluster.id(0), cluster.id(1));
    for (n, step) in STEPS.into_iter().enumerate() {
        let slot = 10 + n as u16;
        for i in 0..10 {
            let key = key_in(slot, &format!("fix:{i}"));
            assert!(session.until_done(&key, &["SET", &key, "v"]).is_ok());
        }
        interrupt(&cluster, slot, step, &from, &to);
        let found = cli.run(&["check", &cluster.nodes[2].address()]);
        assert!(
            step == "owner knows alone" || found.text.contains("[WARNING]"),
            "{step}: {}",
            found.text
        );
        let fixed = cli.run(&["fix", &cluster.nodes[2].address(), "--cluster-yes"]);
        assert!(fixed.is_ok || !found.is_ok, "{step}: {}", fixed.text);
        cluster.settle();
        check(&cluster, &cli, 2);
        for i in 0..10 {
            let key = key_in(slot, &format!("fix:{i}"));
            let value = session.until_done(&key, &["GET", &key]);
            assert_eq!(value.bytes(), Some(&b"v"[..]), "{step}: {key}\n{}", fixed.text);
        }
        assert_eq!(count(&cluster), KEYS + 10 * (n + 1), "{step}: keys are there once");
    }
    check_keys(&mut session);
}

/// Migrates a slot from node 0 to node 1 up to this step.
fn interrupt(cluster: &Cluster, slot: u16, step: &str, from: &str, to: &str) {
    let text = slot.to_string();
    let (mut source, mut target) = (cluster.client(0), cluster.client(1));
    assert_eq!(cluster.owner(slot), Some(0));
    if step != "migrating alone" {
        target.ok(&["CLUSTER", "SETSLOT", &text, "IMPORTING", from]);
    }
    if step != "importing alone" {
        source.ok(&["CLUSTER", "SETSLOT", &text, "MIGRATING", to]);
    }
    let keys = match step {
        "half of the keys" => 5,
        "owner knows alone" => 100,
        _ => return,
    };
    let names = source.cmd(&["CLUSTER", "GETKEYSINSLOT", &text, &keys.to_string()]);
    let port = cluster.nodes[1].port().to_string();
    let mut migrate = vec!["MIGRATE", "127.0.0.1", &port, "", "0", "5000", "KEYS"];
    let names: Vec<String> = names.items().iter().map(|name| name.text()).collect();
    assert!(names.iter().all(|name| slot_of(name.as_bytes()) == slot));
    migrate.extend(names.iter().map(String::as_str));
    source.ok(&migrate);
    if step == "owner knows alone" {
        target.ok(&["CLUSTER", "SETSLOT", &text, "NODE", to]);
    }
}

fn import_from_a_standalone_server(kind: Kind) {
    let Some((cluster, cli)) = scene(kind, 3) else { return };
    let Some(standalone) = Server::valkey(&[]) else { return };
    create(&cluster, &cli, 0);
    let mut client = standalone.client();
    for n in 0..KEYS {
        client.ok(&["SET", &format!("key:{n}"), &n.to_string()]);
    }
    client.cmd(&["RPUSH", "list", "a", "b"]);
    client.cmd(&["HSET", "hash", "f", "v"]);
    client.cmd(&["SET", "expiring", "v", "EX", "1000"]);
    let from = format!("127.0.0.1:{}", standalone.port());
    let entry = cluster.nodes[0].address();
    cli.run(&["import", &entry, "--cluster-from", &from, "--cluster-copy"]).expect_ok();
    let mut session = cluster.session();
    check_keys(&mut session);
    assert_eq!(session.until_done("list", &["LRANGE", "list", "0", "-1"]).items().len(), 2);
    assert!((1..=1000).contains(&session.until_done("expiring", &["TTL", "expiring"]).int()));
    assert_eq!(
        client.cmd(&["DBSIZE"]).int() as usize,
        KEYS + 3,
        "a copy leaves the source as it is"
    );
    // Keys that exist are an error without --cluster-replace.
    let again = cli.run(&["import", &entry, "--cluster-from", &from, "--cluster-copy"]);
    assert!(again.text.contains("BUSYKEY"), "{}", again.text);
    cli.run(&["import", &entry, "--cluster-from", &from, "--cluster-replace"]).expect_ok();
    assert_eq!(client.cmd(&["DBSIZE"]).int(), 0, "keys are moved");
    check_keys(&mut session);
}

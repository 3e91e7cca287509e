//! The machines against real servers: each follows the other, links are cut, and roles change.
//!
//! `PEERS_BIN` is the folder of the servers, with these names: `valkey-server`, `redis8-server`,
//! and optionally `valkey8-server`, `redis7-server` and `redis6-server`.

mod rig;

use std::path::PathBuf;

use rig::Rig;
use weft_replication::Settings;
use weft_testkit::{Server, skipped};

const NAMES: [&str; 5] =
    ["valkey-server", "redis8-server", "valkey8-server", "redis7-server", "redis6-server"];

/// Starts the available servers with these options.
fn peers(args: &[&str]) -> Vec<Server> {
    let folder = std::env::var_os("PEERS_BIN").map(PathBuf::from).unwrap_or_default();
    let mut peers = Vec::new();
    for name in NAMES {
        let program = folder.join(name);
        match program.is_file() {
            true => peers.push(Server::start(name, &program, args)),
            false => skipped::note_here(name),
        }
    }
    peers
}

/// A field of a peer's INFO replication.
fn info(peer: &Server, name: &str) -> String {
    let value = peer.client().cmd(&["INFO", "replication"]);
    let text = String::from_utf8_lossy(value.bytes().expect("a text")).into_owned();
    let field = format!("{name}:");
    text.lines().find_map(|line| line.strip_prefix(&field)).unwrap_or_default().to_string()
}

fn get(peer: &Server, db: &str, key: &str) -> String {
    let mut client = peer.client();
    client.ok(&["SELECT", db]);
    let value = client.cmd(&["GET", key]);
    value.bytes().map(|bytes| String::from_utf8_lossy(bytes).into_owned()).unwrap_or_default()
}

fn eager() -> Settings {
    Settings { diskless_delay: 0, ping_period: 1000, ..Settings::default() }
}

fn words(text: &str) -> Vec<String> {
    text.split(' ').map(str::to_string).collect()
}

fn count(rig: &Rig, text: &str) -> usize {
    rig.log.iter().filter(|line| line.contains(text)).count()
}

#[test]
fn follows_a_peer() {
    for diskless in ["yes", "no"] {
        let args = [
            "--repl-diskless-sync",
            diskless,
            "--repl-diskless-sync-delay",
            "0",
            "--repl-ping-replica-period",
            "1",
        ];
        for peer in peers(&args) {
            let mut client = peer.client();
            let mut rig = Rig::new(eager(), Some(peer.port()));
            let online =
                |rig: &mut Rig| rig.node.follower().is_some_and(|follower| follower.is_online());
            rig.until("the first copy", online);
            for round in 0..2 {
                client.ok(&["SET", "a", "b"]);
                client.ok(&["MULTI"]);
                for command in ["SET x 1", "SELECT 3", "SET y 2"] {
                    client.cmd(&words(command));
                }
                client.cmd(&["EXEC"]);
                client.ok(&["SELECT", "0"]);
                let wanted = [
                    vec![(0, words("SET a b"))],
                    vec![(0, words("SET x 1")), (3, words("SET y 2"))],
                ];
                rig.until("all writes", |rig| rig.units.len() == 2 * (round + 1));
                let upper = |unit: &rig::Unit| -> rig::Unit {
                    unit.iter()
                        .map(|(db, words)| {
                            let mut words = words.clone();
                            words[0].make_ascii_uppercase();
                            (*db, words)
                        })
                        .collect()
                };
                let units: Vec<rig::Unit> = rig.units[2 * round..].iter().map(upper).collect();
                assert_eq!(units, wanted, "{}", peer.name());
                rig.until("equal offsets", |rig| {
                    info(&peer, "master_repl_offset") == rig.node.stream().offset().to_string()
                });
                assert_eq!(
                    info(&peer, "master_replid"),
                    rig.node.stream().history().id.to_string()
                );
                rig.until("the acknowledgement", |rig| {
                    let end = rig.node.stream().offset();
                    let slave = info(&peer, "slave0");
                    slave.contains("state=online") && slave.contains(&format!("offset={end},"))
                });
                rig.cut();
                rig.until("going on", |rig| online(rig));
            }
            assert_eq!(count(&rig, "Full resync from primary"), 1, "{}", peer.name());
            assert_eq!(count(&rig, "Successful partial resynchronization"), 2);
        }
    }
}

#[test]
fn feeds_a_peer() {
    for diskless in [true, false] {
        for peer in peers(&["--repl-diskless-load", "disabled", "--repl-ping-replica-period", "1"])
        {
            let mut rig = Rig::new(Settings { diskless_sync: diskless, ..eager() }, None);
            let port = rig.port().to_string();
            peer.client().ok(&["REPLICAOF", "127.0.0.1", &port]);
            let online = |rig: &mut Rig| {
                let views = rig.node.primary().views(0, 0);
                views.first().is_some_and(|view| {
                    view.is_online && view.ack_offset == rig.node.stream().offset()
                })
            };
            rig.until("the first copy", online);
            for round in 0..2 {
                let value = format!("v{round}");
                rig.write(&[(0, &["SET", "a", &value])]);
                rig.write(&[(2, &["SET", "x", &value]), (5, &["SET", "y", &value])]);
                rig.until("the writes", |_| {
                    [("0", "a"), ("2", "x"), ("5", "y")]
                        .iter()
                        .all(|(db, key)| get(&peer, db, key) == value)
                });
                rig.until("acknowledgements", online);
                rig.call(|node, now, out| node.request_acks(now, out));
                rig.until("the answer to GETACK", online);
                assert_eq!(info(&peer, "master_link_status"), "up");
                rig.cut();
                rig.write(&[(5, &["SET", "z", &value])]);
                rig.until("going on", online);
                assert_eq!(get(&peer, "5", "z"), value, "{}", peer.name());
            }
            let counts = rig.node.primary().counts();
            assert_eq!((counts.sync_full, counts.sync_partial_ok), (1, 2), "{}", peer.name());
            assert_eq!(info(&peer, "master_replid"), rig.node.stream().history().id.to_string());
        }
    }
}

#[test]
fn a_peer_hands_over_and_takes_back() {
    let args = ["--repl-diskless-sync-delay", "0", "--repl-ping-replica-period", "1"];
    for peer in peers(&args) {
        if peer.name() == "redis6-server" {
            continue; // It has no FAILOVER before 6.2, and this one may be older.
        }
        let mut rig = Rig::new(eager(), Some(peer.port()));
        let (mut client, port) = (peer.client(), rig.port().to_string());
        rig.until("the first copy", |_| info(&peer, "slave0").contains("state=online"));
        client.ok(&["SET", "a", "b"]);
        client.ok(&["FAILOVER", "TO", "127.0.0.1", &port]);
        rig.until("taking over", |rig| rig.node.is_primary());
        rig.write(&[(1, &["SET", "new", "primary"])]);
        rig.until("the first write", |_| get(&peer, "1", "new") == "primary");
        assert_eq!(count(&rig, "Full resync"), 1, "only the first synchronization is full");
        assert_eq!(info(&peer, "role"), "slave");
        rig.until("acknowledgements", |rig| {
            let views = rig.node.primary().views(0, 0);
            views.first().is_some_and(|view| view.ack_offset == rig.node.stream().offset())
        });
        let to = peer.port().to_string();
        let args: [&[u8]; 5] = [b"to", b"127.0.0.1", to.as_bytes(), b"timeout", b"30000"];
        assert_eq!(rig.call(|node, now, out| node.fail_over(now, &args, out)), Ok(()));
        rig.until("being a replica again", |rig| {
            rig.node.follower().is_some_and(|follower| follower.is_online())
        });
        assert_eq!(info(&peer, "role"), "master");
        let units = rig.units.len();
        client.ok(&["SET", "a", "c"]);
        rig.until("a write of the old primary", |rig| rig.units.len() == units + 1);
        assert_eq!(count(&rig, "Full resync from primary"), 1, "{}", peer.name());
        assert_eq!(rig.node.failover().name(), "no-failover");
    }
}

//! MIGRATESLOTS between two nodes with a store: clients count while slots move, and nodes are killed at random moments.

use rustix::process::Signal;
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use weft_testkit::etcd::Etcd;
use weft_testkit::rng::Rng;
use weft_testkit::{Client, Server, Value, skipped};
use weft_tests::scene::until;

const LIMIT: Duration = Duration::from_secs(90);
/// Length of a lease: etcd's least.
const TIMEOUT: &str = "2000";

/// Two primaries with one store, of which the first one owns all slots.
pub struct Pair {
    etcd: Etcd,
    pub nodes: Vec<Server>,
    ids: Vec<String>,
}

pub fn wait_until(state: &str, mut is_reached: impl FnMut() -> bool) {
    let since = Instant::now();
    while !is_reached() {
        assert!(since.elapsed() < LIMIT, "not in time: {state}");
        thread::sleep(Duration::from_millis(20));
    }
}

/// A reply from a node that may be down.
pub fn ask(node: &Server, words: &[&str]) -> Option<Value> {
    ask_port(node.port(), words)
}

fn ask_port(port: u16, words: &[&str]) -> Option<Value> {
    let mut client = Client::try_tcp(port).ok()?;
    client.set_timeout(Duration::from_secs(20));
    Some(client.try_cmd(words).ok()?.value)
}

pub fn is_ok(reply: Option<Value>) -> bool {
    reply.is_some_and(|reply| reply.is_ok())
}

impl Pair {
    /// `None` without etcd. Every write is on the disk before its reply.
    pub fn start() -> Option<Pair> {
        let Some(etcd) = Etcd::start(1) else {
            skipped::note_here("no etcd in ETCD_BIN, next to the peers, or in PATH");
            return None;
        };
        let endpoint = etcd.endpoint(0);
        let address = endpoint.rsplit('/').next().expect("an address");
        let store = format!("etcd://{address}/moves");
        let start = || {
            Server::weft(&[
                "--cluster-enabled",
                "yes",
                "--cluster-store",
                &store,
                "--cluster-node-timeout",
                TIMEOUT,
                "--cluster-announce-ip",
                "127.0.0.1",
                "--appendonly",
                "yes",
                "--appendfsync",
                "always",
            ])
        };
        let nodes = vec![start(), start()];
        let ids = nodes.iter().map(|node| node.client().cmd(&["CLUSTER", "MYID"]).text()).collect();
        let pair = Pair { etcd, nodes, ids };
        wait_until("the slots are added", || {
            is_ok(ask(&pair.nodes[0], &["CLUSTER", "ADDSLOTSRANGE", "0", "16383"]))
        });
        let port = pair.nodes[1].port().to_string();
        wait_until("the nodes have met", || {
            is_ok(ask(&pair.nodes[0], &["CLUSTER", "MEET", "127.0.0.1", &port]))
        });
        pair.wait_until_quiet();
        Some(pair)
    }

    /// The port of the owner of all slots by the map of a node.
    fn owner_port(&self, node: usize) -> Option<i64> {
        let slots = ask(&self.nodes[node], &["CLUSTER", "SLOTS"])?;
        match slots {
            Value::Array(ranges) if ranges.len() == 1 => {
                Some(ranges[0].items()[2].items()[1].int())
            }
            _ => None,
        }
    }

    /// The node that owns all slots, once both nodes say so.
    pub fn owner(&self) -> usize {
        let mut owner = None;
        wait_until("both nodes know one owner", || {
            let (one, other) = (self.owner_port(0), self.owner_port(1));
            let port = one.filter(|_| one == other);
            owner = self.nodes.iter().position(|node| Some(i64::from(node.port())) == port);
            owner.is_some()
        });
        owner.expect("waited for")
    }

    /// Waits until the store has no move any more.
    pub fn wait_until_quiet(&self) {
        use std::fmt::Write;
        let encode = |text: &str| {
            const DIGITS: &[u8] =
                b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
            let mut out = String::new();
            for bytes in text.as_bytes().chunks(3) {
                let word = bytes.iter().fold(0_u32, |all, byte| all << 8 | u32::from(*byte))
                    << (8 * (3 - bytes.len()));
                for at in 0..4 {
                    match at <= bytes.len() {
                        true => {
                            write!(out, "{}", DIGITS[(word >> (18 - 6 * at) & 63) as usize] as char)
                                .expect("text")
                        }
                        false => out.push('='),
                    }
                }
            }
            out
        };
        let range = format!(
            r#"{{"key":"{}","range_end":"{}"}}"#,
            encode("/moves/handovers/"),
            encode("/moves/handovers0")
        );
        wait_until("the move has ended", || {
            let answer = self.etcd.post("/v3/kv/range", &range);
            assert!(answer.contains("\"revision\""), "{answer}");
            !answer.contains("\"kvs\"")
        });
    }

    pub fn ports(&self) -> Vec<u16> {
        self.nodes.iter().map(Server::port).collect()
    }

    pub fn migrate(&self, from: usize) -> Option<Value> {
        let to = &self.ids[1 - from];
        let words = ["CLUSTER", "MIGRATESLOTS", "SLOTSRANGE", "0", "16383", "NODE", to.as_str()];
        ask(&self.nodes[from], &words)
    }
}

/// A counter as its client knows it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Count {
    acked: i64,
    /// Increments without a reply since.
    unknown: i64,
}

/// Increments counters until `stop`, and follows redirects.
fn count(ports: &Mutex<Vec<u16>>, client: usize, stop: &AtomicBool) -> BTreeMap<String, Count> {
    let mut rng = Rng::new(client as u64);
    let mut counts: BTreeMap<String, Count> = BTreeMap::new();
    let mut links: BTreeMap<u16, Client> = BTreeMap::new();
    let mut port = 0;
    while !stop.load(Ordering::Relaxed) {
        let name = format!("count:{client}:{}", rng.below(100));
        let known = counts.entry(name.clone()).or_default();
        let Some(link) = links.remove(&port).or_else(|| Client::try_tcp(port).ok()) else {
            thread::sleep(Duration::from_millis(20));
            port = *rng.pick(&ports.lock().expect("no thread panics with it"));
            continue;
        };
        let mut link = link;
        link.set_timeout(Duration::from_secs(10));
        let script = ["EVAL", "return redis.call('INCR', KEYS[1])", "1", name.as_str()];
        let words: &[&str] = if rng.percent(20) { &script } else { &["INCR", name.as_str()] };
        let Ok(reply) = link.try_cmd(words) else {
            known.unknown += 1;
            port = *rng.pick(&ports.lock().expect("no thread panics with it"));
            continue;
        };
        links.insert(port, link);
        match reply.value {
            Value::Integer(now) => {
                let least = known.acked + 1;
                let most = least + known.unknown;
                assert!((least..=most).contains(&now), "{name}: {now} after {known:?}");
                known.unknown = most - now;
                known.acked = now;
            }
            Value::Error(text) => {
                let text = String::from_utf8_lossy(&text).into_owned();
                match text.rsplit_once(':') {
                    Some((moved, to)) if moved.starts_with("MOVED") => {
                        port = to.parse().expect("a port")
                    }
                    _ => {
                        let passes = ["CLUSTERDOWN", "LOADING", "READONLY", "TRYAGAIN"];
                        assert!(passes.iter().any(|word| text.starts_with(word)), "{text}");
                        thread::sleep(Duration::from_millis(20));
                    }
                }
            }
            other => panic!("{other:?}"),
        }
    }
    counts
}

/// Each counter is on one node, and has every acknowledged increment.
pub fn check(pair: &Pair, counts: &BTreeMap<String, Count>) {
    let owner = pair.owner();
    let mut client = pair.nodes[owner].client();
    // Its lease may have ended while it was stopped.
    until("the owner serves its slots", || client.cmd(&["GET", "none"]).is_null());
    let mut keys = 0;
    for (name, known) in counts {
        let now = match client.cmd(&["GET", name]) {
            now if now.is_null() => 0,
            now => now.text().parse().expect("a number"),
        };
        keys += i64::from(now > 0);
        let range = known.acked..=known.acked + known.unknown;
        assert!(range.contains(&now), "{name}: {now} after {known:?}");
    }
    assert_eq!(client.cmd(&["DBSIZE"]).int(), keys);
    let mut other = pair.nodes[1 - owner].client();
    until("the other node has a lease", || other.cmd(&["DBSIZE"]).error().is_none());
    assert_eq!(other.cmd(&["DBSIZE"]).int(), 0);
}

/// Calls `act` while three clients count. Returns what they know.
pub fn while_clients_count(ports: &Mutex<Vec<u16>>, act: impl FnOnce()) -> BTreeMap<String, Count> {
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let clients: Vec<_> = (0..3)
            .map(|client| {
                let stop = &stop;
                scope.spawn(move || count(ports, client, stop))
            })
            .collect();
        let end = OnEnd(&stop);
        act();
        drop(end);
        let counts = clients.into_iter().map(|client| client.join().expect("a client"));
        counts.flatten().collect()
    })
}

/// Moves all slots to and fro `rounds` times, with a fault in each round, while clients count.
fn run(rounds: u64, seed: u64, faults: bool) {
    let Some(mut pair) = Pair::start() else { return };
    let mut rng = Rng::new(seed);
    let ports = Mutex::new(pair.ports());
    let counts = while_clients_count(&ports, || {
        for round in 0..rounds {
            let from = pair.owner();
            let reply = pair.migrate(from);
            thread::sleep(Duration::from_millis(rng.below(300) as u64));
            match rng.below(6) {
                _ if !faults => assert!(is_ok(reply.clone()), "{reply:?}"),
                fault @ (0 | 1) => {
                    let victim = &mut pair.nodes[(from + fault) % 2];
                    victim.signal(Signal::STOP);
                    thread::sleep(Duration::from_millis(if rng.percent(50) { 300 } else { 2500 }));
                    victim.signal(Signal::CONT);
                }
                fault @ (2 | 3) => {
                    // The node announces its new port.
                    pair.nodes[(from + fault) % 2].restart();
                    *ports.lock().expect("no thread panics with it") = pair.ports();
                }
                4 => _ = ask(&pair.nodes[from], &["CLUSTER", "CANCELSLOTMIGRATIONS"]),
                _ => {}
            }
            pair.wait_until_quiet();
            if !faults {
                assert_eq!(pair.owner(), 1 - from, "round {round}");
            }
        }
    });
    check(&pair, &counts);
}

/// Ends the clients, also if the test fails.
struct OnEnd<'a>(&'a AtomicBool);

impl Drop for OnEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn slots_move_with_their_keys_while_clients_count() {
    run(4, 1, false);
}

#[test]
fn killed_and_stopped_nodes_lose_nothing() {
    run(6, 2, true);
}

#[test]
#[ignore = "takes minutes"]
fn killed_and_stopped_nodes_lose_nothing_for_long() {
    // MOVES_SEEDS sets how many; each takes most of a minute.
    let seeds = std::env::var("MOVES_SEEDS").ok().and_then(|n| n.parse().ok()).unwrap_or(2);
    for seed in 10..10 + seeds {
        run(20, seed, true);
    }
}

/// All types, expiry and databases.
#[test]
fn values_arrive_as_they_were() {
    let Some(pair) = Pair::start() else { return };
    let mut client = pair.nodes[0].client();
    client.ok(&["SET", "text", "value"]);
    client.ok(&["SET", "dies", "value", "PXAT", "9999999999999"]);
    for words in [
        &["RPUSH", "list", "a", "b"][..],
        &["HSET", "hash", "f", "v"],
        &["SADD", "set", "m"],
        &["ZADD", "zset", "1", "m"],
        &["XADD", "stream", "1-1", "f", "v"],
        &["PFADD", "hll", "a", "b"],
    ] {
        assert_eq!(client.cmd(words).error(), None, "{words:?}");
    }
    // RESTORE of a large value runs in the slow lane.
    let element = "x".repeat(20_000);
    let large = [&["RPUSH", "large"][..], &[element.as_str(); 500]].concat();
    (0..2).for_each(|_| assert_eq!(client.cmd(&large).error(), None));
    let names = ["text", "dies", "list", "hash", "set", "zset", "stream", "hll", "large"];
    let dumps = |client: &mut Client| {
        names.map(|name| (client.cmd(&["DUMP", name]), client.cmd(&["PEXPIRETIME", name])))
    };
    let before = dumps(&mut client);
    assert!(is_ok(pair.migrate(0)));
    pair.wait_until_quiet();
    assert_eq!(pair.owner(), 1);
    assert_eq!(dumps(&mut pair.nodes[1].client()), before);
    assert_eq!(pair.nodes[0].client().cmd(&["DBSIZE"]).int(), 0);
    let moved = pair.nodes[0].client().cmd(&["GET", "text"]).error().unwrap_or_default();
    assert!(moved.starts_with("MOVED"), "{moved}");
    for (node, operation) in pair.nodes.iter().zip(["EXPORT", "IMPORT"]) {
        wait_until("the list shows success", || {
            let list = node.client().cmd(&["CLUSTER", "GETSLOTMIGRATIONS"]);
            let items = list.items()[0].items();
            let field = |name: &str| {
                let at = items.chunks(2).find(|pair| pair[0].bytes() == Some(name.as_bytes()));
                at.map(|pair| pair[1].text())
            };
            assert_eq!(field("operation").as_deref(), Some(operation));
            field("state").as_deref() == Some("success")
        });
    }
}

#[test]
fn finished_moves_are_forgotten() {
    let Some(pair) = Pair::start() else { return };
    let shown = |node: usize| {
        pair.nodes[node].client().cmd(&["CLUSTER", "GETSLOTMIGRATIONS"]).items().len()
    };
    for node in &pair.nodes {
        node.client().ok(&["CONFIG", "SET", "cluster-slot-migration-log-max-len", "2"]);
    }
    let move_slot = |slot: &str| {
        let target = pair.ids[1].as_str();
        let words = ["CLUSTER", "MIGRATESLOTS", "SLOTSRANGE", slot, slot, "NODE", target];
        assert!(is_ok(ask(&pair.nodes[0], &words)));
        // From the reply on, the newest record is that of this move.
        let list = pair.nodes[0].client().cmd(&["CLUSTER", "GETSLOTMIGRATIONS"]);
        let newest = list.items().first().map(|record| record.items()[5].text());
        pair.wait_until_quiet();
        newest
    };
    for (slot, records) in [("1", 1), ("2", 2), ("3", 2)] {
        assert_eq!(move_slot(slot), Some(format!("{slot}-{slot}")));
        wait_until("the list has its length", || shown(0) == records && shown(1) == records);
    }
    for node in &pair.nodes {
        node.client().ok(&["CONFIG", "SET", "cluster-slot-migration-log-max-len", "0"]);
    }
    move_slot("4");
    wait_until("the list is empty", || shown(0) == 0 && shown(1) == 0);
}

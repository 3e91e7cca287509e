//! The keys of slots: their numbers, CLUSTERSCAN, and slots without an owner at the start.

use std::collections::{BTreeMap, BTreeSet};
use weft_testkit::rng::Rng;
use weft_testkit::server::free_port;
use weft_testkit::{Client, Server, Value, skip_without};
use weft_tests::env_or;

/// Options of both servers. Nothing listens on Weft's bus port.
fn options(bus: &str) -> [&str; 11] {
    [
        "--cluster-enabled",
        "yes",
        "--cluster-require-full-coverage",
        "no",
        "--cluster-databases",
        "2",
        "--cluster-port",
        bus,
        "--enable-debug-command",
        "yes",
        "--save",
    ]
}

pub fn start(server: fn(&[&str]) -> Option<Server>) -> Option<Server> {
    let bus = free_port().to_string();
    server(&[&options(&bus)[..], &[""]].concat())
}

/// Weft and Valkey.
pub fn both() -> Option<[Server; 2]> {
    Some([start(|args| Some(Server::weft(args)))?, start(Server::valkey)?])
}

/// Gives slots to the node, and waits until it serves them: Valkey does so after a while.
pub fn serve(client: &mut Client, ranges: &[(u16, u16)]) {
    for (first, last) in ranges {
        client.ok(&["CLUSTER", "ADDSLOTSRANGE", &first.to_string(), &last.to_string()]);
    }
    wait_until_up(client);
}

fn wait_until_up(client: &mut Client) {
    while !client.cmd(&["CLUSTER", "INFO"]).text().contains("cluster_state:ok") {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
}

fn slot_of(client: &mut Client, key: &str) -> u16 {
    client.cmd(&["CLUSTER", "KEYSLOT", key]).int() as u16
}

/// Cursors and options, right and wrong. The node serves the slots of `t` and `06S`, and not that of `bar`.
const LINES: &[&str] = &[
    "0",
    "0 COUNT 5",
    "0 MATCH a{t}*",
    "0 MATCH a*{t}*",
    "0 MATCH t",
    "0 MATCH {t",
    "0 MATCH \\{t}*",
    "0 MATCH *",
    "0 SLOT 0",
    "0 SLOT 16383",
    "0 SLOT 16384",
    "0 SLOT -1",
    "0 SLOT x",
    "0 SLOT 01",
    "0 SLOT 18446744073709551616",
    "0 SLOT",
    "0 SLOT 1 SLOT 2",
    "0 SLOT 1 SLOT x",
    "0 SLOT x SLOT 1",
    "0 SLOT x COUNT 0",
    "0 COUNT 0 SLOT x",
    "0 SLOT 99 MATCH {t}*",
    "0 SLOT 0 MATCH {06S}*",
    "0 COUNT",
    "0 COUNT 0",
    "0 COUNT -1",
    "0 COUNT x",
    "0 count 5 COUNT 6",
    "0 TYPE",
    "0 TYPE nope",
    "0 TYPE string",
    "0 NOVALUES",
    "0 NOVALUES x",
    "0 NOSCORES",
    "0 x",
    "0 x y",
    "00",
    "1",
    "x",
    "x COUNT 0",
    "-",
    "--",
    "---",
    "-0",
    "0-{06S}",
    "0-{06S}-",
    "0-{06S}-x",
    "0-{06S}-0x",
    "0-{06S}--1",
    "0-{06S}-99999999999999999999",
    "0-{0-6}-0",
    "0-{06S}-0-0",
    "0-{06S}-x SLOT 5",
    "0-{06S}-0 SLOT 1",
    "0-{06S}-0 SLOT 1 MATCH {06S}*",
    "0-{06S}-0 SLOT 0 MATCH {t}*",
    "0-{06S}-0 MATCH {t}*",
    "0-{06S}-0 MATCH {bar}*",
    "0-{t}-0 MATCH {06S}*",
    "0-{t}-0 MATCH {06S}* COUNT 1",
    "0-{bar}-0",
    "0-{bar}-x",
    "0-{bar}-0 COUNT 0",
    "0-{06S}-0 COUNT 100000",
    "zz-{06S}-5 COUNT 100000",
    "-{06S}-0 COUNT 100000",
    "0-{06S}-+5 COUNT 100000 MATCH *1",
    "0-{06S}-18446744073709551615 COUNT 100000 TYPE list",
    "0-{t}-0 COUNT 100000",
    "0-{t}-0 COUNT 100000 SLOT 15891",
    "0-{t}-0 COUNT 100000 MATCH {t}?",
    "0-t-0 COUNT 100000",
    "0-v15-0",
    "0-v15-0 SLOT 15098",
    "0-v107694-0",
    "0-v107694-0 SLOT 157",
    "0-v107694-0 MATCH {v107694}*",
];

/// A reply to CLUSTERSCAN with its keys in order.
fn sorted(reply: &Value) -> String {
    if reply.error().is_some() {
        return reply.to_string();
    }
    let [cursor, keys] = reply.items() else { panic!("{reply}") };
    let keys: BTreeSet<String> = keys.items().iter().map(Value::text).collect();
    format!("{cursor} {keys:?}")
}

#[test]
fn clusterscan_has_the_replies_of_valkey() {
    let servers = both();
    if skip_without("CLUSTERSCAN", &servers, "valkey-server") {
        return;
    }
    let servers = servers.expect("not skipped");
    let mut clients = servers.each_ref().map(Server::client);
    for client in &mut clients {
        // The slots of `0`, `t` and `foo`.
        serve(client, &[(0, 99), (200, 300), (12_000, 12_200), (13_907, 13_907), (15_891, 16_383)]);
        for n in 0..3000 {
            client.cmd(&["SET", &format!("k{n}"), "v"]);
        }
        client.ok(&["MSET", "{t}1", "v", "{t}2", "v", "{t}33", "v"]);
        client.cmd(&["RPUSH", "{06S}list", "v"]);
    }
    let mut check = |words: &[&str]| {
        let [ours, theirs] = clients.each_mut().map(|client| sorted(&client.cmd(words)));
        assert_eq!(ours, theirs, "weft, then valkey: {words:?}");
    };
    for line in LINES {
        let words: Vec<&str> = std::iter::once("CLUSTERSCAN").chain(line.split(' ')).collect();
        check(&words);
    }
    check(&["CLUSTERSCAN"]);
    check(&["CLUSTERSCAN", ""]);
    check(&["CLUSTERSCAN", "0", "MATCH", ""]);
    check(&["COMMAND", "GETKEYS", "CLUSTERSCAN", "0"]);
}

/// Scans from a cursor on until the node's part has ended. Returns the keys and the last cursor.
fn scan(
    client: &mut Client,
    cursor: &str,
    options: &[&str],
    mut between: impl FnMut(&mut Client),
) -> (Vec<String>, String) {
    let (mut keys, mut cursor) = (Vec::new(), cursor.to_string());
    loop {
        let reply = client.cmd(&[&["CLUSTERSCAN", &cursor], options].concat());
        if reply.error().is_some_and(|e| e.starts_with("CLUSTERDOWN Hash slot not served")) {
            return (keys, cursor);
        }
        let [next, found] = reply.items() else { panic!("{cursor}: {reply}") };
        keys.extend(found.items().iter().map(Value::text));
        cursor = next.text();
        if cursor == "0" {
            return (keys, cursor);
        }
        between(client);
    }
}

#[test]
fn whole_scan_returns_the_keys_that_valkey_returns() {
    let servers = both();
    if skip_without("whole scans", &servers, "valkey-server") {
        return;
    }
    let servers = servers.expect("not skipped");
    let scans = servers.each_ref().map(|server| {
        let mut client = server.client();
        serve(&mut client, &[(0, 5000), (5002, 9000), (13_907, 13_907), (15_000, 16_383)]);
        for n in 0..5000 {
            client.cmd(&["SET", &format!("k{n}"), "v"]);
            client.ok(&["SET", &format!("{{t}}{n}"), "v"]);
        }
        let mut seen = Vec::new();
        // From slots 0, 5002 and 15000 on, and one slot.
        for cursor in ["0", "0-{VY}-0", "0-{Lr}-0"] {
            for options in [&[][..], &["COUNT", "1000"], &["MATCH", "*7*", "COUNT", "77"]] {
                let (mut keys, end) = scan(&mut client, cursor, options, |_| {});
                keys.sort();
                seen.push((keys, end));
            }
        }
        for options in [["SLOT", "15891"], ["MATCH", "{t}*"]] {
            let (mut keys, end) = scan(&mut client, "0", &options, |_| {});
            keys.sort();
            assert!(keys.len() >= 5000, "{}", keys.len());
            seen.push((keys, end));
        }
        seen
    });
    let [ours, theirs] = scans;
    assert_eq!(ours.len(), theirs.len());
    for (at, (ours, theirs)) in ours.iter().zip(&theirs).enumerate() {
        assert_eq!(ours, theirs, "scan {at}: weft, then valkey");
    }
}

/// Keys that stay are returned, and cursors of another process begin their slot anew.
#[test]
fn scan_returns_keys_that_stay_while_others_change() {
    let mut weft = start(|args| Some(Server::weft(args))).expect("Weft is here");
    let mut client = weft.client();
    serve(&mut client, &[(0, 16_383)]);
    let stay =
        |n: u32| if n.is_multiple_of(2) { format!("stay{n}") } else { format!("{{t}}stay{n}") };
    (0..4000).for_each(|n| client.ok(&["SET", &stay(n), "v"]));
    let mut next = 0;
    let change = |client: &mut Client| {
        for _ in 0..30 {
            next += 1;
            client.ok(&["SET", &format!("{{t}}new{next}"), "v"]);
            if next > 1000 {
                client.cmd(&["DEL", &format!("{{t}}new{}", next - 1000)]);
            }
        }
    };
    let (keys, end) = scan(&mut client, "0", &["COUNT", "50"], change);
    assert_eq!(end, "0");
    let keys: BTreeSet<String> = keys.into_iter().collect();
    assert_eq!((0..4000).map(stay).find(|key| !keys.contains(key)), None);
    let reply = client.cmd(&["CLUSTERSCAN", "0-{t}-0", "SLOT", "15891"]);
    let cursor = reply.items()[0].text();
    assert!(!cursor.starts_with("0-"), "{cursor}");
    client.ok(&["SAVE"]);
    weft.restart();
    let (keys, _) = scan(&mut weft.client(), &cursor, &["SLOT", "15891"], |_| {});
    assert!(keys.iter().filter(|key| key.contains("stay")).count() == 2000, "{}", keys.len());
}

/// The counts of slots are those of their keys, whatever created and removed them.
#[test]
fn counts_are_those_of_the_keys() {
    let weft = start(|args| Some(Server::weft(args))).expect("Weft is here");
    let mut client = weft.client();
    serve(&mut client, &[(0, 16_383)]);
    client.ok(&["DEBUG", "SET-ACTIVE-EXPIRE", "0"]);
    let mut rng = Rng::new(env_or("SLOTS_SEED", 1));
    for round in 0..env_or("SLOTS_ROUNDS", 30) {
        for _ in 0..200 {
            let key = |rng: &mut Rng| match rng.below(3) {
                0 => format!("k{}", rng.below(300)),
                _ => format!("{{t}}{}", rng.below(1000)),
            };
            let (a, b) = (key(&mut rng), format!("{{t}}{}", rng.below(1000)));
            let words: Vec<&str> = match rng.below(40) {
                0 => vec!["SELECT", "1"],
                1 => vec!["SELECT", "0"],
                2 => vec!["MOVE", &a, "1"],
                3 => vec!["RENAME", "{t}1", &b],
                4 => vec!["COPY", "{t}2", &b, "REPLACE"],
                5 => vec!["DEL", &a],
                6 => vec!["UNLINK", "{t}3", &b],
                7 => vec!["SADD", &a, "1"],
                8 => vec!["SPOP", &a],
                9 => vec!["PEXPIRE", &a, "0"],
                10 => vec!["SET", &a, "v", "PX", "1"],
                11 => vec!["SUNIONSTORE", &b, "{t}5", "{t}6"],
                12 if rng.percent(5) => vec!["SWAPDB", "0", "1"],
                13 if rng.percent(5) => vec!["FLUSHDB", "ASYNC"],
                14 if rng.percent(5) => vec!["CLUSTER", "FLUSHSLOT", "15891"],
                15 if rng.percent(5) => vec!["DEBUG", "RELOAD"],
                _ => vec!["SET", &a, "v"],
            };
            client.cmd(&words);
        }
        // Keys that have expired are counted until they are removed.
        std::thread::sleep(std::time::Duration::from_millis(2));
        let mut counts = BTreeMap::new();
        for db in ["0", "1"] {
            client.ok(&["SELECT", db]);
            let keys = client.cmd(&["KEYS", "*"]);
            let mut expected: BTreeMap<u16, BTreeSet<String>> = BTreeMap::new();
            for key in keys.items().iter().map(Value::text) {
                expected.entry(slot_of(&mut client, &key)).or_default().insert(key);
            }
            for (slot, keys) in &expected {
                let slot = slot.to_string();
                let names = client.cmd(&["CLUSTER", "GETKEYSINSLOT", &slot, "5000"]);
                let names: BTreeSet<String> = names.items().iter().map(Value::text).collect();
                assert!(names.is_superset(keys), "round {round}: {keys:?}");
                let count = client.cmd(&["CLUSTER", "COUNTKEYSINSLOT", &slot]).int();
                assert_eq!(count, names.len() as i64, "round {round}");
                *counts.entry(slot).or_insert(0) += count;
            }
        }
        let stats = client.cmd(&["CLUSTER", "SLOT-STATS", "ORDERBY", "key-count", "LIMIT", "1"]);
        let stat = stats.items()[0].items()[1].field("key-count").map(Value::int);
        assert_eq!(stat, Some(counts.values().max().copied().unwrap_or(0)), "{stats}");
    }
}

#[test]
fn expired_keys_are_counted_until_they_are_removed() {
    let servers = both();
    if skip_without("expired keys", &servers, "valkey-server") {
        return;
    }
    let replies = servers.expect("not skipped").map(|server| {
        let mut client = server.client();
        serve(&mut client, &[(0, 16_383)]);
        client.ok(&["DEBUG", "SET-ACTIVE-EXPIRE", "0"]);
        client.ok(&["SET", "{t}1", "v", "PX", "1"]);
        client.ok(&["SET", "{t}2", "v"]);
        std::thread::sleep(std::time::Duration::from_millis(5));
        let lines = [
            "CLUSTER COUNTKEYSINSLOT 15891",
            "CLUSTER GETKEYSINSLOT 15891 0",
            "CLUSTER SLOT-STATS SLOTSRANGE 15891 15891",
            "GET {t}1",
            "CLUSTER COUNTKEYSINSLOT 15891",
            "CLUSTER GETKEYSINSLOT 15891 10",
        ];
        lines.map(|line| client.cmd(&line.split(' ').collect::<Vec<_>>()).to_string())
    });
    assert_eq!(replies[0], replies[1], "weft, then valkey");
}

/// The slots at the end of the line of CLUSTER NODES.
fn slots(client: &mut Client) -> String {
    let nodes = client.cmd(&["CLUSTER", "NODES"]).text();
    let after = nodes.split(" connected").nth(1);
    after.unwrap_or_default().trim().to_string()
}

#[test]
fn slots_with_keys_and_no_owner_are_taken_over_at_the_start() {
    let servers = both();
    if skip_without("slots without an owner", &servers, "valkey-server") {
        return;
    }
    let found = servers.expect("not skipped").map(|mut server| {
        let mut client = server.client();
        serve(&mut client, &[(0, 16_383)]);
        client.ok(&["MSET", "{t}1", "v", "{t}2", "v"]);
        (0..20).for_each(|n| client.ok(&["SET", &n.to_string(), "v"]));
        client.ok(&["SELECT", "1"]);
        client.ok(&["SET", "foo", "v"]);
        client.ok(&["SAVE"]);
        std::fs::remove_file(server.dir().join("nodes.conf")).expect("the file is there");
        server.restart();
        let mut client = server.client();
        let taken = slots(&mut client);
        wait_until_up(&mut client);
        assert_eq!(client.cmd(&["GET", "{t}1"]).text(), "v");
        server.restart();
        assert_eq!(slots(&mut server.client()), taken, "they are in the file");
        taken
    });
    assert_eq!(found[0], found[1], "weft, then valkey");
    assert!(found[0].contains("12182") && found[0].contains("15891"), "{}", found[0]);
}

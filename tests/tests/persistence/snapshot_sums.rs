//! Snapshots taken during writes are consistent: each is the content of one moment.
//!
//! | variable | meaning |
//! |---|---|
//! | `SNAPSHOT_RUNS` | number of snapshots, default 5 |
//! | `SNAPSHOT_SEED` | seed, default 1 |
//! | `SNAPSHOT_PEER` | `valkey`: takes snapshots of Valkey instead, to verify the test |
//! | `SNAPSHOT_THREADS` | I/O threads, default 4 |
//!
//! Clients make changes that keep invariants: the sum of accounts, the members of sets, the
//! elements of a rotated list, renamed keys, swapped databases, a database that is flushed and
//! refilled in one transaction. Another server loads the file of each snapshot, and the test checks
//! the invariants there.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use weft_testkit::rng::Rng;
use weft_testkit::{Client, Server, Value};

const ACCOUNTS: usize = 300;
const MEMBERS: usize = 600;
const SETS: usize = 12;
const NAMES: usize = 60;
const FIELDS: usize = 5_000;
const ELEMENTS: usize = 20_000;
const BATCH: usize = 150;

fn env_or(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().expect("a number"))
}

fn words(line: &str) -> Vec<String> {
    line.split(' ').map(String::from).collect()
}

fn all(client: &mut Client, lines: impl IntoIterator<Item = String>) {
    let commands: Vec<Vec<String>> = lines.into_iter().map(|line| words(&line)).collect();
    for part in commands.chunks(500) {
        for reply in client.pipeline(part).expect("the server answers") {
            // RENAMENX may draw an unused name.
            let refused = matches!(&reply.value, Value::Error(text) if text != b"ERR no such key");
            assert!(!refused, "{}", reply.value);
        }
    }
}

fn fill(client: &mut Client) {
    let mut lines: Vec<String> = (0..ACCOUNTS).map(|i| format!("SET account:{i} 1000")).collect();
    lines.extend((0..MEMBERS).map(|i| format!("SADD set:{} member:{i}", i % SETS)));
    // Every second name is used.
    lines.extend((0..NAMES).step_by(2).map(|i| format!("SET name:{i} thing:{i}")));
    lines.extend((0..FIELDS).map(|i| format!("HSET hash field:{i} 10")));
    lines.extend((0..FIELDS).map(|i| format!("ZADD zset 10 member:{i}")));
    lines.extend((0..ELEMENTS).map(|i| format!("RPUSH list element:{i}")));
    for db in [2, 3] {
        lines.push(format!("SELECT {db}"));
        lines.extend((0..200).map(|i| format!("SET key:{i} {db}")));
    }
    lines.push("SELECT 0".to_string());
    all(client, lines);
}

/// A random change that keeps all invariants.
fn change(rng: &mut Rng, nth: u64) -> Vec<String> {
    let mut below = |n: usize| rng.below(n);
    let in_exec = |lines: Vec<String>| {
        let begin = std::iter::once("MULTI".to_string());
        begin.chain(lines).chain(["EXEC".to_string()]).collect()
    };
    match below(20) {
        0..=4 => {
            let amount = below(50);
            in_exec(vec![
                format!("DECRBY account:{} {amount}", below(ACCOUNTS)),
                format!("INCRBY account:{} {amount}", below(ACCOUNTS)),
            ])
        }
        5..=7 => {
            let member = below(MEMBERS);
            vec![format!("SMOVE set:{} set:{} member:{member}", below(SETS), below(SETS))]
        }
        8 | 9 => vec![format!("RENAMENX name:{} name:{}", below(NAMES), below(NAMES))],
        10 | 11 => in_exec(vec![
            format!("HINCRBY hash field:{} -1", below(FIELDS)),
            format!("HINCRBY hash field:{} 1", below(FIELDS)),
        ]),
        12 | 13 => in_exec(vec![
            format!("ZINCRBY zset -1 member:{}", below(FIELDS)),
            format!("ZINCRBY zset 1 member:{}", below(FIELDS)),
        ]),
        14 | 15 => vec!["LMOVE list list LEFT RIGHT".to_string()],
        16 => {
            let pairs: Vec<String> = (0..4).map(|i| format!("same:{i} {nth}")).collect();
            vec![format!("MSET {}", pairs.join(" "))]
        }
        17 => in_exec(vec![format!("SET original {nth}"), "COPY original copy REPLACE".into()]),
        18 => match below(10) {
            0..=2 => vec!["SWAPDB 2 3".to_string()],
            3 => {
                let pairs: Vec<String> = (0..BATCH).map(|i| format!("batch:{i} {nth}")).collect();
                in_exec(vec![
                    "SELECT 4".into(),
                    "FLUSHDB".into(),
                    format!("MSET {}", pairs.join(" ")),
                    "SELECT 0".into(),
                ])
            }
            _ => vec![format!("SET mortal:{} {nth} PX 30", below(200))],
        },
        // A key that moves to another database and back.
        _ => in_exec(vec![
            "SET traveller 1".into(),
            "SELECT 5".into(),
            "DEL traveller".into(),
            "SELECT 0".into(),
            "MOVE traveller 5".into(),
        ]),
    }
}

fn write(port: u16, seed: u64, over: &AtomicBool) {
    let mut client = Client::tcp(port);
    let mut rng = Rng::new(seed);
    let mut nth = seed << 32;
    while !over.load(Ordering::Relaxed) {
        nth += 1;
        all(&mut client, change(&mut rng, nth));
    }
}

fn text(value: &Value) -> String {
    match value {
        Value::Bulk(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        Value::NullBulk | Value::Null => String::new(),
        other => panic!("{other}"),
    }
}

fn texts(client: &mut Client, line: &str) -> Vec<String> {
    match client.cmd(&words(line)) {
        Value::Array(values) => values.iter().map(text).collect(),
        other => panic!("{line}: {other}"),
    }
}

fn sum(numbers: impl IntoIterator<Item = String>) -> i64 {
    numbers.into_iter().map(|n| n.parse::<i64>().expect("a number")).sum()
}

/// Checks all invariants.
fn check(client: &mut Client) {
    let accounts: Vec<String> = (0..ACCOUNTS).map(|i| format!("account:{i}")).collect();
    let accounts = texts(client, &format!("MGET {}", accounts.join(" ")));
    assert_eq!(sum(accounts), 1000 * ACCOUNTS as i64, "the sum of the accounts");

    let mut members: Vec<String> =
        (0..SETS).flat_map(|i| texts(client, &format!("SMEMBERS set:{i}"))).collect();
    members.sort();
    let mut expected: Vec<String> = (0..MEMBERS).map(|i| format!("member:{i}")).collect();
    expected.sort();
    assert!(members == expected, "{} members of sets", members.len());

    let names: Vec<String> = (0..NAMES).map(|i| format!("name:{i}")).collect();
    let mut things = texts(client, &format!("MGET {}", names.join(" ")));
    things.retain(|thing| !thing.is_empty());
    things.sort();
    let mut expected: Vec<String> = (0..NAMES).step_by(2).map(|i| format!("thing:{i}")).collect();
    expected.sort();
    assert_eq!(things, expected, "named values");

    assert_eq!(sum(texts(client, "HVALS hash")), 10 * FIELDS as i64, "the sum of a hash");
    let scores = texts(client, "ZRANGE zset 0 -1 WITHSCORES");
    let scores = scores.chunks(2).map(|pair| pair[1].clone());
    assert_eq!(sum(scores), 10 * FIELDS as i64, "the sum of the scores");

    let list = texts(client, "LRANGE list 0 -1");
    let first: usize = list[0]["element:".len()..].parse().expect("a number");
    let turned = (0..ELEMENTS).map(|i| format!("element:{}", (first + i) % ELEMENTS));
    assert!(list.iter().cloned().eq(turned), "{} elements in another order", list.len());

    let same = texts(client, "MGET same:0 same:1 same:2 same:3");
    assert!(same.iter().all(|n| *n == same[0]), "a torn MSET: {same:?}");
    let copied = texts(client, "MGET original copy");
    assert_eq!(copied[0], copied[1], "a COPY without its transaction");

    let mut which = Vec::new();
    for db in ["2", "3"] {
        client.ok(&["SELECT", db]);
        let keys: Vec<String> = (0..200).map(|i| format!("key:{i}")).collect();
        let values = texts(client, &format!("MGET {}", keys.join(" ")));
        assert!(values.iter().all(|v| *v == values[0]), "a partly swapped database");
        which.push(values[0].clone());
    }
    which.sort();
    assert_eq!(which, ["2", "3"], "swapped databases");
    client.ok(&["SELECT", "4"]);
    let keys: Vec<String> = (0..BATCH).map(|i| format!("batch:{i}")).collect();
    let values = texts(client, &format!("MGET {}", keys.join(" ")));
    assert!(values.iter().all(|v| *v == values[0]), "a database that was flushed and refilled");
    let travellers = |client: &mut Client, db: &str| {
        client.ok(&["SELECT", db]);
        text(&client.cmd(&["GET", "traveller"]))
    };
    let both = (travellers(client, "0"), travellers(client, "5"));
    assert!(both.0.is_empty(), "a key that was moved away: {both:?}");
    client.ok(&["SELECT", "0"]);
}

fn field(client: &mut Client, name: &str) -> String {
    let info = text(&client.cmd(&["INFO", "persistence"]));
    let line = info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    line.unwrap_or_else(|| panic!("no {name} in {info}")).to_string()
}

fn save(client: &mut Client) {
    let reply = client.cmd(&["BGSAVE"]);
    assert_eq!(reply.to_string(), "+Background saving started");
    while field(client, "rdb_bgsave_in_progress") != "0" {
        std::thread::sleep(Duration::from_millis(2));
    }
    assert_eq!(field(client, "rdb_last_bgsave_status"), "ok");
}

fn start(args: &[&str]) -> Option<Server> {
    match std::env::var("SNAPSHOT_PEER").as_deref() {
        Ok("valkey") => Server::valkey(args),
        _ => Some(Server::weft(args)),
    }
}

#[test]
fn snapshot_is_consistent() {
    let threads = env_or("SNAPSHOT_THREADS", 4).to_string();
    let args = ["--save", "", "--io-threads", &threads];
    let Some(server) = start(&args) else { return };
    let Some(mut reader) = start(&["--save", ""]) else { return };
    let mut peer = Server::valkey(&["--save", ""]);
    let mut client = server.client();
    fill(&mut client);
    let over = AtomicBool::new(false);
    let (seed, runs) = (env_or("SNAPSHOT_SEED", 1), env_or("SNAPSHOT_RUNS", 5));
    std::thread::scope(|scope| {
        for n in 0..6 {
            let (port, over) = (server.port(), &over);
            scope.spawn(move || write(port, seed * 100 + n, over));
        }
        // Also when a check fails, or the writers would never end.
        let _end = SetOnDrop(&over);
        for run in 0..runs {
            save(&mut client);
            let readers = [Some(&mut reader), peer.as_mut().filter(|_| run % 10 == 0)];
            for reader in readers.into_iter().flatten() {
                reader.kill();
                let file = reader.dir().join("dump.rdb");
                std::fs::copy(server.dir().join("dump.rdb"), file).expect("a file was saved");
                reader.restart();
                reader.wait_until_loaded();
                check(&mut reader.client());
            }
        }
    });
    check(&mut client);
}

/// Ends the writers on drop.
struct SetOnDrop<'a>(&'a AtomicBool);

impl Drop for SetOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

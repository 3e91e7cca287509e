//! kill -9 at random moments: acknowledged writes survive, and no operation is torn.
//!
//! | variable | meaning |
//! |---|---|
//! | `KILLED_RUNS` | number of kills, default 6 |
//! | `KILLED_SEED` | seed of the first run, default 1 |
//! | `KILLED_PEER` | `valkey`: kills Valkey instead, to verify the test |
//!
//! Eight clients write, each to its own keys in several shards: MSET of four keys, a transaction on
//! three, RPUSH. Each operation writes its number, so every key shows the last operation that
//! survived. With `n` the last surviving operation of a client:
//!
//! * Atomicity: the keys of one operation agree, and lists hold every number once, in order.
//! * Prefix: every operation of the client up to `n` survives. If an operation survives, so does
//!   every operation of any client that was acknowledged before it began.
//! * `always`: every acknowledged operation survives. `everysec`: every one older than two seconds.

use std::time::{Duration, Instant};
use weft_testkit::rng::Rng;
use weft_testkit::{Client, Server, Value};

const CLIENTS: usize = 8;
const KINDS: usize = 3;

fn env_or(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().expect("a number"))
}

/// One operation and its times. `ended` is `None` if its reply never arrived.
#[derive(Clone, Copy)]
struct Operation {
    number: u64,
    kind: usize,
    began: Instant,
    ended: Option<Instant>,
}

/// The operations of a client, over all runs.
#[derive(Default)]
struct History {
    done: Vec<Operation>,
    next: u64,
}

fn text(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| word.to_string()).collect()
}

/// The commands of an operation. The reply to the last one acknowledges it.
fn commands(client: usize, kind: usize, number: u64) -> Vec<Vec<String>> {
    let n = number.to_string();
    let key = |what: &str| format!("{what}:{client}");
    match kind {
        0 => {
            let keys: Vec<String> = (0..4).map(|i| format!("m{i}:{client}")).collect();
            let pairs = keys.into_iter().flat_map(|key| [key, n.clone()]);
            vec![["MSET".to_string()].into_iter().chain(pairs).collect()]
        }
        1 => vec![
            text(&["MULTI"]),
            text(&["SET", &key("x"), &n]),
            text(&["RPUSH", &key("l"), &n]),
            text(&["INCR", &key("count")]),
            text(&["SET", &key("y"), &n]),
            text(&["EXEC"]),
        ],
        _ => vec![text(&["RPUSH", &key("r"), &n])],
    }
}

/// Writes until the server is gone.
fn write(port: u16, client: usize, history: &mut History, seed: u64) {
    let mut rng = Rng::new(seed ^ (client as u64) << 32);
    let Ok(mut connection) = Client::try_tcp(port) else { return };
    loop {
        history.next += 1;
        let (number, kind) = (history.next, rng.below(KINDS));
        let commands = commands(client, kind, number);
        let began = Instant::now();
        let replies = connection.pipeline(&commands);
        let ended = replies.is_ok().then(Instant::now);
        history.done.push(Operation { number, kind, began, ended });
        let Ok(replies) = replies else { return };
        for reply in replies {
            let refused = matches!(reply.value, Value::Error(_) | Value::NullArray);
            assert!(!refused, "client {client}: {}", reply.value);
        }
    }
}

fn number(value: &Value) -> u64 {
    match value {
        Value::Bulk(bytes) => std::str::from_utf8(bytes).expect("digits").parse().expect("digits"),
        Value::NullBulk | Value::Null => 0,
        other => panic!("{other}"),
    }
}

fn numbers(value: &Value) -> Vec<u64> {
    match value {
        Value::Array(all) => all.iter().map(number).collect(),
        other => panic!("{other}"),
    }
}

/// The last surviving number of each kind. Checks that no operation is torn.
fn found(connection: &mut Client, client: usize, history: &History) -> [u64; KINDS] {
    let key = |what: &str| format!("{what}:{client}");
    let mut get = |key: String| number(&connection.cmd(&["GET", &key]));
    let four: Vec<u64> = (0..4).map(|i| get(format!("m{i}:{client}"))).collect();
    assert!(four.iter().all(|n| *n == four[0]), "client {client}: a torn MSET: {four:?}");
    let (x, y, count) = (get(key("x")), get(key("y")), get(key("count")));
    assert_eq!(x, y, "client {client}: a torn transaction");
    let mut list = |what: &str| numbers(&connection.cmd(&["LRANGE", &key(what), "0", "-1"]));
    let of = |kind: usize, last: u64| -> Vec<u64> {
        let done = history.done.iter().filter(|d| d.kind == kind && d.number <= last);
        done.map(|d| d.number).collect()
    };
    let (in_exec, alone) = (list("l"), list("r"));
    assert_eq!(in_exec, of(1, x), "client {client}: elements pushed by transactions");
    assert_eq!(count, in_exec.len() as u64, "client {client}: counter of transactions");
    let last = alone.last().copied().unwrap_or(0);
    assert_eq!(alone, of(2, last), "client {client}: pushed elements");
    [four[0], x, last]
}

/// Checks the surviving operations after a kill, and forgets the lost ones for later runs.
fn check(
    connection: &mut Client,
    histories: &mut [History],
    must_survive: impl Fn(Instant) -> bool,
) {
    let mut first_lost: Vec<Operation> = Vec::new();
    let mut last_found: Vec<Operation> = Vec::new();
    for (client, history) in histories.iter_mut().enumerate() {
        let found = found(connection, client, history);
        let last = found.into_iter().max().expect("three kinds");
        for (kind, found) in found.into_iter().enumerate() {
            let due = history.done.iter().rev().find(|d| d.kind == kind && d.number <= last);
            let due = due.map_or(0, |d| d.number);
            assert_eq!(found, due, "client {client}: last operation {last}, last of kind {kind}");
        }
        for lost in history.done.iter().filter(|d| d.number > last) {
            let promised = lost.ended.is_some_and(&must_survive);
            assert!(
                !promised,
                "client {client}: {} was acknowledged; the last surviving one \
                                is {last}",
                lost.number
            );
        }
        first_lost.extend(history.done.iter().find(|d| d.number > last));
        history.done.retain(|d| d.number <= last);
        last_found.extend(history.done.last());
    }
    for lost in &first_lost {
        let after = |d: &&Operation| lost.ended.is_some_and(|ended| ended < d.began);
        let later = last_found.iter().find(after);
        assert!(later.is_none(), "an operation survived that began after the end of a lost one");
    }
}

fn start(args: &[&str]) -> Option<Server> {
    match std::env::var("KILLED_PEER").as_deref() {
        Ok("valkey") => Server::valkey(args),
        _ => Some(Server::weft(args)),
    }
}

/// Kills and restarts the server repeatedly. `load` is the range of milliseconds of writes before a
/// kill.
fn kill_repeatedly(
    policy: &str,
    load: (i64, i64),
    runs: u64,
    must_survive: impl Fn(Instant, Instant) -> bool,
) {
    let args = [
        "--appendonly",
        "yes",
        "--appendfsync",
        policy,
        "--save",
        "",
        "--io-threads",
        "4",
        // So that some kills happen during a rewrite.
        "--auto-aof-rewrite-min-size",
        "300kb",
        "--auto-aof-rewrite-percentage",
        "50",
    ];
    let Some(mut server) = start(&args) else { return };
    server.wait_until_loaded();
    let mut histories: Vec<History> = (0..CLIENTS).map(|_| History::default()).collect();
    let first = env_or("KILLED_SEED", 1);
    for seed in first..first + runs {
        println!("KILLED_SEED={seed}");
        let mut rng = Rng::new(seed);
        let port = server.port();
        let killed = std::thread::scope(|scope| {
            for (client, history) in histories.iter_mut().enumerate() {
                scope.spawn(move || write(port, client, history, seed));
            }
            std::thread::sleep(Duration::from_millis(rng.between(load.0, load.1) as u64));
            let killed = Instant::now();
            server.kill();
            killed
        });
        server.restart();
        server.wait_until_loaded();
        check(&mut server.client(), &mut histories, |ended| must_survive(ended, killed));
    }
    let written: u64 = histories.iter().map(|history| history.next).sum();
    println!("{policy}: killed {runs} times, {written} operations");
    assert!(written > runs, "the clients have written");
}

#[test]
fn writes_acknowledged_under_always_survive() {
    kill_repeatedly("always", (5, 300), env_or("KILLED_RUNS", 6), |_, _| true);
}

#[test]
fn everysec_loses_at_most_two_seconds() {
    let runs = (env_or("KILLED_RUNS", 6) / 6).max(1);
    kill_repeatedly("everysec", (200, 3500), runs, |ended, killed| {
        killed.saturating_duration_since(ended) > Duration::from_secs(2)
    });
}

//! A replica shows states that its primary had, with whole transactions only, and in order.
//!
//! Clients of the primary transfer amounts between accounts in different shards, each time in a
//! transaction. Some of these also increment a version: their replies, ordered by version, yield
//! the state at every version. The others touch only two accounts, so they can run in parallel, and
//! only the sum is known. Readers of the replica read everything in one transaction. The link is
//! cut repeatedly meanwhile.
//!
//! `REPLICA_SECONDS` sets the duration in seconds (default 4).

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use weft_testkit::rng::Rng;
use weft_testkit::{Client, Server, Value};
use weft_tests::env_or;
use weft_tests::replication::{wait_for_link, wait_until_caught_up};

const ACCOUNTS: usize = 12;
const EACH: i64 = 1000;
const WRITERS: u64 = 6;
const READERS: usize = 3;

type State = Vec<i64>;

fn account(n: usize) -> String {
    format!("account:{n}")
}

fn ints(value: &Value) -> Vec<i64> {
    let of = |value: &Value| match value {
        Value::Integer(n) => *n,
        Value::Bulk(text) => String::from_utf8_lossy(text).parse().expect("a number"),
        Value::NullBulk | Value::Null => 0,
        other => panic!("no number: {other}"),
    };
    match value {
        Value::Array(values) => values.iter().map(of).collect(),
        other => vec![of(other)],
    }
}

fn exec(client: &mut Client, commands: &[Vec<String>]) -> std::io::Result<Vec<Value>> {
    let mut all = vec![vec!["MULTI".to_string()]];
    all.extend(commands.iter().cloned());
    all.push(vec!["EXEC".into()]);
    let replies = client.pipeline(&all)?;
    match replies.into_iter().last().map(|reply| reply.value) {
        Some(Value::Array(values)) => Ok(values),
        other => panic!("EXEC answered {other:?}"),
    }
}

fn words(text: &str) -> Vec<String> {
    text.split(' ').map(String::from).collect()
}

/// Transfers with a version: the new values of the two accounts, by version.
fn counted(port: u16, seed: u64, over: &AtomicBool) -> BTreeMap<i64, [(usize, i64); 2]> {
    let (mut client, mut rng) = (Client::tcp(port), Rng::new(seed));
    let mut seen = BTreeMap::new();
    while !over.load(Ordering::SeqCst) {
        let (from, amount) = (rng.below(ACCOUNTS), rng.below(9));
        let to = (from + 1 + rng.below(ACCOUNTS - 1)) % ACCOUNTS;
        let commands = [
            words("INCR version"),
            words(&format!("DECRBY {} {amount}", account(from))),
            words(&format!("INCRBY {} {amount}", account(to))),
        ];
        let made = exec(&mut client, &commands).expect("the primary answers");
        let made: Vec<i64> = made.iter().flat_map(ints).collect();
        seen.insert(made[0], [(from, made[1]), (to, made[2])]);
    }
    seen
}

/// Transfers between the other accounts, without a version.
fn uncounted(port: u16, seed: u64, over: &AtomicBool) {
    let (mut client, mut rng) = (Client::tcp(port), Rng::new(seed));
    while !over.load(Ordering::SeqCst) {
        let (from, to) = (rng.below(ACCOUNTS), rng.below(ACCOUNTS));
        let commands = [
            words(&format!("DECRBY other:{from} 7")),
            words(&format!("RPUSH queue:{from} 7")),
            words(&format!("INCRBY other:{to} 7")),
            words(&format!("LPOP queue:{to}")),
        ];
        exec(&mut client, &commands).expect("the primary answers");
    }
}

/// Reads of the replica: the version, the accounts, and the sum of the other accounts.
fn read(port: u16, over: &AtomicBool) -> Vec<(i64, State, i64)> {
    let mut commands = vec![words("GET version")];
    commands.extend((0..ACCOUNTS).map(|n| words(&format!("GET {}", account(n)))));
    commands.extend((0..ACCOUNTS).map(|n| words(&format!("GET other:{n}"))));
    let (mut client, mut seen) = (Client::tcp(port), Vec::new());
    while !over.load(Ordering::SeqCst) {
        let values = exec(&mut client, &commands).expect("the replica answers");
        let values: Vec<i64> = values.iter().flat_map(ints).collect();
        let accounts = values[1..=ACCOUNTS].to_vec();
        seen.push((values[0], accounts, values[ACCOUNTS + 1..].iter().sum()));
    }
    seen
}

#[test]
fn replica_shows_states_of_its_primary_in_order() {
    let args = ["--save", "", "--repl-diskless-sync-delay", "0", "--io-threads", "2"];
    let (primary, replica) = (Server::weft(&args), Server::weft(&args));
    let mut client = primary.client();
    (0..ACCOUNTS).for_each(|n| client.ok(&["SET", &account(n), &EACH.to_string()]));
    let mut follower = replica.client();
    follower.ok(&["REPLICAOF", "127.0.0.1", &primary.port().to_string()]);
    wait_for_link(&mut follower);
    let (port, copy, over) = (primary.port(), replica.port(), AtomicBool::new(false));
    let (states, reads) = std::thread::scope(|scope| {
        let over = &over;
        let writers: Vec<_> =
            (0..WRITERS).map(|seed| scope.spawn(move || counted(port, seed, over))).collect();
        (0..2).for_each(|seed| drop(scope.spawn(move || uncounted(port, 100 + seed, over))));
        let readers: Vec<_> = (0..READERS).map(|_| scope.spawn(move || read(copy, over))).collect();
        let began = Instant::now();
        while began.elapsed() < Duration::from_secs(env_or("REPLICA_SECONDS", 4)) {
            std::thread::sleep(Duration::from_millis(300));
            client.cmd(&["CLIENT", "KILL", "TYPE", "replica"]);
        }
        over.store(true, Ordering::SeqCst);
        let made = writers.into_iter().flat_map(|writer| writer.join().expect("no panic"));
        let made: BTreeMap<i64, _> = made.collect();
        let reads: Vec<_> =
            readers.into_iter().map(|reader| reader.join().expect("no panic")).collect();
        (made, reads)
    });
    // All versions are known, each once, so the state at each is known.
    let mut known = BTreeMap::new();
    let mut state = vec![EACH; ACCOUNTS];
    known.insert(0, state.clone());
    for (at, (version, made)) in states.iter().enumerate() {
        assert_eq!(*version, at as i64 + 1, "versions are dense");
        made.iter().for_each(|(n, value)| state[*n] = *value);
        known.insert(*version, state.clone());
    }
    let mut versions = 0;
    for seen in &reads {
        let mut last = 0;
        for (version, accounts, others) in seen {
            assert!(*version >= last, "the replica went back from {last} to {version}");
            assert_eq!(
                Some(accounts),
                known.get(version),
                "not the state of the primary at {version}"
            );
            assert_eq!(*others, 0, "half of a transaction at {version}");
            versions += usize::from(*version != last);
            last = *version;
        }
    }
    assert!(versions > 100, "the replica showed {versions} states");
    eprintln!("{} versions, {versions} seen at the replica", states.len());
    wait_until_caught_up(&mut client, &mut follower);
    assert_eq!(follower.cmd(&["GET", "version"]), client.cmd(&["GET", "version"]));
}

//! A replica has what its primary writes: with links that are cut repeatedly, transactions seen as
//! a whole, and changes of roles during writes.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use weft_testkit::rng::Rng;
use weft_testkit::{Client, Server, skip_without};
use weft_tests::env_or;
use weft_tests::persistence::until;
use weft_tests::replication::{
    FakePrimary, NO_KEYS, info, replicate_from, wait_for_link, wait_for_same_data,
    wait_until_caught_up,
};

const DEBUG: [&str; 2] = ["--enable-debug-command", "yes"];
const WRITERS: usize = 8;

fn valkey(more: &[&str]) -> Option<Server> {
    let args = ["--save", "", "--repl-diskless-sync-delay", "0", "--repl-ping-replica-period", "1"];
    Server::valkey(&[&DEBUG[..], &args, more].concat())
}

fn weft(more: &[&str]) -> Server {
    Server::weft(&[&DEBUG[..], &["--save", ""], more].concat())
}

/// A writer: commands of all kinds until `ends`. Error replies are ignored.
fn write(mut client: Client, n: usize, ends: &AtomicBool) {
    let mut rng = Rng::new(n as u64);
    let account = |n: usize| format!("account{}", n % WRITERS);
    while !ends.load(Ordering::Relaxed) {
        let key = format!("key{}", rng.below(200));
        let (list, other) = (format!("list{}", rng.below(8)), format!("list{}", rng.below(8)));
        let hash = format!("hash{}", rng.below(20));
        let field = format!("field{}", rng.below(50));
        let number = rng.below(1000).to_string();
        let words: Vec<&str> = match rng.below(20) {
            0 => vec!["SET", &key, &number, "PX", if rng.percent(50) { "20" } else { "5000" }],
            1 => vec!["INCR", "counter"],
            2 => {
                for words in [
                    &["MULTI"][..],
                    &["DECRBY", &account(n), &number],
                    &["INCRBY", &account(n + 1), &number],
                    &["EXEC"],
                ] {
                    client.cmd(words);
                }
                continue;
            }
            3 => vec!["RPUSH", &list, &number, "x"],
            4 => vec!["BLPOP", &list, &other, "0.01"],
            5 => vec!["LMOVE", &list, &other, "LEFT", "RIGHT"],
            6 => vec!["XADD", "stream", "MAXLEN", "~", "300", "*", "field", &number],
            7 => vec!["HSET", &hash, &field, &number],
            8 => vec!["HPEXPIRE", &hash, "20", "FIELDS", "1", &field],
            9 => vec!["ZADD", &hash, &number, &field],
            10 => vec!["SADD", "set", &number, &field, &key],
            11 => vec!["SPOP", "set", "2"],
            12 => vec!["DEL", &key, &list],
            13 => vec!["SELECT", ["0", "1", "2"][rng.below(3)]],
            14 => vec!["EXPIRE", &key, if rng.percent(50) { "1" } else { "1000" }],
            15 => vec!["APPEND", &key, &number],
            16 => vec!["MSET", &key, "1", &other, "2", "key1", &number],
            17 => vec!["PUBLISH", "channel", &number],
            18 if rng.percent(5) => vec!["FLUSHDB"],
            18 => vec!["SWAPDB", "1", "2"],
            _ => vec!["ZUNIONSTORE", "union", "2", &hash, "hash1"],
        };
        client.cmd(&words);
    }
}

/// Reads all accounts in one transaction, in each database: their sum is always 0.
fn read(mut client: Client, ends: &AtomicBool) -> usize {
    let mut seen = 0;
    while !ends.load(Ordering::Relaxed) {
        for db in ["0", "1", "2"] {
            client.cmd(&["SELECT", db]);
            client.cmd(&["MULTI"]);
            for n in 0..WRITERS {
                client.cmd(&["GET", &format!("account{n}")]);
            }
            let found = client.cmd(&["EXEC"]);
            if found.error().is_some() {
                continue;
            }
            let of = |value: &weft_testkit::Value| {
                value.bytes().map_or(0, |_| value.text().parse::<i64>().expect("a number"))
            };
            let sum: i64 = found.items().iter().map(of).sum();
            assert_eq!(sum, 0, "half a transaction is seen: {found}");
            seen += 1;
        }
    }
    seen
}

fn seconds() -> Duration {
    Duration::from_secs(env_or("REPLICATION_SECONDS", 6))
}

#[test]
fn links_cut_repeatedly_lose_nothing() {
    let primary = valkey(&[]);
    if skip_without("links_cut_repeatedly_lose_nothing", &primary, "valkey-server") {
        return;
    }
    let (primary, replica) = (primary.expect("not skipped"), weft(&["--repl-timeout", "2"]));
    replicate_from(&replica, &primary.port().to_string());
    let (mut theirs, mut ours) = (primary.client(), replica.client());
    wait_for_link(&mut ours);
    let ends = AtomicBool::new(false);
    let begun = Instant::now();
    std::thread::scope(|scope| {
        for n in 0..WRITERS {
            let client = primary.client();
            let ends = &ends;
            scope.spawn(move || write(client, n, ends));
        }
        let client = replica.client();
        let reader = scope.spawn(|| read(client, &ends));
        let mut stopped = false;
        while begun.elapsed() < seconds() {
            std::thread::sleep(Duration::from_millis(300));
            theirs.cmd(&["CLIENT", "KILL", "TYPE", "replica"]);
            if !stopped && begun.elapsed() > seconds() / 2 {
                // Silence without an end of the connection.
                stopped = true;
                replica.signal(Signal::STOP);
                std::thread::sleep(Duration::from_millis(500));
                replica.signal(Signal::CONT);
            }
        }
        ends.store(true, Ordering::Relaxed);
        assert!(reader.join().expect("no panic") > 0, "no reads");
    });
    wait_until_caught_up(&mut theirs, &mut ours);
    wait_for_same_data(&mut theirs, &mut ours);
    let partial: u64 = info(&mut theirs, "sync_partial_ok").parse().expect("a number");
    assert!(partial >= 5, "{partial} continuations");
    assert_eq!(info(&mut theirs, "sync_full"), "1");
    assert_eq!(info(&mut ours, "unexpected_error_replies"), "0");
}

/// A replica promoted during writes has a prefix of them, and then its own writes.
#[test]
fn promotion_during_writes_keeps_a_prefix() {
    let primary = valkey(&[]);
    if skip_without("promotion_during_writes_keeps_a_prefix", &primary, "valkey-server") {
        return;
    }
    let (primary, replica) = (primary.expect("not skipped"), weft(&[]));
    replicate_from(&replica, &primary.port().to_string());
    let (mut theirs, mut ours) = (primary.client(), replica.client());
    wait_for_link(&mut ours);
    let ends = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let client = primary.client();
        let ends = &ends;
        scope.spawn(move || {
            let mut client = client;
            for n in 0u64.. {
                if ends.load(Ordering::Relaxed) {
                    break;
                }
                let n = n.to_string();
                for words in [&["MULTI"][..], &["SET", "a", &n], &["SET", "b", &n], &["EXEC"]] {
                    client.cmd(words);
                }
            }
        });
        for round in 0..10 {
            until("writes", || !ours.cmd(&["GET", "a"]).is_null());
            let id = info(&mut ours, "master_replid");
            ours.ok(&["REPLICAOF", "NO", "ONE"]);
            let get = |client: &mut Client, key: &str| client.cmd(&["GET", key]).text();
            let (a, b) = (get(&mut ours, "a"), get(&mut ours, "b"));
            assert_eq!(a, b, "round {round}");
            std::thread::sleep(Duration::from_millis(20));
            assert_eq!(
                (get(&mut ours, "a"), get(&mut ours, "b")),
                (a, b),
                "no writes after the promotion"
            );
            assert_eq!(info(&mut ours, "role"), "master");
            assert_eq!(info(&mut ours, "master_replid2"), id);
            ours.ok(&["SET", "own", "1"]);
            replicate_from(&replica, &primary.port().to_string());
            until("the link", || info(&mut ours, "master_link_status") == "up");
        }
        ends.store(true, Ordering::Relaxed);
    });
    wait_until_caught_up(&mut theirs, &mut ours);
    wait_for_same_data(&mut theirs, &mut ours);
}

/// From one primary to another and back: with other data by a full sync, with the same data by a
/// partial sync.
#[test]
fn replica_may_change_its_primary() {
    let (one, two) = (valkey(&[]), valkey(&[]));
    if skip_without("replica_may_change_its_primary", &one, "valkey-server") {
        return;
    }
    let (one, two) = (one.expect("not skipped"), two.expect("not skipped"));
    let replica = weft(&[]);
    let mut ours = replica.client();
    for (n, primary) in [&one, &two, &one].into_iter().enumerate() {
        let mut theirs = primary.client();
        theirs.ok(&["SET", "which", &format!("{n}")]);
        replicate_from(&replica, &primary.port().to_string());
        wait_until_caught_up(&mut theirs, &mut ours);
        wait_for_same_data(&mut theirs, &mut ours);
        assert_eq!(ours.cmd(&["GET", "which"]).text(), n.to_string());
    }
    // The second server replicates from the first, so a promotion keeps the shared history.
    let (mut first, mut second) = (one.client(), two.client());
    replicate_from(&two, &one.port().to_string());
    wait_until_caught_up(&mut first, &mut second);
    wait_until_caught_up(&mut first, &mut ours);
    second.ok(&["REPLICAOF", "NO", "ONE"]);
    second.ok(&["SET", "promoted", "1"]);
    let before = info(&mut second, "sync_full");
    replicate_from(&replica, &two.port().to_string());
    wait_until_caught_up(&mut second, &mut ours);
    wait_for_same_data(&mut second, &mut ours);
    assert_eq!(info(&mut second, "sync_full"), before, "a partial sync");
    assert_eq!(info(&mut ours, "master_replid"), info(&mut second, "master_replid"));
}

/// Units of a stream: exactly the applied units are acknowledged.
#[test]
#[ignore = "long: cargo xtask test --all"]
fn only_applied_units_are_acknowledged() {
    let fake = FakePrimary::new();
    let replica = weft(&[]);
    let mut client = replica.client();
    replicate_from(&replica, &fake.port());
    let mut link = fake.copy(NO_KEYS, 100);
    link.wait_for_ack(100);
    let mut at = 100;
    at += link.write(&["SELECT", "2"]) + link.write(&["SET", "a", "1"]) + link.write(&["PING"]);
    link.wait_for_ack(at);
    // Half a transaction is not applied.
    let mut half = 0;
    for words in [&["MULTI"][..], &["SET", "a", "2"], &["SELECT", "3"], &["LPUSH", "l", "x", "y"]] {
        half += link.write(words);
    }
    let ask = ["REPLCONF", "ACK"];
    assert_eq!(link.request()[..2], ask);
    client.ok(&["SELECT", "2"]);
    assert_eq!(client.cmd(&["GET", "a"]).text(), "1");
    at += half + link.write(&["EXEC"]);
    link.wait_for_ack(at);
    assert_eq!(client.cmd(&["GET", "a"]).text(), "2");
    client.ok(&["SELECT", "3"]);
    assert_eq!(client.cmd(&["LLEN", "l"]).int(), 2);
    // Commands that fail are counted, and the next ones are applied.
    for words in [
        &["HSET", "l", "f", "v"][..],
        &["NOSUCH", "word"],
        &["SET", "few"],
        &["FUNCTION", "LOAD", "x"],
        &["SET", "good", "1"],
    ] {
        at += link.write(words);
    }
    link.wait_for_ack(at);
    assert_eq!(client.cmd(&["GET", "good"]).text(), "1");
    assert_eq!(info(&mut client, "unexpected_error_replies"), "4");
    // These commands stop the world.
    for words in [&["SWAPDB", "3", "4"][..], &["SELECT", "5"], &["SET", "five", "5"]] {
        at += link.write(words);
    }
    for words in [&["MULTI"][..], &["FLUSHDB"], &["SET", "only", "1"], &["EXEC"]] {
        at += link.write(words);
    }
    link.wait_for_ack(at);
    client.ok(&["SELECT", "4"]);
    assert_eq!(client.cmd(&["GET", "good"]).text(), "1");
    client.ok(&["SELECT", "5"]);
    assert_eq!(client.cmd(&["KEYS", "*"]).items().len(), 1);
    // A unit of very many commands, and one with a large value.
    at += link.write(&["MULTI"]);
    for n in 0..3000 {
        at += link.write(&["RPUSH", &format!("list{}", n % 50), &n.to_string()]);
    }
    at += link.write(&["EXEC"]) + link.write(&["SET", "large", &"x".repeat(3 << 20)]);
    // The acknowledged offset includes the GETACK.
    at += link.write(&["REPLCONF", "GETACK", "*"]);
    link.wait_for_ack(at);
    assert_eq!(client.cmd(&["STRLEN", "large"]).int(), 3 << 20);
    assert_eq!(client.cmd(&["LLEN", "list7"]).int(), 60);
    // A link ends in the middle of a unit: the replica requests it again.
    link.write(&["MULTI"]);
    link.write(&["SET", "torn", "1"]);
    drop(link);
    let (mut link, words) = fake.handshake();
    assert_eq!(words[2], (at + 1).to_string());
    link.raw(b"+CONTINUE\r\n");
    link.wait_for_ack(at);
    assert!(client.cmd(&["GET", "torn"]).is_null());
    // No SELECT is sent again.
    at += link.write(&["SET", "six", "6"]);
    link.wait_for_ack(at);
    assert_eq!(client.cmd(&["GET", "six"]).text(), "6");
}

/// Clients of the replica that wait for keys, watch them or subscribe notice writes of the primary.
#[test]
fn clients_of_a_replica_notice_writes_of_the_primary() {
    let fake = FakePrimary::new();
    let replica = weft(&["--notify-keyspace-events", "KEA"]);
    let [mut client, mut reader, mut listener, mut watcher] =
        std::array::from_fn(|_| replica.client());
    replicate_from(&replica, &fake.port());
    let mut link = fake.copy(NO_KEYS, 0);
    link.wait_for_ack(0);
    link.write(&["SELECT", "0"]);
    listener.cmd(&["SUBSCRIBE", "news"]);
    listener.cmd(&["PSUBSCRIBE", "__keyevent@0__:*"]);
    reader.send_raw(b"XREAD BLOCK 0 STREAMS s $\r\n").expect("sent");
    until("a waiting client", || info(&mut client, "blocked_clients") == "1");
    link.write(&["SET", "w", "1"]);
    until("the write", || !client.cmd(&["GET", "w"]).is_null());
    watcher.ok(&["WATCH", "w"]);
    watcher.ok(&["MULTI"]);
    watcher.cmd(&["GET", "w"]);
    link.write(&["SET", "w", "2"]);
    link.write(&["XADD", "s", "1-1", "f", "v"]);
    link.write(&["PUBLISH", "news", "hello"]);
    assert!(reader.read_reply().expect("served").value.to_string().contains("1-1"));
    assert!(watcher.cmd(&["EXEC"]).is_null());
    let heard: Vec<String> =
        (0..4).map(|_| listener.read_frame().expect("a message").value.to_string()).collect();
    for wanted in ["set", "xadd", "hello"] {
        assert!(heard.iter().any(|heard| heard.contains(wanted)), "{wanted}: {heard:?}");
    }
}

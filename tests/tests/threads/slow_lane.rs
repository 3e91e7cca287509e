//! Long commands run in the slow lane: replies keep their order, commands are atomic, and they end
//! with their client.

use std::sync::atomic::{AtomicBool, Ordering};
use weft_testkit::{Client, Server};
use weft_tests::scene::slow_lane_cpu;

fn fill(client: &mut Client, prefix: &str, n: usize) {
    let batch: Vec<Vec<String>> =
        (0..n).map(|i| vec!["SET".into(), format!("{prefix}{i}"), "v".into()]).collect();
    for part in batch.chunks(1000) {
        client.pipeline(part).expect("the server answers");
    }
}

#[test]
fn replies_keep_their_order_around_long_commands() {
    let server = Server::weft(&["--io-threads", "2", "--io-threads-always-active", "yes"]);
    let mut client = server.client();
    fill(&mut client, "k", 20_000);
    let batch: Vec<Vec<&str>> = vec![
        vec!["PING"],
        vec!["KEYS", "k1999?"],
        vec!["SET", "after", "1"],
        vec!["KEYS", "after"],
        vec!["GET", "after"],
    ];
    let replies = client.pipeline(&batch).expect("the server answers");
    let texts: Vec<String> = replies.iter().map(|r| r.value.text()).take(1).collect();
    assert_eq!(texts, ["PONG"]);
    assert_eq!(replies[1].value.items().len(), 10);
    assert!(replies[2].value.is_ok());
    assert_eq!(replies[3].value.items()[0].text(), "after");
    assert_eq!(replies[4].value.text(), "1");
}

/// KEYS returns the keys of one moment: a key is renamed back and forth between two shards, and
/// KEYS must see exactly one of its names.
#[test]
fn keys_returns_the_keys_of_one_moment() {
    let server = Server::weft(&["--io-threads", "4", "--io-threads-always-active", "yes"]);
    let mut client = server.client();
    fill(&mut client, "filler", 30_000);
    client.ok(&["SET", "moving:a", "1"]);
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..1 {
            scope.spawn(|| {
                let mut mover = server.client();
                let (mut from, mut to) = ("moving:a", "moving:b");
                while !done.load(Ordering::Relaxed) {
                    mover.ok(&["RENAME", from, to]);
                    std::mem::swap(&mut from, &mut to);
                }
            });
        }
        // New keys are created in pairs; neither exists without the other.
        scope.spawn(|| {
            let mut maker = server.client();
            let mut n = 0;
            while !done.load(Ordering::Relaxed) {
                n += 1;
                let (a, b) = (format!("pair:{n}:x"), format!("pair:{n}:yy"));
                maker.ok(&["MSET", &a, "1", &b, "1"]);
                if n % 2 == 0 {
                    assert_eq!(maker.cmd(&["DEL", &a, &b]).int(), 2);
                }
            }
        });
        for _ in 0..30 {
            let moving = client.cmd(&["KEYS", "moving:*"]);
            assert_eq!(moving.items().len(), 1, "{moving:?}");
            let pairs = client.cmd(&["KEYS", "pair:*"]);
            assert_eq!(pairs.items().len() % 2, 0, "half a pair");
        }
        done.store(true, Ordering::Relaxed);
    });
    let all = client.cmd(&["KEYS", "*"]).items().len() as i64;
    assert_eq!(all, client.cmd(&["DBSIZE"]).int());
}

#[test]
fn other_clients_are_served_during_keys_and_flushall_waits() {
    let server = Server::weft(&["--io-threads", "1"]);
    let mut client = server.client();
    fill(&mut client, "k", 200_000);
    let mut other = server.client();
    client.send_raw(&weft_testkit::client::encode(&["KEYS", "*"])).unwrap();
    // With a single thread busy in KEYS, these replies would come after it. FLUSHALL waits for the
    // shard being listed.
    let mut flusher = server.client();
    flusher.send_raw(&weft_testkit::client::encode(&["FLUSHALL"])).unwrap();
    assert_eq!(other.cmd(&["PING"]).text(), "PONG");
    assert_eq!(client.read_reply().unwrap().value.items().len() % 200_000, 0);
    assert!(flusher.read_reply().unwrap().value.is_ok());
    assert_eq!(other.cmd(&["DBSIZE"]).int(), 0);
}

#[test]
fn long_command_ends_with_its_client() {
    let mut server = Server::weft(&["--io-threads", "2", "--io-threads-always-active", "yes"]);
    let mut client = server.client();
    fill(&mut client, "k", 100_000);
    for _ in 0..20 {
        let mut gone = server.client();
        gone.send_raw(&weft_testkit::client::encode(&["KEYS", "*"])).unwrap();
        drop(gone);
    }
    assert_eq!(client.cmd(&["KEYS", "k77777"]).items().len(), 1);
    assert!(server.is_alive());
}

/// A server with a set so large that a transaction on it is long.
fn with_large_set(threads: &str) -> Server {
    let server = Server::weft(&["--io-threads", threads, "--io-threads-always-active", "yes"]);
    let mut client = server.client();
    for part in 0..100 {
        let members: Vec<String> = (0..1000).map(|n| format!("m{}", part * 1000 + n)).collect();
        let add = ["SADD", "large"].into_iter().chain(members.iter().map(|m| &m[..]));
        client.cmd(&add.collect::<Vec<_>>());
    }
    server
}

#[test]
fn long_transactions_run_in_the_slow_lane() {
    let server = with_large_set("1");
    let mut client = server.client();
    let batch: Vec<Vec<&str>> = vec![
        vec!["MULTI"],
        vec!["SMEMBERS", "large"],
        vec!["INCR", "n"],
        vec!["EXEC"],
        vec!["GET", "n"],
        vec!["PING"],
    ];
    let before = slow_lane_cpu(&server);
    for n in 1..=30i64 {
        let replies = client.pipeline(&batch).expect("the server answers");
        let texts: Vec<String> = replies[..3].iter().map(|r| r.value.text()).collect();
        assert_eq!(texts, ["OK", "QUEUED", "QUEUED"]);
        let exec = replies[3].value.items();
        assert_eq!((exec[0].items().len(), exec[1].int()), (100_000, n));
        assert_eq!(replies[4].value.text(), n.to_string());
        assert_eq!(replies[5].value.text(), "PONG");
    }
    // The replies had three million members in total.
    assert!(slow_lane_cpu(&server) > before, "the transactions ran in the slow lane");
}

#[test]
fn long_transactions_are_atomic_and_check_their_watches() {
    let server = with_large_set("4");
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut writer = server.client();
            let mut n = 0;
            while !done.load(Ordering::Relaxed) {
                n += 1;
                let value = n.to_string();
                writer.ok(&["MULTI"]);
                writer.cmd(&["SET", "a", &value]);
                writer.cmd(&["SET", "other", &value]);
                writer.cmd(&["EXEC"]);
            }
        });
        let mut reader = server.client();
        let (mut broken, mut kept) = (0, 0);
        for round in 0..60 {
            let watched = if round % 2 == 0 { "a" } else { "large" };
            reader.ok(&["WATCH", watched]);
            reader.ok(&["MULTI"]);
            for queued in [&["GET", "a"][..], &["SMEMBERS", "large"], &["GET", "other"]] {
                assert_eq!(reader.cmd(queued).text(), "QUEUED");
            }
            let exec = reader.cmd(&["EXEC"]);
            if exec.is_null() {
                broken += 1;
                assert_eq!(watched, "a", "only a is written");
                continue;
            }
            kept += 1;
            assert_eq!(exec.items()[0], exec.items()[2]);
            assert_eq!(exec.items()[1].items().len(), 100_000);
        }
        assert!(kept >= 30 && broken > 0, "{kept} ran, {broken} did not");
        done.store(true, Ordering::Relaxed);
        // No state of the transaction is left in the connection.
        assert_ne!(reader.cmd(&["GET", "a"]).text(), "QUEUED");
    });
}

#[test]
fn client_may_disconnect_during_a_long_transaction() {
    let mut server = with_large_set("2");
    for _ in 0..30 {
        let mut gone = server.client();
        let batch: [&[&str]; 4] = [&["MULTI"], &["SMEMBERS", "large"], &["INCR", "n"], &["EXEC"]];
        for request in batch {
            gone.send_raw(&weft_testkit::client::encode(request)).unwrap();
        }
        drop(gone);
    }
    let mut client = server.client();
    assert_eq!(client.cmd(&["SCARD", "large"]).int(), 100_000);
    assert!(server.is_alive());
}

fn field(client: &mut Client, section: &str, name: &str) -> u64 {
    let text = client.cmd(&["INFO", section]).text();
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    line.expect(name).trim().parse().expect("a number")
}

/// Commands that may end early, and do, stay on their I/O thread. Others move to the slow lane once
/// they have used up their budget, and start again without any visible effect of the first attempt.
#[test]
fn commands_that_end_early_stay_on_their_thread_and_others_restart() {
    let server = Server::weft(&[
        "--io-threads",
        "1",
        "--maxmemory-policy",
        "allkeys-lfu",
        "--lfu-log-factor",
        "0",
        "--enable-debug-command",
        "yes",
    ]);
    let mut client = server.client();
    for part in 0..50 {
        let words = (0..1000).map(|n| format!("e{}", part * 1000 + n));
        let push: Vec<String> = ["RPUSH".into(), "list".into()].into_iter().chain(words).collect();
        client.cmd(&push.iter().map(String::as_str).collect::<Vec<_>>());
    }
    client.ok(&["DEBUG", "PAUSE-SLOW-LANE", "1"]);
    assert_eq!(client.cmd(&["LPOS", "list", "e5"]).int(), 5);
    assert_eq!(client.cmd(&["LPOS", "list", "e49990", "RANK", "-1"]).int(), 49_990);
    assert_eq!(client.cmd(&["LINSERT", "list", "BEFORE", "e5", "new"]).int(), 50_001);
    assert_eq!(client.cmd(&["LREM", "list", "1", "new"]).int(), 1);
    assert_eq!(
        client.cmd(&["SORT", "list", "BY", "nosort", "LIMIT", "40000", "3"]).items().len(),
        3
    );
    assert_eq!(field(&mut client, "threads", "slow_lane_jobs"), 0);

    let mut other = server.client();
    let hits = field(&mut client, "stats", "keyspace_hits");
    let calls = field(&mut client, "stats", "total_commands_processed");
    let frequency = client.cmd(&["OBJECT", "FREQ", "list"]).int();
    other
        .send_raw(&weft_testkit::client::encode(&["LPOS", "list", "none"]))
        .expect("the server reads");
    while field(&mut client, "threads", "slow_lane_jobs") == 0 {}
    let asked = field(&mut client, "stats", "total_commands_processed") - calls;
    client.ok(&["DEBUG", "PAUSE-SLOW-LANE", "0"]);
    assert!(other.read_reply().expect("a reply").value.is_null());
    // OBJECT counts a hit of its own.
    assert_eq!(field(&mut client, "stats", "keyspace_hits") - hits, 2);
    let now = client.cmd(&["OBJECT", "FREQ", "list"]).int();
    assert_eq!(now - frequency, 1, "one access");
    // DEBUG, LPOS, INFO, OBJECT and the first of these two INFOs.
    let counted = field(&mut client, "stats", "total_commands_processed") - calls;
    assert_eq!(counted, asked + 5);
}

/// A transaction is judged by the arguments of its commands, not by the size of their keys.
#[test]
fn transactions_with_little_work_stay_on_their_thread() {
    let server = Server::weft(&["--io-threads", "1", "--enable-debug-command", "yes"]);
    let mut client = server.client();
    let words = (0..20_000).map(|n| format!("e{n}"));
    let push: Vec<String> = ["RPUSH".into(), "list".into()].into_iter().chain(words).collect();
    client.cmd(&push.iter().map(String::as_str).collect::<Vec<_>>());
    client.ok(&["DEBUG", "PAUSE-SLOW-LANE", "1"]);
    client.ok(&["MULTI"]);
    for line in [&["LRANGE", "list", "0", "9"][..], &["LINDEX", "list", "-1"]] {
        assert_eq!(client.cmd(line).text(), "QUEUED");
    }
    let replies = client.cmd(&["EXEC"]);
    assert_eq!(replies.items()[0].items().len(), 10);
    assert_eq!(replies.items()[1].text(), "e19999");
    client.ok(&["DEBUG", "PAUSE-SLOW-LANE", "0"]);
}

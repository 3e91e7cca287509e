//! Blocked consumers of a group: which consumer gets which entries, and their replies when the
//! group is gone.
//!
//! | variable | meaning |
//! |---|---|
//! | `GROUPS_CLIENTS` | waiting clients of the large test, default 60 |
//! | `GROUPS_STREAMS` | streams of it, default 10 |
//! | `GROUPS_WRITERS` | clients that add, default 5 |
//! | `GROUPS_ENTRIES` | entries that they add, default 5,000 |

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use weft_testkit::{Client, Server, Value, skip_without};
use weft_tests::env_or;

/// All threads serve connections, as under load.
const THREADS: [&str; 4] = ["--io-threads", "4", "--io-threads-always-active", "yes"];

fn send(client: &mut Client, line: &str) {
    let words: Vec<&str> = line.split(' ').collect();
    client.send_raw(&weft_testkit::client::encode(&words)).expect("the server reads");
}

fn ask(client: &mut Client, line: &str) -> Value {
    client.cmd(&line.split(' ').collect::<Vec<_>>())
}

/// Waits until exactly `n` clients are blocked.
fn until_blocked(client: &mut Client, n: usize) {
    let wanted = format!("blocked_clients:{n}\r\n");
    for _ in 0..2000 {
        if client.cmd(&["INFO", "clients"]).text().contains(&wanted) {
            return;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    panic!("timed out: {n} blocked clients: {}", client.cmd(&["INFO", "clients"]).text());
}

fn reply(client: &mut Client) -> String {
    format!("{}", client.read_reply().expect("the server answers").value)
}

/// Events that end the wait for `s`, with a name for each.
const ENDS: &[(&str, &[&str])] = &[
    ("one entry", &["XADD s 9-1 a b"]),
    ("one entry, and more", &["MULTI", "XADD s 9-1 a b", "XADD s 9-2 c d", "EXEC"]),
    (
        "an entry deleted at once",
        &["MULTI", "XADD s 9-1 a b", "XDEL s 9-1", "EXEC", "XADD s 9-2 c d"],
    ),
    ("the group is destroyed", &["XGROUP DESTROY s g"]),
    (
        "another group is destroyed",
        &["XGROUP CREATE s h 0", "XGROUP DESTROY s h", "XADD s 9-1 a b"],
    ),
    ("the group is destroyed and created again", &["XGROUP DESTROY s g", "XGROUP CREATE s g 0"]),
    (
        "the group is replaced in one step",
        &["MULTI", "XGROUP DESTROY s g", "XGROUP CREATE s g 0", "EXEC", "XADD s 9-1 a b"],
    ),
    (
        "the group is reset to the beginning",
        &["XADD s 3-1 x y", "XGROUP SETID s g 0", "XADD s 9-1 a b"],
    ),
    ("its consumer is deleted", &["XGROUP DELCONSUMER s g c", "XADD s 9-1 a b"]),
    ("the key is deleted", &["DEL s"]),
    ("the key is unlinked", &["UNLINK s"]),
    ("the key is renamed", &["RENAME s t"]),
    ("the key is overwritten", &["SET s x"]),
    ("another type in one step", &["MULTI", "DEL s", "SADD s m", "EXEC"]),
    ("another stream", &["MULTI", "DEL s", "XADD s 9-1 a b", "EXEC"]),
    (
        "another stream with the group",
        &["MULTI", "DEL s", "XADD s 9-1 a b", "XGROUP CREATE s g 0", "EXEC"],
    ),
    ("another stream by RENAME", &["XADD t 7-1 a b", "RENAME t s"]),
    ("the database is flushed", &["FLUSHDB"]),
    ("all databases are flushed", &["FLUSHALL"]),
    ("the databases are swapped", &["SWAPDB 0 1"]),
    ("swapped with a string", &["SELECT 1", "SET s x", "SELECT 0", "SWAPDB 0 1"]),
    ("swapped with a copy", &["COPY s s DB 1", "SWAPDB 0 1", "XADD s 9-1 a b"]),
    ("the key expires", &["PEXPIRE s 10"]),
    ("the expiry is in the past", &["PEXPIRE s -1"]),
    ("the key is moved", &["MOVE s 1"]),
    ("SORT overwrites the key", &["RPUSH l 1 2", "SORT l STORE s"]),
];

/// The replies to the blocked client, for every case in both protocols.
fn replies(server: &Server) -> Vec<String> {
    let mut replies = Vec::new();
    for (case, commands) in ENDS {
        for protocol in [2, 3] {
            let (mut maker, mut waiter) = (server.client(), server.client());
            waiter.hello(protocol);
            ask(&mut maker, "FLUSHALL");
            ask(&mut maker, "XGROUP CREATE s g 0 MKSTREAM");
            send(&mut waiter, "XREADGROUP GROUP g c BLOCK 0 STREAMS s >");
            until_blocked(&mut maker, 1);
            for command in *commands {
                let done = ask(&mut maker, command);
                assert_eq!(done.error(), None, "{case}: {command}");
            }
            let reply = reply(&mut waiter);
            let pending_then = ask(&mut maker, "XPENDING s g");
            replies.push(format!("{case}, RESP{protocol}: {reply}, pending then {pending_then}"));
        }
    }
    replies
}

#[test]
fn blocked_consumers_get_the_same_replies_as_from_the_reference() {
    let reference = Server::valkey(&[]);
    if skip_without("stream_groups", &reference, "valkey-server") {
        return;
    }
    let expected = replies(&reference.expect("not skipped"));
    assert!(expected.iter().any(|line| line.contains("NOGROUP")));
    assert!(expected.iter().any(|line| line.contains("WRONGTYPE")));
    for (got, expected) in replies(&Server::weft(&THREADS)).iter().zip(&expected) {
        assert_eq!(got, expected);
    }
}

#[test]
fn consumers_are_served_in_order_of_arrival_in_each_group() {
    let server = Server::weft(&THREADS);
    let mut maker = server.client();
    for group in ["g", "h"] {
        ask(&mut maker, &format!("XGROUP CREATE s {group} 0 MKSTREAM"));
    }
    let mut waiters = Vec::new();
    for n in 0..8 {
        let mut waiter = server.client();
        let group = if n % 2 == 0 { "g" } else { "h" };
        send(
            &mut waiter,
            &format!("XREADGROUP GROUP {group} c{n} COUNT 1 BLOCK 0 STREAMS s other >"),
        );
        assert!(reply(&mut waiter).contains("Unbalanced"));
        send(&mut waiter, &format!("XREADGROUP GROUP {group} c{n} COUNT 1 BLOCK 0 STREAMS s >"));
        until_blocked(&mut maker, n + 1);
        waiters.push(waiter);
    }
    for n in 0..4 {
        ask(&mut maker, &format!("XADD s {}-1 f v", n + 1));
        for group in 0..2 {
            let reply = reply(&mut waiters[2 * n + group]);
            assert!(reply.contains(&format!("{}-1", n + 1)), "{reply}");
        }
    }
    for (n, group) in ["g", "h"].iter().enumerate() {
        let pending = ask(&mut maker, &format!("XPENDING s {group} - + 10"));
        let owners: Vec<String> =
            pending.items().iter().map(|entry| entry.items()[1].text()).collect();
        assert_eq!(owners, [0, 2, 4, 6].map(|c| format!("c{}", c + n)));
    }
}

/// A read of the consumer's pending entries never blocks, even if there are none.
#[test]
fn reading_pending_entries_never_blocks() {
    let server = Server::weft(&THREADS);
    let mut client = server.client();
    ask(&mut client, "XGROUP CREATE s g 0 MKSTREAM");
    ask(&mut client, "XGROUP CREATE t g 0 MKSTREAM");
    let empty = ask(&mut client, "XREADGROUP GROUP g c BLOCK 0 STREAMS s t 0 >");
    assert_eq!(empty.items().len(), 1, "{empty}");
    assert!(ask(&mut client, "XREADGROUP GROUP g c BLOCK 1 STREAMS s t > >").is_null());
}

/// Streams in different shards, written one by one: a client that waits for all of them gets the
/// entries of each.
#[test]
fn consumer_may_wait_for_streams_in_several_shards() {
    let server = Server::weft(&THREADS);
    let (mut maker, mut waiter) = (server.client(), server.client());
    for key in ["s", "t", "u"] {
        ask(&mut maker, &format!("XGROUP CREATE {key} g 0 MKSTREAM"));
    }
    for n in 1..100 {
        send(&mut waiter, "XREADGROUP GROUP g c BLOCK 0 STREAMS s t u > > >");
        if n % 3 == 0 {
            until_blocked(&mut maker, 1);
        }
        let key = ["s", "t", "u"][n % 3];
        ask(&mut maker, &format!("XADD {key} {n}-1 f v"));
        let reply = reply(&mut waiter);
        assert!(reply.contains(&format!("{n}-1")) && reply.contains(key), "{reply}");
    }
    send(&mut waiter, "XREADGROUP GROUP g c BLOCK 0 STREAMS s t u > > >");
    until_blocked(&mut maker, 1);
    ask(&mut maker, "XGROUP DESTROY t g");
    let reply = reply(&mut waiter);
    assert!(reply.contains("NOGROUP No such key 't' or consumer group 'g'"), "{reply}");
}

/// The stream and id of the entries that one client of the large test got.
type Delivered = Vec<(String, String)>;

/// Reads until all clients together have got `all` entries.
fn consume(server: &Server, n: usize, streams: usize, all: usize, got: &AtomicUsize) -> Delivered {
    let mut client = server.client();
    client.set_timeout(Duration::from_secs(120));
    let name = format!("c{n}");
    // Some clients wait for two streams in different shards.
    let mut keys = vec![format!("s{}", n % streams)];
    if n % 4 == 3 {
        keys.push(format!("s{}", (n * 7 + 1) % streams));
    }
    keys.dedup();
    let marks = vec![">"; keys.len()].join(" ");
    let read = format!(
        "XREADGROUP GROUP g {name} COUNT {} BLOCK 300 STREAMS {} {marks}",
        1 + n % 3,
        keys.join(" ")
    );
    let mut mine = Vec::new();
    while got.load(Ordering::SeqCst) < all {
        let reply = ask(&mut client, &read);
        if reply.is_null() {
            continue;
        }
        for stream in reply.items() {
            let key = stream.items()[0].text();
            let mut ack = vec!["XACK".to_string(), key.clone(), "g".to_string()];
            for entry in stream.items()[1].items() {
                let id = entry.items()[0].text();
                ack.push(id.clone());
                mine.push((key.clone(), id));
            }
            let done = client.cmd(&ack).int() as usize;
            assert_eq!(done, ack.len() - 3, "a delivered entry is pending for its consumer only");
            got.fetch_add(done, Ordering::SeqCst);
        }
    }
    mine
}

fn number(id: &str) -> (u64, u64) {
    let (ms, seq) = id.split_once('-').expect("an id");
    (ms.parse().expect("a number"), seq.parse().expect("a number"))
}

#[test]
fn every_entry_is_delivered_once_and_in_order() {
    let clients = env_or("GROUPS_CLIENTS", 60usize);
    let streams = env_or("GROUPS_STREAMS", 10usize);
    let writers = env_or("GROUPS_WRITERS", 5usize);
    let entries = env_or("GROUPS_ENTRIES", 5_000usize);
    let server = Server::weft(&THREADS);
    let mut maker = server.client();
    for n in 0..streams {
        ask(&mut maker, &format!("XGROUP CREATE s{n} g 0 MKSTREAM"));
    }
    let (added, got) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let mut delivered = Vec::new();
    std::thread::scope(|scope| {
        let (server, added, got) = (&server, &added, &got);
        let thread = || std::thread::Builder::new().stack_size(256 << 10);
        let consumers: Vec<_> = (0..clients)
            .map(|n| {
                let run = move || consume(server, n, streams, entries, got);
                thread().spawn_scoped(scope, run).expect("a thread")
            })
            .collect();
        for _ in 0..writers {
            let run = move || {
                let mut client = server.client();
                loop {
                    let n = added.fetch_add(1, Ordering::SeqCst);
                    if n >= entries {
                        return;
                    }
                    let id = ask(&mut client, &format!("XADD s{} * f {n}", n % streams));
                    assert_eq!(id.error(), None);
                }
            };
            thread().spawn_scoped(scope, run).expect("a thread");
        }
        for consumer in consumers {
            delivered.push(consumer.join().expect("no consumer panics"));
        }
    });
    let mut once: HashMap<&str, HashSet<&str>> = HashMap::new();
    for mine in &delivered {
        let mut last: HashMap<&str, (u64, u64)> = HashMap::new();
        for (key, id) in mine {
            assert!(once.entry(key).or_default().insert(id), "{id} of {key} came twice");
            let before = last.insert(key, number(id));
            assert!(
                before.is_none_or(|before| before < number(id)),
                "{key}: {id} after {before:?}"
            );
        }
    }
    assert_eq!(once.values().map(HashSet::len).sum::<usize>(), entries);
    for n in 0..streams {
        let key = format!("s{n}");
        let there = ask(&mut maker, &format!("XRANGE {key} - +"));
        let ids: HashSet<String> = there.items().iter().map(|e| e.items()[0].text()).collect();
        let none = HashSet::new();
        let got: HashSet<String> =
            once.get(&key[..]).unwrap_or(&none).iter().map(|id| id.to_string()).collect();
        assert_eq!(ids, got, "{key}");
        let groups = ask(&mut maker, &format!("XINFO GROUPS {key}"));
        let group = &groups.items()[0];
        for (field, expected) in [("pending", 0), ("lag", 0), ("entries-read", ids.len() as i64)] {
            assert_eq!(group.field(field).map(Value::int), Some(expected), "{key}: {field}");
        }
    }
}

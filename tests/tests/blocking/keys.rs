//! Clients blocked on keys: which client gets which element, in which order, and which elements
//! remain.
//!
//! | variable | meaning |
//! |---|---|
//! | `BLOCKING_CLIENTS` | clients of the large test, default 100 |
//! | `BLOCKING_LISTS` | lists of it, default 20 |
//! | `BLOCKING_ELEMENTS` | elements of the large test, default 20,000 |

use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use weft_testkit::{Client, Server};
use weft_tests::env_or;

/// All threads serve connections, as under load.
const THREADS: [&str; 4] = ["--io-threads", "4", "--io-threads-always-active", "yes"];

/// Sends a command without reading its reply.
fn send(client: &mut Client, args: &[&str]) {
    client.send_raw(&weft_testkit::client::encode(args)).expect("the server reads");
}

fn reply(client: &mut Client) -> String {
    format!("{:?}", client.read_reply().expect("the server answers").value)
}

fn texts(client: &mut Client) -> Vec<String> {
    client.read_reply().expect("a reply").value.items().iter().map(|v| v.text()).collect()
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

#[test]
fn clients_on_all_threads_are_served_in_order_of_arrival() {
    let server = Server::weft(&THREADS);
    let mut maker = server.client();
    let mut waiters: Vec<Client> = (0..12).map(|_| server.client()).collect();
    for (n, waiter) in waiters.iter_mut().enumerate() {
        send(waiter, &["BLPOP", "l", "other", "0"]);
        until_blocked(&mut maker, n + 1);
    }
    let values: Vec<String> = (0..12).map(|n| n.to_string()).collect();
    let mut push = vec!["RPUSH", "l"];
    push.extend(values.iter().map(String::as_str));
    assert_eq!(maker.cmd(&push).int(), 12);
    assert_eq!(
        maker.cmd(&["EXISTS", "l"]).int(),
        0,
        "the waiters take all elements before the pusher continues"
    );
    for (waiter, value) in waiters.iter_mut().zip(&values) {
        assert_eq!(texts(waiter), ["l", value]);
    }
}

#[test]
fn chained_moves_cross_shards_and_skip_keys_of_the_wrong_type() {
    let server = Server::weft(&THREADS);
    let mut maker = server.client();
    let (mut a, mut b, mut c) = (server.client(), server.client(), server.client());
    send(&mut a, &["BLMOVE", "first", "second", "LEFT", "RIGHT", "0"]);
    until_blocked(&mut maker, 1);
    send(&mut b, &["BLMOVE", "second", "third", "LEFT", "RIGHT", "0"]);
    until_blocked(&mut maker, 2);
    send(&mut c, &["BLPOP", "third", "0"]);
    until_blocked(&mut maker, 3);
    maker.ok(&["SET", "second", "a string"]);
    maker.cmd(&["ZADD", "third", "1", "m"]);
    until_blocked(&mut maker, 3);
    maker.cmd(&["DEL", "second", "third"]);
    maker.cmd(&["RPUSH", "first", "x"]);
    assert_eq!(reply(&mut a), reply(&mut b));
    assert_eq!(texts(&mut c), ["third", "x"]);
    assert_eq!(maker.cmd(&["DBSIZE"]).int(), 0);
}

#[test]
fn transaction_completes_before_blocked_clients_are_served() {
    let server = Server::weft(&THREADS);
    let (mut maker, mut waiter) = (server.client(), server.client());
    send(&mut waiter, &["BLPOP", "l", "0"]);
    until_blocked(&mut maker, 1);
    maker.ok(&["MULTI"]);
    for command in [&["RPUSH", "l", "a"][..], &["DEL", "l"], &["RPUSH", "l", "b"]] {
        maker.cmd(command);
    }
    assert_eq!(maker.cmd(&["EXEC"]).items().len(), 3);
    assert_eq!(texts(&mut waiter), ["l", "b"]);
    // Blocking commands do not block within a transaction.
    maker.ok(&["MULTI"]);
    maker.cmd(&["BLPOP", "l", "0"]);
    assert!(maker.cmd(&["EXEC"]).items()[0].is_null());
}

#[test]
fn wait_ends_by_timeout_unblock_and_other_commands_that_create_the_key() {
    let server = Server::weft(&THREADS);
    let (mut maker, mut waiter) = (server.client(), server.client());
    let id = waiter.cmd(&["CLIENT", "ID"]).int().to_string();
    assert!(waiter.cmd(&["BLPOP", "l", "0.01"]).is_null());
    assert!(waiter.cmd(&["BZPOPMIN", "z", "0.01"]).is_null());
    for (how, expected) in [("TIMEOUT", "NullArray"), ("ERROR", "UNBLOCKED client unblocked")] {
        send(&mut waiter, &["BLPOP", "l", "0"]);
        until_blocked(&mut maker, 1);
        assert_eq!(maker.cmd(&["CLIENT", "UNBLOCK", &id, how]).int(), 1);
        let got = reply(&mut waiter);
        assert!(got.contains(expected) || got.contains("85, 78, 66"), "{got}");
        assert_eq!(maker.cmd(&["CLIENT", "UNBLOCK", &id, how]).int(), 0);
    }
    let ways: [&[&[&str]]; 4] = [
        &[&["RPUSH", "x", "1"], &["RENAME", "x", "l"]],
        &[&["RPUSH", "x", "1"], &["COPY", "x", "l"], &["DEL", "x"]],
        &[&["SELECT", "1"], &["RPUSH", "l", "1"], &["MOVE", "l", "0"], &["SELECT", "0"]],
        &[&["SELECT", "1"], &["RPUSH", "l", "1"], &["SWAPDB", "0", "1"], &["SELECT", "0"]],
    ];
    for way in ways {
        send(&mut waiter, &["BLPOP", "l", "0"]);
        until_blocked(&mut maker, 1);
        for command in way {
            assert_eq!(maker.cmd(command).error(), None, "{command:?}");
        }
        assert_eq!(texts(&mut waiter), ["l", "1"], "{way:?}");
    }
}

#[test]
fn closed_client_takes_nothing() {
    let mut server = Server::weft(&THREADS);
    let mut maker = server.client();
    for n in 0..8 {
        let mut waiter = server.client();
        send(&mut waiter, &["BLPOP", "l", "0"]);
        until_blocked(&mut maker, 1);
        if n % 2 == 0 {
            let id = waiter_id(&mut maker);
            maker.cmd(&["CLIENT", "KILL", "ID", &id]);
        }
        drop(waiter);
        until_blocked(&mut maker, 0);
        assert_eq!(maker.cmd(&["RPUSH", "l", "x"]).int(), 1, "no client takes the element");
        maker.cmd(&["DEL", "l"]);
    }
    assert!(server.is_alive());
}

fn waiter_id(maker: &mut Client) -> String {
    let list = maker.cmd(&["CLIENT", "LIST"]).text();
    let line = list.lines().find(|l| l.contains("cmd=blpop")).expect("a blocked client");
    line.split([' ', '=']).nth(1).expect("an id").to_string()
}

/// Many blocked clients on few lists, pushers on other threads. Each element is delivered once,
/// each client gets a pusher's elements in order, no client stays blocked next to an element, and
/// memory returns to its level.
#[test]
fn every_element_is_delivered_once() {
    let waiters = env_or("BLOCKING_CLIENTS", 100usize);
    let lists = env_or("BLOCKING_LISTS", 20usize);
    let elements = env_or("BLOCKING_ELEMENTS", 20_000usize);
    let server = Server::weft(&THREADS);
    let before = used_memory(&server);
    let (pushed, taken) = (AtomicUsize::new(0), Mutex::new(HashMap::<String, usize>::new()));
    std::thread::scope(|scope| {
        for n in 0..waiters {
            let (server, taken) = (&server, &taken);
            scope.spawn(move || {
                let mine = take_until_end(server, &format!("l{}", n % lists));
                let mut taken = taken.lock().unwrap();
                mine.into_iter().for_each(|v| *taken.entry(v).or_default() += 1);
            });
        }
        let pushers: Vec<_> = (0..4)
            .map(|pusher| {
                let (server, pushed) = (&server, &pushed);
                scope.spawn(move || {
                    let mut client = server.client();
                    loop {
                        let n = pushed.fetch_add(10, Ordering::Relaxed);
                        if n >= elements {
                            return;
                        }
                        let push = |n| {
                            let (list, value) =
                                (format!("l{}", n % lists), format!("{pusher} {n}"));
                            vec!["RPUSH".into(), list, value]
                        };
                        let batch: Vec<Vec<String>> =
                            (n..(n + 10).min(elements)).map(push).collect();
                        client.pipeline(&batch).expect("the server answers");
                    }
                })
            })
            .collect();
        pushers.into_iter().for_each(|p| p.join().unwrap());
        let mut client = server.client();
        for n in 0..waiters {
            client.cmd(&["RPUSH", &format!("l{}", n % lists), "end"]);
        }
    });
    let taken = taken.into_inner().unwrap();
    assert_eq!(taken.len(), elements);
    assert!(taken.values().all(|n| *n == 1), "an element was delivered twice");
    assert_eq!(server.client().cmd(&["DBSIZE"]).int(), 0);
    until_blocked(&mut server.client(), 0);
    let after = used_memory(&server);
    println!(
        "{elements} elements to {waiters} clients; used_memory {before} before, {after} after"
    );
    assert!(after < before + (4 << 20), "used_memory {before} before, {after} after");
}

/// Collects the elements that a client pops from `list` until it pops `end`.
fn take_until_end(server: &Server, list: &str) -> Vec<String> {
    let mut client = server.client();
    client.set_timeout(Duration::from_secs(60));
    let mut mine = Vec::new();
    let mut last = HashMap::<String, usize>::new();
    loop {
        let value = client.cmd(&["BLPOP", list, "0"]).items()[1].text();
        let Some((pusher, n)) = value.split_once(' ') else {
            assert_eq!(value, "end");
            return mine;
        };
        let n = n.parse().expect("a number");
        let before = last.insert(pusher.to_string(), n);
        assert!(before.is_none_or(|before| before < n), "{list}: {n} after {before:?}");
        mine.push(value);
    }
}

fn used_memory(server: &Server) -> u64 {
    let info = server.client().cmd(&["INFO", "memory"]).text();
    let line = info.lines().find_map(|line| line.strip_prefix("used_memory:"));
    line.expect("used_memory in INFO").trim().parse().expect("a number")
}

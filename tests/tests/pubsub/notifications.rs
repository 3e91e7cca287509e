//! Keyspace notifications from all sources: commands, transactions, unblocked clients, the slow
//! lane, expiry and eviction.
//! Most tests also run against the reference, to prove that their expectations are right.
//! `differential.rs` compares the notifications of each command.

use std::thread;
use std::time::Duration;
use weft_testkit::value::Value;
use weft_testkit::{Client, Server, skip_without};

/// DEBUG switches active expiry.
const ARGS: [&str; 2] = ["--enable-debug-command", "yes"];

/// All threads serve connections, as under load.
const THREADS: [&str; 4] = ["--io-threads", "4", "--io-threads-always-active", "yes"];

/// Runs `check` against this server and against the reference.
fn on_both(test: &str, check: fn(&Server)) {
    check(&Server::weft(&[&ARGS[..], &THREADS[..]].concat()));
    let reference = Server::valkey(&ARGS);
    if !skip_without(test, &reference, "valkey-server") {
        check(&reference.expect("not skipped"));
    }
}

/// A subscriber to all notifications.
struct Listener {
    client: Client,
    marker: Client,
}

impl Listener {
    /// Subscribes to these classes of notifications.
    fn open(server: &Server, classes: &str) -> Listener {
        let mut marker = server.client();
        marker.ok(&["CONFIG", "SET", "notify-keyspace-events", classes]);
        let mut client = server.client();
        client.cmd(&["PSUBSCRIBE", "__key*@*__:*"]);
        client.cmd(&["SUBSCRIBE", "mark"]);
        Listener { client, marker }
    }

    /// The next message: the channel without its underscores, and the text.
    fn next(&mut self) -> Option<String> {
        let frame = self.client.read_frame().expect("a message").value;
        let (Value::Array(words) | Value::Push(words)) = frame else { panic!("no message") };
        let said = words.last().expect("a message has words").text();
        match words.len() {
            4 => Some(format!("{} {said}", words[2].text().replace("__", ""))),
            _ => None,
        }
    }

    /// All messages received so far.
    fn received(&mut self) -> Vec<String> {
        self.marker.cmd(&["PUBLISH", "mark", ""]);
        std::iter::from_fn(|| self.next()).collect()
    }

    /// Waits for messages until `last` arrives.
    fn until(&mut self, last: &str) -> Vec<String> {
        let mut received = Vec::new();
        while received.last().is_none_or(|message| message != last) {
            received.extend(self.next());
        }
        received
    }
}

/// Runs a command given as one line.
fn run(client: &mut Client, line: &str) -> Value {
    client.cmd(&line.split(' ').collect::<Vec<_>>())
}

#[test]
fn key_channel_is_notified_before_the_event_channel() {
    on_both("key_channel_is_notified_before_the_event_channel", |server| {
        let mut client = server.client();
        let mut listener = Listener::open(server, "KEA");
        run(&mut client, "SELECT 3");
        run(&mut client, "SET a 1 EX 100");
        assert_eq!(
            listener.received(),
            ["keyspace@3:a set", "keyevent@3:set a", "keyspace@3:a expire", "keyevent@3:expire a"]
        );
        for (classes, expected) in [
            ("Kg", &["keyspace@3:a del"][..]),
            ("E$n", &["keyevent@3:new a", "keyevent@3:set a"]),
            ("g$n", &[]),
            ("", &[]),
        ] {
            client.ok(&["CONFIG", "SET", "notify-keyspace-events", classes]);
            run(&mut client, "DEL a");
            run(&mut client, "SET a 1");
            assert_eq!(listener.received(), expected, "{classes}");
        }
        // A change of the classes takes effect from the next command on, also within a transaction.
        client.ok(&["MULTI"]);
        for line in ["DEL a", "CONFIG SET notify-keyspace-events Eg", "SET a 1", "DEL a"] {
            run(&mut client, line);
        }
        run(&mut client, "EXEC");
        assert_eq!(listener.received(), ["keyevent@3:del a"]);
    });
}

#[test]
fn key_misses_and_new_keys_are_notified() {
    on_both("key_misses_and_new_keys_are_notified", |server| {
        let mut client = server.client();
        let mut listener = Listener::open(server, "Emn");
        for line in ["GET a", "SET a 1", "SET a 2", "MGET a b", "LPOP c", "HSET h f v"] {
            run(&mut client, line);
        }
        assert_eq!(
            listener.received(),
            [
                "keyevent@0:keymiss a",
                "keyevent@0:new a",
                "keyevent@0:keymiss b",
                "keyevent@0:new h"
            ]
        );
    });
}

#[test]
fn expired_key_is_notified_once() {
    on_both("expired_key_is_notified_once", |server| {
        let mut client = server.client();
        let mut listener = Listener::open(server, "Exmg");
        client.ok(&["DEBUG", "SET-ACTIVE-EXPIRE", "0"]);
        run(&mut client, "SET a 1 PX 1");
        thread::sleep(Duration::from_millis(10));
        assert_eq!(listener.received(), ["keyevent@0:expire a"]);
        run(&mut client, "GET a");
        run(&mut client, "GET a");
        assert_eq!(
            listener.received(),
            ["keyevent@0:expired a", "keyevent@0:keymiss a", "keyevent@0:keymiss a"]
        );
        run(&mut client, "SELECT 2");
        run(&mut client, "SET b 1 PX 1");
        client.ok(&["DEBUG", "SET-ACTIVE-EXPIRE", "1"]);
        assert_eq!(listener.until("keyevent@2:expired b").len(), 2);
        assert!(listener.received().is_empty());
        run(&mut client, "SET b 1 EX 100");
        run(&mut client, "EXPIRE b -1");
        assert_eq!(listener.received(), ["keyevent@2:expire b", "keyevent@2:expired b"]);
    });
}

#[test]
fn expired_fields_are_notified() {
    on_both("expired_fields_are_notified", |server| {
        let mut client = server.client();
        let mut listener = Listener::open(server, "Ex");
        run(&mut client, "HSET h a 1 b 2 c 3");
        run(&mut client, "HPEXPIRE h 1 FIELDS 1 a");
        assert_eq!(listener.until("keyevent@0:hexpired h").len(), 1);
        client.ok(&["CONFIG", "SET", "notify-keyspace-events", "Eghx"]);
        run(&mut client, "HSET h a 1");
        run(&mut client, "HPEXPIRE h 1 FIELDS 2 a b");
        assert_eq!(listener.until("keyevent@0:hexpired h").len(), 3, "hset, hexpire, hexpired");
        run(&mut client, "HPEXPIRE h 1 FIELDS 1 c");
        assert_eq!(
            listener.until("keyevent@0:del h"),
            ["keyevent@0:hexpire h", "keyevent@0:hexpired h", "keyevent@0:del h"]
        );
    });
}

#[test]
fn evicted_keys_are_notified() {
    on_both("evicted_keys_are_notified", |server| {
        let mut client = server.client();
        let mut listener = Listener::open(server, "Ee");
        client.ok(&["CONFIG", "SET", "maxmemory-policy", "allkeys-random"]);
        let value = "v".repeat(1000);
        for n in 0..2000 {
            client.ok(&["SET", &format!("k{n}"), &value]);
        }
        assert!(listener.received().is_empty());
        let info = client.cmd(&["INFO", "memory"]).text();
        let used = info.lines().find_map(|line| line.strip_prefix("used_memory:"));
        let used: usize = used.expect("used_memory in INFO").trim().parse().expect("a number");
        client.ok(&["CONFIG", "SET", "maxmemory", &(used - 500_000).to_string()]);
        for n in 0..50 {
            client.cmd(&["SET", &format!("late{n}"), "v"]);
        }
        client.ok(&["CONFIG", "SET", "maxmemory", "0"]);
        let received = listener.received();
        let info = client.cmd(&["INFO", "stats"]).text();
        assert!(received.len() > 100, "{}", received.len());
        assert!(info.contains(&format!("evicted_keys:{}\r\n", received.len())), "{info}");
        for message in &received {
            let key = message.strip_prefix("keyevent@0:evicted ").expect("an eviction");
            // A late key may be written again after its eviction.
            if key.starts_with('k') {
                assert_eq!(client.cmd(&["EXISTS", key]).int(), 0, "{key}");
            }
        }
    });
}

#[test]
fn notifications_of_a_transaction_are_in_order_of_execution() {
    on_both("notifications_of_a_transaction_are_in_order_of_execution", |server| {
        let mut client = server.client();
        let mut listener = Listener::open(server, "EAm");
        client.ok(&["MULTI"]);
        for line in ["SET a 1", "GET b", "PUBLISH __keyevent@0__:mine between", "DEL a", "INCR a x"]
        {
            run(&mut client, line);
        }
        run(&mut client, "EXEC");
        assert!(listener.received().is_empty(), "the transaction had an error and did not run");
        client.ok(&["MULTI"]);
        for line in ["SET a 1", "GET b", "PUBLISH __keyevent@0__:mine between", "DEL a"] {
            run(&mut client, line);
        }
        run(&mut client, "EXEC");
        assert_eq!(
            listener.received(),
            [
                "keyevent@0:set a",
                "keyevent@0:keymiss b",
                "keyevent@0:mine between",
                "keyevent@0:del a"
            ]
        );
    });
}

/// Waits until exactly `n` clients are blocked.
fn until_blocked(client: &mut Client, n: usize) {
    while !client.cmd(&["INFO", "clients"]).text().contains(&format!("blocked_clients:{n}\r\n")) {
        thread::sleep(Duration::from_millis(2));
    }
}

#[test]
fn unblocked_clients_notify_after_the_command_that_served_them() {
    on_both("unblocked_clients_notify_after_the_command_that_served_them", |server| {
        let (mut maker, mut mover, mut taker) = (server.client(), server.client(), server.client());
        let mut listener = Listener::open(server, "EA");
        let send = |client: &mut Client, line: &str| {
            let words: Vec<&str> = line.split(' ').collect();
            client.send_raw(&weft_testkit::client::encode(&words)).expect("the server reads");
        };
        send(&mut mover, "BLMOVE {x}l {x}m LEFT RIGHT 0");
        until_blocked(&mut maker, 1);
        send(&mut taker, "BLPOP {x}m 0");
        until_blocked(&mut maker, 2);
        maker.ok(&["MULTI"]);
        run(&mut maker, "RPUSH {x}l a b");
        run(&mut maker, "SET {x}s 1");
        run(&mut maker, "EXEC");
        assert_eq!(
            listener.received(),
            [
                "keyevent@0:rpush {x}l",
                "keyevent@0:set {x}s",
                "keyevent@0:rpush {x}m",
                "keyevent@0:lpop {x}l",
                "keyevent@0:lpop {x}m",
                "keyevent@0:del {x}m"
            ]
        );
    });
}

#[test]
fn retry_in_the_slow_lane_notifies_once() {
    on_both("retry_in_the_slow_lane_notifies_once", |server| {
        let mut client = server.client();
        let members: Vec<String> = (0..50_000).map(|n| n.to_string()).collect();
        for part in members.chunks(1000) {
            let add = ["SADD", "large"].into_iter().chain(part.iter().map(String::as_str));
            client.cmd(&add.collect::<Vec<_>>());
        }
        client.ok(&["DEBUG", "SET-ACTIVE-EXPIRE", "0"]);
        run(&mut client, "SET old 1 PX 1");
        thread::sleep(Duration::from_millis(10));
        let mut listener = Listener::open(server, "EAmn");
        assert_eq!(run(&mut client, "SUNIONSTORE d old missing large").int(), 50_000);
        assert_eq!(
            listener.received(),
            [
                "keyevent@0:expired old",
                "keyevent@0:keymiss old",
                "keyevent@0:keymiss missing",
                "keyevent@0:new d",
                "keyevent@0:sunionstore d"
            ]
        );
    });
}

/// Clients on all threads create and delete one key in transactions.
#[test]
fn notifications_of_a_key_are_in_order_of_execution() {
    const CLIENTS: usize = 8;
    const TIMES: usize = 500;
    let server = Server::weft(&THREADS);
    let mut listener = Listener::open(&server, "KAn");
    thread::scope(|scope| {
        for _ in 0..CLIENTS {
            let mut client = server.client();
            scope.spawn(move || {
                let words = |line: &str| line.split(' ').map(str::to_string).collect::<Vec<_>>();
                let lines = ["MULTI", "RPUSH k a", "LPUSH k b", "DEL k", "EXEC"].map(words);
                for _ in 0..TIMES {
                    client.pipeline(&lines).expect("replies");
                }
            });
        }
    });
    let received = listener.received();
    assert_eq!(received.len(), CLIENTS * TIMES * 4);
    for one in received.chunks(4) {
        let expected =
            ["new", "rpush", "lpush", "del"].map(|event| format!("keyspace@0:k {event}"));
        assert_eq!(one, expected);
    }
}
